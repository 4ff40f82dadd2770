// SPDX-License-Identifier: Apache-2.0
// RowBatch: elements become the rows of a batch one by one, as they come, so that what they lie in is free for the next
// one while it is still in the processor's cache.
//
// Whatever is wrong with an element, or with the memory for it, is said when the batch is taken: so many elements go
// into a batch in any case.
#ifndef TENON_OPS_DATASET_BATCHING_ROW_BATCH_H_
#define TENON_OPS_DATASET_BATCHING_ROW_BATCH_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"

namespace tenon::ops {

class RowBatch {
 public:
  // most: rows of a batch. who: the dataset, for messages; outlives this.
  RowBatch(const sdk::Work& work, const std::string& who, int64_t most) : work_(work), who_(who), most_(most) {}

  int64_t rows() const { return rows_; }
  bool full() const { return rows_ >= most_; }
  // What lies in its place already is not copied.
  void Add(const Element& element);
  // For each component of the next element where it goes if it is as the rows before it, nullptr for strings and what
  // is small; valid until that row is added. Empty: of the first row, where all are small, or where what is wrong with
  // the batch is known already.
  std::span<const tenon_tensor_view* const> Places();
  // An element of one component, a scalar.
  void AddText(std::string_view text);
  template <class T>
  void AddNumber(uint32_t dtype, T value) {
    if (!Begin(1)) return Skip();
    Column& column = columns_[0];
    if (rows_ == 0 || column.dtype != dtype || !column.dims.empty() || column.room == rows_) [[unlikely]] {
      if (!Room(0, dtype, {})) return Skip();
    }
    std::memcpy(column.memory + rows_ * static_cast<int64_t>(sizeof value), &value, sizeof value);
    ++rows_;
  }
  // The rows, of which there are some; then there are none.
  Element Take();
  void Drop();

 private:
  // Memory of the session's that grows.
  class Pile {
   public:
    uint64_t size() const { return size_; }
    const char* data() const { return data_; }
    void Reserve(const sdk::Work& work, uint64_t bytes) {
      if (bytes > room_) [[unlikely]] Grow(work, bytes);
    }
    void Append(const sdk::Work& work, const void* from, uint64_t bytes) {
      Reserve(work, size_ + bytes);
      if (bytes != 0) std::memcpy(data_ + size_, from, bytes);
      size_ += bytes;
    }

   private:
    void Grow(const sdk::Work& work, uint64_t bytes);
    std::optional<sdk::KeptTensor> tensor_;
    char* data_ = nullptr;
    uint64_t size_ = 0, room_ = 0;
  };
  struct Column {
    uint32_t dtype = TENON_DT_INVALID;
    std::vector<int64_t> dims;  // of a row
    // Of strings.
    Pile text, lengths;
    uint64_t text_of_last = 0;
    // Of others: the batch itself, as far as there is room.
    uint64_t row_bytes = 0;
    std::optional<sdk::KeptTensor> batch;
    char* memory = nullptr;
    int64_t room = 0;
    tenon_tensor_view place{};  // of the next row
  };

  // Whether an element of so many components goes in.
  bool Begin(size_t components);
  void Skip() { ++rows_; }
  bool Room(size_t component, uint32_t dtype, sdk::Dims dims) noexcept;
  bool AddTexts(Column& column, const tenon_tensor_view& view) noexcept;
  void CheckRow(size_t component, uint32_t dtype, sdk::Dims dims) const;
  void Grow(Column& column);
  template <class Do>
  bool Try(const Do& what) noexcept;
  sdk::KeptTensor TakeColumn(Column& column) const;

  const sdk::Work work_;
  const std::string& who_;
  const int64_t most_;
  std::vector<Column> columns_;
  std::vector<const tenon_tensor_view*> places_;
  int64_t rows_ = 0, rows_of_last_ = 0;
  sdk::Outcome failure_;  // of an element of this batch, the first one
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BATCHING_ROW_BATCH_H_
