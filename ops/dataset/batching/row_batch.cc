// SPDX-License-Identifier: Apache-2.0
#include "batching/row_batch.h"

#include <algorithm>

#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr uint64_t kLeastPlaced = 4096;      // what is smaller is copied as fast as it is placed
constexpr uint64_t kFirstBytes =
    16 << 10;  // of the rows of the first batch, of which nobody knows how many they will be

uint64_t CellSize(uint32_t dtype) { return dtype == TENON_DT_VARIANT ? sizeof(tenon_variant*) : ElementSize(dtype); }

// Of rows that go into other memory: what variants they hold is there now.
void Move(uint32_t dtype, char* from, uint64_t bytes, char* to) {
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  if (dtype == TENON_DT_VARIANT) std::memset(from, 0, bytes);
}

}  // namespace

void RowBatch::Pile::Grow(const Work& work, uint64_t bytes) {
  const int64_t dims[] = {static_cast<int64_t>(std::max({bytes, 2 * room_, uint64_t{1024}}))};
  KeptTensor larger = work.NewTensor(TENON_DT_UINT8, dims);
  char* const data = Data<char>(larger.view());
  if (size_ != 0) std::memcpy(data, data_, size_);
  tensor_.emplace(std::move(larger));
  data_ = data;
  room_ = static_cast<uint64_t>(dims[0]);
}

template <class Do>
bool RowBatch::Try(const Do& what) noexcept {
  try {
    what();
    return true;
  } catch (...) {
    failure_ = TakeStatus(CurrentFailure());
    columns_.clear();
    return false;
  }
}

bool RowBatch::Begin(size_t components) {
  if (!failure_.ok()) [[unlikely]] return false;
  if (rows_ == 0) {
    columns_.resize(components);
    return true;
  }
  if (columns_.size() == components) [[likely]] return true;
  return Try([&] {
    Fail(TENON_INVALID_ARGUMENT, who_, ": its input gives elements of ", columns_.size(), " and of ", components,
         " components");
  });
}

// All rows are of the first one's dtype and shape, whatever datasets say of themselves.
void RowBatch::CheckRow(size_t component, uint32_t dtype, Dims dims) const {
  const Column& column = columns_[component];
  if (column.dtype != dtype)
    Fail(TENON_INVALID_ARGUMENT, who_, ": component ", component, " of its input is ", TypeName(column.dtype), " and ",
         TypeName(dtype));
  if (!std::equal(dims.begin(), dims.end(), column.dims.begin(), column.dims.end())) {
    Fail(TENON_INVALID_ARGUMENT, who_, ": Cannot batch tensors with different shapes in component ", component,
         ". First element had shape ", Dims(column.dims), " and element ", rows_, " had shape ", ShapeOf(dims), ".");
  }
}

bool RowBatch::Room(size_t component, uint32_t dtype, Dims dims) noexcept {
  return Try([&] {
    Column& column = columns_[component];
    if (rows_ > 0) {
      CheckRow(component, dtype, dims);
    } else {
      column.dtype = dtype;
      column.dims.assign(dims.begin(), dims.end());
      const uint64_t size = CellSize(dtype);
      if (size == 0 && dtype != TENON_DT_STRING)
        Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be made one batch");
      column.row_bytes = static_cast<uint64_t>(Count(dims)) * size;
      column.room = 0;
    }
    if (dtype != TENON_DT_STRING && column.room == rows_) Grow(column);
  });
}

void RowBatch::Grow(Column& column) {
  const auto first = static_cast<int64_t>(kFirstBytes / std::max<uint64_t>(column.row_bytes, 1));
  const int64_t room =
      std::min(most_, rows_ > most_ / 4 ? most_ : std::max({4 * rows_, rows_of_last_, first, int64_t{2}}));
  std::vector<int64_t> dims = {room};
  dims.insert(dims.end(), column.dims.begin(), column.dims.end());
  KeptTensor larger = work_.NewTensor(column.dtype, dims);
  char* const memory = Data<char>(larger.view());
  Move(column.dtype, column.memory, static_cast<uint64_t>(rows_) * column.row_bytes, memory);
  column.batch.emplace(std::move(larger));
  column.memory = memory;
  column.room = room;
}

void RowBatch::Add(const Element& element) {
  if (!Begin(element.size())) return Skip();
  for (size_t i = 0; i < element.size(); ++i) {
    const tenon_tensor_view view = element[i].view();
    const Dims dims = DimsOf(view);
    Column& column = columns_[i];
    const bool same = rows_ > 0 && column.dtype == view.dtype &&
                      std::equal(dims.begin(), dims.end(), column.dims.begin(), column.dims.end());
    const bool strings = view.dtype == TENON_DT_STRING;
    if (!same || (!strings && column.room == rows_)) {
      if (!Room(i, view.dtype, dims)) return Skip();
    }
    if (strings) {
      if (!AddTexts(column, view)) return Skip();
    } else if (view.dtype == TENON_DT_VARIANT) {
      if (!Try([&] {
            CopyVariants(work_, view, 0, Count(view),
                         reinterpret_cast<tenon_variant**>(column.memory) + rows_ * Count(view));
          }))
        return Skip();
    } else if (column.row_bytes == 8) {
      std::memcpy(column.memory + rows_ * 8, Data<const char>(view), 8);
    } else if (char* const place = column.memory + static_cast<uint64_t>(rows_) * column.row_bytes;
               column.row_bytes != 0 && place != Data<const char>(view)) {
      std::memcpy(place, Data<const char>(view), column.row_bytes);
    }
  }
  ++rows_;
}

std::span<const tenon_tensor_view* const> RowBatch::Places() {
  if (rows_ == 0 || full() || !failure_.ok()) return {};
  places_.assign(columns_.size(), nullptr);
  bool some = false;
  for (size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    if (column.dtype == TENON_DT_STRING || column.dtype == TENON_DT_VARIANT || column.row_bytes < kLeastPlaced)
      continue;
    if (column.room == rows_ && !Room(i, column.dtype, column.dims)) return {};
    column.place = column.batch->view();
    column.place.dl.data = column.memory + static_cast<uint64_t>(rows_) * column.row_bytes;
    column.place.dl.byte_offset = 0;
    column.place.dl.shape = column.dims.data();
    column.place.dl.ndim = static_cast<int32_t>(column.dims.size());
    column.place.byte_size = column.row_bytes;
    column.place.buffer = nullptr;
    places_[i] = &column.place;
    some = true;
  }
  if (!some) return {};
  return places_;
}

bool RowBatch::AddTexts(Column& column, const tenon_tensor_view& view) noexcept {
  return Try([&] {
    if (rows_ == 0) column.text.Reserve(work_, column.text_of_last + column.text_of_last / 8);
    for (int64_t i = 0, count = Count(view); i < count; ++i) {
      const std::string_view text = StringAt(view, i);
      const uint64_t length = text.size();
      column.text.Append(work_, text.data(), length);
      column.lengths.Append(work_, &length, sizeof length);
    }
  });
}

void RowBatch::AddText(std::string_view text) {
  if (!Begin(1)) return Skip();
  Column& column = columns_[0];
  if (rows_ == 0 || column.dtype != TENON_DT_STRING || !column.dims.empty()) {
    if (!Room(0, TENON_DT_STRING, {})) return Skip();
  }
  (void)Try([&] {
    if (rows_ == 0) column.text.Reserve(work_, column.text_of_last + column.text_of_last / 8);
    const uint64_t length = text.size();
    column.text.Append(work_, text.data(), length);
    column.lengths.Append(work_, &length, sizeof length);
  });
  ++rows_;
}

KeptTensor RowBatch::TakeColumn(Column& column) const {
  std::vector<int64_t> dims = {rows_};
  dims.insert(dims.end(), column.dims.begin(), column.dims.end());
  if (column.dtype != TENON_DT_STRING) {
    if (column.room == rows_) return std::move(*column.batch);
    KeptTensor exact = work_.NewTensor(column.dtype, dims);
    Move(column.dtype, column.memory, static_cast<uint64_t>(rows_) * column.row_bytes, Data<char>(exact.view()));
    return exact;
  }
  KeptTensor batch = work_.NewTensor(TENON_DT_STRING, dims, column.text.size());
  char* const base = Data<char>(batch.view());
  auto* cell = reinterpret_cast<tenon_string_cell*>(base);
  const uint64_t count = column.lengths.size() / sizeof(uint64_t);
  uint64_t end = count * sizeof *cell;
  if (column.text.size() != 0) std::memcpy(base + end, column.text.data(), column.text.size());
  const char* length = column.lengths.data();
  for (uint64_t i = 0; i < count; ++i, ++cell, length += sizeof(uint64_t)) {
    cell->offset = end;
    std::memcpy(&cell->size, length, sizeof(uint64_t));
    end += cell->size;
  }
  return batch;
}

Element RowBatch::Take() {
  struct Dropped {
    ~Dropped() { batch.Drop(); }
    RowBatch& batch;
  } dropped{*this};
  if (!failure_.ok()) Fail(failure_.code, failure_.message);
  Element taken;
  taken.reserve(columns_.size());
  for (Column& column : columns_) taken.push_back(TakeColumn(column));
  rows_of_last_ = rows_;
  return taken;
}

void RowBatch::Drop() {
  for (Column& column : columns_) {
    const uint64_t text = column.text.size();
    column = {};
    column.text_of_last = text;
  }
  rows_ = 0;
  failure_ = {};
}

}  // namespace tenon::ops
