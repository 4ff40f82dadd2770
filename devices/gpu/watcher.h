// SPDX-License-Identifier: Apache-2.0
// Watcher: the thread that calls back when a point or a queue's progress is reached. It looks at words in the host's
// memory, which streams write, again and again while somebody waits; and asks now and then whether the GPU still lives.
#ifndef TENON_DEVICES_GPU_WATCHER_H_
#define TENON_DEVICES_GPU_WATCHER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tenon::gpu {

class Device;

// A GPU that somebody waits for is asked so often whether it lives.
inline constexpr std::chrono::milliseconds kBetweenHealthChecks(5);

class Watcher {
 public:
  // mutex: System's, which the questions are asked under.
  explicit Watcher(std::mutex* mutex) : mutex_(mutex) {}
  ~Watcher() { Stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // due(): under the mutex, whether the time has come. call(): without it, once. Needs the mutex.
  // device: whose health matters to it.
  void Watch(std::shared_ptr<Device> device, std::function<bool()> due, std::function<void()> call);
  // Ends the thread; what is still watched is called if it is due, else dropped. Before the system is given up, never
  // from call().
  void Stop();
  bool IsThisThread() const { return id_ == std::this_thread::get_id(); }

 private:
  struct Item {
    std::shared_ptr<Device> device;
    std::function<bool()> due;
    std::function<void()> call;
  };
  void Serve();

  std::mutex* const mutex_;
  std::condition_variable changed_;
  std::vector<Item> items_;
  bool stopping_ = false;
  std::atomic<std::thread::id> id_{};
  std::thread thread_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_WATCHER_H_
