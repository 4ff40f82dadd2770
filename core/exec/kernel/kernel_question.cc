// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/kernel_question.h"

#include <algorithm>
#include <cmath>

#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"

namespace tenon::exec {

Status NobodyTakes(const graph::Node& node, const std::vector<KernelRefusal>& refusals) {
  std::string said;
  for (const KernelRefusal& refusal : refusals)
    said += StrCat(said.empty() ? "" : "; ", refusal.plugin, ": ", refusal.reason);
  return Status(Code::kUnimplemented, StrCat(node.Describe(), ": no kernel takes it: ", said));
}

tenon_tensor_view ShapeView(DType dtype, const graph::OutputFacts& facts, bool with_value) {
  if (with_value && facts.value.has_value()) return facts.value.view();
  if (with_value && facts.constant.has_value()) return facts.constant.view();
  tenon_tensor_view view = MakeView(dtype, facts.shape.c(), nullptr, 0, nullptr);
  if (facts.shape.fully_known())
    if (auto bytes = ByteSize(dtype, facts.shape); bytes.ok()) view.byte_size = static_cast<uint64_t>(*bytes);
  return view;
}

namespace {

uint32_t ThreadsOf(const Environment& env) { return env.threads == nullptr ? 1 : env.threads->at_once(); }

}  // namespace

KernelQuestion::KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device,
                               size_t input_count)
    : node_(node),
      env_(env),
      device_(device == nullptr ? nullptr : device->device->handle),
      input_count_(input_count) {}

void KernelQuestion::Point() {
  for (const tenon_tensor_view& view : views_) pointers_.push_back(&view);
}

KernelQuestion::KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device,
                               const std::vector<const graph::OutputFacts*>& inputs,
                               const std::vector<graph::OutputFacts>& outputs)
    : KernelQuestion(node, env, device, inputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) views_.push_back(ShapeView(node.input_types[i], *inputs[i], true));
  for (size_t i = 0; i < outputs.size(); ++i) views_.push_back(ShapeView(node.output_types[i], outputs[i], false));
  Point();
}

KernelQuestion::KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device,
                               const graph::ShapeInference& shapes)
    : KernelQuestion(node, env, device, node.inputs.size()) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    views_.push_back(ShapeView(node.input_types[i], shapes.facts(node.inputs[i]), true));
  for (size_t k = 0; k < node.output_types.size(); ++k)
    views_.push_back(ShapeView(node.output_types[k], shapes.facts({node.id, static_cast<int32_t>(k)}), false));
  Point();
}

KernelQuestion::KernelQuestion(const graph::Node& node, const Environment& env, const SessionDevice* device)
    : KernelQuestion(node, env, device, node.input_types.size()) {
  const graph::OutputFacts unknown;
  for (const DType type : node.input_types) views_.push_back(ShapeView(type, unknown, false));
  for (const DType type : node.output_types) views_.push_back(ShapeView(type, unknown, false));
  Point();
}

bool KernelQuestion::HasShapes() const {
  return std::all_of(views_.begin(), views_.end(), [](const tenon_tensor_view& view) {
    return view.dl.ndim >= 0 &&
           std::all_of(view.dl.shape, view.dl.shape + view.dl.ndim, [](int64_t dim) { return dim >= 0; });
  });
}

tenon_kernel_query KernelQuestion::Query() const {
  return {TENON_HEAD(tenon_kernel_query),
          nullptr,
          graph::NodeServices(),
          &node_,
          pointers_.data(),
          pointers_.data() + input_count_,
          static_cast<int32_t>(input_count_),
          static_cast<int32_t>(views_.size() - input_count_),
          env_.precision,
          ThreadsOf(env_),
          device_};
}

Status KernelQuestion::Ask(const KernelEntry& kernel) const {
  const auto supports = kernel.registration->supports;
  if (supports == nullptr) return Status::Ok();
  tenon_kernel_query query = Query();
  return kernel.instance->Call("supports", &node_.name, &node_.op->name, [&](tenon_plugin_self* self) {
    query.self = self;
    return supports(&query);
  });
}

double KernelQuestion::Seconds(const KernelEntry& kernel) const {
  const auto cost = kernel.registration->cost;
  if (cost == nullptr) return 0;
  tenon_kernel_query query = Query();
  double seconds = 0;
  Status status = kernel.instance->Call("cost", &node_.name, &node_.op->name, [&](tenon_plugin_self* self) {
    query.self = self;
    return cost(&query, &seconds);
  });
  if (status.ok() && !(seconds >= 0 && std::isfinite(seconds)))
    status =
        Internal(StrCat(DescribePlugin(kernel.plugin()), ": its cost() said that a run takes ", seconds, " seconds"));
  if (status.ok()) return seconds;
  Log(TENON_LOG_WARNING,
      std::move(status).Annotate(StrCat(node_.Describe(), ": what its op says is used for placing")).message());
  return 0;
}

double SecondsOf(const graph::Node& node, const Environment& env, const SessionDevice* device,
                 const KernelEntry& kernel, const graph::ShapeInference& shapes) {
  if (kernel.registration->cost == nullptr) return 0;
  const KernelQuestion question(node, env, device, shapes);
  return question.HasShapes() ? question.Seconds(kernel) : 0;
}

tenon_prepare_args KernelQuestion::PrepareArgs() const {
  return {TENON_HEAD(tenon_prepare_args),
          pointers_.data(),
          pointers_.data() + input_count_,
          static_cast<int32_t>(input_count_),
          static_cast<int32_t>(views_.size() - input_count_),
          env_.precision,
          ThreadsOf(env_),
          device_,
          nullptr,
          0,
          nullptr,
          nullptr,
          nullptr};
}

Status KeepThoseThatTakeIt(const graph::Node& node, const Environment& env, const SessionDevice* device,
                           std::vector<KernelEntry>* kernels, std::vector<KernelRefusal>* refused) {
  const auto may_refuse = [](const KernelEntry& kernel) { return kernel.registration->supports != nullptr; };
  if (std::none_of(kernels->begin(), kernels->end(), may_refuse)) return Status::Ok();
  const KernelQuestion question(node, env, device);
  Status failure;
  std::erase_if(*kernels, [&](const KernelEntry& kernel) {
    Status status = question.Ask(kernel);
    if (status.ok()) return false;
    if (status.code() == Code::kUnimplemented) {
      refused->push_back({kernel.plugin(), std::string(status.message())});
      return true;
    }
    if (failure.ok()) failure = std::move(status).Annotate(StrCat(node.Describe(), " [", kernel.plugin(), "]"));
    return false;
  });
  return failure;
}

}  // namespace tenon::exec
