// SPDX-License-Identifier: Apache-2.0
// ReverseSequence, TopKV2, MatrixBandPart and LinSpace.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/string_copy.h"
#include "kernels/common/types.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

// x as [outer, first dim, middle, second dim, inner], the two dims being the batch and the sequence in some order.
struct ReverseSequenceKernel {
  explicit ReverseSequenceKernel(sdk::CreateContext& c) : sequence(c.Int("seq_dim")), batch(c.Int("batch_dim")) {}
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    const int64_t rank = static_cast<int64_t>(dims.size());
    if (sequence < 0 || sequence >= rank || batch < 0 || batch >= rank || sequence == batch) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "batch_dim ", batch, " and seq_dim ", sequence, " must be two dims of shape ",
                dims);
    }
    const int64_t steps = dims[static_cast<size_t>(sequence)], batches = dims[static_cast<size_t>(batch)];
    const View& lengths = c.input_view(1);
    if (sdk::Count(lengths) != batches) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "Length of seq_lengths != input.dims(", batch, "), (", sdk::Count(lengths),
                " vs. ", batches, ")");
    }
    for (int64_t i = 0; i < batches; ++i) {
      const int64_t length = sdk::ValueAt(lengths, i);
      if (length < 0 || length > steps)
        sdk::Fail(TENON_INVALID_ARGUMENT, "seq_lengths[", i, "] = ", length, " is not in [0, ", steps, "]");
    }
    DispatchSize(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(c, dims, steps, batches); });
  }

 private:
  template <class T>
  void Typed(sdk::RunContext c, sdk::Dims dims, int64_t steps, int64_t batches) const {
    const auto last = static_cast<size_t>(std::max(sequence, batch));
    const int64_t inner = sdk::Count(dims.subspan(last + 1));
    const int64_t step_stride = sdk::Count(dims.subspan(static_cast<size_t>(sequence) + 1));
    const int64_t batch_stride = sdk::Count(dims.subspan(static_cast<size_t>(batch) + 1));
    const T* from = c.input<T>(0);
    T* to = c.output<T>(0);
    if (inner == 0) return;
    c.ParallelFor(sdk::Count(dims) / inner, 4 + 0.1 * static_cast<double>(inner), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * inner, t = at / step_stride % steps;
        const int64_t length = sdk::ValueAt(c.input_view(1), at / batch_stride % batches);
        const int64_t source = t < length ? at + (length - 1 - 2 * t) * step_stride : at;
        std::memcpy(static_cast<void*>(to + at), from + source, static_cast<size_t>(inner) * sizeof(T));
      }
    });
  }
  int64_t sequence, batch;
};

using TopKTypes =
    Types<float, double, int32_t, int64_t, Half, Bfloat16, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>;

// Of each row the places of the largest elements, in the workspace. In rows with NaN, which is neither more nor less
// than anything and so has no place in the order, TensorFlow's comparisons are made, in its order (docs/numbers.md).
struct TopKKernel {
  explicit TopKKernel(sdk::CreateContext& c) : sorted(c.Bool("sorted")) {}
  struct Plan {
    Plan(const TopKKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "input must be >= 1-D, got shape []");
      columns = dims.back();
      rows = sdk::Count(dims.first(dims.size() - 1));
      tasks = std::max<int64_t>(1, std::min(c.threads(), rows));
      if (columns > std::numeric_limits<int32_t>::max() ||
          (c.output(1).dtype == TENON_DT_INT16 && columns > std::numeric_limits<int16_t>::max())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "rows of ", columns, " elements are longer than index_type ",
                  sdk::TypeName(c.output(1).dtype), " counts");
      }
      c.Workspace(sdk::Multiply(sdk::Multiply(columns + 2 * kEnd, sizeof(int32_t)), tasks));
      row_bytes = sdk::Multiply(columns, static_cast<int64_t>(sdk::ElementSize(c.input(0).dtype)));
      copies = c.Workspace(sdk::Multiply(row_bytes, tasks));
    }
    int64_t rows = 0, columns = 0, tasks = 1;
    int64_t row_bytes = 0, copies = 0;  // of each task, a row that does not change while it is sorted
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t k = sdk::ValueAt(c.input_view(1), 0);
    if (k < 0 || k > plan.columns)
      sdk::Fail(TENON_INVALID_ARGUMENT, "input must have at least k columns. Had ", plan.columns, ", needed ", k);
    if (sdk::DimsOf(c.output_view(0)).back() != k)
      sdk::Fail(TENON_INTERNAL, "outputs of shape ", sdk::DimsOf(c.output_view(0)), " for k = ", k);
    if (plan.rows == 0 || k == 0) return;
    TopKTypes::Dispatch(c.input_view(0).dtype,
                        [&]<class T>(Tag<T>) { Typed<T>(plan, c, k, sorted || k == plan.columns); });
  }
  bool sorted;

 private:
  static constexpr int64_t kEnd = 1;  // at both ends of a task's places: none

  template <class T>
  static void Typed(const Plan& p, sdk::RunContext c, int64_t k, bool sorted) {
    const double cost =
        2.0 * static_cast<double>(p.columns) * static_cast<double>(p.rows) / static_cast<double>(p.tasks);
    c.ParallelFor(p.tasks, cost, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        int32_t* places = c.workspace<int32_t>() + task * (p.columns + 2 * kEnd) + kEnd;
        for (int64_t row = p.rows * task / p.tasks; row < p.rows * (task + 1) / p.tasks; ++row) {
          const T* x = c.input<T>(0) + row * p.columns;
          c.CheckCancelled();
          T* copy = reinterpret_cast<T*>(c.workspace<char>(p.copies) + task * p.row_bytes);
          if (k == 1) {
            places[0] = Largest(sdk::CancelPoll(c), x, p.columns);
          } else if (sorted) {
            Choose(sdk::CancelPoll(c), x, p.columns, k, places, copy);
          } else {
            ChooseUnsorted(sdk::CancelPoll(c), x, p.columns, k, places, copy);
          }
          for (int64_t i = 0; i < k; ++i) {
            c.output<T>(0)[row * k + i] = x[places[i]];
            PutIndex(c.output_view(1), row * k + i, places[i]);
          }
        }
      }
    });
  }
  // Whether place a comes before place b: as TensorFlow asks, so that a NaN counts as equal to everything.
  template <class T>
  static bool Before(const T* x, int32_t a, int32_t b) {
    const Wide<T> u = x[a], v = x[b];
    if (v < u || u < v) return v < u;
    return a < b;
  }
  template <class T>
  static bool HasNan(const T* x, int64_t columns) {
    int nan = 0;
    if constexpr (kIsReal<T>) {
      for (int64_t i = 0; i < columns; ++i) nan |= static_cast<Wide<T>>(x[i]) != static_cast<Wide<T>>(x[i]);
    }
    return nan != 0;
  }
  // The first of the largest; NaN is passed over. Without a number: the first element.
  template <class T>
  static int32_t Largest(sdk::CancelPoll poll, const T* x, int64_t columns) {
    int32_t place = 0;
    if (ChooseFew(poll, x, columns, 1, &place)) return place;
    int64_t at = -1;
    for (int64_t i = 0; i < columns; ++i) {
      const Wide<T> v = x[i];
      if (v == v && (at < 0 || static_cast<Wide<T>>(x[at]) < v)) at = i;
    }
    return static_cast<int32_t>(std::max<int64_t>(at, 0));
  }
  // In the order that TensorFlow leaves them in where it does not sort: who draws a place among them, as samplers of
  // language models do, gets the same element. It is a heap's, of which the smallest is the first, from the first k + 1
  // elements on; whatever comes before the smallest takes its place. k is less than columns.
  template <class T>
  static void ChooseUnsorted(sdk::CancelPoll poll, const T* x, int64_t columns, int64_t k, int32_t* places, T* copy) {
    std::memcpy(static_cast<void*>(copy), x, static_cast<size_t>(columns) * sizeof(T));  // as in Choose
    ChooseByHeap(columns, k, places, [copy, &poll](int32_t a, int32_t b) {
      poll(30);
      return Before(copy, a, b);
    });
  }
  template <class Order>
  static void ChooseByHeap(int64_t columns, int64_t k, int32_t* places, const Order& before) {
    for (int64_t i = 0; i <= k; ++i) places[i] = static_cast<int32_t>(i);
    std::make_heap(places, places + k + 1, before);
    std::pop_heap(places, places + k + 1, before);
    for (int64_t i = k + 1; i < columns; ++i) {
      if (!before(static_cast<int32_t>(i), places[0])) continue;
      std::pop_heap(places, places + k, before);
      places[k - 1] = static_cast<int32_t>(i);
      std::push_heap(places, places + k, before);
    }
  }
  template <class T>
  static void Choose(sdk::CancelPoll poll, const T* x, int64_t columns, int64_t k, int32_t* places, T* copy) {
    constexpr int64_t kFew = 32;
    if (k <= kFew && k < columns && ChooseFew(poll, x, columns, k, places)) return;
    // The library's sorts leave their range where the order changes under them, as that of a variable may which another
    // step writes.
    std::memcpy(static_cast<void*>(copy), x, static_cast<size_t>(columns) * sizeof(T));
    poll(columns);
    x = copy;
    if (HasNan(x, columns))
      return k < columns ? ChooseAmongNan(poll, x, columns, k, places) : SortAmongNan(poll, x, columns, places);
    poll(columns);
    for (int64_t i = 0; i < columns; ++i) places[i] = static_cast<int32_t>(i);
    poll(columns);
    const auto before = [x, &poll](int32_t a, int32_t b) {
      poll(30);
      return Before(x, a, b);
    };
    if (k < columns) std::nth_element(places, places + k, places + columns, before);
    std::sort(places, places + k, before);
  }
  template <class T>
  static void ChooseAmongNan(sdk::CancelPoll poll, const T* x, int64_t columns, int64_t k, int32_t* places) {
    const auto before = [x, &poll](int32_t a, int32_t b) {
      poll(30);
      return Before(x, a, b);
    };
    ChooseByHeap(columns, k, places, before);
    std::sort_heap(places, places + k, before);
  }
  // Neighbours that are equal then are put in order. The library's sort goes on for as long as an element comes before
  // those that it looks at, which may be beyond the first one where the order is none: there stands a place that
  // nothing comes before.
  template <class T>
  static void SortAmongNan(sdk::CancelPoll poll, const T* x, int64_t columns, int32_t* places) {
    places[-1] = places[columns] = -1;
    for (int64_t i = 0; i < columns; ++i) places[i] = static_cast<int32_t>(i);
    std::sort(places, places + columns, [x, &poll](int32_t a, int32_t b) {
      poll(30);
      return a >= 0 && b >= 0 && static_cast<Wide<T>>(x[b]) < static_cast<Wide<T>>(x[a]);
    });
    for (int64_t i = 0, end; i < columns; i = end) {
      for (end = i + 1; end < columns && static_cast<Wide<T>>(x[places[i]]) == static_cast<Wide<T>>(x[places[end]]);)
        ++end;
      std::sort(places + i, places + end);
    }
  }
  // The first k are kept in order, and each of the others sorted in if it comes before the last. Most do not: blocks in
  // which no element is larger are passed over, several elements at a time. false: there is a NaN.
  template <class T>
  static bool ChooseFew(sdk::CancelPoll poll, const T* x, int64_t columns, int64_t k, int32_t* places) {
    const auto insert = [&](int64_t kept, int64_t i) {
      const auto place = static_cast<int32_t>(i);
      for (; kept > 0 && Before(x, place, places[kept - 1]); --kept) {
        if (kept < k) places[kept] = places[kept - 1];
      }
      if (kept < k) places[kept] = place;
    };
    if (HasNan(x, k)) return false;
    int64_t i = 0;
    for (; i < k; ++i) insert(i, i);
    for (int64_t end; i < columns; i = end) {
      constexpr int64_t kBlock = 64;
      end = std::min(columns, i + kBlock);
      poll(kBlock);
      const Wide<T> last = x[places[k - 1]];
      int larger = end - i < kBlock;
      if (end - i == kBlock) {
        for (int64_t l = 0; l < kBlock; ++l) larger |= !(static_cast<Wide<T>>(x[i + l]) <= last);  // or a NaN
      }
      if (larger == 0) continue;
      if (HasNan(x + i, end - i)) return false;
      for (int64_t j = i; j < end; ++j) {
        if (Before(x, static_cast<int32_t>(j), places[k - 1])) insert(k, j);
      }
    }
    return true;
  }
  static void PutIndex(const View& output, int64_t i, int32_t index) {
    switch (output.dtype) {
      case TENON_DT_INT16: sdk::Data<int16_t>(output)[i] = static_cast<int16_t>(index); return;
      case TENON_DT_INT64: sdk::Data<int64_t>(output)[i] = index; return;
      default: sdk::Data<int32_t>(output)[i] = index;
    }
  }
};

struct BandKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.size() < 2) sdk::Fail(TENON_INVALID_ARGUMENT, "input must be at least 2-dim, received shape: ", dims);
    const int64_t rows = dims[dims.size() - 2], columns = dims.back();
    const int64_t lower = sdk::ValueAt(c.input_view(1), 0), upper = sdk::ValueAt(c.input_view(2), 0);
    if (lower > rows)
      sdk::Fail(TENON_INVALID_ARGUMENT, "num_lower must be negative or less or equal to number of rows (", rows,
                ") got: ", lower);
    if (upper > columns)
      sdk::Fail(TENON_INVALID_ARGUMENT, "num_upper must be negative or less or equal to number of columns (", columns,
                ") got: ", upper);
    if (rows == 0 || columns == 0) return;
    DispatchSize(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* from = c.input<T>(0);
      T* to = c.output<T>(0);
      c.ParallelFor(sdk::Count(dims) / columns, 2 + 0.1 * static_cast<double>(columns),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t row = i % rows;
                        const int64_t first = lower < 0 ? 0 : std::clamp<int64_t>(row - lower, 0, columns);
                        const int64_t last = upper < 0 ? columns : std::clamp<int64_t>(row + upper + 1, first, columns);
                        T* line = to + i * columns;
                        std::fill(line, line + first, T{});
                        if (from != to) std::copy(from + i * columns + first, from + i * columns + last, line + first);
                        std::fill(line + last, line + columns, T{});
                      }
                    });
    });
  }
};

using LinSpaceTypes = Types<float, double>;
struct LinSpaceKernel {
  void Run(sdk::RunContext c) const {
    const int64_t count = sdk::ValueAt(c.input_view(2), 0);
    if (count < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "Requires num > 0: ", count);
    if (count != sdk::Count(c.output_view(0)))
      sdk::Fail(TENON_INTERNAL, "num is ", count, ", the output has the shape ", sdk::DimsOf(c.output_view(0)));
    LinSpaceTypes::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T start = *c.input<T>(0), stop = *c.input<T>(1);
      T* out = c.output<T>(0);
      out[0] = start;
      if (count == 1) return;
      const T step = (stop - start) / static_cast<T>(count - 1);
      for (int64_t i = 1; i < count - 1; ++i) out[i] = start + step * static_cast<T>(i);
      out[count - 1] = stop;
    });
  }
};

constexpr sdk::Traits kBand = {.constraints = sdk::Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(ReverseSequence) = CpuKernel<ReverseSequenceKernel>("ReverseSequence", kPlain);
TENON_CPU_KERNEL(ReverseSequenceString) = CpuStringKernel<ReverseSequenceKernel>("ReverseSequence");
TENON_CPU_KERNEL(TopKV2) = CpuKernel<TopKKernel>("TopKV2",
                                                 {.constraints = sdk::Constraints<TopKTypes::Constraint<"T">>::list});
TENON_CPU_KERNEL(MatrixBandPart) = CpuKernel<BandKernel>("MatrixBandPart", kBand);
TENON_CPU_KERNEL(LinSpace) =
    CpuKernel<LinSpaceKernel>("LinSpace", {.constraints = sdk::Constraints<LinSpaceTypes::Constraint<"T">>::list});

}  // namespace tenon::cpu
