// SPDX-License-Identifier: Apache-2.0
// Einsum as matrix products: [batch, free x, contracted] times [batch, free y, contracted].
//
// A label of one operand that the output does not have is summed over while the operand is copied into the workspace.
// Operands that lie right already, and a result that lies as the output wants it, are not copied. Halves are multiplied
// as floats.
#include "tenon/extras/walk/einsum_shape.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/common/fold.h"
#include "kernels/common/types.h"
#include "kernels/moves/strided_copy.h"
#include "kernels/products/product.h"
#include "tenon/extras/kernel/elementwise.h"

namespace tenon::cpu {
namespace {

using EinsumTypes = Types<float, double, int32_t, int64_t, Half, Bfloat16>::AndComplex;
// What Eigen multiplies a T as.
template <class T>
using EinsumElement =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>, Wide<T>>;

using sdk::EinsumShape;

// A copy from one set of strides to another, with sums over some labels.
struct Move {
  std::vector<int64_t> dims, from, to;  // of the labels that stay
  std::vector<int64_t> summed, summed_from;
  int64_t total = 1, terms = 1;

  void Add(int64_t dim, int64_t source, int64_t target) {
    dims.push_back(dim), from.push_back(source), to.push_back(target);
    total = sdk::Multiply(total, dim);
  }
  void AddSum(int64_t dim, int64_t source) {
    summed.push_back(dim), summed_from.push_back(source);
    terms = sdk::Multiply(terms, dim);
  }
  StridedCopy Copy() const {
    StridedCopy copy;
    for (size_t i = 0; i < dims.size(); ++i) copy.Add(dims[i], from[i], to[i]);
    return copy;
  }
  // The labels in the target's order; of the terms those that lie side by side, or nearest to each other, come one
  // after the other.
  void Sort() {
    std::vector<size_t> order(dims.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) { return to[a] > to[b]; });
    const auto sorted = [&order](const std::vector<int64_t>& of) {
      std::vector<int64_t> out;
      for (const size_t i : order) out.push_back(of[i]);
      return out;
    };
    dims = sorted(dims), from = sorted(from), to = sorted(to);
    const auto nearest = std::min_element(summed_from.begin(), summed_from.end());
    if (nearest == summed_from.end()) return;
    std::swap(summed[static_cast<size_t>(nearest - summed_from.begin())], summed.back());
    std::swap(*nearest, summed_from.back());
  }
};

int64_t At(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t cell) {
  int64_t at = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    at += cell % dims[i] * strides[i];
    cell /= dims[i];
  }
  return at;
}

template <class From, class To>
void Run(sdk::RunContext c, const Move& move, const From* from, To* to) {
  using Sum = std::conditional_t<kIsReal<From>, double, From>;
  c.ParallelFor(move.total, 5 + 3.0 * static_cast<double>(move.terms), [&](int64_t begin, int64_t end) {
    for (int64_t cell = begin; cell < end; ++cell) {
      const From* base = from + At(move.dims, move.from, cell);
      const int64_t row = move.summed.empty() ? 1 : std::max<int64_t>(move.summed.back(), 1),
                    step = move.summed.empty() ? 1 : move.summed_from.back();
      Sum sum{0};
      for (int64_t term = 0; term < move.terms; term += row) {
        const From* line = base + At(move.summed, move.summed_from, term);
        constexpr int64_t kLanes = 16;
        int64_t i = 0;
        if (step == 1 && row >= kLanes) {
          Sum lanes[kLanes] = {};
          for (; i + kLanes <= row; i += kLanes)
            for (int64_t l = 0; l < kLanes; ++l)
              lanes[l] = sdk::AddOp()(lanes[l], static_cast<Sum>(static_cast<Wide<From>>(line[i + l])));
          sum = sdk::AddOp()(sum, Fold(lanes, sdk::AddOp()));
        }
        for (; i < row; ++i) sum = sdk::AddOp()(sum, static_cast<Sum>(static_cast<Wide<From>>(line[i * step])));
      }
      to[At(move.dims, move.to, cell)] = static_cast<To>(static_cast<Wide<To>>(sum));
    }
  });
}

class Plan {
 public:
  Plan(const std::string& equation, sdk::PrepareContext& c) : operands_(c.input_count()) {
    const EinsumShape shape(equation, c.args().inputs, operands_, c.output(0));
    diagonal_ = EinsumShape::IsDiagonal(shape.out, shape.target);
    if (operands_ == 1) {
      PlanOne(shape);
    } else {
      PlanTwo(shape, c);
    }
  }

  template <class T>
  void Run(sdk::RunContext c) const {
    if (diagonal_) std::fill_n(c.output<uint8_t>(0), c.output_view(0).byte_size, uint8_t{0});
    operands_ == 1 ? Apply<T, T>(c, move_[0], c.input<T>(0), c.output<T>(0)) : Multiply<T>(c);
  }

 private:
  void PlanOne(const EinsumShape& s) {
    for (const auto& [label, stride] : s.target) move_[0].Add(s.size(label), s.sources[0].at(label), stride);
    for (const auto& [label, stride] : s.sources[0]) {
      if (!s.target.contains(label)) move_[0].AddSum(s.size(label), stride);
    }
    move_[0].Sort();
  }

  void PlanTwo(const EinsumShape& s, sdk::PrepareContext& c) {
    batch_ = s.Size(s.batch);
    const int64_t contracted = s.Size(s.contracted), free[2] = {s.Size(s.free[0]), s.Size(s.free[1])};
    EinsumTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
      using E = EinsumElement<T>;
      shape_ = {free[0], free[1], contracted, 0, 0, 0, 0, free[1]};
      for (size_t i = 0; i < 2; ++i) {
        const auto rows = EinsumShape::Chain({&s.batch, &s.free[i], &s.contracted}),
                   columns = EinsumShape::Chain({&s.batch, &s.contracted, &s.free[i]});
        const bool whole = !kIsHalf<T> && rows.size() == s.sources[i].size();
        const bool by_columns = whole && !s.LiesAs(s.sources[i], rows) && s.LiesAs(s.sources[i], columns);
        copied_[i] = !(by_columns || (whole && s.LiesAs(s.sources[i], rows)));
        (i == 0 ? shape_.a_row : shape_.b_column) = by_columns ? 1 : contracted;
        (i == 0 ? shape_.a_column : shape_.b_row) = by_columns ? free[i] : 1;
        each_[i] = sdk::Multiply(free[i], contracted);
        if (copied_[i]) Pack<E>(c, i, s, rows);
      }
      const auto result = EinsumShape::Chain({&s.batch, &s.free[0], &s.free[1]});
      each_[2] = sdk::Multiply(free[0], free[1]);
      copied_[2] = kIsHalf<T> || !s.LiesAs(s.target, result) || diagonal_;
      if (copied_[2]) {
        int64_t step = sdk::Multiply(batch_, each_[2]);
        at_[2] = c.Workspace(sdk::Multiply(step, sizeof(E)));
        for (int label : result) {
          step /= std::max<int64_t>(1, s.size(label));
          move_[2].Add(s.size(label), step, s.target.at(label));
        }
      }
      PlanProducts<E>(c);
    });
  }
  template <class E>
  void Pack(sdk::PrepareContext& c, size_t i, const EinsumShape& s, const EinsumShape::Labels& order) {
    int64_t step = sdk::Multiply(batch_, each_[i]);
    at_[i] = c.Workspace(sdk::Multiply(step, sizeof(E)));
    for (int label : order) {
      step /= std::max<int64_t>(1, s.size(label));
      move_[i].Add(s.size(label), s.sources[i].at(label), step);
    }
    for (const auto& [label, stride] : s.sources[i]) {
      if (std::find(order.begin(), order.end(), label) == order.end()) move_[i].AddSum(s.size(label), stride);
    }
    move_[i].Sort();
  }
  template <class E>
  void PlanProducts(sdk::PrepareContext& c) {
    if constexpr (!sdk::kIsComplex<E>) PlanRealProducts<E>(c);
  }
  template <class E>
  void PlanRealProducts(sdk::PrepareContext& c) {
    if (batch_ == 1) {
      shared_ = SharedProduct::Make<E>(c, shape_);
      return;
    }
    product_ = PlanProduct<E>(shape_);
    tasks_ = std::max<int64_t>(1, std::min(c.threads(), batch_));
    product_at_ = c.Workspace(sdk::Multiply(product_.bytes, tasks_));
    cost_ = 20 + ProductCost<E>(static_cast<double>(shape_.m) * static_cast<double>(shape_.n) *
                                static_cast<double>(shape_.k));
  }

  template <class From, class To>
  static void Apply(sdk::RunContext c, const Move& move, const From* from, To* to) {
    if constexpr (std::is_same_v<From, To>) {
      if (move.summed.empty()) return move.Copy().Run(c, DtypeOf<From>::value, from, to);
    }
    cpu::Run(c, move, from, to);
  }

  template <class T>
  void Multiply(sdk::RunContext c) const {
    using E = EinsumElement<T>;
    // The same bits as another type; halves become floats.
    using Same = std::conditional_t<kIsHalf<T>, float, T>;
    const E* from[2];
    for (int32_t i = 0; i < 2; ++i) {
      const auto k = static_cast<size_t>(i);
      from[k] = c.input<E>(i);
      if (!copied_[k]) continue;
      Same* packed = c.workspace<Same>(at_[k]);
      Apply<T, Same>(c, move_[k], c.input<T>(i), packed);
      from[k] = reinterpret_cast<const E*>(packed);
    }
    E* out = copied_[2] ? c.workspace<E>(at_[2]) : c.output<E>(0);
    if constexpr (sdk::kIsComplex<E>) {
      MultiplyComplex(c, from[0], from[1], out);
    } else if (batch_ == 1) {
      shared_.Run(c, from[0], from[1], out);
    } else {
      c.ParallelFor(
          tasks_, cost_ * static_cast<double>(batch_) / static_cast<double>(tasks_), [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
              char* memory = c.workspace<char>(product_at_ + task * product_.bytes);
              for (int64_t b = batch_ * task / tasks_; b < batch_ * (task + 1) / tasks_; ++b) {
                c.CheckCancelled();
                MultiplyInPieces(c, product_, product_.shape.m > product_.shape.n, cost_, from[0] + b * each_[0],
                                 from[1] + b * each_[1], out + b * each_[2], false, memory);
              }
            }
          });
    }
    if (copied_[2]) Apply<Same, T>(c, move_[2], reinterpret_cast<const Same*>(out), c.output<T>(0));
  }

  // Not Eigen's.
  template <class E>
  void MultiplyComplex(sdk::RunContext c, const E* a, const E* b, E* out) const {
    const ProductShape& g = shape_;
    c.ParallelFor(batch_ * g.m, 4.0 * static_cast<double>(g.n * g.k), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const E* x = a + row / g.m * each_[0] + row % g.m * g.a_row;
        const E* y = b + row / g.m * each_[1];
        for (int64_t j = 0; j < g.n; ++j) {
          E sum{0};
          for (int64_t l = 0; l < g.k; ++l) sum += x[l * g.a_column] * y[l * g.b_row + j * g.b_column];
          out[row * g.n + j] = sum;
        }
      }
    });
  }

  int32_t operands_;
  bool diagonal_ = false;         // the output has a label twice, and zeros beside its diagonal
  Move move_[3];                  // of the operands and of the result
  bool copied_[3] = {};
  int64_t at_[3] = {};    // in the workspace
  int64_t each_[3] = {};  // elements of a batch
  int64_t batch_ = 1, tasks_ = 1, product_at_ = 0;
  double cost_ = 0;
  ProductShape shape_ = {};
  ProductPlan product_;
  SharedProduct shared_;
};

struct EinsumKernel {
  explicit EinsumKernel(sdk::CreateContext& c) : equation(c.String("equation")) {}
  struct Plan : cpu::Plan {
    Plan(const EinsumKernel& kernel, sdk::PrepareContext& c) : cpu::Plan(kernel.equation, c) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    EinsumTypes::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) { plan.Run<T>(c); });
  }
  std::string equation;
};

}  // namespace

TENON_CPU_KERNEL(Einsum) = CpuKernel<EinsumKernel>("Einsum",
                                                   {.constraints = sdk::Constraints<EinsumTypes::Constraint<"T">>::list,
                                                    .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});

}  // namespace tenon::cpu
