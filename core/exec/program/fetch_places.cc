// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/fetch_places.h"

#include <algorithm>

#include "core/exec/device/pinned.h"
#include "core/exec/device/step.h"

namespace tenon::exec::program {
namespace {

// What is smaller is copied as fast as it is moved.
constexpr uint64_t kLeastMoved = 4096;

}  // namespace

FetchPlaces::FetchPlaces(Machine* machine) : machine_(*machine), brings_(!machine->code.queues.empty()) {
  const ProgramCode& code = machine_.code;
  for (size_t index = 0; index < code.fetch_slots.size(); ++index) {
    const SlotId fetch = code.fetch_slots[index];
    const SlotId root = code.RootOf(fetch);
    if (!IsMovable(fetch, brings_ ? 1 : kLeastMoved) || (brings_ && !IsBroughtAlone(root))) continue;
    const auto same =
        std::find_if(fetches_.begin(), fetches_.end(), [root](const Movable& other) { return other.root == root; });
    Movable& movable = same == fetches_.end() ? fetches_.emplace_back(Movable{root, {}, {}, {}}) : *same;
    movable.indices.push_back(index);
    if (std::find(movable.fetches.begin(), movable.fetches.end(), fetch) == movable.fetches.end())
      movable.fetches.push_back(fetch);
  }
  for (const SlotId slot : code.slots.ids())
    for (Movable& movable : fetches_)
      if (code.RootOf(slot) == movable.root) movable.slots.push_back(slot);
}

bool FetchPlaces::IsMovable(SlotId fetch, uint64_t least) const {
  const ProgramCode& code = machine_.code;
  const Slot& home = code.root(fetch);
  return home.home == Home::kArena && home.memory == 0 && home.bytes >= least && home.bytes == code.at(fetch).bytes &&
         IsPlain(home.dtype) && IsPlain(code.at(fetch).dtype);
}

bool FetchPlaces::IsBroughtAlone(SlotId root) const {
  const ProgramCode& code = machine_.code;
  const auto is_root = [&](SlotId slot) { return slot && code.RootOf(slot) == root; };
  bool brought = false, used = false;
  code.ForEachBlock([&](const std::vector<Operation>& block) {
    for (const Operation& operation : block) {
      const bool makes = std::any_of(operation.outputs.begin(), operation.outputs.end(), is_root);
      const bool brings = makes && !brought && operation.kind == Operation::Kind::kTransfer &&
                          code.at(operation.inputs[0]).memory != 0;
      used = used || (makes && !brings) || std::any_of(operation.inputs.begin(), operation.inputs.end(), is_root);
      brought = brought || brings;
    }
  });
  return brought && !used && !code.IsCarried(root);
}

bool FetchPlaces::Has(SlotId root) const {
  return std::any_of(fetches_.begin(), fetches_.end(), [root](const Movable& each) { return each.root == root; });
}

void* FetchPlaces::PlaceOf(const Step& step, const Movable& movable) const {
  for (const size_t index : movable.indices) {
    const tenon_tensor_view* const place = step.places.empty() ? nullptr : step.places[index];
    if (place == nullptr || !SameTypeAndShape(*place, machine_.views[machine_.code.fetch_slots[index]])) continue;
    if (void* const data = DataOf(*place); reinterpret_cast<uintptr_t>(data) % 64 == 0) return data;
  }
  return nullptr;
}

void FetchPlaces::PlaceBrought(const Step& step) {
  if (step.places.empty()) return;
  for (Movable& movable : fetches_) {
    void* const data = PlaceOf(step, movable);
    Buffer* const pinned = data == nullptr ? nullptr : RetainPinnedAround(data, machine_.code.at(movable.root).bytes);
    if (pinned == nullptr) continue;
    Release(pinned);  // the copy holds it
    movable.moved = true;
    for (const SlotId slot : movable.slots) machine_.views[slot].dl.data = data;
  }
}

// A buffer is the view's own when the step has run: until then it is memory that kernels write, as the arena is.
Status FetchPlaces::Move(const Step& step) {
  for (Movable& movable : fetches_) {
    void* data = PlaceOf(step, movable);
    if (data == nullptr) {
      const tenon_tensor_view& view = machine_.views[movable.fetches.front()];
      TENON_ASSIGN_OR_RETURN(movable.buffer, step.keeps->Allocate(view.byte_size, {view.dl.shape, view.dl.ndim, 0}));
      data = movable.buffer->data;
    }
    movable.moved = true;
    for (const SlotId slot : movable.slots) machine_.views[slot].dl.data = data;
  }
  return Status::Ok();
}

void FetchPlaces::Give() {
  for (const Movable& movable : fetches_)
    for (const SlotId fetch : movable.fetches) machine_.views[fetch].buffer = movable.buffer;
}

void FetchPlaces::Restore(char* arena) {
  for (Movable& movable : fetches_) {
    if (!std::exchange(movable.moved, false)) continue;
    for (const SlotId fetch : movable.fetches) machine_.views[fetch].buffer = nullptr;
    for (const SlotId slot : movable.slots)
      machine_.views[slot].dl.data = arena + machine_.code.at(movable.root).offset;
    if (movable.buffer != nullptr) Release(std::exchange(movable.buffer, nullptr));
  }
}

bool FetchPlaces::IsOwn(size_t i) const {
  return std::any_of(fetches_.begin(), fetches_.end(), [i](const Movable& movable) {
    return movable.buffer != nullptr &&
           std::find(movable.indices.begin(), movable.indices.end(), i) != movable.indices.end();
  });
}

}  // namespace tenon::exec::program
