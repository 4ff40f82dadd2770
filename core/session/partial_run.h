// SPDX-License-Identifier: Apache-2.0
// PartialRun: a step whose feeds arrive in several calls, which stands still while they are missing. One call at a
// time.
//
// In its plan a feed is a receive and a fetch a send, of channels on which the step meets the callers (rendezvous.h). A
// call sends what it feeds, and drives the step until nothing can run that has not: so each node runs once, and
// branches, loops and what lives as long as the step go over calls. With the last feed the step runs to its end. Over a
// cluster the step stands at its tasks, and calls go there (net/cluster).
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/session/callers_meeting.h"
#include "core/session/partial_run_plan.h"
#include "core/session/session.h"

namespace tenon::session {

class PartialRun {
 public:
  // Nothing runs yet.
  static Result<std::unique_ptr<PartialRun>> Setup(std::shared_ptr<Session> session,
                                                   const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches,
                                                   const std::vector<std::string_view>& targets);
  ~PartialRun();
  PartialRun(const PartialRun&) = delete;
  PartialRun& operator=(const PartialRun&) = delete;

  // Feeds some of what was declared, and gives fetches that need nothing else. What is refused before anything has run
  // (a name that was not declared, a feed of another type, FAILED_PRECONDITION: a fetch needs a feed that is open)
  // loses nothing; any other failure ends the run, and calls say so then.
  Status Step(const RunOptions& options, const std::vector<std::string_view>& feed_names,
              const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
              std::vector<Tensor>* out_fetches);

 private:
  PartialRun(std::shared_ptr<Session> session, std::shared_ptr<const PartialRunPlan> plan);
  // out_runs: whether something has begun to run, so that a failure is the end.
  Status Call(const RunOptions& options, const std::vector<std::string_view>& feed_names,
              const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
              std::vector<Tensor>* out_fetches, bool* out_runs);
  // The channels of what is fed now, checked.
  Result<std::vector<int32_t>> FindFeeds(const std::vector<std::string_view>& names,
                                         const tenon_tensor_view* const* feeds) const;
  Result<std::vector<int32_t>> FindFetches(const std::vector<std::string_view>& names) const;
  // FAILED_PRECONDITION: what is asked for needs a feed that is not there.
  Status CheckNeeds(const std::vector<int32_t>& fetches, const std::set<int32_t>& fed);
  Status Send(const std::vector<int32_t>& channels, const tenon_tensor_view* const* feeds);
  Status Take(const std::vector<int32_t>& fetches, std::vector<Tensor>* out);
  Result<Tensor> Receive(int32_t channel);
  int32_t ChannelOf(int32_t fetch) const { return plan_->fetch_channels[static_cast<size_t>(fetch)]; }

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<const PartialRunPlan> plan_;
  std::vector<std::string> channel_names_;
  CallersMeeting rendezvous_;
  std::unique_ptr<StepInGoes> step_;
  std::set<int32_t> fed_;           // channels
  std::set<int32_t> given_;         // fetches, by their numbers
  std::map<int32_t, Tensor> kept_;  // by channel: what has been taken of it, for other fetches that are of the same
  graph::NodeMap<bool> can_run_;    // nodes whose feeds have all come
  Status ended_;                    // why, once it has with an error
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_H_
