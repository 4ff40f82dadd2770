// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/peers.h"

#include "core/base/clock.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

constexpr uint64_t kMasterSilenceNs = 3'000'000'000;  // that did not say
// This task itself stood still: no answer can be said to be missing.
constexpr uint64_t kLateNs = 1'000'000'000;

std::string Name(const Task& peer) { return StrCat("task ", peer.name(), " at ", peer.address()); }

}  // namespace

Result<uint64_t> Peers::Incarnation(Connection& connection, uint64_t deadline_ns) const {
  PingReply answer;
  TENON_RETURN_IF_ERROR(cluster::Ask(connection, kMethodPing, SessionRequest(), deadline_ns, &answer));
  return answer.incarnation();
}

uint64_t Peers::PatienceOf(uint64_t silence_ns) {
  const uint64_t silence = silence_ns == 0 ? kMasterSilenceNs : silence_ns;
  return silence - silence / 6;
}

Status Peers::Verify(const Task& peer, uint64_t patience_ns) {
  if (Planted(Bug::kPeerNotVerified)) return Status::Ok();
  Status last;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const uint64_t deadline = NowNs() + patience_ns;
    auto connection = network_->Connect(peer.address(), deadline);
    if (!connection.ok()) return std::move(connection).status().Annotate(Name(peer));
    uint64_t found = (*connection)->incarnation();
    if (found == 0) {
      auto answer = Incarnation(**connection, deadline);
      if (answer.ok()) {
        found = *answer;
        (*connection)->set_incarnation(found);
      }
      last = answer.ok() ? Status::Ok() : std::move(answer).status();
    }
    if (found == peer.incarnation()) return Status::Ok();
    if (found != 0) last = Status(Code::kAborted, "it has been started again");
    network_->Forget(*connection);
  }
  return std::move(last).Annotate(Name(peer));
}

void Peers::Look(const std::map<std::string, Busy>& busy, uint64_t now_ns) {
  if (Planted(Bug::kPeersNotWatched)) return;
  std::vector<Busy> to_ask, silent;
  {
    const std::lock_guard lock(mutex_);
    const bool late = now_ns > looked_ns_ + kLateNs;
    looked_ns_ = now_ns;
    for (const auto& [address, peer] : busy) {
      uint64_t& asked_ns = asked_ns_[address];
      if (asked_ns == 0) {
        to_ask.push_back(peer);
      } else if (!late) {
        if (now_ns > asked_ns + peer.patience_ns) silent.push_back(peer);
        continue;
      }
      asked_ns = now_ns;
    }
  }
  for (const Busy& one : to_ask) later_([this, one] { Ask(one); });
  for (const Busy& one : silent)
    Answered(one.peer,
             Status(Code::kDeadlineExceeded, StrCat("it has not answered for ", one.patience_ns / 1'000'000, " ms")));
}

void Peers::Ask(const Busy& one) {
  const Task& peer = one.peer;
  auto connection = network_->Connect(peer.address(), NowNs() + 2 * one.patience_ns);
  if (!connection.ok()) return Answered(peer, connection.status());
  auto packet = std::make_shared<OutPacket>();
  packet->Finish(SessionRequest());
  (*connection)
      ->Call(kMethodPing, packet->pieces(), NowNs() + 2 * one.patience_ns,
             [this, peer, packet](Status status, tenon_span) { Answered(peer, status); });
}

void Peers::Answered(const Task& peer, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(asked_ns_[peer.address()], 0) == 0 && !status.ok()) return;  // told already
  }
  if (status.ok()) return;
  network_->Forget(peer.address());
  silent_(peer.address(), status.message());
}

}  // namespace tenon::cluster
