// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

namespace tenon::cpu {

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
