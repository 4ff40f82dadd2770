// SPDX-License-Identifier: Apache-2.0
// What packages may do with a table from keys to values that another package makes (ops/lookup): fill it.
//
//   FillTable(TableIn(c, 0), c, keys, values);   // of the handle in input 0
//
// The object that a handle stands for is a SharedTable to everybody, whatever it is to the package that made it; its
// calls have no C++ types, since the two may come from different compilers. Any thread.
#ifndef TENON_SDK_KERNEL_SHARED_TABLE_H_
#define TENON_SDK_KERNEL_SHARED_TABLE_H_

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/resource.h"

namespace tenon::sdk {

// Of all tables; another number when SharedTable changes.
inline constexpr tenon_span kTableType = TENON_SPAN("tenon.Table/1");

class SharedTable {
 public:
  SharedTable() = default;
  virtual ~SharedTable() = default;
  SharedTable(const SharedTable&) = delete;
  SharedTable& operator=(const SharedTable&) = delete;

  // Gives a table that is filled once all its entries, which count against the frame's session: a value for each key,
  // of the table's types. The views are borrowed for the call. INVALID_ARGUMENT: of other types or shapes, or a key
  // with two values; FAILED_PRECONDITION: it has others; UNIMPLEMENTED: it is not filled so.
  virtual tenon_status* FillOnce(tenon_frame* frame, const tenon_tensor_view* keys,
                                 const tenon_tensor_view* values) noexcept = 0;
};

inline SharedTable& TableIn(const RunContext& c, int32_t input) {
  return ObjectOf<SharedTable>(c, c.resource(input), kTableType);
}
// A failure is thrown, as in kernel.h.
inline void FillTable(SharedTable& table, const RunContext& c, const tenon_tensor_view& keys,
                      const tenon_tensor_view& values) {
  Check(table.FillOnce(c.frame(), &keys, &values));
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_SHARED_TABLE_H_
