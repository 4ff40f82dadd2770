// SPDX-License-Identifier: Apache-2.0
// What lists of tensors refuse, and how long what they hold lives. What they compute stands in tests/golden.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

class TensorLists : public ::testing::Test {
 protected:
  // Of floats of any shape.
  Output Reserve(int32_t count) {
    return g_.Op("TensorListReserve", {g_.Const(int32_t{-1}), g_.Const(count)}, {{"element_dtype", DType::kFloat}});
  }
  Output Set(const Output& list, int32_t index, const Output& item) { return g_.Op("TensorListSetItem", {list, g_.Const(index), item}); }
  Output Get(const Output& list, const Output& index, DType dtype = DType::kFloat) {
    return g_.Op("TensorListGetItem", {list, index, g_.Const(int32_t{-1})}, {{"element_dtype", dtype}});
  }
  Output Get(const Output& list, int32_t index) { return Get(list, g_.Const(index)); }
  Output One() { return g_.Const(std::vector<float>{1, 2}, {2}); }

  Result<std::vector<Tensor>> Run(const std::vector<Name>& fetches, const SessionOptions& options = {}) {
    auto session = Session::Create(TheRuntime(), g_, options);
    return session.ok() ? session->Run({}, fetches) : session.status();
  }
  void ExpectRefusal(const Output& fetch, const std::string& why) {
    for (const auto executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      SessionOptions options;
      options.executor = executor;
      const Status status = Run({fetch}, options).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
      EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    }
  }

  Graph g_{TheRuntime()};
};

TEST_F(TensorLists, RefuseIndicesOutside) {
  ExpectRefusal(Get(Reserve(2), -1), "there is no element -1 in a list of 2");
  ExpectRefusal(Get(Reserve(2), 2), "there is no element 2 in a list of 2");
  ExpectRefusal(Get(Set(Reserve(2), -1, One()), 0), "there is no element -1 in a list of 2");
}

TEST_F(TensorLists, HaveNoZerosOfAnUnknownShape) { ExpectRefusal(Get(Reserve(2), 1), "its shape <unknown rank> is not fully known"); }

TEST_F(TensorLists, HoldOneTypeOfElements) {
  ExpectRefusal(Get(Reserve(2), g_.Const(int32_t{0}), DType::kDouble), "the list holds float, not double");
}

TEST_F(TensorLists, AreNotWhatAnyVariantIs) {
  const Output list = Set(Reserve(1), 0, One());
  const Output two = g_.Op("TensorListFromTensor", {g_.Const(std::vector<float>{1, 2}, {2}), g_.Const(std::vector<int32_t>{}, {0})});
  auto sum = Run({Get(g_.Op("AddN", {{list, two}}), 0)});
  EXPECT_EQ(sum.status().code(), Code::kInvalidArgument) << sum.status().message();
}

TEST_F(TensorLists, StayInTheirSession) {
  const Status status = Run({Reserve(2)}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("variant"), std::string::npos) << status.message();
}

TEST_F(TensorLists, MayHoldLists) {
  const Output inner = Set(Reserve(1), 0, One());
  const Output outer = g_.Op("TensorListPushBack", {g_.Op("EmptyTensorList", {g_.Const(std::vector<int32_t>{}, {0}), g_.Const(int32_t{-1})},
                                                          {{"element_dtype", DType::kVariant}}), inner});
  const auto values = Run({Get(Get(outer, g_.Const(int32_t{0}), DType::kVariant), 0)});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ((*values)[0].data<float>()[1], 2.0f);
}

}  // namespace
}  // namespace tenon::engine
