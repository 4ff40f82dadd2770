// SPDX-License-Identifier: Apache-2.0
// Sums, larger and smaller ones of two sparse tensors; sparse and dense ones; reductions and softmax of the elements
// that there are. SparseMatMul, which is of dense matrices with many zeros.
#include <algorithm>
#include <array>
#include <cmath>

#include "chosen.h"
#include "inputs.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using sparse::Chosen;
using sparse::Order;
using sparse::Parts;
using sparse::SparseInput;
using Summed = Numbers::AndComplex;

template <class T>
T Plus(T a, T b) {
  // Whole numbers wrap around.
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return static_cast<T>(a + b);
}

void CheckOneShape(const Parts& a, const Parts& b) {
  if (!std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end()))
    Fail(TENON_INVALID_ARGUMENT, "Operands' shapes do not match: ", a.shape, " and ", b.shape);
}

// ---- Two sparse tensors: both in order ----

// Calls function(element of a or -1, element of b or -1) for each place where one of them has something, in order.
template <class Function>
void ForEachOfBoth(const RunContext& c, const Parts& a, const Parts& b, const Function& function) {
  CancelPoll poll(c);
  for (int64_t i = 0, k = 0; i < a.count || k < b.count; poll(a.rank() + 5)) {
    const int order = i == a.count ? 1 : k == b.count ? -1 : sparse::Compare(a.At(i), b.At(k), a.shape.size());
    function(order <= 0 ? i : -1, order >= 0 ? k : -1);
    if (order <= 0) ++i;
    if (order >= 0) ++k;
  }
}

template <class T>
bool Reaches(const T& value, const tenon_tensor_view& limit) {
  if constexpr (kIsComplex<T>) {
    return std::abs(value) >= *Data<const typename T::value_type>(limit);
  } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
    return value >= *Data<const T>(limit);
  } else if constexpr (std::is_integral_v<T>) {
    return (value < 0 ? Plus<T>(static_cast<T>(~value), T{1}) : value) >= *Data<const T>(limit);
  } else {
    return std::abs(static_cast<double>(value)) >= static_cast<double>(*Data<const T>(limit));
  }
}

struct AddBoth {
  explicit AddBoth(CreateContext& c) {
    const uint32_t type = c.input_type(1), real = type == TENON_DT_COMPLEX64    ? TENON_DT_FLOAT
                                                  : type == TENON_DT_COMPLEX128 ? TENON_DT_DOUBLE
                                                                                : type;
    if (c.input_type(6) != real)
      c.Invalid("Treal must be the real type of T's precision: what is compared with elements of ", TypeName(type),
                " is not ", TypeName(c.input_type(6)));
  }
  void Run(RunContext c) const {
    const Parts a(c, 0, Order::kSorted), b(c, 3, Order::kSorted);
    CheckOneShape(a, b);
    Summed::Dispatch(a.values.dtype, [&]<class T>(Tag<T>) {
      const auto for_each = [&](const auto& each) {
        ForEachOfBoth(c, a, b, [&](int64_t i, int64_t k) {
          const T sum = k < 0   ? Data<const T>(a.values)[i]
                        : i < 0 ? Data<const T>(b.values)[k]
                                : Plus(Data<const T>(a.values)[i], Data<const T>(b.values)[k]);
          if (i < 0 || k < 0 || Reaches(sum, c.input_view(6))) each(i < 0 ? b.At(k) : a.At(i), sum);
        });
      };
      int64_t count = 0;
      for_each([&](const int64_t*, const T&) { ++count; });
      c.AllocOutput(0, std::array{count, a.rank()});
      c.AllocOutput(1, std::array{count});
      int64_t* to = c.output<int64_t>(0);
      T* sums = c.output<T>(1);
      for_each([&](const int64_t* place, const T& sum) {
        to = std::copy_n(place, a.rank(), to);
        *sums++ = sum;
      });
    });
    c.AllocOutput(2, std::array{a.rank()});
    std::copy(a.shape.begin(), a.shape.end(), c.output<int64_t>(2));
  }
};

// The rows of indices, of one number of columns.
struct Rows {
  explicit Rows(const tenon_tensor_view& view)
      : at(Data<const int64_t>(view)), count(DimsOf(view)[0]), width(DimsOf(view)[1]) {}
  const int64_t* operator[](int64_t i) const { return at + i * width; }
  const int64_t* at;
  int64_t count, width;
};

struct AddGrad {
  void Run(RunContext c) const {
    const Rows sum(c.input_view(3));
    if (Count(c.input_view(0)) != sum.count)
      Fail(TENON_INVALID_ARGUMENT,
           "# elements in backprop_val_grad and # rows in sum_indices should match (#nnz of sum): got ",
           Count(c.input_view(0)), " and ", sum.count);
    for (int32_t input = 1; input <= 2; ++input) {
      const Rows own(c.input_view(input));
      if (own.width != sum.width)
        Fail(TENON_INVALID_ARGUMENT, "The densified operands should have the same ndims; there are indices of ",
             own.width, " and ", sum.width, " columns");
      Summed::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
        T* out = c.output<T>(input - 1);
        CancelPoll poll(c);
        // What was too small for the sum has no gradient.
        for (int64_t i = 0, k = 0; i < own.count; ++i, poll(own.width + 3)) {
          while (k < sum.count && sparse::Compare(sum[k], own[i], static_cast<size_t>(own.width)) < 0) {
            ++k;
            poll(own.width + 3);
          }
          out[i] = k < sum.count && sparse::Compare(sum[k], own[i], static_cast<size_t>(own.width)) == 0
                       ? c.input<T>(0)[k]
                       : T{};
        }
      });
    }
  }
};

template <bool kLarger>
struct Pick {
  void Run(RunContext c) const {
    const Parts a(c, 0, Order::kSorted), b(c, 3, Order::kSorted);
    CheckOneShape(a, b);
    int64_t count = 0;
    ForEachOfBoth(c, a, b, [&count](int64_t, int64_t) { ++count; });
    c.AllocOutput(0, std::array{count, a.rank()});
    c.AllocOutput(1, std::array{count});
    int64_t* to = c.output<int64_t>(0);
    Numbers::Dispatch(a.values.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(1);
      ForEachOfBoth(c, a, b, [&](int64_t i, int64_t k) {
        to = std::copy_n(i < 0 ? b.At(k) : a.At(i), a.rank(), to);
        const T x = i < 0 ? T{} : Data<const T>(a.values)[i], y = k < 0 ? T{} : Data<const T>(b.values)[k];
        *out++ = kLarger ? (x < y ? y : x) : (y < x ? y : x);
      });
    });
  }
};

// ---- A sparse and a dense one ----

int64_t NumberAt(const tenon_tensor_view& view, int64_t i) {
  return view.dtype == TENON_DT_INT32 ? Data<const int32_t>(view)[i] : Data<const int64_t>(view)[i];
}

struct AddToDense {
  void Run(RunContext c) const {
    const tenon_tensor_view &indices = c.input_view(0), &shape = c.input_view(2), &dense = c.input_view(3);
    const Dims dims = DimsOf(dense);
    const int64_t count = DimsOf(indices)[0], rank = DimsOf(indices)[1];
    if (count != Count(c.input_view(1)))
      Fail(TENON_INVALID_ARGUMENT, "there are ", count, " indices for ", Count(c.input_view(1)), " values");
    if (rank != Count(shape) || rank != static_cast<int64_t>(dims.size()))
      Fail(TENON_INVALID_ARGUMENT, "Two operands have different ranks: ", Count(shape), " and ", dims.size(),
           ", the indices ", rank, " columns");
    for (int64_t d = 0; d < rank; ++d)
      if (NumberAt(shape, d) != dims[static_cast<size_t>(d)])
        Fail(TENON_INVALID_ARGUMENT, "Dimension ", d, " does not equal (no broadcasting is supported): sparse side ",
             NumberAt(shape, d), " vs dense side ", dims[static_cast<size_t>(d)]);
    Summed::Dispatch(dense.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::copy_n(c.input<T>(3), Count(dense), out);
      CancelPoll poll(c);
      for (int64_t i = 0; i < count; ++i, poll(rank + 3)) {
        int64_t at = 0;
        for (int64_t d = 0; d < rank; ++d) {
          const int64_t index = NumberAt(indices, i * rank + d), dim = dims[static_cast<size_t>(d)];
          if (index < 0 || index >= dim)
            Fail(TENON_INVALID_ARGUMENT, "Sparse tensor has some invalid index on dimension ", d, ": ", index,
                 " is out of bounds, need 0 <= index < ", dim);
          at = at * dim + index;
        }
        out[at] = Plus(out[at], c.input<T>(1)[i]);
      }
    });
  }
};

struct Sum {
  static constexpr bool kDivides = false;
  template <class T>
  static T Of(T a, T b) { return Plus(a, b); }
};
struct Product {
  static constexpr bool kDivides = false;
  template <class T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return static_cast<T>(a * b);
  }
};
struct Quotient {
  static constexpr bool kDivides = true;
  template <class T>
  static T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{}) Fail(TENON_INVALID_ARGUMENT, "Integer division by zero");
      if constexpr (std::is_signed_v<T>)
        if (b == T{-1}) return Plus(static_cast<T>(~a), T{1});  // the least number has no opposite: it wraps around
    }
    return static_cast<T>(a / b);
  }
};

template <class Operation>
struct WithDense {
  void Run(RunContext c) const {
    const Parts sparse(c, 0);
    const tenon_tensor_view& dense = c.input_view(3);
    const Dims dims = DimsOf(dense);
    bool fits = dims.size() <= sparse.shape.size();
    const size_t more = fits ? sparse.shape.size() - dims.size() : 0;
    for (size_t d = 0; d < dims.size() && fits; ++d) fits = dims[d] == 1 || dims[d] == sparse.shape[more + d];
    if (!fits)
      Fail(TENON_INVALID_ARGUMENT,
           "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [", sparse.shape,
           "] vs. [", dims, "]");
    Numbers::Dispatch(dense.dtype, [&]<class T>(Tag<T>) {
      CancelPoll poll(c);
      for (int64_t i = 0; i < sparse.count; ++i, poll(sparse.rank() + 3)) {
        int64_t at = 0;
        for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + (dims[d] == 1 ? 0 : sparse.At(i)[more + d]);
        c.output<T>(0)[i] = Operation::Of(c.input<T>(1)[i], c.input<T>(3)[at]);
      }
    });
  }
};

// ---- Reductions ----

// The elements in the order of their places in the dims that stay.
struct Groups {
  Groups(const RunContext& c, const Parts& parts, const std::vector<size_t>& kept) : all(c, parts.count) {
    all.Sort([&](int64_t a, int64_t b) {
      for (const size_t d : kept)
        if (parts.At(a)[d] != parts.At(b)[d]) return parts.At(a)[d] < parts.At(b)[d];
      return sparse::Compare(parts.At(a), parts.At(b), parts.shape.size()) < 0;
    });
    CancelPoll poll(c);
    for (size_t i = 0, first = 0; i < all.numbers.size(); ++i, poll(static_cast<int64_t>(kept.size()) + 2)) {
      bool same = i + 1 < all.numbers.size();
      for (size_t k = 0; k < kept.size() && same; ++k)
        same = parts.At(all.numbers[first])[kept[k]] == parts.At(all.numbers[i + 1])[kept[k]];
      if (same) continue;
      ends.push_back(static_cast<int64_t>(i) + 1);
      first = i + 1;
    }
  }
  // Calls function(first element's number, span of numbers) for each group.
  template <class Function>
  void ForEach(const Function& function) const {
    int64_t begin = 0;
    for (const int64_t end : ends) {
      function(
          std::span<const int64_t>(all.numbers).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      begin = end;
    }
  }
  Chosen all;
  std::pmr::vector<int64_t> ends{&all.memory};
};

template <bool kLargest, bool kToSparse>
struct Reduce {
  explicit Reduce(CreateContext& c) : keep_dims(c.Bool("keep_dims")) {}
  void Run(RunContext c) const {
    const Parts parts(c, 0);
    const int64_t rank = parts.rank();
    std::vector<bool> reduced(parts.shape.size(), false);
    for (int64_t i = 0; i < Count(c.input_view(3)); ++i) {
      const int64_t axis = c.input<int32_t>(3)[i];
      if (axis < -rank || axis >= rank)
        Fail(TENON_INVALID_ARGUMENT, "Invalid reduction dimension ", axis, ", for input with ", rank, " dimensions.");
      reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
    }
    std::vector<size_t> kept;
    std::vector<int64_t> dims;
    for (size_t d = 0; d < parts.shape.size(); ++d) {
      if (!reduced[d]) kept.push_back(d);
      if (!reduced[d] || keep_dims) dims.push_back(reduced[d] ? 1 : parts.shape[d]);
    }
    const Groups groups(c, parts, kept);
    const int64_t columns = static_cast<int64_t>(dims.size()), count = static_cast<int64_t>(groups.ends.size());
    if constexpr (kToSparse) {
      c.AllocOutput(0, std::array{count, columns});
      c.AllocOutput(1, std::array{count});
      c.AllocOutput(2, std::array{columns});
      std::copy(dims.begin(), dims.end(), c.output<int64_t>(2));
    } else {
      c.AllocOutput(0, dims);
    }
    using Taken = std::conditional_t<kLargest, Numbers, Summed>;
    Taken::Dispatch(parts.values.dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(kToSparse ? 1 : 0);
      if (!kToSparse) std::fill_n(out, Count(Dims(dims)), T{});
      int64_t* to = kToSparse ? c.output<int64_t>(0) : nullptr;
      groups.ForEach([&](std::span<const int64_t> members) {
        const int64_t* place = parts.At(members[0]);
        int64_t at = 0;
        for (size_t d = 0; d < parts.shape.size(); ++d) {
          if (reduced[d] && !keep_dims) continue;
          if (kToSparse) *to++ = reduced[d] ? 0 : place[d];
          else if (!reduced[d]) at = at * parts.shape[d] + place[d];
        }
        if (kToSparse) *out++ = Of<T>(parts, members);
        else out[at] = Of<T>(parts, members);
      });
    });
  }

 private:
  template <class T>
  static T Of(const Parts& parts, std::span<const int64_t> members) {
    const T* values = Data<const T>(parts.values);
    if constexpr (kLargest) {
      T most = values[members[0]];
      for (const int64_t i : members) most = most < values[i] || values[i] != values[i] ? values[i] : most;
      return most;
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      float sum = 0;
      for (const int64_t i : members) sum += static_cast<float>(values[i]);
      return static_cast<T>(sum);
    } else {
      T sum{};
      for (const int64_t i : members) sum = Plus(sum, values[i]);
      return sum;
    }
  }
  bool keep_dims;
};

struct Softmax {
  void Run(RunContext c) const {
    const Parts parts(c, 0);
    if (parts.rank() < 2) Fail(TENON_INVALID_ARGUMENT, "Input should have rank >= 2, but got: ", parts.rank());
    std::vector<size_t> kept(parts.shape.size() - 1);
    std::iota(kept.begin(), kept.end(), size_t{0});
    const Groups rows(c, parts, kept);
    Reals::Dispatch(parts.values.dtype, [&]<class T>(Tag<T>) {
      const T* values = Data<const T>(parts.values);
      T* out = c.output<T>(0);
      rows.ForEach([&](std::span<const int64_t> members) {
        double largest = static_cast<double>(values[members[0]]), sum = 0;
        for (const int64_t i : members) largest = std::max(largest, static_cast<double>(values[i]));
        for (const int64_t i : members) sum += std::exp(static_cast<double>(values[i]) - largest);
        for (const int64_t i : members)
          out[i] = static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(
              std::exp(static_cast<double>(values[i]) - largest) / sum));
      });
    });
  }
};

// ---- Shapes ----

int64_t RankOfBoth(ShapeContext& c) {
  SparseInput(c, 0);
  SparseInput(c, 3);
  return c.Merge(c.Input(2)[0], c.Input(5)[0], "the ranks of the sparse tensors");
}
void AddShape(ShapeContext& c) {
  const int64_t rank = RankOfBoth(c);
  c.WithRank(6, 0);
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {rank});
}
void PickShape(ShapeContext& c) {
  const int64_t rank = RankOfBoth(c);
  c.SetOutput(0, {kUnknown, rank});
  c.SetOutput(1, {kUnknown});
}
void AddGradShape(ShapeContext& c) {
  c.SetOutput(0, {c.WithRank(1, 2)[0]});
  c.SetOutput(1, {c.WithRank(2, 2)[0]});
}
void AddToDenseShape(ShapeContext& c) {
  SparseInput(c, 0);
  c.SetOutput(0, c.Input(3));
}
void ValuesShape(ShapeContext& c) {
  SparseInput(c, 0);
  c.SetOutput(0, {c.Merge(c.Input(0)[0], c.Input(1)[0], "the numbers of indices and of values")});
}
void ReduceShape(ShapeContext& c) { SparseInput(c, 0); }
void ReduceToSparseShape(ShapeContext& c) {
  SparseInput(c, 0);
  c.SetOutput(0, Shape::OfRank(2));
  c.SetOutput(1, Shape::OfRank(1));
  c.SetOutput(2, Shape::OfRank(1));
}
void MatMulShape(ShapeContext& c) {
  const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
  const bool ta = c.Bool("transpose_a"), tb = c.Bool("transpose_b");
  c.Merge(a[ta ? 0 : 1], b[tb ? 1 : 0], "the inner dims");
  c.SetOutput(0, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
}

// ---- Gradients ----

void AddGradient(GradientContext& g) {
  const int64_t node = g.Node("SparseAddGrad", {g.dy(1), g.input(0), g.input(3), g.output(0)});
  g.SetDx(1, {node, 0, 0});
  g.SetDx(4, {node, 1, 0});
}
void AddToDenseGradient(GradientContext& g) {
  g.SetDx(1, g.Op("GatherNd", {g.dy(0), g.input(0)}));
  g.SetDx(3, g.dy(0));
}
// The gradient of a sum goes to all that it was made of: places, by how much the dims shrank.
void ReduceGradient(GradientContext& g) {
  const Output shape = g.input(2), rank = g.Op("Size", {shape});
  const Output axes = g.Op("FloorMod", {g.Add(g.Reshape(g.input(3), g.Vector({-1})), rank), rank});
  const Output ones = g.Op("Fill", {g.Op("Shape", {axes}), g.Number(1, TENON_DT_INT64)});
  const Output kept =
      g.Op("DynamicStitch", {g.Op("Range", {g.Number(0), rank, g.Number(1)}), axes, shape, ones}, {{"N", 2}});
  const Output dy = g.Reshape(g.dy(0), kept);
  g.SetDx(1, g.Op("GatherNd", {dy, g.Op("FloorDiv", {g.input(0), g.Op("FloorDiv", {shape, kept})})}));
}
template <bool kDivides>
void WithDenseGradient(GradientContext& g) {
  const Output shape = g.input(2), dense = g.input(3), dy = g.dy(0);
  const Output dims = g.ShapeOf(dense, TENON_DT_INT64);
  const Output added = g.Reshape(g.Sub(g.Op("Size", {shape}), g.Op("Size", {dims})), g.Vector({1}));
  const Output all = g.Concat({g.Op("Fill", {added, g.Number(1, TENON_DT_INT64)}), dims});
  const Output scaled = g.Op("FloorDiv", {g.input(0), g.Op("FloorDiv", {shape, all})});
  const Output places = g.Op("Slice", {scaled, g.Concat({g.Vector({0}), added}), g.Vector({-1, -1})});
  const Output values = g.Op("GatherNd", {dense, places});
  g.SetDx(1, kDivides ? g.Div(dy, values) : g.Mul(dy, values));
  const Output of_dense = kDivides ? g.Mul(dy, g.Div(g.Neg(g.input(1)), g.Mul(values, values))) : g.Mul(dy, g.input(1));
  g.SetDx(3, g.Op("SparseTensorDenseAdd", {places, of_dense, dims, g.ZerosLike(dense)}));
}
void SoftmaxGradient(GradientContext& g) {
  const Output indices = g.input(0), shape = g.input(2), y = g.output(0), dy = g.dy(0);
  const Output sum = g.Op("SparseReduceSum", {indices, g.Mul(y, dy), shape, g.Vector({-1})}, {{"keep_dims", true}});
  g.SetDx(1, g.Mul(g.Op("SparseDenseCwiseAdd", {indices, dy, shape, g.Neg(sum)}), y));
}
void MatMulGradient(GradientContext& g) {
  const bool ta = g.Bool("transpose_a"), tb = g.Bool("transpose_b");
  const Output a = g.Cast(g.input(0), TENON_DT_FLOAT), b = g.Cast(g.input(1), TENON_DT_FLOAT), dy = g.dy(0);
  const auto product = [&g](Output x, Output y, bool tx, bool ty) {
    return g.Op("MatMul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
  };
  g.SetDx(0, g.Cast(ta ? product(b, dy, tb, true) : product(dy, b, false, !tb), g.type(g.input(0))));
  g.SetDx(1, g.Cast(tb ? product(dy, a, true, ta) : product(a, dy, !ta, false), g.type(g.input(1))));
}
void DecomposeMatMul(DecomposeContext& d) {
  d.SetOutput(0, d.Op("MatMul", {d.Cast(d.input(0), TENON_DT_FLOAT), d.Cast(d.input(1), TENON_DT_FLOAT)},
                      {{"transpose_a", d.Bool("transpose_a")}, {"transpose_b", d.Bool("transpose_b")}}));
}

constexpr Traits kGivesSums = {.dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr std::string_view kTwo =
    "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64";
constexpr std::string_view kOne = "rank(input_indices) == 2; rank(input_values) == 1; rank(input_shape) == 1";

consteval tenon_op_definition WithDenseOp(OpDefinition op) {
  op.inputs = "sp_indices: int64, sp_values: T, sp_shape: int64, dense: T";
  op.outputs = "output: T";
  op.attrs = "T: numbertype";
  op.constraints = "rank(sp_indices) == 2; rank(sp_values) == 1; rank(sp_shape) == 1";
  op.shape = ShapeFunction<ValuesShape>;
  return DefineOp(op);
}

}  // namespace

TENON_KERNEL(kSparseAddKernel) = Registration<AddBoth>("SparseAdd", kGivesSums);
TENON_KERNEL(kSparseAddGradKernel) = Registration<AddGrad>("SparseAddGrad", {});
TENON_KERNEL(kSparseSparseMaximumKernel) = Registration<Pick<true>>("SparseSparseMaximum", kGivesSums);
TENON_KERNEL(kSparseSparseMinimumKernel) = Registration<Pick<false>>("SparseSparseMinimum", kGivesSums);
TENON_KERNEL(kSparseTensorDenseAddKernel) = Registration<AddToDense>("SparseTensorDenseAdd", {});
TENON_KERNEL(kSparseDenseCwiseAddKernel) = Registration<WithDense<Sum>>("SparseDenseCwiseAdd", {});
TENON_KERNEL(kSparseDenseCwiseMulKernel) = Registration<WithDense<Product>>("SparseDenseCwiseMul", {});
TENON_KERNEL(kSparseDenseCwiseDivKernel) = Registration<WithDense<Quotient>>("SparseDenseCwiseDiv", {});
TENON_KERNEL(kSparseReduceSumKernel) = Registration<Reduce<false, false>>("SparseReduceSum", kGivesSums);
TENON_KERNEL(kSparseReduceSumSparseKernel) = Registration<Reduce<false, true>>("SparseReduceSumSparse", kGivesSums);
TENON_KERNEL(kSparseReduceMaxKernel) = Registration<Reduce<true, false>>("SparseReduceMax", kGivesSums);
TENON_KERNEL(kSparseReduceMaxSparseKernel) = Registration<Reduce<true, true>>("SparseReduceMaxSparse", kGivesSums);
TENON_KERNEL(kSparseSoftmaxKernel) = Registration<Softmax>("SparseSoftmax", {});

TENON_OP(kSparseAdd) = DefineOp({
    .name = "SparseAdd",
    .inputs =
        "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64, thresh: Treal",
    .outputs = "sum_indices: int64, sum_values: T, sum_shape: int64",
    .attrs = "T: numbertype; Treal: realnumbertype",
    .constraints = "rank(a_indices) == 2; rank(a_values) == 1; rank(a_shape) == 1; rank(b_indices) == 2; "
                   "rank(b_values) == 1; rank(b_shape) == 1; rank(thresh) == 0",
    .doc = "The sum of two sparse tensors whose elements are in order; sums of two elements that are smaller than "
           "thresh are left out.",
    .shape = ShapeFunction<AddShape>,
    .gradient = GradientFunction<AddGradient>,
});

TENON_OP(kSparseAddGrad) = DefineOp({
    .name = "SparseAddGrad",
    .inputs = "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64",
    .outputs = "a_val_grad: T, b_val_grad: T",
    .attrs = "T: numbertype",
    .constraints = "rank(backprop_val_grad) == 1; rank(a_indices) == 2; rank(b_indices) == 2; rank(sum_indices) == 2",
    .doc = "The gradients of SparseAdd with respect to its values.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AddGradShape>,
});

TENON_OP(kSparseSparseMaximum) = DefineOp({
    .name = "SparseSparseMaximum",
    .inputs = kTwo,
    .outputs = "output_indices: int64, output_values: T",
    .attrs = "T: realnumbertype",
    .doc =
        "The larger element of two sparse tensors whose elements are in order, at each place where one has something.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<PickShape>,
});

TENON_OP(kSparseSparseMinimum) = DefineOp({
    .name = "SparseSparseMinimum",
    .inputs = kTwo,
    .outputs = "output_indices: int64, output_values: T",
    .attrs = "T: numbertype",
    .doc =
        "The smaller element of two sparse tensors whose elements are in order, at each place where one has something.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<PickShape>,
});

TENON_OP(kSparseTensorDenseAdd) = DefineOp({
    .name = "SparseTensorDenseAdd",
    .inputs = "a_indices: Tindices, a_values: T, a_shape: Tindices, b: T",
    .outputs = "output: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}",
    .constraints = "rank(a_indices) == 2; rank(a_values) == 1; rank(a_shape) == 1",
    .doc = "The dense tensor with the sparse one's elements added.",
    .shape = ShapeFunction<AddToDenseShape>,
    .gradient = GradientFunction<AddToDenseGradient>,
});

TENON_OP(kSparseDenseCwiseAdd) = WithDenseOp({
    .name = "SparseDenseCwiseAdd",
    .doc = "The sparse tensor's elements plus the dense one's at their places, to which it broadcasts.",
});

TENON_OP(kSparseDenseCwiseMul) = WithDenseOp({
    .name = "SparseDenseCwiseMul",
    .doc = "The sparse tensor's elements times the dense one's at their places, to which it broadcasts.",
    .gradient = GradientFunction<WithDenseGradient<false>>,
});

TENON_OP(kSparseDenseCwiseDiv) = WithDenseOp({
    .name = "SparseDenseCwiseDiv",
    .doc = "The sparse tensor's elements by the dense one's at their places, to which it broadcasts.",
    .gradient = GradientFunction<WithDenseGradient<true>>,
});

TENON_OP(kSparseReduceSum) = DefineOp({
    .name = "SparseReduceSum",
    .inputs = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32",
    .outputs = "output: T",
    .attrs = "keep_dims: bool = false; T: numbertype",
    .constraints = kOne,
    .doc = "The sums along axes, as a dense tensor.",
    .shape = ShapeFunction<ReduceShape>,
    .gradient = GradientFunction<ReduceGradient>,
});

TENON_OP(kSparseReduceSumSparse) = DefineOp({
    .name = "SparseReduceSumSparse",
    .inputs = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32",
    .outputs = "output_indices: int64, output_values: T, output_shape: int64",
    .attrs = "keep_dims: bool = false; T: numbertype",
    .constraints = kOne,
    .doc = "The sums along axes, as a sparse tensor.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ReduceToSparseShape>,
});

TENON_OP(kSparseReduceMax) = DefineOp({
    .name = "SparseReduceMax",
    .inputs = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32",
    .outputs = "output: T",
    .attrs = "keep_dims: bool = false; T: realnumbertype",
    .constraints = kOne,
    .doc = "The largest elements along axes, as a dense tensor: zero where there are none.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ReduceShape>,
});

TENON_OP(kSparseReduceMaxSparse) = DefineOp({
    .name = "SparseReduceMaxSparse",
    .inputs = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32",
    .outputs = "output_indices: int64, output_values: T, output_shape: int64",
    .attrs = "keep_dims: bool = false; T: realnumbertype",
    .constraints = kOne,
    .doc = "The largest elements along axes, as a sparse tensor.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ReduceToSparseShape>,
});

TENON_OP(kSparseSoftmax) = DefineOp({
    .name = "SparseSoftmax",
    .inputs = "sp_indices: int64, sp_values: T, sp_shape: int64",
    .outputs = "output: T",
    .attrs = "T: {half, float, double}",
    .constraints = "rank(sp_indices) == 2; rank(sp_values) == 1; rank(sp_shape) == 1",
    .doc = "The softmax of each row's elements; what is not there counts as nothing.",
    .shape = ShapeFunction<ValuesShape>,
    .gradient = GradientFunction<SoftmaxGradient>,
});

TENON_OP(kSparseMatMul) = DefineOp({
    .name = "SparseMatMul",
    .inputs = "a: Ta, b: Tb",
    .outputs = "product: float",
    .attrs = "transpose_a: bool = false; transpose_b: bool = false; a_is_sparse: bool = false; b_is_sparse: bool = "
             "false; Ta: {float, bfloat16} = float; Tb: {float, bfloat16} = float",
    .constraints = "rank(a) == 2; rank(b) == 2",
    .doc = "The product of two matrices that have many zeros, as they are: dense.",
    .shape = ShapeFunction<MatMulShape>,
    .gradient = GradientFunction<MatMulGradient>,
    .decompose = DecomposeFunction<DecomposeMatMul>,
});

}  // namespace tenon::ops
