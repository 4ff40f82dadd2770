// SPDX-License-Identifier: Apache-2.0
// Select, SelectV2, Where, OneHot.
#include <algorithm>

#include "kernels/common/string_copy.h"
#include "kernels/moves/strided_copy.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {
namespace {

using sdk::Broadcast;

// Strides of t and e are 0 or 1; out may be the memory of one of them. Both are read whatever the condition is, and
// that as bytes: otherwise the compiler makes branches, which are guessed wrong half of the time.
template <class T>
void ChooseRow(const bool* condition, const T* t, const T* e, T* out, int64_t n, int64_t t_stride, int64_t e_stride) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(condition);
  const auto choose = [&](auto then, auto otherwise) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T yes = then(i), no = otherwise(i);
      out[i] = bytes[i] != 0 ? yes : no;
    }
  };
  const auto each = [](const T* x) { return [x](int64_t i) { return x[i]; }; };
  const auto same = [](const T* x) { return [value = *x](int64_t) { return value; }; };
  if (t_stride == 1 && e_stride == 1) return choose(each(t), each(e));
  if (t_stride == 1) return choose(each(t), same(e));
  if (e_stride == 1) return choose(same(t), each(e));
  choose(same(t), same(e));
}

template <class T>
void CopyRow(const T* x, T* out, int64_t n, int64_t stride) {
  if (stride == 0) {
    std::fill_n(out, n, *x);
  } else if (x != out) {
    std::copy_n(x, n, out);
  }
}

// Equal shapes; the condition has the same shape, or is a scalar, or a vector that chooses rows.
struct SelectKernel {
  struct Plan {
    Plan(const SelectKernel&, sdk::PrepareContext& c) {
      const sdk::Dims cond = sdk::DimsOf(c.input(0)), t = sdk::DimsOf(c.input(1)), e = sdk::DimsOf(c.input(2));
      if (!std::equal(t.begin(), t.end(), e.begin(), e.end())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "'then' of shape ", t, " and 'else' of shape ", e, " must have one shape");
      }
      count = sdk::Count(t);
      if (std::equal(cond.begin(), cond.end(), t.begin(), t.end())) {
        width = 1;
      } else if (cond.empty()) {
        width = count;
      } else if (cond.size() == 1 && !t.empty() && cond[0] == t[0]) {
        width = sdk::Count(t.subspan(1));
      } else {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a condition of shape ", cond, " does not choose from shape ", t);
      }
    }
    int64_t count, width;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.count == 0) return;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const bool* cond = c.input<bool>(0);
      const T* t = c.input<T>(1);
      const T* e = c.input<T>(2);
      T* out = c.output<T>(0);
      const int64_t width = plan.width;
      if (width == 1) {
        c.ParallelFor(plan.count, 0.05 * sizeof(T), [&](int64_t begin, int64_t end) {
          ChooseRow(cond + begin, t + begin, e + begin, out + begin, end - begin, 1, 1);
        });
        return;
      }
      c.ParallelFor(plan.count / width, static_cast<double>(width) * 0.05 * sizeof(T), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) CopyRow((cond[r] ? t : e) + r * width, out + r * width, width, 1);
      });
    });
  }
};

struct SelectV2Kernel {
  struct Plan {
    Plan(const SelectV2Kernel&, sdk::PrepareContext& c)
        : shape({sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.input(2))}, sdk::DimsOf(c.output(0))) {
    }
    Broadcast<3> shape;
  };
  sdk::Tile TileOf(std::span<const uint32_t>, uint32_t output) const {
    sdk::Tile tile;
    if (const uint64_t size = sdk::ElementSize(output); output != TENON_DT_STRING && size != 0)
      DispatchSize(output, [&]<class T>(Tag<T>) { tile = {&Piece<T>, nullptr, 0.05 * sizeof(T)}; });
    return tile;
  }
  template <class T>
  static void Piece(const void*, const void* const* inputs, const int64_t* strides, void* out, int64_t n) {
    const bool* cond = static_cast<const bool*>(inputs[0]);
    const T* t = static_cast<const T*>(inputs[1]);
    const T* e = static_cast<const T*>(inputs[2]);
    if (strides[0] == 1) return ChooseRow(cond, t, e, static_cast<T*>(out), n, strides[1], strides[2]);
    CopyRow(*cond ? t : e, static_cast<T*>(out), n, *cond ? strides[1] : strides[2]);
  }
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Broadcast<3>& s = plan.shape;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const bool* cond = c.input<bool>(0);
      const T* t = c.input<T>(1);
      const T* e = c.input<T>(2);
      T* out = c.output<T>(0);
      const int64_t sc = s.inner_stride[0], st = s.inner_stride[1], se = s.inner_stride[2];
      c.ParallelFor(s.total, 0.05 * sizeof(T), [&](int64_t begin, int64_t end) {
        s.ForEachRow(begin, end, [&](const std::array<int64_t, 3>& at, int64_t to, int64_t n) {
          if (sc == 1) {
            ChooseRow(cond + at[0], t + at[1], e + at[2], out + to, n, st, se);
          } else {
            const bool yes = cond[at[0]];
            CopyRow(yes ? t + at[1] : e + at[2], out + to, n, yes ? st : se);
          }
        });
      });
    });
  }
};

// Coordinates of what is not zero, row-major.
using WhereTypes = Numbers::And<bool>::AndComplex;
struct WhereKernel {
  void Run(sdk::RunContext c) const {
    WhereTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
      CheckRank(dims);
      int64_t n = sdk::Count(dims);
      int64_t found = 0;
      sdk::CancelPoll poll(c);
      for (int64_t begin = 0; begin < n; begin += kBlock, poll(kBlock / 4)) {
        for (int64_t i = begin; i < std::min(n, begin + kBlock); ++i) found += Nonzero(x[i]) ? 1 : 0;
      }
      const int64_t shape[2] = {found, static_cast<int64_t>(dims.size())};
      c.AllocOutput(0, shape);
      while (n > 0 && !Nonzero(x[n - 1])) --n;
      if (n == 0 || found == 0) return;
      int64_t* out = c.output<int64_t>(0);
      switch (dims.size()) {
        case 1: return Find<1>(poll, x, n, dims, out, found);
        case 2: return Find<2>(poll, x, n, dims, out, found);
        case 3: return Find<3>(poll, x, n, dims, out, found);
        default: return Find<0>(poll, x, n, dims, out, found);
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 4096;
  template <class T>
  static bool Nonzero(T x) {
    return static_cast<Wide<T>>(x) != Wide<T>(0);
  }
  // kRank dims, or any number of them if it is 0. Every place is written down, and the next one over it where this was
  // zero: no branch. `found` were not zero when they were counted. What is counted may be a variable that another step
  // writes meanwhile: so no more than that are written.
  template <size_t kRank, class T>
  static void Find(sdk::CancelPoll& poll, const T* x, int64_t n, sdk::Dims dims, int64_t* out, int64_t found) {
    const size_t rank = kRank == 0 ? dims.size() : kRank;
    const int64_t* const last = out + (found - 1) * static_cast<int64_t>(rank);
    std::array<int64_t, kMaxRank> at = {};
    for (int64_t i = 0; i < n;) {
      const int64_t columns = rank == 0 ? 1 : std::min(dims[rank - 1], n - i);
      for (int64_t begin = 0; begin < columns; begin += kBlock) {
        const int64_t end = std::min(columns, begin + kBlock);
        poll(end - begin);
        for (int64_t column = begin; column < end; ++column, ++i) {
          for (size_t d = 0; d + 1 < rank; ++d) out[d] = at[d];
          if (rank > 0) out[rank - 1] = column;
          out += Nonzero(x[i]) && out != last ? rank : 0;
        }
      }
      for (size_t d = rank; d > 1 && ++at[d - 2] == dims[d - 2]; --d) at[d - 2] = 0;
    }
  }
};

struct OneHotKernel {
  explicit OneHotKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  void Run(sdk::RunContext c) const {
    const View& indices = c.input_view(0);
    const sdk::Dims in = sdk::DimsOf(indices), out_dims = sdk::DimsOf(c.output_view(0));
    const int64_t rank = static_cast<int64_t>(in.size());
    const int64_t at = axis == -1 ? rank : axis;
    if (at < 0 || at > rank || static_cast<int64_t>(out_dims.size()) != rank + 1) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " does not fit indices of shape ", in);
    }
    const View& depth_view = c.input_view(1);
    const int64_t depth = IndexAt(sdk::Data<void>(depth_view), depth_view.dtype, 0);
    const int64_t outer = sdk::Count(in.first(static_cast<size_t>(at)));
    const int64_t inner = sdk::Count(in.subspan(static_cast<size_t>(at)));
    const int64_t count = sdk::Count(out_dims);
    if (depth < 0 || sdk::Multiply(outer * inner, depth) != count) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "depth ", depth, " does not give the output's shape ", out_dims);
    }
    const void* index = sdk::Data<void>(indices);
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T on = *c.input<T>(2);
      T* out = c.output<T>(0);
      std::fill_n(out, count, *c.input<T>(3));
      sdk::CancelPoll poll(c);
      for (int64_t i = 0; i < outer * inner; poll(5), ++i) {
        const int64_t hot = IndexAt(index, indices.dtype, i);
        if (hot >= 0 && hot < depth) out[(i / inner * depth + hot) * inner + i % inner] = on;
      }
    });
  }
  int64_t axis;
};

constexpr tenon_in_place kInPlaceThenElse[] = {{1, 0}, {2, 0}};

}  // namespace

TENON_CPU_KERNEL(Select) = CpuKernel<SelectKernel>(
    "Select", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceThenElse});
TENON_CPU_KERNEL(SelectV2) = CpuKernel<SelectV2Kernel>(
    "SelectV2", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceThenElse});
TENON_CPU_KERNEL(Where) = CpuKernel<WhereKernel>(
    "Where", {.constraints = sdk::Constraints<WhereTypes::Constraint<"T">>::list, .dynamic_outputs = 1});
TENON_CPU_KERNEL(OneHot) =
    CpuKernel<OneHotKernel>("OneHot", {.constraints = sdk::Constraints<PlainConstraint<"T">>::list});

// Strings.
TENON_CPU_KERNEL(SelectString) = CpuStringKernel<SelectKernel>("Select");
TENON_CPU_KERNEL(SelectV2String) = CpuStringKernel<SelectV2Kernel>("SelectV2");
TENON_CPU_KERNEL(OneHotString) = CpuStringKernel<OneHotKernel>("OneHot");

}  // namespace tenon::cpu
