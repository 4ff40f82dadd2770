// SPDX-License-Identifier: Apache-2.0
// A session on a runtime with one plugin, of the test's own: tiny ops, their kernels, and a device for the host's
// memory.
#include "core/session/session.h"

#include <cstdlib>
#include <latch>
#include <thread>

#include "core/exec/plan/plan.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graphdef/convert.h"
#include "core/session/runtime.h"
#include "core/session/session_placer.h"
#include "tenon/ext/draft/collective.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::session::session_test {
namespace {

using graph::Edge;

tenon_device_driver MakeDriver() {
  tenon_device_driver driver{};
  driver.struct_size = sizeof driver;
  driver.device_type = TENON_SPAN("HOST");
  driver.count = [](tenon_plugin_self*, uint32_t* count) { return *count = 1, static_cast<tenon_status*>(nullptr); };
  driver.open = [](tenon_plugin_self*, uint32_t, tenon_device** out) {
    static int device;
    return *out = reinterpret_cast<tenon_device*>(&device), static_cast<tenon_status*>(nullptr);
  };
  driver.close = [](tenon_device*) {};
  driver.properties = [](tenon_device*, tenon_device_properties* out) {
    out->synchronous = out->memory_kind_count = 1;
    return static_cast<tenon_status*>(nullptr);
  };
  driver.memory_kind = [](tenon_device*, uint32_t, tenon_memory_kind* out) {
    out->flags = TENON_MEMORY_HOST_VISIBLE;
    return static_cast<tenon_status*>(nullptr);
  };
  driver.allocate = [](tenon_device*, uint32_t, uint64_t bytes, uint64_t, tenon_queue*, void** out) {
    return *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64), static_cast<tenon_status*>(nullptr);
  };
  driver.free = [](tenon_device*, uint32_t, void* data, uint64_t, tenon_queue*) { std::free(data); };
  return driver;
}

Status RegisterTiny(Runtime* runtime) {
  static const tenon_device_driver kDriver = MakeDriver();
  static const tenon_op_package kOps = {sizeof(tenon_op_package), 0, fakes::TinyOpList().data(),
                                        fakes::TinyOpList().size(), 0};
  static const tenon_kernel_package kKernels = {sizeof(tenon_kernel_package), 0, fakes::TinyKernelList().data(),
                                                fakes::TinyKernelList().size()};
  static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOps),
                                                   TENON_PROVIDES(KERNELS, &kKernels),
                                                   TENON_PROVIDES(DEVICE, &kDriver)};
  tenon_plugin plugin{};
  plugin.struct_size = sizeof plugin;
  plugin.id = TENON_SPAN("tiny");
  plugin.version = TENON_SPAN("1");
  plugin.capabilities = kCapabilities;
  plugin.capability_count = std::size(kCapabilities);
  return runtime->RegisterPlugin(plugin, nullptr).status();
}

class SessionTest : public testing::Test, public fakes::GraphMaker {
 protected:
  void SetUp() override {
    const Status status = RegisterTiny(&runtime_);
    ASSERT_TRUE(status.ok()) << status.ToString();
    graph = graph::Graph(&runtime_.ops());
    auto session = Session::Create(&runtime_, {});
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    session_ = *session;
  }
  // What it has prepared holds the session.
  void TearDown() override {
    if (session_ != nullptr) session_->Close();
  }
  // x, and y, which is twice that.
  void ExtendByTwice() {
    const Edge x = Feed(TENON_DT_FLOAT, {}, "x");
    Add("Plus", {x, x}, {}, "y");
    const Status status = session_->ExtendGraph(graph);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // The fetch of a step that is fed with x.
  Result<float> Run(std::string_view fetch, float x, const RunOptions& options = {}) {
    const fakes::Scalars feeds({x});
    std::vector<Tensor> fetches;
    TENON_RETURN_IF_ERROR(session_->Run(options, {"x"}, feeds.pointers(), {fetch}, {}, &fetches));
    return *static_cast<const float*>(fetches[0].data());
  }
  void Expect(std::string_view fetch, float x, float wanted) {
    const auto found = Run(fetch, x);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, wanted);
  }

  Runtime runtime_{1};
  std::shared_ptr<Session> session_;
};

TEST_F(SessionTest, PlansAStepOnceAndRunsItByItsNames) {
  ExtendByTwice();
  Expect("y", 3, 6);
  Expect("y", 4, 8);
  EXPECT_EQ(session_->metrics().plans_built, 1u);
  EXPECT_EQ(session_->metrics().plans_reused, 1u);
  Expect("x", 4, 4);
  EXPECT_EQ(session_->metrics().plans_built, 2u) << "another step";
  EXPECT_EQ(session_->metrics().steps, 3u);
}

TEST_F(SessionTest, GrowsByNodesThatItDoesNotKnow) {
  ExtendByTwice();
  Expect("y", 3, 6);
  EXPECT_EQ(Run("z", 1).status().code(), Code::kNotFound);
  const Edge y{*graph.Get("y"), 0};
  Add("Plus", {y, y}, {}, "z");
  ASSERT_TRUE(session_->ExtendGraph(graph).ok());
  Expect("z", 3, 12);
  Expect("y", 3, 6);
}

// A part's functions are the session's; who says something else of one of them is refused, and leaves nothing behind.
TEST_F(SessionTest, KnowsOneFunctionOfAName) {
  const auto part_with = [this](std::vector<std::pair<std::string, std::string>> functions) {
    graph::Graph part(&runtime_.ops());
    for (auto& [name, op] : functions) {
      graph::FunctionDef function;
      function.name = name;
      function.nodes.push_back({"n", op, "", {}, {}});
      part.library()[name] = std::make_shared<const graph::FunctionDef>(std::move(function));
    }
    return session_->PreparePart(std::move(part), {}, {}, {}, std::make_shared<exec::PartInfo>(), false).status();
  };
  ASSERT_TRUE(part_with({{"f", "Plus"}}).ok());
  EXPECT_TRUE(part_with({{"f", "Plus"}}).ok());
  EXPECT_EQ(part_with({{"a", "Plus"}, {"f", "Copy"}}).ToString(),
            "ALREADY_EXISTS: there are two functions 'f', and they are not the same");
  EXPECT_EQ(session_->EmptyGraph().library().size(), 1u);
}

// What a kernel of the test found in create().
struct Found {
  const void* table = nullptr;
  tenon_plugin_self* self = nullptr;
  tenon_plugin_self* own = nullptr;
};
Found g_found;

tenon_status* AskForCollectives(const tenon_create_args* args, tenon_kernel** out_kernel) {
  *out_kernel = nullptr;
  g_found.own = args->self;
  return args->services->device_capability(args->context, TENON_SPAN(TENON_CAPABILITY_COLLECTIVE), &g_found.table,
                                           &g_found.self);
}

Status RegisterOne(Runtime* runtime, const char* id, const tenon_capability& capability, tenon_plugin_self* self) {
  tenon_plugin plugin{};
  plugin.struct_size = sizeof plugin;
  plugin.id = Span(std::string_view(id));
  plugin.version = TENON_SPAN("1");
  plugin.capabilities = &capability;
  plugin.capability_count = 1;
  return runtime->RegisterPlugin(plugin, self).status();
}

TEST_F(SessionTest, AKernelFindsWhatAPluginBringsForItsDevice) {
  static tenon_collective collective;
  collective = {};  // also when the test is repeated
  collective.struct_size = sizeof collective;
  collective.device_type = Span("HOST");
  collective.make_token = [](tenon_plugin_self*, char*, uint64_t*) -> tenon_status* { return nullptr; };
  collective.leave = [](tenon_communicator*) {};
  static tenon_kernel_registration plus = *fakes::TinyKernelList()[0];
  ASSERT_EQ(View(plus.op), "Plus");
  plus.priority = 10;
  plus.create = &AskForCollectives;
  plus.destroy = [](tenon_kernel*) {};
  static const tenon_kernel_registration* const list[] = {&plus};
  static const tenon_kernel_package kernels = {TENON_HEAD(tenon_kernel_package), list, 1};
  auto* const of_kernel = reinterpret_cast<tenon_plugin_self*>(&plus);
  auto* const of_library = reinterpret_cast<tenon_plugin_self*>(&collective);
  ASSERT_TRUE(RegisterOne(&runtime_, "kernels", TENON_PROVIDES(KERNELS, &kernels), of_kernel).ok());
  ExtendByTwice();
  EXPECT_EQ(Run("y", 3).status().ToString().find(
                "NOT_FOUND: node 'y' (Plus) [kernels]: no loaded plugin brings the capability 'tenon.collective/1' for "
                "devices of type HOST to kernels; those that are there: none"),
            0u)
      << Run("y", 3).status().ToString();
  EXPECT_NE(
      RegisterOne(&runtime_, "library", TENON_PROVIDES(COLLECTIVE, &collective), of_library).message().find("join"),
      std::string::npos)
      << "a function is missing";
  collective.join = [](tenon_plugin_self*, tenon_span, const tenon_collective_place*, uint64_t, int32_t, uint64_t,
                       tenon_communicator**) -> tenon_status* { return nullptr; };
  ASSERT_TRUE(RegisterOne(&runtime_, "library", TENON_PROVIDES(COLLECTIVE, &collective), of_library).ok());
  EXPECT_EQ(runtime_.LiveObjects("library"), 0);
  Expect("y", 3, 6);
  EXPECT_EQ(g_found.table, &collective);
  EXPECT_EQ(g_found.self, of_library);
  EXPECT_EQ(g_found.own, of_kernel);
  EXPECT_EQ(runtime_.LiveObjects("library"), 1) << "as long as the kernel";
  EXPECT_FALSE(runtime_.Retire("library"));
  EXPECT_EQ(runtime_.FindCapability(TENON_CAPABILITY_COLLECTIVE, "CARD").status().message(),
            "no loaded plugin brings the capability 'tenon.collective/1' for devices of type CARD to kernels; those "
            "that are there: "
            "tenon.collective/1 of library for HOST");
  session_->Close();  // which drops what it has cached
  session_.reset();
  EXPECT_EQ(runtime_.LiveObjects("library"), 0);
  EXPECT_EQ(runtime_.LiveObjects("kernels"), 0);
  EXPECT_TRUE(runtime_.Retire("library"));
  runtime_.UnregisterPlugin("library");
  EXPECT_FALSE(runtime_.FindCapability(TENON_CAPABILITY_COLLECTIVE, "HOST").ok());
}

TEST_F(SessionTest, NamesWhatIsWrongWithARequest) {
  ExtendByTwice();
  const auto expect = [&](const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                          const std::vector<std::string_view>& targets, const std::string& text) {
    const Status status = session_->Prepare(feeds, fetches, targets).status();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.ToString();
  };
  expect({"nobody"}, {"y"}, {}, "feed 'nobody'");
  expect({"x"}, {"nobody"}, {}, "fetch 'nobody'");
  expect({"x"}, {"y"}, {"y:z"}, "target 'y:z'");
  expect({"x", "x:0"}, {"y"}, {}, "'x:0' is fed twice");
  expect({"x"}, {}, {}, "there is nothing to run");
  EXPECT_EQ(session_->metrics().plans_built, 0u);
  SessionOptions options;
  options.device = "CARD";
  EXPECT_NE(Session::Create(&runtime_, std::move(options)).status().message().find("there is no device 'CARD'"),
            std::string::npos);
}

TEST_F(SessionTest, EndsAStepByItsOwnErrorAlone) {
  fakes::g_mystery = [](float value) { return value < 0 ? OutOfRange("it is below zero") : Status::Ok(); };
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  Add("Mystery", {x}, {}, "mystery");
  ASSERT_TRUE(session_->ExtendGraph(graph).ok());
  Expect("mystery", 1, 1);
  EXPECT_EQ(Run("mystery", -1).status().ToString(), "OUT_OF_RANGE: node 'mystery' (Mystery): it is below zero");
  Expect("mystery", 2, 2);
  EXPECT_EQ(session_->metrics().plans_built, 1u);
}

TEST_F(SessionTest, IsNotExtendedForWhoHasGivenUp) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  Add("Plus", {x, x}, {}, "y");
  const auto bytes = graph::ExportGraphDef(graph);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  Cancellation cancellation;
  cancellation.Cancel(Status(Code::kUnavailable, "the caller is gone"));
  RunOptions gone;
  gone.cancellation = &cancellation;
  const Status status = session_->Extend(*bytes, gone);
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.ToString();
  EXPECT_NE(status.message().find("the caller is gone"), std::string::npos) << status.ToString();
  EXPECT_EQ(Run("y", 1).status().code(), Code::kNotFound) << "nothing was added";
  ASSERT_TRUE(session_->Extend(*bytes).ok());
  Expect("y", 1, 2);
}

TEST_F(SessionTest, CancelsWhatRunsWhenItClosesAndRunsNothingAfter) {
  std::latch runs(1);
  fakes::g_mystery = [&](float) { return runs.try_wait() ? void() : runs.count_down(), Status::Ok(); };
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), zero = Value(0), one = Value(1);
  // Without an end of its own.
  While("loop", {x}, [&](const Edges&) { return Add("Below", {Into(zero, "loop", true), Into(one, "loop", true)}); },
        [&](const Edges& v) { return Edges{Add("Mystery", {v[0]})}; });
  ASSERT_TRUE(session_->ExtendGraph(graph).ok());
  const auto callable = session_->Prepare({"x"}, {"loop/exit0"}, {});
  ASSERT_TRUE(callable.ok()) << callable.status().ToString();
  Status ended;
  std::thread caller([&] { ended = Run("loop/exit0", 1).status(); });
  runs.wait();
  session_->Close(Status(Code::kUnavailable, "the task is stopping"));
  EXPECT_EQ(session_->metrics().steps, 1u) << "Close waits for it";
  caller.join();
  EXPECT_EQ(ended.ToString(), "UNAVAILABLE: in the loop of node 'loop/condition' (Goes): the task is stopping");
  session_->Close();
  const fakes::Scalars feeds({1});
  std::vector<Tensor> fetches;
  EXPECT_EQ((*callable)->Run({}, feeds.pointers(), &fetches).ToString(), "UNAVAILABLE: the task is stopping")
      << "the first reason stays";
  EXPECT_EQ(Run("x", 1).status().ToString(), "UNAVAILABLE: the task is stopping");
}

TEST_F(SessionTest, KeepsTheLastPlansAndNoMore) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  for (size_t i = 0; i <= PreparedSteps::kMost; ++i) Add("Plus", {x, x}, {}, "y" + std::to_string(i));
  ASSERT_TRUE(session_->ExtendGraph(graph).ok());
  const auto run = [&](size_t i) { EXPECT_TRUE(Run("y" + std::to_string(i), 1).ok()); };
  for (size_t i = 0; i < PreparedSteps::kMost; ++i) run(i);
  run(0);
  EXPECT_EQ(session_->metrics().plans_built, PreparedSteps::kMost);
  run(PreparedSteps::kMost);  // for which the second has to go
  run(0);
  run(2);
  EXPECT_EQ(session_->metrics().plans_built, PreparedSteps::kMost + 1);
  run(1);
  EXPECT_EQ(session_->metrics().plans_built, PreparedSteps::kMost + 2);
}

TEST_F(SessionTest, LetsCallablesAndFetchesOutliveIt) {
  ExtendByTwice();
  auto callable = session_->Prepare({"x"}, {"y"}, {});
  ASSERT_TRUE(callable.ok()) << callable.status().ToString();
  session_.reset();
  const fakes::Scalars feeds({5});
  std::vector<Tensor> fetches;
  ASSERT_TRUE((*callable)->Run({}, feeds.pointers(), &fetches).ok()) << "it keeps the session";
  callable = std::shared_ptr<Callable>();
  EXPECT_EQ(*static_cast<const float*>(fetches[0].data()), 10);
}

TEST_F(SessionTest, ExplainsAPlacementWithoutRunningIt) {
  fakes::g_mystery = [](float) { return Internal("it was run"); };
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x");
  Add("Mystery", {x}, {}, "mystery");
  ASSERT_TRUE(session_->ExtendGraph(graph).ok());
  const auto report = session_->ExplainPlacement({"x"}, {"mystery"}, {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_NE(
      report->json.find(
          "{\"name\":\"mystery\",\"op\":\"Mystery\",\"device\":\"/job:localhost/replica:0/task:0/device:HOST:0\""),
      std::string::npos)
      << report->json;
  EXPECT_EQ(report->json.find("compilers were not asked"), std::string::npos) << report->json;
  EXPECT_EQ(session_->metrics().plans_built, 0u);
  EXPECT_EQ(session_->metrics().steps, 0u);
}

}  // namespace
}  // namespace tenon::session::session_test
