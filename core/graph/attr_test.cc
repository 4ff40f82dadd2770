// SPDX-License-Identifier: Apache-2.0
#include "core/graph/attr.h"

#include <cmath>
#include <set>

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::attr_test {
namespace {

using fakes::TensorOf;

std::vector<AttrValue> OneOfEachKind() {
  const auto attrs = std::make_shared<AttrMap>();
  attrs->emplace("n", AttrValue::Int(1));
  const FunctionRef function{"f", attrs};
  const Tensor tensor = TensorOf<float>(TENON_DT_FLOAT, {2}, {1, 2});
  return {AttrValue::String("text"),
          AttrValue::Int(-1),
          AttrValue::Float(0.5f),
          AttrValue::Bool(true),
          AttrValue::Type(TENON_DT_HALF),
          AttrValue::OfShape({2, -1}),
          AttrValue::OfShape(Shape::Unknown()),
          AttrValue::OfTensor(tensor),
          AttrValue::Function(function),
          AttrValue::Placeholder("T"),
          AttrValue::Strings({"", "b"}),
          AttrValue::Ints({1, 2}),
          AttrValue::Floats({1, 2}),
          AttrValue::Bools({0, 1}),
          AttrValue::Types({TENON_DT_INT8, TENON_DT_UINT8}),
          AttrValue::Shapes({Shape(), Shape::Unknown()}),
          AttrValue::Tensors({tensor, tensor}),
          AttrValue::Functions({function, {"g", nullptr}}),
          AttrValue::EmptyList()};
}

TEST(AttrValue, EqualsItselfAndNoOtherKind) {
  const std::vector<AttrValue> left = OneOfEachKind(), right = OneOfEachKind();
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t k = 0; k < right.size(); ++k) {
      EXPECT_EQ(left[i].Equals(right[k]), i == k) << left[i].ToString() << " and " << right[k].ToString();
      if (i == k) {
        EXPECT_EQ(left[i].Hash(), right[k].Hash()) << left[i].ToString();
      }
    }
  EXPECT_FALSE(AttrValue().Equals(left[0]));
  EXPECT_TRUE(AttrValue().Equals(AttrValue()));
}

TEST(AttrValue, CrossesToTheAbiAndBack) {
  for (const AttrValue& value : OneOfEachKind()) {
    if (!value.placeholder().empty()) continue;  // the ABI has none
    auto back = AttrValue::FromC(value.c());
    ASSERT_TRUE(back.ok()) << back.status().ToString();
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_FUNCTION) {
      EXPECT_EQ(back->function().name, "f") << "the ABI has a function's name alone";
    } else {
      EXPECT_TRUE(value.Equals(*back)) << value.ToString();
    }
    EXPECT_EQ(back->kind(), value.kind());
  }
}

TEST(AttrValue, RefusesWhatTheAbiMayNotSay) {
  const int64_t numbers[] = {1, 2};
  const uint32_t type = 99;
  EXPECT_EQ(AttrValue::FromC({TENON_ATTR_INT, 0, 2, numbers}).status().ToString(),
            "INVALID_ARGUMENT: an attribute that is no list has 2 values");
  EXPECT_EQ(AttrValue::FromC({TENON_ATTR_INT, 0, 1, nullptr}).status().ToString(),
            "INVALID_ARGUMENT: an attribute's data is NULL");
  EXPECT_EQ(AttrValue::FromC({TENON_ATTR_TYPE, 0, 1, &type}).status().ToString(),
            "INVALID_ARGUMENT: an attribute names the unknown type 99");
  EXPECT_EQ(AttrValue::FromC({77, 0, 1, numbers}).status().ToString(),
            "INVALID_ARGUMENT: an attribute has the unknown kind 77");
  const int64_t dim = -4;
  const tenon_shape shape = {&dim, 1, 0};
  EXPECT_FALSE(AttrValue::FromC({TENON_ATTR_SHAPE, 0, 1, &shape}).ok());
}

TEST(AttrValue, ComparesFloatsByTheirBits) {
  EXPECT_FALSE(AttrValue::Float(0.0f).Equals(AttrValue::Float(-0.0f)));
  EXPECT_TRUE(AttrValue::Float(NAN).Equals(AttrValue::Float(NAN)));
}

TEST(AttrValue, TakesEmptyListsOfAnyKindForEqual) {
  EXPECT_TRUE(AttrValue::EmptyList().Equals(AttrValue::Ints({})));
  EXPECT_TRUE(AttrValue::Strings({}).Equals(AttrValue::Ints({})));
  EXPECT_FALSE(AttrValue::EmptyList().Equals(AttrValue::Ints({1})));
  EXPECT_EQ(AttrValue::EmptyList().Hash(), AttrValue::Ints({}).Hash());
}

// Else the filters of a network, which have one shape, would each be compared with all others.
TEST(AttrValue, TensorsOfOneShapeHaveTheHashOfTheirElements) {
  for (const size_t size : {1u, 64u, 65u, 4096u}) {
    std::set<size_t> hashes;
    for (size_t last : {0u, 1u, 2u}) {
      std::vector<float> values(size, 0.5f);
      values.back() = static_cast<float>(last);
      const auto make = [&] {
        return AttrValue::OfTensor(TensorOf<float>(TENON_DT_FLOAT, {static_cast<int64_t>(size)}, values));
      };
      EXPECT_EQ(make().Hash(), make().Hash()) << size;
      hashes.insert(make().Hash());
    }
    EXPECT_EQ(hashes.size(), 3u) << size;
  }
}

TEST(AttrValue, ComparesTensorsByTheirElements) {
  const auto of = [](std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return AttrValue::OfTensor(TensorOf<float>(TENON_DT_FLOAT, {count}, std::move(values)));
  };
  EXPECT_TRUE(of({1, 2}).Equals(of({1, 2})));
  EXPECT_FALSE(of({1, 2}).Equals(of({1, 3})));
  EXPECT_FALSE(of({1, 2}).Equals(of({1, 2, 3})));
  // Large ones by identity, so that merging nodes does not read megabytes.
  const AttrValue large = of(std::vector<float>(20000, 1.0f));
  EXPECT_TRUE(large.Equals(AttrValue(large)));
  EXPECT_FALSE(large.Equals(of(std::vector<float>(20000, 1.0f))));
}

TEST(AttrValue, IsShownShortly) {
  const char* const wanted[] = {"'text'",
                                "-1",
                                "0.500000",
                                "true",
                                "half",
                                "[2,?]",
                                "?",
                                "float[2]",
                                "f",
                                "$T",
                                "['', 'b']",
                                "[1, 2]",
                                "[1.000000, 2.000000]",
                                "[false, true]",
                                "[int8, uint8]",
                                "[[], ?]",
                                "[float[2], float[2]]",
                                "[f, g]",
                                "[]"};
  const std::vector<AttrValue> values = OneOfEachKind();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i].ToString(), wanted[i]);
  EXPECT_EQ(AttrValue().ToString(), "none");
  EXPECT_EQ(AttrKindName(TENON_ATTR_INT | TENON_ATTR_LIST), "list(int)");
  EXPECT_EQ(AttrKindName(TENON_ATTR_FUNCTION), "func");
}

}  // namespace
}  // namespace tenon::graph::attr_test
