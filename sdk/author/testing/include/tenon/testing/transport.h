// SPDX-License-Identifier: Apache-2.0
// Drives a transport's built library from outside, through its table alone.
//
//   const Transport transport(library, "loopback");
//   Endpoint server(transport, transport.Address()), client(transport);   // a server echoes calls, data and streams
//   Peer peer(client, server.address());
//   ExpectEq(peer.Call("echo", "text").response, "text");
//
// A status becomes "CODE: message", and "" is success. Every wait is bounded by kPatience, so that a hang is a failure
// and not a hang. Callbacks come on the transport's threads; the functions here may be called from any.
#ifndef TENON_TESTING_TRANSPORT_H_
#define TENON_TESTING_TRANSPORT_H_

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/ext/draft/transport.h"
#include "tenon/testing/library.h"

namespace tenon::testing {

// Something that another thread gives, once or often.
template <class T>
class Mailbox {
 public:
  void Put(T value) {
    const std::lock_guard guard(lock_);
    values_.push_back(std::move(value));
    changed_.notify_all();  // under the lock: who takes the last one may end the mailbox
  }
  T Take() {
    std::unique_lock guard(lock_);
    if (!changed_.wait_for(guard, kPatience, [this] { return !values_.empty(); })) {
      Report("nothing came");
      return T();
    }
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  bool Empty() {
    const std::lock_guard guard(lock_);
    return values_.empty();
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<T> values_;
};

// The table of a loaded transport, or of one that wraps another's.
class Transport {
 public:
  // any_address: where an endpoint may listen that finds a free place itself (the system's choice of a port); empty:
  // "scheme://name" with a name that nobody else has.
  Transport(const Library& library, std::string scheme, std::string any_address = "")
      : loaded_(std::make_unique<Loaded>(library)),
        table(library.Capability<tenon_transport>(TENON_CAPABILITY_TRANSPORT)),
        self(loaded_->self),
        scheme_(std::move(scheme)),
        any_address_(std::move(any_address)) {}
  Transport(const Transport& wrapped, const tenon_transport* its_table, tenon_plugin_self* its_self)
      : table(its_table), self(its_self), scheme_(wrapped.scheme_), any_address_(wrapped.any_address_) {}
  // One that nobody else has.
  std::string Address() const {
    static std::atomic<int> last{0};
    return any_address_.empty() ? scheme_ + "://test-" + std::to_string(getpid()) + "-" + std::to_string(++last)
                                : any_address_;
  }
  // At which an endpoint chooses its own.
  std::string AnyAddress() const { return any_address_.empty() ? scheme_ + "://" : any_address_; }

 private:
  const std::unique_ptr<Loaded> loaded_;

 public:
  const tenon_transport* table = nullptr;
  tenon_plugin_self* self = nullptr;

 private:
  const std::string scheme_, any_address_;
};

struct Incoming {
  Incoming() = default;
  explicit Incoming(const tenon_incoming& from)
      : method(String(from.method)), request(from.request), deadline_ns(from.deadline_ns) {
    for (uint64_t i = 0; i < from.metadata_count; ++i) {
      metadata.emplace_back(String(from.metadata[i].key), String(from.metadata[i].value));
    }
  }
  std::string method;
  tenon_span request = {};
  std::vector<std::pair<std::string, std::string>> metadata;
  uint64_t deadline_ns = 0;
};

// Data as its receiver placed it.
struct Placed {
  std::string key, header, data, status;
};

class Endpoint;
// One side of a stream, with what came over it.
struct Stream {
  Endpoint* endpoint = nullptr;
  tenon_stream* stream = nullptr;
  std::function<void(Stream&, tenon_span)> on_message;  // instead of `messages`
  Mailbox<std::string> messages;
  Mailbox<std::string> ended;
  tenon_stream_events Events();
  std::string Write(std::string_view message);
  void Close(tenon_status* status = nullptr);
};

class Endpoint {
 public:
  using CallHandler = std::function<void(tenon_peer*, const Incoming&, tenon_reply*)>;
  struct Options {
    uint64_t max_message_bytes = 0;
    CallHandler on_call;   // empty: as the method says
    bool refuse_all = false;  // no function for calls, streams and data
    std::string credentials;
  };
  explicit Endpoint(const Transport& transport, const std::string& address = "")
      : Endpoint(transport, address, Options()) {}
  Endpoint(const Transport& transport, const std::string& address, const Options& options)
      : transport_(transport), options_(options) {
    events_.struct_size = sizeof events_;
    events_.argument = this;
    events_.connected = [](void* self, tenon_peer* peer) { Of(self)->connected.Put(peer); };
    events_.lost = [](void* self, tenon_peer*, tenon_status* why) { Of(self)->lost.Put(Text(why)); };
    if (!options.refuse_all) {
      events_.call = OnCall;
      events_.cancelled = [](void* self, tenon_reply* reply) { Of(self)->cancelled.Put(reply); };
      events_.stream = OnStream;
      events_.place = OnPlace;
      events_.placed = OnPlaced;
    }
    tenon_endpoint_options given = {
        TENON_HEAD(tenon_endpoint_options), Span(address), Span(options.credentials), options.max_message_bytes, {}};
    open_status = Text(transport.table->open(transport.self, &given, &events_, &endpoint));
  }
  ~Endpoint() { Stop(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  void Stop() {
    if (endpoint != nullptr) transport_.table->stop(std::exchange(endpoint, nullptr));
  }
  std::string address() const { return String(transport_.table->address(endpoint)); }
  const tenon_transport& table() const { return *transport_.table; }
  std::string Drain(std::chrono::nanoseconds time) { return Text(table().drain(endpoint, After(time))); }

  void Respond(tenon_reply* reply, std::string_view response) const {
    const tenon_span piece = Span(response);
    table().respond(reply, nullptr, &piece, 1, nullptr, nullptr);
  }
  void Fail(tenon_reply* reply, uint32_t code, std::string_view text) const {
    table().respond(reply, NewStatus(code, text), nullptr, 0, nullptr, nullptr);
  }

  std::string open_status;
  tenon_endpoint* endpoint = nullptr;
  Mailbox<tenon_peer*> connected;
  Mailbox<std::string> lost;
  Mailbox<tenon_reply*> held;  // calls of the method "hold"
  Mailbox<tenon_reply*> cancelled;
  Mailbox<Placed> placed;
  Mailbox<std::shared_ptr<Stream>> streams;  // of the method "hold"

 private:
  struct Placing {
    Placed placed;
    std::string memory;
  };
  static Endpoint* Of(void* self) { return static_cast<Endpoint*>(self); }
  static void OnCall(void* argument, tenon_peer* peer, const tenon_incoming* call, tenon_reply* reply) {
    Endpoint& self = *Of(argument);
    ExpectEq(reinterpret_cast<uintptr_t>(call->request.data) % TENON_TRANSPORT_ALIGNMENT, 0u);
    const Incoming incoming(*call);
    if (self.options_.on_call) return self.options_.on_call(peer, incoming, reply);
    if (incoming.method == "hold") return self.held.Put(reply);
    if (incoming.method == "fail") return self.Fail(reply, TENON_NOT_FOUND, String(call->request));
    // The request itself is the response: no copy in between.
    self.table().respond(reply, nullptr, &call->request, 1, [](void*) {}, nullptr);
  }
  static tenon_status* OnStream(void* argument, tenon_peer*, const tenon_incoming* call, tenon_stream* stream,
                                tenon_stream_events* out_events) {
    Endpoint& self = *Of(argument);
    if (String(call->method) == "refuse") return NewStatus(TENON_PERMISSION_DENIED, "not here");
    auto made = std::make_shared<Stream>();
    made->endpoint = &self;
    made->stream = stream;
    if (String(call->method) == "echo") {
      made->on_message = [](Stream& s, tenon_span message) { ExpectEq(s.Write(String(message)), ""); };
    }
    {
      const std::lock_guard guard(self.lock_);
      self.kept_.push_back(made);
    }
    *out_events = made->Events();
    self.streams.Put(made);
    return nullptr;
  }
  static tenon_status* OnPlace(void*, tenon_peer*, tenon_span key, tenon_span header, uint64_t bytes,
                               tenon_bytes* out_memory, void** out_token) {
    if (String(key) == "refuse") return NewStatus(TENON_FAILED_PRECONDITION, "no such key");
    auto* placing = new Placing{{String(key), String(header), "", ""}, std::string(bytes, '?')};
    *out_memory = {placing->memory.data(), bytes};
    *out_token = placing;
    return nullptr;
  }
  static void OnPlaced(void* argument, tenon_peer*, void* token, tenon_status* status) {
    const std::unique_ptr<Placing> placing(static_cast<Placing*>(token));
    placing->placed.data = std::move(placing->memory);
    placing->placed.status = Text(status);
    Of(argument)->placed.Put(std::move(placing->placed));
  }

  const Transport& transport_;
  const Options options_;
  tenon_endpoint_events events_ = {};
  std::mutex lock_;
  std::vector<std::shared_ptr<Stream>> kept_;
};

inline tenon_stream_events Stream::Events() {
  tenon_stream_events events = {TENON_HEAD(tenon_stream_events), nullptr, nullptr, this};
  events.message = [](void* argument, tenon_span message) {
    auto* self = static_cast<Stream*>(argument);
    if (self->on_message) return self->on_message(*self, message);
    self->messages.Put(String(message));
  };
  events.end = [](void* argument, tenon_status* status) { static_cast<Stream*>(argument)->ended.Put(Text(status)); };
  return events;
}
inline std::string Stream::Write(std::string_view message) {
  return Text(endpoint->table().stream_write(stream, Span(message)));
}
inline void Stream::Close(tenon_status* status) { endpoint->table().stream_close(stream, status); }

// How a call ended.
struct Answer {
  std::string status;
  std::string response;
};
inline void PutAnswer(void* argument, tenon_status* status, tenon_span response) {
  static_cast<Mailbox<Answer>*>(argument)->Put({Text(status), String(response)});
}

struct CallOptions {
  std::chrono::nanoseconds time = kPatience;
  std::vector<tenon_metadata> metadata;
};

// A connection that this side made.
class Peer {
 public:
  Peer(Endpoint& endpoint, const std::string& address) : endpoint_(endpoint) {
    status = Text(endpoint.table().connect(endpoint.endpoint, Span(address), After(kPatience), &peer));
    ExpectEq(status, "");
  }
  ~Peer() { Disconnect(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  void Disconnect() {
    if (peer != nullptr) endpoint_.table().disconnect(std::exchange(peer, nullptr));
  }

  // Begins a call whose outcome comes into the mailbox.
  std::string Start(std::string_view method, const std::vector<tenon_span>& pieces, Mailbox<Answer>* out,
                    uint64_t* out_call = nullptr, const CallOptions& options = {}) {
    return StartOn(endpoint_, peer, method, pieces, out, out_call, options);
  }
  static std::string StartOn(Endpoint& endpoint, tenon_peer* peer, std::string_view method,
                             const std::vector<tenon_span>& pieces, Mailbox<Answer>* out, uint64_t* out_call,
                             const CallOptions& options) {
    tenon_call_args args = {};
    args.struct_size = sizeof args;
    args.method = Span(method);
    args.pieces = pieces.data();
    args.piece_count = pieces.size();
    args.metadata = options.metadata.data();
    args.metadata_count = options.metadata.size();
    args.deadline_ns = After(options.time);
    args.done = PutAnswer;
    args.argument = out;
    return Text(endpoint.table().call(peer, &args, out_call));
  }
  Answer Call(std::string_view method, std::string_view request, const CallOptions& options = {}) {
    Mailbox<Answer> done;
    const std::vector<tenon_span> pieces = {Span(request)};
    const std::string refused = Start(method, pieces, &done, nullptr, options);
    return refused.empty() ? done.Take() : Answer{refused, ""};
  }
  std::string Send(std::string_view key, std::string_view header, const std::vector<tenon_span>& pieces,
                   std::chrono::nanoseconds time = kPatience) {
    Mailbox<std::string> done;
    const std::string refused = StartSend(key, header, pieces, &done, time);
    return refused.empty() ? done.Take() : refused;
  }
  std::string StartSend(std::string_view key, std::string_view header, const std::vector<tenon_span>& pieces,
                        Mailbox<std::string>* done, std::chrono::nanoseconds time = kPatience) {
    tenon_send_args args = {
        TENON_HEAD(tenon_send_args), Span(key), Span(header), pieces.data(), pieces.size(), After(time), nullptr, done};
    args.done = [](void* argument, tenon_status* status) {
      static_cast<Mailbox<std::string>*>(argument)->Put(Text(status));
    };
    return Text(endpoint_.table().send(peer, &args));
  }
  std::string Open(std::string_view method, Stream* stream, std::chrono::nanoseconds time = kPatience) {
    stream->endpoint = &endpoint_;
    const tenon_stream_events events = stream->Events();
    return Text(endpoint_.table().stream_open(peer, Span(method), nullptr, 0, After(time), &events, &stream->stream));
  }

  std::string status;
  tenon_peer* peer = nullptr;

 private:
  Endpoint& endpoint_;
};

// Bytes that differ from place to place.
inline std::string Pattern(uint64_t size, uint32_t seed = 1) {
  std::string text(size, '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (uint64_t i = 0; i < size; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t k = i; k < size && k < i + 8; ++k) text[k] = static_cast<char>(state >> (8 * (k - i)));
  }
  return text;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_TRANSPORT_H_
