// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <array>
#include <cctype>

namespace tenon {
namespace {

// DLPack's codes: int 0, uint 1, float 2, opaque handle 3, bfloat 4, complex 5, bool 6.
struct TypeInfo {
  std::string_view name;
  uint8_t size;
  uint8_t dl_code;
  bool floating;
};

constexpr std::array<TypeInfo, 34> kTypes = {{
    {"invalid", 0, 0, false},      {"float", 4, 2, true},          {"double", 8, 2, true},
    {"int32", 4, 0, false},        {"uint8", 1, 1, false},         {"int16", 2, 0, false},
    {"int8", 1, 0, false},         {"string", 16, 3, false},       {"complex64", 8, 5, true},
    {"int64", 8, 0, false},        {"bool", 1, 6, false},          {"qint8", 1, 0, false},
    {"quint8", 1, 1, false},       {"qint32", 4, 0, false},        {"bfloat16", 2, 4, true},
    {"qint16", 2, 0, false},       {"quint16", 2, 1, false},       {"uint16", 2, 1, false},
    {"complex128", 16, 5, true},   {"half", 2, 2, true},           {"resource", 8, 3, false},
    {"variant", 8, 3, false},      {"uint32", 4, 1, false},        {"uint64", 8, 1, false},
    {"float8_e5m2", 1, 3, false},  {"float8_e4m3fn", 1, 3, false}, {"float8_e4m3fnuz", 1, 3, false},
    {"float8_e4m3b11fnuz", 1, 3, false}, {"float8_e5m2fnuz", 1, 3, false}, {"int4", 1, 3, false},
    {"uint4", 1, 3, false},        {"int2", 1, 3, false},          {"uint2", 1, 3, false},
    {"float4_e2m1fn", 1, 3, false},
}};

}  // namespace

bool IsValidType(DType dtype) {
  const DType base = BaseType(dtype);
  return base > 0 && base < kTypes.size();
}
uint32_t SizeOf(DType dtype) {
  if (IsRef(dtype)) return sizeof(tenon_resource*);
  return dtype < kTypes.size() ? kTypes[dtype].size : 0;
}
bool IsPlain(DType dtype) {
  return IsValidType(dtype) && !IsRef(dtype) && dtype != TENON_DT_STRING && dtype != TENON_DT_RESOURCE &&
         dtype != TENON_DT_VARIANT;
}
bool IsFloating(DType dtype) { return BaseType(dtype) < kTypes.size() && kTypes[BaseType(dtype)].floating; }

std::string TypeName(DType dtype) {
  const DType base = BaseType(dtype);
  if (base >= kTypes.size()) return "type " + std::to_string(dtype);
  std::string name(kTypes[base].name);
  return IsRef(dtype) ? name + "_ref" : name;
}

DType TypeFromName(std::string_view name) {
  std::string lower;
  if (name.substr(0, 3) == "DT_") name.remove_prefix(3);
  for (char c : name) lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  DType ref = 0;
  if (lower.size() > 4 && lower.ends_with("_ref")) {
    lower.resize(lower.size() - 4);
    ref = TENON_DT_REF;
  }
  for (DType dtype = 1; dtype < kTypes.size(); ++dtype)
    if (kTypes[dtype].name == lower) return dtype + ref;
  return TENON_DT_INVALID;
}

tenon_dl_data_type ToDlType(DType dtype) {
  if (IsRef(dtype) || dtype >= kTypes.size()) return {3, 64, 1};
  return {kTypes[dtype].dl_code, static_cast<uint8_t>(kTypes[dtype].size * 8), 1};
}

DType FromDlType(tenon_dl_data_type type) {
  constexpr uint8_t kOpaque = 3;
  if (type.code == kOpaque) return TENON_DT_INVALID;
  for (DType dtype = 1; dtype < kTypes.size(); ++dtype)
    if (const tenon_dl_data_type own = ToDlType(dtype);
        IsPlain(dtype) && own.code == type.code && own.bits == type.bits && type.lanes == 1)
      return dtype;
  return TENON_DT_INVALID;
}

}  // namespace tenon
