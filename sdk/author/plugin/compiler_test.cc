// SPDX-License-Identifier: Apache-2.0
// The table that tenon/sdk/device/compiler.h makes, called as a host calls it: what is wrong is refused before the
// compiler is called.
#include "tenon/sdk/device/compiler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tenon/sdk/device/loop_compiler.h"
#include "tenon/testing/host.h"

// What the host's functions were told.
struct tenon_claim_context {
  std::vector<std::vector<int64_t>> claims;
  std::vector<std::string> refused;
};

namespace tenon::sdk::compiler_test {
namespace {

using testing::Text;

int living = 0;  // executables
std::vector<std::string> asked;
std::vector<std::string> Asked() { return std::exchange(asked, {}); }

// Takes even nodes, refuses odd ones; node 99 is a mistake of the host's.
struct Compiler {
  static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
  static constexpr int32_t kPriority = 4;
  struct Executable : Compiled {
    Executable() { ++living; }
    ~Executable() { --living; }
    Outcome Run(tenon_frame& frame) {
      if (frame.input_count == 0) return Fault(TENON_ABORTED, "nothing came in");
      if (frame.input_count > 5) Fail(TENON_OUT_OF_RANGE, frame.input_count, " inputs");
      asked.push_back(Concat("Run ", frame.input_count));
      return {};
    }
  };

  static void Claim(tenon_plugin_self*, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, tenon_device*,
                    const Claims& claims) {
    asked.push_back(Concat("Claim ", nodes.size(), cursor.graph_def == nullptr ? " of an older host" : ""));
    std::vector<int64_t> taken;
    for (int64_t node : nodes) {
      if (node == 99) throw std::logic_error("no such node");
      if (node % 2 == 0) taken.push_back(node);
      else claims.Refuse(node, TENON_REFUSE_OP, "it is odd");
    }
    claims.Claim(taken);
  }
  static std::unique_ptr<Executable> Compile(tenon_plugin_self*, const tenon_compile_args& args) {
    asked.push_back(Concat("Compile ", args.node_count, " for ", args.threads));
    if (args.node_count == 0) return nullptr;
    if (args.node_count == 1) Fail(TENON_UNIMPLEMENTED, "alone");
    auto made = std::make_unique<Executable>();
    made->workspace_bytes = 77;
    made->in_place = {{0, 0}, {1, 0}};
    return made;
  }
};
constexpr const tenon_compiler& kTable = kCompilerTable<Compiler>;

tenon_device* const kDevice = reinterpret_cast<tenon_device*>(&living);  // which nobody looks into

class CompilerTable : public ::testing::Test {
 protected:
  void SetUp() override {
    Asked();
    cursor.struct_size = sizeof cursor;
    cursor.graph_def = [](const tenon_graph*, tenon_span, tenon_span*) -> tenon_status* { return nullptr; };
    sink.struct_size = sizeof sink;
    sink.context = &context;
    sink.claim = [](tenon_claim_context* c, const int64_t* taken, uint64_t count) -> tenon_status* {
      if (count > 2) return Failure(TENON_INVALID_ARGUMENT, "not convex");
      c->claims.emplace_back(taken, taken + count);
      return nullptr;
    };
    sink.refuse = [](tenon_claim_context* c, int64_t node, uint32_t reason, tenon_span text) -> tenon_status* {
      c->refused.push_back(Concat(node, " ", reason, " ", text));
      return nullptr;
    };
    args.struct_size = sizeof args;
    args.cursor = &cursor;
    args.nodes = nodes;
    args.node_count = 2;
    args.device = kDevice;
    args.threads = 3;
    args.out_workspace_bytes = 1;
    args.out_in_place_count = 1;
  }
  void TearDown() override {
    EXPECT_EQ(living, 0);
    EXPECT_EQ(testing::live_statuses, 0);
  }
  std::string Claim(const int64_t* given, uint64_t count) const {
    return Text(kTable.claim(nullptr, &cursor, given, count, kDevice, &sink));
  }
  std::string Compile() {
    executable = reinterpret_cast<tenon_executable*>(this);
    return Text(kTable.compile(nullptr, &args, &executable));
  }

  const int64_t nodes[4] = {2, 3, 4, 6};
  tenon_claim_context context;
  tenon_graph_cursor cursor = {};
  tenon_claim_sink sink = {};
  tenon_compile_args args = {};
  tenon_executable* executable = nullptr;
};

TEST_F(CompilerTable, PassesClaimsAndRefusalsOn) {
  EXPECT_EQ(kTable.struct_size, sizeof(tenon_compiler));
  EXPECT_EQ(ToText(kTable.device_type), "NPU");
  EXPECT_EQ(kTable.priority, 4);
  EXPECT_EQ(Claim(nodes, 3), "");
  EXPECT_EQ(context.claims, (std::vector<std::vector<int64_t>>{{2, 4}}));
  EXPECT_EQ(context.refused, std::vector<std::string>{"3 1 it is odd"});
  EXPECT_EQ(Claim(nodes, 4), "INVALID_ARGUMENT: not convex");  // the host's word
  const int64_t wrong = 99;
  EXPECT_EQ(Claim(&wrong, 1), "INTERNAL: no such node");
}

TEST_F(CompilerTable, RefusesToClaimFromWhatIsNotThere) {
  EXPECT_EQ(Claim(nullptr, 2), "INVALID_ARGUMENT: the list of nodes is NULL");
  EXPECT_EQ(Text(kTable.claim(nullptr, nullptr, nodes, 1, kDevice, &sink)),
            "INVALID_ARGUMENT: a graph is missing or has no struct_size");
  EXPECT_EQ(Text(kTable.claim(nullptr, &cursor, nodes, 1, kDevice, nullptr)),
            "INVALID_ARGUMENT: a claim is missing or has no struct_size");
  cursor.must_understand = 8;
  EXPECT_EQ(Claim(nodes, 1), "UNIMPLEMENTED: a graph with a feature that this plugin does not know");
  cursor.must_understand = 0;
  sink.must_understand = 1;
  EXPECT_EQ(Claim(nodes, 1), "UNIMPLEMENTED: a claim with a feature that this plugin does not know");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  sink.must_understand = 0;
  cursor.struct_size = offsetof(tenon_graph_cursor, graph_def);
  EXPECT_EQ(Claim(nodes, 1), "");
  EXPECT_EQ(Asked(), std::vector<std::string>{"Claim 1 of an older host"});
}

TEST_F(CompilerTable, RefusesToCompileWhatIsNotThere) {
  EXPECT_EQ(Text(kTable.compile(nullptr, &args, nullptr)), "INVALID_ARGUMENT: out_executable is NULL");
  EXPECT_EQ(Text(kTable.compile(nullptr, nullptr, &executable)),
            "INVALID_ARGUMENT: a compilation is missing or has no struct_size");
  const auto without = [this](auto member, const char* what) {
    const auto before = std::exchange(args.*member, nullptr);
    EXPECT_EQ(Compile(), Concat("INVALID_ARGUMENT: ", what));
    EXPECT_EQ(executable, nullptr);
    args.*member = before;
  };
  without(&tenon_compile_args::cursor, "a graph is missing or has no struct_size");
  without(&tenon_compile_args::nodes, "the list of nodes is NULL");
  without(&tenon_compile_args::device, "the device is NULL");
  args.input_count = 1;
  EXPECT_EQ(Compile(), "INVALID_ARGUMENT: the list of inputs is NULL");
  args.input_count = 0;
  args.output_count = 1;
  EXPECT_EQ(Compile(), "INVALID_ARGUMENT: the list of outputs is NULL");
  args.must_understand = 4;
  EXPECT_EQ(Compile(), "UNIMPLEMENTED: a compilation with a feature that this plugin does not know");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  EXPECT_EQ(args.out_workspace_bytes, 1u);
}

TEST_F(CompilerTable, TellsWhatAnExecutableNeedsAndDestroysIt) {
  ASSERT_EQ(Compile(), "");
  EXPECT_EQ(args.out_workspace_bytes, 77u);
  ASSERT_EQ(args.out_in_place_count, 2u);
  EXPECT_EQ(args.out_in_place[1].input, 1);
  EXPECT_EQ(living, 1);
  tenon_frame frame = {};
  EXPECT_EQ(Text(kTable.run(executable, &frame)), "ABORTED: nothing came in");
  frame.input_count = 6;
  EXPECT_EQ(Text(kTable.run(executable, &frame)), "OUT_OF_RANGE: 6 inputs");
  EXPECT_EQ(Text(kTable.run(executable, nullptr)), "INVALID_ARGUMENT: the frame is NULL");
  EXPECT_EQ(Text(kTable.run(nullptr, &frame)), "INVALID_ARGUMENT: the executable is NULL");
  frame.input_count = 1;
  EXPECT_EQ(Text(kTable.run(executable, &frame)), "");
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Compile 2 for 3", "Run 1"}));
  kTable.destroy(executable);
  kTable.destroy(nullptr);
}

TEST_F(CompilerTable, TellsOlderHostsWhatTheyKnow) {
  args.struct_size = offsetof(tenon_compile_args, out_in_place);
  ASSERT_EQ(Compile(), "");
  EXPECT_EQ(args.out_workspace_bytes, 77u);
  EXPECT_EQ(args.out_in_place, nullptr);
  EXPECT_EQ(args.out_in_place_count, 1u);
  kTable.destroy(executable);
}

TEST_F(CompilerTable, PassesOnThatNothingWasMade) {
  args.node_count = 1;
  EXPECT_EQ(Compile(), "UNIMPLEMENTED: alone");
  args.node_count = 0;
  EXPECT_EQ(Compile(), "INTERNAL: the compiler has made nothing");
  EXPECT_EQ(executable, nullptr);
}

// Takes loops of two variables at most.
struct LoopTaker {
  static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
  static constexpr int32_t kPriority = 3;
  using Executable = Compiler::Executable;

  static std::unique_ptr<Executable> Compile(tenon_plugin_self*, const tenon_compile_args& args,
                                             const tenon_compile_loop& loop) {
    asked.push_back(Concat("Loop of ", loop.variable_count, ", ", args.node_count));
    if (loop.variable_count > 2) Fail(TENON_UNIMPLEMENTED, "so many variables");
    return std::make_unique<Executable>();
  }
};

class LoopCompilerTable : public CompilerTable {
 protected:
  void SetUp() override {
    CompilerTable::SetUp();
    args.inputs = edges;
    args.input_count = 3;
    loop.struct_size = sizeof loop;
    loop.variables = variables;
    loop.variable_count = 2;
    loop.source = [](tenon_compile_context*, int64_t, int32_t, tenon_output*) -> tenon_status* { return nullptr; };
  }
  std::string Compile(const tenon_compile_loop* given) {
    executable = reinterpret_cast<tenon_executable*>(this);
    return Text(kLoops.compile(nullptr, &args, given, &executable));
  }
  static constexpr const tenon_loop_compiler& kLoops = kLoopCompilerTable<LoopTaker>;
  const tenon_output edges[3] = {};
  const tenon_loop_variable variables[3] = {};
  tenon_compile_loop loop = {};
};

TEST_F(LoopCompilerTable, GivesTheCompilerLoops) {
  EXPECT_EQ(kLoops.struct_size, sizeof(tenon_loop_compiler));
  EXPECT_EQ(kLoops.priority, 3);
  EXPECT_EQ(Compile(&loop), "");
  ASSERT_NE(executable, nullptr);
  tenon_frame frame = {};
  EXPECT_EQ(Text(kLoops.run(executable, &frame)), "ABORTED: nothing came in");
  frame.input_count = 2;
  EXPECT_EQ(Text(kLoops.run(executable, &frame)), "");
  kLoops.destroy(executable);
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Loop of 2, 2", "Run 2"}));
  loop.variable_count = 3;
  EXPECT_EQ(Compile(&loop), "UNIMPLEMENTED: so many variables");
  EXPECT_EQ(executable, nullptr);
}

TEST_F(LoopCompilerTable, RefusesWhatIsNoLoop) {
  EXPECT_EQ(Compile(nullptr), "INVALID_ARGUMENT: a loop is missing or has no struct_size");
  EXPECT_EQ(executable, nullptr);
  loop.must_understand = 4;
  EXPECT_EQ(Compile(&loop), "UNIMPLEMENTED: a loop with a feature that this plugin does not know");
  loop.must_understand = 0;
  loop.source = nullptr;
  EXPECT_EQ(Compile(&loop), "INVALID_ARGUMENT: what tells the sources of a loop's nodes is NULL");
  SetUp();
  loop.variables = nullptr;
  EXPECT_EQ(Compile(&loop), "INVALID_ARGUMENT: the list of a loop's variables is NULL");
  SetUp();
  args.input_count = 1;
  EXPECT_EQ(Compile(&loop), "INVALID_ARGUMENT: a loop has 2 variables and 1 inputs");
  EXPECT_EQ(Text(kLoops.compile(nullptr, &args, &loop, nullptr)), "INVALID_ARGUMENT: out_executable is NULL");
  EXPECT_EQ(Text(kLoops.run(nullptr, nullptr)), "INVALID_ARGUMENT: the executable is NULL");
  EXPECT_TRUE(Asked().empty());
}

}  // namespace
}  // namespace tenon::sdk::compiler_test
