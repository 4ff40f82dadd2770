// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/clipping.h"

#include <cmath>
#include <functional>
#include <string>

namespace tenon::train {
namespace {

// A number as a scalar of the type.
Output Number(Graph& graph, float value, DType dtype) {
  const Output number = graph.Const(value);
  return dtype == DType::kFloat ? number : graph.Op("Cast", {number}, {{"DstT", dtype}});
}

bool CheckLimit(Graph& graph, float limit) {
  if (limit > 0 && std::isfinite(limit)) return true;
  graph.Fail(Status(Code::kInvalidArgument,
                    "gradients cannot be clipped at " + std::to_string(limit) + "; a positive number is needed"));
  return false;
}

std::vector<Output> Each(const std::vector<Output>& gradients, const std::function<Output(const Output&)>& clipped) {
  std::vector<Output> all;
  for (const Output& gradient : gradients) all.push_back(gradient.valid() ? clipped(gradient) : Output());
  return all;
}

Output AllAxes(Graph& graph, const Output& value) {
  return graph.Op("Range", {graph.Const(0), graph.Op("Rank", {value}), graph.Const(1)});
}

}  // namespace

std::vector<Output> ClipByValue(Graph& graph, const std::vector<Output>& gradients, float low, float high) {
  if (!(low <= high)) {
    graph.Fail(Status(Code::kInvalidArgument,
                      "gradients cannot be clipped to [" + std::to_string(low) + ", " + std::to_string(high) + "]"));
    return gradients;
  }
  return Each(gradients, [&](const Output& g) {
    const Output below = graph.Op("Minimum", {g, Number(graph, high, g.dtype())});
    return graph.Op("Maximum", {below, Number(graph, low, g.dtype())});
  });
}

std::vector<Output> ClipByNorm(Graph& graph, const std::vector<Output>& gradients, float limit) {
  if (!CheckLimit(graph, limit)) return gradients;
  return Each(gradients, [&](const Output& g) {
    const Output most = Number(graph, limit, g.dtype());
    const Output norm = graph.Op("Sqrt", {graph.Op("Sum", {graph.Op("Square", {g}), AllAxes(graph, g)})});
    return graph.Op("RealDiv", {graph.Op("Mul", {g, most}), graph.Op("Maximum", {norm, most})});
  });
}

Output GlobalNorm(Graph& graph, const std::vector<Output>& gradients) {
  std::vector<Output> halves;
  for (const Output& g : gradients) {
    if (!g.valid()) continue;
    const Output half = graph.Op("L2Loss", {g});
    halves.push_back(halves.empty() || half.dtype() == halves[0].dtype()
                         ? half
                         : graph.Op("Cast", {half}, {{"DstT", halves[0].dtype()}}));
  }
  if (halves.empty()) {
    graph.Fail(Status(Code::kInvalidArgument, "there is no gradient whose norm could be taken"));
    return Output();
  }
  const Output sum = halves.size() == 1 ? halves[0] : graph.Op("AddN", halves);
  return graph.Op("Sqrt", {graph.Op("Mul", {sum, Number(graph, 2, sum.dtype())})}, {}, "global_norm");
}

GloballyClipped ClipByGlobalNorm(Graph& graph, const std::vector<Output>& gradients, float limit) {
  if (!CheckLimit(graph, limit)) return {gradients, Output()};
  const Output norm = GlobalNorm(graph, gradients);
  if (!norm.valid()) return {gradients, norm};
  const DType dtype = norm.dtype();
  const Output one = Number(graph, 1, dtype);
  const Output inverse =
      graph.Op("Minimum", {graph.Op("RealDiv", {one, norm}), graph.Op("RealDiv", {one, Number(graph, limit, dtype)})});
  const Output finite = graph.Op("Mul", {Number(graph, limit, dtype), inverse});
  // norm - norm is 0, and NaN where it is not finite.
  const Output scale = graph.Op("AddV2", {finite, graph.Op("Sub", {norm, norm})});
  return {
      Each(gradients,
           [&](const Output& g) {
             return graph.Op("Mul", {g, g.dtype() == dtype ? scale : graph.Op("Cast", {scale}, {{"DstT", g.dtype()}})});
           }),
      norm};
}

std::vector<Output> Clip(Graph& graph, const std::vector<Output>& gradients, const Clipping& clipping) {
  if (clipping.kind == Clipping::Kind::kNone || !CheckLimit(graph, clipping.limit)) return gradients;
  auto scope = graph.Scope("clip");
  if (clipping.kind == Clipping::Kind::kValue) return ClipByValue(graph, gradients, -clipping.limit, clipping.limit);
  if (clipping.kind == Clipping::Kind::kNorm) return ClipByNorm(graph, gradients, clipping.limit);
  return ClipByGlobalNorm(graph, gradients, clipping.limit).gradients;
}

}  // namespace tenon::train
