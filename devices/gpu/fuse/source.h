// SPDX-License-Identifier: Apache-2.0
// The source of a kernel that computes a set of element-wise nodes in one pass.
//
// Every value in between is rounded to its type, as the nodes' own kernels do: the numbers are the same. What shapes are is said by
// parameters (code/fused.h), so that one kernel serves all shapes of which the inputs are spread alike.
#ifndef TENON_DEVICES_GPU_FUSE_SOURCE_H_
#define TENON_DEVICES_GPU_FUSE_SOURCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::gpu {

struct FusedInput {
  uint32_t dtype = 0;
  enum Spread { kEven, kSingle, kStrided } spread = kEven;
};
struct FusedNode {
  std::string_view function;  // of code/elementwise.h: "Add"; "Cast", "Select"
  std::vector<int> operands;  // a node's number, or -1 - that of an input
  uint32_t result = 0;
  float alpha = 0;
};
struct FusedKernel {
  std::vector<FusedInput> inputs;
  std::vector<FusedNode> nodes;  // each after its operands
  std::vector<int> outputs;      // numbers of nodes
};

inline constexpr char kFusedName[] = "fused";
std::string SourceOf(const FusedKernel& kernel);

// The C++ type of a dtype; "" when it is not one that is fused.
std::string_view FusedType(uint32_t dtype);
// The function that an op is, by the name in code/elementwise.h; "" when it is not one that is fused.
std::string_view FusedFunction(std::string_view op);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_SOURCE_H_
