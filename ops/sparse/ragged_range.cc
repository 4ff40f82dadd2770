// SPDX-License-Identifier: Apache-2.0
// RaggedRange: a row of numbers for each start, limit and step.
#include <cmath>

#include "splits.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using Ranged = Types<Bfloat16, float, double, int32_t, int64_t>;

// How many numbers there are from start on before limit.
template <class T>
int64_t SizeOf(T start, T limit, T step, int64_t row) {
  if constexpr (std::is_integral_v<T>) {
    if (step == 0) Fail(TENON_INVALID_ARGUMENT, "Requires delta != 0; it is 0 in row ", row);
    if (step > 0 ? limit <= start : limit >= start) return 0;
    // As unsigned: the distance of two int64 may be no int64.
    const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
    const uint64_t distance = step > 0 ? to - from : from - to,
                   width = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const uint64_t size = (distance - 1) / width + 1;
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      Fail(TENON_INVALID_ARGUMENT, "row ", row, " would have ", size, " numbers");
    return static_cast<int64_t>(size);
  } else {
    const auto first = static_cast<double>(start), last = static_cast<double>(limit), width = static_cast<double>(step);
    if (width == 0) Fail(TENON_INVALID_ARGUMENT, "Requires delta != 0; it is 0 in row ", row);
    if ((width > 0 && last < first) || (width < 0 && last > first)) return 0;
    const auto steps = static_cast<double>(std::ceil(std::abs(static_cast<T>(static_cast<T>(limit - start) / step))));
    if (!(steps < 0x1p63))
      Fail(TENON_INVALID_ARGUMENT, "row ", row, " would have ", std::to_string(steps),
           " numbers: Requires ((limit - start) / delta) <= ", std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(steps);
  }
}

struct RaggedRange {
  explicit RaggedRange(CreateContext& c) : dtype(c.Type("T")), splits_dtype(c.Type("Tsplits")) {}
  void Run(RunContext c) const {
    int64_t rows = -1;
    for (int32_t i = 0; i < 3; ++i) {
      const Dims dims = DimsOf(c.input_view(i));
      if (dims.empty()) continue;
      if (rows >= 0 && dims[0] != rows)
        Fail(TENON_INVALID_ARGUMENT, "starts, limits, and deltas must have the same shape; there are ", rows, " and ",
             dims[0]);
      rows = dims[0];
    }
    if (rows < 0) rows = 1;
    Ranged::Dispatch(dtype, [&]<class T>(Tag<T>) {
      const auto at = [&c](int32_t input, int64_t row) {
        return c.input<T>(input)[DimsOf(c.input_view(input)).empty() ? 0 : row];
      };
      int64_t total = 0;
      {
        sparse::SplitsWriter splits(c, 0, splits_dtype, rows);
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t size = SizeOf<T>(at(0, row), at(1, row), at(2, row), row);
          splits.Add(size);
          total = Add(total, size);
        }
      }
      const int64_t dims[] = {total};
      c.AllocOutput(1, dims);
      T* out = c.output<T>(1);
      CancelPoll poll(c);
      for (int64_t row = 0; row < rows; ++row) {
        T value = at(0, row);
        for (int64_t i = SizeOf<T>(at(0, row), at(1, row), at(2, row), row); i > 0; --i, poll()) {
          *out++ = value;
          // The one behind the last may be beyond the type's numbers.
          if constexpr (std::is_integral_v<T>)
            value = static_cast<T>(static_cast<std::make_unsigned_t<T>>(value) +
                                   static_cast<std::make_unsigned_t<T>>(at(2, row)));
          else value = static_cast<T>(value + at(2, row));
        }
      }
    });
  }
  uint32_t dtype, splits_dtype;
};

void RaggedRangeShape(ShapeContext& c) {
  int64_t rows = kUnknown;
  bool known = true, vectors = false;
  for (int i = 0; i < 3; ++i) {
    const Shape shape = c.WithRankAtMost(i, 1);
    known = known && shape.known_rank();
    vectors = vectors || shape.rank() == 1;
    if (shape.rank() == 1) rows = c.Merge(rows, shape[0], "the numbers of starts, limits and deltas");
  }
  if (known && !vectors) rows = 1;
  c.SetOutput(0, {rows < 0 ? kUnknown : c.Add(rows, 1)});
  c.SetOutput(1, {kUnknown});
}

}  // namespace

TENON_KERNEL(kRaggedRangeKernel) = Registration<RaggedRange>("RaggedRange", {.dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kRaggedRange) = DefineOp({
    .name = "RaggedRange",
    .inputs = "starts: T, limits: T, deltas: T",
    .outputs = "rt_nested_splits: Tsplits, rt_dense_values: T",
    .attrs = "T: {bfloat16, float, double, int32, int64} = int32; Tsplits: {int32, int64} = int64",
    .constraints = "rank(starts) <= 1; rank(limits) <= 1; rank(deltas) <= 1",
    .doc = "A row of numbers from start on, by delta, before limit, for each; a scalar holds for all rows.",
    .shape = ShapeFunction<RaggedRangeShape>,
});

}  // namespace tenon::ops
