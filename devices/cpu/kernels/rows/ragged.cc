// SPDX-License-Identifier: Apache-2.0
// RaggedTensorToTensor.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

// One way in which rows are parted: which row of the level above each row belongs to.
class Partition {
 public:
  Partition(const View& view, std::string_view type) : view_(view), splits_(type == "ROW_SPLITS") {
    if (view.dl.ndim != 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, type, " has shape ", sdk::DimsOf(view), "; it is a vector");
    if (splits_ && sdk::Count(view) == 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "ROW_SPLITS is empty; it has one number more than there are rows");
  }

  // Calls function(row, parent, column) for each row, in order. parents: how many there may be.
  template <class Function>
  void ForEach(int64_t parents, const Function& function) const {
    const int64_t count = sdk::Count(view_);
    if (!splits_) return ForEachId(count, parents, function);
    if (count - 1 != parents)
      sdk::Fail(TENON_INVALID_ARGUMENT, "ROW_SPLITS has ", count, " numbers for ", parents, " rows");
    if (sdk::ValueAt(view_, 0) != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "ROW_SPLITS begins with ", sdk::ValueAt(view_, 0), ", not with 0");
    for (int64_t parent = 0, row = 0; parent < parents; ++parent) {
      const int64_t end = sdk::ValueAt(view_, parent + 1);
      if (end < row) sdk::Fail(TENON_INVALID_ARGUMENT, "ROW_SPLITS falls from ", row, " to ", end, " at ", parent + 1);
      for (int64_t column = 0; row < end; ++row, ++column) function(row, parent, column);
    }
  }
  // INVALID_ARGUMENT: the last of the splits is negative.
  int64_t rows() const {
    const int64_t rows = splits_ ? sdk::ValueAt(view_, sdk::Count(view_) - 1) : sdk::Count(view_);
    if (rows < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "ROW_SPLITS ends with ", rows);
    return rows;
  }

 private:
  template <class Function>
  void ForEachId(int64_t count, int64_t parents, const Function& function) const {
    int64_t before = -1, column = 0;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t parent = sdk::ValueAt(view_, row);
      if (parent < 0 || parent >= parents)
        sdk::Fail(TENON_INVALID_ARGUMENT, "VALUE_ROWIDS[", row, "] is ", parent, ", which is not in [0, ", parents,
                  ")");
      if (parent < before)
        sdk::Fail(TENON_INVALID_ARGUMENT, "VALUE_ROWIDS falls from ", before, " to ", parent, " at ", row);
      column = parent == before ? column + 1 : 0;
      before = parent;
      function(row, parent, column);
    }
  }
  const View& view_;
  bool splits_;
};

// Numbers in the session's memory, so that its limit holds: how many there are stands in tensors that anybody may have
// written.
class CountedNumbers {
 public:
  CountedNumbers(const sdk::RunContext& c, int64_t count, int64_t value)
      : tensor_(sdk::NewTensor(c, TENON_DT_INT64, std::array{count})), count_(count) {
    std::fill_n(data(), count, value);
  }
  int64_t size() const { return count_; }
  int64_t& operator[](int64_t i) { return data()[i]; }

 private:
  int64_t* data() { return sdk::Data<int64_t>(tensor_.view()); }
  sdk::KeptTensor tensor_;
  int64_t count_;
};

struct ToTensorKernel {
  explicit ToTensorKernel(sdk::CreateContext& c) {
    for (const std::string_view type : c.Strings("row_partition_types")) types.emplace_back(type);
  }

  void Run(sdk::RunContext c) const {
    const View &values = c.input_view(1), &filler = c.input_view(2);
    std::vector<Partition> partitions;
    for (size_t i = types[0] == "FIRST_DIM_SIZE" ? 1 : 0; i < types.size(); ++i)
      partitions.emplace_back(c.input_view(3 + static_cast<int32_t>(i)), types[i]);
    const int64_t first = FirstDim(c.input_view(3));
    std::vector<CountedNumbers> places;  // by level
    places.emplace_back(c, first, -1);
    for (const Partition& partition : partitions) places.emplace_back(c, partition.rows(), -1);
    const std::vector<int64_t> dims = DimsOfResult(c, partitions, first);
    if (places.back().size() != sdk::DimsOf(values)[0])
      sdk::Fail(TENON_INVALID_ARGUMENT, "the row partitions have ", places.back().size(),
                " innermost rows, values has ", sdk::DimsOf(values)[0]);
    FindPlaces(partitions, dims, places);
    const std::vector<int64_t> inner(dims.begin() + static_cast<ptrdiff_t>(partitions.size()) + 1, dims.end());
    CheckBroadcast(sdk::DimsOf(filler), inner);
    int64_t blocks = 1;
    for (size_t d = 0; d <= partitions.size(); ++d) blocks = sdk::Multiply(blocks, dims[d]);
    if (sdk::Count(dims) == 0) return c.AllocOutput(0, dims);
    sdk::NewTensor(c, values.dtype,
                   dims);  // whether there is memory for the result, before there is any for what it is made of
    const std::vector<int64_t> fill = Broadcast(sdk::DimsOf(filler), inner);
    CountedNumbers rows(c, blocks, -1);
    for (int64_t row = 0; row < places.back().size(); ++row)
      if (const int64_t place = places.back()[row]; place >= 0) rows[place] = row;
    if (values.dtype == TENON_DT_STRING) return GiveStrings(c, dims, rows, fill);
    c.AllocOutput(0, dims);
    DispatchSize(values.dtype, [&]<class T>(Tag<T>) {
      std::vector<T> nothing;
      for (const int64_t at : fill) nothing.push_back(c.input<T>(2)[at]);
      T* out = c.output<T>(0);
      for (int64_t i = 0; i < blocks; ++i)
        out = std::copy_n(rows[i] < 0 ? nothing.data() : c.input<T>(1) + rows[i] * static_cast<int64_t>(fill.size()),
                          fill.size(), out);
    });
  }

 private:
  int64_t FirstDim(const View& view) const {
    if (types[0] == "ROW_SPLITS") return sdk::Count(view) - 1;
    if (view.dl.ndim != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "FIRST_DIM_SIZE has shape ", sdk::DimsOf(view), "; it is a scalar");
    const int64_t size = sdk::ValueAt(view, 0);
    if (size < 0) sdk::Fail(TENON_INVALID_ARGUMENT, "FIRST_DIM_SIZE is ", size);
    return size;
  }

  std::vector<int64_t> DimsOfResult(const sdk::RunContext& c, const std::vector<Partition>& partitions,
                                    int64_t first) const {
    const View &shape = c.input_view(0), &values = c.input_view(1);
    const size_t rank = partitions.size() + sdk::DimsOf(values).size();
    std::vector<int64_t> dims(rank, -1);
    if (shape.dl.ndim == 0 && sdk::ValueAt(shape, 0) != -1)
      sdk::Fail(TENON_INVALID_ARGUMENT, "shape is the scalar ", sdk::ValueAt(shape, 0),
                "; only -1 stands for any shape");
    for (size_t d = 0; shape.dl.ndim == 1 && d < rank; ++d) {
      dims[d] = sdk::ValueAt(shape, static_cast<int64_t>(d));
      if (dims[d] < -1) sdk::Fail(TENON_INVALID_ARGUMENT, "shape[", d, "] is ", dims[d], "; it must be >= -1");
    }
    int64_t parents = first;
    if (dims[0] < 0) dims[0] = first;
    for (size_t i = 0; i < partitions.size(); ++i) {
      int64_t widest = 0;
      partitions[i].ForEach(parents, [&](int64_t, int64_t, int64_t column) { widest = std::max(widest, column + 1); });
      if (dims[i + 1] < 0) dims[i + 1] = widest;
      parents = partitions[i].rows();
    }
    for (size_t d = partitions.size() + 1; d < rank; ++d) {
      const int64_t inner = sdk::DimsOf(values)[d - partitions.size()];
      if (dims[d] >= 0 && dims[d] != inner)
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of shape and values differ: shape[", d, "] is ", dims[d],
                  ", that of values ", inner);
      dims[d] = inner;
    }
    return dims;
  }

  // Which block of the result each row of each level becomes; -1, which stands there before: it is beyond.
  static void FindPlaces(const std::vector<Partition>& partitions, const std::vector<int64_t>& dims,
                         std::vector<CountedNumbers>& places) {
    for (int64_t i = 0; i < std::min(places[0].size(), dims[0]); ++i) places[0][i] = i;
    for (size_t level = 0; level < partitions.size(); ++level) {
      CountedNumbers &above = places[level], &own = places[level + 1];
      partitions[level].ForEach(above.size(), [&](int64_t row, int64_t parent, int64_t column) {
        if (above[parent] >= 0 && column < dims[level + 1]) own[row] = above[parent] * dims[level + 1] + column;
      });
    }
  }

  static int64_t OwnDim(sdk::Dims from, const std::vector<int64_t>& to, size_t d) {
    return d + from.size() < to.size() ? 1 : from[d + from.size() - to.size()];
  }
  static void CheckBroadcast(sdk::Dims from, const std::vector<int64_t>& to) {
    bool fits = from.size() <= to.size();
    for (size_t d = 0; fits && d < to.size(); ++d) fits = OwnDim(from, to, d) == 1 || OwnDim(from, to, d) == to[d];
    if (!fits)
      sdk::Fail(TENON_INVALID_ARGUMENT, "default_value of shape ", from, " does not broadcast to a value's shape ",
                sdk::Dims(to));
  }
  // For each element of a block of these dims: which of the default value it gets.
  static std::vector<int64_t> Broadcast(sdk::Dims from, const std::vector<int64_t>& to) {
    std::vector<int64_t> at = {0};
    for (size_t d = 0; d < to.size(); ++d) {
      const int64_t own = OwnDim(from, to, d);
      std::vector<int64_t> next;
      for (const int64_t base : at)
        for (int64_t i = 0; i < to[d]; ++i) next.push_back(base * own + (own == 1 ? 0 : i));
      at = std::move(next);
    }
    return at;
  }

  static void GiveStrings(const sdk::RunContext& c, const std::vector<int64_t>& dims, CountedNumbers& rows,
                          const std::vector<int64_t>& fill) {
    std::vector<std::string_view> out;
    for (int64_t block = 0; block < rows.size(); ++block)
      for (size_t i = 0; i < fill.size(); ++i)
        out.push_back(rows[block] < 0 ? sdk::StringAt(c.input_view(2), fill[i])
                                      : sdk::StringAt(c.input_view(1), rows[block] * static_cast<int64_t>(fill.size()) +
                                                                           static_cast<int64_t>(i)));
    sdk::SetStrings(c, 0, dims, out);
  }

  std::vector<std::string> types;
};

}  // namespace

TENON_CPU_KERNEL(RaggedTensorToTensor) = CpuKernel<ToTensorKernel>("RaggedTensorToTensor",
                                                                   {.dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::cpu
