// SPDX-License-Identifier: Apache-2.0
// OutgoingCalls: the calls of this side of a connection, and its sends: data that the other side takes or refuses.
//
// A call ends once: by its reply, its deadline, its cancellation or the loss of the connection, whichever comes first;
// what comes later finds no record and is dropped. Pieces that the pipe still holds when their call has ended are
// waited for; after kGrace the connection breaks, so that a frozen peer cannot keep a caller's memory.
#ifndef TENON_SDK_TRANSPORT_OUTGOING_CALLS_H_
#define TENON_SDK_TRANSPORT_OUTGOING_CALLS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/extras/transport/peer_link.h"

namespace tenon::sdk {

class OutgoingCalls;

// A call or a send. Its done is called by who finds that it is both settled (its outcome is known) and written (its
// pieces are no longer needed). Pooled; flags is anybody's, the lock of the calls guards the rest.
struct OpenCall {
  static constexpr uint32_t kWritten = 1, kSettled = 2;
  uint64_t id() const { return uint64_t{generation} << 32 | index; }

  OutgoingCalls* calls = nullptr;
  Timer timer;
  uint32_t index = 0;
  uint32_t generation = 1;
  bool used = false;
  std::atomic<uint32_t> flags{0};
  tenon_status* outcome = nullptr;
  MessageBuffer response;  // one that came before the pieces were written
  uint64_t response_bytes = 0;
  void (*call_done)(void* argument, tenon_status* status, tenon_span response) = nullptr;  // one of the two
  void (*send_done)(void* argument, tenon_status* status) = nullptr;
  void* argument = nullptr;
};

// Any thread, but for replies. One lock guards the records; no callback and no pipe is called under it.
class OutgoingCalls {
 public:
  static constexpr uint64_t kGrace = 1'000'000'000;  // nanoseconds

  // received: where bodies come, the pipe's reading thread's own. Both outlive it.
  OutgoingCalls(PeerLink* link, MessageBuffer* received) : link_(link), received_(received) {}
  OutgoingCalls(const OutgoingCalls&) = delete;
  OutgoingCalls& operator=(const OutgoingCalls&) = delete;

  // A status: nothing was sent, and done will not be called. Otherwise done is called once, from any thread and perhaps
  // before this returns. The pieces stay until then. RESOURCE_EXHAUSTED beyond max_message_bytes.
  [[nodiscard]] tenon_status* Call(const tenon_call_args& args, uint64_t* out_call);
  // The same of data with a key, which the other side takes or refuses.
  [[nodiscard]] tenon_status* Send(const tenon_send_args& args);
  // done comes from the keeper's thread.
  void Cancel(uint64_t id);

  // A reply, on the pipe's reading thread: memory for its body, which then is there or not.
  void* BeginReply(HeadReader* head, uint64_t bytes);
  void EndReply(bool complete);

  // On the keeper's thread. The other side is told, unless it is data, which it takes nevertheless.
  void GiveUp(uint64_t id, tenon_status* status);
  void GraceEnded(uint64_t id);
  // Once the connection is lost.
  void EndAll();

 private:
  // The reply that comes in.
  struct Reply {
    uint64_t id = 0, bytes = 0;
    bool taken = false;
  };
  template <class Fill>
  tenon_status* Open(uint64_t deadline_ns, OpenCall** out_call, Fill fill);
  void Add();
  OpenCall* Find(uint64_t id);
  // The call has its outcome, unless it had one. The response is in received_ (the pipe's thread) or empty.
  void Settle(uint64_t id, tenon_status* outcome, uint64_t response_bytes = 0);
  static void OnWritten(void* argument, bool);
  void CompleteLate(std::unique_lock<std::mutex>* guard, OpenCall* call);
  // Gives the record back and calls done. Unlocks.
  void Complete(std::unique_lock<std::mutex>* guard, OpenCall* call, const char* response);

  PeerLink* const link_;
  MessageBuffer* const received_;
  Reply reply_;  // the pipe's reading thread's own
  std::mutex lock_;
  std::vector<std::unique_ptr<OpenCall>> calls_;
  std::vector<OpenCall*> free_;
};

// ---- For the host ----

template <class Fill>
tenon_status* OutgoingCalls::Open(uint64_t deadline_ns, OpenCall** out_call, Fill fill) {
  if (PeerLink::Late(deadline_ns))
    return Failure(TENON_DEADLINE_EXCEEDED, "the deadline had passed before anything was sent to ", link_->name());
  const std::lock_guard guard(lock_);
  if (link_->loss().happened()) return link_->loss().Reason();
  if (free_.empty()) Add();
  OpenCall* call = free_.back();
  free_.pop_back();
  call->used = true;
  call->flags.store(0, std::memory_order_relaxed);
  call->call_done = nullptr;
  call->send_done = nullptr;
  fill(call);
  call->timer.id = call->id();
  if (deadline_ns != 0) link_->endpoint()->keeper.Arm(&call->timer, deadline_ns, LinkOwner::kDeadlineTimer);
  link_->endpoint()->Opened();
  *out_call = call;
  return nullptr;
}

inline tenon_status* OutgoingCalls::Call(const tenon_call_args& args, uint64_t* out_call) {
  HeadWriter head(FrameKind::kCall);
  OpenCall* call = nullptr;
  TENON_SDK_RETURN_IF_ERROR(
      link_->CheckRequest(args.pieces, args.piece_count, args.method.size, args.metadata, args.metadata_count));
  if (link_->endpoint()->draining) return link_->Draining();
  TENON_SDK_RETURN_IF_ERROR(Open(args.deadline_ns, &call, [&](OpenCall* record) {
    record->call_done = args.done;
    record->argument = args.argument;
  }));
  const uint64_t id = call->id();
  if (out_call != nullptr) *out_call = id;
  head.Number(id).Number(PeerLink::Timeout(args.deadline_ns)).Text(args.method);
  head.Metadata(args.metadata, args.metadata_count);
  link_->pipe().Write(head.view(), {args.pieces, args.piece_count}, OnWritten, call);
  return nullptr;
}

inline tenon_status* OutgoingCalls::Send(const tenon_send_args& args) {
  HeadWriter head(FrameKind::kData);
  OpenCall* call = nullptr;
  if (args.key.size > TENON_TRANSPORT_MAX_KEY) {
    return Failure(TENON_INVALID_ARGUMENT, "a key has ", args.key.size, " bytes; ", TENON_TRANSPORT_MAX_KEY,
                   " are the most");
  }
  TENON_SDK_RETURN_IF_ERROR(link_->CheckRequest(args.pieces, args.piece_count, args.header.size, nullptr, 0));
  TENON_SDK_RETURN_IF_ERROR(Open(args.deadline_ns, &call, [&](OpenCall* record) {
    record->send_done = args.done;
    record->argument = args.argument;
  }));
  head.Number(call->id()).Text(args.key).Text(args.header);
  link_->pipe().Write(head.view(), {args.pieces, args.piece_count}, OnWritten, call);
  return nullptr;
}

inline void OutgoingCalls::Cancel(uint64_t id) {
  const std::lock_guard guard(lock_);
  OpenCall* call = Find(id);
  if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) return;
  link_->endpoint()->keeper.Arm(&call->timer, Now(), LinkOwner::kCancelTimer);
}

// ---- Records, and how they end ----

inline void OutgoingCalls::Add() {
  free_.reserve(calls_.size() + 1);  // giving one back allocates nothing
  auto call = std::make_unique<OpenCall>();
  call->calls = this;
  call->timer.owner = link_->owner();
  call->index = static_cast<uint32_t>(calls_.size());
  calls_.push_back(std::move(call));
  free_.push_back(calls_.back().get());
}

inline OpenCall* OutgoingCalls::Find(uint64_t id) {
  const uint64_t index = id & UINT32_MAX;
  if (index >= calls_.size()) return nullptr;
  OpenCall* call = calls_[index].get();
  return call->used && call->id() == id ? call : nullptr;
}

inline void OutgoingCalls::Settle(uint64_t id, tenon_status* outcome, uint64_t response_bytes) {
  std::unique_lock guard(lock_);
  OpenCall* call = Find(id);
  if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) {
    guard.unlock();
    if (outcome != nullptr) tenon_plugin_host->status_release(outcome);
    return;
  }
  call->outcome = outcome;
  call->response_bytes = response_bytes;
  if ((call->flags & OpenCall::kWritten) != 0) {
    call->flags |= OpenCall::kSettled;
    return Complete(&guard, call, response_bytes == 0 ? nullptr : received_->data());
  }
  if (response_bytes != 0) call->response = std::move(*received_);
  link_->endpoint()->keeper.Arm(&call->timer, Now() + kGrace, LinkOwner::kGraceTimer);
  if ((call->flags.fetch_or(OpenCall::kSettled) & OpenCall::kWritten) != 0) CompleteLate(&guard, call);
}

inline void OutgoingCalls::OnWritten(void* argument, bool) {
  auto* call = static_cast<OpenCall*>(argument);
  if ((call->flags.fetch_or(OpenCall::kWritten) & OpenCall::kSettled) == 0) return;
  std::unique_lock guard(call->calls->lock_);
  call->calls->CompleteLate(&guard, call);
}

inline void OutgoingCalls::CompleteLate(std::unique_lock<std::mutex>* guard, OpenCall* call) {
  const InCallback here;
  MessageBuffer response = std::move(call->response);
  Complete(guard, call, response.data());
}

inline void OutgoingCalls::Complete(std::unique_lock<std::mutex>* guard, OpenCall* call, const char* response) {
  const std::shared_ptr<EndpointState> endpoint = link_->endpoint();
  endpoint->keeper.Disarm(&call->timer);
  tenon_status* outcome = std::exchange(call->outcome, nullptr);
  const auto call_done = call->call_done;
  const auto send_done = call->send_done;
  void* argument = call->argument;
  const tenon_span span = {outcome == nullptr ? response : nullptr, outcome == nullptr ? call->response_bytes : 0};
  call->used = false;
  if (++call->generation == 0) call->generation = 1;
  free_.push_back(call);
  guard->unlock();
  if (call_done != nullptr) {
    call_done(argument, outcome, span);
  } else {
    send_done(argument, outcome);
  }
  endpoint->Closed();
}

inline void OutgoingCalls::GiveUp(uint64_t id, tenon_status* status) {
  bool tell = false;
  {
    const std::lock_guard guard(lock_);
    const OpenCall* call = Find(id);
    tell = call != nullptr && call->call_done != nullptr && !link_->loss().happened();
  }
  if (tell) link_->WriteHead(HeadWriter(FrameKind::kCancel).Number(id));
  Settle(id, status);
}

inline void OutgoingCalls::GraceEnded(uint64_t id) {
  const std::lock_guard guard(lock_);
  if (Find(id) == nullptr) return;
  link_->Break(TENON_UNAVAILABLE,
               Concat(link_->name(), " does not take what is sent to it, and a deadline has passed"));
}

inline void OutgoingCalls::EndAll() {
  for (size_t i = 0;; ++i) {
    uint64_t id = 0;
    {
      const std::lock_guard guard(lock_);
      if (i >= calls_.size()) return;
      if (!calls_[i]->used) continue;
      id = calls_[i]->id();
    }
    Settle(id, link_->loss().ReasonOfOpen());
  }
}

// ---- Replies ----

inline void* OutgoingCalls::BeginReply(HeadReader* head, uint64_t bytes) {
  reply_ = {head->Number(), bytes};
  const uint32_t code = PeerLink::KnownCode(head->Number());
  const tenon_span text = head->Text();
  if (!head->Complete()) return link_->BadHead("a reply");
  if (code != TENON_OK || bytes > link_->endpoint()->max_message_bytes) {
    Settle(reply_.id, code != TENON_OK ? Failure(code, text) : link_->TooLarge("a response", bytes));
    return nullptr;
  }
  {
    const std::lock_guard guard(lock_);
    const OpenCall* call = Find(reply_.id);
    if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) return nullptr;
  }
  reply_.taken = true;
  if (bytes == 0) return nullptr;
  if (received_->Reserve(bytes) != nullptr) return received_->data();
  reply_.taken = false;
  Settle(reply_.id, Failure(TENON_RESOURCE_EXHAUSTED, "no memory for a response of ", bytes, " bytes"));
  return nullptr;
}

inline void OutgoingCalls::EndReply(bool complete) {
  const Reply reply = std::exchange(reply_, {});
  if (!reply.taken || !complete) return;
  Settle(reply.id, nullptr, reply.bytes);
  received_->Rest();
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_OUTGOING_CALLS_H_
