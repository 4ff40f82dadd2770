// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/elementwise.h"

#include <cstring>

namespace tenon::cpu {
namespace {

// The operand that is one short row for all rows of the other, such as a number for each channel of a picture: 0 or 1;
// -1: there is none.
int RepeatedRow(const Broadcast<2>& shape) {
  if (shape.rank != 1 || shape.inner_stride[0] != 1 || shape.inner_stride[1] != 1) return -1;
  for (const int small : {0, 1})
    if (shape.strides[static_cast<size_t>(small)][0] == 0 &&
        shape.strides[static_cast<size_t>(1 - small)][0] == shape.inner)
      return small;
  return -1;
}

// Rows that are too short for vectors are done many at once, beside as many copies of the operand that is the same for
// all.
constexpr int64_t kTileBytes = 2048;

template <class Row>
void RunTiles(const sdk::RunContext& c, const char* row, int64_t inner, int64_t total, const RowSizes& sizes,
              const Row& run) {
  const int64_t tile = kTileBytes / sizes.input / inner * inner;
  c.ParallelFor(total, sizes.cost, [&](int64_t begin, int64_t end) {
    alignas(64) char repeated[2 * kTileBytes];
    const int64_t first = begin % inner;  // in the row, where the share begins
    for (int64_t at = 0; at < tile + inner; at += inner)
      std::memcpy(repeated + at * sizes.input, row, static_cast<size_t>(inner * sizes.input));
    for (int64_t at = begin; at < end; at += tile) run(repeated + first * sizes.input, at, std::min(tile, end - at));
  });
}

}  // namespace

void RunUnary(sdk::RunContext c, UnaryRow row, const void* op, int64_t count, const RowSizes& sizes) {
  const char* x = c.input<char>(0);
  char* out = c.output<char>(0);
  c.ParallelFor(count, sizes.cost, [&](int64_t begin, int64_t end) {
    row(op, x + begin * sizes.input, out + begin * sizes.output, end - begin);
  });
}

void RunBinary(sdk::RunContext c, BinaryRow row, const void* op, const Broadcast<2>& shape, const RowSizes& sizes) {
  const char* x = c.input<char>(0);
  const char* y = c.input<char>(1);
  char* out = c.output<char>(0);
  const int64_t stride_x = shape.inner_stride[0];
  const int64_t stride_y = shape.inner_stride[1];
  const int repeated = shape.inner < 64 ? RepeatedRow(shape) : -1;
  if (repeated >= 0 && shape.inner * sizes.input * 4 <= kTileBytes && shape.total >= 8 * shape.inner) {
    return RunTiles(c, repeated == 0 ? x : y, shape.inner, shape.total, sizes,
                    [&](const char* tile, int64_t at, int64_t n) {
                      row(op, repeated == 0 ? tile : x + at * sizes.input, repeated == 1 ? tile : y + at * sizes.input,
                          out + at * sizes.output, n, 1, 1);
                    });
  }
  c.ParallelFor(shape.total, sizes.cost, [&](int64_t begin, int64_t end) {
    if (shape.rank == 0) {
      row(op, x + stride_x * begin * sizes.input, y + stride_y * begin * sizes.input, out + begin * sizes.output,
          end - begin, stride_x, stride_y);
      return;
    }
    shape.ForEachRow(begin, end, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
      row(op, x + at[0] * sizes.input, y + at[1] * sizes.input, out + to * sizes.output, n, stride_x, stride_y);
    });
  });
}

}  // namespace tenon::cpu
