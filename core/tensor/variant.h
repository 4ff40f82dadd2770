// SPDX-License-Identifier: Apache-2.0
// Variants: immutable values with elements that are tensors (tensor.h says what a plugin sees), and the tensors of
// them.
//
// Idea. Values that come of one another look at one row of places, each with the version in which it was filled. A
// value sees the first `count` places, and of these what was filled up to its own version. So the newest value of a row
// can be extended, and its empty places be filled, in the row itself, unseen by older values; every other change copies
// the row. A value that outlives the steps that work with it is sealed: what they make of it copies its row, which
// would keep their elements else.
//
// Invariants. A place is filled once and never changes while its row lives. A row's versions only grow; `used` places
// are some value's. The row's mutex guards them all. Values are let go of without recursion, however deeply they are
// nested.
#ifndef TENON_CORE_TENSOR_VARIANT_H_
#define TENON_CORE_TENSOR_VARIANT_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/tensor/buffer.h"
#include "core/tensor/pool_charge.h"

namespace tenon::variant {
class Row;
}  // namespace tenon::variant

// The C ABI's opaque value.
struct tenon_variant {
  std::atomic<int64_t> references{1};
  std::string type;
  std::string metadata;
  std::shared_ptr<tenon::variant::Row> row;
  uint64_t version = 0;
  uint64_t count = 0;
  void* object = nullptr;  // of the plugin's, which `destroy` ends; such a value has no elements
  void (*destroy)(void* object) = nullptr;
  tenon::PoolCharge charge;  // for this record, and for a row of its own

  tenon_variant() = default;
  tenon_variant(const tenon_variant&) = delete;
  tenon_variant& operator=(const tenon_variant&) = delete;
  ~tenon_variant() {
    if (destroy != nullptr) destroy(object);
  }
};

namespace tenon::variant {

using Variant = tenon_variant;

inline void Retain(Variant* variant) { variant->references.fetch_add(1, std::memory_order_relaxed); }
void Release(Variant* variant);

// With one reference. Elements as tenon_frame_services.variant_new says, the first `told` of them, behind which places
// are empty; the places' memory is the pool's.
Result<Variant*> New(BufferPool* pool, std::string_view type, std::string_view metadata,
                     const tenon_tensor_view* elements, uint64_t count, uint64_t told = UINT64_MAX);
// See tenon_frame_services.variant_derive. metadata: of the result.
Result<Variant*> Derive(BufferPool* pool, const Variant& base, std::string_view metadata, uint64_t count,
                        uint64_t index, const tenon_tensor_view* element);
// See tenon_work_services.variant_hold. With one reference. It is charged by who makes the object.
Result<Variant*> Hold(std::string_view type, std::string_view metadata, void* object, void (*destroy)(void* object));
// The object, where the value holds one of this type.
void* Held(const Variant& variant, std::string_view type);
tenon_variant_info Info(const Variant& variant);
// The number of places up to the last that is not empty.
uint64_t Told(const Variant& variant);
// The element, borrowed; dtype TENON_DT_INVALID when there is none.
tenon_tensor_view Element(const Variant& variant, uint64_t index);

// ---- Tensors of variants ----

// Makes a new buffer's first `count` cells empty, and gives their references back when the buffer goes.
void OwnCells(Buffer* buffer, uint64_t count);
// Seals the values in the cells, and those within them.
void Seal(const tenon_tensor_view& cells);
// Copies cells into an owned buffer's empty ones, with a reference each.
void CopyCells(const tenon_tensor_view& from, Buffer* to);

}  // namespace tenon::variant

#endif  // TENON_CORE_TENSOR_VARIANT_H_
