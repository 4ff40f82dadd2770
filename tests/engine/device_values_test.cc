// SPDX-License-Identifier: Apache-2.0
// Feeds and fetches that stay in a device's memory, which the host cannot read, and cross to other libraries as DLPack.
// Covers E10.
#include "tests/engine/engine.h"

namespace tenon::engine::device_values_test {
namespace {

const std::vector<float> kOne = {1, 2, 3, 4};

Runtime& Devices() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {
        {"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "precision", "exact"}, {"tenon.tpu_sim", "guard", "true"}};
    auto made = Runtime::Create(options);
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

Session MakeSession(const Graph& graph, const SessionOptions& options = {}) {
  auto session = Session::Create(Devices(), graph, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    std::abort();  // NOLINT
  }
  return std::move(*session);
}

Tensor OnDevice(const Session& session, const std::vector<float>& values, const std::string& device) {
  auto there = session.CopyTensor(*Tensor::From(values, Shape{static_cast<int64_t>(values.size())}), device);
  EXPECT_TRUE(there.ok()) << there.status().message();
  return there.ok() ? *there : Tensor();
}

std::vector<float> Read(const Session& session, const Tensor& tensor) {
  auto here = session.CopyTensor(tensor, "");
  EXPECT_TRUE(here.ok()) << here.status().message();
  return here.ok() ? Values<float>(*here) : std::vector<float>();
}

Output OpOn(Graph& g, const char* device, const char* op, const std::vector<Output>& inputs, const char* name) {
  const auto on = g.Device(device);
  return g.Op(op, inputs, {}, name);
}

// Straight code, the dynamic executor, and parts.
class DeviceValues : public testing::TestWithParam<int> {
 protected:
  static SessionOptions Options() {
    SessionOptions options;
    if (GetParam() == 1) options.executor = TENON_EXECUTOR_DYNAMIC;
    options.debug.partition = GetParam() == 2;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, DeviceValues, testing::Values(0, 1, 2), [](const auto& info) {
  return std::string(info.param == 0 ? "Straight" : info.param == 1 ? "Dynamic" : "Parts");
});

// Who reads a reference on the host sees it when its own turn has come, not what an earlier reader saw.
// Between parts a reference's value is sent once, when the variable's node has run, as in TensorFlow.
TEST_P(DeviceValues, OfAReferenceAreReadWhenTheirReaderComes) {
  if (GetParam() == 2) return;
  Graph g(Devices());
  const auto on_device = [&] { return g.Device("/device:TPU:0"); };
  const auto on_host = [&] { return g.Device("/device:CPU:0"); };
  auto device = on_device();
  const Output variable = g.Op("VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}}, "variable");
  const Output initial = g.Op("Assign", {variable, g.Const({1.0f, 2.0f})}, {}, "initial");
  Output before, after;
  {
    auto host = on_host();
    before = g.Op("Square", {variable}, {}, "before");
  }
  Output added;
  {
    auto first = g.ControlDependencies({before});
    added = g.Op("AssignAdd", {variable, g.Const({10.0f, 20.0f})}, {}, "added");
  }
  {
    auto second = g.ControlDependencies({added});
    auto host = on_host();
    after = g.Op("Square", {variable}, {}, "after");
  }
  const Session session = MakeSession(g, Options());
  ASSERT_TRUE(session.Run({}, {}, {initial}).ok());
  auto values = session.Run({}, {before, after});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{1, 4}));
  EXPECT_EQ(Values<float>((*values)[1]), (std::vector<float>{121, 484}));
}

TEST_P(DeviceValues, GoRoundOnADeviceStepAfterStep) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = OpOn(g, "/device:TPU:0", "AddV2", {x, x}, "y");
  const Session session = MakeSession(g, Options());
  auto step = session.Prepare({x}, {y}, {}, {"TPU:0"}, {"TPU:0"});
  ASSERT_TRUE(step.ok()) << step.status().message();
  Tensor value = OnDevice(session, kOne, "TPU:0");
  EXPECT_FALSE(value.on_host());
  EXPECT_TRUE(value.bytes().empty());
  for (int i = 0; i < 3; ++i) {
    auto values = step->Run({value});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_FALSE((*values)[0].on_host());
    value = (*values)[0];
  }
  EXPECT_EQ(Read(session, value), (std::vector<float>{8, 16, 24, 32}));
  const std::string how = *step->Explain();
  EXPECT_EQ(how.find("device:CPU:0\",\"moves_from"), std::string::npos) << "nothing came to the host: " << how;
  EXPECT_EQ(how.find("moves_from\":\"/job:localhost/replica:0/task:0/device:CPU"), std::string::npos) << how;
}

TEST_P(DeviceValues, AreFetchedWhereverTheyAreMade) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output there = OpOn(g, "/device:TPU:0", "AddV2", {x, x}, "there");
  const Output other = OpOn(g, "/device:TPU:1", "Neg", {there}, "other");
  const Output here = OpOn(g, "/device:CPU:0", "Mul", {x, x}, "here");
  const Output constant = g.Const(*Tensor::From(std::vector<float>{5, 6}, Shape{2}));
  const Session session = MakeSession(g, Options());
  const std::vector<Name> fetches = {there, other, here, x, constant, there};
  auto step = session.Prepare({x}, fetches, {}, {"TPU:1"}, {"TPU:1", "TPU:1", "TPU:0", "TPU:0", "TPU:0", ""});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor fed = OnDevice(session, kOne, "TPU:1");
  auto values = step->Run({fed});
  ASSERT_TRUE(values.ok()) << values.status().message();
  auto again = step->Run({OnDevice(session, {0, 0, 0, 0}, "TPU:1")});  // what was fetched before stays as it is
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(Read(session, (*values)[0]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(Read(session, (*values)[1]), (std::vector<float>{-2, -4, -6, -8}));
  EXPECT_EQ(Read(session, (*values)[2]), (std::vector<float>{1, 4, 9, 16}));
  EXPECT_EQ(Read(session, (*values)[3]), kOne);
  EXPECT_EQ(Read(session, (*values)[4]), (std::vector<float>{5, 6}));
  ASSERT_TRUE((*values)[5].on_host());
  EXPECT_EQ(Values<float>((*values)[5]), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(Read(session, (*again)[2]), (std::vector<float>{0, 0, 0, 0}));
}

TEST_P(DeviceValues, OfAVariableStayAsTheyWereWhenItChanges) {
  Graph g(Devices());
  const Output v = [&] {
    const auto on = g.Device("/device:TPU:0");
    return g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{4}}, {"shared_name", "v"}}, "v");
  }();
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  g.AddNode("AssignVariableOp", {v, x}, {}, "assign");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const Session session = MakeSession(g, Options());
  auto write = session.Prepare({x}, {}, {"assign"}, {"TPU:0"});
  auto fetch = session.Prepare({}, {read}, {}, {}, {"TPU:0"});
  ASSERT_TRUE(write.ok() && fetch.ok()) << write.status().message() << fetch.status().message();
  Tensor before;
  {
    const Tensor given = OnDevice(session, kOne, "TPU:0");
    ASSERT_TRUE(write->Run({given}).ok());
    auto values = fetch->Run();
    ASSERT_TRUE(values.ok()) << values.status().message();
    before = (*values)[0];
  }
  ASSERT_TRUE(write->Run({OnDevice(session, {9, 9, 9, 9}, "TPU:0")}).ok());
  EXPECT_EQ(Read(session, before), kOne);
  auto after = fetch->Run();
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(Read(session, (*after)[0]), (std::vector<float>{9, 9, 9, 9}));
}

TEST_P(DeviceValues, DecideBranchesAndTurnLoops) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{});
  const Output taken = g.Placeholder("taken", DType::kBool, Shape{});
  const Operation sides = g.AddNode("Switch", {x, taken}, {}, "sides");
  const Output merged = g.Op("Merge", {g.Op("Neg", {sides.output(0)}), g.Op("Abs", {sides.output(1)})}, {}, "merged");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const Session session = MakeSession(g, Options());
  auto step = session.Prepare({x, taken}, {merged}, {}, {"TPU:0", "TPU:1"}, {"TPU:1"});
  ASSERT_TRUE(step.ok()) << step.status().message();
  for (const bool side : {false, true}) {
    auto value = session.CopyTensor(*Tensor::Scalar(-3.0f), "TPU:0");
    const uint8_t byte = side ? 1 : 0;
    auto predicate = session.CopyTensor(*Tensor::FromBytes(DType::kBool, Shape(), &byte, 1), "TPU:1");
    ASSERT_TRUE(value.ok() && predicate.ok());
    auto found = step->Run({*value, *predicate});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(Read(session, (*found)[0]), (std::vector<float>{3}));
  }
}

TEST(DeviceValuesOnce, CrossAsDLPackWithoutACopy) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = OpOn(g, "/device:TPU:1", "AddV2", {x, x}, "y");
  const Session session = MakeSession(g);
  const Tensor made = OnDevice(session, kOne, "TPU:1");
  auto managed = made.ToDLPack();
  ASSERT_TRUE(managed.ok()) << managed.status().message();
  EXPECT_EQ((*managed)->dl_tensor.device_id, 1);
  EXPECT_NE((*managed)->dl_tensor.device_type, 1);
  // Another device, or the host, cannot have it.
  EXPECT_EQ(session.FromDLPack("TPU:0", *managed).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(session.FromDLPack("CPU:0", *managed).status().code(), Code::kUnimplemented);
  EXPECT_EQ(Tensor::FromDLPack(*managed).status().code(), Code::kUnimplemented);
  EXPECT_EQ(session.FromDLPack("TPU:7", *managed).status().code(), Code::kNotFound);
  EXPECT_EQ(session.FromDLPack("TPU", *managed).status().code(), Code::kInvalidArgument) << "which of the two?";
  auto taken = session.FromDLPack("TPU:1", *managed);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_EQ(taken->view()->dl.data, made.view()->dl.data);
  auto step = session.Prepare({x}, {y}, {}, {"TPU:1"}, {"TPU:1"});
  ASSERT_TRUE(step.ok());
  auto values = step->Run({*taken});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Read(session, (*values)[0]), (std::vector<float>{2, 4, 6, 8}));
}

TEST(DeviceValuesOnce, InTheWrongMemoryAreRefusedAndSaySo) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{4});
  const Output y = g.Op("AddV2", {x, x}, {}, "y");
  const Session session = MakeSession(g);
  const Tensor there = OnDevice(session, kOne, "TPU:0");
  const Status plain = session.Run({{x, there}}, {y}).status();
  EXPECT_EQ(plain.code(), Code::kInvalidArgument);
  EXPECT_NE(plain.message().find("must lie in host memory"), std::string::npos) << plain.message();
  auto step = session.Prepare({x}, {y}, {}, {"TPU:1"});
  ASSERT_TRUE(step.ok());
  const Status other = step->Run({there}).status();
  EXPECT_NE(other.message().find("feed 'x:0' must lie in the memory of /job:localhost/replica:0/task:0/device:TPU:1"),
            std::string::npos)
      << other.message();
  EXPECT_EQ(step->Run({View(kOne, Shape{4})}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(session.Prepare({x}, {y}, {}, {"GPU:0"}).status().code(), Code::kNotFound);
  EXPECT_EQ(session.Prepare({x}, {y}, {}, {"TPU:0", "TPU:1"}).status().code(), Code::kInvalidArgument);
  auto stays = session.Prepare({x}, {y}, {}, {}, {"TPU:0"});
  ASSERT_TRUE(stays.ok());
  std::vector<float> into(4);
  const View feed(kOne, Shape{4}), target(into, Shape{4});
  const tenon_tensor_view feed_view = feed.c_view(), target_view = target.c_view();
  const tenon_tensor_view* const feeds[] = {&feed_view};
  EXPECT_EQ(stays->RunInto(feeds, &target_view).code(), Code::kUnimplemented);
}

TEST(DeviceValuesOnce, OutliveTheirSessionAndGiveTheirMemoryBack) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1});
  const Output y = g.Op("AddV2", {x, x}, {}, "y");
  Tensor kept;
  {
    const Session session = MakeSession(g);
    auto step = session.Prepare({x}, {y}, {}, {}, {"TPU:0"});
    ASSERT_TRUE(step.ok());
    const std::vector<float> many(1 << 18, 1);
    uint64_t in_use = 0;
    for (int i = 0; i < 4; ++i) {
      auto values = step->Run({View(many, Shape{1 << 18})});
      ASSERT_TRUE(values.ok()) << values.status().message();
      kept = (*values)[0];
      values->clear();
      const uint64_t now = session.Metrics()->device_bytes_in_use;
      if (i > 1) {
        EXPECT_EQ(now, in_use) << "step " << i;
      }
      in_use = now;
    }
  }
  const Session next = MakeSession(g);
  EXPECT_EQ(Read(next, kept)[12345], 2);
}

TEST(DeviceValuesOnce, DrawTheirReadersToThem) {
  Graph g(Devices());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{512, 512});
  g.Op("MatMul", {x, x}, {}, "y");
  const Session session = MakeSession(g);
  for (const char* device : {"TPU:0", "TPU:1"}) {
    auto step = session.Prepare({x}, {"y"}, {}, {device}, {device});
    ASSERT_TRUE(step.ok()) << step.status().message();
    const std::string how = *step->Explain();
    EXPECT_NE(how.find("\"name\":\"y\",\"op\":\"MatMul\",\"op_plugin\":\"tenon.ops.math\",\"device\":\"/job:localhost/"
                       "replica:0/task:0/device:" +
                       std::string(device)),
              std::string::npos)
        << how;
  }
}

}  // namespace
}  // namespace tenon::engine::device_values_test
