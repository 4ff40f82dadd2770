// SPDX-License-Identifier: Apache-2.0
// OpenStreams: the streams of a connection, which either side has opened.
//
// A message is read by a callback on the pipe's reading thread, which tells the writer how much it has read: at most
// kWindow bytes of a stream are on their way. A stream's end is told once, and not while a message is delivered.
#ifndef TENON_SDK_TRANSPORT_OPEN_STREAMS_H_
#define TENON_SDK_TRANSPORT_OPEN_STREAMS_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/extras/transport/peer_link.h"

namespace tenon::sdk {

class OpenStreams;

// One side of a stream. References: the host's until it closes, the table's until end() has returned.
struct StreamSide {
  std::shared_ptr<OpenStreams> streams;  // and with them the connection
  std::atomic<uint32_t> references{2};
  uint64_t id = 0;
  bool mine = false;  // opened by this side
  uint64_t deadline_ns = 0;
  Timer timer;
  tenon_stream_events events = {};
  // Under the lock of the streams.
  std::condition_variable room;
  uint64_t outstanding = 0;  // bytes that the other side has not read
  uint64_t unreported = 0;   // bytes read that the other side does not know of
  bool listed = false;       // in the table
  bool write_closed = false;
  bool read_ended = false;  // end() was called, or will be by who delivers
  bool delivering = false;
  bool end_waits = false;  // for the delivery
  uint32_t code = TENON_OK;  // of the failure
  std::string text;
};

// One lock guards the table and what changes of its streams; no callback and no pipe is called under it.
class OpenStreams {
 public:
  static constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes of a stream on their way
  static constexpr uint64_t kCallbackWindow = 16 * kWindow;  // where a callback writes, which cannot wait

  // received: where bodies come, the pipe's reading thread's own. Both outlive it.
  OpenStreams(PeerLink* link, MessageBuffer* received) : link_(link), received_(received) {}
  OpenStreams(const OpenStreams&) = delete;
  OpenStreams& operator=(const OpenStreams&) = delete;

  // For the host, on any thread. Write waits for the other side to read, but in a callback.
  [[nodiscard]] tenon_status* Open(tenon_span method, const tenon_metadata* metadata, uint64_t count,
                                   uint64_t deadline_ns, const tenon_stream_events& events, StreamSide** out_stream);
  [[nodiscard]] static tenon_status* Write(StreamSide* stream, tenon_span message) {
    return stream->streams->WriteMessage(stream, message);
  }
  static void Close(StreamSide* stream, tenon_status* status);

  // Frames, on the pipe's reading thread: memory for the body, which then is there or not.
  void* BeginStream(HeadReader* head);
  void* BeginMessage(HeadReader* head, uint64_t bytes);
  void EndMessage(bool complete);
  void* BeginCredit(HeadReader* head);
  void* BeginClose(HeadReader* head);

  // On the keeper's thread.
  void MissDeadline(uint64_t id, bool mine) {
    Fail(id, mine, TENON_DEADLINE_EXCEEDED, "the stream's deadline has passed");
  }
  // Once the connection is lost.
  void EndAll();

 private:
  // The message that is delivered.
  struct Delivery {
    StreamSide* stream = nullptr;
    uint64_t bytes = 0;
  };
  static uint64_t CostOf(uint64_t bytes) { return bytes + 64; }
  static uint64_t KeyOf(uint64_t id, bool mine) { return id * 2 + (mine ? 1 : 0); }
  static void Release(StreamSide* stream) {
    if (--stream->references == 0) delete stream;
  }
  void List(StreamSide* stream);  // under the lock
  StreamSide* Find(uint64_t id, bool mine) {
    const auto found = streams_.find(KeyOf(id, mine));
    return found == streams_.end() ? nullptr : found->second;
  }
  // When nothing more can happen on it. Under the lock.
  void Unlist(StreamSide* stream);
  // The other side writes no more, or the stream has failed. Unlocks.
  void End(std::unique_lock<std::mutex>* guard, StreamSide* stream, uint32_t code, std::string_view text);
  void TellEnd(StreamSide* stream);
  // The other side is told.
  void Fail(uint64_t id, bool mine, uint32_t code, std::string_view text);
  // Releases the lock meanwhile.
  void WriteClose(std::unique_lock<std::mutex>* guard, uint64_t id, bool mine, uint64_t code, std::string_view text);
  tenon_status* WriteMessage(StreamSide* stream, tenon_span message);
  void CloseFromHost(StreamSide* stream, tenon_status* status);
  void* Refuse(uint64_t id, tenon_status* status);
  // The host takes it, or has refused it with a status.
  void Offer(StreamSide* stream, tenon_span method);
  void DropRefused(StreamSide* stream);
  // The callback that had the stream has returned; an end that waited comes now.
  void Delivered(StreamSide* stream);

  PeerLink* const link_;
  MessageBuffer* const received_;
  Delivery delivery_;  // this and the next: the pipe's reading thread's own
  std::vector<tenon_metadata> metadata_;
  std::mutex lock_;
  std::unordered_map<uint64_t, StreamSide*> streams_;
  uint64_t last_ = 0;
};

// ---- For the host ----

inline tenon_status* OpenStreams::Open(tenon_span method, const tenon_metadata* metadata, uint64_t count,
                                       uint64_t deadline_ns, const tenon_stream_events& events,
                                       StreamSide** out_stream) {
  TENON_SDK_RETURN_IF_ERROR(link_->CheckRequest(nullptr, 0, method.size, metadata, count));
  if (link_->endpoint()->draining) return link_->Draining();
  if (PeerLink::Late(deadline_ns))
    return Failure(TENON_DEADLINE_EXCEEDED, "the stream's deadline had passed when it was opened");
  auto stream = std::make_unique<StreamSide>();
  stream->streams = link_->Held(this);
  stream->mine = true;
  stream->deadline_ns = deadline_ns;
  stream->events = events;
  uint64_t id = 0;
  {
    const std::lock_guard guard(lock_);
    if (link_->loss().happened()) return link_->loss().Reason();
    id = stream->id = ++last_;
    List(stream.get());
  }
  *out_stream = stream.release();
  HeadWriter head(FrameKind::kStream);
  link_->WriteHead(head.Number(id).Number(PeerLink::Timeout(deadline_ns)).Text(method).Metadata(metadata, count));
  return nullptr;
}

inline void OpenStreams::Close(StreamSide* stream, tenon_status* status) {
  const std::shared_ptr<OpenStreams> self = stream->streams;
  self->CloseFromHost(stream, status);
  Release(stream);
}

inline tenon_status* OpenStreams::WriteMessage(StreamSide* stream, tenon_span message) {
  if (message.size > link_->endpoint()->max_message_bytes) return link_->TooLarge("a stream's message", message.size);
  const uint64_t cost = CostOf(message.size);
  const bool in_callback = InCallback::Here();
  const uint64_t window = in_callback ? kCallbackWindow : kWindow;
  const uint64_t end = stream->deadline_ns == 0 ? kNever : stream->deadline_ns;
  {
    std::unique_lock guard(lock_);
    const auto ready = [&] {
      return stream->code != TENON_OK || stream->write_closed || stream->outstanding == 0 ||
             stream->outstanding + cost <= window;
    };
    const bool in_time = in_callback ? ready() : stream->room.wait_until(guard, TimePoint(end), ready);
    if (stream->code != TENON_OK) return Failure(stream->code, stream->text);
    if (stream->write_closed) return Failure(TENON_FAILED_PRECONDITION, "the stream is closed for writing");
    if (!in_time && in_callback) {
      return Failure(TENON_RESOURCE_EXHAUSTED, link_->name(), " has ", stream->outstanding,
                     " bytes of the stream to read; a callback cannot wait: write from another thread");
    }
    if (!in_time) return Failure(TENON_DEADLINE_EXCEEDED, link_->name(), " did not read the stream by its deadline");
    stream->outstanding += cost;
  }
  auto* copy = static_cast<char*>(::operator new(message.size + 1));
  if (message.size != 0) std::memcpy(copy, message.data, message.size);
  const tenon_span piece = {copy, message.size};
  HeadWriter head(FrameKind::kMessage);
  head.Number(stream->id).Number(stream->mine);
  link_->pipe().Write(head.view(), {&piece, 1}, [](void* bytes, bool) { ::operator delete(bytes); }, copy);
  return nullptr;
}

inline void OpenStreams::CloseFromHost(StreamSide* stream, tenon_status* status) {
  const uint32_t code = static_cast<uint32_t>(PeerLink::CodeOf(status));
  const std::string text(ToText(PeerLink::MessageOf(status)));
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
    link_->endpoint()->keeper.Post([stream] { stream->streams->TellEnd(stream); });
  }
}

// ---- The table, and how streams end ----

inline void OpenStreams::List(StreamSide* stream) {
  streams_.emplace(KeyOf(stream->id, stream->mine), stream);
  stream->listed = true;
  stream->timer.owner = link_->owner();
  stream->timer.id = stream->id;
  const uint32_t kind = stream->mine ? LinkOwner::kMyStreamTimer : LinkOwner::kStreamTimer;
  if (stream->deadline_ns != 0) link_->endpoint()->keeper.Arm(&stream->timer, stream->deadline_ns, kind);
  link_->endpoint()->Opened();
}

inline void OpenStreams::Unlist(StreamSide* stream) {
  if (stream->listed && (stream->code != TENON_OK || (stream->read_ended && stream->write_closed))) {
    streams_.erase(KeyOf(stream->id, stream->mine));
    stream->listed = false;
    link_->endpoint()->keeper.Disarm(&stream->timer);
    link_->endpoint()->Closed();
  }
  stream->room.notify_all();
}

inline void OpenStreams::End(std::unique_lock<std::mutex>* guard, StreamSide* stream, uint32_t code,
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

inline void OpenStreams::TellEnd(StreamSide* stream) {
  const std::shared_ptr<OpenStreams> self = stream->streams;
  tenon_status* status = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (stream->code != TENON_OK) status = Failure(stream->code, stream->text);
  }
  stream->events.end(stream->events.argument, status);
  Release(stream);
}

inline void OpenStreams::Fail(uint64_t id, bool mine, uint32_t code, std::string_view text) {
  std::unique_lock guard(lock_);
  if (Find(id, mine) == nullptr) return;
  WriteClose(&guard, id, mine, code, text);
  StreamSide* stream = Find(id, mine);
  if (stream != nullptr) End(&guard, stream, code, text);
}

inline void OpenStreams::WriteClose(std::unique_lock<std::mutex>* guard, uint64_t id, bool mine, uint64_t code,
                                    std::string_view text) {
  if (link_->loss().happened()) return;
  guard->unlock();
  text = text.substr(0, PeerLink::kMaxStatusText);
  link_->WriteHead(HeadWriter(FrameKind::kClose).Number(id).Number(mine).Number(code).Text(ToSpan(text)));
  guard->lock();
}

inline void OpenStreams::EndAll() {
  const ConnectionLoss& loss = link_->loss();
  for (;;) {
    std::unique_lock guard(lock_);
    if (streams_.empty()) return;
    End(&guard, streams_.begin()->second, loss.code_of_open(), loss.why());
  }
}

// ---- Frames ----

inline void* OpenStreams::BeginStream(HeadReader* head) {
  const uint64_t id = head->Number(), timeout = head->Number();
  const tenon_span method = head->Text();
  head->Metadata(&metadata_);
  if (!head->Complete()) return link_->BadHead("a stream");
  if (link_->endpoint()->events.stream == nullptr)
    return Refuse(id, Failure(TENON_UNIMPLEMENTED, "this side takes no streams"));
  if (link_->endpoint()->draining) return Refuse(id, link_->Draining());
  auto stream = std::make_unique<StreamSide>();
  stream->streams = link_->Held(this);
  stream->id = id;
  stream->deadline_ns = PeerLink::DeadlineOf(timeout);
  {
    const std::lock_guard guard(lock_);
    if (Find(id, false) != nullptr || streams_.size() >= PeerLink::kMaxOpen) {
      link_->Break(TENON_INVALID_ARGUMENT,
                   Concat("stream ", id, " of ", link_->name(), " came twice, or there are too many"));
      return nullptr;
    }
    stream->delivering = true;  // its end waits until it is known what happens then
    List(stream.get());
  }
  Offer(stream.release(), method);
  return nullptr;
}

inline void OpenStreams::Offer(StreamSide* stream, tenon_span method) {
  tenon_incoming incoming = {TENON_HEAD(tenon_incoming), method,           {},
                             metadata_.data(),           metadata_.size(), stream->deadline_ns};
  tenon_stream_events events = {};
  events.struct_size = sizeof events;
  const auto& host = link_->endpoint()->events;
  const uint64_t id = stream->id;
  tenon_status* refused =
      host.stream(host.argument, link_->peer(), &incoming, reinterpret_cast<tenon_stream*>(stream), &events);
  stream->events = events;
  if (refused == nullptr) return Delivered(stream);
  DropRefused(stream);
  Refuse(id, refused);
}

inline void* OpenStreams::Refuse(uint64_t id, tenon_status* status) {
  HeadWriter head(FrameKind::kClose);
  link_->WriteHead(head.Number(id).Number(0).Number(PeerLink::CodeOf(status)).Text(PeerLink::MessageOf(status)));
  tenon_plugin_host->status_release(status);
  return nullptr;
}

inline void OpenStreams::DropRefused(StreamSide* stream) {
  {
    const std::lock_guard guard(lock_);
    stream->code = TENON_CANCELLED;
    Unlist(stream);
  }
  Release(stream);
  Release(stream);
}

inline void OpenStreams::Delivered(StreamSide* stream) {
  bool end = false;
  {
    const std::lock_guard guard(lock_);
    stream->delivering = false;
    end = std::exchange(stream->end_waits, false);
  }
  if (end) TellEnd(stream);
}

inline void* OpenStreams::BeginMessage(HeadReader* head, uint64_t bytes) {
  delivery_ = {};
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  if (!head->Complete()) return link_->BadHead("a stream's message");
  if (bytes > link_->endpoint()->max_message_bytes) {
    Fail(id, mine, TENON_RESOURCE_EXHAUSTED, "a message is larger than max_message_bytes of its receiver");
    return nullptr;
  }
  const std::lock_guard guard(lock_);
  StreamSide* stream = Find(id, mine);
  if (stream == nullptr || stream->read_ended || stream->events.message == nullptr) return nullptr;
  if (received_->Reserve(bytes) == nullptr) throw std::bad_alloc();
  stream->delivering = true;
  delivery_ = {stream, bytes};
  return bytes == 0 ? nullptr : received_->data();
}

inline void OpenStreams::EndMessage(bool complete) {
  const auto [stream, bytes] = std::exchange(delivery_, {});
  if (stream == nullptr) return;
  if (complete) {
    stream->events.message(stream->events.argument, {received_->data(), bytes});
    received_->Rest();
    std::unique_lock guard(lock_);
    stream->unreported += CostOf(bytes);
    const bool report = stream->unreported >= kWindow / 4 && stream->listed && !link_->loss().happened();
    const uint64_t read = report ? std::exchange(stream->unreported, 0) : 0;
    guard.unlock();
    if (report) link_->WriteHead(HeadWriter(FrameKind::kCredit).Number(stream->id).Number(stream->mine).Number(read));
  }
  Delivered(stream);
}

inline void* OpenStreams::BeginCredit(HeadReader* head) {
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  const uint64_t bytes = head->Number();
  if (!head->Complete()) return link_->BadHead("a stream's credit");
  const std::lock_guard guard(lock_);
  StreamSide* stream = Find(id, mine);
  if (stream == nullptr) return nullptr;
  stream->outstanding -= std::min(bytes, stream->outstanding);
  stream->room.notify_all();
  return nullptr;
}

inline void* OpenStreams::BeginClose(HeadReader* head) {
  const uint64_t id = head->Number();
  const bool mine = head->Number() == 0;
  const uint64_t code = head->Number();
  const tenon_span text = head->Text();
  if (!head->Complete()) return link_->BadHead("a stream's end");
  std::unique_lock guard(lock_);
  StreamSide* stream = Find(id, mine);
  if (stream != nullptr) End(&guard, stream, PeerLink::KnownCode(code), ToText(text));
  return nullptr;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_OPEN_STREAMS_H_
