// SPDX-License-Identifier: Apache-2.0
// Sums: gradients that arrive at an edge over several paths, as one. Slices stay slices until a dense value is asked
// for.
#ifndef TENON_CORE_GRAD_SUMS_H_
#define TENON_CORE_GRAD_SUMS_H_

#include <map>
#include <utility>
#include <vector>

#include "core/grad/gradient.h"

namespace tenon::grad {

// What arrived at each edge.
using Arrived = std::map<graph::Edge, std::vector<tenon_gradient>>;

class Sums {
 public:
  explicit Sums(graph::Builder* builder) : builder_(builder) {}

  // What new constants wait for, so that they belong to a turn of a backward loop; none: nothing. Gives what it was.
  graph::NodeId SetTurn(graph::NodeId turn) { return std::exchange(turn_, turn); }

  void Add(Arrived* arrived, graph::Edge edge, const tenon_gradient& gradient) const;
  // All that arrived at an edge as one gradient, which then stands for it.
  Result<tenon_gradient> Total(Arrived* arrived, graph::Edge edge);
  // Of a gradient that has a value.
  Result<graph::Edge> Densify(const tenon_gradient& gradient);
  // What a gradient without value stands for: zeros like `like`.
  Result<graph::Edge> DenseOrZeros(const tenon_gradient& gradient, graph::Edge like);
  // Zeros like `like`; if that is a variable's handle, like the variable's value, which is of `type`.
  Result<graph::Edge> Zeros(graph::Edge like, DType type);
  // Slices of no row of `like`, of the types that `alike` has.
  Result<tenon_gradient> NoRows(graph::Edge like, const tenon_gradient& alike);
  // Whether two slices have the same types, so that they can be one value.
  bool AreAlike(const tenon_gradient& a, const tenon_gradient& b) const;
  DType TypeOf(const tenon_output& end) const;

  // What a new node without inputs waits for, to belong to the turn.
  std::vector<graph::NodeId> Controls() const;

 private:
  Result<graph::Edge> ValueOf(graph::Edge like, DType type);
  Result<tenon_gradient> SumDense(const std::vector<tenon_gradient>& list);
  Result<tenon_gradient> JoinSlices(const std::vector<tenon_gradient>& list);

  graph::Builder* builder_;
  graph::NodeId turn_;
};

// The gradient as a dense tensor. `controls`: what new constants wait for.
Result<graph::Edge> Densify(graph::Builder* builder, const tenon_gradient& gradient,
                            const std::vector<graph::NodeId>& controls);

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_SUMS_H_
