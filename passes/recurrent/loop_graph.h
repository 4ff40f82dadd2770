// SPDX-License-Identifier: Apache-2.0
// Loops of ops that steer (Enter, Merge, Switch, NextIteration, Exit) as a pass looks at them: where a value in a loop
// comes from, past identities, switches and whatever is carried unchanged.
//
// Edges are those of who stands in the loop, unless their name says outside. A question that has no answer (another
// shape of graph, a step too many) is answered with "made inside, by nobody known": then nothing matches. One thread,
// one call of the pass.
#ifndef TENON_PASSES_RECURRENT_LOOP_GRAPH_H_
#define TENON_PASSES_RECURRENT_LOOP_GRAPH_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/op/graph_pass.h"

namespace tenon::passes {

// The graph's nodes, each read once. One that is fed has no op here, and nothing is seen through it.
class Nodes {
 public:
  struct Node {
    std::string op, device;
    std::string function;  // that it is of its inputs, in order (tenon/sdk/op/formula.h); empty: no one function
    std::vector<sdk::Output> inputs;
    std::vector<int64_t> controls;
    bool is_float = false;  // its first output
    bool is_part = false;   // its op moves elements, or shows them in another shape, and does no more
  };
  explicit Nodes(sdk::PassContext& p) : p_(p) {}
  sdk::PassContext& pass() const { return p_; }

  const Node& At(int64_t id);
  template <class Value>
  Value Attr(int64_t id, Value (sdk::NodeContext::*get)(std::string_view), std::string_view name) {
    Value value{};
    p_.With(id, [&](sdk::NodeContext& c) { value = (c.*get)(name); });
    return value;
  }
  // Past identities.
  sdk::Output Plain(sdk::Output edge);
  // Whether `edge` is Shape(x)[0], of x or what it is turned round of; the largest of one number is itself, and so is
  // the smaller of it and what is 1 at least of it.
  bool IsTimeOf(sdk::Output x, sdk::Output edge);
  // A whole number that is written in the graph: itself, as the largest of one, as an element of a shape, as the
  // smaller or the larger of two.
  std::optional<int64_t> Number(sdk::Output edge, int depth = 0);
  // Of all whole numbers from 0 on, in order: below which number, and that number's edge where the graph has one.
  struct Below {
    std::optional<int64_t> number;
    sdk::Output end;
  };
  std::optional<Below> AllBelow(sdk::Output edge);

  // The elements of a small constant that is written in the graph: whole numbers (int32), or floats.
  std::optional<std::vector<int32_t>> Integers(sdk::Output edge);
  std::optional<std::vector<float>> Floats(sdk::Output edge);

 private:
  template <class T>
  std::optional<std::vector<T>> Elements(sdk::Output edge, uint32_t dtype);
  // The one element that is taken of a vector, and where.
  std::optional<int32_t> ElementTaken(const Node& slice, int64_t id);
  bool IsTime(sdk::Output x, sdk::Output edge);
  sdk::Output AsLong(sdk::Output x);

  sdk::PassContext& p_;
  std::map<int64_t, Node> nodes_;
};

class LoopGraph {
 public:
  using Output = sdk::Output;
  // A value that turns pass on.
  struct Variable {
    int64_t enter = -1;
    Output initial, next;  // outside; inside
  };
  // What an edge's value comes from.
  struct Source {
    enum class Kind { kOutside, kVariable, kInside } kind = Kind::kInside;
    Output edge;         // outside: from outside; inside: of the node that makes it
    int64_t merge = -1;  // of a variable
  };

  LoopGraph(Nodes& nodes, int64_t condition) : nodes_(nodes), condition_(condition), passed_{condition} {}

  sdk::PassContext& pass() const { return nodes_.pass(); }
  Nodes& nodes() const { return nodes_; }
  int64_t condition() const { return condition_; }
  const Nodes::Node& At(int64_t id) { return nodes_.At(id); }

  // Past identities, inside and outside.
  Output Plain(Output edge);
  Source SourceOf(Output edge);
  // Of a value that comes from outside, as it is known there.
  sdk::Shape ShapeOf(Output edge);
  std::optional<Variable> VariableOf(int64_t merge);
  bool IsUnchanged(int64_t merge, const Variable& variable);
  bool IsVariable(Output edge, int64_t merge);
  // The node of that op whose first output the value is, in the loop; -1: none.
  int64_t Made(Output edge, std::string_view op, std::string_view or_op = {});
  // And which one computes it by that function, whatever its op is called; -1: none in the loop.
  int64_t Computed(Output edge, std::string_view function);
  // Whether turns find `made` in the variable that is made by the merge.
  bool BecomesOf(int64_t merge, Output made);
  // Whether it becomes itself and one, from 0 on.
  bool Counts(int64_t merge);
  // A whole number, or a real one, that is written in the graph, inside or outside.
  std::optional<int64_t> NumberOf(Output edge);
  std::optional<float> RealOf(Output edge);

  // f(a, b) of a node's two operands, in either order.
  template <class Function>
  bool InEitherOrder(int64_t id, Function&& function) {
    if (id < 0 || At(id).inputs.size() != 2) return false;
    const Output a = At(id).inputs[0], b = At(id).inputs[1];
    return function(a, b) || function(b, a);
  }

  // Whether every turn finds the same value, and it can be made before the loop, on the device: what comes from
  // outside, variables that are read, parts of those.
  bool IsInvariant(Output edge, std::string_view device, int depth = 0);
  // Whether two such values are one.
  bool IsSame(Output a, Output b);
  // Such a value for who stands outside: adds what makes it.
  Output Outside(Output edge);

  // Whether whoever waits for anything among what was looked at waits for what does nothing else: else that would no
  // longer be done. Who enters waits for the same everywhere, as what stands for the loop does.
  bool HasNoOtherEffects(int64_t enter);

 private:
  Nodes& nodes_;
  const int64_t condition_;
  std::set<int64_t> passed_, enters_;  // what values come by
};

}  // namespace tenon::passes

#endif  // TENON_PASSES_RECURRENT_LOOP_GRAPH_H_
