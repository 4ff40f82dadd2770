// SPDX-License-Identifier: Apache-2.0
// Elements of a sparse tensor by their numbers: in another order, or some of them.
#ifndef TENON_OPS_SPARSE_CHOSEN_H_
#define TENON_OPS_SPARSE_CHOSEN_H_

#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <numeric>
#include <vector>

#include "places.h"
#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops::sparse {

// Numbers of elements, in memory of the session's.
struct Chosen {
  explicit Chosen(const sdk::RunContext& c) : memory(c), numbers(&memory), poll(c) {}
  // All, in their order.
  Chosen(const sdk::RunContext& c, int64_t count) : Chosen(c) {
    numbers.resize(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
  }
  int64_t count() const { return static_cast<int64_t>(numbers.size()); }
  // By less(number, number), which polls itself where a comparison takes more than that of a few numbers; equal ones
  // keep their order.
  template <class Less>
  void Sort(const Less& less) {
    std::sort(numbers.begin(), numbers.end(), [&](int64_t a, int64_t b) {
      poll(20);
      return less(a, b) || (!less(b, a) && a < b);
    });
  }
  sdk::StepMemory memory;
  std::pmr::vector<int64_t> numbers;
  sdk::CancelPoll poll;
};

// Output `index`, named in dynamic_outputs: a vector of those elements of a tensor, of any plain type or strings.
inline void GiveChosen(const sdk::RunContext& c, int32_t index, const tenon_tensor_view& values, const Chosen& chosen) {
  const int64_t dims[] = {chosen.count()};
  if (values.dtype != TENON_DT_STRING) {
    const uint64_t size = sdk::ElementSize(values.dtype);
    if (size == 0)
      sdk::Fail(TENON_UNIMPLEMENTED, "sparse tensors of ", sdk::TypeName(values.dtype), " cannot be taken apart");
    c.AllocOutput(index, dims);
    char* to = c.output<char>(index);
    for (const int64_t i : chosen.numbers) {
      std::memcpy(to, sdk::Data<const char>(values) + static_cast<uint64_t>(i) * size, size);
      to += size;
    }
    return;
  }
  uint64_t extra = 0;
  for (const int64_t i : chosen.numbers) extra += sdk::StringAt(values, i).size();
  c.AllocOutput(index, dims, extra);
  char* const base = c.output<char>(index);
  auto* cell = reinterpret_cast<tenon_string_cell*>(base);
  uint64_t at = chosen.numbers.size() * sizeof(tenon_string_cell);
  for (const int64_t i : chosen.numbers) {
    const std::string_view text = sdk::StringAt(values, i);
    if (!text.empty()) std::memcpy(base + at, text.data(), text.size());
    *cell++ = {at, text.size()};
    at += text.size();
  }
}

// A sparse tensor among the inputs: indices, values, dense shape, one after the other from `input` on.
// INVALID_ARGUMENT, thrown: they do not fit each other, or a place is outside.
struct Parts {
  Parts(const sdk::RunContext& c, int32_t input, Order order = Order::kAny)
      : Parts(c, c.input_view(input), c.input_view(input + 1), c.input_view(input + 2), order) {}
  Parts(const sdk::RunContext& c, const tenon_tensor_view& indices_view, const tenon_tensor_view& values_view,
        const tenon_tensor_view& shape_view, Order order)
      : values(values_view) {
    if (indices_view.dl.ndim != 2 || values_view.dl.ndim != 1 || shape_view.dl.ndim != 1)
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "a sparse tensor is a matrix of indices, a vector of values and one of dims, not of shapes ",
                sdk::DimsOf(indices_view), ", ", sdk::DimsOf(values_view), " and ", sdk::DimsOf(shape_view));
    shape = {sdk::Data<const int64_t>(shape_view), static_cast<size_t>(sdk::Count(shape_view))};
    count = sdk::DimsOf(indices_view)[0];
    indices = sdk::Data<const int64_t>(indices_view);
    if (count != sdk::Count(values_view))
      sdk::Fail(TENON_INVALID_ARGUMENT, "there are ", count, " indices for ", sdk::Count(values_view), " values");
    if (sdk::DimsOf(indices_view)[1] != rank())
      sdk::Fail(TENON_INVALID_ARGUMENT, "the indices have ", sdk::DimsOf(indices_view)[1], " columns, the dense shape ",
                rank(), " dims");
    for (const int64_t dim : shape)
      if (dim < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "the dense shape ", shape, " has a negative dim");
    CheckPlaces(c, indices_view, shape, order);
  }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  const int64_t* At(int64_t i) const { return indices + i * rank(); }
  const tenon_tensor_view& values;
  sdk::Dims shape;
  const int64_t* indices = nullptr;
  int64_t count = 0;
};

}  // namespace tenon::ops::sparse
#endif  // TENON_OPS_SPARSE_CHOSEN_H_
