// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.net.loopback: endpoints of one process that find each other by name, "loopback://NAME".
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "pipe.h"
#include "tenon/extras/transport/endpoint.h"

namespace tenon::loopback {
namespace {

// What waits to be accepted at one name, and the thread that does.
class Listener {
 public:
  explicit Listener(sdk::Door::Accept accept) : accept_(std::move(accept)), thread_([this] { Run(); }) {}
  ~Listener() {
    {
      const std::lock_guard guard(lock_);
      closed_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void Give(std::unique_ptr<sdk::Pipe> pipe) {
    {
      const std::lock_guard guard(lock_);
      pipes_.push_back(std::move(pipe));
    }
    changed_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock guard(lock_);
    for (;;) {
      changed_.wait(guard, [this] { return closed_ || !pipes_.empty(); });
      if (closed_) return;
      std::unique_ptr<sdk::Pipe> pipe = std::move(pipes_.front());
      pipes_.pop_front();
      guard.unlock();
      accept_(std::move(pipe));
      guard.lock();
    }
  }
  const sdk::Door::Accept accept_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<sdk::Pipe>> pipes_;  // those that nobody accepts close themselves
  bool closed_ = false;
  std::thread thread_;
};

// The names of the process.
struct Names {
  std::mutex lock;
  std::map<std::string, std::shared_ptr<Listener>, std::less<>> listeners;
  uint64_t chosen = 0;
  uint64_t connections = 0;
};
Names& TheNames() {
  static Names names;
  return names;
}

class LoopbackDoor final : public sdk::Door {
 public:
  tenon_status* Listen(std::string_view address, Accept accept, std::string* out_address) override {
    Names& names = TheNames();
    const std::lock_guard guard(names.lock);
    std::string name(address);
    while (name.empty() || (address.empty() && names.listeners.contains(name)))
      name = sdk::Concat("chosen-", ++names.chosen);
    if (names.listeners.contains(name)) {
      return sdk::Failure(TENON_ALREADY_EXISTS, "another endpoint of this process listens at loopback://", name);
    }
    names.listeners[name] = std::make_shared<Listener>(std::move(accept));
    *out_address = name_ = name;
    return nullptr;
  }
  void StopListening() override {
    std::shared_ptr<Listener> listener;  // joins its thread after the lock
    Names& names = TheNames();
    const std::lock_guard guard(names.lock);
    if (const auto found = names.listeners.find(name_); !name_.empty() && found != names.listeners.end()) {
      listener = std::move(found->second);
      names.listeners.erase(found);
    }
    name_.clear();
  }
  tenon_status* Connect(std::string_view address, uint64_t, std::unique_ptr<sdk::Pipe>* out_pipe) override {
    Names& names = TheNames();
    const std::lock_guard guard(names.lock);
    const auto found = names.listeners.find(address);
    if (found == names.listeners.end())
      return sdk::Failure(TENON_UNAVAILABLE, "no endpoint of this process listens there");
    const std::string seen = sdk::Concat("loopback://", address);
    auto [mine, theirs] = MakePipe(seen, sdk::Concat(seen, "#", ++names.connections));
    found->second->Give(std::move(theirs));
    *out_pipe = std::move(mine);
    return nullptr;
  }

 private:
  std::string name_;
};

struct Transport {
  static constexpr tenon_span kScheme = TENON_SPAN("loopback");
  static tenon_status* Open(tenon_plugin_self*, const tenon_endpoint_options&, std::unique_ptr<sdk::Door>* out_door) {
    *out_door = std::make_unique<LoopbackDoor>();
    return nullptr;
  }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(TRANSPORT, &sdk::kTransportTable<Transport>)};

}  // namespace
}  // namespace tenon::loopback

TENON_PLUGIN("tenon.net.loopback", "0.1.0", "Connections between endpoints of one process.",
             tenon::loopback::kCapabilities)
