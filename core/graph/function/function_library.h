// SPDX-License-Identifier: Apache-2.0
// Functions of a library: adding, copying with what they call, and which call which.
#ifndef TENON_CORE_GRAPH_FUNCTION_FUNCTION_LIBRARY_H_
#define TENON_CORE_GRAPH_FUNCTION_FUNCTION_LIBRARY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"

namespace tenon::graph {

// A function may not have the name of an op: as in TensorFlow, where a node of that name would be a call.
// ALREADY_EXISTS names the op's package.
Status CheckFunctionName(const OpRegistry& ops, std::string_view name);

// Adds it. One of that name that is the same is fine, and what only one of the two names as its gradient stays;
// ALREADY_EXISTS: they differ.
Status AddFunction(FunctionLibrary* library, const std::shared_ptr<const FunctionDef>& function);
// Adds what it does not have.
void AddRegisteredGradients(const std::vector<std::string>& gradients, FunctionLibrary* library);
// What such a gradient says.
struct RegisteredGradient {
  std::string function, op_type;
};
RegisteredGradient ReadRegisteredGradient(std::string_view message);
// Makes the function, which is in the library, the gradient of nodes of the op, or that ask for it by that name.
// ALREADY_EXISTS: they have another.
Status RegisterGradient(FunctionLibrary* library, std::string_view op_type, std::string_view function);

// Adds all of `from`, or none where one cannot be added.
Status AddFunctions(const FunctionLibrary& from, FunctionLibrary* to);

// Adds the function of `from`, and those that it calls and they call, its gradient too, as far as `from` has them: all,
// or none where one cannot be added. NOT_FOUND names near misses.
Status CopyFunction(const FunctionLibrary& from, std::string_view name, FunctionLibrary* to);
// Adds those that the graph's nodes name, as CopyFunction does, as far as `from` has them.
Status CopyCalled(const Graph& graph, const FunctionLibrary& from, FunctionLibrary* to);

// Whether one may be the gradient of the other: it takes the function's inputs, then a gradient of each output, and
// gives one of each input.
Status CheckGradient(const FunctionDef& function, const FunctionDef& gradient);
// Makes it the function's gradient. Both are in the library; ALREADY_EXISTS: the function has another.
Status SetGradient(FunctionLibrary* library, std::string_view function, std::string_view gradient);

Result<std::shared_ptr<const FunctionDef>> FindFunction(const FunctionLibrary& library, std::string_view name);

// The functions that a node of that op names: as its op, where the library has one of that name, and in attributes,
// where it may not.
std::vector<std::string_view> CalledBy(std::string_view op, const AttrMap& attrs, const FunctionLibrary& library);
inline std::vector<std::string_view> CalledBy(const FunctionDef::BodyNode& node, const FunctionLibrary& library) {
  return CalledBy(node.op, node.attrs, library);
}

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_FUNCTION_FUNCTION_LIBRARY_H_
