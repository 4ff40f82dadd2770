// SPDX-License-Identifier: Apache-2.0
#include "weights.h"

#include <cstdint>

namespace tenon::passes {
namespace {

using sdk::Output;
using sdk::PassContext;

Output Axis(PassContext& p, int32_t axis) { return p.Constant(TENON_DT_INT32, {nullptr, 0, 0}, &axis, sizeof(axis)); }

std::vector<Output> Split(PassContext& p, Output whole, int32_t axis, int parts) {
  const int64_t id = p.Node("Split", {Axis(p, axis), whole}, {{"num_split", parts}});
  std::vector<Output> outputs;
  for (int i = 0; i < parts; ++i) outputs.push_back({id, i, 0});
  return outputs;
}

Output Join(PassContext& p, std::vector<Output> parts, int32_t axis) {
  const auto count = static_cast<int64_t>(parts.size());
  parts.push_back(Axis(p, axis));
  return p.Op("ConcatV2", parts, {{"N", count}});
}

Output Bias(LoopGraph& loop, const RecurrentCell& cell, Output edge, int64_t gates) {
  if (edge.node >= 0) return loop.Outside(edge);
  const std::vector<float> zeros(static_cast<size_t>(gates * cell.cells));
  const int64_t dims[] = {static_cast<int64_t>(zeros.size())};
  return loop.pass().Constant(TENON_DT_FLOAT, {dims, 1, 0}, zeros.data(), zeros.size() * sizeof(float));
}

// Parts along an axis: an LSTM's i, g, f, o; a GRU's r, z, h~.
Output InOrder(LoopGraph& loop, const RecurrentCell& cell, Output whole, Output candidate, int32_t axis) {
  PassContext& p = loop.pass();
  if (cell.kind == RecurrentCell::Kind::kGru) {
    const std::vector<Output> gates = Split(p, whole, axis, 2);
    return Join(p, {gates[1], gates[0], candidate}, axis);
  }
  std::vector<Output> gates = Split(p, whole, axis, 4);
  if (axis == 0 && cell.forget != 0)
    gates[2] = p.Add(gates[2], p.Constant(TENON_DT_FLOAT, {nullptr, 0, 0}, &cell.forget, sizeof(cell.forget)));
  return Join(p, {gates[0], gates[2], gates[1], gates[3]}, axis);
}

std::vector<Output> JoinedWeights(LoopGraph& loop, const RecurrentCell& cell) {
  PassContext& p = loop.pass();
  const bool gru = cell.kind == RecurrentCell::Kind::kGru;
  const Output weights =
      InOrder(loop, cell, loop.Outside(cell.kernel), gru ? loop.Outside(cell.candidate) : kNothing, 1);
  const Output bias = InOrder(loop, cell, Bias(loop, cell, cell.bias, gru ? 2 : 4),
                              gru ? Bias(loop, cell, cell.candidate_bias, 1) : kNothing, 0);
  const int64_t inputs = loop.ShapeOf(cell.kernel)[0] - cell.cells;
  const int64_t rows = p.Node("SplitV", {weights, p.Vector({inputs, cell.cells}), Axis(p, 0)}, {{"num_split", 2}});
  return {{rows, 0, 0}, {rows, 1, 0}, bias};
}

}  // namespace

std::vector<Output> LayerWeights(LoopGraph& loop, const RecurrentCell& cell) {
  std::vector<Output> weights = cell.joined
                                    ? JoinedWeights(loop, cell)
                                    : std::vector<Output>{loop.Outside(cell.kernel), loop.Outside(cell.recurrent),
                                                          Bias(loop, cell, cell.bias, cell.gates())};
  if (cell.kind == RecurrentCell::Kind::kGru) weights.push_back(Bias(loop, cell, cell.recurrent_bias, cell.gates()));
  return weights;
}

}  // namespace tenon::passes
