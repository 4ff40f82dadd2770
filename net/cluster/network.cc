// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/network.h"

#include <algorithm>
#include <condition_variable>
#include <optional>

#include "core/base/cancellation.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "tenon/ext/draft/transport.h"

namespace tenon::cluster {
namespace {

// Whether another side lives masters and tasks ask themselves, as long as their sessions' patience says: a transport,
// which knows of no session and does not mind whether this process stood still, had best not be sooner.
constexpr uint64_t kSilenceNs = 3'600'000'000'000;

}  // namespace

std::string SchemeOf(std::string_view address) {
  const size_t at = address.find("://");
  return at == std::string_view::npos ? "grpc" : std::string(address.substr(0, at));
}

std::string WithScheme(std::string_view address) {
  return address.find("://") == std::string_view::npos ? StrCat("grpc://", address) : std::string(address);
}

// ---- Connections ----

uint64_t Connection::Call(std::string_view method, const std::vector<tenon_span>& pieces, uint64_t deadline_ns,
                          Done done) {
  auto* held = new Done(std::move(done));
  tenon_call_args args{};
  args.struct_size = sizeof args;
  args.method = Span(method);
  args.pieces = pieces.data();
  args.piece_count = pieces.size();
  args.deadline_ns = deadline_ns;
  args.done = [](void* argument, tenon_status* status, tenon_span response) {
    const std::unique_ptr<Done> call(static_cast<Done*>(argument));
    (*call)(Status(status), response);
  };
  args.argument = held;
  uint64_t call = 0;
  if (tenon_status* bad = transport_->call(peer_, &args, &call); bad != nullptr) args.done(held, bad, {nullptr, 0});
  return call;
}

Status Connection::CallAndWait(std::string_view method, const std::vector<tenon_span>& pieces, uint64_t deadline_ns,
                               const std::function<Status(tenon_span)>& take, Cancellation* cancellation) {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<Status> answer;
  const uint64_t call = Call(method, pieces, deadline_ns, [&](Status status, tenon_span response) {
    if (status.ok() && take) status = take(response);
    const std::lock_guard lock(mutex);
    answer = std::move(status);
    came.notify_one();
  });
  Subscription cancelled;
  if (cancellation != nullptr) cancelled.Begin(cancellation, [this, call](const Status&) { Cancel(call); });
  {
    std::unique_lock lock(mutex);
    came.wait(lock, [&] { return answer.has_value(); });
  }
  cancelled.End();
  if (answer->code() == Code::kCancelled && cancellation != nullptr && cancellation->cancelled())
    return cancellation->reason();
  return *std::move(answer);
}

Status Connection::Send(std::string_view key, std::string_view head, tenon_span bytes,
                        std::function<void(Status status)> done) {
  auto* held = new std::function<void(Status)>(std::move(done));
  tenon_send_args args{};
  args.struct_size = sizeof args;
  args.key = Span(key);
  args.header = Span(head);
  args.pieces = &bytes;
  args.piece_count = bytes.size == 0 ? 0 : 1;
  args.done = [](void* argument, tenon_status* status) {
    const std::unique_ptr<std::function<void(Status)>> call(static_cast<std::function<void(Status)>*>(argument));
    (*call)(Status(status));
  };
  args.argument = held;
  Status refused(transport_->send(peer_, &args));
  if (!refused.ok()) delete held;
  return refused;
}

namespace {

uint64_t BytesOf(const std::vector<tenon_span>& pieces) {
  uint64_t bytes = 0;
  for (const tenon_span& piece : pieces) bytes += piece.size;
  return bytes;
}

}  // namespace

void Reply::Fail(Status status) const {
  const auto code = static_cast<size_t>(status.code());
  if (errors != nullptr && code < errors->size()) ++(*errors)[code];
  if (given != nullptr) given->Add(status.message().size());
  transport->respond(reply, status.release(), nullptr, 0, nullptr, nullptr);
}

void Reply::Give(const std::vector<tenon_span>& pieces) const {
  if (given != nullptr) given->Add(BytesOf(pieces));
  transport->respond(reply, nullptr, pieces.data(), pieces.size(), nullptr, nullptr);
}

void Reply::Give(const std::vector<tenon_span>& pieces, std::function<void()> sent) const {
  if (given != nullptr) given->Add(BytesOf(pieces));
  transport->respond(reply, nullptr, pieces.data(), pieces.size(), [](void* argument) {
    const std::unique_ptr<std::function<void()>> call(static_cast<std::function<void()>*>(argument));
    (*call)();
  }, new std::function<void()>(std::move(sent)));
}

// ---- Doors ----

namespace {

void Tell(const Status& thrown) {
  if (!thrown.ok()) Log(TENON_LOG_ERROR, thrown.message());
}

}  // namespace

void Network::OnCall(void* door, tenon_peer* peer, const tenon_incoming* call, tenon_reply* reply) {
  const Door* own = static_cast<const Door*>(door);
  const Reply answer{own->transport, reply, nullptr, nullptr};
  if (call->must_understand != 0) return answer.Fail(Unimplemented("the call needs a feature of a newer host"));
  // It has answered, or will: unless it throws, and then it has not.
  if (Status thrown = Guarded([&] {
        own->owner->handlers_.call(peer, *call, answer);
        return Status::Ok();
      });
      !thrown.ok())
    answer.Fail(std::move(thrown));
}

void Network::OnConnected(void* door, tenon_peer* peer) {
  Network* self = static_cast<Door*>(door)->owner;
  const std::lock_guard lock(self->mutex_);
  self->incoming_.insert(peer);
}

void Network::OnLost(void* door, tenon_peer* peer, tenon_status* why) {
  const Status reason(why);
  Network* self = static_cast<Door*>(door)->owner;
  std::string own;
  {
    const std::lock_guard lock(self->mutex_);
    const auto is_it = [peer](const auto& each) { return each.second->peer() == peer; };
    const auto at = std::find_if(self->connections_.begin(), self->connections_.end(), is_it);
    if (at != self->connections_.end()) {
      own = at->first;
      at->second->set_lost();
      // Not released here: that would disconnect it from within its own callback.
      self->gone_.push_back(std::move(at->second));
      self->connections_.erase(at);
    } else if (std::any_of(self->gone_.begin(), self->gone_.end(),
                           [peer](const auto& each) { return each->peer() == peer; })) {
      return;
    } else if (self->incoming_.erase(peer) == 0) {
      self->lost_early_.insert(peer);
      return;
    }
  }
  Tell(Guarded([&] {
    if (!own.empty() && self->handlers_.connection_lost) self->handlers_.connection_lost(own);
    if (own.empty() && self->handlers_.lost) self->handlers_.lost(peer);
    return Status::Ok();
  }));
}

Result<Network::Door*> Network::DoorFor(const std::string& scheme, std::string_view listen) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& door : doors_)
      if (View(door->transport->scheme) == scheme && (listen.empty() || door->listens)) {
        if (!listen.empty()) return AlreadyExists(StrCat("this process listens on ", scheme, " already"));
        return door.get();
      }
  }
  TENON_ASSIGN_OR_RETURN(const session::Runtime::Transport transport, finder_(scheme));
  auto door = std::make_unique<Door>();
  door->owner = this;
  door->transport = transport.table;
  door->listens = !listen.empty();
  tenon_endpoint_events& events = door->events;
  events.struct_size = sizeof events;
  events.argument = door.get();
  events.connected = &OnConnected;
  events.lost = &OnLost;
  if (handlers_.call) events.call = &OnCall;
  if (handlers_.cancelled)
    events.cancelled = [](void* argument, tenon_reply* reply) {
      Tell(Guarded([&] {
        static_cast<Door*>(argument)->owner->handlers_.cancelled(reply);
        return Status::Ok();
      }));
    };
  if (handlers_.place) {
    events.place = [](void* argument, tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes,
                      tenon_bytes* memory, void** token) {
      return Guarded([&] {
               return static_cast<Door*>(argument)->owner->handlers_.place(peer, key, head, bytes, memory, token);
             })
          .release();
    };
    events.placed = [](void* argument, tenon_peer*, void* token, tenon_status* status) {
      Status came(status);
      Tell(Guarded([&] {
        static_cast<Door*>(argument)->owner->handlers_.placed(token, std::move(came));
        return Status::Ok();
      }));
    };
  }
  tenon_endpoint_options options{};
  options.struct_size = sizeof options;
  options.address = Span(listen);
  options.credentials = Span(credentials_);
  options.max_message_bytes = max_message_bytes_;
  options.silence_ns = kSilenceNs;
  TENON_RETURN_IF_ERROR(Status(transport.table->open(transport.self, &options, &door->events, &door->endpoint)));
  const std::lock_guard lock(mutex_);
  return doors_.emplace_back(std::move(door)).get();
}

Result<std::string> Network::Listen(std::string_view address) {
  TENON_ASSIGN_OR_RETURN(Door * door, DoorFor(SchemeOf(address), WithScheme(address)));
  return std::string(View(door->transport->address(door->endpoint)));
}

Result<std::shared_ptr<Connection>> Network::Connect(std::string_view given, uint64_t deadline_ns) {
  const std::string address = WithScheme(given);
  std::vector<std::shared_ptr<Connection>> forgotten;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(gone_, [&](std::shared_ptr<Connection>& each) {
      if (each.use_count() > 1) return false;
      forgotten.push_back(std::move(each));
      return true;
    });
    if (const auto at = connections_.find(address); at != connections_.end()) return at->second;
  }
  forgotten.clear();
  TENON_ASSIGN_OR_RETURN(Door * door, DoorFor(SchemeOf(address), ""));
  tenon_peer* peer = nullptr;
  TENON_RETURN_IF_ERROR(Status(door->transport->connect(door->endpoint, Span(address), deadline_ns, &peer)));
  auto made = std::make_shared<Connection>(door->transport, peer, address);
  std::shared_ptr<Connection> kept;
  {
    const std::lock_guard lock(mutex_);
    if (lost_early_.erase(peer) > 0) {
      made->set_lost();
      gone_.push_back(made);
      return Status(Code::kUnavailable, StrCat("the connection to ", address, " was lost as soon as it was made"));
    }
    kept = connections_.emplace(address, made).first->second;
  }
  return kept;  // another thread may have been quicker
}

bool Network::Has(const std::set<std::string>& addresses) {
  const std::lock_guard lock(mutex_);
  return std::all_of(addresses.begin(), addresses.end(),
                     [this](const std::string& address) { return connections_.contains(address); });
}

void Network::Forget(std::string_view given) {
  const std::string address = WithScheme(given);
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    const auto at = connections_.find(address);
    if (at == connections_.end()) return;
    connection = at->second;
  }
  Forget(connection);
}

void Network::Forget(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(connection->address());
  if (at == connections_.end() || at->second != connection) return;
  connection->set_lost();
  gone_.push_back(std::move(at->second));
  connections_.erase(at);
}

Status Network::Drain(uint64_t deadline_ns) {
  std::vector<Door*> doors;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& door : doors_) doors.push_back(door.get());
  }
  Status worst;
  for (Door* door : doors)
    if (Status status(door->transport->drain(door->endpoint, deadline_ns)); !status.ok()) worst = std::move(status);
  return worst;
}

void Network::Stop() {
  std::map<std::string, std::shared_ptr<Connection>> connections;
  std::vector<std::shared_ptr<Connection>> gone;
  std::vector<std::unique_ptr<Door>> doors;
  {
    const std::lock_guard lock(mutex_);
    connections.swap(connections_);
    gone.swap(gone_);
    doors.swap(doors_);
  }
  connections.clear();
  gone.clear();
  for (const auto& door : doors) door->transport->stop(door->endpoint);
}

}  // namespace tenon::cluster
