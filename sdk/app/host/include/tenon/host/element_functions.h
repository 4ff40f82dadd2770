// SPDX-License-Identifier: Apache-2.0
// Functions of one element after the other: fold, scan, and map with states.
//
// The xs are gone over along their first axis, which is as long for all. In each turn the function takes the states, an
// element of each x and the invariants, and gives the states' next values. With f such a function, s the states and
// x[i] the elements:
//   Fold          s = f(s, x[i]) for each i; gives the last s  (tf.foldl; reversed tf.foldr)
//   Scan          the same; gives each x's s, stacked: results[k][i] is state k after element i  (tf.scan)
//   MapWithState  (s, y[i]) = f(s, x[i]); gives the last s, and the ys stacked
//
//   // the sum so far, an element
//   const Function add = Define(graph, "add", [](Graph& body, const std::vector<Output>& v) {
//     return body.Op("AddV2", {v[0], v[1]});
//   }, {DType::kFloat, DType::kFloat});
//   Output sum = Fold(graph, add, {graph.Const(0.0f)}, {x})[0], sums = Scan(graph, add, {graph.Const(0.0f)}, {x})[0];
//
// Rules. A state keeps its type and its shape from turn to turn. Gradients go to the xs, the first states and the
// invariants, and all three may stand in a function's body. Where there is no element, the last states are the first
// ones; stacked results then have no element, as MapFunction's. Errors. INVALID_ARGUMENT, which sticks to the graph: no
// x; an x that is a scalar; xs whose lengths are known and differ; a function that takes or gives another number of
// values, or a state of another type or another known shape. What only a step knows (lengths that differ, elements that
// there are not) fails the step with INVALID_ARGUMENT.
#ifndef TENON_HOST_ELEMENT_FUNCTIONS_H_
#define TENON_HOST_ELEMENT_FUNCTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "tenon/host/element_loop.h"
#include "tenon/host/function.h"

namespace tenon::host {

struct ElementOptions {
  std::string name = {};  // of the loop; "": the function's that makes it ("fold", "scan", "map_with_state")
  int64_t parallel_iterations = 10;      // as LoopOptions has it
  bool reverse = false;                  // from the last element to the first; stacked results stand at their elements'
                                         // places all the same
  std::vector<Output> invariants = {};   // what each turn gets as it is, after the elements: weights
  // The first `turns` elements alone have a turn, an int32 scalar; not valid: all. Stacked results of the others are
  // zeros, where the function's body says the shape of one.
  Output turns = {};
};

namespace internal {

inline ElementLoop::Parts PartsOf(const char* what, const char* name, const std::vector<Output>& initial,
                                  const std::vector<Output>& xs, const ElementOptions& options) {
  return {.what = what,
          .states = initial,
          .xs = xs,
          .invariants = options.invariants,
          .options = {options.name.empty() ? name : options.name, options.parallel_iterations},
          .reverse = options.reverse,
          .turns = options.turns};
}

}  // namespace internal

// initial: the states' first values. Empty: they are the first elements of the xs, of which there must be one, and the
// function's first turn is with the second.
inline std::vector<Output> Fold(Graph& graph, const Function& function, const std::vector<Output>& initial,
                                const std::vector<Output>& xs, const ElementOptions& options = {}) {
  internal::ElementLoop::Parts parts = internal::PartsOf("Fold", "fold", initial, xs, options);
  parts.begins_with_elements = initial.empty();
  return internal::ElementLoop(graph, function, std::move(parts)).Run().states;
}

// initial: as of Fold; empty, the first results are the first elements.
inline std::vector<Output> Scan(Graph& graph, const Function& function, const std::vector<Output>& initial,
                                const std::vector<Output>& xs, const ElementOptions& options = {}) {
  internal::ElementLoop::Parts parts = internal::PartsOf("Scan", "scan", initial, xs, options);
  parts.begins_with_elements = initial.empty();
  parts.stacks_states = true;
  return internal::ElementLoop(graph, function, std::move(parts)).Run().stacked;
}

struct MappedWithState {
  std::vector<Output> states;   // the last ones
  std::vector<Output> results;  // results[k][i] is what the function gave after the states for element i
};
// The function gives the next states, as many as there are in `initial`, then its results.
inline MappedWithState MapWithState(Graph& graph, const Function& function, const std::vector<Output>& initial,
                                    const std::vector<Output>& xs, const ElementOptions& options = {}) {
  internal::ElementLoop::Results found =
      internal::ElementLoop(graph, function, internal::PartsOf("MapWithState", "map_with_state", initial, xs, options))
          .Run();
  return {std::move(found.states), std::move(found.stacked)};
}

}  // namespace tenon::host

#endif  // TENON_HOST_ELEMENT_FUNCTIONS_H_
