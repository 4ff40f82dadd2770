// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_budgets.h"

#include "core/exec/device/device.h"
#include "core/session/device_list.h"

namespace tenon::cluster {

WorkerBudgets::WorkerBudgets(session::Runtime* runtime, uint64_t limit, std::string_view task) {
  const auto choice = runtime->ChooseDevices("");
  if (!choice.ok()) return;  // who opens a session is told
  for (const exec::Device* device : choice->devices)
    if (memories_.empty() || device->queues != nullptr)
      memories_.push_back({device->name, std::make_shared<MemoryBudget>(limit, StrCat("task ", task))});
}

std::shared_ptr<MemoryBudget> WorkerBudgets::Of(const exec::Device& device) const {
  for (const WorkerState::Memory& memory : memories_)
    if (memory.device == device.name) return memory.budget;
  return nullptr;
}

uint64_t WorkerBudgets::in_use() const {
  uint64_t bytes = 0;
  for (const WorkerState::Memory& memory : memories_) bytes += memory.budget->in_use();
  return bytes;
}

}  // namespace tenon::cluster
