// SPDX-License-Identifier: Apache-2.0
#include "collective/copies.h"

#include <cstring>

#include "code/elementwise.h"
#include "driver.h"
#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

using sdk::CollectiveKind;
using Points = std::vector<std::shared_ptr<Timeline>>;

uint64_t BytesOf(const GpuMember& member) {
  return static_cast<uint64_t>(member.count) * sdk::ElementSize(member.dtype);
}

// out[i] = code(a[i], b[i * b_step])
void Apply(Queue& lane, std::string_view code, uint32_t dtype, const void* a, const void* b, int64_t b_step, void* out,
           int64_t count) {
  Function function = nullptr;
  Launcher on(lane, nullptr);
  on.Check(lane.device().FindFunction(sdk::Concat(code, "_", Suffix(dtype)), &function));
  BinaryParams p = {};
  p.a = a;
  p.b = b;
  p.out = out;
  p.total = p.inner = count;
  p.a_step = 1;
  p.b_step = b_step;
  on(function, Flat(count, 4), p);
}

// Between memory of any two GPUs of the system, on the lane of the target's or the source's.
void CopyOn(Queue& lane, Device& to, void* target, Device& from, const void* source, uint64_t bytes) {
  if (target == source) return;
  const Queue::Place target_place = {static_cast<char*>(target), &to, false};
  const Queue::Place source_place = {static_cast<char*>(const_cast<void*>(source)), &from, false};
  Launcher(lane, nullptr).Check(lane.Copy(target_place, source_place, bytes));
}

const char* CodeOf(sdk::CollectiveMerge merge) {
  static constexpr const char* kCodes[] = {"Add", "Mul", "Minimum", "Maximum"};
  return kCodes[static_cast<size_t>(merge)];
}

Outcome NewPoint(const CollectivePlace& place, std::shared_ptr<Timeline>* out_point, Points* points) {
  Outcome outcome = place.device().MakeTimeline(0, out_point);
  if (outcome.ok()) points->push_back(*out_point);
  return outcome;
}

// Every lane waits until all have come so far, and tells `done`.
Outcome TellAll(const CollectivePlaces& places, const Points& phases) {
  Outcome outcome;
  for (const CollectivePlace& place : places) {
    if (outcome.ok()) outcome = SubmitOn(*place.lane, place.part()->done, phases, true, [](Queue&) {});
  }
  return outcome;
}

// Into the first member's result. staging: of one member's size, and 16 bytes.
void MergeOnFirst(const CollectivePlaces& places, Queue& lane, char* staging) {
  const GpuMember& first = *places[0].member;
  const uint64_t bytes = BytesOf(first);
  const void* merged = first.source;
  for (size_t k = 1; k < places.size(); ++k) {
    const GpuMember& member = *places[k].member;
    const bool is_near = &places[k].device() == &lane.device();
    if (!is_near) CopyOn(lane, lane.device(), staging, places[k].device(), member.source, bytes);
    Apply(lane, CodeOf(first.merge), first.dtype, merged, is_near ? member.source : staging, 1, first.target,
          first.count);
    merged = first.target;
  }
  CopyOn(lane, lane.device(), first.target, lane.device(), merged, bytes);
  if (first.divide)
    DivideOn(lane, first.target, first.count, first.dtype, static_cast<int64_t>(places.size()),
             staging + (bytes + 15) / 16 * 16);
}

Outcome Reduce(const CollectivePlaces& places, Points* points) {
  const CollectivePlace& first = places[0];
  const LaneMemory staging(*first.lane, BytesOf(*first.member) + 32);
  if (!staging.outcome().ok()) return staging.outcome();
  Points phases(places.size());
  Outcome outcome;
  for (size_t k = 0; k < places.size() && outcome.ok(); ++k) outcome = NewPoint(places[k], &phases[k], points);
  if (outcome.ok()) {
    outcome = SubmitOn(*first.lane, phases[0], ReadyPoints(places), true,
                       [&](Queue& lane) { MergeOnFirst(places, lane, staging.data()); });
  }
  for (size_t k = 1; k < places.size() && outcome.ok(); ++k) {
    outcome = SubmitOn(*places[k].lane, phases[k], {phases[0], places[k].part()->ready}, true, [&](Queue& lane) {
      CopyOn(lane, lane.device(), places[k].member->target, first.device(), first.member->target,
             BytesOf(*first.member));
    });
  }
  return outcome.ok() ? TellAll(places, phases) : outcome;
}

// Each lane fetches what its member gets.
Outcome Fetch(const CollectivePlaces& places, Points* points,
              const std::function<void(const CollectivePlace& to, Queue& lane)>& fetch) {
  Points phases(places.size());
  Outcome outcome;
  for (size_t k = 0; k < places.size() && outcome.ok(); ++k) {
    outcome = NewPoint(places[k], &phases[k], points);
    if (outcome.ok())
      outcome =
          SubmitOn(*places[k].lane, phases[k], ReadyPoints(places), true, [&](Queue& lane) { fetch(places[k], lane); });
  }
  return outcome.ok() ? TellAll(places, phases) : outcome;
}

Outcome Gather(const CollectivePlaces& places, Points* points) {
  return Fetch(places, points, [&](const CollectivePlace& to, Queue& lane) {
    char* target = static_cast<char*>(to.member->target);
    for (const CollectivePlace& from : places) {
      CopyOn(lane, lane.device(), target, from.device(), from.member->source, BytesOf(*from.member));
      target += BytesOf(*from.member);
    }
  });
}

Outcome Broadcast(const CollectivePlaces& places, Points* points) {
  return Fetch(places, points, [&](const CollectivePlace& to, Queue& lane) {
    for (const CollectivePlace& from : places) {
      if (from.member->sends)
        CopyOn(lane, lane.device(), to.member->target, from.device(), from.member->source, BytesOf(*from.member));
    }
  });
}

}  // namespace

Outcome SubmitOn(Queue& lane, const std::shared_ptr<Timeline>& timeline,
                 const std::vector<std::shared_ptr<Timeline>>& waits, bool tells,
                 const std::function<void(Queue& lane)>& work) {
  std::vector<tenon_timeline_point> points;
  for (const auto& wait : waits) points.push_back({wait->handle(), 1});
  const tenon_submission submission = {TENON_HEAD(tenon_submission), points.data(),           points.size(),
                                       timeline->handle(),           tells ? UINT64_C(1) : 0, {}};
  return lane.Submit(submission, "collective", [&] {
    return sdk::TakeStatus(sdk::Guard([&]() -> tenon_status* {
      try {
        work(lane);
        return nullptr;
      } catch (...) {
        return sdk::CurrentFailure();
      }
    }));
  });
}

std::vector<std::shared_ptr<Timeline>> ReadyPoints(const CollectivePlaces& places) {
  std::vector<std::shared_ptr<Timeline>> points;
  for (const CollectivePlace& place : places) points.push_back(place.part()->ready);
  return points;
}

LaneMemory::LaneMemory(Queue& lane, uint64_t bytes)
    : lane_(lane), outcome_(lane.device().Allocate(kDeviceKind, bytes, 256, &lane, &data_)) {}
LaneMemory::~LaneMemory() {
  if (data_ != nullptr) lane_.device().Free(kDeviceKind, data_, &lane_);
}

void DivideOn(Queue& lane, void* data, int64_t count, uint32_t dtype, int64_t members, char* divisor) {
  char value[16] = {};
  sdk::Types<float, double, sdk::Half, sdk::Bfloat16, int32_t, int64_t>::Dispatch(dtype, [&]<class T>(Tag<T>) {
    const T number = static_cast<T>(static_cast<sdk::Wide<T>>(members));
    std::memcpy(value, static_cast<const void*>(&number), sizeof(number));
  });
  const auto size = static_cast<uint32_t>(sdk::ElementSize(dtype));
  const uint32_t unit = size < 4 ? size : 4;
  for (uint32_t at = 0; at < size; at += unit) {
    uint32_t word = 0;
    std::memcpy(&word, value + at, unit);
    Launcher(lane, nullptr).Check(lane.card().Fill(divisor + at, word, unit, 1, lane.stream()));
  }
  Apply(lane, "Div", dtype, data, divisor, 0, data, count);
}

Outcome CollectByCopies(const CollectivePlaces& places, Points* points) {
  switch (places[0].member->kind) {
    case CollectiveKind::kReduce: return Reduce(places, points);
    case CollectiveKind::kGather: return Gather(places, points);
    case CollectiveKind::kBroadcast: return Broadcast(places, points);
  }
  return Fault(TENON_INTERNAL, "a collective of no kind");
}

}  // namespace tenon::gpu
