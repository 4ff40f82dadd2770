// SPDX-License-Identifier: Apache-2.0
// What the wrappers that `tenon ops --generate-cpp` makes are built of. Not for use by hand.
//
// A wrapper adds one node by Graph::AddNode, so failures stick in the graph. Options of a node are a struct with the
// name and the attributes that have defaults.
#ifndef TENON_HOST_OP_WRAPPER_H_
#define TENON_HOST_OP_WRAPPER_H_

#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::ops {

// Of ops that have no attribute with a default.
struct NodeOptions {
  std::string name;  // "": the op's
};

namespace internal {

inline void Append(std::vector<host::Output>& all, const host::Output& one) { all.push_back(one); }
inline void Append(std::vector<host::Output>& all, const std::vector<host::Output>& some) {
  all.insert(all.end(), some.begin(), some.end());
}
// A node's arguments, single ones and lists, as one list of inputs.
template <typename... Inputs>
std::vector<host::Output> Join(const Inputs&... inputs) {
  std::vector<host::Output> all;
  (Append(all, inputs), ...);
  return all;
}
inline std::vector<host::DType> Types(const std::vector<host::Output>& outputs) {
  std::vector<host::DType> types;
  for (const host::Output& output : outputs) types.push_back(output.dtype());
  return types;
}
// Outputs [begin, begin + count): those of a list argument.
inline std::vector<host::Output> Outputs(const host::Operation& node, int64_t begin, int64_t count) {
  std::vector<host::Output> outputs;
  for (int64_t i = 0; i < count; ++i) outputs.push_back(node.output(static_cast<int32_t>(begin + i)));
  return outputs;
}

}  // namespace internal
}  // namespace tenon::ops

#endif  // TENON_HOST_OP_WRAPPER_H_
