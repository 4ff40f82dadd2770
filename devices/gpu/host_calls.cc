// SPDX-License-Identifier: Apache-2.0
#include "host_calls.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace tenon::gpu {

struct HostCalls::Owner {
  std::mutex mutex;  // held while a function runs
  bool closed = false;
};

namespace {

struct Call {
  std::shared_ptr<void> owner;
  std::function<void()> function;
};
// All that were given and have not been called.
struct Pending {
  std::mutex mutex;
  uint64_t last = 0;
  std::unordered_map<uint64_t, Call> calls;
};
Pending& ThePending() {
  static auto* const pending = new Pending;  // NOLINT: as long as the library
  return *pending;
}
Call Take(uint64_t number) {
  const std::lock_guard lock(ThePending().mutex);
  const auto found = ThePending().calls.find(number);
  if (found == ThePending().calls.end()) return {};
  Call call = std::move(found->second);
  ThePending().calls.erase(found);
  return call;
}

}  // namespace

HostCalls::HostCalls() : owner_(std::make_shared<Owner>()) {}

uint64_t HostCalls::Add(std::function<void()> function) {
  const std::lock_guard lock(ThePending().mutex);
  ThePending().calls.emplace(++ThePending().last, Call{owner_, std::move(function)});
  return ThePending().last;
}

void HostCalls::Drop(uint64_t number) { (void)Take(number); }

void HostCalls::Close() {
  {
    const std::lock_guard lock(owner_->mutex);
    owner_->closed = true;
  }
  const std::lock_guard lock(ThePending().mutex);
  std::erase_if(ThePending().calls, [&](const auto& call) { return call.second.owner == owner_; });
}

void HostCalls::Run(uint64_t number) {
  const Call call = Take(number);
  if (call.owner == nullptr) return;
  auto& owner = *static_cast<Owner*>(call.owner.get());
  const std::lock_guard lock(owner.mutex);
  if (!owner.closed) call.function();
}

}  // namespace tenon::gpu
