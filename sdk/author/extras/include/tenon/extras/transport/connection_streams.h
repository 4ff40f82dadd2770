// SPDX-License-Identifier: Apache-2.0
// Connection: streams. Definitions of connection.h, which says what holds.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_STREAMS_H_
#define TENON_SDK_TRANSPORT_CONNECTION_STREAMS_H_

#include "tenon/extras/transport/connection.h"

namespace tenon::sdk {

// ---- For the host: streams ----

inline tenon_status* Connection::OpenStreamTo(tenon_span method, const tenon_metadata* metadata, uint64_t count,
                                              uint64_t deadline_ns, const tenon_stream_events& events,
                                              OpenStream** out_stream) {
  TENON_SDK_RETURN_IF_ERROR(CheckRequest(nullptr, 0, method.size, metadata, count));
  if (endpoint_->draining) return Draining();
  if (Late(deadline_ns)) return Failure(TENON_DEADLINE_EXCEEDED, "the stream's deadline had passed when it was opened");
  auto stream = std::make_unique<OpenStream>();
  stream->connection = Self();
  stream->mine = true;
  stream->deadline_ns = deadline_ns;
  stream->events = events;
  uint64_t id = 0;
  {
    const std::lock_guard guard(lock_);
    if (code_ != TENON_OK) return Reason();
    id = stream->id = ++last_stream_;
    List(stream.get());
  }
  *out_stream = stream.release();
  HeadWriter head(FrameKind::kStream);
  WriteHead(head.Number(id).Number(Timeout(deadline_ns)).Text(method).Metadata(metadata, count));
  return nullptr;
}

inline void Connection::CloseStream(OpenStream* stream, tenon_status* status) {
  const std::shared_ptr<Connection> self = stream->connection;
  self->CloseFromHost(stream, status);
  Release(stream);
}

// ---- Streams ----

inline bool Connection::Unlist(OpenStream* stream) {
  if (stream->listed && (stream->code != TENON_OK || (stream->read_ended && stream->write_closed))) {
    streams_.erase(StreamKey(stream->id, stream->mine));
    stream->listed = false;
    endpoint_->keeper.Disarm(&stream->timer);
    endpoint_->Closed();
  }
  stream->room.notify_all();
  return stream->read_ended;
}

inline void Connection::EndStream(std::unique_lock<std::mutex>* guard, OpenStream* stream, uint32_t code,
                                  std::string_view text) {
  if (code != TENON_OK && stream->code == TENON_OK) {
    stream->code = code;
    stream->text = text;
  }
  const bool first = !std::exchange(stream->read_ended, true);
  Unlist(stream);
  if (first && stream->delivering) stream->end_waits = true;
  const bool now = first && !stream->delivering;
  guard->unlock();
  if (now) TellEnd(stream);
}

inline void Connection::TellEnd(OpenStream* stream) {
  const std::shared_ptr<Connection> self = stream->connection;
  tenon_status* status = nullptr;
  {
    const std::lock_guard guard(self->lock_);
    if (stream->code != TENON_OK) status = Failure(stream->code, stream->text);
  }
  stream->events.end(stream->events.argument, status);
  Release(stream);
}

inline void Connection::StreamFails(uint64_t id, bool mine, uint32_t code, std::string_view text, bool tell) {
  std::unique_lock guard(lock_);
  OpenStream* stream = FindStream(id, mine);
  if (stream == nullptr) return;
  if (tell) WriteClose(&guard, id, mine, code, text);
  stream = FindStream(id, mine);
  if (stream != nullptr) EndStream(&guard, stream, code, text);
}

inline void Connection::WriteClose(std::unique_lock<std::mutex>* guard, uint64_t id, bool mine, uint64_t code,
                                   std::string_view text) {
  if (code_ != TENON_OK) return;
  guard->unlock();
  text = text.substr(0, kMaxStatusText);
  WriteHead(HeadWriter(FrameKind::kClose).Number(id).Number(mine ? 1 : 0).Number(code).Text(ToSpan(text)));
  guard->lock();
}

inline tenon_status* Connection::WriteMessage(OpenStream* stream, tenon_span message) {
  if (message.size > endpoint_->max_message_bytes) return TooLarge("a stream's message", message.size);
  const uint64_t cost = CostOf(message.size);
  const uint64_t window = in_callback_ ? kCallbackWindow : kWindow;
  {
    std::unique_lock guard(lock_);
    const auto ready = [&] {
      return stream->code != TENON_OK || stream->write_closed || stream->outstanding == 0 ||
             stream->outstanding + cost <= window;
    };
    const bool in_time = in_callback_ ? ready() : stream->room.wait_until(guard, TimePoint(EndOf(*stream)), ready);
    if (stream->code != TENON_OK) return Failure(stream->code, stream->text);
    if (stream->write_closed) return Failure(TENON_FAILED_PRECONDITION, "the stream is closed for writing");
    if (!in_time && in_callback_) {
      return Failure(TENON_RESOURCE_EXHAUSTED, name_, " has ", stream->outstanding,
                     " bytes of the stream to read; a callback cannot wait: write from another thread");
    }
    if (!in_time) return Failure(TENON_DEADLINE_EXCEEDED, name_, " did not read the stream by its deadline");
    stream->outstanding += cost;
  }
  auto* copy = static_cast<char*>(::operator new(message.size + 1));
  if (message.size != 0) std::memcpy(copy, message.data, message.size);
  const tenon_span piece = {copy, message.size};
  HeadWriter head(FrameKind::kMessage);
  head.Number(stream->id).Number(stream->mine ? 1 : 0);
  pipe_->Write(head.view(), {&piece, 1}, [](void* bytes, bool) { ::operator delete(bytes); }, copy);
  return nullptr;
}

inline void Connection::CloseFromHost(OpenStream* stream, tenon_status* status) {
  const uint32_t code = static_cast<uint32_t>(CodeOf(status));
  const std::string text(ToText(MessageOf(status)));
  if (status != nullptr) tenon_plugin_host->status_release(status);
  std::unique_lock guard(lock_);
  if (std::exchange(stream->write_closed, true) || stream->code != TENON_OK) return;
  if (code != TENON_OK) {
    stream->code = code;
    stream->text = text;
  }
  const bool ended = stream->read_ended;
  WriteClose(&guard, stream->id, stream->mine, code, text);
  Unlist(stream);
  if (code == TENON_OK || ended || std::exchange(stream->read_ended, true)) return;
  if (stream->delivering) {
    stream->end_waits = true;
  } else {
    endpoint_->keeper.Post([stream] { TellEnd(stream); });
  }
}

inline void* Connection::BeginStream(HeadReader* head) {
  frame_.id = head->Number();
  const uint64_t timeout = head->Number();
  const tenon_span method = head->Text();
  head->Metadata(&metadata_);
  if (!head->Complete()) return BadHead("a stream");
  if (endpoint_->events.stream == nullptr)
    return RefuseStream(Failure(TENON_UNIMPLEMENTED, "this side takes no streams"));
  if (endpoint_->draining) return RefuseStream(Draining());
  auto stream = std::make_unique<OpenStream>();
  stream->connection = Self();
  stream->id = frame_.id;
  stream->deadline_ns = DeadlineOf(timeout);
  {
    std::unique_lock guard(lock_);
    if (FindStream(frame_.id, false) != nullptr || streams_.size() >= kMaxOpenReplies) {
      Break(&guard, TENON_INVALID_ARGUMENT,
            Concat("stream ", frame_.id, " of ", name_, " came twice, or there are too many"));
      return nullptr;
    }
    stream->delivering = true;  // its end waits until it is known what happens then
    List(stream.get());
  }
  OpenStream* opened = stream.release();
  tenon_incoming incoming = {TENON_HEAD(tenon_incoming), method,           {},
                             metadata_.data(),           metadata_.size(), opened->deadline_ns};
  tenon_stream_events events = {};
  events.struct_size = sizeof events;
  const auto& host = endpoint_->events;
  tenon_status* refused =
      host.stream(host.argument, peer(), &incoming, reinterpret_cast<tenon_stream*>(opened), &events);
  opened->events = events;
  if (refused == nullptr) {
    Delivered(opened);
  } else {
    DropRefused(opened);
    RefuseStream(refused);
  }
  return nullptr;
}

inline void* Connection::RefuseStream(tenon_status* status) {
  WriteHead(HeadWriter(FrameKind::kClose).Number(frame_.id).Number(0).Number(CodeOf(status)).Text(MessageOf(status)));
  tenon_plugin_host->status_release(status);
  return nullptr;
}

inline void Connection::DropRefused(OpenStream* stream) {
  {
    const std::lock_guard guard(lock_);
    stream->code = TENON_CANCELLED;
    Unlist(stream);
  }
  Release(stream);
  Release(stream);
}

inline void Connection::Delivered(OpenStream* stream) {
  bool end = false;
  {
    const std::lock_guard guard(lock_);
    stream->delivering = false;
    end = std::exchange(stream->end_waits, false);
  }
  if (end) TellEnd(stream);
}

inline void* Connection::BeginMessage(HeadReader* head, uint64_t bytes) {
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  if (!head->Complete()) return BadHead("a stream's message");
  if (bytes > endpoint_->max_message_bytes) {
    StreamFails(id, mine, TENON_RESOURCE_EXHAUSTED, "a message is larger than max_message_bytes of its receiver", true);
    return nullptr;
  }
  const std::lock_guard guard(lock_);
  OpenStream* stream = FindStream(id, mine);
  if (stream == nullptr || stream->read_ended || stream->events.message == nullptr) return nullptr;
  if (receive_.Reserve(bytes) == nullptr) throw std::bad_alloc();
  stream->delivering = true;
  frame_.stream = stream;
  return bytes == 0 ? nullptr : receive_.data();
}

inline void Connection::EndMessage(const Frame& frame, bool complete) {
  OpenStream* stream = frame.stream;
  if (complete) {
    stream->events.message(stream->events.argument, {receive_.data(), frame.bytes});
    receive_.Rest();
    std::unique_lock guard(lock_);
    stream->unreported += CostOf(frame.bytes);
    const bool report = stream->unreported >= kWindow / 4 && stream->listed && code_ == TENON_OK;
    const uint64_t read = report ? std::exchange(stream->unreported, 0) : 0;
    guard.unlock();
    if (report) WriteHead(HeadWriter(FrameKind::kCredit).Number(stream->id).Number(stream->mine ? 1 : 0).Number(read));
  }
  Delivered(stream);
}

inline void* Connection::BeginCredit(HeadReader* head) {
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  const uint64_t bytes = head->Number();
  if (!head->Complete()) return BadHead("a stream's credit");
  const std::lock_guard guard(lock_);
  OpenStream* stream = FindStream(id, mine);
  if (stream == nullptr) return nullptr;
  stream->outstanding -= std::min(bytes, stream->outstanding);
  stream->room.notify_all();
  return nullptr;
}

inline void* Connection::BeginClose(HeadReader* head) {
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  const uint64_t code = head->Number();
  const tenon_span text = head->Text();
  if (!head->Complete()) return BadHead("a stream's end");
  std::unique_lock guard(lock_);
  OpenStream* stream = FindStream(id, mine);
  if (stream != nullptr) EndStream(&guard, stream, KnownCode(code), ToText(text));
  return nullptr;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_STREAMS_H_
