// SPDX-License-Identifier: Apache-2.0
// The cells of recurrent.h.
#include <cmath>
#include <utility>

#include "tenon/host/function.h"
#include "tenon/train/recurrent.h"

namespace tenon::train {
namespace {

using Outputs = std::vector<Output>;

Output Sigmoid(Graph& graph, const Output& x) { return graph.Op("Sigmoid", {x}); }
Output Tanh(Graph& graph, const Output& x) { return graph.Op("Tanh", {x}); }
Output Add(Graph& graph, const Output& a, const Output& b) { return graph.Op("AddV2", {a, b}); }
Output Mul(Graph& graph, const Output& a, const Output& b) { return graph.Op("Mul", {a, b}); }
Output MatMul(Graph& graph, const Output& a, const Output& b) { return graph.Op("MatMul", {a, b}); }
Outputs Split(Graph& graph, const Output& x, int64_t parts, int32_t axis = 1) {
  return graph.AddNode("Split", {graph.Const(axis), x}, {{"num_split", parts}}).outputs();
}

// A cell of Keras's three weights without its step; a failed one has none.
RnnCell WithWeights(Model& model, std::string_view name, int64_t inputs, int64_t units, int64_t parts,
                    const Shape& bias, size_t states, const RnnCellOptions& options) {
  const std::string prefix(name);
  if (inputs < 1 || units < 1)
    model.graph().Fail(Status(Code::kInvalidArgument, "recurrent cell '" + prefix + "' of " + std::to_string(inputs) +
                                                          " inputs and " + std::to_string(units) +
                                                          " units; each must be 1 at least"));
  if (!model.graph().status().ok())
    return {.name = prefix, .inputs = inputs, .state_sizes = {}, .weights = {}, .step = {}};
  const auto initializer = [&](int64_t from) {
    return options.initializer ? *options.initializer
                               : Initializer::TruncatedNormal(std::sqrt(2.0f / static_cast<float>(from + units)));
  };
  const Outputs weights{model.Weight(prefix + "/kernel", {inputs, parts * units}, initializer(inputs)).value,
                        model.Weight(prefix + "/recurrent_kernel", {units, parts * units}, initializer(units)).value,
                        model.Weight(prefix + "/bias", bias, Initializer::Constant(0)).value};
  return {.name = prefix,
          .inputs = inputs,
          .state_sizes = std::vector<int64_t>(states, units),
          .weights = weights,
          .step = {}};
}

// x K + h R + b
Output GateSum(Graph& graph, const Output& x, const Output& h, const Outputs& weights) {
  return graph.Op("BiasAdd", {Add(graph, MatMul(graph, x, weights[0]), MatMul(graph, h, weights[1])), weights[2]});
}

RnnStep BasicStep(Graph& graph, const Output& x, const Outputs& state, const Outputs& weights) {
  const Output next = Tanh(graph, GateSum(graph, x, state[0], weights));
  return {next, {next}};
}

RnnStep LstmStep(Graph& graph, const Output& x, const Outputs& state, const Outputs& weights, float forget_bias) {
  const Outputs gates = Split(graph, GateSum(graph, x, state[0], weights), 4);
  if (gates.size() != 4) return {};
  const Output forget = forget_bias == 0 ? gates[1] : Add(graph, gates[1], graph.Const(forget_bias));
  const Output kept = Mul(graph, Sigmoid(graph, forget), state[1]);
  const Output cell = Add(graph, kept, Mul(graph, Sigmoid(graph, gates[0]), Tanh(graph, gates[2])));
  const Output next = Mul(graph, Sigmoid(graph, gates[3]), Tanh(graph, cell));
  return {next, {next, cell}};
}

// z * h + (1 - z) * candidate, as candidate + z * (h - candidate).
RnnStep GruEnd(Graph& graph, const Output& z, const Output& h, const Output& candidate) {
  const Output next = Add(graph, candidate, Mul(graph, z, graph.Op("Sub", {h, candidate})));
  return {next, {next}};
}

RnnStep GruStep(Graph& graph, const Output& x, const Outputs& state, const Outputs& weights) {
  const Outputs biases = graph.AddNode("Unpack", {weights[2]}, {{"num", 2}, {"axis", 0}}).outputs();
  if (biases.size() != 2) return {};
  const Outputs of_x = Split(graph, graph.Op("BiasAdd", {MatMul(graph, x, weights[0]), biases[0]}), 3);
  const Outputs of_h = Split(graph, graph.Op("BiasAdd", {MatMul(graph, state[0], weights[1]), biases[1]}), 3);
  if (of_x.size() != 3 || of_h.size() != 3) return {};
  const Output z = Sigmoid(graph, Add(graph, of_x[0], of_h[0])), r = Sigmoid(graph, Add(graph, of_x[1], of_h[1]));
  return GruEnd(graph, z, state[0], Tanh(graph, Add(graph, of_x[2], Mul(graph, r, of_h[2]))));
}

RnnStep GruResetBeforeStep(Graph& graph, const Output& x, const Outputs& state, const Outputs& weights) {
  const Outputs of_x = Split(graph, graph.Op("BiasAdd", {MatMul(graph, x, weights[0]), weights[2]}), 3),
                recurrent = Split(graph, weights[1], 3);
  if (of_x.size() != 3 || recurrent.size() != 3) return {};
  const Output z = Sigmoid(graph, Add(graph, of_x[0], MatMul(graph, state[0], recurrent[0])));
  const Output r = Sigmoid(graph, Add(graph, of_x[1], MatMul(graph, state[0], recurrent[1])));
  return GruEnd(graph, z, state[0],
                Tanh(graph, Add(graph, of_x[2], MatMul(graph, Mul(graph, r, state[0]), recurrent[2]))));
}

// Why the function is no step of such a cell.
Status CheckFunction(const Graph& graph, const host::Function& function, const RnnCell& cell) {
  if (cell.inputs < 1 || cell.state_sizes.empty())
    return Status(Code::kInvalidArgument, std::to_string(cell.inputs) + " inputs and " +
                                              std::to_string(cell.state_sizes.size()) +
                                              " states; each must be 1 at least");
  for (const int64_t size : cell.state_sizes)
    if (size < 1)
      return Status(Code::kInvalidArgument, "a state of the size " + std::to_string(size) + "; each is 1 at least");
  TENON_TRY_ASSIGN(const tenon_function_info info, host::FindFunction(graph, function.name));
  const size_t results = 1 + cell.state_sizes.size(), arguments = results + cell.weights.size();
  if (info.input_count == arguments && info.output_count == results) return Status();
  return Status(Code::kInvalidArgument,
                "function '" + function.name + "' takes " + std::to_string(info.input_count) + " values and gives " +
                    std::to_string(info.output_count) + "; a step takes x, the states and the weights, " +
                    std::to_string(arguments) + ", and gives the output and the states, " + std::to_string(results));
}

}  // namespace

RnnCell FunctionCell(Graph& graph, std::string_view name, const host::Function& function, int64_t inputs,
                     std::vector<int64_t> state_sizes, Outputs weights) {
  RnnCell cell{.name = std::string(name),
               .inputs = inputs,
               .state_sizes = std::move(state_sizes),
               .weights = std::move(weights),
               .step = {}};
  graph.Fail(CheckFunction(graph, function, cell).Annotate("recurrent cell '" + cell.name + "'"));
  if (!graph.status().ok()) return cell;
  cell.step = [function](Graph& body, const Output& x, const Outputs& state, const Outputs& own) -> RnnStep {
    Outputs given{x};
    given.insert(given.end(), state.begin(), state.end());
    given.insert(given.end(), own.begin(), own.end());
    const Outputs made = body.Call(function, given).outputs();
    return made.empty() ? RnnStep{} : RnnStep{made[0], {made.begin() + 1, made.end()}};
  };
  return cell;
}

RnnCell BasicRnnCell(Model& model, std::string_view name, int64_t inputs, int64_t units,
                     const RnnCellOptions& options) {
  RnnCell cell = WithWeights(model, name, inputs, units, 1, {units}, 1, options);
  cell.step = BasicStep;
  return cell;
}

RnnCell LstmCell(Model& model, std::string_view name, int64_t inputs, int64_t units, const RnnCellOptions& options) {
  RnnCell cell = WithWeights(model, name, inputs, units, 4, {4 * units}, 2, options);
  cell.step = [forget_bias = options.forget_bias](Graph& graph, const Output& x, const Outputs& state,
                                                  const Outputs& weights) {
    return LstmStep(graph, x, state, weights, forget_bias);
  };
  return cell;
}

RnnCell GruCell(Model& model, std::string_view name, int64_t inputs, int64_t units, const RnnCellOptions& options) {
  const Shape bias = options.reset_after ? Shape{2, 3 * units} : Shape{3 * units};
  RnnCell cell = WithWeights(model, name, inputs, units, 3, bias, 1, options);
  cell.step = options.reset_after ? GruStep : GruResetBeforeStep;
  return cell;
}

}  // namespace tenon::train
