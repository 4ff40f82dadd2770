// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fault_transport.h"

#include <utility>

#include "tenon/status.h"

namespace tenon::fakes {

FaultTransport* FaultTransport::active_ = nullptr;

// A call or a send, with all that it needs, until it has ended.
struct FaultTransport::Message {
  static std::string Copy(tenon_span span) {
    return span.size == 0 ? std::string() : std::string(span.data, span.size);
  }
  static tenon_span Span(const std::string& text) { return {text.data(), text.size()}; }
  void Keep(const tenon_span* pieces, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) body += Copy(pieces[i]);
  }

  FaultTransport* owner = nullptr;
  tenon_peer* peer = nullptr;
  std::string name;  // the method or key
  std::string header;
  std::string body;
  std::vector<std::pair<std::string, std::string>> metadata;
  uint64_t deadline_ns = 0;
  void (*call_done)(void* argument, tenon_status* status, tenon_span response) = nullptr;
  void (*send_done)(void* argument, tenon_status* status) = nullptr;
  void* argument = nullptr;
  Fate fate = {};
  uint64_t id = 0;
  bool ended = false;       // under the owner's lock
  uint64_t wrapped_id = 0;  // of a call that has gone out
};

FaultTransport::FaultTransport(const tenon_host* host, const tenon_transport* wrapped, tenon_plugin_self* wrapped_self,
                               const FaultRules& rules)
    : host_(host),
      wrapped_(wrapped),
      wrapped_self_(wrapped_self),
      rules_(rules),
      table_(*wrapped),
      random_(rules.seed) {
  active_ = this;
  table_.open = [](tenon_plugin_self*, const tenon_endpoint_options* options, const tenon_endpoint_events* events,
                   tenon_endpoint** out_endpoint) {
    return Active().wrapped_->open(Active().wrapped_self_, options, events, out_endpoint);
  };
  table_.disconnect = [](tenon_peer* peer) {
    Active().EndAll(peer);
    Active().wrapped_->disconnect(peer);
  };
  table_.call = [](tenon_peer* peer, const tenon_call_args* args, uint64_t* out_call) {
    auto message = std::make_shared<Message>();
    message->peer = peer;
    message->name = Message::Copy(args->method);
    message->Keep(args->pieces, args->piece_count);
    for (uint64_t i = 0; i < args->metadata_count; ++i) {
      message->metadata.emplace_back(Message::Copy(args->metadata[i].key), Message::Copy(args->metadata[i].value));
    }
    message->call_done = args->done;
    message->argument = args->argument;
    return Active().Begin(std::move(message), args->deadline_ns, false, out_call);
  };
  table_.cancel = [](tenon_peer* peer, uint64_t call) { Active().Cancel(peer, call); };
  table_.send = [](tenon_peer* peer, const tenon_send_args* args) {
    auto message = std::make_shared<Message>();
    message->peer = peer;
    message->name = Message::Copy(args->key);
    message->header = Message::Copy(args->header);
    message->Keep(args->pieces, args->piece_count);
    message->send_done = args->done;
    message->argument = args->argument;
    return Active().Begin(std::move(message), args->deadline_ns, true, nullptr);
  };
  table_.stream_write = [](tenon_stream* stream, tenon_span message) -> tenon_status* {
    if (Active().partitioned_) return Active().Failed(TENON_UNAVAILABLE, "the network is partitioned");
    return Active().wrapped_->stream_write(stream, message);
  };
  thread_ = std::thread([this] { Run(); });
}

FaultTransport::~FaultTransport() {
  {
    const std::lock_guard guard(lock_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  active_ = nullptr;
}

tenon_status* FaultTransport::Failed(uint32_t code, const char* text) const {
  return host_->status_new(code, {text, std::char_traits<char>::length(text)});
}

// Draws the same number of random numbers whatever comes out, so that fates depend on the seed and the count alone.
FaultTransport::Fate FaultTransport::Draw(bool is_send) {
  const auto chance = [this](double of) { return std::uniform_real_distribution<double>(0, 1)(random_) < of; };
  Fate fate = {chance(rules_.drop_request), chance(rules_.drop_reply), chance(rules_.reorder), chance(rules_.duplicate),
               chance(rules_.truncate), {}};
  const bool delayed = chance(rules_.delay);
  const auto delay = std::chrono::nanoseconds(random_() % static_cast<uint64_t>(rules_.most_delay.count() + 1));
  if (is_send) fate.drop_reply = fate.reorder = false;
  if (!is_send && delayed) fate.delay = delay;
  if (partitioned_) fate.drop_request = true;
  return fate;
}

tenon_status* FaultTransport::Begin(MessagePointer message, uint64_t deadline_ns, bool is_send, uint64_t* out_call) {
  const auto now = std::chrono::steady_clock::now();
  message->owner = this;
  message->deadline_ns = deadline_ns;
  std::vector<MessagePointer> overtaken;
  {
    const std::lock_guard guard(lock_);
    message->fate = Draw(is_send);
    message->id = ++last_;
    open_[message->id] = message;
    if (!message->fate.reorder) overtaken.swap(overtaken_);
    if (message->fate.reorder) overtaken_.push_back(message);
  }
  if (out_call != nullptr) *out_call = message->id;
  const Fate& fate = message->fate;
  ++(is_send ? counts_.sends : counts_.calls);
  counts_.dropped_requests += fate.drop_request;
  counts_.dropped_replies += !fate.drop_request && fate.drop_reply;
  counts_.delayed += fate.delay.count() != 0;
  counts_.reordered += fate.reorder;
  counts_.duplicated += !fate.drop_request && fate.duplicate;
  counts_.truncated += !fate.drop_request && fate.truncate;
  if (fate.truncate) message->body.resize(message->body.size() / 2);
  if (deadline_ns != 0) {
    At(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns)), [this, message] {
      End(message, Failed(TENON_DEADLINE_EXCEEDED, "nothing came back by the deadline"), {});
    });
  }
  if (fate.reorder) {
    At(now + rules_.most_delay, [this, message] { PassOn(message); });
  } else if (fate.delay.count() != 0) {
    At(now + fate.delay, [this, message] { PassOn(message); });
  } else {
    PassOn(message);
  }
  for (const MessagePointer& other : overtaken) PassOn(other);
  return nullptr;
}

// Once, unless it has ended or is dropped.
void FaultTransport::PassOn(const MessagePointer& message) {
  const std::lock_guard passing(passing_);
  {
    const std::lock_guard guard(lock_);
    std::erase(overtaken_, message);
    if (message->ended || message->wrapped_id != 0 || message->fate.drop_request) return;
    message->wrapped_id = UINT64_MAX;
  }
  if (message->fate.duplicate) {
    if (tenon_status* refused = PassOnce(message, false)) host_->status_release(refused);
  }
  tenon_status* refused = PassOnce(message, !message->fate.drop_reply);
  if (refused != nullptr) End(message, refused, {});
}

tenon_status* FaultTransport::PassOnce(const MessagePointer& message, bool answered) {
  struct Passed {
    MessagePointer message;
    bool answered;
    static void Done(void* argument, tenon_status* status, tenon_span response) {
      const std::unique_ptr<Passed> self(static_cast<Passed*>(argument));
      FaultTransport* owner = self->message->owner;
      if (self->answered) return owner->End(self->message, status, response);
      if (status != nullptr) owner->host_->status_release(status);
    }
  };
  auto passed = std::make_unique<Passed>(Passed{message, answered});
  const tenon_span body = Message::Span(message->body);
  tenon_status* refused = nullptr;
  if (message->call_done != nullptr) {
    std::vector<tenon_metadata> metadata;
    for (const auto& [key, value] : message->metadata) metadata.push_back({Message::Span(key), Message::Span(value)});
    const tenon_call_args args = {TENON_HEAD(tenon_call_args),
                                  Message::Span(message->name),
                                  &body,
                                  1,
                                  metadata.data(),
                                  metadata.size(),
                                  message->deadline_ns,
                                  Passed::Done,
                                  passed.get()};
    uint64_t id = 0;
    refused = wrapped_->call(message->peer, &args, &id);
    const std::lock_guard guard(lock_);
    message->wrapped_id = id;
  } else {
    const auto done = [](void* argument, tenon_status* status) { Passed::Done(argument, status, {}); };
    const tenon_send_args args = {TENON_HEAD(tenon_send_args),
                                  Message::Span(message->name),
                                  Message::Span(message->header),
                                  &body,
                                  1,
                                  message->deadline_ns,
                                  done,
                                  passed.get()};
    refused = wrapped_->send(message->peer, &args);
  }
  if (refused == nullptr) passed.release();
  return refused;
}

void FaultTransport::End(const MessagePointer& message, tenon_status* status, tenon_span response) {
  bool first = false;
  {
    const std::lock_guard guard(lock_);
    first = !std::exchange(message->ended, true);
    open_.erase(message->id);
  }
  if (first && message->call_done != nullptr) return message->call_done(message->argument, status, response);
  if (first) return message->send_done(message->argument, status);
  if (status != nullptr) host_->status_release(status);
}

void FaultTransport::EndAll(tenon_peer* peer) {
  const std::lock_guard passing(passing_);  // afterwards nothing goes out to it
  std::vector<MessagePointer> open;
  {
    const std::lock_guard guard(lock_);
    for (const auto& [id, message] : open_) {
      if (message->peer == peer) open.push_back(message);
    }
  }
  for (const MessagePointer& message : open) End(message, Failed(TENON_CANCELLED, "this side has disconnected"), {});
}

void FaultTransport::Cancel(tenon_peer* peer, uint64_t call) {
  MessagePointer message;
  {
    const std::lock_guard guard(lock_);
    const auto found = open_.find(call);
    if (found == open_.end()) return;
    message = found->second;
  }
  if (message->wrapped_id != 0 && message->wrapped_id != UINT64_MAX) wrapped_->cancel(peer, message->wrapped_id);
  At(std::chrono::steady_clock::now(),
     [this, message] { End(message, Failed(TENON_CANCELLED, "the caller cancelled it"), {}); });
}

void FaultTransport::At(std::chrono::steady_clock::time_point when, std::function<void()> action) {
  {
    const std::lock_guard guard(lock_);
    actions_.emplace(when, std::move(action));
  }
  changed_.notify_all();
}

void FaultTransport::Run() {
  std::unique_lock guard(lock_);
  while (!stop_) {
    if (actions_.empty()) {
      changed_.wait(guard);
    } else if (actions_.begin()->first > std::chrono::steady_clock::now()) {
      changed_.wait_until(guard, std::chrono::steady_clock::time_point(actions_.begin()->first));
    } else {
      const std::function<void()> action = std::move(actions_.begin()->second);
      actions_.erase(actions_.begin());
      guard.unlock();
      action();
      guard.lock();
    }
  }
}

}  // namespace tenon::fakes
