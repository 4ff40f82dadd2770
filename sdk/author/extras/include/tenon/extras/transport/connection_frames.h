// SPDX-License-Identifier: Apache-2.0
// Connection: the frames that come in, data among them, and the connection's end. Definitions of connection.h, which
// says what holds.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_FRAMES_H_
#define TENON_SDK_TRANSPORT_CONNECTION_FRAMES_H_

#include "tenon/extras/transport/connection.h"

namespace tenon::sdk {

// ---- Data ----

inline void* Connection::BeginData(HeadReader* head, uint64_t bytes) {
  frame_.id = head->Number();
  const tenon_span key = head->Text(), header = head->Text();
  if (!head->Complete() || key.size > TENON_TRANSPORT_MAX_KEY) return BadHead("data");
  const auto& events = endpoint_->events;
  if (events.place == nullptr || events.placed == nullptr) {
    return RefuseCall(frame_.id, Failure(TENON_UNIMPLEMENTED, "this side takes no data"));
  }
  if (bytes > endpoint_->max_message_bytes) return RefuseCall(frame_.id, TooLarge("data", bytes));
  tenon_bytes memory = {};
  if (tenon_status* refused = events.place(events.argument, peer(), key, header, bytes, &memory, &frame_.token)) {
    return RefuseCall(frame_.id, refused);
  }
  frame_.placing = true;
  frame_.misplaced = memory.size < bytes || (memory.data == nullptr && bytes != 0);
  return frame_.misplaced ? nullptr : memory.data;
}

inline void Connection::EndData(const Frame& frame, bool complete) {
  const auto fail = [&]() -> tenon_status* {
    if (frame.misplaced) return Failure(TENON_INTERNAL, "the receiver gave less memory than the data needs");
    if (complete) return nullptr;
    return Failure(TENON_UNAVAILABLE, "the connection to ", name_, " was lost while data came");
  };
  if (complete) WriteReply(frame.id, fail());
  endpoint_->events.placed(endpoint_->events.argument, peer(), frame.token, fail());
}

// ---- The pipe's side ----

inline void* Connection::BadHead(const char* what) {
  std::unique_lock guard(lock_);
  Break(&guard, TENON_INVALID_ARGUMENT, Concat(name_, " sent the head of ", what, " that is none"));
  return nullptr;
}

inline void* Connection::BeginReply(HeadReader* head, uint64_t bytes) {
  frame_.id = head->Number();
  const uint32_t code = KnownCode(head->Number());
  const tenon_span text = head->Text();
  if (!head->Complete()) return BadHead("a reply");
  if (code != TENON_OK || bytes > endpoint_->max_message_bytes) {
    Settle(frame_.id, code != TENON_OK ? Failure(code, text) : TooLarge("a response", bytes));
    return nullptr;
  }
  {
    const std::lock_guard guard(lock_);
    const OpenCall* call = FindCall(frame_.id);
    if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) return nullptr;
  }
  frame_.dropped = false;
  if (bytes == 0) return nullptr;
  if (receive_.Reserve(bytes) != nullptr) return receive_.data();
  frame_.dropped = true;
  Settle(frame_.id, Failure(TENON_RESOURCE_EXHAUSTED, "no memory for a response of ", bytes, " bytes"));
  return nullptr;
}

inline void* Connection::Begin(std::string_view head, uint64_t body_bytes) {
  frame_ = {};
  const InCallback here;
  void* memory = nullptr;
  try {
    memory = BeginKnown(head, body_bytes);
  } catch (const std::bad_alloc&) {
    std::unique_lock guard(lock_);
    Break(&guard, TENON_RESOURCE_EXHAUSTED, "no memory for what the connection brings");
  }
  return memory;
}

inline void* Connection::BeginKnown(std::string_view head, uint64_t bytes) {
  {
    const std::lock_guard guard(lock_);
    if (code_ != TENON_OK) return nullptr;
  }
  if (head.empty()) return BadHead("a frame");
  HeadReader reader(head.substr(1));
  frame_.kind = static_cast<FrameKind>(head[0]);
  frame_.bytes = bytes;
  const bool takes_body = frame_.kind == FrameKind::kCall || frame_.kind == FrameKind::kReply ||
                          frame_.kind == FrameKind::kData || frame_.kind == FrameKind::kMessage;
  if (bytes != 0 && !takes_body) return BadHead("a frame");
  switch (frame_.kind) {
    case FrameKind::kCall: return BeginCall(&reader, bytes);
    case FrameKind::kReply: return BeginReply(&reader, bytes);
    case FrameKind::kData: return BeginData(&reader, bytes);
    case FrameKind::kStream: return BeginStream(&reader);
    case FrameKind::kMessage: return BeginMessage(&reader, bytes);
    case FrameKind::kCredit: return BeginCredit(&reader);
    case FrameKind::kClose: return BeginClose(&reader);
    case FrameKind::kCancel: {
      const uint64_t id = reader.Number();
      if (!reader.Complete()) return BadHead("a cancellation");
      Unwanted(id, false);
      return nullptr;
    }
  }
  return BadHead("a frame");
}

inline void Connection::End(bool complete) {
  const Frame frame = std::exchange(frame_, {});
  const InCallback here;
  if (frame.begun != 0) endpoint_->Ended(frame.begun);
  if (frame.reply != nullptr) EndCall(frame.reply, complete);
  if (frame.stream != nullptr) EndMessage(frame, complete);
  if (frame.placing) EndData(frame, complete);
  if (frame.kind == FrameKind::kReply && !frame.dropped && complete) {
    Settle(frame.id, nullptr, frame.bytes);
    receive_.Rest();
  }
}

inline void Connection::Broken(tenon_status* why) {
  const std::string text(ToText(tenon_plugin_host->status_message(why)));
  const uint32_t code = tenon_plugin_host->status_code(why);
  tenon_plugin_host->status_release(why);
  std::unique_lock guard(lock_);
  Break(&guard, code == TENON_INVALID_ARGUMENT ? code : TENON_UNAVAILABLE,
        Concat("the connection to ", name_, " is lost: ", text));
}

// ---- The end of the connection ----

inline void Connection::Break(std::unique_lock<std::mutex>* guard, uint32_t code, std::string_view why) {
  const bool first = code_ == TENON_OK;
  if (first) Lose(code, why);
  guard->unlock();
  if (first) endpoint_->keeper.Post([self = Self()] { self->Finish(true); });
}

inline void Connection::Finish(bool tell) {
  {
    std::unique_lock guard(lock_);
    if (finishing_) return finished_.wait(guard, [this] { return done_; });
    finishing_ = true;
    if (code_ == TENON_OK) Lose(TENON_CANCELLED, "the connection has ended");
  }
  start_lock_.lock();  // a pipe may break while it is started
  start_lock_.unlock();
  pipe_->Close();
  EndCalls();
  EndStreams();
  EndReplies();
  if (tell) Tell();
  {
    const std::lock_guard guard(lock_);
    done_ = true;
    finished_.notify_all();
  }
  endpoint_->Forget(this);
}

inline void Connection::Tell() {
  std::unique_lock guard(lock_);
  tenon_status* why = Reason();
  guard.unlock();
  const auto& events = endpoint_->events;
  if (events.lost != nullptr) return events.lost(events.argument, peer(), why);
  tenon_plugin_host->status_release(why);
}

inline void Connection::EndCalls() {
  for (size_t i = 0;; ++i) {
    uint64_t id = 0;
    {
      const std::lock_guard guard(lock_);
      if (i >= calls_.size()) return;
      if (!calls_[i]->used) continue;
      id = calls_[i]->id();
    }
    Settle(id, Loss());
  }
}

inline void Connection::EndStreams() {
  for (;;) {
    std::unique_lock guard(lock_);
    if (streams_.empty()) return;
    EndStream(&guard, streams_.begin()->second, code_ == TENON_CANCELLED ? TENON_CANCELLED : TENON_UNAVAILABLE, why_);
  }
}

inline void Connection::EndReplies() {
  for (;;) {
    uint64_t id = 0;
    {
      const std::lock_guard guard(lock_);
      if (replies_.empty()) return;
      id = replies_.begin()->first;
    }
    Unwanted(id, false);
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_FRAMES_H_
