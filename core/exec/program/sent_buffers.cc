// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/sent_buffers.h"

#include <algorithm>

#include "core/exec/device/environment.h"

namespace tenon::exec::program {
namespace {

constexpr uint64_t kLeastSent = 16 << 10;

}  // namespace

SentBuffers::SentBuffers(Machine* machine, const FetchPlaces& fetches) : machine_(*machine) {
  const ProgramCode& code = machine_.code;
  if (!code.queues.empty()) return;
  for (const auto& context : machine_.contexts) {
    const Operation& operation = *context->operation;
    if (operation.kind != Operation::Kind::kSend || !MayBeSent(operation)) continue;
    const SlotId root = code.RootOf(operation.inputs[0]);
    if (IsWrittenAfter(root, operation.position) || fetches.Has(root)) continue;
    const auto same =
        std::find_if(sent_.begin(), sent_.end(), [root](const SentBuffer& other) { return other.root == root; });
    context->sent = same == sent_.end() ? &sent_.emplace_back(SentBuffer{root, {}, nullptr}) : &*same;
  }
  for (const SlotId slot : code.slots.ids())
    for (SentBuffer& sent : sent_)
      if (code.RootOf(slot) == sent.root) sent.slots.push_back(slot);
}

SentBuffers::~SentBuffers() {
  for (const SentBuffer& sent : sent_)
    if (sent.buffer != nullptr) Release(sent.buffer);
}

bool SentBuffers::MayBeSent(const Operation& operation) const {
  const ProgramCode& code = machine_.code;
  const Slot& home = code.root(operation.inputs[0]);
  return operation.around.empty() && home.home == Home::kArena && home.memory == 0 && home.bytes >= kLeastSent &&
         home.bytes == code.at(operation.inputs[0]).bytes && IsPlain(home.dtype);
}

bool SentBuffers::IsWrittenAfter(SlotId root, int32_t position) const {
  const ProgramCode& code = machine_.code;
  const auto is_root = [&](SlotId slot) { return slot && code.RootOf(slot) == root; };
  bool written = code.IsCarried(root);
  code.ForEachBlock([&](const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      written = written || (operation.position > position &&
                            std::any_of(operation.outputs.begin(), operation.outputs.end(), is_root));
  });
  return written;
}

Status SentBuffers::Place() {
  for (SentBuffer& sent : sent_) {
    if (sent.buffer != nullptr) continue;
    const Slot& root = machine_.code.at(sent.root);
    TENON_ASSIGN_OR_RETURN(sent.buffer, machine_.program.plan().env().pool->Allocate(root.bytes, root.shape.c()));
    for (const SlotId slot : sent.slots) machine_.views[slot].dl.data = sent.buffer->data;
  }
  return Status::Ok();
}

void SentBuffers::LetGo() {
  for (SentBuffer& sent : sent_)
    if (sent.buffer != nullptr && !IsUnique(sent.buffer)) Release(std::exchange(sent.buffer, nullptr));
}

}  // namespace tenon::exec::program
