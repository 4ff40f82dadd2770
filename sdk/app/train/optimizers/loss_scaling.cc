// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/loss_scaling.h"

#include <cmath>
#include <string>

#include "sdk/app/train/optimizers/gate.h"

namespace tenon::train {

LossScaler::LossScaler(Model& model, const LossScaling& options) : graph_(model.graph()), options_(options) {
  if (options.kind == LossScaling::Kind::kNone) return;
  int exponent = 0;
  if (!(options.scale > 0) || !std::isfinite(options.scale) || std::frexp(options.scale, &exponent) != 0.5f)
    graph_.Fail(Status(Code::kInvalidArgument, "a loss scale of " + std::to_string(options.scale) +
                                                   "; it may be a power of two, such as 32768"));
  if (options.growth <= 0)
    graph_.Fail(Status(Code::kInvalidArgument,
                       "a loss scale that grows after " + std::to_string(options.growth) + " steps; one is the least"));
  if (!is_dynamic()) return;
  scale_ = &model.State("loss_scale", Shape(), options.scale);
  good_steps_ = &model.State("loss_scale/good_steps", Shape(), 0);
}

Output LossScaler::Scaled(Output loss) {
  if (options_.kind == LossScaling::Kind::kNone) return loss;
  if (is_dynamic()) return graph_.Op("Mul", {loss, graph_.Op("Cast", {scale_->value}, {{"DstT", loss.dtype()}})});
  return graph_.Op("Mul", {loss, graph_.Op("Cast", {graph_.Const(options_.scale)}, {{"DstT", loss.dtype()}})});
}

Output LossScaler::Unscaled(Output gradient, float share) {
  if (!is_dynamic()) {
    if (options_.kind == LossScaling::Kind::kFixed) share /= options_.scale;
    return share == 1 ? gradient : graph_.Op("Mul", {gradient, graph_.Const(share)});
  }
  gradients_.push_back(graph_.Op("Mul", {gradient, graph_.Op("RealDiv", {graph_.Const(share), scale_->value})}));
  return gradients_.back();
}

Output LossScaler::Finite() {
  if (finite_.valid()) return finite_;
  std::vector<Output> each;
  for (const Output& gradient : gradients_) {
    const Output axes = graph_.Op("Range", {graph_.Const(0), graph_.Op("Rank", {gradient}), graph_.Const(1)});
    each.push_back(graph_.Op("All", {graph_.Op("IsFinite", {gradient}), axes}));
  }
  finite_ = each.size() == 1 ? each[0] : graph_.Op("All", {graph_.Op("Pack", each), graph_.Const({0})});
  return finite_;
}

Output LossScaler::Gate(Output gradient) {
  return is_dynamic() ? train::Gate(graph_, Finite()).While(gradient) : gradient;
}

Operation LossScaler::Finish(const std::vector<Operation>& applied) {
  if (!is_dynamic()) return Group(graph_, applied, "update");
  const Operation either = train::Gate(graph_, Finite()).Either(applied);
  const Output one = graph_.Const(1.0f), zero = graph_.Const(0.0f);
  const Output good = graph_.Op("AddV2", {good_steps_->value, one});
  const Output grows = graph_.Op("GreaterEqual", {good, graph_.Const(static_cast<float>(options_.growth))});
  const Output doubled =
      graph_.Op("SelectV2", {grows, graph_.Op("Mul", {scale_->value, graph_.Const(2.0f)}), scale_->value});
  const Output halved = graph_.Op("Maximum", {graph_.Op("Mul", {scale_->value, graph_.Const(0.5f)}), one});
  // A scale that itself overflows would never come back.
  const Output next =
      graph_.Op("Minimum", {graph_.Op("SelectV2", {Finite(), doubled, halved}), graph_.Const(std::ldexp(1.0f, 126))});
  const Output count = graph_.Op("SelectV2", {Finite(), graph_.Op("SelectV2", {grows, zero, good}), zero});
  const auto assign = [&](const Variable& variable, Output value) {
    return graph_.AddNode("AssignVariableOp", {variable.handle, value}, {{"dtype", variable.dtype}});
  };
  return Group(graph_, {either, assign(*scale_, next), assign(*good_steps_, count)}, "update");
}

}  // namespace tenon::train
