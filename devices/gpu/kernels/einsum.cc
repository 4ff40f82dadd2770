// SPDX-License-Identifier: Apache-2.0
// Einsum: sums of what one operand alone has, then a batched product, each copied only where the product cannot read or
// write it as it lies.
//
// Our own product takes operands of nearly any strides; a vendor's library takes matrices in lines or turned, in even
// batches. For a library that takes the product a copy is worth its time, for our own it is not. Halves are rounded
// after each of these steps.
#include "tenon/extras/walk/einsum_shape.h"

#include <optional>

#include "kernels/move.h"
#include "kernels/product.h"
#include "kernels/reduction.h"

namespace tenon::gpu {
namespace {

using sdk::EinsumShape;
using Labels = EinsumShape::Labels;
using Strides = EinsumShape::Strides;

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// Strides of labels that lie in that order, but for those that stay where they are in `like`; gives how many elements
// there are.
int64_t LayOut(const EinsumShape& e, const Labels& order, const Strides& like, Strides* out) {
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const bool stays = e.size(order[i]) != 1 && like.at(order[i]) == 0;
    (*out)[order[i]] = stays ? 0 : step;
    if (!stays) step = sdk::Multiply(step, e.size(order[i]));
  }
  return step;
}

Moving MovingOf(const EinsumShape& e, const Labels& order, const Strides& from, const Strides& to, uint32_t dtype,
                Shapes& s) {
  Walk walk;
  Labels seen;
  for (int label : order) {
    if (std::find(seen.begin(), seen.end(), label) != seen.end()) continue;
    seen.push_back(label);
    if (to.at(label) != 0 || e.size(label) == 0) walk.Add(e.size(label), from.at(label), to.at(label));
  }
  return Moving(walk, BytesOf(dtype), s);
}

// ---- Sums of what one operand alone has ----

class Summing {
 public:
  // strides: of operand i; become those of what is left. place: whether the sums get one in the workspace.
  Summing(const EinsumShape& e, size_t i, uint32_t dtype, bool place, Strides* strides, Shapes& s) {
    const auto is_summed = [&](int label) {
      return e.size(label) != 1 && !e.target.contains(label) && (e.operands == 1 || !e.sources[1 - i].contains(label));
    };
    Labels order;
    for (int label : e.labels[i]) {
      if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
    }
    if (std::none_of(order.begin(), order.end(), is_summed)) return;
    if (EinsumShape::IsDiagonal(e.labels[i], *strides)) {
      Strides packed;
      diagonal_at_ = s.Workspace(sdk::Multiply(LayOut(e, order, *strides, &packed), BytesOf(dtype)));
      diagonal_ = MovingOf(e, order, *strides, packed, dtype, s);
      *strides = packed;
    }
    std::vector<int64_t> dims, axes;
    Labels kept;
    for (int label : order) {
      if (is_summed(label)) axes.push_back(static_cast<int64_t>(dims.size()));
      else kept.push_back(label);
      dims.push_back(strides->at(label) == 0 ? 1 : e.size(label));
    }
    Strides left;
    const int64_t outputs = LayOut(e, kept, *strides, &left);
    *strides = left;
    if (place) sum_at_ = s.Workspace(sdk::Multiply(outputs, BytesOf(dtype)));
    sum_.emplace(s, sdk::ReduceShape(dims, axes.data(), TENON_DT_INT64, static_cast<int64_t>(axes.size())), "Sum",
                 dtype);
  }

  bool sums() const { return sum_.has_value(); }
  const char* Launch(Launcher& on, const char* x) const {
    return sums() ? LaunchTo(on, x, on.Workspace<char>(sum_at_)) : x;
  }
  const char* LaunchTo(Launcher& on, const char* x, char* out) const {
    if (diagonal_.has_value()) {
      diagonal_->Launch(on, x, on.Workspace<char>(diagonal_at_));
      x = on.Workspace<char>(diagonal_at_);
    }
    (*sum_)(on, ReduceParams{{}, x, out, 0, 0});
    return out;
  }

 private:
  std::optional<Moving> diagonal_;
  std::optional<Reduction> sum_;
  int64_t diagonal_at_ = 0, sum_at_ = 0;
};

// ---- One operand ----

class OnePlan {
 public:
  OnePlan(const EinsumShape& e, uint32_t dtype, Shapes& s) : bytes_(sdk::Multiply(e.Size(e.out), BytesOf(dtype))) {
    is_diagonal_ = EinsumShape::IsDiagonal(e.out, e.target);
    Strides strides = e.sources[0];
    // Sums that lie as the output does are written there.
    Strides left = strides;
    Labels kept;
    for (int label : e.labels[0]) {
      if (e.target.contains(label) && std::find(kept.begin(), kept.end(), label) == kept.end()) kept.push_back(label);
    }
    LayOut(e, kept, strides, &left);
    const bool lies = !is_diagonal_ && e.LiesAs(left, e.out);
    sum_.emplace(e, 0, dtype, !lies, &strides, s);
    if (!lies || !sum_->sums()) moving_ = MovingOf(e, e.out, strides, e.target, dtype, s);
  }
  void Launch(Launcher& on, char* const* at) const {
    if (is_diagonal_) on.Fill(at[1], 0, bytes_);
    if (!moving_.has_value()) {
      sum_->LaunchTo(on, at[0], at[1]);
    } else {
      moving_->Launch(on, sum_->Launch(on, at[0]), at[1]);
    }
  }

 private:
  int64_t bytes_;
  bool is_diagonal_;
  std::optional<Summing> sum_;
  std::optional<Moving> moving_;
};

// ---- Two operands ----

// What a group of labels walks along in memory, neighbours that go on evenly as one; slowest first.
struct Run {
  int64_t size, stride;
};
std::vector<Run> RunsOf(const EinsumShape& e, const Labels& group, const Strides& strides) {
  std::vector<Run> runs;
  for (int label : group) {
    const int64_t size = e.size(label), stride = strides.at(label);
    if (size == 1) continue;
    if (!runs.empty() && runs.back().stride == stride * size) {
      runs.back() = {runs.back().size * size, stride};
    } else {
      runs.push_back({size, stride});
    }
  }
  return runs;
}
// Of at most two runs.
Steps StepsOf(const std::vector<Run>& runs) {
  if (runs.empty()) return {};
  if (runs.size() == 1) return {runs[0].stride, 0, 0};
  return {runs[1].stride, runs[1].size, runs[0].stride};
}

// Who has to be able to read and write the operands as they lie.
enum class Reader { kLibrary, kOwn };

class TwoPlan {
 public:
  TwoPlan(const EinsumShape& e, uint32_t dtype, Shapes& s) : bytes_(sdk::Multiply(e.Size(e.out), BytesOf(dtype))) {
    is_diagonal_ = EinsumShape::IsDiagonal(e.out, e.target);
    // Neighbours in the output are columns.
    for (int label : e.out) {
      if (e.size(label) == 1) continue;
      left_ = std::find(e.free[0].begin(), e.free[0].end(), label) != e.free[0].end() ? 1 : 0;
    }
    for (size_t i = 0; i < 2; ++i) {
      strides_[i] = e.sources[i];
      sums_[i].emplace(e, i, dtype, true, &strides_[i], s);
    }
    ProductProblem problem = Describe(e, dtype, Reader::kLibrary);
    if ((copied_[0] || copied_[1] || copied_[2]) && !IsLibrarys(problem, s)) problem = Describe(e, dtype, Reader::kOwn);
    for (size_t i = 0; i < 2; ++i) {
      const Labels order = OrderOf(e, i);
      if (copied_[i]) Copy(e, i, order, strides_[i], laid_[i], dtype, s);
    }
    if (copied_[2]) Copy(e, 2, e.out, laid_[2], e.target, dtype, s);
    product_.emplace(problem, s);
  }

  void Launch(Launcher& on, char* const* at) const {
    const char* from[2];
    for (size_t i = 0; i < 2; ++i) {
      from[i] = sums_[i]->Launch(on, at[i]);
      if (!copied_[i]) continue;
      moving_[i].Launch(on, from[i], on.Workspace<char>(at_[i]));
      from[i] = on.Workspace<char>(at_[i]);
    }
    char* const out = copied_[2] ? on.Workspace<char>(at_[2]) : at[2];
    product_->Launch(on, from[left_], from[1 - left_], out);
    if (!copied_[2]) return;
    if (is_diagonal_) on.Fill(at[2], 0, bytes_);
    moving_[2].Launch(on, out, at[2]);
  }

 private:
  Labels OrderOf(const EinsumShape& e, size_t i) const {
    return i < 2 ? EinsumShape::Chain({&e.batch, &e.free[i], &e.contracted})
                 : EinsumShape::Chain({&e.batch, &e.free[left_], &e.free[1 - left_]});
  }
  static bool Fits(const EinsumShape& e, size_t i, const Strides& strides, Reader reader) {
    const auto lines = RunsOf(e, e.free[i], strides), depth = RunsOf(e, e.contracted, strides);
    if (reader == Reader::kOwn) return lines.size() <= 2 && depth.size() <= 2;
    if (lines.size() > 1 || depth.size() > 1 || RunsOf(e, e.batch, strides).size() > 1) return false;
    return lines.empty() || depth.empty() || lines[0].stride == 1 || depth[0].stride == 1;
  }
  bool OutFits(const EinsumShape& e, Reader reader) const {
    if (is_diagonal_ || RunsOf(e, e.batch, e.target).size() > 1) return false;
    const auto rows = RunsOf(e, e.free[left_], e.target), columns = RunsOf(e, e.free[1 - left_], e.target);
    if (reader == Reader::kOwn) return rows.size() <= 2 && columns.size() <= 1;
    return rows.size() <= 1 && (columns.empty() || (columns.size() == 1 && columns[0].stride == 1));
  }

  // Decides what is copied, and how it lies then.
  ProductProblem Describe(const EinsumShape& e, uint32_t dtype, Reader reader) {
    for (size_t i = 0; i < 3; ++i) {
      const Strides& given = i < 2 ? strides_[i] : e.target;
      copied_[i] = i < 2 ? !Fits(e, i, given, reader) : !OutFits(e, reader);
      laid_[i] = given;
      if (!copied_[i]) continue;
      Strides full;
      for (int label : OrderOf(e, i)) full[label] = i < 2 ? given.at(label) : 1;
      LayOut(e, OrderOf(e, i), full, &laid_[i]);
    }
    const Labels &rows = e.free[left_], &columns = e.free[1 - left_];
    ProductProblem p;
    p.dtype = dtype;
    p.rows = e.Size(rows);
    p.columns = e.Size(columns);
    p.depth = e.Size(e.contracted);
    p.left.line = StepsOf(RunsOf(e, rows, laid_[left_]));
    p.left.depth = StepsOf(RunsOf(e, e.contracted, laid_[left_]));
    p.right.line = StepsOf(RunsOf(e, columns, laid_[1 - left_]));
    p.right.depth = StepsOf(RunsOf(e, e.contracted, laid_[1 - left_]));
    p.out_row = StepsOf(RunsOf(e, rows, laid_[2]));
    const std::vector<Run> out_columns = RunsOf(e, columns, laid_[2]);
    p.out_column_step = out_columns.empty() ? 1 : out_columns[0].stride;
    p.batches = BatchesOf(e);
    return p;
  }
  ProductBatches BatchesOf(const EinsumShape& e) const {
    ProductBatches b;
    const std::vector<Run> out = RunsOf(e, e.batch, laid_[2]);
    b.count = e.Size(e.batch);
    b.out_step = out.empty() ? 0 : out[0].stride;
    for (int label : e.batch) {
      const int64_t size = e.size(label), left = laid_[left_].at(label), right = laid_[1 - left_].at(label);
      if (size == 1) continue;
      const bool first = b.inner == 1 && b.rank == 0;
      if (!first && b.left_step == left * size && b.right_step == right * size) {
        b.inner *= size;
      } else {
        if (!first) Push(&b);
        b.inner = size;
      }
      b.left_step = left;
      b.right_step = right;
    }
    return b;
  }
  // What was the innermost dim becomes one of the outer ones.
  static void Push(ProductBatches* b) {
    if (b->rank == kMostBatchDims) {
      sdk::Fail(TENON_UNIMPLEMENTED, "GPUs multiply matrices over at most ", kMostBatchDims + 1,
                " alternations of dims; these have more");
    }
    b->dims[b->rank] = b->inner;
    b->left_strides[b->rank] = b->left_step;
    b->right_strides[b->rank++] = b->right_step;
  }

  void Copy(const EinsumShape& e, size_t i, const Labels& order, const Strides& from, const Strides& to, uint32_t dtype,
            Shapes& s) {
    int64_t count = 1;
    for (int label : OrderOf(e, i)) count = sdk::Multiply(count, laid_[i].at(label) == 0 ? 1 : e.size(label));
    at_[i] = s.Workspace(sdk::Multiply(count, BytesOf(dtype)));
    moving_[i] = MovingOf(e, order, from, to, dtype, s);
  }

  int64_t bytes_;
  bool is_diagonal_;          // the output has a label twice, and zeros beside its diagonal
  size_t left_ = 0;           // the operand whose free labels are rows
  std::optional<Summing> sums_[2];
  Strides strides_[2];        // of the operands, after their sums
  Strides laid_[3];           // of what the product reads and writes
  bool copied_[3] = {};
  int64_t at_[3] = {};        // in the workspace
  Moving moving_[3];
  std::optional<ProductPlan> product_;
};

struct EinsumKernel {
  explicit EinsumKernel(sdk::CreateContext& c) : equation(c.String("equation")) {}
  struct Plan {
    Plan(const EinsumKernel& kernel, Shapes& s) {
      const EinsumShape e(kernel.equation, s.inputs(), s.input_count(), s.output(0));
      if (e.Size(e.out) == 0) return;
      if (e.operands == 1) one.emplace(e, s.dtype(0), s);
      else two.emplace(e, s.dtype(0), s);
    }
    void Launch(Launcher& on, char* const* at) const {
      if (one.has_value()) one->Launch(on, at);
      if (two.has_value()) two->Launch(on, at);
    }
    std::optional<OnePlan> one;
    std::optional<TwoPlan> two;
  };
  std::string equation;
};

}  // namespace

TENON_GPU_KERNEL(Einsum) = Kernel<EinsumKernel>("Einsum",
                                                {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list,
                                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});

}  // namespace tenon::gpu
