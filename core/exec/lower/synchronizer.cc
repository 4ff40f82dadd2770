// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/synchronizer.h"

#include <algorithm>
#include <set>

#include "core/exec/device/environment.h"
#include "core/graph/graph.h"

namespace tenon::exec {

using Kind = Operation::Kind;

Synchronizer::Synchronizer(const Environment& env, const graph::Graph& graph, IsFed is_fed, ProgramCode* code)
    : env_(env), graph_(graph), is_fed_(std::move(is_fed)), code_(code) {
  arenas_.resize(env.devices.size());
  waited_.assign(env.queues.size() + 1, IdVector<QueueId, Waited>(env.queues.size()));
  used_.resize(env.queues.size());
}

void Synchronizer::Run() {
  Walk(code_->operations, NewBlock(-1));
  // The operations that are waited for are known now.
  code_->ForEachBlock([this](std::vector<Operation>& block) { WriteBack(&block); });
  code_->point_count = static_cast<int32_t>(points_.size());
  for (const QueueId queue : used_.ids())
    if (used_[queue]) code_->queues.push_back(queue);
}

// ---- The walk ----

int32_t Synchronizer::NewBlock(int32_t parent) {
  parent_of_block_.push_back(parent);
  return static_cast<int32_t>(parent_of_block_.size() - 1);
}

bool Synchronizer::IsWithin(int32_t block, int32_t outer) const {
  for (; block >= 0; block = parent_of_block_[block])
    if (block == outer) return true;
  return false;
}

void Synchronizer::Walk(const std::vector<Operation>& block, int32_t number) {
  for (const Operation& operation : block) WalkOperation(operation, number);
}

Synchronizer::Event Synchronizer::NewEvent(const Operation& operation, QueueId queue, int32_t block) {
  if (queue) used_[queue] = true;
  return {operation.position, queue, block, next_event_++};
}

void Synchronizer::WalkOperation(const Operation& operation, int32_t block) {
  if (operation.kind == Kind::kRelease || operation.kind == Kind::kCheck || operation.kind == Kind::kView) return;
  Waits* waits = &waits_[operation.position];
  const Event host = NewEvent(operation, QueueId(), block);
  if (operation.kind == Kind::kLoop) return WalkLoop(operation, block);
  if (operation.kind == Kind::kBranch) {
    Touch(operation.inputs[0], Access::kRead, host, waits);
    const std::vector<Operation>& inner = code_->branch(operation.branch).block;
    auto [it, fresh] = number_of_block_.try_emplace(&inner, 0);
    if (fresh) it->second = NewBlock(block);
    return Walk(inner, it->second);
  }
  if (operation.kind == Kind::kSelect) {  // it looks at the predicate alone
    Touch(operation.inputs[0], Access::kRead, host, waits);
    if (operation.outputs.size() > 1) Touch(operation.outputs[1], Access::kWrite, host, waits);
    return;
  }
  const Event event = !operation.queue ? host : NewEvent(operation, operation.queue, block);
  // A queue's kernel takes its host arguments when it is called; a copy reads the host's memory later.
  const auto at = [&](SlotId slot) -> const Event& {
    return operation.kind != Kind::kTransfer && code_->at(slot).memory == 0 ? host : event;
  };
  WaitForControls(operation, event, waits);
  for (SlotId slot : operation.inputs) Touch(slot, Access::kRead, at(slot), waits);
  for (SlotId slot : operation.outputs) Touch(slot, Access::kWrite, at(slot), waits);
  if (operation.region == nullptr) return Add(&done_by_[operation.node], event);
  for (graph::NodeId node : operation.region->nodes()) Add(&done_by_[node], event);
}

void Synchronizer::WalkLoop(const Operation& operation, int32_t block) {
  const Loop& loop = code_->loop(operation.loop);
  auto [it, fresh] = number_of_block_.try_emplace(&loop.condition_block, 0);
  if (fresh) {
    it->second = NewBlock(block);
    number_of_block_[&loop.body_block] = NewBlock(block);
  }
  const int32_t condition = number_of_block_[&loop.condition_block], body = number_of_block_[&loop.body_block];
  const auto copies = [&](const Event& event, bool first, Waits* waits) {
    for (const Loop::Carried& carried : loop.carried) {
      if (carried.queued) continue;
      Touch(first ? carried.initial : carried.next, Access::kRead, event, waits);
      if (carried.through_temporary && !first) Touch(carried.temporary, Access::kWrite, event, waits);
      Touch(carried.current, Access::kWrite, event, waits);
    }
  };
  copies(NewEvent(operation, QueueId(), block), true, &waits_[operation.position]);
  for (int turn = 0; turn < 2; ++turn) {
    completion_.clear();
    Walk(loop.condition_block, condition);
    Touch(loop.condition, Access::kRead, NewEvent(operation, QueueId(), condition), &tail_[&loop.condition_block]);
    Walk(loop.body_block, body);
    copies(NewEvent(operation, QueueId(), body), false, &tail_[&loop.body_block]);
  }
  completion_.clear();
  // The last turn's condition.
  Walk(loop.condition_block, condition);
  Touch(loop.condition, Access::kRead, NewEvent(operation, QueueId(), condition), &tail_[&loop.condition_block]);
}

// ---- Memory ----

void Synchronizer::Touch(SlotId slot, Access access, const Event& event, Waits* waits) {
  slot = code_->RootOf(slot);
  if (code_->at(slot).home != Home::kSelected) return TouchOne(slot, access, event, waits);
  // Each value that it may show, once, however many selects lead to it.
  std::vector<SlotId> left = {slot};
  std::unordered_set<SlotId> seen = {slot};
  while (!left.empty()) {
    const SlotId each = left.back();
    left.pop_back();
    if (code_->at(each).home != Home::kSelected) {
      TouchOne(each, access, event, waits);
      continue;
    }
    const auto& sides = code_->at(each).sides;
    for (SlotId side : {sides[1], sides[0]})
      if (const SlotId root = code_->RootOf(side); seen.insert(root).second) left.push_back(root);
  }
}

// Of a value in a place of its own.
void Synchronizer::TouchOne(SlotId slot, Access access, const Event& event, Waits* waits) {
  const Slot& root = code_->at(slot);
  if (root.home == Home::kArena) return TouchArena(root, access, event, waits);
  // Constants and feeds are there before the step, and never written.
  if (root.home == Home::kBuffer) TouchCell(&others_[slot], access, event, waits);
}

// Splits the pieces at the value's ends, and touches each that is within.
void Synchronizer::TouchArena(const Slot& slot, Access access, const Event& event, Waits* waits) {
  if (slot.bytes == 0) return;
  Range& range = arenas_[slot.memory];
  const uint64_t begin = slot.offset, end = slot.offset + slot.bytes;
  const auto split = [&range](uint64_t at) {
    auto next = range.lower_bound(at);
    if (next == range.begin()) return;
    const auto before = std::prev(next);
    if (before->second.end <= at) return;
    Cell upper = before->second;
    before->second.end = at;
    range.emplace_hint(next, at, std::move(upper));
  };
  split(begin);
  split(end);
  uint64_t at = begin;
  for (auto it = range.lower_bound(begin); at < end;) {
    if (it == range.end() || it->first > at) {  // never touched yet
      const uint64_t gap_end = it == range.end() ? end : std::min(end, it->first);
      it = range.emplace_hint(it, at, Cell{gap_end, {}, {}});
    }
    TouchCell(&it->second, access, event, waits);
    at = it->second.end;
    ++it;
  }
}

void Synchronizer::TouchCell(Cell* cell, Access access, const Event& event, Waits* waits) {
  WaitFor(cell->writers, event, waits);
  if (access == Access::kRead) return Add(&cell->readers, event);
  WaitFor(cell->readers, event, waits);
  // It comes after all of these; who waits for it need not wait for them, if it is sure to have run.
  const auto follows = [&](const Event& earlier) { return IsWithin(earlier.block, event.block); };
  std::erase_if(cell->writers, follows);
  std::erase_if(cell->readers, follows);
  cell->writers.push_back(event);
}

// What a later event of the same queue stands for goes, if that one is sure to have run.
void Synchronizer::Add(std::vector<Event>* list, const Event& event) const {
  std::erase_if(*list, [&](const Event& earlier) {
    return earlier.queue == event.queue && IsWithin(earlier.block, event.block);
  });
  list->push_back(event);
}

// ---- Waits ----

const tenon_device_driver* Synchronizer::DriverOf(QueueId queue) const {
  return env_.devices[env_.queues[queue].device].device->driver;
}

// Whether the waiter, or the host before it, has waited for the event already.
bool Synchronizer::IsKnown(const Event& waiter, const Event& event) const {
  for (const QueueId who : {waiter.queue, QueueId()}) {
    const Waited& waited = WaitedBy(who, event.queue);
    if (waited.event >= event.number && IsWithin(waiter.block, waited.block)) return true;
  }
  return false;
}

void Synchronizer::WaitFor(const std::vector<Event>& list, const Event& event, Waits* waits) {
  for (const Event& earlier : list) {
    if (!earlier.queue || earlier.queue == event.queue || IsKnown(event, earlier)) continue;
    // A queue cannot wait for another driver's.
    const bool by_host = !event.queue || DriverOf(event.queue) != DriverOf(earlier.queue);
    (by_host ? waits->host : waits->queue).push_back(earlier.operation);
    (void)PointOf(earlier.operation);
    // Only what is sure to have run says anything of what came before it.
    if (!IsWithin(event.block, earlier.block)) continue;
    Waited& waited = WaitedBy(by_host ? QueueId() : event.queue, earlier.queue);
    if (!IsWithin(event.block, waited.block) || waited.event < earlier.number) waited = {earlier.number, event.block};
  }
}

void Synchronizer::WaitForControls(const Operation& operation, const Event& event, Waits* waits) {
  const auto wait_for = [&](graph::NodeId node) {
    for (graph::NodeId control : graph_.node(node).controls) WaitFor(CompletionOf(control), event, waits);
  };
  if (operation.region == nullptr) return wait_for(operation.node);
  for (graph::NodeId node : operation.region->nodes()) wait_for(node);
}

// What must be done for a node to be done: its own operations, or, when it has none, those of what it comes after.
const std::vector<Synchronizer::Event>& Synchronizer::CompletionOf(graph::NodeId node) {
  std::vector<graph::NodeId> stack = {node};
  const auto known = [this](graph::NodeId id) -> const std::vector<Event>* {
    if (const auto it = done_by_.find(id); it != done_by_.end()) return &it->second;
    const auto it = completion_.find(id);
    return it == completion_.end() ? nullptr : &it->second;
  };
  if (const auto* events = known(node)) return *events;
  std::unordered_map<graph::NodeId, bool> open;  // on the stack; a loop's back edge leads to one
  while (!stack.empty()) {
    const graph::NodeId id = stack.back();
    if (known(id) != nullptr) {
      stack.pop_back();
      continue;
    }
    std::vector<graph::NodeId> sources = graph_.node(id).controls;
    for (const graph::Edge& edge : graph_.node(id).inputs)
      if (edge.node && !is_fed_(edge)) sources.push_back(edge.node);
    if (!open[id]) {
      open[id] = true;
      for (graph::NodeId source : sources)
        if (known(source) == nullptr && !open[source]) stack.push_back(source);
      continue;
    }
    std::vector<Event> events;
    for (graph::NodeId source : sources)
      if (const auto* part = known(source))
        for (const Event& event : *part) {
          const bool there = std::any_of(events.begin(), events.end(),
                                         [&](const Event& other) { return other.number == event.number; });
          if (!there) events.push_back(event);
        }
    completion_.emplace(id, std::move(events));
    stack.pop_back();
  }
  return *known(node);
}

// ---- The result ----

PointId Synchronizer::PointOf(int32_t position) {
  return points_.try_emplace(position, PointId(points_.size())).first->second;
}

std::vector<PointId> Synchronizer::PointsOf(const std::vector<int32_t>& positions) {
  std::vector<PointId> points;
  for (int32_t position : std::set<int32_t>(positions.begin(), positions.end())) points.push_back(PointOf(position));
  return points;
}

Operation Synchronizer::HostWait(const Operation& near, const std::vector<int32_t>& positions) {
  Operation wait;
  wait.kind = Kind::kWait;
  wait.node = near.node;
  wait.position = near.position;
  wait.waits = PointsOf(positions);
  return wait;
}

void Synchronizer::WriteBack(std::vector<Operation>* block) {
  std::vector<Operation> out;
  for (Operation& operation : *block) {
    const bool counted =
        operation.kind != Kind::kRelease && operation.kind != Kind::kCheck && operation.kind != Kind::kView;
    if (const auto it = waits_.find(operation.position); counted && it != waits_.end()) {
      if (!it->second.host.empty()) out.push_back(HostWait(operation, it->second.host));
      operation.waits = PointsOf(it->second.queue);
    }
    if (const auto it = points_.find(operation.position); counted && it != points_.end()) operation.signal = it->second;
    out.push_back(std::move(operation));
  }
  if (const auto it = tail_.find(block); it != tail_.end() && !it->second.host.empty()) {
    const Operation& last = out.empty() ? code_->operations.front() : out.back();
    out.push_back(HostWait(last, it->second.host));
  }
  *block = std::move(out);
}

}  // namespace tenon::exec
