// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/fetched_values.h"

#include "core/exec/device/step.h"
#include "core/exec/device/transfer.h"
#include "core/graph/graph.h"

namespace tenon::exec::dataflow {

void FetchedValues::Begin(const Iteration& root) {
  for (size_t i = 0; i < fetched_.size(); ++i)
    if (plan_.fetches()[i].is_static) fetched_[i] = {root.slots[plan_.fetches()[i].slot].view, true, false};
}

void FetchedValues::Note(const NodeInfo& info, const Iteration& outputs) {
  for (int32_t i = 0; i < info.fetch_count; ++i) {
    const size_t at = plan_.fetch_order()[info.first_fetch + i];
    const Slot& slot = outputs.slots[plan_.fetches()[at].slot];
    Fetched& fetched = fetched_[at];
    fetched.view = slot.view;
    if (IsRef(slot.view.dtype)) {
      fetched.variable = *static_cast<Resource**>(DataOf(slot.view));
    } else if (slot.view.buffer != nullptr) {
      Retain(slot.view.buffer);
      fetched.owned = true;
    }
    fetched.present = true;
  }
}

Status FetchedValues::CheckTaken(const NodeInfo& info, int32_t slot) const {
  for (int32_t i = 0; i < info.fetch_count; ++i) {
    const size_t at = plan_.fetch_order()[info.first_fetch + i];
    if (plan_.fetches()[at].slot != slot) return NoValue(at);
  }
  return Status::Ok();
}

Status FetchedValues::Complete(Step* step, QueueWork* work) {
  for (size_t i = 0; i < fetched_.size(); ++i)
    TENON_RETURN_IF_ERROR(fetched_[i].present ? Read(i, step, work) : NoValue(i));
  return Status::Ok();
}

void FetchedValues::Release(bool keeps) {
  for (Fetched& fetched : fetched_) {
    if (fetched.owned && !keeps) ReleaseOutput(&fetched.view);
    fetched = {};
  }
}

Status FetchedValues::Read(size_t fetch, Step* step, QueueWork* work) {
  Fetched& fetched = fetched_[fetch];
  if (fetched.variable == nullptr) return Status::Ok();
  const graph::Edge& edge = plan_.plan().fetches()[fetch];
  Status status = Dereference(fetched.variable, BaseType(plan_.plan().graph().TypeOf(edge)), nullptr, work, QueueId(),
                              step->cancellation, &fetched.view);
  if (!status.ok()) return std::move(status).Annotate(plan_.plan().graph().node(edge.node).Describe());
  fetched.owned = true;
  return Status::Ok();
}

Status FetchedValues::NoValue(size_t fetch) const {
  const Plan& plan = plan_.plan();
  return InvalidArgument(StrCat("fetch '", plan.graph().EdgeName(plan.fetches()[fetch]),
                                "' has no value: it lies in a branch that was not taken"));
}

}  // namespace tenon::exec::dataflow
