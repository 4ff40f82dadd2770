// SPDX-License-Identifier: Apache-2.0
// What lists of tensors refuse, and how long what they hold lives. What they compute stands in tests/golden.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::tensor_list_test {
namespace {

class TensorLists : public ::testing::Test {
 protected:
  // Of floats of any shape.
  Output Reserve(int32_t count) {
    return g_.Op("TensorListReserve", {g_.Const(int32_t{-1}), g_.Const(count)}, {{"element_dtype", DType::kFloat}});
  }
  Output Set(const Output& list, int32_t index, const Output& item) {
    return g_.Op("TensorListSetItem", {list, g_.Const(index), item});
  }
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

TEST_F(TensorLists, HaveNoZerosOfAnUnknownShape) {
  ExpectRefusal(Get(Reserve(2), 1), "its shape <unknown rank> is not fully known");
}

TEST_F(TensorLists, HoldOneTypeOfElements) {
  ExpectRefusal(Get(Reserve(2), g_.Const(int32_t{0}), DType::kDouble), "the list holds float, not double");
}

TEST_F(TensorLists, AreNotWhatAnyVariantIs) {
  const Output list = Set(Reserve(1), 0, One());
  const Output two =
      g_.Op("TensorListFromTensor", {g_.Const(std::vector<float>{1, 2}, {2}), g_.Const(std::vector<int32_t>{}, {0})});
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
  const Output outer = g_.Op("TensorListPushBack",
                             {g_.Op("EmptyTensorList", {g_.Const(std::vector<int32_t>{}, {0}), g_.Const(int32_t{-1})},
                                    {{"element_dtype", DType::kVariant}}),
                              inner});
  const auto values = Run({Get(Get(outer, g_.Const(int32_t{0}), DType::kVariant), 0)});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ((*values)[0].data<float>()[1], 2.0f);
}

// What is known before the step is what the step computes: of every op that makes, changes and reads lists, and of what
// else holds parts of tensors.
class ListsOfConstants : public TensorLists {
 protected:
  Output Matrix() { return g_.Const(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}); }
  Output Ints(std::vector<int32_t> dims) {
    const auto rank = static_cast<int64_t>(dims.size());
    return g_.Const(std::move(dims), {rank});
  }
  Output FromTensor() { return g_.Op("TensorListFromTensor", {Matrix(), Ints({2})}); }
  Output Split(std::vector<int64_t> lengths) {
    const auto count = static_cast<int64_t>(lengths.size());
    return g_.Op("TensorListSplit", {Matrix(), Ints({-1, 2}), g_.Const(std::move(lengths), {count})});
  }
  Output Concat(const Output& list) {
    return g_.Op("TensorListConcatV2", {list, Ints({-1, 2}), g_.Const(std::vector<int64_t>{}, {0})},
                 {{"element_dtype", DType::kFloat}});
  }
  Output Stack(const Output& list, std::vector<int32_t> shape = {2}) {
    return g_.Op("TensorListStack", {list, Ints(std::move(shape))}, {{"element_dtype", DType::kFloat}});
  }
  Output Length(const Output& list) { return g_.Op("TensorListLength", {list}); }

  // The fetches are the same with folding and without, in both executors, twice in a session each.
  void ExpectFoldedAsComputed(const std::vector<Output>& fetches) {
    const std::vector<Name> names(fetches.begin(), fetches.end());
    SessionOptions plain;
    plain.optimize = false;
    plain.executor = TENON_EXECUTOR_DYNAMIC;
    const auto want = Run(names, plain);
    ASSERT_TRUE(want.ok()) << want.status().message();
    for (const auto executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      SessionOptions options;
      options.executor = executor;
      auto session = Session::Create(TheRuntime(), g_, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      for (int turn = 0; turn < 2; ++turn) {
        const auto got = session->Run({}, names);
        ASSERT_TRUE(got.ok()) << got.status().message();
        for (size_t i = 0; i < fetches.size(); ++i)
          EXPECT_EQ(Values<uint8_t>((*got)[i]), Values<uint8_t>((*want)[i])) << "fetch " << i << ", turn " << turn;
      }
    }
  }
};

TEST_F(ListsOfConstants, AreReadAtTheirOwnElements) {
  const Output rows = FromTensor(), parts = Split({1, 0, 3});
  std::vector<Output> fetches = {Length(rows), Length(parts), Concat(parts), Stack(rows)};
  for (int32_t i = 0; i < 4; ++i) fetches.push_back(Get(rows, i));
  for (int32_t i = 0; i < 3; ++i) fetches.push_back(Get(parts, i));
  fetches.push_back(g_.Op("TensorListGather", {rows, Ints({3, 0, 2}), Ints({2})}, {{"element_dtype", DType::kFloat}}));
  fetches.push_back(g_.Op("TensorListElementShape", {rows}, {{"shape_type", DType::kInt32}}));
  ExpectFoldedAsComputed(fetches);
  const auto second = Run({Get(rows, 1)});
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(Values<float>((*second)[0]), (std::vector<float>{3, 4}));
}

TEST_F(ListsOfConstants, ChangeAsOthersDo) {
  const Output rows = FromTensor(), nine = g_.Const(std::vector<float>{9, 9}, {2});
  const Output scattered =
      g_.Op("TensorListScatterV2", {Matrix(), Ints({2, 0, 3, 1}), Ints({2}), g_.Const(int32_t{-1})});
  const Output into = g_.Op("TensorListScatterIntoExistingList",
                            {rows, g_.Const(std::vector<float>{5, 6, 7, 8}, {2, 2}), Ints({3, 1})});
  const Output pushed = g_.Op("TensorListPushBack", {rows, nine}), set = Set(rows, 2, nine);
  const Operation popped = g_.AddNode("TensorListPopBack", {pushed, Ints({2})}, {{"element_dtype", DType::kFloat}});
  const Output resized = g_.Op("TensorListResize", {rows, g_.Const(int32_t{3})}),
               sum = g_.Op("AddN", {{rows, scattered}}), zeros = g_.Op("ZerosLike", {rows});
  std::vector<Output> fetches = {popped.output(1), Length(popped.output(0)), Length(resized), Get(set, 1), Get(set, 2),
                                 Get(rows, 2)};
  for (const Output& list : {scattered, into, pushed, set, popped.output(0), resized, sum, zeros}) {
    fetches.push_back(Stack(list));
    fetches.push_back(Get(list, 1));
  }
  ExpectFoldedAsComputed(fetches);
}

TEST_F(ListsOfConstants, MayHoldStringsListsAndOptionals) {
  const Output texts = g_.Op(
      "TensorListFromTensor",
      {g_.Op("Reshape", {g_.StringConst(std::vector<std::string>{"a", "bc", "", "defg"}), Ints({2, 2})}), Ints({2})});
  const Output nested =
      g_.Op("TensorListPushBack",
            {g_.Op("TensorListPushBack",
                   {g_.Op("EmptyTensorList", {Ints({}), g_.Const(int32_t{-1})}, {{"element_dtype", DType::kVariant}}),
                    FromTensor()}),
             Split({2, 2})});
  const Output inner = Get(nested, g_.Const(int32_t{1}), DType::kVariant);
  const Output row = Get(FromTensor(), 3);
  const Output optional = g_.Op("OptionalFromValue", {{row, Get(Split({3, 1}), 1)}});
  const Operation values = g_.AddNode("OptionalGetValue", {optional},
                                      {{"output_types", std::vector<DType>{DType::kFloat, DType::kFloat}},
                                       {"output_shapes", std::vector<Shape>{Shape{2}, Shape{1, 2}}}});
  std::vector<Output> fetches = {
      Length(inner),
      Get(inner, 1),
      Get(Get(nested, g_.Const(int32_t{0}), DType::kVariant), 2),
      values.output(0),
      values.output(1),
      g_.Op("Reshape", {row, Ints({2, 1})}),
      g_.Op("Mul", {row, row}),
      Stack(g_.Op("TensorListPushBack", {inner, g_.Const(std::vector<float>{1, 1, 1, 1}, {2, 2})}), {2, 2})};
  ExpectFoldedAsComputed(fetches);
  const auto text = Run({Get(texts, g_.Const(int32_t{1}), DType::kString)});
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ((*text)[0].string(1), "defg");
}

// A list that is known lives as long as its session does; what a step adds to it goes with the step.
TEST_F(ListsOfConstants, KeepNothingOfTheStepsThatAddToThem) {
  const Output fed = g_.Op("Placeholder", {}, {{"dtype", DType::kFloat}});
  const Output rows = g_.Op("TensorListFromTensor", {Matrix(), g_.Const(int32_t{-1})});
  const Output more = g_.Op("TensorListPushBack", {rows, g_.Op("Mul", {fed, fed})});
  const Output length_of_more = Length(more);
  auto session = Session::Create(TheRuntime(), g_);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const int64_t count = int64_t{1} << 20;
  const auto run = [&] {
    const Tensor large = *Tensor::From(std::vector<float>(static_cast<size_t>(count), 2), {count});
    const auto length = session->Run({{fed, View(large)}}, {length_of_more});
    ASSERT_TRUE(length.ok()) << length.status().message();
    EXPECT_EQ(Values<int32_t>((*length)[0]), (std::vector<int32_t>{5}));
  };
  run();
  EXPECT_LT(session->Metrics()->bytes_in_use, static_cast<uint64_t>(count) * 6)
      << "the product that was added is still there, beside the memory for products";
}

}  // namespace
}  // namespace tenon::engine::tensor_list_test
