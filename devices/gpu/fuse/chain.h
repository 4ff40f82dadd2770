// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes of one shape as one kernel, and what chains with sums of rows (rows.h) have in common
// with them.
#ifndef TENON_DEVICES_GPU_FUSE_CHAIN_H_
#define TENON_DEVICES_GPU_FUSE_CHAIN_H_

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device.h"
#include "fuse/executable.h"
#include "fuse/source.h"

namespace tenon::gpu {

struct ChainExecutable final : Executable {
  void Run(const tenon_frame& frame) const override;
  Function code = nullptr;
  int64_t total = 0;           // FusedParams::total
  int pack = 1;                // elements that a thread takes at a time
  std::optional<Grid> grid{};  // else one over the packs
  std::vector<int32_t> inputs;  // of the frame, those that the kernel takes
  std::vector<bool> is_packed;  // of these
};

// What the values of a compilation's edges are called in a kernel's source: a node's number, or -1 - that of an input.
using OperandNames = std::map<std::pair<int64_t, int32_t>, int>;
FusedNode ReadNode(const tenon_compile_args& args, int64_t id, const OperandNames& names);
// The inputs of the set that kernels read, by their numbers. UNIMPLEMENTED where kernels do not take so many, or do not
// give so many outputs, and for one that the host's memory has too.
std::vector<int32_t> InputsRead(const tenon_compile_args& args);
// Inputs that lie evenly beside an output of the same size may lie where it does. outputs: types.
void AddInPlace(const std::vector<FusedInput>& inputs, const std::vector<uint32_t>& outputs, ChainExecutable* made);

std::unique_ptr<Executable> MakeChain(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_CHAIN_H_
