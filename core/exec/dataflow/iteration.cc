// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/iteration.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/guard.h"
#include "core/exec/device/environment.h"

namespace tenon::exec::dataflow {
namespace {

constexpr uint64_t kAlignment = 64;

}  // namespace

void Iteration::UseInputs(const NodeInfo& node) {
  for (int32_t i = 0; i < node.input_count; ++i) Use(&Input(node, i));
  for (int32_t i = 0; i < node.dereference_count; ++i)
    Use(&slots[info->dereferences[node.first_dereference + i].from]);
}

Status Iteration::Carry(const Slot& from, const Iteration& source, int32_t to) {
  Slot& slot = slots[to];
  slot.shape_id = from.shape_id;
  slot.depth = from.depth;
  const tenon_tensor_view& view = from.view;
  const bool stays = from.depth < source.info->depth || info->depth > source.info->depth;
  if (view.buffer != nullptr) {
    Buffer* buffer = view.buffer;
    if (stays || view.dl.shape == buffer->dims || view.dl.ndim == 0) Retain(buffer);
    else buffer = pool->Alias(buffer, {view.dl.shape, view.dl.ndim, 0});
    slot.view = view;
    slot.view.buffer = buffer;
    if (!stays) slot.view.dl.shape = buffer->dims;
    Own(to);
    return Status::Ok();
  }
  if (stays) {
    slot.view = view;
    return Status::Ok();
  }
  const uint64_t bytes = RoundUp(view.byte_size, kAlignment);
  TENON_ASSIGN_OR_RETURN(char* memory,
                         MemoryOf(&slot, bytes + sizeof(int64_t) * static_cast<uint64_t>(view.dl.ndim)));
  if (view.byte_size == 4) std::memcpy(memory, DataOf(view), 4);
  else std::memcpy(memory, DataOf(view), view.byte_size);
  slot.view = view;
  slot.view.dl.data = memory;
  slot.view.dl.byte_offset = 0;
  Forbid(memory + view.byte_size, bytes - view.byte_size);
  slot.view.dl.shape = reinterpret_cast<int64_t*>(memory + bytes);
  for (int32_t i = 0; i < view.dl.ndim; ++i) slot.view.dl.shape[i] = view.dl.shape[i];
  slot.depth = info->depth;
  return Status::Ok();
}

Result<char*> Iteration::MemoryOf(Slot* slot, uint64_t bytes) {
  if (bytes + kGuardBytes <= slot->capacity) {
    PermitOnly(slot->memory, bytes, slot->capacity);
    return slot->memory;
  }
  const uint64_t wanted = std::bit_ceil(std::max(bytes, kAlignment)) + kGuardBytes;
  if (chunks.empty() || chunk_used + wanted > chunks.back().second) {
    // As much as all slots of a frame need when they are scalars, within bounds.
    const uint64_t chunk = std::max(wanted, std::clamp<uint64_t>(slots.size() * kAlignment, 512, 65536));
    chunks.reserve(chunks.size() + 1);  // rarely more than a few
    TENON_ASSIGN_OR_RETURN(void* data, pool->AllocateRaw(chunk));
    chunks.emplace_back(static_cast<char*>(data), chunk);
    chunk_used = 0;
  }
  slot->memory = chunks.back().first + chunk_used;
  slot->capacity = static_cast<uint32_t>(wanted);
  chunk_used += wanted;
  PermitOnly(slot->memory, bytes, wanted);
  return slot->memory;
}

void Iteration::ReleaseSlots() {
  if (owned > 0)
    for (Slot& slot : slots)
      if (slot.owned) {
        ReleaseOutput(&slot.view);
        slot.owned = false;
      }
  owned = 0;
  running = 0;
  children = 0;
}

void Iteration::FreeMemory() {
  for (const auto& [data, bytes] : chunks) {
    Permit(data, bytes);
    pool->FreeRaw(data, bytes);
  }
  chunks.clear();
}

}  // namespace tenon::exec::dataflow
