// SPDX-License-Identifier: Apache-2.0
// Lists of tensors and optionals cross between tasks by their elements; what else a variant may be does not. Covers H1.
#include <chrono>
#include <memory>

#include "tests/cluster/local_cluster.h"
#include "tests/cluster/processes.h"

namespace tenon::engine::list_cluster_test {
namespace {

using Types = std::vector<DType>;

const std::string kNear = "/job:worker/task:0", kFar = "/job:worker/task:1";

std::vector<const char*> Ways() {
  std::vector<const char*> ways = BuiltTransports();
  ways.insert(ways.begin(), "loopback");
  return ways;
}

// A graph of lists, each node of which stands where it is told to.
struct Lists {
  Graph g{TheRuntime()};

  Operation Node(const std::string& device, const char* op, const std::vector<Output>& inputs, const Attrs& attrs = {},
                 const std::string& name = "") {
    const auto on = g.Device(device);
    return g.AddNode(op, inputs, attrs, name);
  }
  Output Op(const std::string& device, const char* op, const std::vector<Output>& inputs, const Attrs& attrs = {},
            const std::string& name = "") {
    return Node(device, op, inputs, attrs, name);
  }
  Output Ints(std::vector<int32_t> values) {
    const auto count = static_cast<int64_t>(values.size());
    return g.Const(std::move(values), {count});
  }
  Output Floats(std::vector<float> values) {
    const auto count = static_cast<int64_t>(values.size());
    return g.Const(std::move(values), {count});
  }
  Output Texts(std::initializer_list<std::string> values) {
    return g.Op("Const", {}, {{"dtype", DType::kString}, {"value", *Tensor::Strings(values)}});
  }
  Output Reserve(const std::string& device, int32_t count, DType dtype, const Output& shape) {
    return Op(device, "TensorListReserve", {shape, g.Const(count)}, {{"element_dtype", dtype}});
  }
  Output Reserve(const std::string& device, int32_t count, DType dtype = DType::kFloat) {
    return Reserve(device, count, dtype, g.Const(int32_t{-1}));
  }
  Output Set(const std::string& device, const Output& list, int32_t index, const Output& item,
             DType dtype = DType::kFloat) {
    return Op(device, "TensorListSetItem", {list, g.Const(index), item}, {{"element_dtype", dtype}});
  }
  Output Get(const std::string& device, const Output& list, int32_t index, DType dtype = DType::kFloat) {
    return Get(device, list, g.Const(index), g.Const(int32_t{-1}), dtype);
  }
  Output Get(const std::string& device, const Output& list, const Output& index, const Output& shape, DType dtype) {
    return Op(device, "TensorListGetItem", {list, index, shape}, {{"element_dtype", dtype}});
  }
  Output Length(const std::string& device, const Output& list) { return Op(device, "TensorListLength", {list}); }
  Output Stack(const std::string& device, const Output& list, std::vector<int32_t> shape, DType dtype = DType::kFloat) {
    return Op(device, "TensorListStack", {list, Ints(std::move(shape))},
              {{"element_dtype", dtype}, {"num_elements", int64_t{-1}}});
  }
  Output Optional(const std::string& device, const std::vector<Output>& values, const Types& types) {
    return Op(device, "OptionalFromValue", values, {{"Toutput_types", types}});
  }
  Operation Value(const std::string& device, const Output& optional, const Types& types) {
    return Node(device, "OptionalGetValue", {optional},
                {{"output_types", types}, {"output_shapes", std::vector<Shape>(types.size(), Shape::Unknown())}});
  }
};

class ListCluster : public testing::TestWithParam<const char*> {
 protected:
  ListCluster() {
    if (GetParam() == std::string("loopback"))
      local_ =
          std::make_unique<LocalCluster>("loopback://lists", std::vector<std::pair<std::string, int>>{{"worker", 2}});
    else
      processes_ = std::make_unique<Processes>(GetParam(), std::vector<std::pair<std::string, int>>{{"worker", 2}});
  }
  Result<Session> Client(const Graph& graph, SessionOptions options = {}) const {
    options.master = local_ != nullptr ? local_->address() : processes_->address(0);
    options.isolate = true;
    return Session::Create(TheRuntime(), graph, options);
  }
  static RunOptions Patience() {
    RunOptions options;
    options.timeout = std::chrono::seconds(60);
    return options;
  }
  // What one process answers, and the cluster does too, in two executors, folded and not, several steps.
  void Check(const Graph& graph, const std::vector<Output>& fetches, const std::vector<Feed>& feeds = {}) const {
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const std::vector<Name> names(fetches.begin(), fetches.end());
    const std::vector<Tensor> wanted = RunOnce(graph, feeds, names);
    ASSERT_EQ(wanted.size(), fetches.size());
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC})
      for (const bool optimize : {true, false}) {
        SessionOptions options;
        options.executor = executor;
        options.optimize = optimize;
        const auto session = Client(graph, options);
        ASSERT_TRUE(session.ok()) << session.status();
        for (int turn = 0; turn < 3; ++turn) {
          const auto found = session->Run(feeds, names, {}, Patience());
          ASSERT_TRUE(found.ok()) << found.status();
          for (size_t i = 0; i < fetches.size(); ++i) {
            EXPECT_EQ((*found)[i].dtype(), wanted[i].dtype()) << "fetch " << i;
            EXPECT_EQ((*found)[i].shape().dims(), wanted[i].shape().dims()) << "fetch " << i;
            if (wanted[i].dtype() == DType::kString) {
              for (int64_t k = 0; k < wanted[i].element_count(); ++k)
                EXPECT_EQ((*found)[i].string(static_cast<uint64_t>(k)), wanted[i].string(static_cast<uint64_t>(k)))
                    << "fetch " << i;
            } else {
              EXPECT_EQ(Values<uint8_t>((*found)[i]), Values<uint8_t>(wanted[i])) << "fetch " << i;
            }
          }
        }
      }
  }
  void ExpectRefused(const Graph& graph, const Output& fetch, Code code, const std::string& why) const {
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      SessionOptions options;
      options.executor = executor;
      const auto session = Client(graph, options);
      ASSERT_TRUE(session.ok()) << session.status();
      const Status refused = session->Run({}, {fetch}, {}, Patience()).status();
      EXPECT_EQ(refused.code(), code) << refused;
      EXPECT_NE(refused.message().find(why), std::string::npos) << refused;
    }
  }

  std::unique_ptr<LocalCluster> local_;
  std::unique_ptr<Processes> processes_;
};
INSTANTIATE_TEST_SUITE_P(Over, ListCluster, testing::ValuesIn(Ways()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ListCluster, ListsCrossByTheirElementsAndBack) {
  Lists of;
  const Output x = of.g.Placeholder("x", DType::kFloat, {-1});
  Output list = of.Reserve(kNear, 4);
  list = of.Set(kNear, list, 0, of.Op(kNear, "Neg", {x}));
  list = of.Set(kNear, list, 3, of.Floats({}));
  // One element is set there, and one stays as nobody set it.
  const Output longer =
      of.Op(kFar, "TensorListPushBack", {of.Set(kFar, list, 1, of.Op(kFar, "Square", {x})), of.Floats({7})},
            {{"element_dtype", DType::kFloat}});
  const Output empty =
      of.Op(kNear, "EmptyTensorList", {of.Ints({2, -1}), of.g.Const(int32_t{3})}, {{"element_dtype", DType::kDouble}});
  const Output full = of.Op(kFar, "TensorListElementShape", {empty}, {{"shape_type", DType::kInt64}});
  Check(of.g,
        {of.Get(kFar, list, 0), of.Get(kFar, list, 3), of.Length(kFar, list), of.Get(kNear, longer, 0),
         of.Get(kNear, longer, 1), of.Get(kNear, longer, 4), of.Length(kNear, longer),
         of.Get(kNear, of.g.Op("Identity", {longer}), of.g.Const(int32_t{2}), of.Ints({3}), DType::kFloat),
         of.Length(kFar, empty), full},
        {{x, *Tensor::From(std::vector<float>{1, 2, 3}, Shape{3})}});
}

TEST_P(ListCluster, ElementsAreOfAnyTypeThatCrosses) {
  Lists of;
  std::vector<Output> fetches;
  for (const DType dtype : {DType::kBool, DType::kInt8, DType::kUint8, DType::kInt16, DType::kInt32, DType::kInt64,
                            DType::kHalf, DType::kBfloat16, DType::kDouble, DType::kComplex128}) {
    const Output list = of.Set(kNear, of.Reserve(kNear, 3, dtype), 2,
                               of.Op(kNear, "Cast", {of.Floats({1, 0, 3, 4, 5})}, {{"DstT", dtype}}), dtype);
    fetches.push_back(of.Get(kFar, list, 2, dtype));
    fetches.push_back(of.Get(kFar, list, of.g.Const(int32_t{0}), of.Ints({2, 3}), dtype));
  }
  const Output texts = of.Set(kNear, of.Reserve(kNear, 2, DType::kString), 0,
                              of.Texts({"one", "", "a text that is longer than the others are"}), DType::kString);
  fetches.push_back(of.Get(kFar, texts, 0, DType::kString));
  fetches.push_back(of.Get(kFar, texts, of.g.Const(int32_t{1}), of.Ints({2}), DType::kString));
  fetches.push_back(of.Get(kNear, of.Set(kFar, texts, 1, of.Texts({"far"}), DType::kString), 1, DType::kString));
  Check(of.g, fetches);
}

TEST_P(ListCluster, PartsOfATensorAreThemselvesThere) {
  Lists of;
  const Output matrix = of.g.Const(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  const Output rows = of.Op(kNear, "TensorListFromTensor", {matrix, of.Ints({2})},
                            {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}});
  const Output split =
      of.Op(kFar, "TensorListSplit", {matrix, of.Ints({-1, 2}), of.g.Const(std::vector<int64_t>{1, 0, 3}, {3})},
            {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}});
  Check(of.g, {of.Stack(kFar, rows, {2}), of.Get(kFar, rows, 2), of.Get(kNear, split, 2), of.Get(kNear, split, 1),
               of.Op(kNear, "TensorListConcatV2", {split, of.Ints({-1, 2}), of.g.Const(std::vector<int64_t>{}, {0})},
                     {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}})});
}

TEST_P(ListCluster, ListsLieInLists) {
  Lists of;
  const Output inner = of.Set(kNear, of.Reserve(kNear, 2), 0, of.Floats({1, 2})),
               other = of.Set(kNear, of.Reserve(kNear, 2), 1, of.Floats({3}));
  const Output texts = of.Set(kNear, of.Reserve(kNear, 1, DType::kString), 0, of.Texts({"deep"}), DType::kString);
  Output outer = of.Reserve(kNear, 4, DType::kVariant, of.Ints({}));
  outer = of.Set(kNear, outer, 0, inner, DType::kVariant);
  outer = of.Set(kNear, outer, 2, texts, DType::kVariant);
  outer = of.Set(kNear, outer, 3,
                 of.Set(kNear, of.Reserve(kNear, 1, DType::kVariant, of.Ints({})), 0, other, DType::kVariant),
                 DType::kVariant);
  Check(of.g, {of.Get(kFar, of.Get(kFar, outer, 0, DType::kVariant), 0),
               of.Get(kFar, of.Get(kFar, outer, 2, DType::kVariant), 0, DType::kString),
               of.Get(kFar, of.Get(kFar, of.Get(kFar, outer, 3, DType::kVariant), 0, DType::kVariant), 1),
               of.Length(kFar, outer),
               // a list out of one, on its own way
               of.Get(kNear, of.Get(kFar, outer, 0, DType::kVariant), 0)});
}

TEST_P(ListCluster, OptionalsCrossWithAValueAndWithout) {
  Lists of;
  const Types types{DType::kFloat, DType::kString, DType::kVariant};
  const Output list = of.Set(kNear, of.Reserve(kNear, 1), 0, of.Floats({4, 5}));
  const Output some = of.Optional(kNear, {of.Floats({1, 2, 3}), of.Texts({"text"}), list}, types),
               none = of.Op(kNear, "OptionalNone", {});
  const Operation value = of.Value(kFar, some, types);
  const Output nested = of.Optional(kFar, {of.Optional(kNear, {none}, {DType::kVariant})}, {DType::kVariant});
  const Output back =
      of.Value(kNear, of.Value(kNear, nested, {DType::kVariant}).output(0), {DType::kVariant}).output(0);
  const Output listed = of.Set(kFar, of.Reserve(kFar, 2, DType::kVariant, of.Ints({})), 1, some, DType::kVariant);
  Check(of.g, {of.Op(kFar, "OptionalHasValue", {some}), of.Op(kFar, "OptionalHasValue", {none}), value.output(0),
               value.output(1), of.Get(kFar, value.output(2), 0), of.Op(kNear, "OptionalHasValue", {back}),
               of.Value(kNear, of.Get(kNear, listed, 1, DType::kVariant), types).output(1)});
}

// What an iterator gives, where it has something and where it has ended.
TEST_P(ListCluster, OptionalsOfAnIteratorCross) {
  Lists of;
  const Attrs spec = {{"output_types", Types{DType::kInt64}}, {"output_shapes", std::vector<Shape>{Shape{}}}};
  const auto with = [&](Attrs more) {
    more.insert(more.end(), spec.begin(), spec.end());
    return more;
  };
  const auto number = [&](int64_t value) { return of.g.Const(value); };
  const Output data = of.Op(kNear, "RangeDataset", {number(5), number(6), number(1)}, spec);
  const Output iterator =
      of.Op(kNear, "IteratorV2", {}, with({{"shared_name", std::string("of_lists")}, {"container", std::string()}}));
  const Operation begin = of.Node(kNear, "MakeIterator", {data, iterator});
  const Output next = of.Op(kNear, "IteratorGetNextAsOptional", {iterator}, spec);
  const Output has = of.Op(kFar, "OptionalHasValue", {next}), value = of.Value(kFar, next, {DType::kInt64}).output(0);
  ASSERT_TRUE(of.g.status().ok()) << of.g.status();
  const auto session = Client(of.g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {}, {begin}, Patience()).ok());
  const auto first = session->Run({}, {has, value}, {}, Patience());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE((*first)[0].scalar<bool>());
  EXPECT_EQ((*first)[1].scalar<int64_t>(), 5);
  const auto second = session->Run({}, {has}, {}, Patience());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE((*second)[0].scalar<bool>());
}

// A list goes to another task and back in each turn; that of a branch that is not taken is dead there too.
TEST_P(ListCluster, ListsGoAroundLoopsAndThroughBranches) {
  Lists of;
  const Output x = of.g.Placeholder("x", DType::kFloat, {2}), p = of.g.Placeholder("p", DType::kBool, {});
  const std::vector<Output> last = [&] {
    const auto near = of.g.Device(kNear);
    return While(
        of.g, {of.g.Const(0), of.Reserve(kNear, 0)}, {x},
        [&](const auto& v) {
          return of.g.Op("Less", {v[0], of.g.Const(5)});
        },
        [&](const auto& v) {
          const Output item = of.Op(kFar, "Mul", {v[2], of.Op(kFar, "Cast", {v[0]}, {{"DstT", DType::kFloat}})});
          return std::vector<Output>{
              of.g.Op("AddV2", {v[0], of.g.Const(1)}),
              of.Op(kFar, "TensorListPushBack", {v[1], item}, {{"element_dtype", DType::kFloat}})};
        });
  }();
  const Operation sides = of.Node(kNear, "Switch", {of.Set(kNear, of.Reserve(kNear, 1), 0, x), p});
  const Output merged =
      of.Op(kNear, "Merge",
            {of.Set(kFar, sides.output(0), 0, of.Floats({8, 9})),
             of.Op(kFar, "TensorListPushBack", {sides.output(1), x}, {{"element_dtype", DType::kFloat}})});
  for (const bool yes : {false, true})
    Check(of.g,
          {of.Stack(kFar, last[1], {2}), of.Stack(kNear, last[1], {2}), of.Length(kNear, merged),
           of.Get(kNear, merged, 0)},
          {{x, *Tensor::From(std::vector<float>{1, 2}, Shape{2})}, {p, *Tensor::Scalar(yes)}});
}

TEST_P(ListCluster, GradientsOfListsCross) {
  Lists of;
  const Output x = of.g.Placeholder("x", DType::kFloat, {2});
  Output list = of.Set(kNear, of.Set(kNear, of.Reserve(kNear, 2, DType::kFloat, of.Ints({2})), 0, x), 1,
                       of.Op(kFar, "Square", {x}));
  const Output stacked = of.Stack(kFar, list, {2}),
               more = of.Op(kFar, "Mul", {of.Get(kFar, list, of.g.Const(int32_t{1}), of.Ints({2}), DType::kFloat), x});
  const Output loss = of.Op(kFar, "AddV2",
                            {of.Op(kFar, "Sum", {of.Op(kFar, "Square", {stacked}), of.Ints({0, 1})}),
                             of.Op(kFar, "Sum", {more, of.Ints({0})})});
  const std::vector<Gradient> gradients = of.g.Gradients({loss}, {x});
  ASSERT_EQ(gradients.size(), 1u);
  Check(of.g, {loss, gradients[0].dense}, {{x, *Tensor::From(std::vector<float>{3, -2}, Shape{2})}});
}

// Each way in which two nodes are named apart; nothing else parts a list.
TEST_P(ListCluster, WhatIsNoListIsKeptTogetherOrRefusedByName) {
  Lists of;
  const Attrs spec = {{"output_types", Types{DType::kInt64}}, {"output_shapes", std::vector<Shape>{Shape{}}}};
  const auto number = [&](int64_t value) { return of.g.Const(value); };
  const Output data = of.Op(kNear, "RangeDataset", {number(0), number(6), number(1)}, spec, "data");
  const Output doubled = of.Op(kFar, "TakeDataset", {data, number(3)}, spec, "taken");
  const Output size = of.Op(kFar, "DatasetCardinality", {doubled});
  ExpectRefused(of.g, size, Code::kInvalidArgument, "takes a variant of node 'data' (RangeDataset)");
  const Output held = of.Set(kNear, of.Reserve(kNear, 2, DType::kVariant, of.Ints({})), 1, data, DType::kVariant);
  ExpectRefused(of.g, of.Length(kFar, held), Code::kUnimplemented, "does not leave its process");
  const Output there = of.Op(kNear, "DatasetCardinality", {of.Get(kNear, held, 1, DType::kVariant)}),
               length = of.Length("", held);
  const auto session = Client(of.g);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto values = session->Run({}, {there, length}, {}, Patience());
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int64_t>(), 6);
  EXPECT_EQ((*values)[1].scalar<int32_t>(), 2);
  // Deeper than is sent.
  Output deep = of.Reserve(kNear, 1);
  for (int i = 0; i < 16; ++i)
    deep = of.Set(kNear, of.Reserve(kNear, 1, DType::kVariant, of.Ints({})), 0, deep, DType::kVariant);
  ExpectRefused(of.g, of.Length(kFar, deep), Code::kUnimplemented, "deeper than 16");
}

class LimitedLists : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, LimitedLists, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LimitedLists);

TEST_P(LimitedLists, CountAsValuesOfTheirReceiverAndOfTheirSender) {
  const Processes tasks(GetParam(), {{"worker", 2}}, {"--threads=1", "--memory-limit=8M"});
  ASSERT_TRUE(tasks.ok());
  Lists of;
  const Output count = of.g.Placeholder("count", DType::kInt32, {1});
  const Output row = of.Op(kNear, "Fill", {count, of.g.Const(2.0f)});
  Output list = of.Reserve(kNear, 1000000);
  for (int i = 0; i < 4; ++i) list = of.Set(kNear, list, i * 2, row);
  const Output sum = of.Op(kFar, "Sum", {of.Get(kFar, list, 6), of.Ints({0})}), length = of.Length(kFar, list);
  SessionOptions options;
  options.master = tasks.address(0);
  const auto session = Session::Create(TheRuntime(), of.g, options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](int32_t floats) {
    RunOptions patience;
    patience.timeout = std::chrono::seconds(60);
    return session->Run({{count, *Tensor::From(std::vector<int32_t>{floats}, Shape{1})}}, {sum, length}, {}, patience);
  };
  for (int turn = 0; turn < 3; ++turn) {
    const auto refused = run(1 << 20);  // 4 MiB, which the list holds once and its message four times
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted) << refused.status();
    EXPECT_NE(refused.status().message().find("task /job:worker/replica:0/task:"), std::string::npos)
        << refused.status();
    const auto good = run(1 << 16);
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ((*good)[0].scalar<float>(), 2 << 16);
    EXPECT_EQ((*good)[1].scalar<int32_t>(), 1000000) << "empty places cost nothing";
  }
}

// What devices computed is in the host's memory before a list has it.
TEST(ListsOfDevices, CrossFromOnesMemoryIntoAnothers) {
  const LocalCluster cluster(
      "loopback://lists_of_devices", {{"worker", 2}}, {}, 0,
      {{"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "precision", "exact"}, {"tenon.tpu_sim", "guard", "true"}});
  Lists of;
  const Output x = of.g.Placeholder("x", DType::kFloat, {3});
  Output list = of.Reserve(kNear, 3);
  for (int i = 0; i < 3; ++i)
    list = of.Set(i == 1 ? kFar : kNear, list, i,
                  of.Op((i == 1 ? kFar : kNear) + "/device:TPU:" + std::to_string(i % 2), "Mul",
                        {x, of.Floats({2, 3, static_cast<float>(i)})}));
  std::vector<Name> sums;
  for (int i = 0; i < 3; ++i) sums.push_back(of.Op(kFar + "/device:TPU:1", "Square", {of.Get(kFar, list, i)}));
  ASSERT_TRUE(of.g.status().ok()) << of.g.status();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    const Session session = cluster.Client(of.g, options);
    for (int turn = 0; turn < 3; ++turn) {
      const auto found = session.Run({{x, *Tensor::From(std::vector<float>{1, 2, 3}, Shape{3})}}, sums);
      ASSERT_TRUE(found.ok()) << found.status();
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(DoublesOf((*found)[static_cast<size_t>(i)]), (std::vector<double>{4, 36, 9.0 * i * i})) << i;
    }
  }
}

}  // namespace
}  // namespace tenon::engine::list_cluster_test
