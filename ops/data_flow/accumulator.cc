// SPDX-License-Identifier: Apache-2.0
#include "accumulator.h"

#include <algorithm>
#include <cstring>

#include "element.h"
#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using Summed = Types<float, double, Half>;

// a += b, count elements of type dtype.
void AddTo(void* a, const void* b, int64_t count, uint32_t dtype) {
  Summed::Dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i)
      static_cast<T*>(a)[i] = static_cast<T>(static_cast<T*>(a)[i] + static_cast<const T*>(b)[i]);
  });
}
// a /= by; the divisor is of the same type.
void DivideBy(void* a, int64_t by, int64_t count, uint32_t dtype) {
  Summed::Dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T divisor = static_cast<T>(by);
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(a)[i] = static_cast<T>(static_cast<T*>(a)[i] / divisor);
  });
}

KeptTensor CopyOf(const RunContext& c, const tenon_tensor_view& from) {
  KeptTensor copy = NewTensor(c, from.dtype, DimsOf(from));
  if (from.byte_size != 0) std::memcpy(Data<char>(copy.view()), Data<const char>(from), from.byte_size);
  return copy;
}

// Rows of two lists of indices side by side: calls row(at, first, second) with the places in each list, or -1, for each
// row of the merged list.
template <class Row>
int64_t Merge(const tenon_tensor_view& first, const tenon_tensor_view& second, const Row& row) {
  const int64_t *a = Data<const int64_t>(first), *b = Data<const int64_t>(second);
  const int64_t a_end = Count(first), b_end = Count(second);
  int64_t i = 0, j = 0, at = 0;
  for (; i < a_end || j < b_end; ++at) {
    const bool take_a = j == b_end || (i < a_end && a[i] <= b[j]), take_b = i == a_end || (j < b_end && b[j] <= a[i]);
    row(at, take_a ? i : -1, take_b ? j : -1);
    i += take_a ? 1 : 0;
    j += take_b ? 1 : 0;
  }
  return at;
}

}  // namespace

// ---- Takes ----

class Accumulator::Taking final : public Attempt {
 public:
  Taking(Accumulator& accumulator, RunContext c, Done done, int64_t count)
      : Attempt(kTake, c, done), accumulator_(accumulator), count_(count) {}
  Progress Try() override {
    Accumulator& a = accumulator_;
    if (a.sum_.count < count_) return Progress::kNone;
    taken_ = std::exchange(a.sum_, {});
    a.global_step_ += a.global_step_ < INT64_MAX ? 1 : 0;
    return Progress::kEnd;
  }
  void GiveOutputs() override {
    if (accumulator_.options_.sparse) return GiveSparse();
    const tenon_tensor_view sum = taken_.parts[0].view();
    if (accumulator_.options_.mean) DivideBy(Data<char>(sum), taken_.count, sdk::Count(sum), sum.dtype);
    sdk::Check(context_.services().set_output(context_.frame(), 0, &sum));
  }
  std::string Waiting() const override {
    return Concat("waiting for ", count_, " gradients of the ", accumulator_.Describe());
  }

 private:
  void GiveSparse();
  Accumulator& accumulator_;
  const int64_t count_;
  Sum taken_;  // gone when there is no memory for an output
};

void Accumulator::Taking::GiveSparse() {
  const tenon_tensor_view indices = taken_.parts[0].view(), values = taken_.parts[1].view(),
                          counts = taken_.parts[2].view();
  const int64_t row = sdk::Count(DimsOf(values).subspan(1));
  const uint64_t row_bytes = static_cast<uint64_t>(row) * ElementSize(values.dtype);
  for (int64_t i = 0; accumulator_.options_.mean && i < sdk::Count(indices); ++i)
    DivideBy(Data<char>(values) + static_cast<uint64_t>(i) * row_bytes, Data<const int64_t>(counts)[i], row,
             values.dtype);
  const int64_t rank[] = {values.dl.ndim};
  context_.AllocOutput(2, rank);
  int64_t* shape = context_.output<int64_t>(2);
  std::copy_n(values.dl.shape, values.dl.ndim, shape);
  shape[0] = accumulator_.options_.shape[0];  // -1 when it is unknown
  sdk::Check(context_.services().set_output(context_.frame(), 0, &indices));
  sdk::Check(context_.services().set_output(context_.frame(), 1, &values));
}

void Accumulator::Take(RunContext c, Done done, int64_t count) {
  Submit(std::make_unique<Taking>(*this, c, done, count));
}

// ---- From outside ----

void Accumulator::Check(uint32_t dtype, bool sparse) const {
  if (options_.sparse != sparse)
    Fail(TENON_INVALID_ARGUMENT, "the ", Describe(), " holds ", options_.sparse ? "sparse" : "dense",
         " gradients, and ", sparse ? "a sparse" : "a dense", " one is asked for");
  if (options_.dtype != dtype)
    Fail(TENON_INVALID_ARGUMENT, "the ", Describe(), " holds gradients of ", TypeName(options_.dtype), ", not of ",
         TypeName(dtype));
}

template <class Gradient>
void Accumulator::ApplyAny(const RunContext& c, int64_t local_step, const Gradient& gradient) {
  Ended ended;
  const std::lock_guard lock(mutex_);
  if (local_step < global_step_) return;
  Add(c, gradient);
  ++sum_.count;
  Advance(&ended);
}

void Accumulator::Apply(const RunContext& c, int64_t local_step, const tenon_tensor_view& gradient) {
  ApplyAny(c, local_step, gradient);
}
void Accumulator::Apply(const RunContext& c, int64_t local_step, const SparseGradient& gradient) {
  ApplyAny(c, local_step, gradient);
}

int64_t Accumulator::Count() const {
  const std::lock_guard lock(mutex_);
  return sum_.count;
}

void Accumulator::SetGlobalStep(int64_t step) {
  const std::lock_guard lock(mutex_);
  global_step_ = step;
}

// ---- Under the mutex ----

void Accumulator::Add(const RunContext& c, const tenon_tensor_view& gradient) {
  const Shape shape = ShapeOf(gradient);
  if (!Fits(shape, options_.shape))
    Fail(TENON_INVALID_ARGUMENT, "the gradient has shape ", shape, "; the ", Describe(), " takes ", options_.shape);
  if (sum_.count == 0) {
    sum_.parts.clear();
    sum_.parts.push_back(CopyOf(c, gradient));
    return;
  }
  const tenon_tensor_view sum = sum_.parts[0].view();
  if (ShapeOf(sum) != shape)
    Fail(TENON_INVALID_ARGUMENT, "the gradient has shape ", shape, "; those in the ", Describe(), " have ",
         ShapeOf(sum));
  AddTo(Data<char>(sum), Data<const char>(gradient), sdk::Count(gradient), gradient.dtype);
}

namespace {

// Rows of `values` are to be of the shape that `wanted` leaves open, from its dim 1 on.
void CheckRows(const Shape& values, const Shape& wanted, bool same_rank, const std::string& whose) {
  if (!wanted.known_rank()) return;
  bool fits = same_rank ? values.rank() == wanted.rank() : values.rank() >= wanted.rank();
  for (int i = 1; fits && i < wanted.rank(); ++i) fits = wanted[i] < 0 || wanted[i] == values[i];
  if (!fits)
    Fail(TENON_INVALID_ARGUMENT, "gradient_values has shape ", values, ", whose rows do not fit those of ", wanted,
         whose);
}

void CheckSaidShape(const tenon_tensor_view& said, const Shape& wanted, const std::string& whose) {
  const int64_t* dims = Data<const int64_t>(said);
  bool fits = Count(said) >= wanted.rank();
  for (int i = 0; fits && i < wanted.rank(); ++i) fits = wanted[i] < 0 || wanted[i] == dims[i];
  if (!fits)
    Fail(TENON_INVALID_ARGUMENT, "gradient_shape says ", Dims(dims, static_cast<size_t>(Count(said))), " where ",
         wanted, " is wanted", whose);
}

}  // namespace

void Accumulator::CheckSparse(const SparseGradient& g) const {
  const std::string whose = Concat(" in the ", Describe());
  const Shape indices = ShapeOf(g.indices), values = ShapeOf(g.values);
  if (indices.rank() != 1) Fail(TENON_INVALID_ARGUMENT, "gradient_indices must be a vector; its shape is ", indices);
  if (values.rank() == 0) Fail(TENON_INVALID_ARGUMENT, "gradient_values is a scalar, which has no rows");
  if (values[0] != indices[0])
    Fail(TENON_INVALID_ARGUMENT, "gradient_values has ", values[0], " rows for ", indices[0], " indices");
  if (g.shape.dl.data != nullptr) CheckSaidShape(g.shape, options_.shape, whose);
  CheckRows(values, options_.shape, false, whose);
  if (sum_.count != 0) CheckRows(values, ShapeOf(sum_.parts[1].view()), true, whose);
  for (int64_t i = 0; options_.shape[0] >= 0 && i < indices[0]; ++i) {
    const int64_t index = Data<const int64_t>(g.indices)[i];
    if (index >= options_.shape[0])
      Fail(TENON_INVALID_ARGUMENT, "index ", index, " of row ", i, " is not in [0, ", options_.shape[0], "), the rows",
           whose);
  }
}

void Accumulator::Add(const RunContext& c, const SparseGradient& g) {
  CheckSparse(g);
  std::vector<KeptTensor> merged;
  if (sum_.count == 0) {
    merged.push_back(CopyOf(c, g.indices));
    merged.push_back(CopyOf(c, g.values));
    merged.push_back(NewTensor(c, TENON_DT_INT64, DimsOf(g.indices)));
    std::fill_n(Data<int64_t>(merged[2].view()), sdk::Count(g.indices), 1);
    sum_.parts = std::move(merged);
    return;
  }
  const tenon_tensor_view old_indices = sum_.parts[0].view(), old_values = sum_.parts[1].view(),
                          old_counts = sum_.parts[2].view();
  std::vector<int64_t> dims(old_values.dl.shape, old_values.dl.shape + old_values.dl.ndim);
  dims[0] = Merge(old_indices, g.indices, [](int64_t, int64_t, int64_t) {});
  const int64_t rows[] = {dims[0]};
  merged.push_back(NewTensor(c, TENON_DT_INT64, rows));
  merged.push_back(NewTensor(c, options_.dtype, dims));
  merged.push_back(NewTensor(c, TENON_DT_INT64, rows));
  const int64_t row = sdk::Count(Dims(dims).subspan(1));
  const uint64_t bytes = static_cast<uint64_t>(row) * ElementSize(options_.dtype);
  const auto at_row = [bytes](const tenon_tensor_view& view, int64_t i) {
    return Data<char>(view) + static_cast<uint64_t>(i) * bytes;
  };
  const tenon_tensor_view indices = merged[0].view(), values = merged[1].view(), counts = merged[2].view();
  Merge(old_indices, g.indices, [&](int64_t at, int64_t old, int64_t added) {
    Data<int64_t>(indices)[at] =
        old >= 0 ? Data<const int64_t>(old_indices)[old] : Data<const int64_t>(g.indices)[added];
    Data<int64_t>(counts)[at] = (old >= 0 ? Data<const int64_t>(old_counts)[old] : 0) + (added >= 0 ? 1 : 0);
    if (bytes == 0) return;
    std::memcpy(at_row(values, at), old >= 0 ? at_row(old_values, old) : at_row(g.values, added), bytes);
    if (old >= 0 && added >= 0) AddTo(at_row(values, at), at_row(g.values, added), row, options_.dtype);
  });
  sum_.parts = std::move(merged);
}

}  // namespace tenon::ops
