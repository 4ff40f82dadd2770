// SPDX-License-Identifier: Apache-2.0
#include "collective/collectives.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "collective/copies.h"
#include "driver.h"
#include "tenon/ext/draft/collective.h"

namespace tenon::gpu {
namespace {

using sdk::CollectiveKind;
std::atomic<uint64_t> parts_begun{0};

// Lets go all who wait for the parts, of which lanes have no work.
void FailParts(const std::vector<std::shared_ptr<CollectivePart>>& parts, const Outcome& why) {
  if (parts.empty()) return;
  const std::lock_guard lock(parts[0]->queue->device().system().mutex);
  for (const auto& part : parts) {
    part->ready->Fail(why);
    part->done->Fail(why);
  }
}

}  // namespace

// A group whose work the lanes have.
struct Collectives::Launched {
  std::string name;
  std::vector<std::shared_ptr<CollectivePart>> parts;
  std::vector<std::shared_ptr<Timeline>> points;  // that lanes wait for, besides the parts'
  std::vector<uint32_t> devices;                  // by rank
  std::vector<std::shared_ptr<Queue>> lanes;

  bool is_done() const {
    return std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part->done->word() >= 1; });
  }
  const Device* lost() const {
    for (const auto& part : parts) {
      if (part->queue->device().is_lost()) return &part->queue->device();
    }
    return nullptr;
  }
  // Whether a queue comes to this group only when it has passed the other.
  bool ComesAfter(const Launched& other) const {
    for (const auto& part : parts) {
      for (const auto& before : other.parts) {
        if (part->queue == before->queue && before->number < part->number) return true;
      }
    }
    return false;
  }
};

// ---- One step at a time ----

Outcome Collectives::Enter(const StepKey& step, const std::function<bool()>& is_cancelled) {
  constexpr std::chrono::milliseconds kBetweenQuestions(10);
  std::unique_lock lock(gate_mutex_);
  while (open_ > 0 && owner_ != step) {
    if (is_cancelled())
      return Fault(TENON_CANCELLED, "the step ended while collectives of another step lacked members");
    gate_opened_.wait_for(lock, kBetweenQuestions);
  }
  owner_ = step;
  ++open_;
  return {};
}

void Collectives::Leave(size_t members) {
  {
    const std::lock_guard lock(gate_mutex_);
    open_ -= members;
  }
  gate_opened_.notify_all();
}

// ---- Members ----

Outcome Collectives::Begin(const std::shared_ptr<Queue>& queue, const tenon_frame& frame, GpuMember* member) {
  Device& device = queue->device();
  auto part = std::make_shared<CollectivePart>();
  part->queue = queue;
  if (frame.timeline != nullptr) part->step = Timeline::Of(frame.timeline)->shared_from_this();
  Outcome outcome = device.MakeTimeline(0, &part->ready);
  if (outcome.ok()) outcome = device.MakeTimeline(0, &part->done);
  if (!outcome.ok()) return outcome;
  {
    const std::lock_guard lock(device.system().mutex);
    if (part->step != nullptr) part->ready->DependOn(part->step, part->step->next_point(), true);
    part->ready->NoteSubmitted(1);
  }
  // Told whatever becomes of the step: the lanes wait for it.
  const tenon_submission of_none = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, {}};
  outcome = queue->Submit(of_none, nullptr, [&] {
    part->number = ++parts_begun;
    return part->ready->record().Write(queue->card(), 1, queue->stream());
  });
  const tenon_timeline_point point = {part->done->handle(), 1};
  const tenon_submission waits = {TENON_HEAD(tenon_submission), &point, 1, frame.timeline, 0, frame.label};
  if (outcome.ok()) outcome = queue->Submit(waits, nullptr, [] { return Outcome(); });
  queue->FreeLater([part] {});
  member->part = std::move(part);
  return outcome;
}

void Collectives::Watch(const std::shared_ptr<Table>& table, const std::shared_ptr<CollectivePart>& part) {
  Device& device = part->queue->device();
  const auto failed = [part] {
    return part->step != nullptr && part->step->At(part->step->next_point()) == Timeline::State::kFailed;
  };
  const std::lock_guard lock(device.system().mutex);
  device.system().watcher.Watch(
      device.shared_from_this(), [part, failed] { return part->ended || part->queue->device().is_lost() || failed(); },
      [this, table, part, failed] {
        if (part->ended) return;
        Outcome why =
            part->queue->device().is_lost() ? part->queue->device().lost() : Fault(TENON_CANCELLED, "the step failed");
        {
          const std::lock_guard system_lock(part->queue->device().system().mutex);
          if (failed() && !part->step->failure().ok()) why = part->step->failure();
        }
        Table::Ended ended = table->Abandon([&](const GpuMember& each) { return each.part == part; }, why);
        // The step's own status is why it ended.
        if (!ended.outcome.ok()) tenon_plugin_host->log(TENON_LOG_WARNING, sdk::ToSpan(ended.outcome.message));
        (void)End(std::move(ended));
      });
}

Outcome Collectives::End(Table::Ended ended) {
  if (ended.members.empty()) return {};
  Outcome outcome = std::move(ended.outcome);
  bool given = false;
  if (outcome.ok()) outcome = Launch(ended.members, &given);
  std::vector<std::shared_ptr<CollectivePart>> parts;
  for (const auto& member : ended.members) parts.push_back(member->part);
  if (!outcome.ok() && !given) FailParts(parts, outcome);
  for (const auto& part : parts) part->ended = true;
  Leave(parts.size());
  return outcome;
}

// ---- Groups ----

Outcome Collectives::Launch(const Members& members, bool* out_given) {
  const std::lock_guard lock(mutex_);
  auto launched = std::make_shared<Launched>();
  CollectivePlaces places;
  Outcome outcome;
  launched->name = members[0]->name;
  for (const auto& member : members) {
    Device& device = member->part->queue->device();
    std::shared_ptr<Queue> lane;
    if (outcome.ok()) outcome = LaneOf(device, &lane);
    launched->lanes.push_back(lane);
    places.push_back({member.get(), std::move(lane)});
    launched->parts.push_back(member->part);
    launched->devices.push_back(device.index());
  }
  if (outcome.ok()) outcome = CheckOrder(*launched);
  bool by_library = false;
  if (outcome.ok()) outcome = ChooseLibrary(members, &by_library);
  if (outcome.ok() && by_library) outcome = JoinGroup(places, launched->devices);
  if (!outcome.ok()) return outcome;
  *out_given = true;
  outcome = by_library ? ByLibrary(places, groups_[launched->devices]) : CollectByCopies(places, &launched->points);
  for (const CollectivePlace& place : places)
    place.lane->FreeLater([launched] {});  // lanes still read and write their points
  if (!outcome.ok() && by_library) Abort(launched->devices);
  if (!outcome.ok()) Release(*launched, outcome);
  if (!outcome.ok()) return outcome;
  launched_.push_back(launched);
  WatchLaunched(launched);
  return {};
}

// Whether the group waits for itself: by queues that come to it behind groups that come behind it elsewhere.
Outcome Collectives::CheckOrder(const Launched& group) {
  std::vector<std::shared_ptr<Launched>> others;
  std::erase_if(launched_, [&](const auto& weak) {
    const auto other = weak.lock();
    if (other == nullptr || other->is_done()) return true;
    others.push_back(other);
    return false;
  });
  std::vector<const Launched*> reached = {&group};
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const auto& other : others) {
      if (std::find(reached.begin(), reached.end(), other.get()) != reached.end() || !reached[i]->ComesAfter(*other))
        continue;
      if (other->ComesAfter(group)) {
        return Fault(TENON_FAILED_PRECONDITION, group.name, " and ", other->name,
                     " come in different orders on two GPUs, and would wait for each other; give them one order with "
                     "control edges");
      }
      reached.push_back(other.get());
    }
  }
  return {};
}

Outcome Collectives::LaneOf(Device& device, std::shared_ptr<Queue>* out_lane) {
  std::shared_ptr<Queue>& lane = lanes_[device.index()];
  Outcome outcome;
  if (lane == nullptr) outcome = device.MakeQueue(1, &lane);
  *out_lane = lane;
  return outcome;
}

Outcome Collectives::ChooseLibrary(const Members& members, bool* out_chosen) {
  *out_chosen = false;
  std::set<const Device*> devices;
  for (const auto& member : members) devices.insert(&member->part->queue->device());
  // A library's communicator has one member a GPU; and one member needs none.
  if (members.size() == 1 || devices.size() != members.size() || members[0]->count == 0) return {};
  const Outcome opened = library_.Open();
  if (!opened.ok() && library_.is_required()) return opened;
  if (!opened.ok() && !std::exchange(told_, true)) {
    const std::string text = sdk::Concat("collectives of GPUs go by copies between them: ", opened.message);
    tenon_plugin_host->log(TENON_LOG_INFO, sdk::ToSpan(text));
  }
  *out_chosen = opened.ok();
  return {};
}

Outcome Collectives::JoinGroup(const CollectivePlaces& places, const std::vector<uint32_t>& devices) {
  if (groups_.contains(devices)) return {};
  std::string token;
  Outcome outcome = library_.MakeToken(&token);
  Group group(devices.size());
  if (outcome.ok()) outcome = library_.BeginGroup();
  if (!outcome.ok()) return outcome;
  for (size_t rank = 0; rank < group.size() && outcome.ok(); ++rank) {
    outcome = places[rank].lane->card().Activate();
    if (outcome.ok())
      outcome = library_.Join(token, static_cast<int>(rank), static_cast<int>(group.size()), &group[rank]);
  }
  const Outcome ended = library_.EndGroup();
  if (outcome.ok()) outcome = ended;
  if (outcome.ok()) groups_.emplace(devices, std::move(group));
  return outcome;
}

Outcome Collectives::ByLibrary(const CollectivePlaces& places, const Group& group) {
  const GpuMember& first = *places[0].member;
  Outcome outcome;
  for (const CollectivePlace& place : places) {
    if (outcome.ok()) outcome = SubmitOn(*place.lane, place.part()->done, ReadyPoints(places), false, [](Queue&) {});
  }
  int root = 0;
  for (size_t rank = 0; rank < places.size(); ++rank) root = places[rank].member->sends ? static_cast<int>(rank) : root;
  if (outcome.ok()) outcome = library_.BeginGroup();
  if (!outcome.ok()) return outcome;
  for (size_t rank = 0; rank < places.size() && outcome.ok(); ++rank) {
    const GpuMember& m = *places[rank].member;
    const auto count = static_cast<uint64_t>(m.count);
    const Stream stream = places[rank].lane->stream();
    outcome = places[rank].lane->card().Activate();
    if (!outcome.ok()) break;
    switch (m.kind) {
      case CollectiveKind::kReduce:
        outcome =
            library_.AllReduce(group[rank], m.source, m.target, count, m.dtype, static_cast<uint32_t>(m.merge), stream);
        break;
      case CollectiveKind::kGather:
        outcome = library_.AllGather(group[rank], m.source, m.target, count, m.dtype, stream);
        break;
      case CollectiveKind::kBroadcast:
        outcome = library_.Broadcast(group[rank], m.source, m.target, count, m.dtype, root, stream);
        break;
    }
  }
  const Outcome ended = library_.EndGroup();
  if (outcome.ok()) outcome = ended;
  for (const CollectivePlace& place : places) {
    if (!outcome.ok()) break;
    const LaneMemory divisor(*place.lane, 16);
    if (!divisor.outcome().ok()) return divisor.outcome();
    outcome = SubmitOn(*place.lane, place.part()->done, {}, true, [&](Queue& lane) {
      if (first.divide)
        DivideOn(lane, place.member->target, first.count, first.dtype, static_cast<int64_t>(places.size()),
                 divisor.data());
    });
  }
  return outcome;
}

// Lanes go on, past points that nobody tells any more; then the members' queues do. Not before: lanes still use the
// members' memory.
void Collectives::Release(const Launched& launched, const Outcome& why) {
  System& system = launched.parts[0]->queue->device().system();
  {
    const std::lock_guard lock(system.mutex);
    for (const auto& point : launched.points) point->Fail(why);
    for (const auto& part : launched.parts) part->ready->Fail(why);
  }
  for (size_t i = 0; i < launched.parts.size(); ++i) {
    launched.lanes[i]->FreeLater([part = launched.parts[i], why, &system] {
      const std::lock_guard lock(system.mutex);
      part->done->Fail(why);
    });
  }
}

// Until all is done. Kernels of a library wait for each other: a lost GPU would keep the others for ever.
void Collectives::WatchLaunched(const std::shared_ptr<Launched>& launched) {
  System& system = launched->parts[0]->queue->device().system();
  const std::lock_guard lock(system.mutex);
  for (const auto& part : launched->parts) {
    const std::shared_ptr<Device> device = part->queue->device().shared_from_this();
    system.watcher.Watch(
        device, [launched] { return launched->is_done() || launched->lost() != nullptr; },
        [this, launched] {
          const Device* const lost = launched->lost();
          if (lost == nullptr || launched->is_done()) return;
          {
            const std::lock_guard group_lock(mutex_);
            Abort(launched->devices);
          }
          Release(*launched, Fault(TENON_UNAVAILABLE, launched->name, ": ", lost->lost().message));
        });
  }
}

void Collectives::Abort(const std::vector<uint32_t>& devices) {
  const auto found = groups_.find(devices);
  if (found == groups_.end()) return;
  const Group group = std::move(found->second);
  groups_.erase(found);
  for (size_t rank = 0; rank < group.size(); ++rank) {
    const auto lane = lanes_.find(devices[rank]);
    if (lane != lanes_.end()) (void)lane->second->card().Activate();
    library_.Abort(group[rank]);
  }
}

void Collectives::Forget(const Device& device) {
  std::shared_ptr<Queue> lane;
  const std::lock_guard lock(mutex_);
  for (auto each = groups_.begin(); each != groups_.end();) {
    const auto next = std::next(each);
    const std::vector<uint32_t> devices = each->first;
    if (std::find(devices.begin(), devices.end(), device.index()) != devices.end()) Abort(devices);
    each = next;
  }
  const auto found = lanes_.find(device.index());
  if (found == lanes_.end() || &found->second->device() != &device) return;
  lane = std::move(found->second);
  lanes_.erase(found);
}

}  // namespace tenon::gpu
