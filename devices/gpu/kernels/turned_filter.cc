// SPDX-License-Identifier: Apache-2.0
#include "kernels/turned_filter.h"

#include <algorithm>
#include <map>

#include "tenon/ext/draft/lasting_view.h"

namespace tenon::gpu {

// Of values that last: those that live.
struct TurnedFilter::All {
  static All& The() {
    static auto* const all = new All;  // NOLINT: as long as the library
    return *all;
  }
  std::mutex mutex;
  std::map<Key, std::weak_ptr<TurnedFilter>> filters;
};

TurnedFilter::~TurnedFilter() {
  queue_->device().Free(kDeviceKind, memory_, queue_.get());
  if (buffer_ == nullptr) return;
  {
    All& all = All::The();
    const std::lock_guard lock(all.mutex);
    if (const auto own = all.filters.find(key_); own != all.filters.end() && own->second.expired())
      all.filters.erase(own);
  }
  const auto let_go = [buffer = buffer_] { tenon_plugin_host->buffer_release(buffer); };
  queue_->HasReached(mark_) || queue_->device().is_lost() ? let_go() : queue_->FreeLater(let_go);
}

std::shared_ptr<TurnedFilter> TurnedFilter::New(Queue& queue, const Key& key) {
  void* memory = nullptr;
  if (!queue.device().Allocate(kDeviceKind, key.layout.bytes(), kDeviceAlignment, &queue, &memory, false).ok())
    return nullptr;
  return std::shared_ptr<TurnedFilter>(new TurnedFilter(queue.shared_from_this(), key, static_cast<char*>(memory)));
}

std::shared_ptr<TurnedFilter> TurnedFilter::OfLasting(Queue& queue, const View& value, const FilterLayout& layout) {
  const Key key = {&queue, value.buffer, sdk::Data<const void>(value), layout};
  All& all = All::The();
  const auto living = [&]() -> std::shared_ptr<TurnedFilter> {
    const std::lock_guard lock(all.mutex);
    const auto found = all.filters.find(key);
    return found == all.filters.end() ? nullptr : found->second.lock();
  };
  if (auto found = living()) return found;
  auto made = New(queue, key);
  if (made == nullptr) return nullptr;
  tenon_plugin_host->buffer_retain(value.buffer);
  made->buffer_ = value.buffer;
  // Another thread may have made one meanwhile: then there are two, of which this one is found from now on.
  const std::lock_guard lock(all.mutex);
  all.filters[key] = made;
  return made;
}

std::shared_ptr<TurnedFilter> TurnedFilter::InCapture(Queue& capture, const View& value, const FilterLayout& layout) {
  const Key key = {&capture, value.buffer, sdk::Data<const void>(value), layout};
  for (const auto& kept : capture.kept()) {
    if (auto filter = std::dynamic_pointer_cast<TurnedFilter>(kept); filter != nullptr && filter->key_ == key)
      return filter;
  }
  auto made = New(*capture.parent(), key);
  if (made != nullptr) capture.Keep(made);
  return made;
}

namespace {

constexpr uint32_t kLongestPause = 1024;
// How many runs a value has to serve so that the next one is held at once. A new value is a new graph, which costs
// about as much as it saves in so many launches.
constexpr uint64_t kLong = 64;

}  // namespace

std::shared_ptr<TurnedFilter> FilterKeeper::Find(const tenon_frame& frame, const View& value) {
  if (frame.queue == nullptr || value.buffer == nullptr) return nullptr;
  Queue& queue = *Queue::Of(frame.queue);
  Queue* const parent = queue.parent();
  if (queue.list() != nullptr) return nullptr;
  if (is_constant_ || (value.flags & TENON_VIEW_LASTING) != 0) {
    auto found = FindLasting(value, parent == nullptr ? queue : *parent, parent != nullptr);
    if (found != nullptr && parent != nullptr) queue.Keep(found);
    if (found != nullptr) return found;
  }
  // Read-only values with buffers are there from the beginning of the captured work to its end.
  return parent != nullptr && (value.flags & TENON_VIEW_READ_ONLY) != 0 ? TurnedFilter::InCapture(queue, value, layout_)
                                                                        : nullptr;
}

std::shared_ptr<TurnedFilter> FilterKeeper::FindLasting(const View& value, Queue& queue, bool in_capture) {
  const std::lock_guard lock(mutex_);
  if (!IsSame(value) && !IsWorthATry(in_capture)) return nullptr;
  ++runs_;
  const auto own = std::find_if(held_.begin(), held_.end(), [&](const auto& each) { return each->IsOf(queue); });
  if (own != held_.end()) return *own;
  auto made = TurnedFilter::OfLasting(queue, value, layout_);
  if (made == nullptr) {
    wait_ = pause_ = kLongestPause;  // asking for memory again may take long
    return nullptr;
  }
  buffer_ = value.buffer;
  data_ = sdk::Data<const void>(value);
  held_.push_back(made);
  return made;
}

// Another value than before has come: that one is let go.
bool FilterKeeper::IsWorthATry(bool in_capture) {
  if (!held_.empty()) {
    for (const auto& each : held_) runs_ += each->launches;
    const bool lasted = is_constant_ || runs_ >= kLong;
    pause_ = lasted ? 1 : std::min(pause_ * 2, kLongestPause);
    wait_ = lasted ? 0 : pause_;
    held_.clear();
    runs_ = 0;
  } else if (in_capture && pause_ == 1) {
    wait_ = 0;
  }
  if (wait_ == 0) return true;
  --wait_;
  return false;
}

}  // namespace tenon::gpu
