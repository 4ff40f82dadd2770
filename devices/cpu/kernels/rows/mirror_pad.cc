// SPDX-License-Identifier: Apache-2.0
// MirrorPad and MirrorPadGrad, through a table a dim that says which inner element each outer one mirrors.
#include <algorithm>
#include <array>
#include <complex>

#include "kernels/common/string_copy.h"
#include "kernels/moves/strided_copy.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

class Mirror {
 public:
  // memory: room for outer's dims.
  Mirror(sdk::Dims inner, sdk::Dims outer, const View& paddings, bool reflect, int64_t* memory)
      : dims_(outer), total_(sdk::Count(outer)), table_(memory) {
    CheckRank(inner);
    std::array<int64_t, kMaxRank> strides = {};
    FillStrides(inner, strides);
    for (size_t d = 0; d < inner.size(); ++d) {
      const int64_t row = static_cast<int64_t>(2 * d);
      const int64_t before = IndexAt(sdk::Data<void>(paddings), paddings.dtype, row);
      const int64_t after = IndexAt(sdk::Data<void>(paddings), paddings.dtype, row + 1);
      const int64_t limit = inner[d] - (reflect ? 1 : 0);
      if (before < 0 || after < 0 || before > limit || after > limit ||
          sdk::Add(sdk::Add(before, inner[d]), after) != outer[d]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "paddings ", before, " and ", after, " of dim ", static_cast<int64_t>(d),
                  " must be ", reflect ? "less than" : "no greater than", " its ", inner[d], " elements");
      }
      before_ = before, middle_ = inner[d];
      memory = Fill(memory, before, inner[d], outer[d], reflect ? 1 : 0, strides[d]);
    }
  }
  static int64_t Bytes(sdk::Dims outer) {
    int64_t sum = 0;
    for (int64_t dim : outer) sum = sdk::Add(sum, dim);
    return sdk::Multiply(sum, sizeof(int64_t));
  }

  // function(outer, inner, count) for every run of outer elements in order, whose inner ones lie side by side too.
  template <class Function>
  void ForEach(Function&& function) const {
    if (total_ == 0) return;
    if (dims_.empty()) return function(int64_t{0}, int64_t{0}, int64_t{1});
    const size_t last = dims_.size() - 1;
    for (int64_t i = 0; i < total_; i += dims_[last]) {
      int64_t base = 0, rest = i / dims_[last];
      const int64_t* table = table_ + Entries();
      const int64_t* row = table -= dims_[last];
      for (size_t d = last; d-- > 0;) {
        table -= dims_[d];
        base += table[rest % dims_[d]];
        rest /= dims_[d];
      }
      for (int64_t k = 0; k < before_; ++k) function(i + k, base + row[k], int64_t{1});
      if (middle_ != 0) function(i + before_, base, middle_);
      for (int64_t k = before_ + middle_; k < dims_[last]; ++k) function(i + k, base + row[k], int64_t{1});
    }
  }

 private:
  int64_t Entries() const { return Bytes(dims_) / static_cast<int64_t>(sizeof(int64_t)); }
  static int64_t* Fill(int64_t* at, int64_t before, int64_t inner, int64_t outer, int64_t overlap, int64_t stride) {
    for (int64_t i = 0; i < outer; ++i) {
      int64_t p = i - before;
      if (p < 0) p = overlap - 1 - p;
      if (p >= inner) p = 2 * inner - 1 - overlap - p;
      *at++ = p * stride;
    }
    return at;
  }
  sdk::Dims dims_;
  int64_t total_;
  int64_t before_ = 0, middle_ = 0;  // of the last dim
  int64_t* table_;                   // dim after dim
};

struct MirrorKernel {
  explicit MirrorKernel(sdk::CreateContext& c) : reflect(c.String("mode") == "REFLECT") {}
  bool reflect;
};

struct MirrorPadKernel : MirrorKernel {
  using MirrorKernel::MirrorKernel;
  struct Plan {
    Plan(const MirrorPadKernel&, sdk::PrepareContext& c) { c.Workspace(Mirror::Bytes(sdk::DimsOf(c.output(0)))); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const Mirror mirror(sdk::DimsOf(c.input_view(0)), sdk::DimsOf(c.output_view(0)), c.input_view(1), reflect,
                        c.workspace<int64_t>());
    DispatchSize(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* from = c.input<T>(0);
      T* to = c.output<T>(0);
      mirror.ForEach(
          [&](int64_t outer, int64_t inner, int64_t count) { std::copy_n(from + inner, count, to + outer); });
    });
  }
};

using Added =
    Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

struct MirrorPadGradKernel : MirrorKernel {
  using MirrorKernel::MirrorKernel;
  struct Plan {
    Plan(const MirrorPadGradKernel&, sdk::PrepareContext& c) { c.Workspace(Mirror::Bytes(sdk::DimsOf(c.input(0)))); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    switch (c.input_view(0).dtype) {
      case TENON_DT_COMPLEX64: return Typed<std::complex<float>>(c);
      case TENON_DT_COMPLEX128: return Typed<std::complex<double>>(c);
      default: Added::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(c); });
    }
  }
  template <class T>
  void Typed(sdk::RunContext c) const {
    const Mirror mirror(sdk::DimsOf(c.output_view(0)), sdk::DimsOf(c.input_view(0)), c.input_view(1), reflect,
                        c.workspace<int64_t>());
    const T* from = c.input<T>(0);
    T* to = c.output<T>(0);
    std::fill_n(to, sdk::Count(c.output_view(0)), T(0));
    mirror.ForEach([=](int64_t outer, int64_t inner, int64_t count) {
      if (count == 1) {
        to[inner] = sdk::AddOrSubtract<false>(to[inner], from[outer]);
        return;
      }
#pragma GCC ivdep
      for (int64_t k = 0; k < count; ++k) to[inner + k] = sdk::AddOrSubtract<false>(to[inner + k], from[outer + k]);
    });
  }
};

using AddedConstraint =
    sdk::Allowed<"T", TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_HALF, TENON_DT_BFLOAT16,
                 TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32, TENON_DT_UINT64,
                 TENON_DT_COMPLEX64, TENON_DT_COMPLEX128>;

}  // namespace

TENON_CPU_KERNEL(MirrorPad) = CpuKernel<MirrorPadKernel>("MirrorPad",
                                                         {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});
TENON_CPU_KERNEL(MirrorPadString) = CpuStringKernel<MirrorPadKernel>("MirrorPad");
TENON_CPU_KERNEL(MirrorPadGrad) =
    CpuKernel<MirrorPadGradKernel>("MirrorPadGrad", {.constraints = sdk::Constraints<AddedConstraint>::list});

}  // namespace tenon::cpu
