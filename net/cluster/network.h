// SPDX-License-Identifier: Apache-2.0
// Network: this process's doors (listeners), one a transport, and its connections, one an address.
//
// A process has one network. Whoever serves calls and data gives handlers before the first door opens. Any thread.
#ifndef TENON_NET_CLUSTER_NETWORK_H_
#define TENON_NET_CLUSTER_NETWORK_H_

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/session/runtime.h"
#include "tenon/ext/draft/transport.h"

namespace tenon::cluster {

// "grpc" of "grpc://host:port", and of "host:port", which is gRPC's.
std::string SchemeOf(std::string_view address);
// With its scheme.
std::string WithScheme(std::string_view address);

// A connection that this process made.
class Connection {
 public:
  using Done = std::function<void(Status status, tenon_span response)>;

  Connection(const tenon_transport* transport, tenon_peer* peer, std::string address)
      : transport_(transport), peer_(peer), address_(std::move(address)) {}
  ~Connection() { transport_->disconnect(peer_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& address() const { return address_; }
  tenon_peer* peer() const { return peer_; }
  bool lost() const { return lost_.load(); }
  void set_lost() { lost_.store(true); }
  // Of the worker at the other side, as far as it was asked; 0: not known.
  uint64_t incarnation() const { return incarnation_.load(); }
  void set_incarnation(uint64_t incarnation) { incarnation_.store(incarnation); }

  // Pieces stay until done, which is called once, also when this fails. deadline_ns: 0: none. The number is for Cancel.
  uint64_t Call(std::string_view method, const std::vector<tenon_span>& pieces, uint64_t deadline_ns, Done done);
  void Cancel(uint64_t call) { transport_->cancel(peer_, call); }
  // Waits for the answer; take(response) gets it. A cancellation ends it early, with its reason.
  Status CallAndWait(std::string_view method, const std::vector<tenon_span>& pieces, uint64_t deadline_ns,
                     const std::function<Status(tenon_span)>& take, Cancellation* cancellation = nullptr);
  // An error: it was not sent, and done is not called.
  Status Send(std::string_view key, std::string_view head, tenon_span bytes, std::function<void(Status status)> done);

 private:
  const tenon_transport* transport_;
  tenon_peer* peer_;
  const std::string address_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> incarnation_{0};
};

// Messages of one kind, counted.
struct Traffic {
  std::atomic<uint64_t> messages{0}, bytes{0};
  void Add(uint64_t more) {
    messages.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(more, std::memory_order_relaxed);
  }
};

// A call that waits for its answer.
struct Reply {
  const tenon_transport* transport = nullptr;
  tenon_reply* reply = nullptr;
  // What counts the answer, and its error by code; nullptr: nothing does.
  Traffic* given = nullptr;
  std::array<std::atomic<uint64_t>, 17>* errors = nullptr;

  void Fail(Status status) const;
  // The pieces are copied.
  void Give(const std::vector<tenon_span>& pieces) const;
  // They stay until sent.
  void Give(const std::vector<tenon_span>& pieces, std::function<void()> sent) const;
};

// What they throw becomes a status: that of the call or the value, or a line in the log.
struct Handlers {
  std::function<void(tenon_peer* peer, const tenon_incoming& call, Reply reply)> call;
  std::function<void(tenon_reply* reply)> cancelled;
  std::function<Status(tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* out_memory,
                       void** out_token)>
      place;
  std::function<void(void* token, Status status)> placed;
  std::function<void(tenon_peer* peer)> lost;  // one that another side made
  std::function<void(const std::string& address)> connection_lost;  // one that this side made
};

class Network {
 public:
  // Loads what brings a scheme, and finds it.
  using Finder = std::function<Result<session::Runtime::Transport>(const std::string& scheme)>;

  // max_message_bytes: of what comes or goes; 0: the transport's own limit.
  Network(Finder finder, Handlers handlers, std::string credentials, uint64_t max_message_bytes = 0)
      : finder_(std::move(finder)),
        handlers_(std::move(handlers)),
        credentials_(std::move(credentials)),
        max_message_bytes_(max_message_bytes) {}
  ~Network() { Stop(); }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Opens a door there. Where it is, with what the system chose.
  Result<std::string> Listen(std::string_view address);
  // The connection, made when there is none or it was lost. A callback must not hold it: the network lets go of it
  // last, where it can wait for callbacks.
  Result<std::shared_ptr<Connection>> Connect(std::string_view address, uint64_t deadline_ns);
  // Whether there are connections to all of them, which are named with their schemes.
  bool Has(const std::set<std::string>& addresses);
  // Gives a connection up: the next Connect makes another. Nothing when there is none, or another already.
  void Forget(std::string_view address);
  void Forget(const std::shared_ptr<Connection>& connection);
  // Waits for open calls.
  Status Drain(uint64_t deadline_ns);
  // Ends all. Nothing is called back any more when it returns; not from a callback.
  void Stop();

 private:
  struct Door {
    Network* owner;
    const tenon_transport* transport;
    tenon_endpoint* endpoint = nullptr;
    tenon_endpoint_events events{};
    bool listens = false;
  };
  Result<Door*> DoorFor(const std::string& scheme, std::string_view listen);
  static void OnCall(void* door, tenon_peer* peer, const tenon_incoming* call, tenon_reply* reply);
  static void OnConnected(void* door, tenon_peer* peer);
  static void OnLost(void* door, tenon_peer* peer, tenon_status* why);

  const Finder finder_;
  const Handlers handlers_;
  const std::string credentials_;
  const uint64_t max_message_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::map<std::string, std::shared_ptr<Connection>> connections_;  // by address
  std::vector<std::shared_ptr<Connection>> gone_;                   // lost ones, until nobody holds them
  std::set<tenon_peer*> incoming_;                                  // that other sides made
  std::set<tenon_peer*> lost_early_;                                // own ones, lost before they were noted
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_NETWORK_H_
