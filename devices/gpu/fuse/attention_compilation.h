// SPDX-License-Identifier: Apache-2.0
// What compiling attention and compiling its gradients have in common: sizes, and where the kernels find the operands'
// elements.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_COMPILATION_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_COMPILATION_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "code/attention.h"
#include "device.h"
#include "fuse/attention_pattern.h"
#include "fuse/executable.h"

namespace tenon::gpu {

// One compilation, of one thread; the arguments outlive it. What kernels do not have is UNIMPLEMENTED.
class AttentionCompilation {
 public:
  AttentionCompilation(const tenon_compile_args& args, Device& device)
      : args_(args), cursor_(*args.cursor), services_(*cursor_.node_services), device_(device) {}

 protected:
  // What has rows: queries', keys' or a mask's.
  struct Operand {
    DimLabels labels;
    sdk::Dims dims;
    AttentionOperand* at;
    int rows;  // the label of rows
    bool is_whole = false;  // no dim of it is repeated
  };

  const tenon_tensor_view& View(const tenon_output& edge) const { return ViewOf(args_, edge); }
  sdk::Dims DimsAt(const tenon_output& edge) const { return sdk::DimsOf(View(edge)); }
  bool IsMember(int64_t id) const {
    return std::find(args_.nodes, args_.nodes + args_.node_count, id) != args_.nodes + args_.node_count;
  }
  DimsOfEdge DimsOfEdges() const;
  // The one node of the op in the set; -1: there is none.
  int64_t NodeOf(std::string_view op) const;
  int32_t PlaceOf(const tenon_output& edge) const;  // among the frame's inputs

  // Fills everything but addresses. operands: those that are not attention's own.
  AttentionParams Read(const AttentionPattern& of, const tenon_output& out, std::vector<Operand> operands = {});
  // Whether all rows of the operands begin at multiples of so many bytes, if the operands do: what has to be a multiple
  // of them, all bits together.
  static uint64_t RowBits(const AttentionParams& p, const std::vector<const AttentionOperand*>& operands);
  // "32", "64" or "128": by the longer heads.
  static int DepthOf(const AttentionParams& p);
  // Whether tensor cores compute: of halves, on the GPUs whose tensor cores we know.
  bool IsByCores(uint32_t dtype) const;
  Function FindCode(std::string_view name, int depth, uint32_t dtype) const;

  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  Device& device_;

 private:
  void ReadSizes(const AttentionPattern& of, const tenon_output& out);
  void Lay(const AttentionPattern& of, const std::vector<Operand>& operands, AttentionParams* p) const;
  DimLabels MaskLabels(const AttentionPattern& of) const;
  sdk::Dims MaskDims(const AttentionPattern& of) const { return of.mask.node < 0 ? sdk::Dims() : DimsAt(of.mask); }
  void CheckWhole(const DimLabels& labels, sdk::Dims dims, int label) const;

  std::map<int, int64_t> sizes_;  // by label
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_COMPILATION_H_
