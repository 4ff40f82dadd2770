// SPDX-License-Identifier: Apache-2.0
#include "core/exec/parts/channel_shapes.h"

#include <algorithm>

#include "core/exec/kernel/run_node.h"
#include "core/exec/program/program.h"

namespace tenon::exec {

using graph::OutputFacts;

namespace {

constexpr size_t kMaxShapes = 16;

}  // namespace

std::shared_ptr<const ChannelShapes::Known> ChannelShapes::For(const tenon_tensor_view* const* feeds,
                                                               const std::shared_ptr<const Known>& last) {
  if (last != nullptr && AreShapes(feeds, last->feeds)) return last;
  std::lock_guard lock(mutex_);
  for (const auto& known : known_)
    if (AreShapes(feeds, known->feeds)) return known;
  std::shared_ptr<const Known> made = Infer(feeds);
  if (known_.size() < kMaxShapes) known_.push_back(made);
  else known_[next_evicted_++ % kMaxShapes] = made;
  return made;
}

std::shared_ptr<const ChannelShapes::Known> ChannelShapes::Infer(const tenon_tensor_view* const* feeds) const {
  auto known = std::make_shared<Known>();
  graph::ShapeInference inference(question_.graph);
  for (size_t i = 0; i < question_.feeds.size(); ++i) {
    OutputFacts facts;
    facts.shape = ShapeOf(*feeds[i]);
    known->feeds.push_back(facts.shape);
    inference.Fix(question_.feeds[i], std::move(facts));
  }
  if (question_.fold) {
    inference.set_evaluator([this](const graph::Node& node, const std::vector<Tensor>& inputs,
                                   const std::vector<OutputFacts>&) {
      const bool floating =
          std::any_of(node.output_types.begin(), node.output_types.end(), [](DType type) { return IsFloating(type); });
      if (floating && question_.own_arithmetic(node)) return Result<std::vector<Tensor>>(std::vector<Tensor>{});
      return EvaluateNode(node, inputs, *question_.env);
    });
  }
  // Shapes that do not fit may stand in a branch that is not taken.
  const bool ok = inference.Run(question_.order).ok();
  for (const graph::Edge& value : question_.values) {
    if (value.index < 0) known->channels.push_back(Shape{0});
    else known->channels.push_back(ok ? inference.facts(value).shape : Shape::Unknown());
  }
  for (const Shape& shape : known->channels) {
    tenon_tensor_view view{};
    view.dl.ndim = shape.rank();
    view.dl.shape = const_cast<int64_t*>(shape.dims().data());
    known->views.push_back(view);
  }
  return known;
}

}  // namespace tenon::exec
