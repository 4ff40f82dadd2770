// SPDX-License-Identifier: Apache-2.0
// What is the same of pinned tensors for every device, the host's and the simulator's too: what they count to, what is
// wrong with a wish for one, and how a cluster's steps see them. Of a GPU where one is built. Covers E10.
#include "tests/cluster/local_cluster.h"
#include "tests/engine/pinned.h"

namespace tenon::engine::pinned_devices_test {
namespace {

constexpr char kCpu[] = "/device:CPU:0";

bool HasGpu() { return device_test::WhyNoGpu().empty(); }
Runtime& AnyRuntime() { return HasGpu() ? Gpus() : TheRuntime(); }
std::vector<const char*> Devices() {
  if (HasGpu()) return {kGpu, kCpu, ""};
  std::fprintf(stderr, "without %s: %s\n", kGpu, device_test::WhyNoGpu().c_str());
  return {kCpu, ""};
}
Session OpenAny(const Graph& graph, SessionOptions options = {}) {
  options.device = HasGpu() ? kGpu : kCpu;
  return Open(AnyRuntime(), graph, options);
}

TEST(PinnedTensor, CountsToItsSessionsMemory) {
  SessionOptions options;
  options.memory_limit = 3 * kBytes;
  const Session session = OpenAny(Graph(AnyRuntime()), options);
  const uint64_t before = session.Metrics()->bytes_in_use;
  for (const char* device : Devices()) {
    const Tensor first = Pinned(session, kCount, device), second = Pinned(session, kCount, device);
    EXPECT_EQ(session.Metrics()->bytes_in_use - before, 2 * kBytes) << device;
    const auto third = session.PinnedTensor(DType::kFloat, Shape{kCount + 1}, device);
    EXPECT_EQ(third.status().code(), Code::kResourceExhausted);
    EXPECT_NE(std::string(third.status().message()).find("memory limit"), std::string::npos)
        << third.status().message();
    EXPECT_NE(std::string(third.status().message()).find("a pinned tensor of float[1048577]"), std::string::npos)
        << third.status().message();
  }
  EXPECT_EQ(session.Metrics()->bytes_in_use, before);
  EXPECT_TRUE(session.PinnedTensor(DType::kFloat, Shape{kCount + 1}, Devices()[0]).ok())
      << "what was released counts no more";
}

TEST(PinnedTensor, SaysWhatIsWrong) {
  const Session session = OpenAny(Graph(AnyRuntime()));
  const auto code = [&](DType dtype, const Shape& shape, const char* device) {
    return session.PinnedTensor(dtype, shape, device).status().code();
  };
  EXPECT_EQ(code(DType::kFloat, {1}, "/device:GPU:7"), Code::kNotFound);
  EXPECT_EQ(code(DType::kFloat, {1}, "no device"),
            session.CopyTensor(*Tensor::Scalar(1.0f), "no device").status().code());
  for (const char* device : Devices()) {
    for (const DType dtype :
         {DType::kString, DType::kResource, DType::kVariant, DType::kInvalid, static_cast<DType>(99)})
      EXPECT_EQ(code(dtype, {1}, device), Code::kInvalidArgument) << static_cast<int>(dtype);
    EXPECT_EQ(code(static_cast<DType>(101), {1}, device), Code::kInvalidArgument) << "a reference";
    EXPECT_EQ(code(DType::kFloat, {2, -1}, device), Code::kInvalidArgument);
    EXPECT_EQ(code(DType::kFloat, {-5}, device), Code::kInvalidArgument);
    EXPECT_EQ(code(DType::kFloat, {INT64_MIN, 2}, device), Code::kInvalidArgument);
    EXPECT_EQ(code(DType::kFloat, {int64_t{1} << 40, int64_t{1} << 40}, device), Code::kInvalidArgument);
    EXPECT_EQ(code(DType::kFloat, {INT64_MAX}, device), Code::kResourceExhausted);
    EXPECT_EQ(code(DType::kFloat, {int64_t{1} << 44}, device), Code::kResourceExhausted) << "of kMaxBytes";
    EXPECT_EQ(code(DType::kFloat, Shape(std::vector<int64_t>(TENON_MAX_RANK + 1, 1)), device), Code::kInvalidArgument);
    EXPECT_TRUE(session.PinnedTensor(DType::kComplex128, {}, device).ok());
  }
  const std::string_view first = Devices()[0];
  tenon_tensor* none = nullptr;
  for (const int32_t rank : {2, -1})
    EXPECT_EQ(Status::Take(tenon_session_create_pinned_tensor(session.get(), {first.data(), first.size()},
                                                              TENON_DT_FLOAT, {nullptr, rank, 0}, &none))
                  .code(),
              Code::kInvalidArgument);
  EXPECT_EQ(none, nullptr);
}

// Another driver, which has staging memory of its own, and little of it.
TEST(PinnedTensor, OfTheSimulatedTpuIsItsStagingMemory) {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "1"},
                            {"tenon.tpu_sim", "precision", "exact"},
                            {"tenon.tpu_sim", "guard", "true"},
                            {"tenon.tpu_sim", "staging_bytes", "65536"}};
  const Runtime runtime = *Runtime::Create(options);
  const Doubling graph(runtime, {1000});
  SessionOptions of_tpu;
  of_tpu.device = "/device:TPU:0";
  const Session session = Open(runtime, graph.g, of_tpu);
  auto step = session.Prepare({graph.x}, {graph.y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Tensor from = Pinned(session, 1000, "TPU:0"), to = Pinned(session, 1000, "TPU:0");
  for (int i = 0; i < 3; ++i) {
    Fill(from.mutable_data<float>(), static_cast<float>(i));
    const Status status = RunInto(*step, *from.view(), *to.view());
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectDoubled(to.data<float>(), static_cast<float>(i));
  }
  const Status more = session.PinnedTensor(DType::kFloat, {1 << 20}, "TPU:0").status();
  EXPECT_EQ(more.code(), Code::kResourceExhausted) << more.message();
  EXPECT_NE(std::string(more.message()).find("for /job:localhost/replica:0/task:0/device:TPU:0"), std::string::npos)
      << more.message();
}

// Steps that run in other processes read it and write it through messages; the devices that it may be for are the
// client's.
TEST(PinnedTensor, IsFedToAClusterAsAnyMemoryIs) {
  const LocalCluster cluster("loopback://pinned", {{"worker", 2}});
  Graph g(AnyRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{kCount});
  Output y;
  {
    const auto there = g.Device("/job:worker/task:1");
    y = g.Op("AddV2", {x, x}, {}, "y");
  }
  const Session session = cluster.Client(g, {}, AnyRuntime());
  auto step = session.Prepare({x}, {y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  EXPECT_EQ(session.PinnedTensor(DType::kFloat, {1}, "/job:worker/task:1/device:CPU:0").status().code(),
            Code::kNotFound);
  for (const char* device : Devices()) {
    const Tensor from = Pinned(session, kCount, device), to = Pinned(session, kCount, device);
    for (int i = 0; i < 3; ++i) {
      Fill(from.mutable_data<float>(), static_cast<float>(i));
      const Status status = RunInto(*step, *from.view(), *to.view());
      ASSERT_TRUE(status.ok()) << status.message();
      ExpectDoubled(to.data<float>(), static_cast<float>(i));
    }
  }
}

}  // namespace
}  // namespace tenon::engine::pinned_devices_test
