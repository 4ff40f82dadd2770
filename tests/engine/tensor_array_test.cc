// SPDX-License-Identifier: Apache-2.0
// What a tensor array refuses, and what it gives where nothing was written. What it computes stands in tests/golden.
#include "tests/engine/engine.h"

namespace tenon::engine::tensor_array_test {
namespace {

class TensorArrays : public ::testing::Test {
 protected:
  // Of floats with two elements, with these attributes besides.
  void Make(Attrs attrs = {}) {
    attrs.push_back({"dtype", DType::kFloat});
    attrs.push_back({"tensor_array_name", "turns"});
    const Operation array = g_.AddNode("TensorArrayV3", {g_.Const(int32_t{2})}, attrs, "array");
    handle_ = array.output(0);
    flow_ = array.output(1);
  }
  void Write(int32_t index, const std::vector<float>& value) {
    flow_ = g_.Op("TensorArrayWriteV3",
                  {handle_, g_.Const(index), g_.Const(value, {static_cast<int64_t>(value.size())}), flow_});
  }
  Output Read(int32_t index) {
    return g_.Op("TensorArrayReadV3", {handle_, g_.Const(index), flow_}, {{"dtype", DType::kFloat}});
  }
  Result<std::vector<Tensor>> Run(const std::vector<Name>& fetches) {
    auto session = Session::Create(TheRuntime(), g_);
    return session.ok() ? session->Run({}, fetches) : session.status();
  }
  void ExpectRefusal(const Output& fetch, const std::string& why) {
    const Status status = Run({fetch}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("tensor array 'turns': " + why), std::string::npos) << status.message();
  }

  Graph g_{TheRuntime()};
  Output handle_, flow_;
};

TEST_F(TensorArrays, TakeOneValueForEachIndex) {
  Make();
  Write(1, {1, 2});
  Write(1, {3, 4});
  ExpectRefusal(flow_, "element 1 is written twice");
}

TEST_F(TensorArrays, GrowOnlyWhenSoMade) {
  Make();
  Write(2, {1});
  ExpectRefusal(flow_, "there is no element 2 of 2");
  Make({{"dynamic_size", true}});
  Write(2, {1});
  const auto values = Run({g_.Op("TensorArraySizeV3", {handle_, flow_})});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), 3);
}

TEST_F(TensorArrays, ForgetWhatWasReadUnlessSoMade) {
  for (const bool forgets : {true, false}) {
    Make({{"clear_after_read", forgets}});
    Write(0, {1, 2});
    const Operation first =
        g_.AddNode("TensorArrayReadV3", {handle_, g_.Const(int32_t{0}), flow_}, {{"dtype", DType::kFloat}});
    const auto after = g_.ControlDependencies({first});
    const Output second = Read(0);
    if (forgets) ExpectRefusal(second, "element 0 is read twice; give it clear_after_read = false");
    else EXPECT_TRUE(Run({second}).ok());
  }
}

TEST_F(TensorArrays, GiveZerosForWhatNobodyWroteWhereTheShapeIsKnown) {
  Make();
  ExpectRefusal(Read(0), "element 0 was not written, and without the full element_shape there are no zeros for it");
  Make({{"element_shape", Shape{2}}});
  const auto values = Run({Read(0)});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{0, 0}));
}

TEST_F(TensorArrays, TakeElementsOfTheirShapeAlone) {
  Make({{"element_shape", Shape{3}}});
  Write(0, {1, 2});
  ExpectRefusal(flow_, "element 0 has shape [2]; its elements have [3]");
  Make({{"identical_element_shapes", true}});
  Write(0, {1, 2});
  Write(1, {1});
  ExpectRefusal(flow_, "element 1 has shape [1]; its elements have [2]");
}

TEST_F(TensorArrays, GatherElementsOfOneShape) {
  Make();
  Write(0, {1, 2});
  Write(1, {1});
  ExpectRefusal(g_.Op("TensorArrayGatherV3", {handle_, g_.Const(std::vector<int32_t>{0, 1}, {2}), flow_},
                      {{"dtype", DType::kFloat}}),
                "elements 0 and 1 have shapes [2] and [1]; gathered ones have one shape");
}

}  // namespace
}  // namespace tenon::engine::tensor_array_test
