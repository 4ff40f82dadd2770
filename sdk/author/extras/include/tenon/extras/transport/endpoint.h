// SPDX-License-Identifier: Apache-2.0
// A transport's table from a small class of its own: how it listens and how it connects.
//
//   struct Transport {
//     static constexpr tenon_span kScheme = TENON_SPAN("loopback");
//     // Options are copied; a credential or address that is not understood is an error here.
//     static tenon_status* Open(tenon_plugin_self* self, const tenon_endpoint_options& options,
//         std::unique_ptr<Door>* out_door);
//   };
//   static const tenon_capability kCapabilities[] = {
//       TENON_PROVIDES(TRANSPORT, &tenon::sdk::kTransportTable<Transport>)};
//
// Rules. A door is asked by any thread. It gives pipes that are not started; connection.h does the rest with them.
// Deadlines are instants of the monotonic clock in nanoseconds, 0 is none. A failure is a status, which who gets it
// releases; what is thrown becomes one (Guard, span.h).
#ifndef TENON_SDK_TRANSPORT_ENDPOINT_H_
#define TENON_SDK_TRANSPORT_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/extras/transport/connection.h"

namespace tenon::sdk {

// What a transport brings for each endpoint. Addresses are without "scheme://".
class Door {
 public:
  using Accept = std::function<void(std::unique_ptr<Pipe> pipe)>;
  virtual ~Door() = default;
  // accept is called from the door's own threads until StopListening() returns. out_address: with what the system
  // chose.
  virtual tenon_status* Listen(std::string_view address, Accept accept, std::string* out_address) = 0;
  // Also called when it does not listen.
  virtual void StopListening() = 0;
  // Waits until the other side is there. DEADLINE_EXCEEDED, UNAVAILABLE, ... ; the address is added by who asks.
  virtual tenon_status* Connect(std::string_view address, uint64_t deadline_ns, std::unique_ptr<Pipe>* out_pipe) = 0;
};

// Copies what the caller knows of a struct that may grow; what it does not know is 0. INVALID_ARGUMENT without a
// struct_size, UNIMPLEMENTED with a bit of must_understand.
template <class T>
[[nodiscard]] tenon_status* CopyStruct(const T* from, const char* name, T* out_to) {
  *out_to = {};
  if (from == nullptr || from->struct_size < 2 * sizeof(uint32_t)) {
    return Failure(TENON_INVALID_ARGUMENT, name, " is missing or has no struct_size");
  }
  if (from->must_understand != 0) {
    return Failure(TENON_UNIMPLEMENTED, name, " has must_understand ", from->must_understand,
                   ", of which no bit is known");
  }
  std::memcpy(out_to, from, std::min<size_t>(from->struct_size, sizeof(T)));
  return nullptr;
}

// What a tenon_endpoint is: a door, a keeper and the connections through it. Its destructor ends all of them and waits
// for that.
class Endpoint {
 public:
  static constexpr uint64_t kDefaultMaxMessageBytes = uint64_t{4} << 30;

  // Listens where options name an address. events: the host's, which may be called before this returns.
  [[nodiscard]] static tenon_status* Open(std::string_view scheme, const tenon_endpoint_options& options,
                                          const tenon_endpoint_events* events, std::unique_ptr<Door> door,
                                          tenon_endpoint** out_endpoint) {
    auto endpoint = std::make_unique<Endpoint>(scheme, std::move(door));
    TENON_SDK_RETURN_IF_ERROR(CopyStruct(events, "tenon_endpoint_events", &endpoint->state_->events));
    endpoint->state_->max_message_bytes =
        options.max_message_bytes == 0 ? kDefaultMaxMessageBytes : options.max_message_bytes;
    if (options.address.size != 0) TENON_SDK_RETURN_IF_ERROR(endpoint->Listen(ToText(options.address)));
    *out_endpoint = reinterpret_cast<tenon_endpoint*>(endpoint.release());
    return nullptr;
  }
  Endpoint(std::string_view scheme, std::unique_ptr<Door> door)
      : prefix_(Concat(scheme, "://")), state_(std::make_shared<EndpointState>()), door_(std::move(door)) {}
  ~Endpoint() { Stop(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  static Endpoint* Of(const tenon_endpoint* endpoint) {
    return reinterpret_cast<Endpoint*>(const_cast<tenon_endpoint*>(endpoint));
  }
  tenon_span address() const { return ToSpan(address_); }

  [[nodiscard]] tenon_status* Connect(std::string_view address, uint64_t deadline_ns, tenon_peer** out_peer) {
    if (state_->draining)
      return Failure(TENON_UNAVAILABLE, "connecting to ", address, ": the endpoint is being drained");
    std::string_view rest;
    TENON_SDK_RETURN_IF_ERROR(WithoutScheme(address, &rest));
    std::unique_ptr<Pipe> pipe;
    if (tenon_status* failed = door_->Connect(rest, deadline_ns, &pipe)) {
      tenon_status* told = Failure(tenon_plugin_host->status_code(failed), "connecting to ", address, ": ",
                                   tenon_plugin_host->status_message(failed));
      tenon_plugin_host->status_release(failed);
      return told;
    }
    const auto connection = std::make_shared<Connection>(state_, std::move(pipe), false);
    state_->Remember(connection);
    connection->Hold(connection);
    *out_peer = connection->peer();
    tenon_status* failed = Started(connection.get());
    if (failed == nullptr) return nullptr;
    *out_peer = nullptr;
    Disconnect(connection.get());
    return failed;
  }
  // Of a connection that Connect gave: what is open on it ends with CANCELLED, and this waits until it has. Not from
  // within its callbacks.
  static void Disconnect(Connection* connection) {
    const std::shared_ptr<Connection> held = connection->TakeHeld();
    connection->End("this side has disconnected", false);
  }
  // Takes no new calls, streams and connections, and waits for those that are open. DEADLINE_EXCEEDED: they still are.
  [[nodiscard]] tenon_status* Drain(uint64_t deadline_ns) {
    state_->draining = true;
    if (state_->WaitIdle(deadline_ns == 0 ? kNever : deadline_ns)) return nullptr;
    return Failure(TENON_DEADLINE_EXCEEDED, "calls or streams were still open at the deadline of draining");
  }

 private:
  tenon_status* WithoutScheme(std::string_view address, std::string_view* out_rest) const {
    if (!address.starts_with(prefix_)) {
      return Failure(TENON_INVALID_ARGUMENT, "address '", address, "' does not begin with ", prefix_);
    }
    *out_rest = address.substr(prefix_.size());
    return nullptr;
  }
  tenon_status* Listen(std::string_view address) {
    std::string_view rest;
    TENON_SDK_RETURN_IF_ERROR(WithoutScheme(address, &rest));
    std::string chosen;
    TENON_SDK_RETURN_IF_ERROR(door_->Listen(
        rest, [this](std::unique_ptr<Pipe> pipe) { Accept(std::move(pipe)); }, &chosen));
    address_ = prefix_ + chosen;
    return nullptr;
  }
  void Accept(std::unique_ptr<Pipe> pipe) {
    if (state_->draining) return pipe->Close();
    if (!state_->HasRoom([](const Connection& connection) { return connection.accepted(); })) {
      const std::string text = Concat(address_, " has ", EndpointState::kMostAccepted,
                                      " connections, as many as it may; ", pipe->name(), " is sent away");
      tenon_plugin_host->log(TENON_LOG_WARNING, ToSpan(text));
      return pipe->Close();
    }
    const auto connection = std::make_shared<Connection>(state_, std::move(pipe), true);
    state_->Remember(connection);
    const auto& events = state_->events;
    if (events.connected != nullptr) events.connected(events.argument, connection->peer());
    if (tenon_status* failed = Started(connection.get())) {
      connection->End(ToText(tenon_plugin_host->status_message(failed)), true);
      tenon_plugin_host->status_release(failed);
    }
  }
  // A pipe may want a thread that is not to be had.
  static tenon_status* Started(Connection* connection) {
    return Guard([&]() -> tenon_status* {
      connection->Start();
      return nullptr;
    });
  }
  void Stop() {
    door_->StopListening();
    for (const auto& connection : state_->Connections())
      connection->End("the endpoint has stopped", connection->accepted());
    state_->keeper.Stop();
  }

  const std::string prefix_;
  const std::shared_ptr<EndpointState> state_;
  const std::unique_ptr<Door> door_;
  std::string address_;
};

// The functions of the table that know no transport.
struct TransportFunctions {
  static tenon_span Address(const tenon_endpoint* endpoint) { return Endpoint::Of(endpoint)->address(); }
  static tenon_status* Connect(tenon_endpoint* endpoint, tenon_span address, uint64_t deadline_ns,
                               tenon_peer** out_peer) {
    return Guard([&] { return Endpoint::Of(endpoint)->Connect(ToText(address), deadline_ns, out_peer); });
  }
  static void Disconnect(tenon_peer* peer) { Endpoint::Disconnect(Connection::Of(peer)); }
  static tenon_span PeerName(const tenon_peer* peer) { return ToSpan(Connection::Of(peer)->name()); }
  static tenon_status* Call(tenon_peer* peer, const tenon_call_args* args, uint64_t* out_call) {
    return Guard([&]() -> tenon_status* {
      tenon_call_args known;
      TENON_SDK_RETURN_IF_ERROR(CopyStruct(args, "tenon_call_args", &known));
      return Connection::Of(peer)->calls().Call(known, out_call);
    });
  }
  static void Cancel(tenon_peer* peer, uint64_t call) { Connection::Of(peer)->calls().Cancel(call); }
  static void Respond(tenon_reply* reply, tenon_status* status, const tenon_span* pieces, uint64_t count,
                      void (*sent)(void*), void* argument) {
    IncomingCalls::Respond(reinterpret_cast<OpenReply*>(reply), status, pieces, count, sent, argument);
  }
  static tenon_status* StreamOpen(tenon_peer* peer, tenon_span method, const tenon_metadata* metadata, uint64_t count,
                                  uint64_t deadline_ns, const tenon_stream_events* events, tenon_stream** out_stream) {
    return Guard([&]() -> tenon_status* {
      tenon_stream_events known;
      TENON_SDK_RETURN_IF_ERROR(CopyStruct(events, "tenon_stream_events", &known));
      StreamSide* stream = nullptr;
      TENON_SDK_RETURN_IF_ERROR(
          Connection::Of(peer)->streams().Open(method, metadata, count, deadline_ns, known, &stream));
      *out_stream = reinterpret_cast<tenon_stream*>(stream);
      return nullptr;
    });
  }
  static tenon_status* StreamWrite(tenon_stream* stream, tenon_span message) {
    return Guard([&] { return OpenStreams::Write(reinterpret_cast<StreamSide*>(stream), message); });
  }
  static void StreamClose(tenon_stream* stream, tenon_status* status) {
    OpenStreams::Close(reinterpret_cast<StreamSide*>(stream), status);
  }
  static tenon_status* Send(tenon_peer* peer, const tenon_send_args* args) {
    return Guard([&]() -> tenon_status* {
      tenon_send_args known;
      TENON_SDK_RETURN_IF_ERROR(CopyStruct(args, "tenon_send_args", &known));
      return Connection::Of(peer)->calls().Send(known);
    });
  }
  static tenon_status* Drain(tenon_endpoint* endpoint, uint64_t deadline_ns) {
    return Guard([&] { return Endpoint::Of(endpoint)->Drain(deadline_ns); });
  }
  static void Stop(tenon_endpoint* endpoint) { delete Endpoint::Of(endpoint); }
};

// The table's open: the class's, behind a check of the options.
template <class Transport>
tenon_status* OpenTransport(tenon_plugin_self* self, const tenon_endpoint_options* options,
                            const tenon_endpoint_events* events, tenon_endpoint** out_endpoint) {
  return Guard([&]() -> tenon_status* {
    tenon_endpoint_options known;
    TENON_SDK_RETURN_IF_ERROR(CopyStruct(options, "tenon_endpoint_options", &known));
    std::unique_ptr<Door> door;
    TENON_SDK_RETURN_IF_ERROR(Transport::Open(self, known, &door));
    return Endpoint::Open(ToText(Transport::kScheme), known, events, std::move(door), out_endpoint);
  });
}

template <class Transport>
inline constexpr tenon_transport kTransportTable = {
    TENON_HEAD(tenon_transport),
    Transport::kScheme,
    OpenTransport<Transport>,
    TransportFunctions::Address,
    TransportFunctions::Connect,
    TransportFunctions::Disconnect,
    TransportFunctions::PeerName,
    TransportFunctions::Call,
    TransportFunctions::Cancel,
    TransportFunctions::Respond,
    TransportFunctions::StreamOpen,
    TransportFunctions::StreamWrite,
    TransportFunctions::StreamClose,
    TransportFunctions::Send,
    TransportFunctions::Drain,
    TransportFunctions::Stop};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_ENDPOINT_H_
