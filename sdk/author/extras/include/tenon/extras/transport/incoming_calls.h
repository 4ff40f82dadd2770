// SPDX-License-Identifier: Apache-2.0
// IncomingCalls: the calls of a connection's other side, which wait for this side's answers.
#ifndef TENON_SDK_TRANSPORT_INCOMING_CALLS_H_
#define TENON_SDK_TRANSPORT_INCOMING_CALLS_H_

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/extras/transport/peer_link.h"

namespace tenon::sdk {

class IncomingCalls;

// A call of the other side. Pooled. Owned by whoever counts: the host until it responds, the frame that brings it, a
// cancellation.
struct OpenReply {
  std::shared_ptr<IncomingCalls> calls;  // and with them the connection
  std::atomic<uint32_t> references{0};
  uint64_t id = 0;
  Timer timer;
  bool waited_for = false;  // in the table: the other side waits; the lock of the calls guards it
  tenon_incoming incoming = {};
  std::vector<tenon_metadata> metadata;
  MessageBuffer head, request, response;
  void (*sent)(void* argument) = nullptr;
  void* argument = nullptr;
};

// One lock guards the table and the pool; no callback and no pipe is called under it.
class IncomingCalls {
 public:
  // It outlives them.
  explicit IncomingCalls(PeerLink* link) : link_(link) {}
  IncomingCalls(const IncomingCalls&) = delete;
  IncomingCalls& operator=(const IncomingCalls&) = delete;

  // Any thread, once for each. Takes the status. The pieces stay until sent(argument), or are copied where there is
  // none.
  static void Respond(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count,
                      void (*sent)(void*), void* argument) {
    // the reply may go while it is written, on the thread that has read it
    const std::shared_ptr<IncomingCalls> calls = reply->calls;
    calls->Answer(reply, status, pieces, count, sent, argument);
  }

  // A call, on the pipe's reading thread: memory for its request, which then is there or not.
  void* Begin(HeadReader* head, uint64_t bytes);
  void End(bool complete);
  // The other side does not wait any more.
  void* BeginCancel(HeadReader* head);

  // On the keeper's thread.
  void MissDeadline(uint64_t id) { Forsake(id, /*late=*/true); }
  // Once the connection is lost.
  void EndAll();

 private:
  // The call that comes in.
  struct Coming {
    OpenReply* reply = nullptr;
    uint64_t begun = 0;  // bytes of the request, until it is all there
  };
  OpenReply* NewReply();  // under the lock
  void Release(OpenReply* reply);
  // Copies what came with the head.
  bool Fill(OpenReply* reply, tenon_span method, uint64_t timeout, uint64_t bytes);
  void Deliver(OpenReply* reply);
  void Answer(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count, void (*sent)(void*),
              void* argument);
  static void OnSent(void* argument, bool);
  // Nobody waits for the answer. late: if its deadline has passed.
  void Forsake(uint64_t id, bool late);

  PeerLink* const link_;
  Coming coming_;  // this and the next: the pipe's reading thread's own
  std::vector<tenon_metadata> metadata_;
  std::mutex lock_;
  std::unordered_map<uint64_t, OpenReply*> replies_;
  std::vector<std::unique_ptr<OpenReply>> free_;
};

// ---- As they come ----

inline OpenReply* IncomingCalls::NewReply() {
  std::unique_ptr<OpenReply> reply;
  if (free_.empty()) {
    reply = std::make_unique<OpenReply>();
    reply->timer.owner = link_->owner();
  } else {
    reply = std::move(free_.back());
    free_.pop_back();
  }
  reply->references = 2;  // the host's and the frame's
  return reply.release();
}

inline void IncomingCalls::Release(OpenReply* reply) {
  if (--reply->references != 0) return;
  reply->request.Rest();
  reply->response.Rest();
  const std::shared_ptr<IncomingCalls> self = std::move(reply->calls);
  std::unique_ptr<OpenReply> owned(reply);
  const std::lock_guard guard(lock_);
  if (free_.size() < 64) free_.push_back(std::move(owned));
}

inline void* IncomingCalls::Begin(HeadReader* head, uint64_t bytes) {
  coming_ = {};
  EndpointState& endpoint = *link_->endpoint();
  const uint64_t id = head->Number(), timeout = head->Number();
  const tenon_span method = head->Text();
  head->Metadata(&metadata_);
  if (!head->Complete()) return link_->BadHead("a call");
  if (endpoint.events.call == nullptr)
    return link_->Refuse(id, Failure(TENON_UNIMPLEMENTED, "this side takes no calls"));
  if (endpoint.draining) return link_->Refuse(id, link_->Draining());
  if (bytes > endpoint.max_message_bytes) return link_->Refuse(id, link_->TooLarge("a request", bytes));
  if (!endpoint.Begun(bytes)) {
    return link_->Refuse(
        id, Failure(TENON_RESOURCE_EXHAUSTED, "requests that are not all there yet take as much memory as they may, ",
                    endpoint.max_unfinished_bytes(), " bytes; this one of ", bytes, " bytes would be more"));
  }
  coming_.begun = bytes;
  OpenReply* reply = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (replies_.contains(id)) {
      link_->Break(TENON_INVALID_ARGUMENT, Concat("call ", id, " of ", link_->name(), " came twice"));
      return nullptr;
    }
    if (replies_.size() < PeerLink::kMaxOpen) reply = NewReply();
  }
  if (reply == nullptr)
    return link_->Refuse(id, Failure(TENON_RESOURCE_EXHAUSTED, "too many calls wait for an answer"));
  reply->calls = link_->Held(this);
  reply->id = reply->timer.id = id;
  if (!Fill(reply, method, timeout, bytes)) {
    reply->references = 1;
    Release(reply);
    return link_->Refuse(id, Failure(TENON_RESOURCE_EXHAUSTED, "no memory for a request of ", bytes, " bytes"));
  }
  coming_.reply = reply;
  return bytes == 0 ? nullptr : reply->request.data();
}

inline bool IncomingCalls::Fill(OpenReply* reply, tenon_span method, uint64_t timeout, uint64_t bytes) {
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
                     reply->metadata.data(),     reply->metadata.size(), PeerLink::DeadlineOf(timeout)};
  return true;
}

inline void IncomingCalls::End(bool complete) {
  const Coming come = std::exchange(coming_, {});
  if (come.begun != 0) link_->endpoint()->Ended(come.begun);
  if (come.reply == nullptr) return;
  if (complete) return Deliver(come.reply);
  come.reply->references = 1;
  Release(come.reply);
}

inline void IncomingCalls::Deliver(OpenReply* reply) {
  {
    const std::lock_guard guard(lock_);
    replies_.emplace(reply->id, reply);
    reply->waited_for = true;
  }
  EndpointState& endpoint = *link_->endpoint();
  endpoint.Opened();
  endpoint.events.call(endpoint.events.argument, link_->peer(), &reply->incoming,
                       reinterpret_cast<tenon_reply*>(reply));
  if (reply->incoming.deadline_ns != 0) {
    const std::lock_guard guard(lock_);
    if (reply->waited_for) endpoint.keeper.Arm(&reply->timer, reply->incoming.deadline_ns, LinkOwner::kReplyTimer);
  }
  Release(reply);
}

inline void* IncomingCalls::BeginCancel(HeadReader* head) {
  const uint64_t id = head->Number();
  if (!head->Complete()) return link_->BadHead("a cancellation");
  Forsake(id, /*late=*/false);
  return nullptr;
}

// ---- How they end ----

inline void IncomingCalls::Answer(OpenReply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count,
                                  void (*sent)(void*), void* argument) {
  EndpointState& endpoint = *link_->endpoint();
  bool wanted = false;
  {
    const std::lock_guard guard(lock_);
    wanted = std::exchange(reply->waited_for, false);
    if (wanted) replies_.erase(reply->id);
    wanted = wanted && !link_->loss().happened();
  }
  endpoint.keeper.Disarm(&reply->timer);
  reply->sent = sent;
  reply->argument = argument;
  const uint64_t bytes = status == nullptr ? TotalOf(pieces, count) : 0;
  if (status == nullptr && bytes > endpoint.max_message_bytes) status = link_->TooLarge("a response", bytes);
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
    head.Number(reply->id).Number(PeerLink::CodeOf(status)).Text(PeerLink::MessageOf(status));
    link_->pipe().Write(head.view(), {pieces, status == nullptr && bytes != 0 ? count : 0}, OnSent, reply);
  } else {
    OnSent(reply, false);
  }
  if (status != nullptr) tenon_plugin_host->status_release(status);
}

inline void IncomingCalls::OnSent(void* argument, bool) {
  auto* reply = static_cast<OpenReply*>(argument);
  const std::shared_ptr<IncomingCalls> self = reply->calls;
  const InCallback here;
  if (reply->sent != nullptr) reply->sent(reply->argument);
  self->link_->endpoint()->Closed();
  self->Release(reply);
}

inline void IncomingCalls::Forsake(uint64_t id, bool late) {
  OpenReply* reply = nullptr;
  {
    const std::lock_guard guard(lock_);
    const auto found = replies_.find(id);
    if (found == replies_.end() || (late && !PeerLink::Late(found->second->incoming.deadline_ns))) return;
    reply = found->second;
    replies_.erase(found);
    reply->waited_for = false;
    ++reply->references;
  }
  EndpointState& endpoint = *link_->endpoint();
  endpoint.keeper.Disarm(&reply->timer);
  const auto& events = endpoint.events;
  if (events.cancelled != nullptr) events.cancelled(events.argument, reinterpret_cast<tenon_reply*>(reply));
  Release(reply);
}

inline void IncomingCalls::EndAll() {
  for (;;) {
    uint64_t id = 0;
    {
      const std::lock_guard guard(lock_);
      if (replies_.empty()) return;
      id = replies_.begin()->first;
    }
    Forsake(id, /*late=*/false);
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_INCOMING_CALLS_H_
