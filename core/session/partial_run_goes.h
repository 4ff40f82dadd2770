// SPDX-License-Identifier: Apache-2.0
// PartialRunGoes: a partial run as one step that stands still while feeds are missing.
//
// In its plan a feed is a receive and a fetch a send, of channels on which the step meets the callers (rendezvous.h). A call sends what it feeds, and
// drives the step until nothing can run that has not: so each node runs once, and branches, loops and what lives as long as the step go
// over calls. With the last feed the step runs to its end.
#ifndef TENON_CORE_SESSION_PARTIAL_RUN_GOES_H_
#define TENON_CORE_SESSION_PARTIAL_RUN_GOES_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/exec/exchange/rendezvous.h"
#include "core/session/partial_run.h"
#include "core/session/partial_run_plan.h"

namespace tenon::session {

class PartialRunGoes final : public PartialRun {
 public:
  static Result<std::unique_ptr<PartialRun>> Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches, const std::vector<std::string_view>& targets);
  ~PartialRunGoes() override;

 private:
  PartialRunGoes(std::shared_ptr<Session> session, std::shared_ptr<const PartialRunPlan> plan);
  Status Call(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
              const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches, bool* out_runs) override;
  // The channels of what is fed now, checked.
  Result<std::vector<int32_t>> FindFeeds(const std::vector<std::string_view>& names, const tenon_tensor_view* const* feeds) const;
  Result<std::vector<int32_t>> FindFetches(const std::vector<std::string_view>& names) const;
  // FAILED_PRECONDITION: what is asked for needs a feed that is not there.
  Status CheckNeeds(const std::vector<int32_t>& fetches, const std::set<int32_t>& fed);
  Status Send(const std::vector<int32_t>& channels, const tenon_tensor_view* const* feeds);
  Result<Tensor> Receive(int32_t channel);
  Status Take(const std::vector<int32_t>& fetches, std::vector<Tensor>* out);

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<const PartialRunPlan> plan_;
  std::vector<std::string> channel_names_;
  exec::Rendezvous rendezvous_;
  std::unique_ptr<StepInGoes> step_;
  std::set<int32_t> fed_;              // channels
  std::set<int32_t> given_;            // numbers of fetches
  std::map<int32_t, Result<Tensor>> received_;  // by channel, while another of its fetches may be asked for
  graph::NodeMap<bool> can_run_;       // nodes whose feeds have all come
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PARTIAL_RUN_GOES_H_
