// SPDX-License-Identifier: Apache-2.0
// Where the nodes of a cluster's graphs go: what cannot cross stays together, names keep their tasks, a session's
// device is the cluster's, and state has one home. Covers D7, G9, H1.
#include "tests/cluster/local_cluster.h"

namespace tenon::engine::place_cluster_test {
namespace {

// "/job:worker/replica:0/task:1/device:CPU:0" for a node, as its placement file says.
std::string DeviceOf(const Session& session, const std::vector<Name>& fetches, const std::string& node,
                     const std::vector<Name>& targets = {}) {
  const auto placed = session.Place({}, fetches, targets);
  if (!placed.ok()) return std::string(placed.status().message());
  const size_t at = placed->file.find("\n" + node + "\t");
  if (at == std::string::npos) return "nowhere: " + placed->file;
  const size_t begin = at + node.size() + 2;
  return placed->file.substr(begin, placed->file.find('\n', begin) - begin);
}
std::string Cpu(const std::string& task) { return task + "/device:CPU:0"; }
constexpr const char* kPs = "/job:ps/replica:0/task:0";
constexpr const char* kWorker0 = "/job:worker/replica:0/task:0";
constexpr const char* kWorker1 = "/job:worker/replica:0/task:1";

// Elements of a list are multiplied by themselves, each in a branch of its own, which costs alone would part; and a
// list is made of the results.
Output OverLists(Graph& g, const std::function<Output(const std::function<Output()>&, int)>& branch) {
  const Output rows = g.Op("Fill", {g.Const(std::vector<int32_t>{4, 128, 128}, Shape{3}), g.Const(0.125f)}, {}, "rows");
  const Output shape = g.Const(std::vector<int32_t>{128, 128}, Shape{2});
  const Output list = g.Op("TensorListFromTensor", {rows, shape},
                           {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}}, "list");
  Output made = g.Op("TensorListReserve", {shape, g.Const(4)},
                     {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}}, "reserved");
  for (int i = 0; i < 4; ++i) {
    const Output product = branch(
        [&] {
          Output at = g.Op("TensorListGetItem", {list, g.Const(i), shape}, {{"element_dtype", DType::kFloat}},
                           "item" + std::to_string(i));
          for (int k = 0; k < 3; ++k)
            at = g.Op("MatMul", {at, at}, {}, "product" + std::to_string(i) + std::to_string(k));
          return at;
        },
        i);
    made = g.Op("TensorListSetItem", {made, g.Const(i), product}, {{"element_dtype", DType::kFloat}},
                "set" + std::to_string(i));
  }
  const Output all =
      g.Op("TensorListStack", {made, shape}, {{"element_dtype", DType::kFloat}, {"num_elements", int64_t{4}}}, "all");
  return g.Op("Sum", {all, g.Const(std::vector<int32_t>{0, 1, 2}, Shape{3})}, {}, "sum");
}

TEST(PlaceOnACluster, ListsOfAGraphWithoutDevicesRunAsInOneProcess) {
  const LocalCluster cluster("loopback://lists", {{"worker", 3}});
  for (const bool optimize : {true, false}) {
    Graph g(TheRuntime());
    const Output sum = OverLists(g, [](const std::function<Output()>& make, int) { return make(); });
    ASSERT_TRUE(g.status().ok()) << g.status();
    SessionOptions options;
    options.optimize = optimize;
    const auto local = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(local.ok());
    const auto expected = local->Run({}, {sum});
    ASSERT_TRUE(expected.ok()) << expected.status();
    const Session session = cluster.Client(g, options);
    const auto values = session.Run({}, {sum});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(DoublesOf((*values)[0]), DoublesOf((*expected)[0]));
  }
}

TEST(PlaceOnACluster, NamesCutListsAndThoseThatCutADatasetAreRefusedWhenPlanned) {
  const LocalCluster cluster("loopback://cut_lists", {{"worker", 2}});
  // The products of branches stand on tasks by name; the lists stay where they are.
  Graph g(TheRuntime());
  const Output sum = OverLists(g, [&](const std::function<Output()>& make, int i) {
    const Output product = make();
    const auto on = g.Device("/job:worker/task:" + std::to_string(i % 2));
    return g.Op("Neg", {product}, {}, "negated" + std::to_string(i));
  });
  EXPECT_TRUE(cluster.Client(g).Run({}, {sum}).ok());
  for (const bool soft : {true, false}) {
    Graph cut(TheRuntime());
    const Output shape = cut.Const(std::vector<int32_t>{1}, Shape{1});
    const Attrs of_int64 = {{"output_types", std::vector<DType>{DType::kInt64}},
                            {"output_shapes", std::vector<Shape>{Shape{}}}};
    Output list, item, data, taken;
    {
      const auto on = cut.Device("/job:worker/task:0");
      list = cut.Op("TensorListFromTensor", {cut.Const(std::vector<float>{1, 2}, Shape{2, 1}), shape},
                    {{"element_dtype", DType::kFloat}, {"shape_type", DType::kInt32}}, "made");
      data = cut.Op("RangeDataset", {cut.Const(int64_t{0}), cut.Const(int64_t{5}), cut.Const(int64_t{1})}, of_int64,
                    "data");
    }
    {
      const auto on = cut.Device("/job:worker/task:1/device:CPU:0");
      item = cut.Op("TensorListGetItem", {list, cut.Const(1), shape}, {{"element_dtype", DType::kFloat}}, "item");
      taken = cut.Op("DatasetCardinality", {cut.Op("TakeDataset", {data, cut.Const(int64_t{2})}, of_int64, "taken")});
    }
    SessionOptions options;
    options.soft_placement = soft;
    const Session session = cluster.Client(cut, options);
    EXPECT_EQ(DeviceOf(session, {item}, "made"), Cpu(kWorker0));
    EXPECT_EQ(DeviceOf(session, {item}, "item"), Cpu(kWorker1));
    const auto value = session.Run({}, {item});
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(DoublesOf((*value)[0]), std::vector<double>{2});
    const Status refused = session.Prepare({}, {taken}).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused;
    for (const std::string& word :
         {std::string("node 'taken' (TakeDataset)"), std::string("node 'data' (RangeDataset)"), Cpu(kWorker0),
          Cpu(kWorker1), std::string("one task")})
      EXPECT_NE(refused.message().find(word), std::string::npos) << refused;
  }
}

TEST(PlaceOnACluster, DatasetsAndTheirIteratorsAreInOneTask) {
  const LocalCluster cluster("loopback://datasets", {{"worker", 3}});
  Graph g(TheRuntime());
  const Attrs of_int64 = {{"output_types", std::vector<DType>{DType::kInt64}},
                          {"output_shapes", std::vector<Shape>{Shape{}}}};
  const auto scalar = [&](int64_t value) { return g.Const(value); };
  const Output range = g.Op("RangeDataset", {scalar(0), scalar(5), scalar(1)}, of_int64, "range");
  const Output repeated = g.Op("RepeatDataset", {range, scalar(2)}, of_int64, "repeated");
  Attrs of_iterator = of_int64;
  of_iterator.insert(of_iterator.end(), {{"shared_name", "numbers"}, {"container", ""}});
  const Output iterator = g.Op("IteratorV2", {}, of_iterator, "iterator");
  const Operation make = g.AddNode("MakeIterator", {repeated, iterator}, {}, "make");
  const Output next = g.Op("IteratorGetNext", {iterator}, of_int64, "next");
  Output product = g.Op("Fill", {g.Const(std::vector<int32_t>{64, 64}, Shape{2}),
                                 g.Op("Cast", {next}, {{"SrcT", DType::kInt64}, {"DstT", DType::kFloat}})});
  for (int i = 0; i < 3; ++i) product = g.Op("MatMul", {product, product});
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Session session = cluster.Client(g);
  ASSERT_TRUE(session.RunTargets({make}).ok()) << session.RunTargets({make});
  for (int64_t i = 0; i < 10; ++i) {
    const auto values = session.Run({}, {next, product});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(Values<int64_t>((*values)[0]), std::vector<int64_t>{i % 5});
  }
}

TEST(PlaceOnACluster, WhatHasNoSuchDeviceStaysAtItsTask) {
  const LocalCluster cluster("loopback://soft", {{"ps", 1}, {"worker", 2}});
  Graph g(TheRuntime());
  const auto on = [&](const std::string& device, const std::string& name) {
    const auto there = g.Device(device);
    return g.Op("Neg", {g.Op("Fill", {g.Const(std::vector<int32_t>{2}, Shape{1}), g.Const(1.0f)})}, {}, name);
  };
  const Output tower0 = on("/job:worker/task:0/device:GPU:0", "tower0"),
               tower1 = on("/job:worker/task:1/gpu:1", "tower1"), kept = on("/job:ps/task:0/device:TPU:3", "kept");
  const Output lost = on("/job:worker/task:7", "lost"), chief = on("/job:chief/device:CPU:0", "chief");
  const Session session = cluster.Client(g);
  EXPECT_EQ(DeviceOf(session, {tower0}, "tower0"), Cpu(kWorker0));
  EXPECT_EQ(DeviceOf(session, {tower1}, "tower1"), Cpu(kWorker1));
  EXPECT_EQ(DeviceOf(session, {kept}, "kept"), Cpu(kPs));
  EXPECT_TRUE(session.Run({}, {tower0, tower1, kept}).ok());
  for (const Output& wrong : {lost, chief}) {
    const Status status = session.Run({}, {wrong}).status();
    EXPECT_EQ(status.code(), Code::kNotFound) << status;
    for (const char* word : {"and the cluster has no such task; its tasks: ", kPs, kWorker0, kWorker1})
      EXPECT_NE(status.message().find(word), std::string::npos) << status;
  }
  SessionOptions options;
  options.soft_placement = false;
  EXPECT_EQ(cluster.Client(g, options).Run({}, {tower1}).status().code(), Code::kNotFound);
}

TEST(PlaceOnACluster, TheSessionsDeviceIsOneOfTheClusters) {
  const LocalCluster cluster("loopback://default_device", {{"ps", 1}, {"worker", 2}});
  Graph g(TheRuntime());
  const Output free = g.Op("Neg", {g.Placeholder("x", DType::kFloat, Shape{1})}, {}, "free");
  Output named;
  {
    const auto on = g.Device("/job:ps/task:0");
    named = g.Op("Neg", {free}, {}, "named");
  }
  const Tensor one = *Tensor::From(std::vector<float>{1}, Shape{1});
  for (const bool soft : {true, false}) {
    for (const auto& [device, at] :
         std::map<std::string, std::string>{{"/job:worker/task:1", Cpu(kWorker1)},
                                            {"/job:worker/replica:0/task:0/device:CPU:0", Cpu(kWorker0)},
                                            {"/job:ps", Cpu(kPs)}}) {
      SessionOptions options;
      options.device = device;
      options.soft_placement = soft;
      const Session session = cluster.Client(g, options);
      EXPECT_EQ(DeviceOf(session, {named}, "free"), at) << device;
      EXPECT_EQ(DeviceOf(session, {named}, "named"), Cpu(kPs)) << device;
      EXPECT_TRUE(session.Run({{"x", one}}, {named}).ok());
    }
    for (const char* device : {"CPU:0", "CPU"}) {
      SessionOptions options;
      options.device = device;
      options.soft_placement = soft;
      const auto values = cluster.Client(g, options).Run({{"x", one}}, {named});
      EXPECT_TRUE(values.ok()) << values.status();
    }
    SessionOptions options;
    options.master = cluster.address();
    options.device = "/job:worker/task:7";
    const Status status = Session::Create(TheRuntime(), g, options).status();
    EXPECT_EQ(status.code(), Code::kNotFound) << status;
    EXPECT_NE(
        status.message().find(
            "the session option 'device': the cluster has no device '/job:worker/task:7'; there are: " + Cpu(kPs)),
        std::string::npos)
        << status;
  }
}

TEST(PlaceOnACluster, AVariableWithoutADeviceIsTheSameForEveryClient) {
  const LocalCluster cluster("loopback://one_home", {{"ps", 1}, {"worker", 2}});
  const auto variable = [](Graph& g) {
    return g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{256, 256}}, {"shared_name", "v"}}, "v");
  };
  const auto read = [](Graph& g, const Output& v) {
    return g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  };
  Graph trainer(TheRuntime());
  const Output v = variable(trainer);
  const Operation init = trainer.AddNode(
      "AssignVariableOp",
      {v, trainer.Op("Fill", {trainer.Const(std::vector<int32_t>{256, 256}, Shape{2}), trainer.Const(1.0f)})},
      {{"dtype", DType::kFloat}}, "init");
  {
    // Products at one task, which costs would put the variable beside.
    const auto on = trainer.Device("/job:worker/task:1");
    Output at = trainer.Op("Fill", {trainer.Const(std::vector<int32_t>{256, 256}, Shape{2}), trainer.Const(0.01f)});
    Output weights;
    {
      const auto anywhere = trainer.Device("");
      weights = read(trainer, v);
    }
    for (int i = 0; i < 8; ++i) at = trainer.Op("MatMul", {at, weights});
    const auto anywhere = trainer.Device("");
    trainer.AddNode("AssignSubVariableOp", {v, trainer.Op("Mul", {at, trainer.Const(0.0f)})},
                    {{"dtype", DType::kFloat}}, "train");
  }
  const Session first = cluster.Client(trainer);
  ASSERT_TRUE(first.RunTargets({init}).ok());
  ASSERT_TRUE(first.RunTargets({"train"}).ok());
  EXPECT_EQ(DeviceOf(first, {}, "v", {"train"}), Cpu(kPs));
  Graph reader(TheRuntime());
  const Output sum =
      reader.Op("Sum", {read(reader, variable(reader)), reader.Const(std::vector<int32_t>{0, 1}, Shape{2})}, {}, "sum");
  for (const size_t by : {0, 1, 2}) {  // whichever task the client asks
    SessionOptions options;
    options.master = cluster.address(by);
    const auto session = Session::Create(TheRuntime(), reader, options);
    ASSERT_TRUE(session.ok());
    const auto values = session->Run({}, {sum});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(DoublesOf((*values)[0]), std::vector<double>{256 * 256});
  }
}

}  // namespace
}  // namespace tenon::engine::place_cluster_test
