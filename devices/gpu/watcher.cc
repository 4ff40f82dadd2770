// SPDX-License-Identifier: Apache-2.0
#include "watcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device.h"

namespace tenon::gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kShortest(20), kLongest(500);

}  // namespace

void Watcher::Watch(std::shared_ptr<Device> device, std::function<bool()> due, std::function<void()> call) {
  items_.push_back({std::move(device), std::move(due), std::move(call)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
  changed_.notify_one();
}

void Watcher::Stop() {
  {
    const std::lock_guard lock(*mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watcher::Serve() {
  id_ = std::this_thread::get_id();
  std::unique_lock lock(*mutex_);
  auto pause = kShortest;
  Clock::time_point checked = Clock::now();
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !items_.empty(); });
    const auto first_due =
        std::stable_partition(items_.begin(), items_.end(), [](const Item& item) { return !item.due(); });
    std::vector<Item> due(std::make_move_iterator(first_due), std::make_move_iterator(items_.end()));
    items_.erase(first_due, items_.end());
    if (due.empty() && stopping_) {
      due = std::exchange(items_, {});
      lock.unlock();  // what they hold goes without it
      return;
    }
    if (!due.empty()) {
      lock.unlock();
      for (Item& item : due) item.call();
      due.clear();  // may be the last to hold a device
      lock.lock();
      pause = kShortest;
      continue;
    }
    if (Clock::now() - checked > kBetweenHealthChecks) {
      std::vector<std::shared_ptr<Device>> devices;
      for (const Item& item : items_) {
        if (std::find(devices.begin(), devices.end(), item.device) == devices.end()) devices.push_back(item.device);
      }
      lock.unlock();
      for (const auto& device : devices) device->CheckHealth();
      devices.clear();
      lock.lock();
      checked = Clock::now();
      continue;
    }
    changed_.wait_for(lock, pause);
    pause = std::min(pause * 2, std::chrono::microseconds(kLongest));
  }
}

}  // namespace tenon::gpu
