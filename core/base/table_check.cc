// SPDX-License-Identifier: Apache-2.0
#include "core/base/table_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

// No table of this kind is as long: a larger size is none, but what lay there.
constexpr uint32_t kMostBytes = 64 * 1024;
constexpr uint64_t kMostText = 1 << 20;
constexpr uint64_t kMostName = 256;
constexpr uint64_t kMostElements = 1 << 20;

bool IsControl(char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') || c == '\x7f'; }
bool IsLetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool MayStandInName(char c) { return IsLetterOrDigit(c) || std::strchr("_.-/>:+", c) != nullptr; }

// As it can be printed on one line.
std::string Printable(std::string_view text) {
  std::string out(text.substr(0, kMostName));
  for (char& c : out)
    if (IsControl(c) || c == '\n' || c == '\t') c = '?';
  return out;
}

}  // namespace

Status CheckHead(uint32_t struct_size, uint32_t must_understand, uint32_t least, std::string_view what) {
  if (struct_size < least || struct_size > kMostBytes)
    return InvalidArgument(
        StrCat(what, " has the struct_size ", struct_size, "; it is at least ", least, ": begin it with TENON_HEAD"));
  if (must_understand != 0)
    return Unimplemented(StrCat(what, " needs a feature of a newer host (must_understand ", must_understand, ")"));
  return Status::Ok();
}

Status CheckText(tenon_span text, std::string_view what) {
  if (text.size == 0) return Status::Ok();
  if (text.data == nullptr) return InvalidArgument(StrCat(what, " is a span of ", text.size, " bytes at NULL"));
  if (text.size > kMostText)
    return InvalidArgument(StrCat(what, " is a span of ", text.size, " bytes; no text is as long"));
  const std::string_view view = View(text);
  if (std::any_of(view.begin(), view.end(), &IsControl))
    return InvalidArgument(StrCat(what, " has a control character: '", Printable(view), "'"));
  return Status::Ok();
}

Status CheckName(tenon_span name, std::string_view what) {
  if (name.size == 0) return InvalidArgument(StrCat(what, " is empty"));
  TENON_RETURN_IF_ERROR(CheckText(name, what));
  const std::string_view view = View(name);
  if (view.size() > kMostName || !std::all_of(view.begin(), view.end(), &MayStandInName))
    return InvalidArgument(
        StrCat(what, " '", Printable(view), "' is no name: letters, digits and _ . - / > : + may stand in it"));
  return Status::Ok();
}

Status CheckArray(const void* elements, uint64_t count, std::string_view what) {
  if (count == 0 || (elements != nullptr && count <= kMostElements)) return Status::Ok();
  return InvalidArgument(
      StrCat(what, " are an array of ", count, elements == nullptr ? " at NULL" : "; nothing has as many"));
}

bool IsMeasure(double number) { return number >= 0 && !std::isinf(number); }

Status CheckFunctions(const void* table, uint32_t struct_size, std::span<const TableFunction> functions,
                      std::string_view what) {
  std::string missing;
  bool beyond = false;
  for (const TableFunction& function : functions) {
    void (*pointer)() = nullptr;
    std::memcpy(&pointer, static_cast<const char*>(table) + function.offset, sizeof pointer);
    if (pointer != nullptr) continue;
    missing += StrCat(missing.empty() ? "" : ", ", function.name);
    beyond = beyond || struct_size < function.offset + sizeof pointer;
  }
  if (missing.empty()) return Status::Ok();
  return InvalidArgument(
      StrCat(what, " lacks ", missing, beyond ? StrCat("; its struct_size of ", struct_size, " ends before") : ""));
}

}  // namespace tenon
