// SPDX-License-Identifier: Apache-2.0
// Sends and receives of a program. A receive blocks the part's (partition's) thread: parts run in one order of the
// whole graph, in which what is waited for comes earlier.
#include "core/exec/exchange/values.h"
#include "core/exec/program/instance.h"

namespace tenon::exec {

RendezvousKey ProgramInstance::KeyOf(const Operation& operation) const {
  RendezvousKey key{program_->plan().ChannelOf(operation.node).number(), 0, {}};
  for (LoopId loop : operation.around) key = key.Within(loops_[loop]->turn);
  return key;
}

tenon_status* ProgramInstance::RunSend(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const Plan& plan = context->instance->program_->plan();
  tenon_tensor_view value = *context->inputs[0];
  if (context->sent != nullptr) {
    value.buffer = context->sent->buffer;
    value.flags |= TENON_VIEW_READ_ONLY;  // from here on
  }
  Status status =
      SendValue(context->step->rendezvous, context->instance->KeyOf(*context->operation), value, plan.precision());
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* ProgramInstance::RunReceive(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  ReleaseOutput(output);
  Result<Message> message = context->step->rendezvous->Await(context->instance->KeyOf(*context->operation));
  if (!message.ok()) return std::move(message).status().Annotate(context->node->Describe()).release();
  if (message->dead())
    return Internal(StrCat(context->node->Describe(), " received a dead value, which was ruled out")).release();
  message = Unpacked(*std::move(message), context->node->output_types[0], context->step->rendezvous->pool());
  if (!message.ok()) return std::move(message).status().Annotate(context->node->Describe()).release();
  *output = message->Take();
  return CheckOutputs(context);
}

}  // namespace tenon::exec
