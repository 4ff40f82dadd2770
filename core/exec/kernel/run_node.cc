// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/run_node.h"

#include "core/base/flush_denormals.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/outputs.h"
#include "core/tensor/allowance.h"
#include "core/tensor/variant.h"

namespace tenon::exec {
namespace {

// The result is the input's memory under other dims.
Status ShareView(const PreparedNode& prepared, const graph::Node& node, const tenon_tensor_view& input,
                 tenon_frame* frame) {
  if (!prepared.outputs[0].shape.fully_known())
    return Internal(StrCat(node.Describe(), ": the shape of its result is not known"));
  tenon_tensor_view view = input;
  Buffer* copy = nullptr;
  if (view.buffer == nullptr) {
    if (tenon_status* bad = frame->services->retain_input(frame, 0, &view))
      return Status(bad).Annotate(node.Describe());
    copy = view.buffer;
  }
  Status status = ShowAs(node, prepared.outputs[0].shape, &view);
  if (status.ok()) status = Status(frame->services->set_output(frame, 0, &view));
  if (copy != nullptr) Release(copy);
  return status.ok() ? std::move(status) : std::move(status).Annotate(node.Describe());
}

}  // namespace

Status RunNode(Step* step, const Place& place, const PreparedNode& prepared, const graph::Node& node,
               std::span<const tenon_tensor_view* const> inputs, std::span<tenon_tensor_view* const> outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (prepared.kernel->dynamic_output(k) || (k == 0 && prepared.kernel->has(TENON_KERNEL_VIEW))) continue;
    TENON_ASSIGN_OR_RETURN(*outputs[k], AllocateOutput(*step, place, node, prepared, k));
  }
  tenon_frame_context context;
  context.step = step;
  context.node = &node;
  context.place = place;
  tenon_frame frame{TENON_HEAD(tenon_frame),
                    inputs.data(),
                    outputs.data(),
                    static_cast<int32_t>(inputs.size()),
                    static_cast<int32_t>(outputs.size()),
                    nullptr,
                    prepared.workspace_bytes,
                    nullptr,
                    nullptr,
                    nullptr,
                    {nullptr, 0},
                    FrameServices(),
                    &context};
  SetPlace(place, node, &frame);
  if (prepared.kernel->has(TENON_KERNEL_VIEW)) return ShareView(prepared, node, *inputs[0], &frame);
  Buffer* workspace = nullptr;
  if (prepared.workspace_bytes > 0) {
    BufferPool* pool = place.device == nullptr ? step->env->pool : place.device->pool;
    TENON_ASSIGN_OR_RETURN(workspace, pool->Allocate(prepared.workspace_bytes, {nullptr, 0, 0}));
    frame.workspace = workspace->data;
  }
  Status status = RunPrepared(prepared, &frame);
  if (workspace != nullptr) Release(workspace);
  TENON_RETURN_IF_ERROR(std::move(status));
  for (size_t k = 0; k < outputs.size(); ++k) TENON_RETURN_IF_ERROR(CheckOutput(context, prepared, k, *outputs[k]));
  return Status::Ok();
}

namespace {

// Copies that live as long as the plan does. They are made of what each view shows: that need not begin where its
// buffer does, as an element of a list may be a part of one. Nothing, when a result has no memory that could be known.
Result<std::vector<Tensor>> CopyKnown(const std::vector<tenon_tensor_view>& results) {
  std::vector<Tensor> known;
  for (const tenon_tensor_view& view : results) {
    if (view.buffer == nullptr) return std::vector<Tensor>{};
    TENON_ASSIGN_OR_RETURN(known.emplace_back(), Tensor::CopyOf(KeptPool(), view));
    if (view.dtype == TENON_DT_VARIANT) variant::Seal(view);
  }
  return known;
}

}  // namespace

Result<std::vector<Tensor>> EvaluateNode(const graph::Node& node, const std::vector<Tensor>& inputs,
                                         const Environment& env) {
  const FlushDenormals flush;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<NodeRunner> runner, NodeRunner::Create(node, env, nullptr, 0));
  if (runner->has(TENON_KERNEL_ASYNC | TENON_KERNEL_STATEFUL | TENON_KERNEL_BLOCKING)) return std::vector<Tensor>{};
  TENON_RETURN_IF_ERROR(CheckAllowance());
  Cancellation never;
  Step step;
  step.env = &env;
  const Allowance* const allowance = Allowance::Current();
  step.cancellation = allowance == nullptr || allowance->cancellation() == nullptr ? &never : allowance->cancellation();
  std::vector<tenon_tensor_view> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  std::vector<const tenon_tensor_view*> in;
  for (const tenon_tensor_view& view : views) in.push_back(&view);
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> prepared, runner->Resolve(in, nullptr));
  std::vector<tenon_tensor_view> results(node.output_types.size());
  std::vector<tenon_tensor_view*> out;
  for (tenon_tensor_view& view : results) out.push_back(&view);
  Status status = RunNode(&step, {}, *prepared, node, in, out);
  Result<std::vector<Tensor>> known = status.ok() ? CopyKnown(results) : Result<std::vector<Tensor>>(std::move(status));
  for (tenon_tensor_view& view : results) ReleaseOutput(&view);
  return known;
}

}  // namespace tenon::exec
