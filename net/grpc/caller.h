// SPDX-License-Identifier: Apache-2.0
// Caller: a connection being made, and what the two sides say to each other first.
//
// The connecting side's metadata has the version and, where it has one, the token; the listener's first metadata has
// its version, and says with it that the pipe was let in.
#ifndef TENON_NET_GRPC_CALLER_H_
#define TENON_NET_GRPC_CALLER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "stream.h"

namespace tenon::grpc_net {

inline constexpr char kTokenKey[] = "tenon-token-bin";
inline constexpr char kVersionKey[] = "tenon-pipe";
inline constexpr char kVersion[] = "1";

inline Time TimeOf(uint64_t deadline_ns) {
  if (deadline_ns == 0 || deadline_ns > INT64_MAX) return Time::max();
  return Time(std::chrono::nanoseconds(deadline_ns));  // CLOCK_MONOTONIC is its clock
}

// A connection being made: the stream begins, and the listener's first metadata says that it was let in.
class Caller final {
 public:
  Caller(std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue* queue, const std::string& token)
      : queue_(queue), stream_(std::make_unique<ClientStream>(std::move(channel), queue)) {
    stream_->context().AddMetadata(kVersionKey, kVersion);
    if (!token.empty()) stream_->context().AddMetadata(kTokenKey, token);
    stream_->Begin(&begun_);
  }
  // True: it stands.
  bool Wait(uint64_t deadline_ns, bool* late) {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return state_ != State::kWaiting; };
    *late = !Await(queue_, lock, changed_, TimeOf(deadline_ns), ended);
    if (*late) stream_->Cancel();
    Await(queue_, lock, changed_, Time::max(), ended);
    return state_ == State::kStands;
  }
  std::unique_ptr<ClientStream> Take() { return std::move(stream_); }
  const ClientStream& stream() const { return *stream_; }

 private:
  enum class State { kWaiting, kStands, kFailed };
  void Begun(bool ok) {
    if (ok) {
      stream_->ReadMetadata(&read_);
    } else {
      stream_->Finish(&finished_);
    }
  }
  void HasRead(bool ok) {
    const auto& context = stream_->context();
    if (ok && context.GetServerInitialMetadata().count(kVersionKey) != 0) return Become(State::kStands);
    stream_->Finish(&finished_);  // refused; a stranger that says nothing more is waited for until the deadline
  }
  void Finished(bool) { Become(State::kFailed); }
  void Become(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }

  grpc::CompletionQueue* queue_;
  std::unique_ptr<ClientStream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kWaiting;
  MemberOperation<Caller, &Caller::Begun> begun_{this};
  MemberOperation<Caller, &Caller::HasRead> read_{this};
  MemberOperation<Caller, &Caller::Finished> finished_{this};
};

}  // namespace tenon::grpc_net
#endif  // TENON_NET_GRPC_CALLER_H_
