// SPDX-License-Identifier: Apache-2.0
// DynamicRnn: a cell as a function of states and elements, in host::MapWithState.
#include "tenon/train/recurrent.h"

#include "sdk/app/train/function_name.h"

namespace tenon::train {
namespace {

using Outputs = std::vector<Output>;

class RnnLoop {
 public:
  RnnLoop(Graph& graph, const RnnCell& cell, const RnnOptions& options)
      : graph_(graph), cell_(cell), options_(options) {}

  Rnn Run(const Output& inputs) {
    const auto scope = graph_.Scope(options_.name);
    if (!Check(inputs)) return {};
    const Output x = options_.time_major ? inputs : Swapped(inputs);
    const Output dims = graph_.Op("Shape", {x});
    const Output time = Dim(dims, 0), batch = Dim(dims, 1);
    Outputs xs{x};
    host::ElementOptions loop{.name = "loop",
                              .parallel_iterations = options_.parallel_iterations,
                              .reverse = options_.reverse,
                              .invariants = cell_.weights};
    if (masked()) {
      const Output lengths = CheckedLengths(time, batch);
      xs.push_back(Mask(lengths, time));
      loop.turns = Turns(lengths, time);
    }
    const Outputs first = options_.initial_state.empty() ? ZeroState(graph_, cell_, batch) : options_.initial_state;
    const host::MappedWithState found = host::MapWithState(graph_, DefineStep(), first, xs, loop);
    if (!graph_.status().ok()) return {};
    return {options_.time_major ? found.results[0] : Swapped(found.results[0]), found.states};
  }

 private:
  bool masked() const { return options_.sequence_length.valid(); }
  bool Refuse(const std::string& why) {
    graph_.Fail(
        Status(Code::kInvalidArgument, "recurrent network '" + options_.name + "' of '" + cell_.name + "': " + why));
    return false;
  }

  bool Check(const Output& inputs) {
    if (!graph_.status().ok()) return false;
    if (!cell_.step || cell_.state_sizes.empty()) return Refuse("the cell has no step or no state");
    const Shape shape = inputs.shape();
    if (shape.has_rank() && shape.rank() != 3)
      return Refuse("inputs are " + shape.ToString() + "; sequences are [" +
                    (options_.time_major ? "time, batch" : "batch, time") + ", features]");
    if (shape.has_rank() && shape[2] >= 0 && cell_.inputs > 0 && shape[2] != cell_.inputs)
      return Refuse("inputs have " + std::to_string(shape[2]) + " features and the cell takes " +
                    std::to_string(cell_.inputs));
    const size_t states = options_.initial_state.size();
    if (states != 0 && states != cell_.state_sizes.size())
      return Refuse(std::to_string(states) + " initial states for " + std::to_string(cell_.state_sizes.size()));
    for (size_t i = 0; i < states; ++i) {
      const Shape state = options_.initial_state[i].shape();
      if (state.has_rank() && (state.rank() != 2 || (state[1] >= 0 && state[1] != cell_.state_sizes[i])))
        return Refuse("initial state " + std::to_string(i) + " is " + state.ToString() + "; the cell's is [batch, " +
                      std::to_string(cell_.state_sizes[i]) + "]");
    }
    const DType lengths = options_.sequence_length.dtype();
    if (masked() && lengths != DType::kInt32 && lengths != DType::kInt64)
      return Refuse("sequence lengths are " + host::DTypeName(lengths) + "; they are int32 or int64");
    const Shape of_lengths = options_.sequence_length.shape();
    if (masked() && of_lengths.has_rank() && of_lengths.rank() != 1)
      return Refuse("sequence lengths have the shape " + of_lengths.ToString() +
                    "; they are a vector, one for each of the batch");
    return true;
  }

  // [batch, time, ...] to [time, batch, ...] and back.
  Output Swapped(const Output& x) { return graph_.Op("Transpose", {x, graph_.Const({1, 0, 2})}); }
  Output Dim(const Output& dims, int32_t i) {
    return graph_.Op("StridedSlice", {dims, graph_.Const({i}), graph_.Const({i + 1}), graph_.Const({1})},
                     {{"shrink_axis_mask", 1}});
  }

  Output CheckedLengths(const Output& time, const Output& batch) {
    const Output given = options_.sequence_length, zero = graph_.Const({0});
    const Output wide = graph_.Op("Cast", {given}, {{"DstT", DType::kInt64}}),
                 most = graph_.Op("Cast", {time}, {{"DstT", DType::kInt64}});
    const Output shape = graph_.Op("Shape", {given}), wanted = graph_.Op("ExpandDims", {batch, graph_.Const(0)});
    const auto all = [&](const Output& each) { return graph_.Op("All", {each, zero}); };
    const Operation one_each = graph_.AddNode(
        "Assert",
        {all(graph_.Op("Equal", {shape, wanted})),
         graph_.StringConst("recurrent network: sequence lengths must be one for each of the batch"), shape, batch});
    const auto after = graph_.ControlDependencies({one_each});
    const Output fits = graph_.Op("LogicalAnd", {graph_.Op("GreaterEqual", {wide, graph_.Const(int64_t{0})}),
                                                 graph_.Op("LessEqual", {wide, most})});
    const Operation in_range = graph_.AddNode(
        "Assert",
        {all(fits), graph_.StringConst("recurrent network: sequence lengths must be 0 to the number of steps"), given,
         time},
        {{"summarize", 16}});
    const auto checked = graph_.ControlDependencies({in_range});
    return graph_.Op("Cast", {wide}, {{"DstT", DType::kInt32}});
  }
  // [time, batch, 1]: whether the sequence has this step.
  Output Mask(const Output& lengths, const Output& time) {
    const Output steps = graph_.Op("Range", {graph_.Const(0), time, graph_.Const(1)});
    const Output column = graph_.Op("Reshape", {steps, graph_.Const({-1, 1, 1})}),
                 row = graph_.Op("Reshape", {lengths, graph_.Const({1, -1, 1})});
    return graph_.Op("Less", {column, row});
  }
  // One at least, where there is one: its outputs say how many zeros the others are.
  Output Turns(const Output& lengths, const Output& time) {
    const Output longest = graph_.Op("Max", {lengths, graph_.Const({0})});
    return graph_.Op("Minimum", {time, graph_.Op("Maximum", {longest, graph_.Const(1)})});
  }

  // The cell with its states kept, and its output zero, where a sequence has no such step.
  host::FunctionResults Step(Graph& body, const Outputs& v) {
    const size_t states = cell_.state_sizes.size();
    const auto at = [&](size_t i) { return v.begin() + static_cast<ptrdiff_t>(i); };
    const Outputs state(v.begin(), at(states));
    const RnnStep step = cell_.step(body, v[states], state, Outputs(at(states + (masked() ? 2 : 1)), v.end()));
    if (body.status().ok() && step.state.size() != states)
      body.Fail(Status(Code::kInvalidArgument, "cell '" + cell_.name + "' gives " + std::to_string(step.state.size()) +
                                                   " states and says " + std::to_string(states)));
    if (!body.status().ok()) return Outputs{};
    Outputs results = step.state;
    results.push_back(step.output);
    if (!masked()) return results;
    for (size_t i = 0; i < states; ++i) results[i] = body.Op("SelectV2", {v[states + 1], step.state[i], state[i]});
    results[states] = body.Op("SelectV2", {v[states + 1], step.output, body.Op("ZerosLike", {step.output})});
    return results;
  }
  host::Function DefineStep() {
    std::vector<host::Argument> arguments;
    for (const int64_t size : cell_.state_sizes) arguments.emplace_back(DType::kFloat, Shape{-1, size});
    arguments.emplace_back(DType::kFloat, Shape{-1, cell_.inputs > 0 ? cell_.inputs : -1});
    if (masked()) arguments.emplace_back(DType::kBool, Shape{-1, 1});
    for (const Output& weight : cell_.weights) arguments.emplace_back(weight.dtype(), weight.shape());
    const std::string name = FreeFunctionName(graph_, options_.name + "_" + cell_.name + "_step");
    return host::Define(graph_, name, [this](Graph& body, const Outputs& v) { return Step(body, v); }, arguments);
  }

  Graph& graph_;
  const RnnCell& cell_;
  const RnnOptions& options_;
};

}  // namespace

std::vector<Output> ZeroState(Graph& graph, const RnnCell& cell, const Output& batch) {
  std::vector<Output> states;
  for (const int64_t size : cell.state_sizes) {
    const auto units = static_cast<int32_t>(size);
    const Output zeros = graph.Op("Fill", {graph.Op("Pack", {batch, graph.Const(units)}), graph.Const(0.0f)});
    // Of the size that is known, for whoever asks for the shape of what is made of it.
    states.push_back(
        graph.Op("Reshape", {zeros, graph.Const(std::vector<int32_t>{-1, units}, Shape{2})}, {}, "zero_state"));
  }
  return states;
}

Rnn DynamicRnn(Graph& graph, const RnnCell& cell, const Output& inputs, const RnnOptions& options) {
  return RnnLoop(graph, cell, options).Run(inputs);
}

}  // namespace tenon::train
