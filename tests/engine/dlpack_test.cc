// SPDX-License-Identifier: Apache-2.0
// Tensors that cross to other libraries as DLPack. Covers E7, E10.
#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine::dlpack_test {
namespace {

// What another library would bring: memory, and a deleter that counts.
struct Foreign {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> shape = {2, 3}, strides;
  int deleted = 0;
  tenon_dl_managed_tensor managed{};

  explicit Foreign(std::vector<int64_t> with_strides = {}) : strides(std::move(with_strides)) {
    managed.dl_tensor = {
        values.data(), 1, 0, 2, {2, 32, 1}, shape.data(), strides.empty() ? nullptr : strides.data(), 0};
    managed.manager_ctx = this;
    managed.deleter = [](tenon_dl_managed_tensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

TEST(DLPack, BringsMemoryWithoutACopyAndGivesItBackOnce) {
  Foreign foreign;
  {
    auto tensor = Tensor::FromDLPack(&foreign.managed);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(tensor->bytes().data(), reinterpret_cast<const uint8_t*>(foreign.values.data()));
    Graph g(TheRuntime());
    const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 3});
    const auto values = RunOnce(g, {{x, *tensor}}, {g.Op("AddV2", {x, x})});
    ASSERT_EQ(values.size(), 1u);
    EXPECT_EQ(Values<float>(values[0]), (std::vector<float>{2, 4, 6, 8, 10, 12}));
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPack, StaysWhileAVariableHoldsIt) {
  Foreign foreign;
  Graph g(TheRuntime());
  const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2, 3}}, {"shared_name", "v"}});
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2, 3});
  g.AddNode("AssignVariableOp", {v, x}, {}, "assign");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  {
    auto tensor = Tensor::FromDLPack(&foreign.managed);
    ASSERT_TRUE(tensor.ok());
    const Status assigned = session->Run({{x, *tensor}}, {}, {"assign"}).status();
    ASSERT_TRUE(assigned.ok()) << assigned.message();
  }
  foreign.values.assign(6, -1);  // ours again, or still the variable's: it must have its own
  auto values = session->Run({}, {read});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(DLPack, CopiesElementsWithStridesAndGivesTheMemoryBackAtOnce) {
  Foreign foreign({1, 2});  // column by column
  auto tensor = Tensor::FromDLPack(&foreign.managed);
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_EQ(Values<float>(*tensor), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST(DLPack, ContiguousStridesAreNoReasonForACopy) {
  Foreign foreign({3, 1});
  auto tensor = Tensor::FromDLPack(&foreign.managed);
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->bytes().data(), reinterpret_cast<const uint8_t*>(foreign.values.data()));
}

TEST(DLPack, RefusesWhatItCannotRead) {
  Foreign foreign;
  foreign.managed.dl_tensor.device_type = 2;
  EXPECT_EQ(Tensor::FromDLPack(&foreign.managed).status().code(), Code::kUnimplemented);
  foreign.managed.dl_tensor.device_type = 1;
  foreign.managed.dl_tensor.dtype = {2, 32, 4};
  const Status lanes = Tensor::FromDLPack(&foreign.managed).status();
  EXPECT_EQ(lanes.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(lanes.message()).find("4 lanes"), std::string::npos) << lanes.message();
  foreign.managed.dl_tensor.dtype = {2, 32, 1};
  foreign.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(Tensor::FromDLPack(&foreign.managed).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(foreign.deleted, 0);
  tenon_dl_managed_tensor_versioned later{};
  later.version_major = 9;
  tenon_tensor* none = nullptr;
  const Status version = Status::Take(tenon_tensor_from_dlpack_versioned(&later, &none));
  EXPECT_EQ(version.code(), Code::kUnimplemented);
}

TEST(DLPack, SharesATensorThatLivesUntilTheReceiverIsDone) {
  tenon_dl_managed_tensor_versioned* managed = nullptr;
  {
    auto tensor = Tensor::From(std::vector<int64_t>{7, 8, 9}, Shape{3});
    ASSERT_TRUE(tensor.ok());
    const Status shared = Status::Take(tenon_tensor_to_dlpack_versioned(tensor->get(), &managed));
    ASSERT_TRUE(shared.ok()) << shared.message();
  }
  EXPECT_EQ(managed->version_major, TENON_DLPACK_MAJOR);
  EXPECT_EQ(managed->flags & TENON_DLPACK_READ_ONLY, TENON_DLPACK_READ_ONLY);
  EXPECT_EQ(managed->dl_tensor.ndim, 1);
  EXPECT_EQ(managed->dl_tensor.shape[0], 3);
  EXPECT_EQ(static_cast<int64_t*>(managed->dl_tensor.data)[2], 9);
  managed->deleter(managed);
  auto words = Tensor::Strings({"a"});
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->ToDLPack().status().code(), Code::kInvalidArgument);
}

// Two runtimes are two libraries to each other: neither knows the other's memory.
TEST(DLPack, TakesTheMemoryOfAnotherLibraryOnAGpu) {
  if (const std::string why = device_test::WhyNoGpu(); !why.empty()) GTEST_SKIP() << why;
  const auto runtime = [] { return *Runtime::Create(device_test::GpuOptions()); };
  const Runtime theirs = runtime(), ours = runtime();
  Graph graph(ours);
  const Output x = graph.Placeholder("x", DType::kFloat, {3});
  graph.Op("Square", {x}, {}, "squared");
  auto producer = Session::Create(theirs), consumer = Session::Create(ours, graph);
  ASSERT_TRUE(producer.ok() && consumer.ok());
  auto there = producer->CopyTensor(*Tensor::From(std::vector<float>{1, 2, 3}, Shape{3}), "GPU:0");
  ASSERT_TRUE(there.ok()) << there.status().message();
  tenon_dl_managed_tensor* managed = nullptr;
  ASSERT_TRUE(Status::Take(tenon_tensor_to_dlpack(there->get(), &managed)).ok());
  auto taken = consumer->FromDLPack("GPU:0", managed);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_TRUE(consumer->WaitForStream("GPU:0", nullptr).ok());
  const tenon_span feed = {"x", 1}, fetch = {"squared", 7}, device = {"GPU:0", 5};
  tenon_callable_options options = {};
  options.struct_size = sizeof options;
  options.feed_devices = &device;
  tenon_callable* callable = nullptr;
  ASSERT_TRUE(
      Status::Take(tenon_session_prepare(consumer->get(), &feed, 1, &fetch, 1, nullptr, 0, &options, &callable)).ok());
  const tenon_tensor_view* view = tenon_tensor_get_view(taken->get());
  tenon_tensor* out = nullptr;
  const Status ran = Status::Take(tenon_callable_run(callable, nullptr, &view, &out));
  ASSERT_TRUE(ran.ok()) << ran.message();
  EXPECT_EQ(Values<float>(Tensor::Take(out)), (std::vector<float>{1, 4, 9}));
  tenon_callable_release(callable);
  auto back = consumer->CopyTensor(*taken, "");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(Values<float>(*back), (std::vector<float>{1, 2, 3}));
}

TEST(DLPack, HasNoStreamToWaitForOnTheCpu) {
  auto session = Session::Create(TheRuntime());
  ASSERT_TRUE(session.ok());
  const Status status = session->WaitForStream("CPU:0", nullptr);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("has no native streams"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tenon::engine::dlpack_test
