// SPDX-License-Identifier: Apache-2.0
// Connection: calls, sends and replies. Definitions of connection.h, which says what holds.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_CALLS_H_
#define TENON_SDK_TRANSPORT_CONNECTION_CALLS_H_

#include "tenon/extras/transport/connection.h"

namespace tenon::sdk {

// ---- For the host: calls ----

inline tenon_status* Connection::Call(const tenon_call_args& args, uint64_t* out_call) {
  HeadWriter head(FrameKind::kCall);
  OpenCall* call = nullptr;
  TENON_SDK_RETURN_IF_ERROR(
      CheckRequest(args.pieces, args.piece_count, args.method.size, args.metadata, args.metadata_count));
  if (endpoint_->draining) return Draining();
  TENON_SDK_RETURN_IF_ERROR(Open(args.deadline_ns, &call, [&](OpenCall* record) {
    record->call_done = args.done;
    record->argument = args.argument;
  }));
  const uint64_t id = call->id();
  if (out_call != nullptr) *out_call = id;
  head.Number(id).Number(Timeout(args.deadline_ns)).Text(args.method).Metadata(args.metadata, args.metadata_count);
  pipe_->Write(head.view(), {args.pieces, args.piece_count}, OnWritten, call);
  return nullptr;
}

inline tenon_status* Connection::Send(const tenon_send_args& args) {
  HeadWriter head(FrameKind::kData);
  OpenCall* call = nullptr;
  if (args.key.size > TENON_TRANSPORT_MAX_KEY) {
    return Failure(TENON_INVALID_ARGUMENT, "a key has ", args.key.size, " bytes; ", TENON_TRANSPORT_MAX_KEY,
                   " are the most");
  }
  TENON_SDK_RETURN_IF_ERROR(CheckRequest(args.pieces, args.piece_count, args.header.size, nullptr, 0));
  TENON_SDK_RETURN_IF_ERROR(Open(args.deadline_ns, &call, [&](OpenCall* record) {
    record->send_done = args.done;
    record->argument = args.argument;
  }));
  head.Number(call->id()).Text(args.key).Text(args.header);
  pipe_->Write(head.view(), {args.pieces, args.piece_count}, OnWritten, call);
  return nullptr;
}

inline void Connection::Cancel(uint64_t id) {
  const std::lock_guard guard(lock_);
  OpenCall* call = FindCall(id);
  if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) return;
  endpoint_->keeper.Arm(&call->timer, Now(), kCancelTimer);
}

inline uint64_t Connection::Timeout(uint64_t deadline_ns) {
  if (deadline_ns == 0) return 0;
  const uint64_t now = Now();
  return deadline_ns > now ? deadline_ns - now : 1;
}

inline tenon_status* Connection::CheckRequest(const tenon_span* pieces, uint64_t count, uint64_t head_bytes,
                                              const tenon_metadata* metadata, uint64_t metadata_count) const {
  const uint64_t bytes = TotalOf(pieces, count);
  if (bytes > endpoint_->max_message_bytes) return TooLarge("a message", bytes);
  for (uint64_t i = 0; i < metadata_count; ++i) head_bytes += metadata[i].key.size + metadata[i].value.size + 8;
  if (head_bytes <= kMaxFrameHead / 2 && metadata_count <= kMaxMetadata) return nullptr;
  return Failure(TENON_INVALID_ARGUMENT, "method, metadata or header have ", head_bytes, " bytes and ", metadata_count,
                 " pairs; at most ", kMaxFrameHead / 2, " and ", kMaxMetadata, " may go with a message");
}

// ---- Calls and sends of this side ----

inline void Connection::AddCall() {
  free_calls_.reserve(calls_.size() + 1);  // giving one back allocates nothing
  auto call = std::make_unique<OpenCall>();
  call->connection = this;
  call->timer.owner = this;
  call->index = static_cast<uint32_t>(calls_.size());
  calls_.push_back(std::move(call));
  free_calls_.push_back(calls_.back().get());
}

inline OpenCall* Connection::FindCall(uint64_t id) {
  const uint64_t index = id & UINT32_MAX;
  if (index >= calls_.size()) return nullptr;
  OpenCall* call = calls_[index].get();
  return call->used && call->id() == id ? call : nullptr;
}

inline void Connection::Settle(uint64_t id, tenon_status* outcome, uint64_t response_bytes) {
  std::unique_lock guard(lock_);
  OpenCall* call = FindCall(id);
  if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) {
    guard.unlock();
    if (outcome != nullptr) tenon_plugin_host->status_release(outcome);
    return;
  }
  call->outcome = outcome;
  call->response_bytes = response_bytes;
  if ((call->flags & OpenCall::kWritten) != 0) {
    call->flags |= OpenCall::kSettled;
    return Complete(&guard, call, response_bytes == 0 ? nullptr : receive_.data());
  }
  if (response_bytes != 0) call->response = std::move(receive_);
  endpoint_->keeper.Arm(&call->timer, Now() + kGrace, kGraceTimer);
  if ((call->flags.fetch_or(OpenCall::kSettled) & OpenCall::kWritten) != 0) CompleteLate(&guard, call);
}

inline void Connection::OnWritten(void* argument, bool) {
  auto* call = static_cast<OpenCall*>(argument);
  if ((call->flags.fetch_or(OpenCall::kWritten) & OpenCall::kSettled) == 0) return;
  std::unique_lock guard(call->connection->lock_);
  call->connection->CompleteLate(&guard, call);
}

inline void Connection::CompleteLate(std::unique_lock<std::mutex>* guard, OpenCall* call) {
  const InCallback here;
  MessageBuffer response = std::move(call->response);
  Complete(guard, call, response.data());
}

inline void Connection::Complete(std::unique_lock<std::mutex>* guard, OpenCall* call, const char* response) {
  endpoint_->keeper.Disarm(&call->timer);
  tenon_status* outcome = std::exchange(call->outcome, nullptr);
  const auto call_done = call->call_done;
  const auto send_done = call->send_done;
  void* argument = call->argument;
  const tenon_span span = {outcome == nullptr ? response : nullptr, outcome == nullptr ? call->response_bytes : 0};
  call->used = false;
  if (++call->generation == 0) call->generation = 1;
  free_calls_.push_back(call);
  const std::shared_ptr<EndpointState> endpoint = endpoint_;
  guard->unlock();
  if (call_done != nullptr) {
    call_done(argument, outcome, span);
  } else {
    send_done(argument, outcome);
  }
  endpoint->Closed();
}

inline void Connection::OnTimer(uint32_t kind, uint64_t id) {
  switch (kind) {
    case kDeadlineTimer:
      GiveUp(id, Failure(TENON_DEADLINE_EXCEEDED, "no answer from ", name_, " by the deadline"));
      break;
    case kCancelTimer: GiveUp(id, Failure(TENON_CANCELLED, "the caller cancelled it")); break;
    case kGraceTimer: GraceEnded(id); break;
    case kReplyTimer: Unwanted(id, true); break;
    default:
      StreamFails(id, kind == kMyStreamTimer, TENON_DEADLINE_EXCEEDED, "the stream's deadline has passed", true);
  }
}

inline void Connection::GiveUp(uint64_t id, tenon_status* status) {
  bool tell = false;
  {
    const std::lock_guard guard(lock_);
    const OpenCall* call = FindCall(id);
    tell = call != nullptr && call->call_done != nullptr && code_ == TENON_OK;
  }
  if (tell) WriteHead(HeadWriter(FrameKind::kCancel).Number(id));
  Settle(id, status);
}

inline void Connection::GraceEnded(uint64_t id) {
  std::unique_lock guard(lock_);
  if (FindCall(id) == nullptr) return;
  Break(&guard, TENON_UNAVAILABLE, Concat(name_, " does not take what is sent to it, and a deadline has passed"));
}

// ---- Calls of the other side ----

inline void Connection::Release(OpenReply* reply) {
  if (--reply->references != 0) return;
  reply->request.Rest();
  reply->response.Rest();
  const std::shared_ptr<Connection> self = std::move(reply->connection);
  std::unique_ptr<OpenReply> owned(reply);
  const std::lock_guard guard(lock_);
  if (free_replies_.size() < 64) free_replies_.push_back(std::move(owned));
}

inline void* Connection::BeginCall(HeadReader* head, uint64_t bytes) {
  const uint64_t id = head->Number(), timeout = head->Number();
  const tenon_span method = head->Text();
  head->Metadata(&metadata_);
  if (!head->Complete()) return BadHead("a call");
  if (endpoint_->events.call == nullptr)
    return RefuseCall(id, Failure(TENON_UNIMPLEMENTED, "this side takes no calls"));
  if (endpoint_->draining) return RefuseCall(id, Draining());
  if (bytes > endpoint_->max_message_bytes) return RefuseCall(id, TooLarge("a request", bytes));
  if (!endpoint_->Begun(bytes)) {
    return RefuseCall(
        id, Failure(TENON_RESOURCE_EXHAUSTED, "requests that are not all there yet take as much memory as they may, ",
                    endpoint_->max_unfinished_bytes(), " bytes; this one of ", bytes, " bytes would be more"));
  }
  frame_.begun = bytes;
  OpenReply* reply = nullptr;
  {
    std::unique_lock guard(lock_);
    if (replies_.contains(id)) {
      Break(&guard, TENON_INVALID_ARGUMENT, Concat("call ", id, " of ", name_, " came twice"));
      return nullptr;
    }
    if (replies_.size() < kMaxOpenReplies) reply = NewReply();
  }
  if (reply == nullptr) return RefuseCall(id, Failure(TENON_RESOURCE_EXHAUSTED, "too many calls wait for an answer"));
  reply->connection = Self();
  reply->id = reply->timer.id = id;
  if (!FillIncoming(reply, method, timeout, bytes)) {
    reply->references = 1;
    Release(reply);
    return RefuseCall(id, Failure(TENON_RESOURCE_EXHAUSTED, "no memory for a request of ", bytes, " bytes"));
  }
  frame_.reply = reply;
  return bytes == 0 ? nullptr : reply->request.data();
}

inline bool Connection::FillIncoming(OpenReply* reply, tenon_span method, uint64_t timeout, uint64_t bytes) {
  uint64_t texts = method.size;
  for (const tenon_metadata& pair : metadata_) texts += pair.key.size + pair.value.size;
  char* to = reply->head.Reserve(texts);
  if (to == nullptr || reply->request.Reserve(bytes) == nullptr) return false;
  const auto copy = [&to](tenon_span text) {
    if (text.size != 0) std::memcpy(to, text.data, text.size);
    const tenon_span copied = {to, text.size};
    to += text.size;
    return copied;
  };
  const tenon_span copied_method = copy(method);
  reply->metadata.clear();
  for (const tenon_metadata& pair : metadata_) {
    const tenon_span key = copy(pair.key);
    reply->metadata.push_back({key, copy(pair.value)});
  }
  reply->incoming = {TENON_HEAD(tenon_incoming), copied_method,          {reply->request.data(), bytes},
                     reply->metadata.data(),     reply->metadata.size(), DeadlineOf(timeout)};
  return true;
}

inline tenon_span Connection::MessageOf(const tenon_status* status) {
  if (status == nullptr) return {};
  const tenon_span text = tenon_plugin_host->status_message(status);
  return {text.data, std::min(text.size, kMaxStatusText)};
}

inline void Connection::EndCall(OpenReply* reply, bool complete) {
  if (!complete) {
    reply->references = 1;
    return Release(reply);
  }
  {
    const std::lock_guard guard(lock_);
    replies_.emplace(reply->id, reply);
    reply->waited_for = true;
  }
  endpoint_->Opened();
  endpoint_->events.call(endpoint_->events.argument, peer(), &reply->incoming, reinterpret_cast<tenon_reply*>(reply));
  if (reply->incoming.deadline_ns != 0) {
    const std::lock_guard guard(lock_);
    if (reply->waited_for) endpoint_->keeper.Arm(&reply->timer, reply->incoming.deadline_ns, kReplyTimer);
  }
  Release(reply);
}

inline void Connection::Answer(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count,
                               void (*sent)(void*), void* argument) {
  bool wanted = false;
  {
    const std::lock_guard guard(lock_);
    wanted = std::exchange(reply->waited_for, false);
    if (wanted) replies_.erase(reply->id);
    wanted = wanted && code_ == TENON_OK;
  }
  endpoint_->keeper.Disarm(&reply->timer);
  reply->sent = sent;
  reply->argument = argument;
  const uint64_t bytes = status == nullptr ? TotalOf(pieces, count) : 0;
  if (status == nullptr && bytes > endpoint_->max_message_bytes) status = TooLarge("a response", bytes);
  tenon_span copy = {nullptr, bytes};
  if (wanted && status == nullptr && sent == nullptr && bytes != 0) {
    char* to = reply->response.Reserve(bytes);
    if (to == nullptr) status = Failure(TENON_RESOURCE_EXHAUSTED, "no memory to copy a response of ", bytes, " bytes");
    if (to != nullptr) Gather(pieces, count, to);
    copy.data = to;
    pieces = &copy;
    count = 1;
  }
  if (wanted) {
    HeadWriter head(FrameKind::kReply);
    head.Number(reply->id).Number(CodeOf(status)).Text(MessageOf(status));
    pipe_->Write(head.view(), {pieces, status == nullptr && bytes != 0 ? count : 0}, OnSent, reply);
  } else {
    OnSent(reply, false);
  }
  if (status != nullptr) tenon_plugin_host->status_release(status);
}

inline void Connection::OnSent(void* argument, bool) {
  auto* reply = static_cast<OpenReply*>(argument);
  const std::shared_ptr<Connection> self = reply->connection;
  const InCallback here;
  if (reply->sent != nullptr) reply->sent(reply->argument);
  self->endpoint_->Closed();
  self->Release(reply);
}

inline void Connection::Unwanted(uint64_t id, bool late) {
  OpenReply* reply = nullptr;
  {
    const std::lock_guard guard(lock_);
    const auto found = replies_.find(id);
    if (found == replies_.end() || (late && !Late(found->second->incoming.deadline_ns))) return;
    reply = found->second;
    replies_.erase(found);
    reply->waited_for = false;
    ++reply->references;
  }
  endpoint_->keeper.Disarm(&reply->timer);
  const auto& events = endpoint_->events;
  if (events.cancelled != nullptr) events.cancelled(events.argument, reinterpret_cast<tenon_reply*>(reply));
  Release(reply);
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_CALLS_H_
