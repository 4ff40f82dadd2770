// SPDX-License-Identifier: Apache-2.0
// Roll, Bitcast, InplaceUpdate, InplaceAdd and InplaceSub.
#include <array>
#include <cstring>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"
#include "kernels/common/vector.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

// Each line of the last dim that moves, with all dims behind it, is two runs of memory.
struct RollKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    const tenon_tensor_view &shifts = c.input_view(1), &axes = c.input_view(2);
    const auto rank = static_cast<int64_t>(dims.size());
    if (rank < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "input must be 1-D or higher");
    if (shifts.dl.ndim != axes.dl.ndim || sdk::Count(shifts) != sdk::Count(axes))
      sdk::Fail(TENON_INVALID_ARGUMENT, "shift and axis must have the same size");
    std::array<int64_t, TENON_MAX_RANK> moved = {};  // by how much, in [0, dim)
    int64_t last = -1;
    for (int64_t i = 0; i < sdk::Count(axes); ++i) {
      const int64_t given = sdk::ValueAt(axes, i), axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", given, " is out of range");
      const int64_t dim = std::max<int64_t>(dims[static_cast<size_t>(axis)], 1);
      int64_t& sum = moved[static_cast<size_t>(axis)];
      sum = (sum + sdk::ValueAt(shifts, i) % dim + dim) % dim;
    }
    for (int64_t axis = 0; axis < rank; ++axis)
      if (moved[static_cast<size_t>(axis)] != 0) last = axis;
    const int64_t count = sdk::Count(dims);
    if (count == 0) return;
    const int64_t line = last < 0 ? count : sdk::Count(dims.subspan(static_cast<size_t>(last)));
    sdk::DispatchSize(c.output_view(0).dtype, [&]<class T>(sdk::Tag<T>) {
      const T* const from = c.input<T>(0);
      const int64_t first = last < 0 ? 0 : moved[static_cast<size_t>(last)] * (line / dims[static_cast<size_t>(last)]);
      c.ParallelFor(count / line, 5 + 0.05 * static_cast<double>(line) * sizeof(T), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          // Where line i of the input stands in the output.
          int64_t rest = i, to = 0, stride = 1;
          for (int64_t axis = last - 1; axis >= 0; --axis) {
            const int64_t dim = dims[static_cast<size_t>(axis)];
            to += (rest % dim + moved[static_cast<size_t>(axis)]) % dim * stride;
            rest /= dim;
            stride *= dim;
          }
          T* const out = c.output<T>(0) + to * line;
          CopyBytes(out + first, from + i * line, (line - first) * static_cast<int64_t>(sizeof(T)));
          if (first != 0) CopyBytes(out, from + (i + 1) * line - first, first * static_cast<int64_t>(sizeof(T)));
        }
      });
    });
  }
};

// The engine gives the output the input's memory, and never runs this.
struct BitcastKernel {
  void Run(sdk::RunContext c) const {
    const uint64_t bytes = c.output_view(0).byte_size;
    if (bytes != c.input_view(0).byte_size)
      sdk::Fail(TENON_INVALID_ARGUMENT, "a tensor of ", c.input_view(0).byte_size, " bytes is no tensor of ", bytes);
    if (bytes != 0) std::memcpy(c.output<void>(0), c.input<void>(0), bytes);
  }
};

// How rows of x become others; those that are named are counted around.
template <class Change>
void ForEachRow(sdk::RunContext c, const Change& change) {
  const sdk::Dims x = sdk::DimsOf(c.input_view(0)), v = sdk::DimsOf(c.input_view(2)),
                  places = sdk::DimsOf(c.input_view(1));
  if (places.size() != 1) sdk::Fail(TENON_INVALID_ARGUMENT, "i must be a vector; its shape is ", places);
  if (x.empty() || x.size() != v.size() || v[0] != places[0] || !std::equal(x.begin() + 1, x.end(), v.begin() + 1))
    sdk::Fail(TENON_INVALID_ARGUMENT, "v must be rows of x, one for each of i; the shapes of x, i and v are ", x, ", ",
              places, " and ", v);
  const int64_t rows = x[0], width = sdk::Count(x.subspan(1));
  if (rows == 0 || width == 0) return;
  sdk::CancelPoll poll(c);
  for (int64_t i = 0; i < places[0]; ++i) {
    const int64_t row = (c.input<int32_t>(1)[i] % rows + rows) % rows;
    change(row * width, i * width, width);
    poll(1 + width / 4);
  }
}
template <class T>
T* CopyOfX(sdk::RunContext c) {
  T *from = const_cast<T*>(c.input<T>(0)), *to = c.output<T>(0);
  if (from != to && c.output_view(0).byte_size != 0)
    std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(sdk::Count(c.input_view(0))) * sizeof(T));
  return to;
}

struct InplaceUpdateKernel {
  void Run(sdk::RunContext c) const {
    sdk::DispatchSize(c.input_view(0).dtype, [&]<class T>(sdk::Tag<T>) {
      T* const y = CopyOfX<T>(c);
      ForEachRow(c, [&](int64_t to, int64_t from, int64_t width) { std::copy_n(c.input<T>(2) + from, width, y + to); });
    });
  }
};

template <bool kSubtract>
struct InplaceAddKernel {
  void Run(sdk::RunContext c) const {
    sdk::UpdateTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(sdk::Tag<T>) {
      T* const y = CopyOfX<T>(c);
      ForEachRow(c, [&](int64_t to, int64_t from, int64_t width) {
        for (int64_t k = 0; k < width; ++k)
          y[to + k] = sdk::AddOrSubtract<kSubtract>(y[to + k], c.input<T>(2)[from + k]);
      });
    });
  }
};

constexpr sdk::Traits kView = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list,
                               .in_place = kInPlaceFirst,
                               .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_VIEW};
constexpr sdk::Traits kPlainInPlace = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list,
                                       .in_place = kInPlaceFirst};
constexpr sdk::Traits kNumbersInPlace = {.constraints = sdk::Constraints<sdk::UpdateTypes::Constraint<"T">>::list,
                                         .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(Roll) = CpuKernel<RollKernel>("Roll", kPlain);
TENON_CPU_KERNEL(RollString) = CpuStringKernel<RollKernel>("Roll");
TENON_CPU_KERNEL(Bitcast) = CpuKernel<BitcastKernel>("Bitcast", kView);
TENON_CPU_KERNEL(InplaceUpdate) = CpuKernel<InplaceUpdateKernel>("InplaceUpdate", kPlainInPlace);
TENON_CPU_KERNEL(InplaceUpdateString) = CpuStringKernel<InplaceUpdateKernel>("InplaceUpdate");
TENON_CPU_KERNEL(InplaceAdd) = CpuKernel<InplaceAddKernel<false>>("InplaceAdd", kNumbersInPlace);
TENON_CPU_KERNEL(InplaceSub) = CpuKernel<InplaceAddKernel<true>>("InplaceSub", kNumbersInPlace);

}  // namespace tenon::cpu
