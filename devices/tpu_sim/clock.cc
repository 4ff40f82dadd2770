// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tenon/sdk/outcome.h"

namespace tenon::tpu_sim {
namespace {

// What is settled at the latest. More than a step has as a rule: settling in the middle of one, some of its threads
// would be ahead by chance.
constexpr size_t kMostOpen = size_t{1} << 16;
// What the host saw so long ago counts as seen with the oldest that is kept.
constexpr size_t kMostSeen = 4096;

}  // namespace

const char* UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNone: return "";
    case Unit::kCompute: return "the matrix and vector units";
    case Unit::kMemory: return "the memory channel";
    case Unit::kFromHost: return "the link from the host";
    case Unit::kToHost: return "the link to the host";
    case Unit::kInterconnect: return "the interconnect";
  }
  return "";
}

std::string ToText(const Origin& origin) {
  switch (origin.kind) {
    case Origin::kNothing: break;
    case Origin::kHost: return "the host";
    case Origin::kQueue: return sdk::Concat("queue ", origin.number, " of TPU:", origin.device);
    case Origin::kUnit: return UnitName(static_cast<Unit>(origin.number));
  }
  return "";
}

DeviceTime::DeviceTime(int64_t index, int64_t cores, int64_t most_spans)
    : index_(index), most_spans_(static_cast<uint64_t>(most_spans)) {
  for (auto& free : unit_free_) free.assign(1, 0);
  unit_free_[static_cast<size_t>(Unit::kCompute)].assign(static_cast<size_t>(cores), 0);
}

// Of the units that are free at that time the one that became so last: a queue stays on its unit.
int64_t& DeviceTime::NextFree(Unit unit, int64_t at) {
  std::vector<int64_t>& free = unit_free_[static_cast<size_t>(unit)];
  int64_t* best = &free[0];
  for (int64_t& each : free)
    if (each <= at ? (*best > at || each > *best) : (*best > at && each < *best)) best = &each;
  return *best;
}

void DeviceTime::Log(const Span& span) {
  const uint64_t number = next_span_++;
  if (most_spans_ == 0) return;
  if (log_.size() < most_spans_) log_.emplace_back();
  Span& kept = log_[number % log_.size()];
  kept = span;
  kept.number = number;
}

// The queue whose next deed arrives so.
struct Clock::Arrival {
  int64_t at;
  int64_t device, number;
  QueueTime* queue;
  bool operator<(const Arrival& other) const {
    return std::tie(at, device, number) > std::tie(other.at, other.device, other.number);
  }  // the first is on top
};

Clock::Clock() : seen_(1) {}

std::shared_ptr<QueueTime> Clock::NewQueue(std::shared_ptr<DeviceTime> device, int64_t number) {
  std::erase_if(queues_, [](const auto& queue) { return queue.use_count() == 1 && queue->open.empty(); });
  auto queue = std::make_shared<QueueTime>();
  queue->device = std::move(device);
  queue->number = number;
  queues_.push_back(queue);
  return queue;
}

void Clock::Note(QueueTime& queue, Deed deed) {
  queue.open.push_back(std::move(deed));
  if (++open_ >= kMostOpen) Settle();
}

void Clock::Observe(const MomentPointer& moment) {
  if (moment == nullptr || moment == last_observed_) return;
  last_observed_ = moment;
  Deed deed;
  deed.waits = {moment};
  deed.done = std::make_shared<Moment>();
  deed.done->by = {Origin::kHost, 0, 0};
  seen_.push_back(deed.done);
  if (seen_.size() > kMostSeen) seen_.pop_front();
  now_.fetch_add(1, std::memory_order_release);
  Note(host_, std::move(deed));
}

MomentPointer Clock::HostAt(uint64_t now) const {
  const uint64_t oldest = now_.load(std::memory_order_relaxed) + 1 - seen_.size();
  return seen_[static_cast<size_t>(std::max(now, oldest) - oldest)];
}

// Puts the queue where it goes on: among the arrivals, or with the moment that it waits for.
void Clock::Examine(QueueTime& queue, Arrivals* arrivals) {
  if (queue.open.empty()) return;
  int64_t at = queue.clock;
  for (const MomentPointer& wait : queue.open.front().waits) {
    if (wait->cycle < 0) return wait->waiting.push_back(&queue);
    at = std::max(at, wait->cycle);
  }
  arrivals->push_back({at, queue.device == nullptr ? -1 : queue.device->index(), queue.number, &queue});
  std::push_heap(arrivals->begin(), arrivals->end());
}

void Clock::Do(QueueTime& queue, Arrivals* arrivals) {
  Deed deed = std::move(queue.open.front());
  queue.open.pop_front();
  for (const MomentPointer& wait : deed.waits) {
    if (wait->cycle <= queue.clock) continue;
    queue.clock = wait->cycle;
    queue.waited_for = wait->by;
  }
  Span& span = deed.span;
  span.begin = span.end = queue.clock;
  if (deed.unit != Unit::kNone) {
    int64_t& unit_free = queue.device->NextFree(deed.unit, queue.clock);
    if (unit_free > queue.clock) {
      span.begin = unit_free;
      queue.waited_for = {Origin::kUnit, 0, static_cast<int32_t>(deed.unit)};
    }
    span.waited = span.begin - queue.idle_since;
    span.waited_for = std::exchange(queue.waited_for, {});
    span.end = queue.clock = queue.idle_since = unit_free = span.begin + span.cycles.total();
  }
  if (deed.logged) queue.device->Log(span);
  if (deed.done == nullptr) return;
  deed.done->cycle = queue.clock;
  for (QueueTime* waiting : std::exchange(deed.done->waiting, {})) Examine(*waiting, arrivals);
}

// A queue's next deed is among the arrivals or waits for the done of another, so that what arrives first is known to.
void Clock::Settle() {
  Arrivals arrivals;
  for (const auto& queue : queues_) Examine(*queue, &arrivals);
  Examine(host_, &arrivals);
  while (!arrivals.empty()) {
    std::pop_heap(arrivals.begin(), arrivals.end());
    QueueTime& queue = *arrivals.back().queue;
    arrivals.pop_back();
    Do(queue, &arrivals);
    Examine(queue, &arrivals);
  }
  open_ = 0;
}

}  // namespace tenon::tpu_sim
