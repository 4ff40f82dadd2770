// SPDX-License-Identifier: Apache-2.0
// tenon/c_util.h, called as an author in C calls it.
#include "tenon/c_util.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tenon/testing/kernel_case.h"

namespace tenon::sdk::c_util_test {
namespace {

using testing::Make;
using testing::NodeServices;
using testing::Text;

class CUtil : public ::testing::Test {
 protected:
  CUtil() { tenon_plugin_host = testing::Host(); }
};

TEST_F(CUtil, AnErrorIsFormattedAndCutToItsRoom) {
  EXPECT_EQ(Text(tenon_c_error(TENON_INVALID_ARGUMENT, "axis %d of %s", 3, "x")), "INVALID_ARGUMENT: axis 3 of x");
  const std::string text = Text(tenon_c_error(TENON_INTERNAL, "%s", std::string(5000, 'a').c_str()));
  EXPECT_EQ(text, "INTERNAL: " + std::string(1023, 'a'));
}

TEST_F(CUtil, TextsAreComparedByAllTheirBytes) {
  EXPECT_EQ(tenon_c_equal(tenon_c_span("abc"), "abc"), 1u);
  EXPECT_EQ(tenon_c_equal(tenon_c_span("abc"), "abcd"), 0u);
  EXPECT_EQ(tenon_c_equal(tenon_c_span("abc"), "ab"), 0u);
  EXPECT_EQ(tenon_c_equal({nullptr, 0}, ""), 1u);
}

int64_t CountOf(std::vector<int64_t> dims, int32_t ndim = -2) {
  tenon_tensor_view view = {};
  view.dl.shape = dims.data();
  view.dl.ndim = ndim == -2 ? static_cast<int32_t>(dims.size()) : ndim;
  return tenon_c_count(&view);
}

TEST_F(CUtil, ElementsAreCountedOrSaidToBeUnknown) {
  EXPECT_EQ(CountOf({}), 1);
  EXPECT_EQ(CountOf({2, 3, 4}), 24);
  EXPECT_EQ(CountOf({}, -1), -1);
  EXPECT_EQ(CountOf({2, -1}), -1);
  EXPECT_EQ(CountOf({0, -1}), -1);
  EXPECT_EQ(CountOf({INT64_MAX, 0, INT64_MAX}), 0);
  EXPECT_EQ(CountOf({INT64_MAX, 1}), INT64_MAX);
  EXPECT_EQ(CountOf({INT64_MAX, 2}), -1);
  EXPECT_EQ(CountOf({int64_t{1} << 32, int64_t{1} << 31}), -1);
}

TEST_F(CUtil, TheFirstElementIsBehindTheOffset) {
  float values[2] = {1, 2};
  tenon_tensor_view view = {};
  EXPECT_EQ(tenon_c_data(&view), nullptr);
  view.dl.data = values;
  view.dl.byte_offset = 4;
  EXPECT_EQ(*static_cast<float*>(tenon_c_data(&view)), 2);
}

TEST_F(CUtil, ANumberIsReadFromEitherIntegerAndFromNothingElse) {
  int64_t value = 0;
  const testing::Tensor narrow = Make<int32_t>({}, {-7});
  const tenon_tensor_view of_narrow = narrow.view();
  EXPECT_EQ(Text(tenon_c_integer(&of_narrow, "the axis", &value)), "");
  EXPECT_EQ(value, -7);
  const testing::Tensor wide = Make<int64_t>({1}, {int64_t{1} << 40});
  const tenon_tensor_view view = wide.view();
  EXPECT_EQ(Text(tenon_c_integer(&view, "the axis", &value)), "");
  EXPECT_EQ(value, int64_t{1} << 40);
  const testing::Tensor two = Make<int32_t>({2}, {1, 2}), real = Make<float>({}, {1});
  const tenon_tensor_view of_two = two.view(), of_real = real.view();
  EXPECT_EQ(Text(tenon_c_integer(&of_two, "the axis", &value)),
            "INVALID_ARGUMENT: the axis must be one number that is there");
  EXPECT_EQ(Text(tenon_c_integer(&of_real, "the axis", &value)),
            "INVALID_ARGUMENT: the axis must be int32 or int64, found dtype 1");
  tenon_tensor_view absent = view;
  absent.dl.data = nullptr;
  EXPECT_EQ(Text(tenon_c_integer(&absent, "the axis", &value)),
            "INVALID_ARGUMENT: the axis must be one number that is there");
}

TEST_F(CUtil, AttributesAreReadByTheirKind) {
  const testing::Node node = {"Op",
                              {{"i", int64_t{5}},
                               {"f", 1.5f},
                               {"b", true},
                               {"t", testing::Type{TENON_DT_INT8}},
                               {"s", std::string("text")},
                               {"is", std::vector<int64_t>{1, 2}},
                               {"none", std::vector<float>{}}}};
  const tenon_node_services* services = NodeServices();
  int64_t i = 0;
  float f = 0;
  uint32_t b = 0, t = 0;
  tenon_span s = {};
  const int64_t* list = nullptr;
  uint64_t count = 9;
  EXPECT_EQ(Text(tenon_c_attr_int(services, &node, "i", &i)), "");
  EXPECT_EQ(Text(tenon_c_attr_float(services, &node, "f", &f)), "");
  EXPECT_EQ(Text(tenon_c_attr_bool(services, &node, "b", &b)), "");
  EXPECT_EQ(Text(tenon_c_attr_type(services, &node, "t", &t)), "");
  EXPECT_EQ(Text(tenon_c_attr_string(services, &node, "s", &s)), "");
  EXPECT_EQ(i, 5);
  EXPECT_EQ(f, 1.5f);
  EXPECT_EQ(b, 1u);
  EXPECT_EQ(t, TENON_DT_INT8);
  EXPECT_EQ(tenon_c_equal(s, "text"), 1u);
  EXPECT_EQ(Text(tenon_c_attr_ints(services, &node, "is", &list, &count)), "");
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(list[1], 2);
  EXPECT_EQ(Text(tenon_c_attr_ints(services, &node, "none", &list, &count)), "") << "an empty list is of any kind";
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(Text(tenon_c_attr_int(services, &node, "f", &i)),
            "INVALID_ARGUMENT: attribute 'f' is of kind 3; 2 is wanted");
  EXPECT_EQ(Text(tenon_c_attr_ints(services, &node, "i", &list, &count)),
            "INVALID_ARGUMENT: attribute 'i' is of kind 2; 258 is wanted");
  EXPECT_NE(Text(tenon_c_attr_int(services, &node, "absent", &i)).find("NOT_FOUND"), std::string::npos);
}

// A kernel that gives its strings in the opposite order.
tenon_status* Reverse(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const tenon_tensor_view* const input = frame->inputs[0];
  std::vector<tenon_span> strings;
  for (int64_t i = tenon_c_count(input); i > 0; --i) strings.push_back(tenon_c_string(input, i - 1));
  const int64_t dims[] = {static_cast<int64_t>(strings.size())};
  return tenon_c_set_strings(frame, 0, {dims, 1, 0}, strings.data(), strings.size());
}

TEST_F(CUtil, StringsAreReadAndBuilt) {
  tenon_kernel_registration kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.op = TENON_SPAN("Reverse");
  kernel.dynamic_outputs = TENON_DYNAMIC_ALL;
  kernel.run = &Reverse;
  const tenon_kernel_registration* const list[] = {&kernel};
  const tenon_kernel_package package = {TENON_HEAD(tenon_kernel_package), list, 1};
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"a", "", "ccc"}, {}, {std::string("\0x", 2), std::string(100000, 'z')}}) {
    testing::KernelCase reverse(package, "Reverse");
    const testing::Result result =
        reverse.Run({testing::Strings({static_cast<int64_t>(given.size())}, given)}, {{TENON_DT_STRING, {}}});
    ASSERT_EQ(result.text(), "");
    EXPECT_EQ(testing::Texts(result[0]), std::vector<std::string>(given.rbegin(), given.rend()));
  }
}

TEST_F(CUtil, AScalarConstantHasTheTypeThatWasAskedFor) {
  static std::vector<tenon_tensor_view> added;
  static std::vector<double> numbers;
  tenon_graph_builder builder = {};
  builder.struct_size = sizeof builder;
  builder.add_constant = [](tenon_graph_builder_context*, const tenon_tensor_view* value,
                            tenon_output* out) -> tenon_status* {
    added.push_back(*value);
    double number = 0;
    if (value->dtype == TENON_DT_FLOAT) number = *static_cast<const float*>(value->dl.data);
    if (value->dtype == TENON_DT_DOUBLE) number = *static_cast<const double*>(value->dl.data);
    if (value->dtype == TENON_DT_INT32) number = *static_cast<const int32_t*>(value->dl.data);
    if (value->dtype == TENON_DT_INT64) number = static_cast<double>(*static_cast<const int64_t*>(value->dl.data));
    numbers.push_back(number);
    *out = {static_cast<int64_t>(added.size()), 0, 0};
    return nullptr;
  };
  tenon_output output = {};
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64}) {
    EXPECT_EQ(Text(tenon_c_scalar(&builder, dtype, -3, &output)), "");
    EXPECT_EQ(numbers.back(), -3);
    EXPECT_EQ(added.back().byte_size * 8, added.back().dl.dtype.bits);
    EXPECT_EQ(added.back().dl.ndim, 0);
  }
  EXPECT_EQ(output.node, 4);
  EXPECT_NE(Text(tenon_c_scalar(&builder, TENON_DT_BOOL, 1, &output)).find("UNIMPLEMENTED"), std::string::npos);
}

// The host's struct ends somewhere in ours.
TEST_F(CUtil, WhatTheOtherSideDoesNotHaveIsNeitherReadNorWritten) {
  tenon_memory_kind kind;
  std::memset(&kind, 0x5A, sizeof kind);
  kind.struct_size = offsetof(tenon_memory_kind, total_bytes);
  EXPECT_TRUE(TENON_HAS(&kind, alignment));
  EXPECT_FALSE(TENON_HAS(&kind, total_bytes));
  kind.struct_size += sizeof(uint64_t) - 1;
  EXPECT_FALSE(TENON_HAS(&kind, total_bytes)) << "not even when a part of it is there";
  TENON_SET(&kind, alignment, 64);
  TENON_SET(&kind, total_bytes, 1);
  EXPECT_EQ(kind.alignment, 64u);
  EXPECT_EQ(kind.total_bytes, 0x5A5A5A5A5A5A5A5Au);

  tenon_host shorter;
  std::memset(&shorter, 0x5A, sizeof shorter);
  shorter.struct_size = offsetof(tenon_host, get_extension);
  shorter.log = nullptr;
  EXPECT_FALSE(TENON_CALLABLE(&shorter, get_extension));
  EXPECT_FALSE(TENON_CALLABLE(&shorter, log));
  EXPECT_TRUE(TENON_CALLABLE(&shorter, buffer_retain));
  tenon_host whole;
  tenon_plugin_take(&whole, sizeof whole, &shorter);
  EXPECT_EQ(whole.get_extension, nullptr);
  EXPECT_EQ(whole.buffer_retain, shorter.buffer_retain);
  struct {
    tenon_host host;
    uint64_t later[2];
  } longer = {};
  longer.host.struct_size = sizeof longer;
  longer.host.abi_minor = 7;
  tenon_plugin_take(&whole, sizeof whole, &longer);
  EXPECT_EQ(whole.abi_minor, 7u);
}

}  // namespace
}  // namespace tenon::sdk::c_util_test
