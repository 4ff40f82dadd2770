// SPDX-License-Identifier: Apache-2.0
// A claim with its shapes, as a program.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_REGION_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_REGION_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "code/program.h"
#include "region/edge_moves.h"
#include "region/update.h"
#include "tenon/ext/draft/compile.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {

struct Region {
  Program program;
  std::vector<int32_t>
      sources;  // of the program's inputs: numbers among the frame's, where axes of reductions stand too
  std::vector<std::vector<int64_t>> shapes;  // of the program's inputs
  std::vector<int64_t> shape;                // of what is computed element by element
  std::vector<bool> of_row;                  // of nodes: the value has one element for each row
  size_t reduced = 0;                        // trailing dims that are a row; 0: there are no reductions
  bool is_whole = false;                     // reductions are of all elements, and nothing in the region reads them
  size_t leading = 0;  // leading dims that `columns` reduce; where there are rows too, those are what is left
  std::optional<RegionUpdate> update;  // what the region ends with; its scalars and then old values are the program's
                                       // last inputs, and new values its last outputs
  std::vector<Part> parts;                   // inputs that nodes at the edge take from something else
  std::vector<Target> targets;               // of the program's outputs that are not the update's
  std::vector<std::pair<int32_t, int32_t>> copies;  // parts, and outputs of the frame that are one and nothing else
  std::vector<size_t>
      columns;  // nodes that reduce the leading dims, one value for each column, which nothing in the region reads

  // Whether outputs are the frame's, one after the other.
  bool has_targets() const {
    return std::any_of(targets.begin(), targets.end(), [](const Target& target) { return target.stride != 0; });
  }
  int64_t total() const { return sdk::Count(shape); }
  int64_t row() const { return sdk::Count(sdk::Dims(shape).last(reduced)); }
  int64_t column_count() const { return sdk::Count(sdk::Dims(shape).subspan(leading)); }
};

// Fails with UNIMPLEMENTED where nodes do not fit together, their kernels would refuse something, or there are fewer
// than `least` elements.
Region ReadRegion(const tenon_compile_args& args, Level level, int64_t least);

// The dims of a reduction's axes, each of which stands once: how many of the last, which may be all, or of the first.
// Neither: they are others, or no axes.
struct ReducedDims {
  size_t trailing = 0, leading = 0;
};
ReducedDims DimsOfAxes(const tenon_tensor_view& axes, size_t rank);

// 2 or 3, where this is the exponent of a Pow that products compute; else 0.
int PowerOf(const tenon_tensor_view& exponent);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_REGION_H_
