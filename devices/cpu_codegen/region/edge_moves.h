// SPDX-License-Identifier: Apache-2.0
// What stands at the edges of a chain and only moves elements: slices, splits and gathers before it, whose results are
// read where they lie, and concatenations behind it, into which results are written.
//
// Both are rows of elements that lie one after the other. Row r of a slice or of a concatenation's part is `stride`
// bytes behind row r - 1. Row r of a gather is a row of the table, which the index names: indices are read once in a
// run, checked as the kernel does it, and kept as pointers in the workspace before anything is computed.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_EDGE_MOVES_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_EDGE_MOVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/graph.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {

enum class EdgeOp : uint8_t { kNone, kSplit, kSplitV, kUnpack, kSlice, kStridedSlice, kGather, kConcat };
EdgeOp EdgeOpOf(std::string_view op);
// Whether its outputs are parts of what it reads, or rows of it.
inline bool IsPartOp(EdgeOp op) { return op != EdgeOp::kNone && op != EdgeOp::kConcat; }
// The input whose elements they are (of ResourceGather the variable).
inline int32_t ValueOf(EdgeOp op) { return op == EdgeOp::kSplit ? 1 : 0; }
// Whether input i is to be constant: where a part begins, and how long it is.
bool IsArgument(EdgeOp op, std::string_view name, int32_t i);

// Shorter rows are not worth calls of their own.
inline constexpr int64_t kLeastEdgeRow = 16;
inline constexpr int32_t kMostConcatenated = 8;

// Elements of a row of one of the values that a concatenation puts side by side; -1: dims that the graph does not know,
// which are negative.
int64_t RowOfConcatenated(sdk::Dims own, sdk::Dims whole);

// Rows by index.
struct Gather {
  int32_t table = 0, indices = 0;  // numbers of the frame's inputs
  bool is_variable = false;        // the table is a resource
  uint32_t dtype = 0;              // of elements
  std::vector<int64_t> dims;       // of the rows that are read, with those of the indices
  int64_t row_bytes = 0, rows = 0;
  int64_t workspace = 0;  // where the pointers of rows begin
  std::string name;       // of the node, for failures

  // Writes the pointers. Fails as the kernel does.
  void ListRows(const sdk::RunContext& c) const;
};

// An input of a program that is a part of something else.
struct Part {
  int32_t input = 0;    // of the program
  int64_t size = 0;     // bytes of an element
  int64_t row = 0;      // elements of a row
  int64_t stride = 0;   // bytes from row to row; not of gathers
  int64_t offset = 0;   // bytes before the first
  std::optional<Gather> gather;
  bool is_one_row = false;  // all of its elements are one
  bool is_listed = false;   // the code is given the pointers of rows

  // From the first element of a slice to this one, the first of a row or not.
  int64_t BytesTo(int64_t element) const { return element / row * stride + element % row * size; }
  // base: where the first element lies, or the pointers of rows.
  char* At(char* base, int64_t element) const {
    return gather ? reinterpret_cast<char* const*>(base)[element / row] + element % row * size
                  : base + BytesTo(element);
  }
};

inline constexpr int64_t kPointer = sizeof(char*);

// An output of a program: where in which of the frame's outputs its rows are.
struct Target {
  int32_t output = 0;
  int64_t row = 0, stride = 0, offset = 0;  // as a part's; stride 0: all of the output, element after element
};

// The part that the node's output `index` is: of all that the node reads (data NULL: not constant), and the shapes of
// its outputs. Of gathers shape and name alone. Fails with UNIMPLEMENTED where rows do not lie evenly, or the kernel
// would refuse it.
Part PartOf(EdgeOp op, const tenon_node_services& services, const tenon_node* node, int32_t index,
            const std::vector<const tenon_tensor_view*>& inputs, const std::vector<sdk::Dims>& outputs);

// Elements of the part, one after the other.
void CopyPart(const sdk::RunContext& c, const Part& part, char* base, int64_t count, char* to);

// The trailing dims that are a row of so many elements.
std::vector<int64_t> DimsOfRow(const std::vector<int64_t>& shape, int64_t row);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_EDGE_MOVES_H_
