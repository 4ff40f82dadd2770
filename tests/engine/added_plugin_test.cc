// SPDX-License-Identifier: Apache-2.0
// Plugins of the application itself, without a file: tenon_runtime_add_plugin.
#include <atomic>
#include <string>
#include <vector>

#include "tenon/kernel.h"
#include "tenon/op.h"
#include "tests/engine/engine.h"

namespace tenon::engine::added_plugin_test {
namespace {

std::atomic<int> loaded{0};

tenon_status* Load(const tenon_load_args*, tenon_plugin_self** out_self) {
  loaded.fetch_add(1);
  *out_self = reinterpret_cast<tenon_plugin_self*>(&loaded);
  return nullptr;
}
void Unload(tenon_plugin_self*) { loaded.fetch_sub(1); }

tenon_status* SameShape(tenon_plugin_self*, const tenon_shape_services* services, tenon_shape_context* context) {
  return services->set_output_shape(context, 0, services->input_shape(context, 0));
}

tenon_status* Triple(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const auto* x = static_cast<const float*>(frame->inputs[0]->dl.data);
  auto* y = static_cast<float*>(frame->outputs[0]->dl.data);
  for (uint64_t i = 0; i < frame->inputs[0]->byte_size / sizeof(float); ++i) y[i] = 3 * x[i];
  return nullptr;
}

template <typename T>
T Headed() {
  T made = {};
  made.struct_size = sizeof(T);
  return made;
}

// One op and its kernel.
struct Own {
  explicit Own(const char* id = "tenon.test.own", const char* inputs = "x: float") {
    op.name = kernel.op = TENON_SPAN("Own>Triple");
    op.inputs = Span(std::string_view(inputs));
    op.outputs = TENON_SPAN("y: float");
    op.shape = &SameShape;
    kernel.run = &Triple;
    plugin.abi_major = TENON_ABI_MAJOR;
    plugin.abi_minor = TENON_ABI_MINOR;
    plugin.layout_hash = TENON_LAYOUT_HASH;
    plugin.id = Span(std::string_view(id));
    plugin.version = TENON_SPAN("1.0.0");
    plugin.load = &Load;
    plugin.unload = &Unload;
    plugin.capabilities = capabilities;
    plugin.capability_count = std::size(capabilities);
  }
  tenon_op_definition op = Headed<tenon_op_definition>();
  const tenon_op_definition* ops[1] = {&op};
  tenon_op_package op_package = {TENON_HEAD(tenon_op_package), ops, 1, 0};
  tenon_kernel_registration kernel = Headed<tenon_kernel_registration>();
  const tenon_kernel_registration* kernels[1] = {&kernel};
  tenon_kernel_package kernel_package = {TENON_HEAD(tenon_kernel_package), kernels, 1};
  const tenon_capability capabilities[2] = {TENON_PROVIDES(OPS, &op_package), TENON_PROVIDES(KERNELS, &kernel_package)};
  tenon_plugin plugin = Headed<tenon_plugin>();
};

Runtime Empty() { return *Runtime::Create(); }

std::string ReportOf(const Runtime& runtime, const std::string& path) {
  for (const tenon_load_report& report : runtime.Reports())
    if (Text(report.path) == path) return std::string(Text(report.reason)) + " " + std::to_string(report.outcome);
  return "none";
}

std::vector<double> TripleOf(Runtime& runtime, double x) {
  Graph graph(runtime);
  const Output y = graph.Op("Own>Triple", {graph.Placeholder("x", DType::kFloat, {1})});
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(runtime, graph);
  if (!session.ok()) return {};
  auto values = session->Run({{"x:0", TensorOf(DType::kFloat, {1}, {x})}}, {y});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? DoublesOf((*values)[0]) : std::vector<double>();
}

TEST(AddedPlugin, ItsOpsRunAndItIsReported) {
  Own own;
  {
    Runtime runtime = Empty();
    ASSERT_TRUE(runtime.AddPlugin(own.plugin).ok());
    EXPECT_EQ(TripleOf(runtime, 2), std::vector<double>{6});
    EXPECT_EQ(ReportOf(runtime, "application:tenon.test.own"), "OK " + std::to_string(TENON_LOAD_LOADED));
    EXPECT_TRUE(runtime.AddPlugin(own.plugin).ok()) << "the same again is none";
    EXPECT_EQ(loaded, 1);
    Runtime other = Empty();
    ASSERT_TRUE(other.AddPlugin(own.plugin).ok());
    EXPECT_EQ(loaded, 2);
    EXPECT_EQ(TripleOf(other, 3), std::vector<double>{9});
  }
  EXPECT_EQ(loaded, 0);
}

TEST(AddedPlugin, ItGoesAndComesAgain) {
  Own own;
  Runtime runtime = Empty();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(runtime.AddPlugin(own.plugin).ok());
    EXPECT_EQ(TripleOf(runtime, round), std::vector<double>{3.0 * round});
    const Status gone = runtime.UnloadPlugin("tenon.test.own");
    ASSERT_TRUE(gone.ok()) << gone.message();
    EXPECT_FALSE(runtime.FindOp("Own>Triple").ok());
    EXPECT_EQ(loaded, 0);
  }
}

TEST(AddedPlugin, AnotherOfItsIdIsRefused) {
  Own own, same;
  Runtime runtime = Empty();
  ASSERT_TRUE(runtime.AddPlugin(own.plugin).ok());
  const Status refused = runtime.AddPlugin(same.plugin);
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("application:tenon.test.own"), std::string::npos) << refused.message();
}

TEST(AddedPlugin, WhatIsWrongWithItIsSaid) {
  Runtime runtime = Empty();
  EXPECT_EQ(Status::Take(tenon_runtime_add_plugin(runtime.get(), nullptr)).code(), Code::kInvalidArgument);
  const auto refusal = [&](auto change) {
    Own own;
    change(own);
    const Status refused = runtime.AddPlugin(own.plugin);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(loaded, 0);
    return refused.message();
  };
  EXPECT_NE(refusal([](Own& own) { own.plugin.abi_major += 1; }).find("ABI"), std::string::npos);
  EXPECT_NE(refusal([](Own& own) { own.plugin.layout_hash += 1; }).find("layout hash"), std::string::npos);
  EXPECT_NE(refusal([](Own& own) { own.plugin.struct_size = 8; }).find("8 bytes"), std::string::npos);
  EXPECT_NE(refusal([](Own& own) { own.plugin.id = {}; }).find("id is empty"), std::string::npos);
  EXPECT_NE(refusal([](Own& own) { own.plugin.load = nullptr; }).find("load or unload is NULL"), std::string::npos);
  EXPECT_NE(refusal([](Own& own) { own.plugin.capability_count = 0; }).find("provides nothing"), std::string::npos);
}

TEST(AddedPlugin, OneWhoseOpIsWrongStaysRefusedUntilItIsUnloaded) {
  Own wrong("tenon.test.own", "x: nonsense");
  Own right;
  Runtime runtime = Empty();
  for (int round = 0; round < 2; ++round) {
    const Status refused = runtime.AddPlugin(wrong.plugin);
    EXPECT_NE(refused.message().find("nonsense"), std::string::npos) << round << refused.message();
  }
  EXPECT_EQ(ReportOf(runtime, "application:tenon.test.own"), "LOAD_FAILED " + std::to_string(TENON_LOAD_REJECTED));
  ASSERT_TRUE(runtime.UnloadPlugin("tenon.test.own").ok());
  ASSERT_TRUE(runtime.AddPlugin(right.plugin).ok());
  EXPECT_EQ(ReportOf(runtime, "application:tenon.test.own"), "OK " + std::to_string(TENON_LOAD_LOADED));
  EXPECT_EQ(TripleOf(runtime, 1), std::vector<double>{3});
}

}  // namespace
}  // namespace tenon::engine::added_plugin_test
