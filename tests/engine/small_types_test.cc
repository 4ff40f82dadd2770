// SPDX-License-Identifier: Apache-2.0
// Types that TensorFlow does not have, from feed to fetch: packed elements, scales, vendors'. What Cast gives is what
// ml_dtypes 0.6 gives.
#include <cmath>
#include <limits>

#include "tests/engine/engine.h"

namespace tenon::engine::small_types_test {
namespace {

constexpr DType Type(uint32_t dtype) { return static_cast<DType>(dtype); }

std::vector<uint8_t> BytesOf(const Tensor& tensor) {
  const tenon_tensor_view& view = *tenon_tensor_get_view(tensor.get());
  const auto* data = static_cast<const uint8_t*>(view.dl.data);
  return {data, data + view.byte_size};
}

// x, cast to `to`, as bytes, and cast back to floats.
std::pair<std::vector<uint8_t>, std::vector<float>> ThereAndBack(const std::vector<float>& x, uint32_t to,
                                                                 uint32_t through = TENON_DT_FLOAT) {
  Graph graph(TheRuntime());
  Output in = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
  const Output at = through == TENON_DT_FLOAT ? in : graph.Op("Cast", {in}, {{"DstT", Type(through)}});
  const Output small = graph.Op("Cast", {at}, {{"DstT", Type(to)}});
  const Output back = graph.Op("Cast", {small}, {{"DstT", DType::kFloat}});
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  std::vector<std::pair<std::vector<uint8_t>, std::vector<float>>> answers;
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    auto session = Session::Create(TheRuntime(), graph, [&] {
      SessionOptions options;
      options.executor = executor;
      return options;
    }());
    auto values = session->Run(
        {{in, *Tensor::FromBytes(DType::kFloat, {static_cast<int64_t>(x.size())}, x.data(), x.size() * sizeof(float))}},
        {small, back});
    EXPECT_TRUE(values.ok()) << values.status().message();
    if (!values.ok()) return {};
    answers.emplace_back(BytesOf((*values)[0]), Values<float>((*values)[1]));
  }
  EXPECT_EQ(answers[0].first, answers[1].first);
  return answers[0];
}

TEST(SmallTypes, IntegersKeepTheirLowBitsAndShareBytes) {
  const std::vector<float> x = {-9, -8, -1, 0, 7, 8, 15, 16, 100};
  EXPECT_EQ(ThereAndBack(x, TENON_DT_INT4).first, (std::vector<uint8_t>{7, 8, 15, 0, 7, 8, 15, 0, 4}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_INT4).first, (std::vector<uint8_t>{0x87, 0x0f, 0x87, 0x0f, 0x04}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_INT4).second, (std::vector<float>{7, -8, -1, 0, 7, -8, -1, 0, 4}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_UINT4).second, (std::vector<float>{7, 8, 15, 0, 7, 8, 15, 0, 4}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_INT2).second, (std::vector<float>{-1, 0, -1, 0, -1, 0, -1, 0, 0}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_UINT2).first, (std::vector<uint8_t>{0x33, 0x33, 0x00}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_UINT2).first, (std::vector<uint8_t>{3, 0, 3, 0, 3, 0, 3, 0, 0}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_INT4, TENON_DT_INT64).second,
            (std::vector<float>{7, -8, -1, 0, 7, -8, -1, 0, 4}));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ThereAndBack({-9.7f, -1.5f, 0.9f, 7.9f, 8.2f, 300, std::nanf(""), inf}, TENON_DT_UINT4).first,
            (std::vector<uint8_t>{7, 15, 0, 7, 8, 12, 0, 0}));
}

TEST(SmallTypes, FloatsOfFourBitsGoToTheNearest) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0,    -0.0f, 0.25f, 0.2f, 0.3f, 0.75f, 1.25f, 1.75f, 2.5f,
                                3.5f, 5,     5.1f,  6,    7,    100,   inf,   -inf,  std::nanf("")};
  EXPECT_EQ(ThereAndBack(x, TENON_DT_FLOAT4_E2M1FN).first,
            (std::vector<uint8_t>{0, 8, 0, 0, 1, 2, 2, 4, 4, 6, 6, 7, 7, 7, 7, 7, 15, 8}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_FLOAT4_E2M1FN).second,
            (std::vector<float>{0, 0, 0, 0, 0.5f, 1, 1, 2, 2, 4, 4, 6, 6, 6, 6, 6, -6, 0}));
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_FLOAT4_E2M1FN, TENON_DT_FLOAT4_E2M1FN).first,
            (std::vector<uint8_t>{0x80, 0x00, 0x21, 0x42, 0x64, 0x76, 0x77, 0x77, 0x8f}));
}

TEST(SmallTypes, ScalesArePowersOfTwo) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1,     0.75f,   1.5f,   3,         2.9f,    0, -1, inf, std::nanf(""),
                                1e38f, 3.4e38f, 1e-40f, 0x1p-127f, 1.4142f, 6};
  EXPECT_EQ(ThereAndBack(x, TENON_DT_FLOAT8_E8M0FNU).first,
            (std::vector<uint8_t>{127, 127, 128, 129, 128, 255, 255, 255, 255, 253, 255, 0, 0, 127, 130}));
}

// 1,000,003 elements on several threads: no byte belongs to two.
TEST(SmallTypes, ManyAreConvertedAsOneIs) {
  std::vector<float> x, expected;
  for (int i = 0; i < 1'000'003; ++i) {
    x.push_back(static_cast<float>(i * 7 % 16 - 8));
    expected.push_back(x.back());
  }
  EXPECT_EQ(ThereAndBack(x, TENON_DT_PACKED_INT4).second, expected);
}

TEST(SmallTypes, StandInConstantsVariablesAndFiles) {
  Graph graph(TheRuntime());
  const uint8_t bytes[] = {0x21, 0x03};
  const Tensor packed = *Tensor::FromBytes(Type(TENON_DT_PACKED_UINT4), {3}, bytes, sizeof(bytes));
  const Output constant = graph.Const(packed, "constant");
  const Output variable =
      graph.Op("VarHandleOp", {}, {{"dtype", Type(TENON_DT_PACKED_UINT4)}, {"shape", Shape{3}}, {"shared_name", "v"}});
  const Operation assign =
      graph.AddNode("AssignVariableOp", {variable, constant}, {{"dtype", Type(TENON_DT_PACKED_UINT4)}});
  const Output read = graph.Op("ReadVariableOp", {variable}, {{"dtype", Type(TENON_DT_PACKED_UINT4)}});
  const Output reshaped = graph.Op("Reshape", {constant, graph.Const<int32_t>({3, 1})});
  const Output numbers = graph.Op("Cast", {read}, {{"DstT", DType::kInt32}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  auto again = graph.Export();
  ASSERT_TRUE(again.ok());
  auto copy = Graph::Import(TheRuntime(), *again);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  auto session = Session::Create(TheRuntime(), *copy);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto assigned = session->Run({}, {}, {assign.name()});
  ASSERT_TRUE(assigned.ok()) << assigned.status().message();
  auto values = session->Run({}, {"constant", read.name(), numbers.name(), reshaped.name()});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(BytesOf((*values)[0]), (std::vector<uint8_t>{0x21, 0x03}));
  EXPECT_EQ(BytesOf((*values)[1]), (std::vector<uint8_t>{0x21, 0x03}));
  EXPECT_EQ(DoublesOf((*values)[2]), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ((*values)[3].shape().dims(), (std::vector<int64_t>{3, 1}));
}

// What takes tensors apart says that it cannot.
TEST(SmallTypes, APartOfAPackedTensorIsRefused) {
  Graph graph(TheRuntime());
  const uint8_t bytes[] = {0x21, 0x43, 0x65};
  const Output x = graph.Const(*Tensor::FromBytes(Type(TENON_DT_PACKED_UINT4), {3, 2}, bytes, sizeof(bytes)));
  const Output list = graph.Op("TensorListFromTensor", {x, graph.Const<int32_t>({2})},
                               {{"element_dtype", Type(TENON_DT_PACKED_UINT4)}});
  const Output first = graph.Op("TensorListGetItem", {list, graph.Const(int32_t{0}), graph.Const<int32_t>({2})},
                                {{"element_dtype", Type(TENON_DT_PACKED_UINT4)}});
  const Output slice = graph.Op("Gather", {x, graph.Const<int32_t>({1})});
  const Operation queue =
      graph.AddNode("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{Type(TENON_DT_PACKED_UINT4)}}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(TheRuntime(), graph);
  ASSERT_TRUE(session.ok());
  for (const Output& each : {first, slice}) {
    const auto values = session->Run({}, {each});
    ASSERT_FALSE(values.ok()) << each.name();
    EXPECT_NE(values.status().message().find("packed_uint4"), std::string::npos) << values.status().message();
  }
  EXPECT_FALSE(session->Run({}, {}, {queue.name()}).ok());
}

TEST(SmallTypes, AFeedOfTheWrongSizeIsRefused) {
  Graph graph(TheRuntime());
  const Output x = graph.Placeholder("x", Type(TENON_DT_PACKED_INT4), {5});
  const Output y = graph.Op("Cast", {x}, {{"DstT", DType::kFloat}});
  auto session = Session::Create(TheRuntime(), graph);
  ASSERT_TRUE(session.ok());
  auto callable = session->Prepare({x.name()}, {y.name()});
  ASSERT_TRUE(callable.ok()) << callable.status().message();
  uint8_t bytes[5] = {};
  int64_t dims[] = {5};
  tenon_tensor_view view = {};
  view.dl = {bytes, 1, 0, 1, {0, 4, 1}, dims, nullptr, 0};
  view.dtype = TENON_DT_PACKED_INT4;
  view.byte_size = 5;  // one byte an element, as the unpacked type has
  view.flags = TENON_VIEW_HOST_VISIBLE;
  const tenon_tensor_view* feeds[] = {&view};
  tenon_tensor* fetched = nullptr;
  tenon_status* status = tenon_callable_run(callable->get(), nullptr, feeds, &fetched);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(tenon_status_code(status), TENON_INVALID_ARGUMENT);
  tenon_status_release(status);
  view.byte_size = 3;
  status = tenon_callable_run(callable->get(), nullptr, feeds, &fetched);
  EXPECT_EQ(status, nullptr);
  tenon_status_release(status);
  tenon_tensor_release(fetched);
}

TEST(SmallTypes, AVendorsTypePassesThroughAndNobodyComputesWithIt) {
  Graph graph(TheRuntime());
  const DType own = Type(TENON_DT_VENDOR(3, 12));
  const Output x = graph.Placeholder("x", own, {2});
  const Output y = graph.Op("Identity", {x}), z = graph.Op("Cast", {x}, {{"DstT", DType::kFloat}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  EXPECT_EQ(DTypeName(own), "vendor3:12");
  EXPECT_EQ(DTypeSize(own), 3u);
  auto session = Session::Create(TheRuntime(), graph);
  ASSERT_TRUE(session.ok());
  const Tensor value = *Tensor::FromBytes(own, {2}, "abcdef", 6);
  auto values = session->Run({{x, value}}, {y});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(BytesOf((*values)[0]), (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  auto cast = session->Run({{x, value}}, {z});
  ASSERT_FALSE(cast.ok());
  EXPECT_NE(cast.status().message().find("vendor3:12"), std::string::npos) << cast.status().message();
}

}  // namespace
}  // namespace tenon::engine::small_types_test
