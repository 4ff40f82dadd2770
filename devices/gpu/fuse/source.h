// SPDX-License-Identifier: Apache-2.0
// The source of a kernel that computes a set of element-wise nodes in one pass.
//
// Every value in between is rounded to its type, as the nodes' own kernels do: the numbers are the same. A thread takes
// packs of up to 16 bytes, and loads all that it needs of one before it stores. Of shapes it knows by which sizes it
// divides to find the elements of inputs that are broadcast: one kernel serves all sizes of the slowest dim, and all
// shapes where nothing is.
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
  int64_t step = 0;                // of a strided one: along a row
  std::vector<int64_t> strides{};  // and along the outer dims
};
struct FusedNode {
  std::string_view function;  // of code/elementwise.h: "Add"; "Cast", "Select", "AddN", "Same"
  std::vector<int> operands;  // a node's number, or -1 - that of an input
  uint32_t result = 0;
  float alpha = 0;
};
struct FusedKernel {
  std::vector<FusedInput> inputs;
  std::vector<FusedNode> nodes;  // each after its operands
  std::vector<int> outputs;      // numbers of nodes
  // Where there are strided inputs: rows of `inner` elements, in outer dims, slowest first.
  int64_t inner = 1;
  std::vector<int64_t> dims{};
  bool wide = false;  // 32 bits do not number the elements
};
// Elements of a pack: as many as make 16 bytes of the largest type, eight at most.
int PackOf(const FusedKernel& kernel);
// Whether the input is loaded as packs.
bool IsPacked(const FusedKernel& kernel, const FusedInput& input);

inline constexpr char kFusedName[] = "fused";
// "  const <type> v<number> = ...;": what a node makes of its operands, v<number> of nodes and i<number> of inputs.
std::string Compute(const FusedNode& node, size_t number);
// The name of an operand.
std::string Operand(int number);
std::string SourceOf(const FusedKernel& kernel);

// The C++ type of a dtype; "" when it is not one that is fused.
std::string_view FusedType(uint32_t dtype);
// How many of an op's inputs, the first, are read by kernels; the others lie in the host's memory and are known: axes,
// shapes.
int32_t OperandsOf(std::string_view op, int32_t inputs);
// The function that an op is, by the name in code/elementwise.h; "" when it is not one that is fused.
std::string_view FusedFunction(std::string_view op);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_SOURCE_H_
