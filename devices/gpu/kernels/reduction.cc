// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction.h"

#include <bit>
#include <vector>

#include "code/held.h"

namespace tenon::gpu {
namespace {

constexpr int64_t kThreads = kFlatThreads;
constexpr int64_t kBlocksOfProcessor = 8;  // that keep a GPU's memory busy
constexpr int64_t kShare = 4096;           // elements, before blocks share a row

int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }
uint32_t Blocks(int64_t wanted, int64_t most) { return static_cast<uint32_t>(std::clamp<int64_t>(wanted, 1, most)); }
// Results side by side in a block of columns: a warp's worth where there are so many, more where there is little to
// sum.
uint32_t ColumnsFor(int64_t outputs, int64_t inputs) {
  int64_t columns =
      outputs >= 32 ? 32 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(outputs, 1))));
  while (columns < kThreads && columns < outputs && kThreads / columns > inputs) columns *= 2;
  return static_cast<uint32_t>(columns);
}
Grid ColumnGrid(const CardFacts& facts, int64_t outputs, uint32_t columns, int64_t splits) {
  return {{Blocks(Quotient(outputs, columns), int64_t{facts.processors} * 64), static_cast<uint32_t>(splits), 1},
          kFlatThreads};
}

}  // namespace

uint32_t LanesFor(int64_t count, int64_t most_of_warp) {
  if (count > most_of_warp) return kFlatThreads;
  return static_cast<uint32_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(Quotient(count, 4), 1, 32))));
}
uint32_t LanesForPacks(const CardFacts& facts, int64_t rows, int64_t width, uint32_t dtype) {
  const auto packed = static_cast<int64_t>(16 / sdk::ElementSize(dtype));
  // Rows that begin anywhere stick out at both ends.
  const int64_t packs = width % packed == 0 ? width / packed : width / packed + 2;
  return LanesFor(4 * packs, 4 * int64_t{32} * (rows < facts.processors ? kFewHeld : kMostHeld));
}
Grid GroupGrid(const CardFacts& facts, int64_t items, uint32_t lanes) {
  return {{Blocks(Quotient(items, kFlatThreads / lanes), int64_t{facts.processors} * 64), 1, 1}, kFlatThreads};
}

sdk::ReduceShape AllBut(sdk::Dims dims, size_t channels) {
  std::vector<int64_t> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d != channels) axes.push_back(static_cast<int64_t>(d));
  }
  return sdk::ReduceShape(dims, axes.data(), TENON_DT_INT64, static_cast<int64_t>(axes.size()));
}

Reduction::Reduction(Shapes& s, const sdk::ReduceShape& shape, std::string_view name, uint32_t dtype) {
  static_assert(kMostWalkDims >= sdk::kMaxDims);
  shape_.outputs = shape.outputs;
  shape_.inputs = shape_.inputs_of_result = shape_.per_split = shape.inputs;
  shape_.splits = 1;
  if (shape.outputs == 0) return;
  std::array<int64_t, sdk::kMaxDims> strides = {};
  int64_t step = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = step;
    step *= shape.dims[static_cast<size_t>(d)];
  }
  for (size_t d = 0; d < static_cast<size_t>(shape.rank); ++d) {
    WalkShape& walk = shape.reduced[d] ? shape_.reduced : shape_.kept;
    walk.dims[walk.rank] = shape.dims[d];
    walk.strides[walk.rank++] = strides[d];
  }

  const CardFacts& facts = s.facts();
  const int64_t blocks = facts.processors * kBlocksOfProcessor;
  const auto split = [&](int64_t wanted, int64_t share, int64_t multiple) {
    const int64_t splits = std::clamp<int64_t>(std::min(wanted, Quotient(shape.inputs, share)), 1, 65535);
    if (splits == 1) return;
    shape_.per_split = Quotient(Quotient(shape.inputs, splits), multiple) * multiple;
    shape_.splits = Quotient(shape.inputs, shape_.per_split);
  };
  const bool rows = shape.rank == 0 || shape.reduced[static_cast<size_t>(shape.rank - 1)];
  if (rows) {
    shape_.lanes = LanesFor(shape.inputs);
    if (shape_.lanes == kFlatThreads) split(blocks / shape.outputs, kShare, kFlatThreads);
    grid_ = GroupGrid(facts, shape_.outputs * shape_.splits, shape_.lanes);
  } else {
    shape_.lanes = ColumnsFor(shape.outputs, shape.inputs);
    const int64_t rows_of_block = kThreads / shape_.lanes;
    split(blocks / Quotient(shape.outputs, shape_.lanes), 16 * rows_of_block, rows_of_block);
    grid_ = ColumnGrid(facts, shape.outputs, shape_.lanes, shape_.splits);
  }
  code_ = s.Code(sdk::Concat(name, rows ? "Rows" : "Columns"), dtype);
  if (shape_.splits == 1) return;
  partial_ = s.Workspace(sdk::Multiply(sdk::Multiply(shape_.outputs, shape_.splits), kPartialBytes));
  last_lanes_ = ColumnsFor(shape.outputs, shape_.splits);
  last_grid_ = ColumnGrid(facts, shape.outputs, last_lanes_, 1);
  last_ = s.Code(sdk::Concat(name, "Last"), dtype);
}

}  // namespace tenon::gpu
