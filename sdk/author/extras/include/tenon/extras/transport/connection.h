// SPDX-License-Identifier: Apache-2.0
// Connection: everything that tenon.transport/1 promises of a connection, over any pipe.
//
// Idea: calls, replies, streams and data are frames of a pipe (frame.h) with an id that its sender chose. Each side
// keeps records of what is open: of its own calls and sends (outgoing_calls.h), of the other side's calls
// (incoming_calls.h) and of streams (open_streams.h); the pipe's reading thread hands each frame to those whose record
// it is about, which call the host.
//
// Rules. Each part has a lock of its own and holds none while another part, a callback or the pipe is called; what they
// share is the link (peer_link.h). A connection is lost once: whoever sees the first reason (the pipe's Broken, a head
// that is none, disconnect) notes it (connection_loss.h), and Finish, on the keeper's thread or in disconnect, closes
// the pipe and ends what is open.
#ifndef TENON_SDK_TRANSPORT_CONNECTION_H_
#define TENON_SDK_TRANSPORT_CONNECTION_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/extras/transport/incoming_calls.h"
#include "tenon/extras/transport/incoming_data.h"
#include "tenon/extras/transport/open_streams.h"
#include "tenon/extras/transport/outgoing_calls.h"
#include "tenon/extras/transport/peer_link.h"

namespace tenon::sdk {

class Connection final : public LinkOwner, private FrameSink {
 public:
  Connection(std::shared_ptr<EndpointState> endpoint, std::unique_ptr<Pipe> pipe, bool accepted)
      : accepted_(accepted), link_(this, peer(), std::move(endpoint), std::move(pipe)) {}
  ~Connection() override { Finish(false); }

  tenon_peer* peer() { return reinterpret_cast<tenon_peer*>(this); }
  static Connection* Of(const tenon_peer* peer) { return reinterpret_cast<Connection*>(const_cast<tenon_peer*>(peer)); }
  bool accepted() const { return accepted_; }
  const std::string& name() const { return link_.name(); }
  OutgoingCalls& calls() { return calls_; }
  OpenStreams& streams() { return streams_; }

  void Start() {
    const std::lock_guard guard(start_lock_);
    link_.pipe().Start(this);
  }
  // The host's reference to a connection that it made, until it disconnects.
  void Hold(std::shared_ptr<Connection> self) { held_ = std::move(self); }
  std::shared_ptr<Connection> TakeHeld() { return std::move(held_); }
  // Ends it from this side and waits for that; not from within its callbacks.
  void End(std::string_view why, bool tell) {
    link_.loss().Note(TENON_CANCELLED, why);
    Finish(tell);
  }
  // Whoever comes first does it; others wait until it is done.
  void Finish(bool tell) override;

 private:
  void OnTimer(uint32_t kind, uint64_t id) override;
  void* Begin(std::string_view head, uint64_t body_bytes) override;
  void* BeginKnown(FrameKind kind, HeadReader* head, uint64_t bytes);
  void End(bool complete) override;
  void Broken(tenon_status* why) override;
  // The host, of the loss.
  void Tell();

  const bool accepted_;
  std::shared_ptr<Connection> held_;
  std::mutex start_lock_;  // is held while the pipe starts
  std::mutex finish_lock_;  // guards the next three
  bool finishing_ = false, done_ = false;
  std::condition_variable finished_;
  MessageBuffer received_;  // this and the next: the pipe's reading thread's own
  FrameKind kind_ = FrameKind::kCancel;  // of the frame that comes in
  PeerLink link_;
  OutgoingCalls calls_{&link_, &received_};
  IncomingCalls incoming_calls_{&link_};
  IncomingData incoming_data_{&link_};
  OpenStreams streams_{&link_, &received_};
};

// ---- The pipe's side ----

inline void* Connection::Begin(std::string_view head, uint64_t body_bytes) {
  const InCallback here;
  kind_ = FrameKind::kCancel;
  try {
    if (link_.loss().happened()) return nullptr;
    if (head.empty()) return link_.BadHead("a frame");
    HeadReader reader(head.substr(1));
    const auto kind = static_cast<FrameKind>(head[0]);
    const bool takes_body = kind == FrameKind::kCall || kind == FrameKind::kReply || kind == FrameKind::kData ||
                            kind == FrameKind::kMessage;
    if (body_bytes != 0 && !takes_body) return link_.BadHead("a frame");
    kind_ = kind;
    return BeginKnown(kind, &reader, body_bytes);
  } catch (const std::bad_alloc&) {
    link_.Break(TENON_RESOURCE_EXHAUSTED, "no memory for what the connection brings");
  }
  return nullptr;
}

inline void* Connection::BeginKnown(FrameKind kind, HeadReader* head, uint64_t bytes) {
  switch (kind) {
    case FrameKind::kCall: return incoming_calls_.Begin(head, bytes);
    case FrameKind::kReply: return calls_.BeginReply(head, bytes);
    case FrameKind::kData: return incoming_data_.Begin(head, bytes);
    case FrameKind::kStream: return streams_.BeginStream(head);
    case FrameKind::kMessage: return streams_.BeginMessage(head, bytes);
    case FrameKind::kCredit: return streams_.BeginCredit(head);
    case FrameKind::kClose: return streams_.BeginClose(head);
    case FrameKind::kCancel: return incoming_calls_.BeginCancel(head);
  }
  return link_.BadHead("a frame");
}

inline void Connection::End(bool complete) {
  const InCallback here;
  switch (std::exchange(kind_, FrameKind::kCancel)) {
    case FrameKind::kCall: return incoming_calls_.End(complete);
    case FrameKind::kReply: return calls_.EndReply(complete);
    case FrameKind::kData: return incoming_data_.End(complete);
    case FrameKind::kMessage: return streams_.EndMessage(complete);
    default: return;  // has no body
  }
}

inline void Connection::Broken(tenon_status* why) {
  const std::string text(ToText(tenon_plugin_host->status_message(why)));
  const uint32_t code = tenon_plugin_host->status_code(why);
  tenon_plugin_host->status_release(why);
  link_.Break(code == TENON_INVALID_ARGUMENT ? code : TENON_UNAVAILABLE,
              Concat("the connection to ", name(), " is lost: ", text));
}

// ---- Deadlines ----

inline void Connection::OnTimer(uint32_t kind, uint64_t id) {
  switch (kind) {
    case kDeadlineTimer:
      return calls_.GiveUp(id, Failure(TENON_DEADLINE_EXCEEDED, "no answer from ", name(), " by the deadline"));
    case kCancelTimer: return calls_.GiveUp(id, Failure(TENON_CANCELLED, "the caller cancelled it"));
    case kGraceTimer: return calls_.GraceEnded(id);
    case kReplyTimer: return incoming_calls_.MissDeadline(id);
    default: return streams_.MissDeadline(id, kind == kMyStreamTimer);
  }
}

// ---- The end of the connection ----

inline void Connection::Finish(bool tell) {
  {
    std::unique_lock guard(finish_lock_);
    if (finishing_) return finished_.wait(guard, [this] { return done_; });
    finishing_ = true;
    link_.loss().Note(TENON_CANCELLED, "the connection has ended");
  }
  start_lock_.lock();  // a pipe may break while it is started
  start_lock_.unlock();
  link_.pipe().Close();
  calls_.EndAll();
  streams_.EndAll();
  incoming_calls_.EndAll();
  if (tell) Tell();
  {
    const std::lock_guard guard(finish_lock_);
    done_ = true;
    finished_.notify_all();
  }
  link_.endpoint()->Forget(this);
}

inline void Connection::Tell() {
  const auto& events = link_.endpoint()->events;
  if (events.lost != nullptr) events.lost(events.argument, peer(), link_.loss().Reason());
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_CONNECTION_H_
