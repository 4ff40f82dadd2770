// SPDX-License-Identifier: Apache-2.0
// DenseToDenseSetOperation, DenseToSparseSetOperation, SparseToSparseSetOperation, SetSize: the last dim's elements as
// sets.
#include <algorithm>
#include <array>

#include "chosen.h"
#include "held.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Chosen;
using sparse::Parts;

// Texts as bytes, numbers as what they are.
int CompareValues(CancelPoll& poll, const tenon_tensor_view& a, int64_t i, const tenon_tensor_view& b, int64_t k) {
  const auto numbers = [&]<class T>(T) {
    const T x = Data<const T>(a)[i], y = Data<const T>(b)[k];
    return x < y ? -1 : x > y ? 1 : 0;
  };
  switch (a.dtype) {
    case TENON_DT_STRING: {
      const std::string_view x = StringAt(a, i), y = StringAt(b, k);
      poll(static_cast<int64_t>(std::min(x.size(), y.size()) / 8) + 1);
      return x.compare(y);
    }
    case TENON_DT_INT8: return numbers(int8_t{});
    case TENON_DT_INT16: return numbers(int16_t{});
    case TENON_DT_INT32: return numbers(int32_t{});
    case TENON_DT_INT64: return numbers(int64_t{});
    case TENON_DT_UINT8: return numbers(uint8_t{});
    case TENON_DT_UINT16: return numbers(uint16_t{});
    default: Fail(TENON_UNIMPLEMENTED, "no sets of ", TypeName(a.dtype));
  }
}

// One operand: which elements are of which group, in order of group and value, without repetitions.
class Sets {
 public:
  static Sets OfDense(const RunContext& c, int32_t input) {
    const tenon_tensor_view& values = c.input_view(input);
    const Dims dims = DimsOf(values);
    if (dims.size() < 2)
      Fail(TENON_INVALID_ARGUMENT, "Invalid rank ", dims.size(), " of set", input == 0 ? 1 : 2,
           ": a tensor of sets has rank 2 at least");
    return Sets(c, values, dims, nullptr);
  }
  static Sets OfSparse(const RunContext& c, int32_t input, bool validate) {
    const Parts parts(c, input, validate ? sparse::Order::kSorted : sparse::Order::kAny);
    if (parts.rank() < 2)
      Fail(TENON_INVALID_ARGUMENT, "Invalid rank ", parts.rank(), ": a sparse tensor of sets has rank 2 at least");
    return Sets(c, parts.values, parts.shape, parts.indices);
  }
  Dims group_dims() const { return dims_.first(dims_.size() - 1); }
  int64_t last() const { return dims_.back(); }
  const tenon_tensor_view& values() const { return values_; }
  const Chosen& members() const { return members_; }
  int64_t GroupOf(int64_t element) const {
    if (indices_ == nullptr) return dims_.back() == 0 ? 0 : element / dims_.back();
    const int64_t* place = indices_ + element * static_cast<int64_t>(dims_.size());
    int64_t group = 0;
    for (size_t d = 0; d + 1 < dims_.size(); ++d) group = group * dims_[d] + place[d];
    return group;
  }

 private:
  Sets(const RunContext& c, const tenon_tensor_view& values, Dims dims, const int64_t* indices)
      : values_(values), dims_(dims), indices_(indices), members_(c, Count(values)) {
    Count(group_dims());  // that they can be counted
    members_.Sort([this](int64_t a, int64_t b) { return Before(a, b); });
    auto& numbers = members_.numbers;
    const auto same = [this](int64_t a, int64_t b) {
      members_.poll(20);
      return !Before(a, b) && !Before(b, a);
    };
    numbers.erase(std::unique(numbers.begin(), numbers.end(), same), numbers.end());
  }
  static int64_t Count(Dims dims) { return sdk::Count(dims); }
  static int64_t Count(const tenon_tensor_view& view) { return sdk::Count(view); }
  bool Before(int64_t a, int64_t b) {
    const int64_t x = GroupOf(a), y = GroupOf(b);
    return x != y ? x < y : CompareValues(members_.poll, values_, a, values_, b) < 0;
  }
  const tenon_tensor_view& values_;
  Dims dims_;
  const int64_t* indices_;
  Chosen members_;
};

enum class Operation { kAMinusB, kBMinusA, kIntersection, kUnion };

struct SetsKernel {
  explicit SetsKernel(CreateContext& c) : validate(c.Bool("validate_indices")) {
    std::string name(c.String("set_operation"));
    std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    });
    if (name == "a-b") operation = Operation::kAMinusB;
    else if (name == "b-a") operation = Operation::kBMinusA;
    else if (name == "intersection") operation = Operation::kIntersection;
    else if (name == "union") operation = Operation::kUnion;
    else c.Invalid("Invalid set_operation ", name, "; known are a-b, b-a, intersection and union");
  }

  void Give(const RunContext& c, const Sets& a, const Sets& b) const {
    const Dims groups = a.group_dims();
    if (!std::equal(groups.begin(), groups.end(), b.group_dims().begin(), b.group_dims().end()))
      Fail(TENON_INVALID_ARGUMENT, "Mismatched group shapes: ", groups, " and ", b.group_dims());
    // Of each member its operand and its number; groups come in order.
    const auto for_each = [&](const auto& each) {
      const auto &x = a.members().numbers, &y = b.members().numbers;
      CancelPoll poll(c);
      for (size_t i = 0, k = 0; i < x.size() || k < y.size(); poll(20)) {
        int order = i == x.size() ? 1 : k == y.size() ? -1 : 0;
        if (order == 0) {
          const int64_t p = a.GroupOf(x[i]), q = b.GroupOf(y[k]);
          order = p != q ? (p < q ? -1 : 1) : CompareValues(poll, a.values(), x[i], b.values(), y[k]);
        }
        const bool wanted = operation == Operation::kUnion || (operation == Operation::kIntersection && order == 0) ||
                            (operation == Operation::kAMinusB && order < 0) ||
                            (operation == Operation::kBMinusA && order > 0);
        if (wanted) order <= 0 ? each(a, x[i]) : each(b, y[k]);
        if (order <= 0) ++i;
        if (order >= 0) ++k;
      }
    };
    int64_t count = 0, widest = 0, column = 0, before = -1;
    uint64_t bytes = 0;
    const bool texts = a.values().dtype == TENON_DT_STRING;
    for_each([&](const Sets& of, int64_t element) {
      const int64_t group = of.GroupOf(element);
      column = group == before ? column + 1 : 0;
      before = group;
      widest = std::max(widest, column + 1);
      ++count;
      if (texts) bytes += StringAt(of.values(), element).size();
    });
    const int64_t rank = static_cast<int64_t>(groups.size()) + 1;
    c.AllocOutput(0, std::array{count, rank});
    c.AllocOutput(1, std::array{count}, bytes);
    c.AllocOutput(2, std::array{rank});
    std::copy(groups.begin(), groups.end(), c.output<int64_t>(2));
    c.output<int64_t>(2)[rank - 1] = widest;
    int64_t* place = c.output<int64_t>(0);
    char* const base = c.output<char>(1);
    const uint64_t size = texts ? sizeof(tenon_string_cell) : ElementSize(a.values().dtype);
    uint64_t at = 0, end = static_cast<uint64_t>(count) * size;
    before = -1;
    for_each([&](const Sets& of, int64_t element) {
      const int64_t group = of.GroupOf(element);
      column = group == before ? column + 1 : 0;
      before = group;
      int64_t rest = group;
      for (size_t d = groups.size(); d-- > 0; rest /= groups[d]) place[d] = rest % groups[d];
      place[rank - 1] = column;
      place += rank;
      if (texts) {
        const std::string_view text = StringAt(of.values(), element);
        if (!text.empty()) std::memcpy(base + end, text.data(), text.size());
        *reinterpret_cast<tenon_string_cell*>(base + at) = {end, text.size()};
        end += text.size();
      } else {
        std::memcpy(base + at, Data<const char>(of.values()) + static_cast<uint64_t>(element) * size, size);
      }
      at += size;
    });
  }
  bool validate;
  Operation operation = Operation::kUnion;
};

struct DenseDense : SetsKernel {
  explicit DenseDense(CreateContext& c) : SetsKernel(c) {}
  void Run(RunContext c) const { Give(c, Sets::OfDense(c, 0), Sets::OfDense(c, 1)); }
};
struct DenseSparse : SetsKernel {
  explicit DenseSparse(CreateContext& c) : SetsKernel(c) {}
  void Run(RunContext c) const { Give(c, Sets::OfDense(c, 0), Sets::OfSparse(c, 1, validate)); }
};
struct SparseSparse : SetsKernel {
  explicit SparseSparse(CreateContext& c) : SetsKernel(c) {}
  void Run(RunContext c) const { Give(c, Sets::OfSparse(c, 0, validate), Sets::OfSparse(c, 3, validate)); }
};

struct SetSize {
  explicit SetSize(CreateContext& c) : validate(c.Bool("validate_indices")) {}
  void Run(RunContext c) const {
    const Sets sets = Sets::OfSparse(c, 0, validate);
    c.AllocOutput(0, sets.group_dims());
    auto* out = c.output<int32_t>(0);
    std::fill_n(out, Count(sets.group_dims()), 0);
    CancelPoll poll(c);
    for (const int64_t element : sets.members().numbers) {
      poll(5);
      ++out[sets.GroupOf(element)];
    }
  }
  bool validate;
};

constexpr Traits kGivesSets = {.dynamic_outputs = TENON_DYNAMIC_ALL};

void GiveSetShape(ShapeContext& c, int64_t rank) {
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {rank});
}
int64_t SparseRank(ShapeContext& c, int first) {
  const Shape indices = c.WithRank(first, 2), values = c.WithRank(first + 1, 1), shape = c.WithRank(first + 2, 1);
  c.Merge(indices[0], values[0], "the numbers of indices and of values");
  const int64_t rank = c.Merge(indices[1], shape[0], "the columns of the indices and the numbers of the dense shape");
  if (rank >= 0 && rank < 2) c.Invalid("a tensor of sets has rank 2 at least, not ", rank);
  return rank;
}
void DenseDenseShape(ShapeContext& c) {
  const Shape a = c.WithRankAtLeast(0, 2), b = c.WithRankAtLeast(1, 2);
  GiveSetShape(c, c.Merge(a.rank(), b.rank(), "the ranks of the sets"));
  c.Merge(a.Slice(0, -1), b.Slice(0, -1), "the dims of the groups");
}
void DenseSparseShape(ShapeContext& c) {
  GiveSetShape(c, c.Merge(c.WithRankAtLeast(0, 2).rank(), SparseRank(c, 1), "the ranks of the sets"));
}
void SparseSparseShape(ShapeContext& c) {
  const int64_t rank = SparseRank(c, 0);
  GiveSetShape(c, c.Merge(rank, SparseRank(c, 3), "the ranks of the sets"));
}
void SizeShape(ShapeContext& c) { SparseRank(c, 0); }

constexpr std::string_view kAttrs =
    "set_operation: string; validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}";
constexpr std::string_view kResult = "result_indices: int64, result_values: T, result_shape: int64";

}  // namespace

TENON_KERNEL(kDenseToDenseSetOperationKernel) = Registration<DenseDense>("DenseToDenseSetOperation", kGivesSets);
TENON_KERNEL(kDenseToSparseSetOperationKernel) = Registration<DenseSparse>("DenseToSparseSetOperation", kGivesSets);
TENON_KERNEL(kSparseToSparseSetOperationKernel) = Registration<SparseSparse>("SparseToSparseSetOperation", kGivesSets);
TENON_KERNEL(kSetSizeKernel) = Registration<SetSize>("SetSize", kGivesSets);

TENON_OP(kDenseToDenseSetOperation) = DefineOp({
    .name = "DenseToDenseSetOperation",
    .inputs = "set1: T, set2: T",
    .outputs = kResult,
    .attrs = kAttrs,
    .doc = "a-b, b-a, intersection or union of the sets that the last dims are.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DenseDenseShape>,
});

TENON_OP(kDenseToSparseSetOperation) = DefineOp({
    .name = "DenseToSparseSetOperation",
    .inputs = "set1: T, set2_indices: int64, set2_values: T, set2_shape: int64",
    .outputs = kResult,
    .attrs = kAttrs,
    .doc = "a-b, b-a, intersection or union of the sets that the last dims are.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DenseSparseShape>,
});

TENON_OP(kSparseToSparseSetOperation) = DefineOp({
    .name = "SparseToSparseSetOperation",
    .inputs = "set1_indices: int64, set1_values: T, set1_shape: int64, set2_indices: int64, set2_values: T, "
              "set2_shape: int64",
    .outputs = kResult,
    .attrs = kAttrs,
    .doc = "a-b, b-a, intersection or union of the sets that the last dims are.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SparseSparseShape>,
});

TENON_OP(kSetSize) = DefineOp({
    .name = "SetSize",
    .inputs = "set_indices: int64, set_values: T, set_shape: int64",
    .outputs = "size: int32",
    .attrs = "validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}",
    .doc = "How many elements each set has that the last dims are.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SizeShape>,
});

}  // namespace tenon::ops
