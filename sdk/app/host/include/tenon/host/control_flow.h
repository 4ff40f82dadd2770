// SPDX-License-Identifier: Apache-2.0
// Loops and conditionals as graphs: Enter, Merge, Switch, NextIteration and Exit around functions that build the parts.
//
//   // while (i < 10) { i = i + 1; x = x * 2; }
//   std::vector<Output> last = While(graph, {i, x},
//       [&](const std::vector<Output>& v) { return graph.Op("Less", {v[0], ten}); },
//       [&](const std::vector<Output>& v) { return std::vector{...}; }, {ten}, ...);
//
// Rules. A loop's parts may use its variables and invariants alone: a value from outside must be given as an invariant.
// New constants in a part wait for the part's pivot by themselves.
#ifndef TENON_HOST_CONTROL_FLOW_H_
#define TENON_HOST_CONTROL_FLOW_H_

#include <functional>
#include <string>
#include <vector>

#include "tenon/host/graph.h"

namespace tenon::host {

struct LoopOptions {
  std::string name = "while";        // of the scope that the loop's nodes stand in, and of the frame; several loops may
                                     // have one name
  int64_t parallel_iterations = 10;  // turns that may be under way at once where the loop runs as dataflow; more take
                                     // more memory
};

// Runs body while condition holds; gives the variables' last values, which are the first ones where it never holds.
// condition and body get the variables, then the invariants; condition gives one bool, body the variables' next values,
// as many and of the same types. Both are called once, now, to build their part. At least one variable is needed. A
// failure stands in graph.status().
inline std::vector<Output> While(Graph& graph, const std::vector<Output>& variables,
                                 const std::vector<Output>& invariants,
                                 const std::function<Output(const std::vector<Output>&)>& condition,
                                 const std::function<std::vector<Output>(const std::vector<Output>&)>& body,
                                 const LoopOptions& options = {}) {
  const auto scope = graph.Scope(options.name);
  const std::string frame = graph.FrameName();
  const auto enter = [&](const Output& value, bool constant) {
    return graph.Op("Enter", {value}, {{"frame_name", frame},
                                       {"is_constant", constant},
                                       {"parallel_iterations", options.parallel_iterations}});
  };
  std::vector<Output> entered, merges, constants, turn, exits;
  for (const Output& variable : variables) entered.push_back(enter(variable, false));
  for (const Output& invariant : invariants) constants.push_back(enter(invariant, true));
  const auto inside = graph.OnlyControlDependencies({});
  for (const Output& value : entered) merges.push_back(graph.Op("Merge", {value, value}));
  std::vector<Output> in_condition = merges;
  in_condition.insert(in_condition.end(), constants.begin(), constants.end());
  Output predicate;
  {
    // Constants of the condition belong to the turn.
    const auto pivot = graph.OnlyControlDependencies({Operation(merges[0])});
    predicate = graph.Op("LoopCond", {condition(in_condition)});
  }
  for (const Output& merge : merges) {
    const Operation gate = graph.AddNode("Switch", {merge, predicate});
    turn.push_back(graph.Op("Identity", {gate.output(1)}));
    exits.push_back(graph.Op("Exit", {gate.output(0)}));
  }
  std::vector<Output> in_body = turn;
  in_body.insert(in_body.end(), constants.begin(), constants.end());
  std::vector<Output> next;
  {
    const auto pivot = graph.OnlyControlDependencies({Operation(turn[0])});
    next = body(in_body);
    // An invariant is there before its turn is: as a next value it must wait for the turn, or turns would never end.
    for (Output& value : next)
      for (const Output& constant : constants)
        if (value.node() == constant.node()) value = graph.Op("Identity", {constant});
  }
  if (next.size() != variables.size()) {
    graph.Fail(Status(Code::kInvalidArgument, "While '" + options.name + "': the body gives " +
                                                  std::to_string(next.size()) + " values for " +
                                                  std::to_string(variables.size()) + " variables"));
    return exits;
  }
  for (size_t i = 0; i < next.size(); ++i)
    graph.SetInput(Operation(merges[i]), 1, graph.Op("NextIteration", {next[i]}));
  return exits;
}

// predicate ? when_true(inputs) : when_false(inputs); the predicate is one bool. Both functions are called once, now,
// to build their branch: they get the inputs, alive in the branch that is taken, and give as many values of the same
// types. A branch may use its inputs alone (or values made from them). Gives nothing, and a failure in graph.status(),
// where the branches give differently many.
inline std::vector<Output> Cond(Graph& graph, const Output& predicate, const std::vector<Output>& inputs,
                                const std::function<std::vector<Output>(const std::vector<Output>&)>& when_true,
                                const std::function<std::vector<Output>(const std::vector<Output>&)>& when_false,
                                const std::string& name = "cond") {
  const auto scope = graph.Scope(name);
  std::vector<Output> sides[2];
  for (const Output& input : inputs) {
    const Operation gate = graph.AddNode("Switch", {input, predicate});
    for (int side = 0; side < 2; ++side) sides[side].push_back(gate.output(side));
  }
  const Operation pivot = graph.AddNode("Switch", {predicate, predicate});
  std::vector<Output> results[2];
  for (int side = 0; side < 2; ++side) {
    // Nodes without inputs run only in the branch that is taken.
    const Output alive = graph.Op("Identity", {pivot.output(side)});
    const auto dependency = graph.ControlDependencies({Operation(alive)});
    results[side] = side == 1 ? when_true(sides[1]) : when_false(sides[0]);
  }
  std::vector<Output> merged;
  if (results[0].size() != results[1].size()) {
    graph.Fail(Status(Code::kInvalidArgument, "Cond '" + name + "': the branches give " +
                                                  std::to_string(results[1].size()) + " and " +
                                                  std::to_string(results[0].size()) + " values"));
    return merged;
  }
  for (size_t i = 0; i < results[0].size(); ++i) merged.push_back(graph.Op("Merge", {results[0][i], results[1][i]}));
  return merged;
}

}  // namespace tenon::host

#endif  // TENON_HOST_CONTROL_FLOW_H_
