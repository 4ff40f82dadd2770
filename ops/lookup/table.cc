// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

Shape ShapeOf(Dims dims) { return Shape(std::vector<int64_t>(dims.begin(), dims.end())); }

// Whole numbers, bools and strings are equal when their bytes are.
bool CanBeKey(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_STRING:
    case TENON_DT_BOOL:
    case TENON_DT_INT8:
    case TENON_DT_INT16:
    case TENON_DT_INT32:
    case TENON_DT_INT64:
    case TENON_DT_UINT8:
    case TENON_DT_UINT16:
    case TENON_DT_UINT32:
    case TENON_DT_UINT64: return true;
    default: return false;
  }
}

}  // namespace

Table::Table(Charge charge, TableOptions options) : charge_(std::move(charge)), options_(std::move(options)) {
  if (!CanBeKey(options_.key))
    Refuse(TENON_UNIMPLEMENTED,
           Concat("keys of ", TypeName(options_.key), "; strings, whole numbers and bools can be keys"));
  if (options_.key == TENON_DT_STRING && !options_.key_row.empty())
    Refuse(TENON_UNIMPLEMENTED, "keys that are rows of strings; rows of numbers can be keys");
  if (options_.value != TENON_DT_STRING && ElementSize(options_.value) == 0)
    Refuse(TENON_UNIMPLEMENTED, Concat("values of ", TypeName(options_.value)));
}

void Table::Refuse(uint32_t code, const std::string& why) const { Fail(code, "table '", options_.name, "': ", why); }

void Table::CheckSame(const TableOptions& o) const {
  if (o.key == options_.key && o.value == options_.value && o.row == options_.row && o.fixed == options_.fixed &&
      o.key_row == options_.key_row && o.reserved == options_.reserved)
    return;
  Refuse(TENON_FAILED_PRECONDITION,
         Concat("it is from ", TypeName(options_.key), " to ", TypeName(options_.value), ", and made again from ",
                TypeName(o.key), " to ", TypeName(o.value), " or of another kind"));
}

void Table::CheckTypes(uint32_t key, uint32_t value) const {
  if (key != options_.key || (value != TENON_DT_INVALID && value != options_.value))
    Refuse(TENON_INVALID_ARGUMENT,
           Concat("it is from ", TypeName(options_.key), " to ", TypeName(options_.value), ", not from ", TypeName(key),
                  value == TENON_DT_INVALID ? std::string() : Concat(" to ", TypeName(value))));
}

int64_t Table::row_count() const { return Count(Dims(options_.row)); }
uint64_t Table::row_bytes() const { return static_cast<uint64_t>(row_count()) * ElementSize(options_.value); }

std::string_view Table::KeyAt(const tenon_tensor_view& keys, int64_t index) const {
  if (options_.key == TENON_DT_STRING) return StringAt(keys, index);
  const uint64_t size = static_cast<uint64_t>(Count(Dims(options_.key_row))) * ElementSize(options_.key);
  return {Data<const char>(keys) + static_cast<uint64_t>(index) * size, size};
}

Dims Table::KeyDims(const tenon_tensor_view& keys) const {
  const Dims dims = DimsOf(keys), row(options_.key_row);
  if (dims.size() < row.size() || !std::ranges::equal(dims.last(row.size()), row))
    Refuse(TENON_INVALID_ARGUMENT, Concat("keys of shape ", ShapeOf(dims), "; a key has shape ", ShapeOf(row)));
  return dims.first(dims.size() - row.size());
}

bool Table::IsReserved(std::string_view key) const {
  return std::ranges::find(options_.reserved, key) != options_.reserved.end();
}

void Table::CheckUnreserved(const tenon_tensor_view& keys) const {
  if (options_.reserved.empty()) return;
  for (int64_t i = 0, count = KeyCount(keys); i < count; ++i)
    if (const std::string_view key = KeyAt(keys, i); IsReserved(key))
      Refuse(TENON_INVALID_ARGUMENT, Concat("Using the ", key == options_.reserved[0] ? "empty_key" : "deleted_key",
                                            " as a table key is not allowed: key ", i));
}

void Table::CheckEntries(const tenon_tensor_view& keys, const tenon_tensor_view& values) const {
  CheckTypes(keys.dtype, values.dtype);
  const Dims k = KeyDims(keys), v = DimsOf(values);
  const bool fits =
      v.size() == k.size() + options_.row.size() && std::equal(k.begin(), k.end(), v.begin()) &&
      std::equal(options_.row.begin(), options_.row.end(), v.begin() + static_cast<std::ptrdiff_t>(k.size()));
  if (!fits)
    Refuse(TENON_INVALID_ARGUMENT, Concat("keys of shape ", ShapeOf(k), " and values of shape ", ShapeOf(v),
                                          " do not belong together; a value has shape ", ShapeOf(options_.row)));
}

bool Table::HasValue(const Entries& entries, size_t row, const tenon_tensor_view& values, int64_t index) const {
  const int64_t count = row_count();
  if (options_.value != TENON_DT_STRING)
    return std::memcmp(entries.bytes.data() + row * row_bytes(),
                       Data<const char>(values) + static_cast<uint64_t>(index) * row_bytes(), row_bytes()) == 0;
  for (int64_t i = 0; i < count; ++i)
    if (entries.texts[row * static_cast<size_t>(count) + static_cast<size_t>(i)] != StringAt(values, index * count + i))
      return false;
  return true;
}

void Table::SetValue(Entries* entries, size_t row, const tenon_tensor_view& values, int64_t index) const {
  const int64_t count = row_count();
  if (options_.value != TENON_DT_STRING) {
    entries->bytes.resize(std::max<size_t>(entries->bytes.size(), (row + 1) * row_bytes()));
    if (row_bytes() != 0)
      std::memcpy(entries->bytes.data() + row * row_bytes(),
                  Data<const char>(values) + static_cast<uint64_t>(index) * row_bytes(), row_bytes());
    return;
  }
  entries->texts.resize(std::max<size_t>(entries->texts.size(), (row + 1) * static_cast<size_t>(count)));
  for (int64_t i = 0; i < count; ++i)
    entries->texts[row * static_cast<size_t>(count) + static_cast<size_t>(i)] = StringAt(values, index * count + i);
}

void Table::Add(const RunContext& c, Entries* entries, const tenon_tensor_view& keys, const tenon_tensor_view& values,
                bool once) const {
  entries->memory.AskOf(c);
  CancelPoll poll(c);
  for (int64_t i = 0, count = KeyCount(keys); i < count; ++i) {
    const std::string_view key = KeyAt(keys, i);
    if (IsReserved(key)) continue;
    poll(200 + static_cast<int64_t>(key.size()));
    const auto [at, added] = entries->rows.try_emplace(std::pmr::string(key, &entries->pool), entries->keys.size());
    if (!added && once) {
      if (HasValue(*entries, at->second, values, i)) continue;
      Refuse(TENON_INVALID_ARGUMENT, Concat("key ", i, " stands there before, with another value"));
    }
    try {
      SetValue(entries, at->second, values, i);
      if (added) entries->keys.push_back(&at->first);
    } catch (...) {  // no key without its value
      if (added) entries->rows.erase(at);
      throw;
    }
  }
}

bool Table::Equal(const Entries& a, const Entries& b) const {
  const auto texts = static_cast<size_t>(row_count());
  return a.rows.size() == b.rows.size() && std::all_of(a.rows.begin(), a.rows.end(), [&](const auto& entry) {
    const auto at = b.rows.find(entry.first);
    if (at == b.rows.end()) return false;
    if (options_.value == TENON_DT_STRING)
      return std::equal(a.texts.begin() + static_cast<std::ptrdiff_t>(entry.second * texts),
                        a.texts.begin() + static_cast<std::ptrdiff_t>((entry.second + 1) * texts),
                        b.texts.begin() + static_cast<std::ptrdiff_t>(at->second * texts));
    return row_bytes() == 0 || std::memcmp(a.bytes.data() + entry.second * row_bytes(),
                                           b.bytes.data() + at->second * row_bytes(), row_bytes()) == 0;
  });
}

void Table::Fill(const RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values) {
  CheckEntries(keys, values);
  if (!options_.fixed)
    Refuse(TENON_UNIMPLEMENTED, "it is mutable and needs no initialisation; insert or import entries");
  auto entries = std::make_unique<Entries>(c);
  Add(c, entries.get(), keys, values, true);
  const std::unique_lock lock(mutex_);
  if (filled_ && !Equal(*entries, *entries_))
    Refuse(TENON_FAILED_PRECONDITION, "it was initialised before, with other entries");
  if (!filled_) entries_ = std::move(entries);
  filled_ = true;
}

tenon_status* Table::FillOnce(tenon_frame* frame, const tenon_tensor_view* keys,
                              const tenon_tensor_view* values) noexcept {
  try {
    Fill(RunContext(frame), *keys, *values);
    return nullptr;
  } catch (...) {
    return CurrentFailure();
  }
}

void Table::RequireMutable(const char* what) const {
  if (options_.fixed)
    Refuse(TENON_UNIMPLEMENTED,
           Concat("it is fixed once it was initialised; to ", what, " entries needs a MutableHashTableV2"));
}

void Table::Replace(const RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values) {
  CheckEntries(keys, values);
  RequireMutable("replace");
  auto entries = std::make_unique<Entries>(c);
  Add(c, entries.get(), keys, values, false);
  const std::unique_lock lock(mutex_);
  entries_ = std::move(entries);
}

void Table::Insert(const RunContext& c, const tenon_tensor_view& keys, const tenon_tensor_view& values) {
  CheckEntries(keys, values);
  RequireMutable("insert");
  CheckUnreserved(keys);
  const std::unique_lock lock(mutex_);
  if (entries_ == nullptr) entries_ = std::make_unique<Entries>(c);
  Add(c, entries_.get(), keys, values, false);
}

void Table::Remove(const tenon_tensor_view& keys) {
  CheckTypes(keys.dtype, TENON_DT_INVALID);
  RequireMutable("remove");
  CheckUnreserved(keys);
  const std::unique_lock lock(mutex_);
  if (entries_ == nullptr) return;
  Entries& entries = *entries_;
  const auto texts = static_cast<size_t>(row_count());
  for (int64_t i = 0, count = KeyCount(keys); i < count; ++i) {
    const auto at = entries.rows.find(KeyAt(keys, i));
    if (at == entries.rows.end()) continue;
    // The last row takes the place of the one that goes.
    const size_t row = at->second, last = entries.keys.size() - 1;
    if (row != last) {
      entries.rows.find(*entries.keys[last])->second = row;
      entries.keys[row] = entries.keys[last];
      if (row_bytes() != 0)
        std::memcpy(entries.bytes.data() + row * row_bytes(), entries.bytes.data() + last * row_bytes(), row_bytes());
      for (size_t k = 0; k < texts && !entries.texts.empty(); ++k)
        entries.texts[row * texts + k] = std::move(entries.texts[last * texts + k]);
    }
    entries.rows.erase(at);
    entries.keys.pop_back();
    entries.bytes.resize(last * row_bytes());
    if (options_.value == TENON_DT_STRING) entries.texts.resize(last * texts);
  }
}

void Table::RequireFilled() const {
  if (options_.fixed && !filled_)
    Refuse(TENON_FAILED_PRECONDITION, "it was not initialised; run its initialiser first");
}

void Table::Find(const RunContext& c, int32_t output, const tenon_tensor_view& keys,
                 const tenon_tensor_view& otherwise) const {
  CheckTypes(keys.dtype, otherwise.dtype);
  CheckUnreserved(keys);
  const Dims k = KeyDims(keys), d = DimsOf(otherwise);
  std::vector<int64_t> dims(k.begin(), k.end());
  dims.insert(dims.end(), options_.row.begin(), options_.row.end());
  const bool one = std::ranges::equal(d, options_.row),
             each = !options_.fixed && options_.reserved.empty() && std::ranges::equal(d, dims);
  if (!one && !each)
    Refuse(TENON_INVALID_ARGUMENT,
           Concat("a default_value of shape ", ShapeOf(d), "; a value has shape ", ShapeOf(options_.row)));
  const std::shared_lock lock(mutex_);
  RequireFilled();
  const int64_t count = Count(k), row = row_count();
  CancelPoll poll(c);
  const auto row_of = [&](int64_t i) {
    poll(100);
    if (entries_ == nullptr) return int64_t{-1};
    const auto at = entries_->rows.find(KeyAt(keys, i));
    return at == entries_->rows.end() ? -1 : static_cast<int64_t>(at->second);
  };
  if (options_.value == TENON_DT_STRING) {
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(count * row));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t found = row_of(i);
      for (int64_t n = 0; n < row; ++n)
        texts.push_back(found < 0 ? StringAt(otherwise, (one ? 0 : i * row) + n)
                                  : std::string_view(entries_->texts[static_cast<size_t>(found * row + n)]));
    }
    return SetStrings(c, output, Dims(dims), texts);
  }
  c.AllocOutput(output, Dims(dims));
  const uint64_t bytes = row_bytes();
  for (int64_t i = 0; i < count && bytes != 0; ++i) {
    const int64_t found = row_of(i);
    const char* from = found < 0 ? Data<const char>(otherwise) + (one ? 0 : static_cast<uint64_t>(i) * bytes)
                                 : entries_->bytes.data() + static_cast<uint64_t>(found) * bytes;
    std::memcpy(c.output<char>(output) + static_cast<uint64_t>(i) * bytes, from, bytes);
  }
}

void Table::Export(const RunContext& c) const {
  const std::shared_lock lock(mutex_);
  RequireFilled();
  const Entries none(c);
  const Entries& entries = entries_ == nullptr ? none : *entries_;
  const auto count = static_cast<int64_t>(entries.keys.size());
  if (options_.key == TENON_DT_STRING) {
    std::vector<std::string_view> texts;
    for (const std::pmr::string* key : entries.keys) texts.push_back(*key);
    SetStrings(c, 0, std::vector<int64_t>{count}, texts);
  } else {
    std::vector<int64_t> key_dims = {count};
    key_dims.insert(key_dims.end(), options_.key_row.begin(), options_.key_row.end());
    c.AllocOutput(0, Dims(key_dims));
    char* to = c.output<char>(0);
    for (const std::pmr::string* key : entries.keys) to = std::copy(key->begin(), key->end(), to);
  }
  std::vector<int64_t> dims = {count};
  dims.insert(dims.end(), options_.row.begin(), options_.row.end());
  if (options_.value == TENON_DT_STRING) return SetStrings(c, 1, Dims(dims), entries.texts);
  c.AllocOutput(1, Dims(dims));
  std::copy(entries.bytes.begin(), entries.bytes.end(), c.output<char>(1));
}

int64_t Table::size() const {
  const std::shared_lock lock(mutex_);
  return entries_ == nullptr ? 0 : static_cast<int64_t>(entries_->keys.size());
}

}  // namespace tenon::ops
