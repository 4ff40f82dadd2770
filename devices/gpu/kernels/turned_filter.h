// SPDX-License-Identifier: Apache-2.0
// Filters in the layout of the vendor's library, which are turned once for each value and not once for each launch.
//
// Who has turned a constant or a variable's value (tenon/ext/draft/lasting_view.h) holds the value: nobody changes it
// then, and no other takes its place in memory. Captured work that reads a turned filter holds it for as long as there
// is the graph: the addresses with which a graph is launched are those of the value that it holds, so that it is never
// an old one. A variable that is given another value has other memory then, and so another graph. What changes in every
// step (the value is not lasting: the captured work updates it in place) is turned in each launch, once for all
// convolutions of the captured work that read it.
//
// A turned filter is of one queue, in whose order it is made, read and freed. Where there is no memory for it the
// filter is turned in each launch, into the run's workspace. Threads: any.
#ifndef TENON_DEVICES_GPU_KERNELS_TURNED_FILTER_H_
#define TENON_DEVICES_GPU_KERNELS_TURNED_FILTER_H_

#include <array>
#include <compare>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/kernel.h"

namespace tenon::gpu {

// What a filter's elements are, and how the library wants them.
struct FilterLayout {
  int64_t taps = 0, in = 0, out = 0, element_bytes = 0;
  bool channels_first = false;
  auto operator<=>(const FilterLayout&) const = default;
  uint64_t bytes() const { return static_cast<uint64_t>(taps * in * out * element_bytes); }
};

// One value.
class TurnedFilter final : public Kept {
 public:
  ~TurnedFilter() override;
  // Of a value that lasts, which it holds: one for all who ask. NULL: there is no memory for it.
  static std::shared_ptr<TurnedFilter> OfLasting(Queue& queue, const View& value, const FilterLayout& layout);
  // Of a value that is turned in every launch of what `capture` keeps, by the first who asks. NULL: as above.
  static std::shared_ptr<TurnedFilter> InCapture(Queue& capture, const View& value, const FilterLayout& layout);

  bool IsOf(const Queue& queue) const { return queue_.get() == &queue; }
  char* memory() const { return memory_; }
  // Has turn(on, memory()) done, unless it was. Needs a Turn of `on`, which is the queue or a capture for it.
  template <class Turn>
  void Make(Launcher& on, const Turn& turn) {
    Queue* const parent = on.queue().parent();
    if (parent == nullptr || buffer_ == nullptr) return MakeNow(on, turn);
    // Not in the graph but before it.
    const Queue::Turn before(*parent, nullptr);
    Launcher on_parent(*parent, nullptr);
    on_parent.Check(before.outcome());
    MakeNow(on_parent, turn);
  }

 private:
  struct Key {
    const Queue* queue;
    const tenon_buffer* buffer;
    const void* data;
    FilterLayout layout;
    auto operator<=>(const Key&) const = default;
  };
  struct All;
  TurnedFilter(std::shared_ptr<Queue> queue, const Key& key, char* memory)
      : queue_(std::move(queue)), key_(key), memory_(memory) {}
  static std::shared_ptr<TurnedFilter> New(Queue& queue, const Key& key);
  template <class Turn>
  void MakeNow(Launcher& on, const Turn& turn) {
    if (made_) return;
    turn(on, memory_);
    if (buffer_ != nullptr) on.Check(on.queue().Mark(&mark_));
    made_ = true;
  }

  const std::shared_ptr<Queue> queue_;
  const Key key_;
  char* const memory_;
  tenon_buffer* buffer_ = nullptr;  // held
  // Guarded by the queue's Turns, or the capture's.
  bool made_ = false;
  uint64_t mark_ = 0;  // where the value has been read
};

// What a plan of a convolution knows of its filter from run to run: whether it is worth holding.
class FilterKeeper {
 public:
  FilterKeeper(const FilterLayout& layout, bool is_constant)
      : layout_(layout), is_constant_(is_constant), wait_(is_constant ? 0 : kFirstWait) {}
  // The turned filter that a run is to read; NULL: none, it turns its own.
  std::shared_ptr<TurnedFilter> Find(const tenon_frame& frame, const View& value);

 private:
  // Runs of plain queues before the first value is held: what is captured soon tells by then whether it updates the
  // filter itself.
  static constexpr uint32_t kFirstWait = 8;
  std::shared_ptr<TurnedFilter> FindLasting(const View& value, Queue& queue, bool in_capture);
  bool IsSame(const View& value) const {
    return !held_.empty() && buffer_ == value.buffer && data_ == sdk::Data<const void>(value);
  }
  bool IsWorthATry(bool in_capture);

  const FilterLayout layout_;
  const bool is_constant_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<TurnedFilter>> held_;  // of one value, one of each queue
  const tenon_buffer* buffer_ = nullptr;             // that value's
  const void* data_ = nullptr;
  uint64_t runs_ = 0;        // that read it
  uint32_t pause_ = 1,
           wait_;  // runs that are passed over after a value that changed soon, and how many of them are left
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_TURNED_FILTER_H_
