// SPDX-License-Identifier: Apache-2.0
// Faults of a device, at every place in a training step: one clear status, nothing hangs, what did not depend on it
// goes on. Covers E3, E4. The faults are the simulator's.
//
// It takes some seconds: each fault is another's at each place, so that there are five hundred runtimes, with two
// sessions each.
#include <chrono>
#include <set>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::device_fault_test {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);  // a step takes milliseconds; one that hangs is told

Runtime MakeRuntime(const std::string& key, const std::string& value) {
  RuntimeOptions options;  // with the packages that the training needs: there are five hundred runtimes
  options.search = false;
  for (const char* name : {"ops_array", "ops_control", "ops_math", "ops_state", "cpu", "tpu_sim"})
    options.plugins.push_back(std::string(TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_") + name + ".so");
  options.plugin_options = {
      {"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "guard", "true"}, {"tenon.tpu_sim", "precision", "exact"}};
  if (!key.empty()) options.plugin_options.push_back({"tenon.tpu_sim", key, value});
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

// w moves towards x on TPU:0; TPU:1 squares what it gets, the host adds; "apart" is on the CPU alone.
struct Training {
  explicit Training(Runtime& runtime) : graph(runtime) {
    const Shape shape{4, 4};
    x = graph.Placeholder("x", DType::kFloat, shape);
    {
      const auto device = graph.Device("/device:TPU:0");
      const Output w =
          graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", "w"}}, "w");
      init =
          graph.AddNode("AssignVariableOp", {w, graph.Const(View(*Tensor::Zeros(DType::kFloat, shape)))}, {}, "init");
      value = graph.Op("ReadVariableOp", {w}, {{"dtype", DType::kFloat}}, "value");
      const Output product = graph.Op("MatMul", {value, x}, {}, "product");
      const Output difference = graph.Op("Sub", {value, x}, {}, "difference");
      update = graph.AddNode("AssignSubVariableOp", {w, graph.Op("Mul", {difference, graph.Const(0.5f)}, {}, "half")},
                             {}, "update");
      const auto elsewhere = graph.Device("/device:TPU:1");
      squared = graph.Op("Square", {graph.Op("AddV2", {product, difference}, {}, "both")}, {}, "squared");
    }
    const auto host = graph.Device("/device:CPU:0");
    sum = graph.Op("AddV2", {squared, x}, {}, "sum");
    apart = graph.Op("Mul", {x, x}, {}, "apart");
  }
  Graph graph;
  Output x, value, squared, sum, apart;
  Operation init, update;
};

std::vector<double> Ramp() {
  std::vector<double> values;
  for (int i = 0; i < 16; ++i) values.push_back(i * 0.25);
  return values;
}

// What a fault may make of a step.
void ExpectClear(const host::Status& status, const std::string& fault) {
  static const std::set<host::Code> codes = {host::Code::kInternal,           host::Code::kUnavailable,
                                             host::Code::kResourceExhausted,  host::Code::kDataLoss,
                                             host::Code::kFailedPrecondition, host::Code::kNotFound};
  EXPECT_TRUE(codes.contains(status.code())) << fault << ": " << status.message();
  EXPECT_NE(status.code(), host::Code::kDeadlineExceeded) << fault;
  // What was tried, or where.
  const bool names =
      status.message().find("TPU") != std::string::npos || status.message().find("'w'") != std::string::npos;
  EXPECT_TRUE(names) << fault << ": " << status.message();
}

// Initialises and trains; gives the first status that is not good.
host::Status Train(Session& session, const Training& training, int steps) {
  RunOptions run;
  run.timeout = kPatience;
  auto ready = session.Run({}, {}, {training.init}, run);
  if (!ready.ok()) return ready.status();
  for (int step = 0; step < steps; ++step) {
    auto values = session.Run({{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}}, {training.sum, training.apart},
                              {training.update}, run);
    if (!values.ok()) return values.status();
    if (DoublesOf((*values)[1])[3] != 0.5625) return host::Status(host::Code::kInternal, "a wrong value");
  }
  return host::Status();
}

void Inject(const std::string& key, const std::string& value, bool loses_device, int* failed) {
  const std::string fault = key + "=" + value;
  Runtime runtime = MakeRuntime(key, value);
  Training training(runtime);
  ASSERT_TRUE(training.graph.status().ok()) << training.graph.status().message();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(runtime, training.graph, options);
    if (!session.ok()) {
      ExpectClear(session.status(), fault);
      continue;
    }
    const host::Status status = Train(*session, training, 3);
    if (status.ok()) continue;
    ++*failed;
    ExpectClear(status, fault);
    // The host's part of the same session goes on.
    RunOptions run;
    run.timeout = kPatience;
    auto apart = session->Run({{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}}, {training.apart}, {}, run);
    EXPECT_TRUE(apart.ok()) << fault << ": " << apart.status().message();
    if (loses_device || key == "fail_allocation_after") continue;
    // The fault has passed: the device works again, and so does the session once the variable is assigned anew.
    EXPECT_TRUE(Train(*session, training, 2).ok()) << fault << ": " << Train(*session, training, 2).message();
  }
}

TEST(DeviceFault, OfEveryPieceOfWorkIsOneClearStatus) {
  int failed = 0, injected = 0;
  for (const char* name :
       {"product", "difference", "half", "update", "both", "squared", "copy", "MatMul", "Square", "Mul", "constant"})
    for (int number = 1; number <= 20; ++number, ++injected)
      Inject("fail_late", std::string(name) + ":" + std::to_string(number), false, &failed);
  EXPECT_GE(failed, 50) << "of " << injected;
}

TEST(DeviceFault, ALostDeviceFailsWhatIsOnItAlone) {
  int failed = 0;
  for (int number = 0; number < 140; ++number) Inject("lose_device_after", std::to_string(number), true, &failed);
  EXPECT_GE(failed, 50);
}

TEST(DeviceFault, NoMemoryIsSaid) {
  int failed = 0;
  for (int number = 0; number < 60; ++number) Inject("fail_allocation_after", std::to_string(number), false, &failed);
  EXPECT_GE(failed, 5);
}

TEST(DeviceFault, LateCompletionsChangeNothing) {
  int failed = 0;
  for (int delay = 0; delay < 80; ++delay) Inject("delay_completion_us", std::to_string(delay * 10), false, &failed);
  EXPECT_EQ(failed, 0);
}

// The step is given up while its work waits behind a slow one; the next step finds everything in order.
TEST(DeviceFault, ADeadlineEndsAStepThatADeviceHoldsUp) {
  Runtime runtime = MakeRuntime("delay_completion_us", "100000");
  Training training(runtime);
  auto session = Session::Create(runtime, training.graph);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->Run({}, {}, {training.init}).ok());
  RunOptions run;
  run.timeout = std::chrono::milliseconds(20);
  auto values = session->Run({{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}}, {training.sum}, {}, run);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), host::Code::kDeadlineExceeded) << values.status().message();
  run.timeout = kPatience;
  values = session->Run({{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}}, {training.sum}, {}, run);
  EXPECT_TRUE(values.ok()) << values.status().message();
}

// A variable whose write failed says so until it is assigned again.
TEST(DeviceFault, AVariableWhoseWriteFailedIsLostUntilItIsAssigned) {
  Runtime runtime = MakeRuntime("fail_late", "update:2");
  Training training(runtime);
  auto session = Session::Create(runtime, training.graph);
  ASSERT_TRUE(session.ok());
  const std::vector<Feed> feeds = {{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}};
  ASSERT_TRUE(session->Run({}, {}, {training.init}).ok());
  ASSERT_TRUE(session->Run(feeds, {}, {training.update}).ok());
  // The step fetches nothing, and may have returned before the device fails: then the next one tells.
  host::Status failed = session->Run(feeds, {}, {training.update}).status();
  if (failed.ok()) failed = session->Run({}, {training.value}).status();
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.message().find("update"), std::string::npos) << failed;
  const auto lost = session->Run({}, {training.value});
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.status().code(), host::Code::kDataLoss) << lost.status().message();
  ASSERT_TRUE(session->Run({}, {}, {training.init}).ok());
  EXPECT_TRUE(session->Run({}, {training.value}).ok());
}

// Another session's steps on the same queues do not notice.
TEST(DeviceFault, LeavesOtherSessionsAlone) {
  Runtime runtime = MakeRuntime("fail_late", "product:50");
  Training training(runtime);
  auto bystander = Session::Create(runtime, training.graph), victim = Session::Create(runtime, training.graph);
  ASSERT_TRUE(bystander.ok() && victim.ok());
  const std::vector<Feed> feeds = {{training.x, TensorOf(DType::kFloat, {4, 4}, Ramp())}};
  std::thread other([&] {
    ASSERT_TRUE(bystander->Run({}, {}, {training.init}).ok());
    for (int step = 0; step < 100; ++step) {
      const auto values = bystander->Run({}, {training.value}, {});
      EXPECT_TRUE(values.ok()) << values.status().message();
    }
  });
  ASSERT_TRUE(victim->Run({}, {}, {training.init}).ok());
  int failed = 0;
  for (int step = 0; step < 60; ++step) failed += !victim->Run(feeds, {training.sum}).ok();
  other.join();
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace tenon::engine::device_fault_test
