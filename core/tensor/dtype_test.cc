// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/dtype.h"

#include <gtest/gtest.h>

namespace tenon::dtype_test {
namespace {

TEST(DType, HasTheSizesOfItsElements) {
  EXPECT_EQ(SizeOf(TENON_DT_FLOAT), 4u);
  EXPECT_EQ(SizeOf(TENON_DT_DOUBLE), 8u);
  EXPECT_EQ(SizeOf(TENON_DT_BOOL), 1u);
  EXPECT_EQ(SizeOf(TENON_DT_HALF), 2u);
  EXPECT_EQ(SizeOf(TENON_DT_BFLOAT16), 2u);
  EXPECT_EQ(SizeOf(TENON_DT_COMPLEX128), 16u);
  EXPECT_EQ(SizeOf(TENON_DT_STRING), sizeof(tenon_string_cell));
  EXPECT_EQ(SizeOf(TENON_DT_RESOURCE), sizeof(tenon_resource*));
  EXPECT_EQ(SizeOf(TENON_DT_FLOAT + TENON_DT_REF), sizeof(tenon_resource*));
  EXPECT_EQ(SizeOf(TENON_DT_INVALID), 0u);
  EXPECT_EQ(SizeOf(99), 0u);
}

TEST(DType, IsFoundByEveryNameItGives) {
  int types = 0;
  for (DType base = 1; base < TENON_DT_REF; ++base) {
    if (!IsValidType(base)) continue;
    ++types;
    for (DType dtype : {base, base + TENON_DT_REF}) {
      EXPECT_EQ(TypeFromName(TypeName(dtype)), dtype) << TypeName(dtype);
      EXPECT_TRUE(IsValidType(dtype));
      EXPECT_EQ(BaseType(dtype), base);
    }
    EXPECT_GT(BitsOf(base), 0u) << TypeName(base);
  }
  EXPECT_EQ(types, 39);
}

TEST(DType, TakesTheNamesOfFilesToo) {
  EXPECT_EQ(TypeFromName("DT_FLOAT"), DType{TENON_DT_FLOAT});
  EXPECT_EQ(TypeFromName("DT_INT64_REF"), DType{TENON_DT_INT64 + TENON_DT_REF});
  EXPECT_EQ(TypeFromName("float_ref"), DType{TENON_DT_FLOAT + TENON_DT_REF});
  for (const char* none : {"", "floa", "_ref", "DT_", "float32", "invalid_ref"})
    EXPECT_EQ(TypeFromName(none), DType{TENON_DT_INVALID}) << none;
}

TEST(DType, PackedElementsShareBytes) {
  EXPECT_EQ(BitsOf(TENON_DT_PACKED_INT4), 4u);
  EXPECT_EQ(SizeOf(TENON_DT_PACKED_INT4), 0u);
  EXPECT_EQ(BytesOfElements(TENON_DT_PACKED_INT4, 3), 2u);
  EXPECT_EQ(BytesOfElements(TENON_DT_PACKED_UINT2, 5), 2u);
  EXPECT_EQ(BytesOfElements(TENON_DT_PACKED_UINT2, 0), 0u);
  EXPECT_EQ(SizeOf(TENON_DT_FLOAT8_E8M0FNU), 1u);
  EXPECT_TRUE(IsPlain(TENON_DT_PACKED_FLOAT4_E2M1FN));
  for (const DType packed : {TENON_DT_PACKED_INT4, TENON_DT_PACKED_UINT4, TENON_DT_PACKED_INT2, TENON_DT_PACKED_UINT2})
    EXPECT_EQ(FromDlType(ToDlType(packed)), packed);
}

TEST(DType, VendorsTypesSayTheirSize) {
  const DType own = TENON_DT_VENDOR(6, 4711);
  EXPECT_TRUE(IsValidType(own));
  EXPECT_TRUE(IsPlain(own));
  EXPECT_FALSE(IsRef(own));
  EXPECT_EQ(BaseType(own), own);
  EXPECT_EQ(SizeOf(own), 6u);
  EXPECT_EQ(TypeName(own), "vendor6:4711");
  EXPECT_EQ(TypeFromName("vendor6:4711"), own);
  EXPECT_EQ(FromDlType(ToDlType(own)), DType{TENON_DT_INVALID}) << "nobody else knows it";
  for (const char* none : {"vendor", "vendor6", "vendor6:", "vendor0:1", "vendor256:1", "vendor6:65536", "vendor6:1x",
                           "vendor6:1_ref", "vendor-1:1"})
    EXPECT_EQ(TypeFromName(none), DType{TENON_DT_INVALID}) << none;
  for (const DType none : {TENON_DT_VENDOR(0, 1), DType{TENON_DT_VENDOR_FLAG | 0x0100'0000u}, DType{0x8000'0001u}})
    EXPECT_FALSE(IsValidType(none)) << none;
}

TEST(DType, SaysWhatIsNoType) {
  for (DType none : {DType{0}, DType{63}, DType{70}, DType{TENON_DT_REF + 70}, DType{99}, DType{TENON_DT_REF},
                     DType{TENON_DT_REF + 99}, DType{UINT32_MAX}}) {
    EXPECT_FALSE(IsValidType(none)) << none;
    EXPECT_FALSE(IsPlain(none)) << none;
    EXPECT_FALSE(IsFloating(none)) << none;
  }
  EXPECT_EQ(TypeName(99), "type 99");
}

TEST(DType, KnowsReferencesPlainBytesAndWhereGradientsFlow) {
  EXPECT_TRUE(IsRef(TENON_DT_INT32 + TENON_DT_REF));
  EXPECT_FALSE(IsRef(TENON_DT_INT32));
  EXPECT_TRUE(IsPlain(TENON_DT_INT32));
  for (DType other : {DType{TENON_DT_STRING}, DType{TENON_DT_RESOURCE}, DType{TENON_DT_VARIANT},
                      DType{TENON_DT_FLOAT + TENON_DT_REF}})
    EXPECT_FALSE(IsPlain(other)) << TypeName(other);
  EXPECT_TRUE(IsFloating(TENON_DT_HALF));
  EXPECT_TRUE(IsFloating(TENON_DT_COMPLEX64));
  EXPECT_TRUE(IsFloating(TENON_DT_DOUBLE + TENON_DT_REF));
  EXPECT_FALSE(IsFloating(TENON_DT_INT64));
  EXPECT_FALSE(IsFloating(TENON_DT_BOOL));
}

TEST(DType, HasDlpacksCodes) {
  const auto same = [](DType dtype, uint8_t code, uint8_t bits) {
    const tenon_dl_data_type dl = ToDlType(dtype);
    return dl.code == code && dl.bits == bits && dl.lanes == 1;
  };
  EXPECT_TRUE(same(TENON_DT_FLOAT, 2, 32));
  EXPECT_TRUE(same(TENON_DT_INT8, 0, 8));
  EXPECT_TRUE(same(TENON_DT_UINT16, 1, 16));
  EXPECT_TRUE(same(TENON_DT_BFLOAT16, 4, 16));
  EXPECT_TRUE(same(TENON_DT_COMPLEX64, 5, 64));
  EXPECT_TRUE(same(TENON_DT_BOOL, 6, 8));
  EXPECT_TRUE(same(TENON_DT_FLOAT + TENON_DT_REF, 3, 64));
}

}  // namespace
}  // namespace tenon::dtype_test
