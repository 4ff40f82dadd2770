// SPDX-License-Identifier: Apache-2.0
// Work: what a plugin has asked to be called for later: at a moment, or when a descriptor is ready. Of a frame's step,
// or in the background.
//
// Invariants. What is taken (an item) is called exactly once, or forgotten. It is called on a thread of the host's,
// never on the event loop's, unless there is no other. Nothing of the plugin is called under a lock. Items keep their
// work alive; the session waits for them.
#ifndef TENON_CORE_EXEC_WORK_WORK_H_
#define TENON_CORE_EXEC_WORK_WORK_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/live_objects.h"
#include "core/exec/work/function.h"
#include "core/exec/work/session_works.h"

// The C ABI's opaque work. Any thread.
struct tenon_work : std::enable_shared_from_this<tenon_work> {
 public:
  using Status = tenon::Status;
  // step: cancels it, and outlives EndStep(); nullptr: it is in the background. plugin: whose it is; name: for
  // messages.
  static std::shared_ptr<tenon_work> Make(std::shared_ptr<tenon::exec::SessionWorks> session, const std::string& plugin,
                                          std::string name, tenon::Cancellation* step);
  tenon_work(const tenon_work&) = delete;
  tenon_work& operator=(const tenon_work&) = delete;

  Status Schedule(uint64_t after_ns, uint32_t flags, tenon_done_function function, void* argument, uint64_t* out_token);
  Status Await(int32_t descriptor, uint32_t events, uint64_t timeout_ns, tenon_done_function function, void* argument,
               uint64_t* out_token);
  bool Forget(uint64_t token);
  bool cancelled() const { return cancellation_->cancelled(); }
  Status Call(tenon_function* function, std::span<const tenon_tensor_view* const> arguments,
              std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_results);

  tenon::exec::SessionWorks& session() { return *session_; }
  const std::string& plugin() const { return plugin_; }

  // In the background: what is to come back comes with the reason.
  void Cancel(const Status& reason) noexcept;
  // The step's kernel is done. What has not come is dropped, and the plugin named.
  void EndStep() noexcept;
  // A plugin or a frame has it, until EndStep(), or EndBackground(), which cancels and waits until all has come back
  // that is not being called on this thread.
  void Keep() { kept_ = shared_from_this(); }
  void EndBackground();

 private:
  struct Item {
    tenon_done_function function;
    void* argument;
    bool may_wait;
    enum class State : uint8_t { kWaits, kOnItsWay, kRuns } state = State::kWaits;  // on its way to a thread
    bool timed_out = false;
    uint64_t waits_for = 0;     // the event loop's number; 0: for nothing
    std::thread::id runner{};   // on which it is called
  };
  tenon_work(std::shared_ptr<tenon::exec::SessionWorks> session, const std::string& plugin, std::string name,
             tenon::Cancellation* step)
      : session_(std::move(session)),
        plugin_(plugin),
        name_(std::move(name)),
        cancellation_(step == nullptr ? &own_ : step) {}
  Status Take(tenon_done_function function, void* argument, bool may_wait, uint64_t* out_token);
  template <typename Ask>
  Status Wait(uint64_t token, const Ask& ask);
  void HandOver(uint64_t token, bool timed_out) noexcept;
  void HandOverAll() noexcept;
  void Run(uint64_t token);
  bool AllBack() const;

  const std::shared_ptr<tenon::exec::SessionWorks> session_;
  const std::string plugin_, name_;
  std::optional<tenon::LiveObject> live_;  // in the background: the plugin stays
  tenon::Cancellation own_;
  tenon::Cancellation* const cancellation_;
  tenon::Subscription subscription_;
  mutable std::mutex mutex_;
  std::condition_variable back_;
  std::map<uint64_t, Item> items_;  // by token, until they have been called
  uint64_t next_ = 1;
  std::shared_ptr<tenon_work> kept_;
};

#endif  // TENON_CORE_EXEC_WORK_WORK_H_
