// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/deliveries.h"

namespace tenon::exec::dataflow {

void Deliveries::DeliverToMerge(const Target& target, Iteration* iteration, bool dead, bool from_enter) {
  NodeState& state = iteration->states[target.node];
  const NodeInfo& info = iteration->info->nodes[target.node];
  if (target.input == Target::kMergeControl) {
    --state.pending;
  } else if (dead) {
    // A dead Enter means that the loop never turns: its other input will not come.
    state.dead = from_enter ? info.input_count : state.dead + 1;
  } else if (state.live < 0) {
    state.live = target.input;
  } else {
    iteration->Use(&iteration->Input(info, target.input));  // the first live input won
  }
  if (state.pending != 0 || state.started != 0 || (state.live < 0 && state.dead < info.input_count)) return;
  state.started = 1;
  ready_.Push(target.node, iteration, state.live < 0);
}

void Deliveries::Publish(const NodeInfo& info, Iteration* outputs) {
  if (info.fetch_count != 0) fetched_.Note(info, *outputs);
  for (int32_t k = 0; k < info.output_count; ++k) {
    Slot& slot = outputs->slots[info.first_output + k];
    if (slot.owned && slot.uses == 0) outputs->Use(&slot);
  }
}

void Deliveries::Emit(const NodeInfo& info, Iteration* iteration, bool dead) {
  if (!dead) {
    for (int32_t k = 0; k < info.output_count; ++k) iteration->Own(info.first_output + k);
    Publish(info, iteration);
  }
  WakeAll(info, iteration, dead);
}

}  // namespace tenon::exec::dataflow
