// SPDX-License-Identifier: Apache-2.0
// The loop of MapFunction, Fold, Scan and MapWithState. Not for use by itself: they say the same in their own words.
//
// One While of functions. What it carries: the turn's number, the number at which it ends, a list for each result, the
// states, a list of the elements of each x, and the invariants; of these the body gives the last two back as it got
// them.
#ifndef TENON_HOST_ELEMENT_LOOP_H_
#define TENON_HOST_ELEMENT_LOOP_H_

#include <string>
#include <utility>
#include <vector>

#include "tenon/host/function.h"

namespace tenon::host::internal {

class ElementLoop {
 public:
  struct Parts {
    std::string what;                // for errors: "Fold"
    std::vector<Output> states;      // their first values
    std::vector<Output> xs;          // a turn gets an element of each
    std::vector<Output> invariants;  // a turn gets them as they are
    LoopOptions options;
    bool reverse = false;                // from the last element to the first
    bool begins_with_elements = false;   // the first values are the first elements, and the loop begins with the second
    bool stacks_states = false;          // the results are the states after each turn; false: what the function gives
                                         // after the states
    Output turns = {};                   // so many elements have a turn, an int32 scalar; not valid: all
  };
  struct Results {
    std::vector<Output> states;   // the last ones
    std::vector<Output> stacked;  // each turn's results, at its element's place
  };

  // The function takes the states, the elements and the invariants, and gives the states' next values and what else
  // there is.
  ElementLoop(Graph& graph, const Function& function, Parts parts)
      : graph_(graph), function_(function), parts_(std::move(parts)), types_(ResultTypes(graph, function)) {}

  Results Run() {
    CheckXs();
    if (graph_.status().ok()) CheckFunction();
    if (!graph_.status().ok()) return {};
    const auto scope = graph_.Scope(parts_.options.name);
    const std::vector<Output> first = FirstValues();
    const Function more = Define(
        graph_, UniqueName("more"),
        [](Graph& body, const std::vector<Output>& v) {
          return body.Op("Less", {v[0], v[1]});
        },
        Types());
    const Function turn = Define(
        graph_, UniqueName("element"), [this](Graph& body, const std::vector<Output>& v) { return Turn(body, v); },
        Types());
    const std::vector<Output> last = While(graph_, first, more, turn, parts_.options);
    Results results;
    if (!graph_.status().ok()) return results;
    for (size_t k = 0; k < stacked_count(); ++k)
      results.stacked.push_back(graph_.Op("TensorListStack", {last[2 + k], ShapeAsValue(graph_, stacked_shapes_[k])},
                                          {{"element_dtype", stacked_type(k)}}));
    results.states.assign(last.begin() + first_state(), last.begin() + first_list());
    return results;
  }

 private:
  size_t state_count() const { return parts_.begins_with_elements ? parts_.xs.size() : parts_.states.size(); }
  size_t stacked_count() const { return parts_.stacks_states ? state_count() : types_.size() - state_count(); }
  DType stacked_type(size_t k) const { return types_[parts_.stacks_states ? k : state_count() + k]; }
  ptrdiff_t first_state() const { return static_cast<ptrdiff_t>(2 + stacked_count()); }
  ptrdiff_t first_list() const { return first_state() + static_cast<ptrdiff_t>(state_count()); }
  ptrdiff_t first_invariant() const { return first_list() + static_cast<ptrdiff_t>(parts_.xs.size()); }

  void Refuse(const std::string& why) {
    graph_.Fail(Status(Code::kInvalidArgument, parts_.what + " of '" + function_.name + "': " + why));
  }

  // ---- Before the loop: what the graph knows by now ----

  void CheckXs() {
    const std::vector<Output>& xs = parts_.xs;
    if (xs.empty()) Refuse("there is nothing to go over");
    int64_t length = -1;
    for (size_t i = 0; i < xs.size(); ++i) {
      const Shape shape = xs[i].shape();
      if (!shape.has_rank()) continue;
      if (shape.rank() == 0)
        return Refuse("x " + std::to_string(i) +
                      " is a scalar, which has no elements; its first dimension is what is gone over");
      if (length >= 0 && shape[0] >= 0 && shape[0] != length)
        return Refuse("x " + std::to_string(i) + " has " + std::to_string(shape[0]) + " elements and another has " +
                      std::to_string(length) + "; xs with differently many elements cannot be gone over together");
      if (shape[0] >= 0) length = shape[0];
    }
  }

  // What the function takes and gives is what the loop has for it.
  void CheckFunction() {
    const auto arguments = FunctionArguments(graph_, function_, TENON_FUNCTION_INPUT);
    if (!arguments.ok()) return graph_.Fail(arguments.status());
    const size_t states = state_count(), taken = states + parts_.xs.size() + parts_.invariants.size();
    if (arguments->size() != taken)
      return Refuse("it takes " + std::to_string(arguments->size()) + " values, and gets " + std::to_string(states) +
                    " states, " + std::to_string(parts_.xs.size()) + " elements and " +
                    std::to_string(parts_.invariants.size()) + " invariants");
    if (types_.size() < states || (parts_.stacks_states && types_.size() != states))
      return Refuse("it gives " + std::to_string(types_.size()) + " values for " + std::to_string(states) + " states");
    for (size_t k = 0; k < states; ++k)
      if (const DType dtype = StateType(k); dtype != types_[k])
        return Refuse("state " + std::to_string(k) + " begins as " + DTypeName(dtype) + " and would go on as " +
                      DTypeName(types_[k]) + "; a state keeps its type from turn to turn");
    for (size_t i = 0; i < taken; ++i)
      if (const auto type = static_cast<DType>((*arguments)[i].dtype);
          type != DType::kInvalid && type != ArgumentType(i))
        return Refuse("its argument '" + std::string(Text((*arguments)[i].name)) + "' is " + DTypeName(type) +
                      " and gets " + DTypeName(ArgumentType(i)));
  }
  DType ArgumentType(size_t i) const {
    const size_t states = state_count(), elements = states + parts_.xs.size();
    return i < states     ? StateType(i)
           : i < elements ? parts_.xs[i - states].dtype()
                          : parts_.invariants[i - elements].dtype();
  }
  DType StateType(size_t k) const {
    return parts_.begins_with_elements ? parts_.xs[k].dtype() : parts_.states[k].dtype();
  }
  Shape StateShape(size_t k) const {
    return parts_.begins_with_elements ? ElementShape(parts_.xs[k]) : parts_.states[k].shape();
  }

  std::vector<Output> FirstValues() {
    std::vector<Output> lists, lengths;
    for (const Output& x : parts_.xs) {
      lists.push_back(graph_.Op("TensorListFromTensor", {x, graph_.Const(int32_t{-1})}));
      lengths.push_back(graph_.Op("TensorListLength", {lists.back()}));
    }
    const auto checked = graph_.ControlDependencies(Checks(lengths));
    const Output length = graph_.Op("Identity", {lengths[0]}),
                 end = parts_.turns.valid() ? graph_.Op("Identity", {parts_.turns}) : length;
    std::vector<Output> values{graph_.Const(int32_t{parts_.begins_with_elements ? 1 : 0}), end}, states = parts_.states;
    const Output first = Place(graph_, graph_.Const(int32_t{0}), end);
    for (size_t k = 0; parts_.begins_with_elements && k < lists.size(); ++k)
      states.push_back(Element(graph_, lists[k], first, k));
    for (size_t k = 0; k < stacked_count(); ++k) {
      values.push_back(
          graph_.Op("TensorListReserve", {graph_.Const(int32_t{-1}), length}, {{"element_dtype", stacked_type(k)}}));
      if (parts_.begins_with_elements && parts_.stacks_states)
        values.back() = graph_.Op("TensorListSetItem", {values.back(), first, states[k]});
    }
    for (const std::vector<Output>& more : {states, lists, parts_.invariants})
      values.insert(values.end(), more.begin(), more.end());
    return values;
  }
  // What only the step knows.
  std::vector<Operation> Checks(const std::vector<Output>& lengths) {
    std::vector<Operation> checks;
    const auto check = [&](const Output& holds, const std::string& text, const std::vector<Output>& values) {
      std::vector<Output> inputs{holds, graph_.StringConst(parts_.what + ": " + text)};
      inputs.insert(inputs.end(), values.begin(), values.end());
      checks.push_back(graph_.AddNode("Assert", inputs));
    };
    for (size_t i = 1; i < lengths.size(); ++i)
      check(graph_.Op("Equal", {lengths[0], lengths[i]}), "x 0 and another have differently many elements",
            {lengths[0], lengths[i]});
    if (parts_.turns.valid())
      check(graph_.Op("LessEqual", {parts_.turns, lengths[0]}), "there are fewer elements than turns",
            {lengths[0], parts_.turns});
    if (parts_.begins_with_elements)
      check(graph_.Op("Less", {graph_.Const(int32_t{0}), parts_.turns.valid() ? parts_.turns : lengths[0]}),
            "there is no first element to begin with; give the states' first values", {lengths[0]});
    return checks;
  }

  // ---- One turn ----

  FunctionResults Turn(Graph& body, const std::vector<Output>& v) {
    const Output place = Place(body, v[0], v[1]);
    std::vector<Output> next = v, inputs(v.begin() + first_state(), v.begin() + first_list());
    for (size_t i = 0; i < parts_.xs.size(); ++i)
      inputs.push_back(Element(body, v[static_cast<size_t>(first_list()) + i], place, i));
    inputs.insert(inputs.end(), v.begin() + first_invariant(), v.end());
    const Operation call = body.Call(function_, inputs);
    next[0] = body.Op("AddV2", {v[0], body.Const(int32_t{1})});
    for (size_t k = 0; k < state_count(); ++k)
      next[static_cast<size_t>(first_state()) + k] = NextState(body, call.output(static_cast<int32_t>(k)), k);
    for (size_t k = 0; k < stacked_count(); ++k) {
      const Output result = call.output(static_cast<int32_t>(parts_.stacks_states ? k : state_count() + k));
      stacked_shapes_.push_back(result.shape());
      next[2 + k] = body.Op("TensorListSetItem", {v[2 + k], place, result});
    }
    return next;
  }
  Output NextState(Graph& body, const Output& value, size_t k) const {
    const Shape before = StateShape(k), after = value.shape();
    bool same = !before.has_rank() || !after.has_rank() || before.rank() == after.rank();
    for (size_t i = 0; same && before.has_rank() && after.has_rank() && i < before.dims().size(); ++i)
      same = before[i] < 0 || after[i] < 0 || before[i] == after[i];
    if (!same)
      body.Fail(Status(Code::kInvalidArgument, parts_.what + " of '" + function_.name + "': state " +
                                                   std::to_string(k) + " begins with the shape " + before.ToString() +
                                                   " and would go on with " + after.ToString() +
                                                   "; a state keeps its shape from turn to turn"));
    return value;
  }
  // Of the element that has this turn.
  Output Place(Graph& graph, const Output& turn, const Output& end) const {
    if (!parts_.reverse) return turn;
    return graph.Op("Sub", {graph.Op("Sub", {end, graph.Const(int32_t{1})}), turn});
  }
  Output Element(Graph& graph, const Output& list, const Output& place, size_t i) const {
    return graph.Op("TensorListGetItem", {list, place, ShapeAsValue(graph, ElementShape(parts_.xs[i]))},
                    {{"element_dtype", parts_.xs[i].dtype()}});
  }

  static Shape ElementShape(const Output& x) {
    const Shape shape = x.shape();
    if (!shape.has_rank() || shape.rank() == 0) return Shape::Unknown();
    return Shape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
  }
  // As the ops of lists take it: -1 is what is not known.
  static Output ShapeAsValue(Graph& graph, const Shape& shape) {
    if (!shape.has_rank()) return graph.Const(int32_t{-1});
    std::vector<int32_t> dims;
    for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i] > INT32_MAX ? -1 : static_cast<int32_t>(shape[i]));
    return graph.Const(dims, Shape{static_cast<int64_t>(dims.size())});
  }

  std::vector<Argument> Types() const {
    std::vector<Argument> types{{DType::kInt32, Shape()}, {DType::kInt32, Shape()}};
    types.insert(types.end(), stacked_count(), DType::kVariant);
    for (size_t k = 0; k < state_count(); ++k) types.emplace_back(StateType(k), StateShape(k));
    types.insert(types.end(), parts_.xs.size(), DType::kVariant);
    for (const Output& invariant : parts_.invariants) types.emplace_back(invariant.dtype(), invariant.shape());
    return types;
  }
  std::string UniqueName(const std::string& part) const {
    const std::string wish = parts_.options.name + "_" + function_.name + "_" + part;
    std::string name = wish;
    for (int i = 1; FindFunction(graph_, name).ok(); ++i) name = wish + "_" + std::to_string(i);
    return name;
  }

  Graph& graph_;
  const Function& function_;
  const Parts parts_;
  const std::vector<DType> types_;     // of all that the function gives
  std::vector<Shape> stacked_shapes_;  // of one turn, as far as the function's body says them
};

}  // namespace tenon::host::internal

#endif  // TENON_HOST_ELEMENT_LOOP_H_
