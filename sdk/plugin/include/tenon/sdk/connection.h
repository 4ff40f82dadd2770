// SPDX-License-Identifier: Apache-2.0
// Connection: everything that tenon.transport/1 promises of a connection, over any pipe.
//
// Idea: calls, replies, streams and data are frames of a pipe (frame.h) with an id that its sender chose. Each side keeps a
// record of what is open (connection_records.h); the pipe's reading thread finds the record of a frame and calls the host.
// A call ends once: by its reply, its deadline, its cancellation or the loss of the connection, whichever comes first; what
// comes later finds no record and is dropped. Data is acknowledged by its receiver, so that a refusal reaches its sender.
//
// Rules. One lock guards the tables; no callback and no pipe is called under it. A connection is lost once: whoever sees
// the first reason (the pipe's Broken, a head that is none, disconnect) leaves it in why_, and Finish, on the keeper's thread
// or in disconnect, closes the pipe and ends what is open. Pieces that the pipe still holds when their call has ended are waited for;
// after kGrace the connection breaks, so that a frozen peer cannot keep a caller's memory.
#ifndef TENON_SDK_CONNECTION_H_
#define TENON_SDK_CONNECTION_H_

#include <algorithm>
#include <unordered_map>

#include "tenon/sdk/connection_records.h"

namespace tenon::sdk {

class Connection final : public TimerOwner, private FrameSink {
 public:
  static constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes of a stream on their way
  static constexpr uint64_t kCallbackWindow = 16 * kWindow;  // where a callback writes, which cannot wait
  static constexpr uint64_t kGrace = 1'000'000'000;
  static constexpr uint64_t kMaxOpenReplies = 1u << 17;
  static constexpr uint64_t kMaxStatusText = 16 * 1024;

  Connection(std::shared_ptr<EndpointState> endpoint, std::unique_ptr<Pipe> pipe, bool accepted)
      : accepted_(accepted), name_(pipe->name()), endpoint_(std::move(endpoint)), pipe_(std::move(pipe)) {}
  ~Connection() override { Finish(false); }

  tenon_peer* peer() { return reinterpret_cast<tenon_peer*>(this); }
  static Connection* Of(const tenon_peer* peer) { return reinterpret_cast<Connection*>(const_cast<tenon_peer*>(peer)); }
  bool accepted() const { return accepted_; }
  const std::string& name() const { return name_; }

  void Start() {
    const std::lock_guard guard(start_lock_);
    pipe_->Start(this);
  }
  // The host's reference to a connection that it made, until it disconnects.
  void Hold(std::shared_ptr<Connection> self) { held_ = std::move(self); }
  std::shared_ptr<Connection> TakeHeld() { return std::move(held_); }
  // Ends it from this side and waits for that; not from within its callbacks.
  void End(std::string_view why, bool tell) {
    {
      const std::lock_guard guard(lock_);
      if (code_ == TENON_OK) Lose(TENON_CANCELLED, why);
    }
    Finish(tell);
  }

  // ---- For the host: calls ----

  [[nodiscard]] tenon_status* Call(const tenon_call_args& args, uint64_t* out_call) {
    HeadWriter head(FrameKind::kCall);
    OpenCall* call = nullptr;
    TENON_SDK_RETURN_IF_ERROR(CheckRequest(args.pieces, args.piece_count, args.method.size, args.metadata, args.metadata_count));
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
  [[nodiscard]] tenon_status* Send(const tenon_send_args& args) {
    HeadWriter head(FrameKind::kData);
    OpenCall* call = nullptr;
    if (args.key.size > TENON_TRANSPORT_MAX_KEY) {
      return Failure(TENON_INVALID_ARGUMENT, "a key has ", args.key.size, " bytes; ", TENON_TRANSPORT_MAX_KEY, " are the most");
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
  // done comes from the keeper's thread.
  void Cancel(uint64_t id) {
    const std::lock_guard guard(lock_);
    OpenCall* call = FindCall(id);
    if (call == nullptr || (call->flags & OpenCall::kSettled) != 0) return;
    endpoint_->keeper.Arm(&call->timer, Now(), kCancelTimer);
  }
  static void Respond(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count, void (*sent)(void*),
                      void* argument) {
    reply->connection->Answer(reply, status, pieces, count, sent, argument);
  }

  // ---- For the host: streams ----

  [[nodiscard]] tenon_status* OpenStreamTo(tenon_span method, const tenon_metadata* metadata, uint64_t count, uint64_t deadline_ns,
                                           const tenon_stream_events& events, OpenStream** out_stream) {
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
  [[nodiscard]] static tenon_status* WriteStream(OpenStream* stream, tenon_span message) {
    return stream->connection->WriteMessage(stream, message);
  }
  static void CloseStream(OpenStream* stream, tenon_status* status) {
    const std::shared_ptr<Connection> self = stream->connection;
    self->CloseFromHost(stream, status);
    Release(stream);
  }

 private:
  // The frame that comes in, between Begin and End.
  struct Frame {
    FrameKind kind = FrameKind::kCancel;
    bool dropped = true;
    uint64_t id = 0;
    uint64_t bytes = 0;
    OpenReply* reply = nullptr;    // of a call
    OpenStream* stream = nullptr;  // of a message: being delivered
    tenon_status* status = nullptr;  // of a reply
    void* token = nullptr;         // of data
    bool placing = false;
    bool misplaced = false;
  };
  // Where a callback runs, which must not wait for the other side.
  struct InCallback {
    InCallback() : before(std::exchange(in_callback_, true)) {}
    ~InCallback() { in_callback_ = before; }
    const bool before;
  };
  static inline thread_local bool in_callback_ = false;
  enum : uint32_t { kDeadlineTimer, kCancelTimer, kGraceTimer, kReplyTimer, kStreamTimer, kMyStreamTimer };

  std::shared_ptr<Connection> Self() { return std::static_pointer_cast<Connection>(shared_from_this()); }
  static bool Late(uint64_t deadline_ns) { return deadline_ns != 0 && deadline_ns <= Now(); }
  static uint64_t Timeout(uint64_t deadline_ns) {
    if (deadline_ns == 0) return 0;
    const uint64_t now = Now();
    return deadline_ns > now ? deadline_ns - now : 1;
  }
  static uint64_t DeadlineOf(uint64_t timeout_ns) { return timeout_ns == 0 ? 0 : Now() + std::min(timeout_ns, kNever / 2); }
  static void Nothing(void*, bool) {}
  void WriteHead(const HeadWriter& head) { pipe_->Write(head.view(), {}, Nothing, nullptr); }
  tenon_status* Reason() const { return Failure(code_, why_); }  // under the lock
  tenon_status* Draining() const { return Failure(TENON_UNAVAILABLE, "the endpoint is being drained: it takes no new calls"); }
  tenon_status* TooLarge(const char* what, uint64_t bytes) const {
    return Failure(TENON_RESOURCE_EXHAUSTED, what, " of ", bytes, " bytes; max_message_bytes of the endpoint is ",
                   endpoint_->max_message_bytes);
  }
  tenon_status* CheckRequest(const tenon_span* pieces, uint64_t count, uint64_t head_bytes, const tenon_metadata* metadata,
                             uint64_t metadata_count) const {
    const uint64_t bytes = TotalOf(pieces, count);
    if (bytes > endpoint_->max_message_bytes) return TooLarge("a message", bytes);
    for (uint64_t i = 0; i < metadata_count; ++i) head_bytes += metadata[i].key.size + metadata[i].value.size + 8;
    if (head_bytes <= kMaxFrameHead / 2 && metadata_count <= kMaxMetadata) return nullptr;
    return Failure(TENON_INVALID_ARGUMENT, "method, metadata or header have ", head_bytes, " bytes and ", metadata_count,
                   " pairs; at most ", kMaxFrameHead / 2, " and ", kMaxMetadata, " may go with a message");
  }

  // ---- Calls and sends of this side ----

  template <class Fill>
  tenon_status* Open(uint64_t deadline_ns, OpenCall** out_call, Fill fill) {
    if (Late(deadline_ns)) return Failure(TENON_DEADLINE_EXCEEDED, "the deadline had passed before anything was sent to ", name_);
    const std::lock_guard guard(lock_);
    if (code_ != TENON_OK) return Reason();
    if (free_calls_.empty()) AddCall();
    OpenCall* call = free_calls_.back();
    free_calls_.pop_back();
    call->used = true;
    call->flags.store(0, std::memory_order_relaxed);
    call->call_done = nullptr;
    call->send_done = nullptr;
    fill(call);
    call->timer.id = call->id();
    if (deadline_ns != 0) endpoint_->keeper.Arm(&call->timer, deadline_ns, kDeadlineTimer);
    endpoint_->Opened();
    *out_call = call;
    return nullptr;
  }
  void AddCall() {
    free_calls_.reserve(calls_.size() + 1);  // giving one back allocates nothing
    auto call = std::make_unique<OpenCall>();
    call->connection = this;
    call->timer.owner = this;
    call->index = static_cast<uint32_t>(calls_.size());
    calls_.push_back(std::move(call));
    free_calls_.push_back(calls_.back().get());
  }
  OpenCall* FindCall(uint64_t id) {
    const uint64_t index = id & UINT32_MAX;
    if (index >= calls_.size()) return nullptr;
    OpenCall* call = calls_[index].get();
    return call->used && call->id() == id ? call : nullptr;
  }
  // The call has its outcome, unless it had one. The response is in receive_ (the pipe's thread) or empty.
  void Settle(uint64_t id, tenon_status* outcome, uint64_t response_bytes = 0) {
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
  static void OnWritten(void* argument, bool) {
    auto* call = static_cast<OpenCall*>(argument);
    if ((call->flags.fetch_or(OpenCall::kWritten) & OpenCall::kSettled) == 0) return;
    std::unique_lock guard(call->connection->lock_);
    call->connection->CompleteLate(&guard, call);
  }
  void CompleteLate(std::unique_lock<std::mutex>* guard, OpenCall* call) {
    const InCallback here;
    MessageBuffer response = std::move(call->response);
    Complete(guard, call, response.data());
  }
  // Gives the record back and calls done. Unlocks.
  void Complete(std::unique_lock<std::mutex>* guard, OpenCall* call, const char* response) {
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
  void OnTimer(uint32_t kind, uint64_t id) override {
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
  // The other side is told, unless it is data, which it takes nevertheless.
  void GiveUp(uint64_t id, tenon_status* status) {
    bool tell = false;
    {
      const std::lock_guard guard(lock_);
      const OpenCall* call = FindCall(id);
      tell = call != nullptr && call->call_done != nullptr && code_ == TENON_OK;
    }
    if (tell) WriteHead(HeadWriter(FrameKind::kCancel).Number(id));
    Settle(id, status);
  }
  void GraceEnded(uint64_t id) {
    std::unique_lock guard(lock_);
    if (FindCall(id) == nullptr) return;
    Break(&guard, TENON_UNAVAILABLE, Concat(name_, " does not take what is sent to it, and a deadline has passed"));
  }

  // ---- Calls of the other side ----

  OpenReply* NewReply() {  // under the lock
    std::unique_ptr<OpenReply> reply;
    if (free_replies_.empty()) {
      reply = std::make_unique<OpenReply>();
      reply->timer.owner = this;
    } else {
      reply = std::move(free_replies_.back());
      free_replies_.pop_back();
    }
    reply->references = 2;  // the host's and the frame's
    return reply.release();
  }
  void Release(OpenReply* reply) {
    if (--reply->references != 0) return;
    reply->request.Rest();
    reply->response.Rest();
    const std::shared_ptr<Connection> self = std::move(reply->connection);
    std::unique_ptr<OpenReply> owned(reply);
    const std::lock_guard guard(lock_);
    if (free_replies_.size() < 64) free_replies_.push_back(std::move(owned));
  }
  void* BeginCall(HeadReader* head, uint64_t bytes) {
    const uint64_t id = head->Number(), timeout = head->Number();
    const tenon_span method = head->Text();
    head->Metadata(&metadata_);
    if (!head->Complete()) return BadHead("a call");
    if (endpoint_->events.call == nullptr) return RefuseCall(id, Failure(TENON_UNIMPLEMENTED, "this side takes no calls"));
    if (endpoint_->draining) return RefuseCall(id, Draining());
    if (bytes > endpoint_->max_message_bytes) return RefuseCall(id, TooLarge("a request", bytes));
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
  // Copies what came with the head.
  bool FillIncoming(OpenReply* reply, tenon_span method, uint64_t timeout, uint64_t bytes) {
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
  void* RefuseCall(uint64_t id, tenon_status* status) {
    WriteReply(id, status);
    return nullptr;
  }
  void WriteReply(uint64_t id, tenon_status* status) {
    WriteHead(HeadWriter(FrameKind::kReply).Number(id).Number(CodeOf(status)).Text(MessageOf(status)));
    if (status != nullptr) tenon_plugin_host->status_release(status);
  }
  static uint64_t CodeOf(const tenon_status* status) {
    return status == nullptr ? TENON_OK : tenon_plugin_host->status_code(status);
  }
  static tenon_span MessageOf(const tenon_status* status) {
    if (status == nullptr) return {};
    const tenon_span text = tenon_plugin_host->status_message(status);
    return {text.data, std::min(text.size, kMaxStatusText)};
  }
  void EndCall(OpenReply* reply, bool complete) {
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
  void Answer(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count, void (*sent)(void*), void* argument) {
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
  static void OnSent(void* argument, bool) {
    auto* reply = static_cast<OpenReply*>(argument);
    const std::shared_ptr<Connection> self = reply->connection;
    const InCallback here;
    if (reply->sent != nullptr) reply->sent(reply->argument);
    self->endpoint_->Closed();
    self->Release(reply);
  }
  // Nobody waits for the answer to this call of the other side.
  void Unwanted(uint64_t id, bool late) {
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

  // ---- Data ----

  void* BeginData(HeadReader* head, uint64_t bytes) {
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
  void EndData(const Frame& frame, bool complete) {
    const auto fail = [&]() -> tenon_status* {
      if (frame.misplaced) return Failure(TENON_INTERNAL, "the receiver gave less memory than the data needs");
      if (complete) return nullptr;
      return Failure(TENON_UNAVAILABLE, "the connection to ", name_, " was lost while data came");
    };
    if (complete) WriteReply(frame.id, fail());
    endpoint_->events.placed(endpoint_->events.argument, peer(), frame.token, fail());
  }

  // ---- Streams ----

  static uint64_t CostOf(uint64_t bytes) { return bytes + 64; }
  static void Release(OpenStream* stream) {
    if (--stream->references == 0) delete stream;
  }
  static uint64_t StreamKey(uint64_t id, bool mine) { return id * 2 + (mine ? 1 : 0); }
  void List(OpenStream* stream) {  // under the lock
    streams_.emplace(StreamKey(stream->id, stream->mine), stream);
    stream->listed = true;
    stream->timer.owner = this;
    stream->timer.id = stream->id;
    const uint32_t kind = stream->mine ? kMyStreamTimer : kStreamTimer;
    if (stream->deadline_ns != 0) endpoint_->keeper.Arm(&stream->timer, stream->deadline_ns, kind);
    endpoint_->Opened();
  }
  OpenStream* FindStream(uint64_t id, bool mine) {
    const auto found = streams_.find(StreamKey(id, mine));
    return found == streams_.end() ? nullptr : found->second;
  }
  // When nothing more can happen on it. True: end() must be called by who asks, with the lock released.
  bool Unlist(OpenStream* stream) {
    if (stream->listed && (stream->code != TENON_OK || (stream->read_ended && stream->write_closed))) {
      streams_.erase(StreamKey(stream->id, stream->mine));
      stream->listed = false;
      endpoint_->keeper.Disarm(&stream->timer);
      endpoint_->Closed();
    }
    stream->room.notify_all();
    return stream->read_ended;
  }
  // The other side writes no more, or the stream has failed. Unlocks.
  void EndStream(std::unique_lock<std::mutex>* guard, OpenStream* stream, uint32_t code, std::string_view text) {
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
  static void TellEnd(OpenStream* stream) {
    const std::shared_ptr<Connection> self = stream->connection;
    tenon_status* status = nullptr;
    {
      const std::lock_guard guard(self->lock_);
      if (stream->code != TENON_OK) status = Failure(stream->code, stream->text);
    }
    stream->events.end(stream->events.argument, status);
    Release(stream);
  }
  void StreamFails(uint64_t id, bool mine, uint32_t code, std::string_view text, bool tell) {
    std::unique_lock guard(lock_);
    OpenStream* stream = FindStream(id, mine);
    if (stream == nullptr) return;
    if (tell) WriteClose(&guard, id, mine, code, text);
    stream = FindStream(id, mine);
    if (stream != nullptr) EndStream(&guard, stream, code, text);
  }
  // Releases the lock meanwhile.
  void WriteClose(std::unique_lock<std::mutex>* guard, uint64_t id, bool mine, uint64_t code, std::string_view text) {
    if (code_ != TENON_OK) return;
    guard->unlock();
    text = text.substr(0, kMaxStatusText);
    WriteHead(HeadWriter(FrameKind::kClose).Number(id).Number(mine ? 1 : 0).Number(code).Text(ToSpan(text)));
    guard->lock();
  }
  tenon_status* WriteMessage(OpenStream* stream, tenon_span message) {
    if (message.size > endpoint_->max_message_bytes) return TooLarge("a stream's message", message.size);
    const uint64_t cost = CostOf(message.size);
    const uint64_t window = in_callback_ ? kCallbackWindow : kWindow;
    {
      std::unique_lock guard(lock_);
      const auto ready = [&] {
        return stream->code != TENON_OK || stream->write_closed || stream->outstanding == 0 || stream->outstanding + cost <= window;
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
  static uint64_t EndOf(const OpenStream& stream) { return stream.deadline_ns == 0 ? kNever : stream.deadline_ns; }
  void CloseFromHost(OpenStream* stream, tenon_status* status) {
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

  void* BeginStream(HeadReader* head) {
    frame_.id = head->Number();
    const uint64_t timeout = head->Number();
    const tenon_span method = head->Text();
    head->Metadata(&metadata_);
    if (!head->Complete()) return BadHead("a stream");
    if (endpoint_->events.stream == nullptr) return RefuseStream(Failure(TENON_UNIMPLEMENTED, "this side takes no streams"));
    if (endpoint_->draining) return RefuseStream(Draining());
    auto stream = std::make_unique<OpenStream>();
    stream->connection = Self();
    stream->id = frame_.id;
    stream->deadline_ns = DeadlineOf(timeout);
    {
      std::unique_lock guard(lock_);
      if (FindStream(frame_.id, false) != nullptr || streams_.size() >= kMaxOpenReplies) {
        Break(&guard, TENON_INVALID_ARGUMENT, Concat("stream ", frame_.id, " of ", name_, " came twice, or there are too many"));
        return nullptr;
      }
      stream->delivering = true;  // its end waits until it is known what happens then
      List(stream.get());
    }
    OpenStream* opened = stream.release();
    tenon_incoming incoming = {TENON_HEAD(tenon_incoming), method, {}, metadata_.data(), metadata_.size(), opened->deadline_ns};
    tenon_stream_events events = {};
    events.struct_size = sizeof events;
    const auto& host = endpoint_->events;
    tenon_status* refused = host.stream(host.argument, peer(), &incoming, reinterpret_cast<tenon_stream*>(opened), &events);
    opened->events = events;
    if (refused == nullptr) {
      Delivered(opened);
    } else {
      DropRefused(opened);
      RefuseStream(refused);
    }
    return nullptr;
  }
  void* RefuseStream(tenon_status* status) {
    WriteHead(HeadWriter(FrameKind::kClose).Number(frame_.id).Number(0).Number(CodeOf(status)).Text(MessageOf(status)));
    tenon_plugin_host->status_release(status);
    return nullptr;
  }
  void DropRefused(OpenStream* stream) {
    {
      const std::lock_guard guard(lock_);
      stream->code = TENON_CANCELLED;
      Unlist(stream);
    }
    Release(stream);
    Release(stream);
  }
  // The callback that had the stream has returned; an end that waited comes now.
  void Delivered(OpenStream* stream) {
    bool end = false;
    {
      const std::lock_guard guard(lock_);
      stream->delivering = false;
      end = std::exchange(stream->end_waits, false);
    }
    if (end) TellEnd(stream);
  }
  void* BeginMessage(HeadReader* head, uint64_t bytes) {
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
  void EndMessage(const Frame& frame, bool complete) {
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
  void* BeginCredit(HeadReader* head) {
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
  void* BeginClose(HeadReader* head) {
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

  // ---- The pipe's side ----

  static uint32_t KnownCode(uint64_t code) { return code <= TENON_UNAUTHENTICATED ? static_cast<uint32_t>(code) : TENON_UNKNOWN; }
  void* BadHead(const char* what) {
    std::unique_lock guard(lock_);
    Break(&guard, TENON_INVALID_ARGUMENT, Concat(name_, " sent the head of ", what, " that is none"));
    return nullptr;
  }
  void* BeginReply(HeadReader* head, uint64_t bytes) {
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
  void* Begin(std::string_view head, uint64_t body_bytes) override {
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
  void* BeginKnown(std::string_view head, uint64_t bytes) {
    {
      const std::lock_guard guard(lock_);
      if (code_ != TENON_OK) return nullptr;
    }
    if (head.empty()) return BadHead("a frame");
    HeadReader reader(head.substr(1));
    frame_.kind = static_cast<FrameKind>(head[0]);
    frame_.bytes = bytes;
    const bool takes_body = frame_.kind == FrameKind::kCall || frame_.kind == FrameKind::kReply || frame_.kind == FrameKind::kData ||
                            frame_.kind == FrameKind::kMessage;
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
  void End(bool complete) override {
    const Frame frame = std::exchange(frame_, {});
    const InCallback here;
    if (frame.reply != nullptr) EndCall(frame.reply, complete);
    if (frame.stream != nullptr) EndMessage(frame, complete);
    if (frame.placing) EndData(frame, complete);
    if (frame.kind == FrameKind::kReply && !frame.dropped && complete) {
      Settle(frame.id, nullptr, frame.bytes);
      receive_.Rest();
    }
  }
  void Broken(tenon_status* why) override {
    const std::string text(ToText(tenon_plugin_host->status_message(why)));
    const uint32_t code = tenon_plugin_host->status_code(why);
    tenon_plugin_host->status_release(why);
    std::unique_lock guard(lock_);
    Break(&guard, code == TENON_INVALID_ARGUMENT ? code : TENON_UNAVAILABLE, Concat("the connection to ", name_, " is lost: ", text));
  }

  // ---- The end of the connection ----

  void Lose(uint32_t code, std::string_view why) {  // under the lock
    code_ = code;
    why_ = why;
  }
  // Unlocks. What is open ends soon, on the keeper's thread.
  void Break(std::unique_lock<std::mutex>* guard, uint32_t code, std::string_view why) {
    const bool first = code_ == TENON_OK;
    if (first) Lose(code, why);
    guard->unlock();
    if (first) endpoint_->keeper.Post([self = Self()] { self->Finish(true); });
  }
  // Whoever comes first does it; others wait until it is done.
  void Finish(bool tell) {
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
  void Tell() {
    std::unique_lock guard(lock_);
    tenon_status* why = Reason();
    guard.unlock();
    const auto& events = endpoint_->events;
    if (events.lost != nullptr) return events.lost(events.argument, peer(), why);
    tenon_plugin_host->status_release(why);
  }
  // After a loss callers get UNAVAILABLE, whatever the reason, but where it is their own doing.
  tenon_status* Loss() {
    const std::lock_guard guard(lock_);
    return Failure(code_ == TENON_CANCELLED ? TENON_CANCELLED : TENON_UNAVAILABLE, why_);
  }
  void EndCalls() {
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
  void EndStreams() {
    for (;;) {
      std::unique_lock guard(lock_);
      if (streams_.empty()) return;
      EndStream(&guard, streams_.begin()->second, code_ == TENON_CANCELLED ? TENON_CANCELLED : TENON_UNAVAILABLE, why_);
    }
  }
  void EndReplies() {
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

  const bool accepted_;
  const std::string name_;
  const std::shared_ptr<EndpointState> endpoint_;
  const std::unique_ptr<Pipe> pipe_;
  std::shared_ptr<Connection> held_;
  std::mutex start_lock_;

  std::mutex lock_;
  uint32_t code_ = TENON_OK;  // why it is lost; OK: it is not
  std::string why_;
  bool finishing_ = false, done_ = false;
  std::condition_variable finished_;
  std::vector<std::unique_ptr<OpenCall>> calls_;
  std::vector<OpenCall*> free_calls_;
  std::unordered_map<uint64_t, OpenReply*> replies_;
  std::vector<std::unique_ptr<OpenReply>> free_replies_;
  std::unordered_map<uint64_t, OpenStream*> streams_;
  uint64_t last_stream_ = 0;

  // The pipe's reading thread's own.
  Frame frame_;
  MessageBuffer receive_;
  std::vector<tenon_metadata> metadata_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_CONNECTION_H_
