// SPDX-License-Identifier: Apache-2.0
// PeerLink: a connection's way to the other side, as its calls, streams and data use it.
#ifndef TENON_SDK_TRANSPORT_PEER_LINK_H_
#define TENON_SDK_TRANSPORT_PEER_LINK_H_

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/ext/draft/transport.h"
#include "tenon/sdk/span.h"
#include "tenon/extras/transport/connection_loss.h"
#include "tenon/extras/transport/endpoint_state.h"
#include "tenon/extras/transport/frame.h"
#include "tenon/extras/transport/keeper.h"
#include "tenon/extras/transport/message_buffer.h"
#include "tenon/extras/transport/pipe.h"

namespace tenon::sdk {

// The connection whose link it is. Its timers are of these kinds.
class LinkOwner : public TimerOwner {
 public:
  enum : uint32_t { kDeadlineTimer, kCancelTimer, kGraceTimer, kReplyTimer, kStreamTimer, kMyStreamTimer };
  // Closes the pipe and ends what is open; tell: the host hears of the loss. Not from within a callback.
  virtual void Finish(bool tell) = 0;
};

// Where a callback runs, which must not wait for the other side.
class InCallback {
 public:
  InCallback() : before_(std::exchange(in_callback_, true)) {}
  ~InCallback() { in_callback_ = before_; }
  static bool Here() { return in_callback_; }

 private:
  static inline thread_local bool in_callback_ = false;
  const bool before_;
};

// Any thread. What it is made of is fixed. To write one must hold no lock: the pipe may call back; to Break one may.
class PeerLink {
 public:
  static constexpr uint64_t kMaxOpen = 1u << 17;  // calls of the other side, and streams
  static constexpr uint64_t kMaxStatusText = 16 * 1024;

  // peer: what the host knows the connection by.
  PeerLink(LinkOwner* owner, tenon_peer* peer, std::shared_ptr<EndpointState> endpoint, std::unique_ptr<Pipe> pipe)
      : owner_(owner),
        peer_(peer),
        name_(pipe->name()),
        endpoint_(std::move(endpoint)),
        pipe_(std::move(pipe)) {}

  LinkOwner* owner() const { return owner_; }
  tenon_peer* peer() const { return peer_; }
  const std::string& name() const { return name_; }
  const std::shared_ptr<EndpointState>& endpoint() const { return endpoint_; }
  Pipe& pipe() const { return *pipe_; }
  ConnectionLoss& loss() { return loss_; }
  // A part of the connection, which holds all of it.
  template <class Part>
  std::shared_ptr<Part> Held(Part* part) const {
    return {owner_->shared_from_this(), part};
  }

  // ---- What goes out ----

  void WriteHead(const HeadWriter& head) {
    pipe_->Write(head.view(), {}, [](void*, bool) {}, nullptr);
  }
  // Takes the status.
  void WriteReply(uint64_t id, tenon_status* status) {
    WriteHead(HeadWriter(FrameKind::kReply).Number(id).Number(CodeOf(status)).Text(MessageOf(status)));
    if (status != nullptr) tenon_plugin_host->status_release(status);
  }
  // The same; there is no memory for the body.
  void* Refuse(uint64_t id, tenon_status* status) {
    WriteReply(id, status);
    return nullptr;
  }
  static uint64_t CodeOf(const tenon_status* status) {
    return status == nullptr ? TENON_OK : tenon_plugin_host->status_code(status);
  }
  static tenon_span MessageOf(const tenon_status* status) {
    if (status == nullptr) return {};
    const tenon_span text = tenon_plugin_host->status_message(status);
    return {text.data, std::min(text.size, kMaxStatusText)};
  }
  // Of what comes in.
  static uint32_t KnownCode(uint64_t code) {
    return code <= TENON_UNAUTHENTICATED ? static_cast<uint32_t>(code) : TENON_UNKNOWN;
  }

  // ---- Why something does not go ----

  tenon_status* Draining() const {
    return Failure(TENON_UNAVAILABLE, "the endpoint is being drained: it takes no new calls");
  }
  tenon_status* TooLarge(const char* what, uint64_t bytes) const {
    return Failure(TENON_RESOURCE_EXHAUSTED, what, " of ", bytes, " bytes; max_message_bytes of the endpoint is ",
                   endpoint_->max_message_bytes);
  }
  tenon_status* CheckRequest(const tenon_span* pieces, uint64_t count, uint64_t head_bytes,
                             const tenon_metadata* metadata, uint64_t metadata_count) const {
    const uint64_t bytes = TotalOf(pieces, count);
    if (bytes > endpoint_->max_message_bytes) return TooLarge("a message", bytes);
    for (uint64_t i = 0; i < metadata_count; ++i) head_bytes += metadata[i].key.size + metadata[i].value.size + 8;
    if (head_bytes <= kMaxFrameHead / 2 && metadata_count <= kMaxMetadata) return nullptr;
    return Failure(TENON_INVALID_ARGUMENT, "method, metadata or header have ", head_bytes, " bytes and ",
                   metadata_count, " pairs; at most ", kMaxFrameHead / 2, " and ", kMaxMetadata,
                   " may go with a message");
  }
  // The connection is lost, if it was not before. What is open ends soon, on the keeper's thread.
  void Break(uint32_t code, std::string_view why) {
    if (!loss_.Note(code, why)) return;
    endpoint_->keeper.Post([owner = Held(owner_)] { owner->Finish(true); });
  }
  void* BadHead(const char* what) {
    Break(TENON_INVALID_ARGUMENT, Concat(name_, " sent the head of ", what, " that is none"));
    return nullptr;
  }

  // ---- Deadlines: an instant here, what is left of it on the way; 0 is none ----

  static bool Late(uint64_t deadline_ns) { return deadline_ns != 0 && deadline_ns <= Now(); }
  static uint64_t Timeout(uint64_t deadline_ns) {
    if (deadline_ns == 0) return 0;
    const uint64_t now = Now();
    return deadline_ns > now ? deadline_ns - now : 1;
  }
  static uint64_t DeadlineOf(uint64_t timeout_ns) {
    return timeout_ns == 0 ? 0 : Now() + std::min(timeout_ns, kNever / 2);
  }

 private:
  LinkOwner* const owner_;
  tenon_peer* const peer_;
  const std::string name_;
  const std::shared_ptr<EndpointState> endpoint_;
  const std::unique_ptr<Pipe> pipe_;
  ConnectionLoss loss_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_PEER_LINK_H_
