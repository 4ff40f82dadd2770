// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/releases.h"

#include <climits>
#include <map>

namespace tenon::exec {
namespace {

// By position: the slots whose buffers are dropped there.
using Ends = std::multimap<int32_t, SlotId>;

Operation ReleaseOf(SlotId slot, graph::NodeId node, int32_t position) {
  Operation release;
  release.kind = Operation::Kind::kRelease;
  release.node = node;
  release.position = position;
  release.outputs = {slot};
  return release;
}

void Insert(const ProgramCode& code, const Ends& ends, std::vector<Operation>* block) {
  std::vector<Operation> out;
  for (Operation& operation : *block) {
    const int32_t end = operation.kind == Operation::Kind::kLoop ? code.loop(operation.loop).end : operation.position;
    const graph::NodeId node = operation.node;
    out.push_back(std::move(operation));
    const auto range = ends.equal_range(end);
    for (auto it = range.first; it != range.second; ++it) out.push_back(ReleaseOf(it->second, node, end));
  }
  *block = std::move(out);
}

}  // namespace

void InsertReleases(ProgramCode* code) {
  Ends ends;
  for (const SlotId i : code->slots.ids()) {
    const Slot& slot = code->slots[i];
    if (slot.home == Home::kBuffer && slot.last != INT_MAX) ends.emplace(slot.last, i);
  }
  code->ForEachBlock([&](std::vector<Operation>& block) { Insert(*code, ends, &block); });
}

}  // namespace tenon::exec
