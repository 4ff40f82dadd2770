// SPDX-License-Identifier: Apache-2.0
// Connection: everything that tenon.transport/1 promises of a connection, over any pipe.
//
// Idea: calls, replies, streams and data are frames of a pipe (frame.h) with an id that its sender chose. Each side
// keeps a record of what is open (connection_records.h); the pipe's reading thread finds the record of a frame and
// calls the host. A call ends once: by its reply, its deadline, its cancellation or the loss of the connection,
// whichever comes first; what comes later finds no record and is dropped. Data is acknowledged by its receiver, so that
// a refusal reaches its sender.
//
// Rules. One lock guards the tables; no callback and no pipe is called under it. A connection is lost once: whoever
// sees the first reason (the pipe's Broken, a head that is none, disconnect) leaves it in why_, and Finish, on the
// keeper's thread or in disconnect, closes the pipe and ends what is open. Pieces that the pipe still holds when their
// call has ended are waited for; after kGrace the connection breaks, so that a frozen peer cannot keep a caller's
// memory.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_H_
#define TENON_SDK_TRANSPORT_CONNECTION_H_

#include <algorithm>
#include <unordered_map>

#include "tenon/extras/transport/connection_records.h"

namespace tenon::sdk {

class Connection final : public TimerOwner, private FrameSink {
 public:
  static constexpr uint64_t kWindow = uint64_t{1} << 20;  // bytes of a stream on their way
  static constexpr uint64_t kCallbackWindow = 16 * kWindow;  // where a callback writes, which cannot wait
  static constexpr uint64_t kGrace = 1'000'000'000;  // nanoseconds
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

  // A status: nothing was sent, and done will not be called. Otherwise done is called once, from any thread and perhaps
  // before this returns. The pieces stay until then. RESOURCE_EXHAUSTED beyond max_message_bytes.
  [[nodiscard]] tenon_status* Call(const tenon_call_args& args, uint64_t* out_call);
  // The same of data with a key, which the other side takes or refuses.
  [[nodiscard]] tenon_status* Send(const tenon_send_args& args);
  // done comes from the keeper's thread.
  void Cancel(uint64_t id);
  static void Respond(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count,
                      void (*sent)(void*), void* argument) {
    // the reply may go while it is written, on the thread that has read it
    const std::shared_ptr<Connection> connection = reply->connection;
    connection->Answer(reply, status, pieces, count, sent, argument);
  }

  // ---- For the host: streams ----

  [[nodiscard]] tenon_status* OpenStreamTo(tenon_span method, const tenon_metadata* metadata, uint64_t count,
                                           uint64_t deadline_ns, const tenon_stream_events& events,
                                           OpenStream** out_stream);
  [[nodiscard]] static tenon_status* WriteStream(OpenStream* stream, tenon_span message) {
    return stream->connection->WriteMessage(stream, message);
  }
  static void CloseStream(OpenStream* stream, tenon_status* status);

 private:
  // The frame that comes in, between Begin and End.
  struct Frame {
    FrameKind kind = FrameKind::kCancel;
    bool dropped = true;
    uint64_t id = 0;
    uint64_t bytes = 0;
    OpenReply* reply = nullptr;    // of a call
    OpenStream* stream = nullptr;  // of a message: being delivered
    void* token = nullptr;         // of data
    bool placing = false;
    bool misplaced = false;
    uint64_t begun = 0;  // of a request, until it is all there
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
  static uint64_t Timeout(uint64_t deadline_ns);
  static uint64_t DeadlineOf(uint64_t timeout_ns) {
    return timeout_ns == 0 ? 0 : Now() + std::min(timeout_ns, kNever / 2);
  }
  static void Nothing(void*, bool) {}
  void WriteHead(const HeadWriter& head) { pipe_->Write(head.view(), {}, Nothing, nullptr); }
  tenon_status* Reason() const { return Failure(code_, why_); }  // under the lock
  tenon_status* Draining() const {
    return Failure(TENON_UNAVAILABLE, "the endpoint is being drained: it takes no new calls");
  }
  tenon_status* TooLarge(const char* what, uint64_t bytes) const {
    return Failure(TENON_RESOURCE_EXHAUSTED, what, " of ", bytes, " bytes; max_message_bytes of the endpoint is ",
                   endpoint_->max_message_bytes);
  }
  tenon_status* CheckRequest(const tenon_span* pieces, uint64_t count, uint64_t head_bytes,
                             const tenon_metadata* metadata, uint64_t metadata_count) const;

  // ---- Calls and sends of this side ----

  template <class Fill>
  tenon_status* Open(uint64_t deadline_ns, OpenCall** out_call, Fill fill) {
    if (Late(deadline_ns))
      return Failure(TENON_DEADLINE_EXCEEDED, "the deadline had passed before anything was sent to ", name_);
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
  void AddCall();
  OpenCall* FindCall(uint64_t id);
  // The call has its outcome, unless it had one. The response is in receive_ (the pipe's thread) or empty.
  void Settle(uint64_t id, tenon_status* outcome, uint64_t response_bytes = 0);
  static void OnWritten(void* argument, bool);
  void CompleteLate(std::unique_lock<std::mutex>* guard, OpenCall* call);
  // Gives the record back and calls done. Unlocks.
  void Complete(std::unique_lock<std::mutex>* guard, OpenCall* call, const char* response);
  void OnTimer(uint32_t kind, uint64_t id) override;
  // The other side is told, unless it is data, which it takes nevertheless.
  void GiveUp(uint64_t id, tenon_status* status);
  void GraceEnded(uint64_t id);

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
  void Release(OpenReply* reply);
  void* BeginCall(HeadReader* head, uint64_t bytes);
  // Copies what came with the head.
  bool FillIncoming(OpenReply* reply, tenon_span method, uint64_t timeout, uint64_t bytes);
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
  static tenon_span MessageOf(const tenon_status* status);
  void EndCall(OpenReply* reply, bool complete);
  void Answer(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count, void (*sent)(void*),
              void* argument);
  static void OnSent(void* argument, bool);
  // Nobody waits for the answer to this call of the other side.
  void Unwanted(uint64_t id, bool late);

  // ---- Data ----

  void* BeginData(HeadReader* head, uint64_t bytes);
  void EndData(const Frame& frame, bool complete);

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
  bool Unlist(OpenStream* stream);
  // The other side writes no more, or the stream has failed. Unlocks.
  void EndStream(std::unique_lock<std::mutex>* guard, OpenStream* stream, uint32_t code, std::string_view text);
  static void TellEnd(OpenStream* stream);
  void StreamFails(uint64_t id, bool mine, uint32_t code, std::string_view text, bool tell);
  // Releases the lock meanwhile.
  void WriteClose(std::unique_lock<std::mutex>* guard, uint64_t id, bool mine, uint64_t code, std::string_view text);
  tenon_status* WriteMessage(OpenStream* stream, tenon_span message);
  static uint64_t EndOf(const OpenStream& stream) { return stream.deadline_ns == 0 ? kNever : stream.deadline_ns; }
  void CloseFromHost(OpenStream* stream, tenon_status* status);

  void* BeginStream(HeadReader* head);
  void* RefuseStream(tenon_status* status);
  void DropRefused(OpenStream* stream);
  // The callback that had the stream has returned; an end that waited comes now.
  void Delivered(OpenStream* stream);
  void* BeginMessage(HeadReader* head, uint64_t bytes);
  void EndMessage(const Frame& frame, bool complete);
  void* BeginCredit(HeadReader* head);
  void* BeginClose(HeadReader* head);

  // ---- The pipe's side ----

  static uint32_t KnownCode(uint64_t code) {
    return code <= TENON_UNAUTHENTICATED ? static_cast<uint32_t>(code) : TENON_UNKNOWN;
  }
  void* BadHead(const char* what);
  void* BeginReply(HeadReader* head, uint64_t bytes);
  void* Begin(std::string_view head, uint64_t body_bytes) override;
  void* BeginKnown(std::string_view head, uint64_t bytes);
  void End(bool complete) override;
  void Broken(tenon_status* why) override;

  // ---- The end of the connection ----

  void Lose(uint32_t code, std::string_view why) {  // under the lock
    code_ = code;
    why_ = why;
  }
  // Unlocks. What is open ends soon, on the keeper's thread.
  void Break(std::unique_lock<std::mutex>* guard, uint32_t code, std::string_view why);
  // Whoever comes first does it; others wait until it is done.
  void Finish(bool tell);
  void Tell();
  // After a loss callers get UNAVAILABLE, whatever the reason, but where it is their own doing.
  tenon_status* Loss() {
    const std::lock_guard guard(lock_);
    return Failure(code_ == TENON_CANCELLED ? TENON_CANCELLED : TENON_UNAVAILABLE, why_);
  }
  void EndCalls();
  void EndStreams();
  void EndReplies();

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

#include "tenon/extras/transport/connection_calls.h"
#include "tenon/extras/transport/connection_frames.h"
#include "tenon/extras/transport/connection_streams.h"

#endif  // TENON_SDK_TRANSPORT_CONNECTION_H_
