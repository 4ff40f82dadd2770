// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <array>
#include <cctype>
#include <charconv>

namespace tenon {
namespace {

// DLPack's codes: int 0, uint 1, float 2, opaque handle 3, bfloat 4, complex 5, bool 6, float8_e8m0fnu 14,
// float4_e2m1fn 17.
struct TypeInfo {
  std::string_view name;
  uint8_t bits;
  uint8_t dl_code;
  bool floating;
};

constexpr std::array<TypeInfo, 34> kTypes = {{
    {"invalid", 0, 0, false},       {"float", 32, 2, true},         {"double", 64, 2, true},
    {"int32", 32, 0, false},        {"uint8", 8, 1, false},         {"int16", 16, 0, false},
    {"int8", 8, 0, false},          {"string", 128, 3, false},      {"complex64", 64, 5, true},
    {"int64", 64, 0, false},        {"bool", 8, 6, false},          {"qint8", 8, 0, false},
    {"quint8", 8, 1, false},        {"qint32", 32, 0, false},       {"bfloat16", 16, 4, true},
    {"qint16", 16, 0, false},       {"quint16", 16, 1, false},      {"uint16", 16, 1, false},
    {"complex128", 128, 5, true},   {"half", 16, 2, true},          {"resource", 64, 3, false},
    {"variant", 64, 3, false},      {"uint32", 32, 1, false},       {"uint64", 64, 1, false},
    {"float8_e5m2", 8, 3, false},   {"float8_e4m3fn", 8, 3, false}, {"float8_e4m3fnuz", 8, 3, false},
    {"float8_e4m3b11fnuz", 8, 3, false}, {"float8_e5m2fnuz", 8, 3, false}, {"int4", 8, 3, false},
    {"uint4", 8, 3, false},         {"int2", 8, 3, false},          {"uint2", 8, 3, false},
    {"float4_e2m1fn", 8, 3, false},
}};

// Those that TensorFlow does not have, from this number on.
constexpr DType kFirstOwn = TENON_DT_PACKED_INT4;
constexpr std::array<TypeInfo, 6> kOwnTypes = {{
    {"packed_int4", 4, 0, false},   {"packed_uint4", 4, 1, false},  {"packed_int2", 2, 0, false},
    {"packed_uint2", 2, 1, false},  {"packed_float4_e2m1fn", 4, 17, false}, {"float8_e8m0fnu", 8, 14, false},
}};

// nullptr: there is none of the number, which is no reference's or vendor's.
const TypeInfo* Find(DType base) {
  if (base > 0 && base < kTypes.size()) return &kTypes[base];
  return base >= kFirstOwn && base - kFirstOwn < kOwnTypes.size() ? &kOwnTypes[base - kFirstOwn] : nullptr;
}

template <typename Function>
DType FirstType(Function&& fits) {
  for (DType dtype = 1; dtype < kTypes.size(); ++dtype)
    if (fits(dtype, kTypes[dtype])) return dtype;
  for (DType dtype = kFirstOwn; dtype - kFirstOwn < kOwnTypes.size(); ++dtype)
    if (fits(dtype, kOwnTypes[dtype - kFirstOwn])) return dtype;
  return TENON_DT_INVALID;
}

// A vendor's: flag, bytes of an element, number.
constexpr uint32_t VendorBytes(DType dtype) { return (dtype & ~TENON_DT_VENDOR_FLAG) >> 16; }
constexpr uint32_t VendorNumber(DType dtype) { return dtype & 0xFFFFu; }
bool IsValidVendorType(DType dtype) {
  return IsVendorType(dtype) && VendorBytes(dtype) >= 1 && VendorBytes(dtype) <= 255;
}

DType VendorTypeFromName(std::string_view name) {
  constexpr std::string_view kPrefix = "vendor";
  uint32_t bytes = 0, number = 0;
  if (!name.starts_with(kPrefix)) return TENON_DT_INVALID;
  const char* const end = name.data() + name.size();
  const auto size = std::from_chars(name.data() + kPrefix.size(), end, bytes);
  if (size.ec != std::errc() || size.ptr == end || *size.ptr != ':') return TENON_DT_INVALID;
  const auto rest = std::from_chars(size.ptr + 1, end, number);
  if (rest.ec != std::errc() || rest.ptr != end || bytes < 1 || bytes > 255 || number > 0xFFFF) return TENON_DT_INVALID;
  return TENON_DT_VENDOR(bytes, number);
}

}  // namespace

bool IsValidType(DType dtype) {
  return IsVendorType(dtype) ? IsValidVendorType(dtype) : Find(BaseType(dtype)) != nullptr;
}
uint32_t BitsOf(DType dtype) {
  if (IsRef(dtype)) return 8 * sizeof(tenon_resource*);
  if (IsVendorType(dtype)) return IsValidVendorType(dtype) ? 8 * VendorBytes(dtype) : 0;
  const TypeInfo* const info = Find(dtype);
  return info == nullptr ? 0 : info->bits;
}
bool IsPlain(DType dtype) {
  return IsValidType(dtype) && !IsRef(dtype) && dtype != TENON_DT_STRING && dtype != TENON_DT_RESOURCE &&
         dtype != TENON_DT_VARIANT;
}
bool IsFloating(DType dtype) {
  const TypeInfo* const info = Find(BaseType(dtype));
  return info != nullptr && info->floating;
}

std::string TypeName(DType dtype) {
  if (IsValidVendorType(dtype))
    return "vendor" + std::to_string(VendorBytes(dtype)) + ":" + std::to_string(VendorNumber(dtype));
  if (dtype == TENON_DT_INVALID) return "invalid";
  const TypeInfo* const info = Find(BaseType(dtype));
  if (info == nullptr) return "type " + std::to_string(dtype);
  std::string name(info->name);
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
  if (const DType found = FirstType([&lower](DType, const TypeInfo& info) { return info.name == lower; }))
    return found + ref;
  return ref == 0 ? VendorTypeFromName(lower) : TENON_DT_INVALID;
}

tenon_dl_data_type ToDlType(DType dtype) {
  constexpr uint8_t kOpaque = 3;
  if (IsValidVendorType(dtype)) return {kOpaque, 8, static_cast<uint16_t>(VendorBytes(dtype))};
  const TypeInfo* const info = IsRef(dtype) ? nullptr : Find(dtype);
  return info == nullptr ? tenon_dl_data_type{kOpaque, 64, 1} : tenon_dl_data_type{info->dl_code, info->bits, 1};
}

DType FromDlType(tenon_dl_data_type type) {
  constexpr uint8_t kOpaque = 3;
  if (type.code == kOpaque || type.lanes != 1) return TENON_DT_INVALID;
  return FirstType([&type](DType dtype, const TypeInfo& info) {
    return IsPlain(dtype) && info.dl_code == type.code && info.bits == type.bits;
  });
}

}  // namespace tenon
