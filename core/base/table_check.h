// SPDX-License-Identifier: Apache-2.0
// What must hold of a struct that a plugin gave before anything of it is believed: its head, its texts, its functions.
// Errors say what is missing or wrong; who calls says of which plugin.
#ifndef TENON_CORE_BASE_TABLE_CHECK_H_
#define TENON_CORE_BASE_TABLE_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenon {

// The least struct_size: up to the end of a member.
#define TENON_SIZE_UP_TO(type, member) static_cast<uint32_t>(offsetof(type, member) + sizeof(type::member))

// struct_size from `least` on, and no bit of must_understand. what: "a kernel", for the error.
Status CheckHead(uint32_t struct_size, uint32_t must_understand, uint32_t least, std::string_view what);
template <typename T>
Status CheckHead(const T* given, uint32_t least, std::string_view what) {
  if (given == nullptr) return InvalidArgument(std::string(what) + " is NULL");
  return CheckHead(given->struct_size, given->must_understand, least, what);
}

// That the span can be read, and has no control character but tab and the end of a line.
Status CheckText(tenon_span text, std::string_view what);
// That it is a name too: letters, digits and what stands between them in names of ops, devices and options; not empty.
Status CheckName(tenon_span name, std::string_view what);
// That an array of `count` elements may be there.
Status CheckArray(const void* elements, uint64_t count, std::string_view what);
// Whether a speed or a time can be one: a number from 0 on, and no endless one, since who places nodes adds and
// compares them. Else the error ends with kWantedMeasure.
bool IsMeasure(double number);
inline constexpr std::string_view kWantedMeasure = "; a number from 0 on is wanted, 0 where it is unknown";

// A function's place in a table.
struct TableFunction {
  const char* name;
  size_t offset;
};
#define TENON_TABLE_FUNCTION(type, member) ::tenon::TableFunction{#member, offsetof(type, member)}

// That none of these is NULL. table: as the host reads it; struct_size: as the plugin gave it.
Status CheckFunctions(const void* table, uint32_t struct_size, std::span<const TableFunction> functions,
                      std::string_view what);

}  // namespace tenon

#endif  // TENON_CORE_BASE_TABLE_CHECK_H_
