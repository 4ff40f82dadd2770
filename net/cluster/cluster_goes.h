// SPDX-License-Identifier: Apache-2.0
// ClusterGoes: a step of a cluster's plan in several goes (core/session/partial_run.h).
//
// The call "run" to each task stays open as long as its part does: its answer is the part's end. In between, "go"
// brings a part what callers feed, and fetches what they want, as soon as it is made. Then the parts stand still, and
// the step does when no value is on its way either: each part tells what it has sent and received, and twice the same
// that adds up means that nothing has moved. While kernels run, what is wanted is waited for, and no more.
#ifndef TENON_NET_CLUSTER_CLUSTER_GOES_H_
#define TENON_NET_CLUSTER_CLUSTER_GOES_H_

#include <memory>
#include <vector>

#include "core/exec/exchange/rendezvous.h"
#include "core/session/callers_meeting.h"
#include "net/cluster/cluster_run.h"

namespace tenon::cluster {

class ClusterGoes final : public ClusterRun {
 public:
  using ClusterRun::ClusterRun;
  Status Go(exec::Step* step, const tenon_tensor_view* const* feeds) override;
  Status GoOn() override;
  bool stands_still() const override { return stands_still_; }

 private:
  // A call into a part.
  struct Asked {
    OutPacket packet;
    std::vector<exec::Message> feeds;
    uint64_t call = 0, called_ns = 0;
    bool done = false, over = false, elsewhere = false;
  };
  // What a part has sent to each of the others, and received from them.
  struct Moved {
    std::vector<uint64_t> sent;
    uint64_t received = 0;
    bool operator==(const Moved&) const = default;
  };
  session::CallersMeeting& meeting() const;
  // Asks each part that is not over, until all have answered. first: with what the call brings and wants.
  void Round(bool first);
  Status Ask(size_t part, bool first);
  Status AddFeeds(size_t part, Asked* asked, GoStep* head);
  // Whether the call wants it, and it has not come.
  bool IsLacking(int32_t channel) const;
  void Answered(size_t part, Status status, tenon_span response);
  Status TakeAnswer(size_t part, tenon_span response);
  // Whether another round would tell more.
  bool MayMove();
  uint64_t SentTo(size_t part) const;
  Status TakeValue(size_t part, const ChannelValue& value, InPacket* packet);
  template <class Answer>
  Status TakeSent(size_t part, const Answer& answer);
  Status TakeGiven(size_t part, const RunReply& reply, InPacket* packet) override;
  void CancelCalls() override;

  exec::Step* step_ = nullptr;
  bool stands_still_ = false;
  std::vector<std::unique_ptr<Asked>> asked_;  // of this round, by part; nullptr: it is over
  size_t asking_ = 0;
  bool patient_ = false;  // kernels run elsewhere, and what is wanted is not there
  std::vector<Moved> moved_, moved_before_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_GOES_H_
