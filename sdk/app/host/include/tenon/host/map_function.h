// SPDX-License-Identifier: Apache-2.0
// A function of each element, in a loop.
#ifndef TENON_HOST_MAP_FUNCTION_H_
#define TENON_HOST_MAP_FUNCTION_H_

#include <vector>

#include "tenon/host/element_loop.h"
#include "tenon/host/function.h"

namespace tenon::host {

// Runs the function for each element of the xs along their first axis, which is as long for all, and stacks each of its
// results: results[k][i] = function(xs[0][i], xs[1][i], ...)[k]. The function takes one value for each x. Gradients go
// through it, and it may stand in a function's body. The results of all elements have one shape. Where there is no
// element, the results have none, each of the shape that the function's body says for elements of the xs' shapes, as
// far as these are known when the graph is made; where that leaves a dimension open, the step fails with
// INVALID_ARGUMENT. A function that ends in EnsureShape says it.
inline std::vector<Output> MapFunction(Graph& graph, const Function& function, const std::vector<Output>& xs,
                                       const LoopOptions& options = {"map"}) {
  return internal::ElementLoop(graph, function,
                               {.what = "MapFunction", .states = {}, .xs = xs, .invariants = {}, .options = options})
      .Run()
      .stacked;
}

}  // namespace tenon::host

#endif  // TENON_HOST_MAP_FUNCTION_H_
