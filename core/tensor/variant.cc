// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/variant.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/tensor/view.h"

namespace tenon::variant {
namespace {

// A tensor in a buffer, whose dims are the tensor's.
struct Place {
  Buffer* buffer = nullptr;  // holds one reference
  void* data = nullptr;
  uint64_t byte_size = 0;
  uint64_t version = 0;  // in which it was filled
  DType dtype = TENON_DT_INVALID;
};

Status CheckElement(const tenon_tensor_view& element) {
  if (element.buffer == nullptr)
    return Internal("an element of a variant lives in no buffer; its kernel must retain it");
  if (element.dl.strides != nullptr) return Unimplemented("an element of a variant with strides");
  return Status::Ok();
}

Place MakePlace(BufferPool* pool, const tenon_tensor_view& element, uint64_t version) {
  const bool same = ShapeOf(element) == Shape(tenon_shape{element.buffer->dims, element.buffer->rank, 0});
  if (same) tenon::Retain(element.buffer);
  Buffer* buffer = same ? element.buffer : pool->Alias(element.buffer, {element.dl.shape, element.dl.ndim, 0});
  return {buffer, DataOf(element), element.byte_size, version, element.dtype};
}

}  // namespace

class Row {
 public:
  Row() = default;
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  ~Row() {
    for (uint64_t i = 0; i < room_; ++i)
      if (places()[i].buffer != nullptr) tenon::Release(places()[i].buffer);
    if (memory_ != nullptr) tenon::Release(memory_);
  }

  // What a value of `count` places and `seen` versions sees at a place.
  const Place* Seen(uint64_t count, uint64_t seen, uint64_t index) const {
    const Place* place = index < std::min(count, room_) ? &places()[index] : nullptr;
    return place != nullptr && place->buffer != nullptr && place->version <= seen ? place : nullptr;
  }
  bool Filled(uint64_t index) const { return index < room_ && places()[index].buffer != nullptr; }
  // Memory for the first `count` places. RESOURCE_EXHAUSTED as the pool says.
  Status Reserve(BufferPool* pool, uint64_t count) {
    if (count <= room_) return Status::Ok();
    if (count > kMaxPlaces)
      return ResourceExhausted(StrCat("element ", count - 1, " of a variant is more than any machine holds"));
    const uint64_t wanted = std::max({count, room_ * 2, uint64_t{4}});
    const int64_t dims[] = {static_cast<int64_t>(wanted)};
    TENON_ASSIGN_OR_RETURN(Buffer * larger, pool->Allocate(wanted * sizeof(Place), {dims, 1, 0}));
    if (room_ > 0) std::memcpy(larger->data, memory_->data, room_ * sizeof(Place));
    std::uninitialized_fill_n(static_cast<Place*>(larger->data) + room_, wanted - room_, Place());
    if (memory_ != nullptr) tenon::Release(memory_);
    memory_ = larger;
    room_ = wanted;
    return Status::Ok();
  }
  uint64_t room() const { return room_; }
  Place* places() { return static_cast<Place*>(memory_->data); }
  const Place* places() const { return static_cast<const Place*>(memory_->data); }

  mutable std::mutex mutex;
  uint64_t used = 0;
  uint64_t version = 0;
  bool sealed = false;  // it stays as it is

 private:
  static constexpr uint64_t kMaxPlaces = uint64_t{1} << 36;
  Buffer* memory_ = nullptr;
  uint64_t room_ = 0;  // places with memory; those beyond are empty
};

namespace {

// pool: that it is charged to; nullptr: none.
Result<Variant*> Make(BufferPool* pool, std::string_view type, std::string_view metadata, std::shared_ptr<Row> row,
                      uint64_t version, uint64_t count) {
  auto made = std::make_unique<Variant>();
  constexpr uint64_t kMalloc = 64;  // its own of the pieces
  if (pool != nullptr)
    TENON_RETURN_IF_ERROR(
        made->charge.Take(pool, sizeof(Variant) + sizeof(Row) + type.size() + metadata.size() + kMalloc));
  made->type = type;
  made->metadata = metadata;
  made->row = std::move(row);
  made->version = version;
  made->count = count;
  return made.release();
}

// Whether the change can be made in the row of `base`, whose mutex is held.
bool Extends(const Variant& base, uint64_t count, uint64_t index, bool sets) {
  const Row& row = *base.row;
  const bool grows = count > base.count;
  if (!grows && !sets) return true;
  if (row.sealed || base.version != row.version || (grows && base.count != row.used)) return false;
  return !sets || !row.Filled(index);
}

Result<std::shared_ptr<Row>> CopyRow(BufferPool* pool, const Variant& base, uint64_t count) {
  auto copy = std::make_shared<Row>();
  const uint64_t places = std::min({count, base.count, base.row->room()});
  TENON_RETURN_IF_ERROR(copy->Reserve(pool, places));
  for (uint64_t i = 0; i < places; ++i) {
    const Place* seen = base.row->Seen(base.count, base.version, i);
    if (seen == nullptr) continue;
    copy->places()[i] = *seen;
    copy->places()[i].version = 0;
    tenon::Retain(seen->buffer);
  }
  copy->used = count;
  return copy;
}

// Values to let go of, while one is being let go of on this thread.
struct Pending {
  bool active = false;
  std::vector<Variant*> variants;
};
thread_local Pending pending;

}  // namespace

void Release(Variant* variant) {
  if (variant->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (pending.active) return pending.variants.push_back(variant);
  pending.active = true;
  delete variant;
  while (!pending.variants.empty()) {
    Variant* next = pending.variants.back();
    pending.variants.pop_back();
    delete next;
  }
  pending.active = false;
}

Result<Variant*> New(BufferPool* pool, std::string_view type, std::string_view metadata,
                     const tenon_tensor_view* elements, uint64_t count, uint64_t told) {
  auto row = std::make_shared<Row>();
  row->used = count;
  told = elements == nullptr ? 0 : std::min(told, count);
  if (told > 0) TENON_RETURN_IF_ERROR(row->Reserve(pool, told));
  for (uint64_t i = 0; i < told; ++i) {
    if (elements[i].dtype == TENON_DT_INVALID) continue;
    TENON_RETURN_IF_ERROR(CheckElement(elements[i]));
    row->places()[i] = MakePlace(pool, elements[i], 0);
  }
  return Make(pool, type, metadata, std::move(row), 0, count);
}

Result<Variant*> Derive(BufferPool* pool, const Variant& base, std::string_view metadata, uint64_t count,
                        uint64_t index, const tenon_tensor_view* element) {
  if (element != nullptr) {
    if (index >= count) return Internal(StrCat("element ", index, " of a variant of ", count, " is set"));
    TENON_RETURN_IF_ERROR(CheckElement(*element));
  }
  if (base.object != nullptr)
    return InvalidArgument(
        StrCat("a variant of type '", base.type, "' holds an object: nothing can be derived from it"));
  const std::lock_guard lock(base.row->mutex);
  std::shared_ptr<Row> row = base.row;
  uint64_t version = base.version;
  if (!Extends(base, count, index, element != nullptr)) {
    TENON_ASSIGN_OR_RETURN(row, CopyRow(pool, base, count));
    version = 0;
  }
  if (element != nullptr) {
    TENON_RETURN_IF_ERROR(row->Reserve(pool, index + 1));
    version = ++row->version;
    Place& place = row->places()[index];
    if (place.buffer != nullptr) tenon::Release(place.buffer);  // of a copy
    place = MakePlace(pool, *element, version);
  }
  row->used = std::max(row->used, count);
  return Make(pool, base.type, metadata, std::move(row), version, count);
}

Result<Variant*> Hold(std::string_view type, std::string_view metadata, void* object, void (*destroy)(void* object)) {
  if (object == nullptr || destroy == nullptr || type.empty())
    return Internal(StrCat("a variant of type '", type,
                           "' that holds an object needs a type, the object, and a function that ends it"));
  TENON_ASSIGN_OR_RETURN(Variant * made, Make(nullptr, type, metadata, std::make_shared<Row>(), 0, 0));
  made->object = object;
  made->destroy = destroy;
  return made;
}

void* Held(const Variant& variant, std::string_view type) { return variant.type == type ? variant.object : nullptr; }

tenon_variant_info Info(const Variant& variant) {
  return {
      {variant.type.data(), variant.type.size()}, {variant.metadata.data(), variant.metadata.size()}, variant.count};
}

uint64_t Told(const Variant& variant) {
  const std::lock_guard lock(variant.row->mutex);
  uint64_t told = std::min(variant.count, variant.row->room());
  while (told > 0 && variant.row->Seen(variant.count, variant.version, told - 1) == nullptr) --told;
  return told;
}

tenon_tensor_view Element(const Variant& variant, uint64_t index) {
  const std::lock_guard lock(variant.row->mutex);
  const Place* place = variant.row->Seen(variant.count, variant.version, index);
  if (place == nullptr) return {};
  tenon_tensor_view view = MakeView(place->dtype, {place->buffer->dims, place->buffer->rank, 0}, place->data,
                                    place->byte_size, place->buffer);
  view.flags |= TENON_VIEW_READ_ONLY;
  return view;
}

namespace {

void ReleaseCells(Buffer* buffer) {
  const uint64_t count = std::exchange(buffer->variants, 0);
  for (uint64_t i = 0; i < count; ++i)
    if (Variant* cell = static_cast<Variant**>(buffer->data)[i]) Release(cell);
}

}  // namespace

void OwnCells(Buffer* buffer, uint64_t count) {
  std::memset(buffer->data, 0, count * sizeof(Variant*));
  buffer->variants = count;
  buffer->release_cells = &ReleaseCells;
}

void Seal(const tenon_tensor_view& cells) {
  std::vector<tenon_tensor_view> left{cells};
  while (!left.empty()) {
    const tenon_tensor_view view = left.back();
    left.pop_back();
    for (uint64_t i = 0; i < view.byte_size / sizeof(Variant*); ++i) {
      const Variant* const each = static_cast<Variant* const*>(DataOf(view))[i];
      if (each == nullptr) continue;
      Row& row = *each->row;
      const std::lock_guard lock(row.mutex);
      if (std::exchange(row.sealed, true)) continue;
      // Places without memory are empty: a list may have billions of them.
      for (uint64_t k = 0; k < std::min(each->count, row.room()); ++k)
        if (const Place& place = row.places()[k]; place.buffer != nullptr && place.dtype == TENON_DT_VARIANT)
          left.push_back(MakeView(place.dtype, {place.buffer->dims, place.buffer->rank, 0}, place.data, place.byte_size,
                                  place.buffer));
    }
  }
}

void CopyCells(const tenon_tensor_view& from, Buffer* to) {
  auto* const* cells = static_cast<Variant* const*>(DataOf(from));
  for (uint64_t i = 0; i < to->variants; ++i) {
    static_cast<Variant**>(to->data)[i] = cells[i];
    if (cells[i] != nullptr) Retain(cells[i]);
  }
}

}  // namespace tenon::variant
