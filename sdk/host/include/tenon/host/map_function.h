// SPDX-License-Identifier: Apache-2.0
// A function of each element, in a loop.
#ifndef TENON_HOST_MAP_FUNCTION_H_
#define TENON_HOST_MAP_FUNCTION_H_

#include <string>
#include <vector>

#include "tenon/host/function.h"

namespace tenon::host {

namespace internal {

// The loop of MapFunction: lists of the elements, and of the results as they come.
class Mapper {
 public:
  Mapper(Graph& graph, const Function& function, const std::vector<Output>& xs, const LoopOptions& options)
      : graph_(graph), function_(function), xs_(xs), options_(options), result_types_(ResultTypes(graph, function)) {}

  std::vector<Output> Run() {
    if (xs_.empty()) graph_.Fail(Status(Code::kInvalidArgument, "MapFunction of '" + function_.name + "': there is nothing to map"));
    if (!graph_.status().ok()) return {};
    const auto scope = graph_.Scope(options_.name);
    // What the loop carries: the element's number, how many there are, a list for each result, a list for each x.
    std::vector<Output> variables = FirstValues();
    const Function condition = Define(
        graph_, UniqueName("more"),
        [](Graph& body, const std::vector<Output>& v) {
          return body.Op("Less", {v[0], v[1]});
        },
        Types());
    const Function turn = Define(
        graph_, UniqueName("element"), [this](Graph& body, const std::vector<Output>& v) { return Turn(body, v); }, Types());
    const std::vector<Output> last = While(graph_, variables, condition, turn, options_);
    result_shapes_.resize(result_types_.size(), Shape::Unknown());
    std::vector<Output> results;
    for (size_t k = 0; graph_.status().ok() && k < result_types_.size(); ++k)
      results.push_back(graph_.Op("TensorListStack", {last[2 + k], ShapeAsValue(graph_, result_shapes_[k])}, {{"element_dtype", result_types_[k]}}));
    return results;
  }

 private:
  std::vector<Output> FirstValues() {
    std::vector<Output> lists, lengths;
    for (const Output& x : xs_) {
      lists.push_back(graph_.Op("TensorListFromTensor", {x, graph_.Const(int32_t{-1})}));
      lengths.push_back(graph_.Op("TensorListLength", {lists.back()}));
    }
    std::vector<Operation> checks;
    for (size_t i = 1; i < lengths.size(); ++i)
      checks.push_back(
          graph_.AddNode("Assert", {graph_.Op("Equal", {lengths[0], lengths[i]}),
                                    graph_.StringConst("MapFunction: x 0 and another have differently many elements"), lengths[0], lengths[i]}));
    const auto checked = graph_.ControlDependencies(checks);
    std::vector<Output> values{graph_.Const(int32_t{0}), graph_.Op("Identity", {lengths[0]})};
    for (const DType type : result_types_)
      values.push_back(graph_.Op("TensorListReserve", {graph_.Const(int32_t{-1}), values[1]}, {{"element_dtype", type}}));
    values.insert(values.end(), lists.begin(), lists.end());
    return values;
  }

  FunctionResults Turn(Graph& body, const std::vector<Output>& v) {
    const size_t first_list = 2 + result_types_.size();
    std::vector<Output> next = v, elements;
    for (size_t i = 0; i < xs_.size(); ++i)
      elements.push_back(body.Op("TensorListGetItem", {v[first_list + i], v[0], ElementShape(body, xs_[i])}, {{"element_dtype", xs_[i].dtype()}}));
    const Operation call = body.Call(function_, elements);
    next[0] = body.Op("AddV2", {v[0], body.Const(int32_t{1})});
    for (size_t k = 0; k < result_types_.size(); ++k) {
      const Output result = call.output(static_cast<int32_t>(k));
      result_shapes_.push_back(result.shape());
      next[2 + k] = body.Op("TensorListSetItem", {v[2 + k], v[0], result});
    }
    return next;
  }
  static Output ElementShape(Graph& body, const Output& x) {
    const Shape shape = x.shape();
    if (!shape.has_rank() || shape.rank() == 0) return ShapeAsValue(body, Shape::Unknown());
    std::vector<int64_t> dims;
    for (int i = 1; i < shape.rank(); ++i) dims.push_back(shape[i]);
    return ShapeAsValue(body, Shape(dims));
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
    types.insert(types.end(), result_types_.size() + xs_.size(), DType::kVariant);
    return types;
  }
  std::string UniqueName(const std::string& part) const {
    const std::string wish = options_.name + "_" + function_.name + "_" + part;
    std::string name = wish;
    for (int i = 1; FindFunction(graph_, name).ok(); ++i) name = wish + "_" + std::to_string(i);
    return name;
  }

  Graph& graph_;
  const Function& function_;
  const std::vector<Output>& xs_;
  const LoopOptions& options_;
  const std::vector<DType> result_types_;
  std::vector<Shape> result_shapes_;  // of one element, as far as the function's body says it
};

}  // namespace internal

// Runs the function for each element of the xs along their first axis, which is as long for all, and stacks each of its results: results[k][i] =
// function(xs[0][i], xs[1][i], ...)[k]. The function takes one value for each x. Gradients go through it, and it may stand in a function's body. The
// results of all elements have one shape. Where there is no element, the results have none, each of the shape that the function's body says for elements of the
// xs' shapes, as far as these are known when the graph is made; where that leaves a dimension open, the step fails with INVALID_ARGUMENT. A function that
// ends in EnsureShape says it.
inline std::vector<Output> MapFunction(Graph& graph, const Function& function, const std::vector<Output>& xs, const LoopOptions& options = {"map"}) {
  return internal::Mapper(graph, function, xs, options).Run();
}

}  // namespace tenon::host

#endif  // TENON_HOST_MAP_FUNCTION_H_
