// SPDX-License-Identifier: Apache-2.0
// Sparse tensors one by one, and many of them as one.
#ifndef TENON_OPS_SPARSE_PACKED_H_
#define TENON_OPS_SPARSE_PACKED_H_

#include <algorithm>
#include <vector>

#include "held.h"

namespace tenon::ops::sparse {

// Indices, values and dense shape.
using Packed = std::vector<sdk::KeptTensor>;

inline sdk::KeptTensor NumbersOf(const sdk::RunContext& c, sdk::Dims dims, const int64_t* numbers) {
  sdk::KeptTensor tensor = sdk::NewTensor(c, TENON_DT_INT64, dims);
  if (const int64_t count = sdk::Count(dims); count != 0)
    std::copy_n(numbers, count, sdk::Data<int64_t>(tensor.view()));
  return tensor;
}

// That they fit each other.
inline void CheckSparse(sdk::Dims indices, sdk::Dims values, sdk::Dims shape) {
  if (indices[0] != values[0])
    sdk::Fail(TENON_INVALID_ARGUMENT, "there are ", indices[0], " indices for ", values[0], " values");
  if (indices[1] != shape[0])
    sdk::Fail(TENON_INVALID_ARGUMENT, "the indices have ", indices[1], " columns, the dense shape ", shape[0], " dims");
}

// Calls function(Packed&) for each row of the sparse tensor in inputs 0 to 2, whose elements are in the order of their
// rows, which are in [0, rows).
template <class Function>
void ForEachRow(const sdk::RunContext& c, int64_t rank, int64_t rows, const Function& function) {
  using namespace sdk;
  const int64_t* indices = c.input<int64_t>(0);
  const int64_t shape_dims[] = {rank - 1}, all = DimsOf(c.input_view(0))[0];
  CancelPoll poll(c);
  for (int64_t row = 0, at = 0; row < rows; ++row) {
    const int64_t first = at;
    while (at < all && indices[at * rank] == row) ++at;
    const int64_t index_dims[] = {at - first, rank - 1};
    Packed parts;
    parts.push_back(NewTensor(c, TENON_DT_INT64, index_dims));
    for (int64_t i = first; i < at; ++i)
      std::copy_n(indices + i * rank + 1, rank - 1, Data<int64_t>(parts[0].view()) + (i - first) * (rank - 1));
    parts.push_back(Rows(c, c.input_view(1), first, at - first));
    parts.push_back(NumbersOf(c, shape_dims, c.input<int64_t>(2) + 1));
    function(parts);
    poll((at - first) * rank + 1000);
  }
}
// Outputs 0 to 2: the sparse tensor whose first dims are `outer`, and whose others have room for each of those that
// stand there; as many as outer has elements, one at least.
inline void GiveStacked(const sdk::RunContext& c, sdk::Dims outer, uint32_t dtype, const std::vector<Packed>& all) {
  using namespace sdk;
  const auto count = static_cast<int64_t>(all.size());
  std::vector<tenon_tensor_view> values;
  std::vector<int64_t> shape(outer.begin(), outer.end());
  int64_t total = 0;
  CancelPoll poll(c);
  for (int64_t i = 0; i < count; ++i, poll(10)) {
    const Packed& one = all[static_cast<size_t>(i)];
    total = Add(total, DimsOf(one[0].view())[0]);
    const tenon_tensor_view dims = one[2].view();
    const auto rank = static_cast<size_t>(Count(dims));
    if (i == 0) shape.resize(outer.size() + rank, 0);
    if (outer.size() + rank != shape.size())
      Fail(TENON_INVALID_ARGUMENT, "Inconsistent shape across SparseTensors: rank prior to SparseTensor[", i,
           "] was: ", shape.size() - outer.size(), " but rank of SparseTensor[", i, "] is: ", rank);
    // The smallest shape that has room for all.
    for (size_t d = 0; d < rank; ++d) {
      const int64_t dim = Data<const int64_t>(dims)[d];
      if (dim < 0) Fail(TENON_INVALID_ARGUMENT, "SparseTensor[", i, "] has the dim ", dim);
      shape[outer.size() + d] = std::max(shape[outer.size() + d], dim);
    }
  }
  for (const Packed& parts : all) values.push_back(parts[1].view());
  const int64_t columns = static_cast<int64_t>(shape.size()), index_dims[] = {total, columns}, value_dims[] = {total},
                shape_dims[] = {columns};
  c.AllocOutput(0, index_dims);
  int64_t* to = c.output<int64_t>(0);
  std::vector<int64_t> place(outer.size(), 0);
  for (const Packed& parts : all) {
    const tenon_tensor_view indices = parts[0].view();
    const int64_t inner = DimsOf(indices)[1];
    for (int64_t i = 0; i < DimsOf(indices)[0]; ++i) {
      to = std::copy(place.begin(), place.end(), to);
      to = std::copy_n(Data<const int64_t>(indices) + i * inner, inner, to);
    }
    for (size_t d = outer.size(); d-- > 0 && ++place[d] == outer[d];) place[d] = 0;
    poll(DimsOf(indices)[0] * columns);
  }
  GiveJoined(c, 1, value_dims, dtype, values);
  c.AllocOutput(2, shape_dims);
  std::copy(shape.begin(), shape.end(), c.output<int64_t>(2));
}

}  // namespace tenon::ops::sparse
#endif  // TENON_OPS_SPARSE_PACKED_H_
