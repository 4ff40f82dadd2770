// SPDX-License-Identifier: Apache-2.0
// Sends and receives in the dynamic executor. A receive leaves its receiver at the rendezvous and comes back through
// the inbox, so that nothing else of the step waits for it.
#include "core/exec/dataflow/dynamic_instance.h"
#include "core/exec/device/step.h"
#include "core/exec/exchange/values.h"
#include "core/graph/op_def.h"
#include "core/trace/trace.h"

namespace tenon::exec {

RendezvousKey DynamicInstance::KeyOf(const NodeInfo& info, const Iteration* iteration) const {
  RendezvousKey key{info.channel.number(), iteration->info->depth, {}};
  for (int32_t depth = key.depth; depth-- > 0; iteration = iteration->frame->parent)
    key.turns[depth] = iteration->number;
  return key;
}

void DynamicInstance::ProcessSend(const NodeInfo& info, Iteration* iteration, bool dead) {
  Rendezvous* rendezvous = step_->rendezvous;
  const auto send = [&]() -> Status {
    if (dead) {
      // Where nobody expects a dead value, nobody waits: the loop has ended there too.
      return plan_->plan().MayBeDead(info.channel) ? rendezvous->Send(KeyOf(info, iteration), Message()) : Status::Ok();
    }
    TENON_RETURN_IF_ERROR(ReadReferences(info, iteration));
    if (info.follows_queues) TENON_RETURN_IF_ERROR(work_.CatchUp());
    const uint64_t begin = step_->trace == nullptr ? 0 : trace::Trace::Now();
    TENON_RETURN_IF_ERROR(
        SendValue(rendezvous, KeyOf(info, iteration), Input(info, 0, iteration).view, plan_->plan().precision()));
    if (begin != 0)
      step_->trace->Add(info.node->name, info.node->op->name, begin, trace::Trace::Now(),
                        DescribeTransfer(*info.node, &Input(info, 0, iteration).view));
    return Status::Ok();
  };
  if (Status status = send(); !status.ok()) return Fail(std::move(status).Annotate(info.node->Describe()));
  Emit(info, iteration, dead);
}

void DynamicInstance::ProcessReceive(const NodeInfo& info, Iteration* iteration) {
  if (spare_receipts_.empty()) {
    spare_receipts_.reserve(receipts_.size() + 1);  // all may come back
    spare_receipts_.push_back(receipts_.emplace_back(std::make_unique<Receipt>()).get());
  }
  Receipt* receipt = spare_receipts_.back();
  spare_receipts_.pop_back();
  receipt->info = &info;
  receipt->iteration = iteration;
  receipt->begin_ns = step_->trace == nullptr ? 0 : trace::Trace::Now();
  ++outstanding_;
  Status refused = Guarded([&] {
    step_->rendezvous->Receive(KeyOf(info, iteration),
                               [this, receipt](Result<Message> message) { Arrived(receipt, std::move(message)); });
  });
  if (!refused.ok()) Arrived(receipt, std::move(refused));
}

void DynamicInstance::Arrived(Receipt* receipt, Result<Message> message) {
  receipt->message = std::move(message);
  std::unique_lock lock(inbox_mutex_);
  arrived_.Put(receipt);
  HasCome(&lock);
}

void DynamicInstance::Conclude(Receipt* receipt) {
  const NodeInfo& info = *receipt->info;
  Iteration* iteration = receipt->iteration;
  Result<Message> message = *std::move(receipt->message);
  receipt->message.reset();
  spare_receipts_.push_back(receipt);
  --outstanding_;
  if (receipt->begin_ns != 0 &&
      step_->trace != nullptr)  // the call that began it was traced, maybe, and this one is not
    step_->trace->Add(info.node->name, info.node->op->name, receipt->begin_ns, trace::Trace::Now(),
                      DescribeTransfer(*info.node, message.ok() && !message->dead() ? &message->view() : nullptr));
  if (message.ok()) message = Unpacked(*std::move(message), info.node->output_types[0], step_->rendezvous->pool());
  if (!message.ok()) {
    Fail(std::move(message).status().Annotate(info.node->Describe()));
  } else if (error_.ok()) {
    if (!message->dead()) {
      Slot& slot = iteration->slots[info.first_output];
      slot.view = message->Take();
      slot.shape_id = 0;
      slot.depth = iteration->info->depth;
    }
    Emit(info, iteration, message->dead());
  }
  Finished(info, iteration);
}

}  // namespace tenon::exec
