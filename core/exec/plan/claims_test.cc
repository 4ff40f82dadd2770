// SPDX-License-Identifier: Apache-2.0
// What compilers of the test's own may claim, and what is made of it.
#include "core/exec/plan/claims.h"

#include <functional>
#include <set>

#include "core/base/log.h"
#include "core/exec/plan/make_plan.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::claims_test {
namespace {

using graph::Edge;

// One question of the host, by the names of nodes. The first refusal of the host is the compiler's answer.
struct Question {
  const tenon_graph_cursor* cursor;
  const tenon_claim_sink* sink;
  const Device* device;
  std::set<std::string> offered;
  tenon_status* failed = nullptr;

  std::string NameOf(int64_t number) const {
    return std::string(View(cursor->node_services->name(cursor->node(cursor->graph, number))));
  }
  int64_t NumberOf(const std::string& name) const {
    for (int64_t number = 0; number < cursor->node_count(cursor->graph); ++number)
      if (NameOf(number) == name) return number;
    return 1000;
  }
  void Claim(const std::vector<std::string>& names) {
    std::vector<int64_t> numbers;
    for (const std::string& name : names) numbers.push_back(NumberOf(name));
    if (failed == nullptr) failed = sink->claim(sink->context, numbers.data(), numbers.size());
  }
  void Refuse(const std::string& name, std::string_view why) {
    if (failed == nullptr) failed = sink->refuse(sink->context, NumberOf(name), TENON_REFUSE_OTHER, Span(why));
  }
};

class ClaimsTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  ClaimsTest() {
    static const tenon_compiler kTable = {
        TENON_HEAD(tenon_compiler), TENON_SPAN("HOST"), 0, 0, &OnClaim, &OnCompile, &OnDestroy, &OnRun};
    static const tenon_compiler kBetterTable = {
        TENON_HEAD(tenon_compiler), TENON_SPAN("HOST"), 5, 0, &OnSecondClaim, &OnCompile, &OnDestroy, &OnRun};
    env_.compilers = [this] {
      std::vector<CompilerEntry> all = {{"maker", &kTable, reinterpret_cast<tenon_plugin_self*>(this)}};
      if (second_answer_) all.push_back({"better", &kBetterTable, reinterpret_cast<tenon_plugin_self*>(this)});
      return all;
    };
    for (Device& device : devices_) device.handle = reinterpret_cast<tenon_device*>(&device);
  }

  static ClaimsTest* Of(tenon_plugin_self* self) { return reinterpret_cast<ClaimsTest*>(self); }
  static tenon_status* OnClaim(tenon_plugin_self* self, const tenon_graph_cursor* cursor, const int64_t* nodes,
                               uint64_t count, tenon_device* device, const tenon_claim_sink* sink) {
    return Ask(Of(self)->answer_, cursor, nodes, count, device, sink);
  }
  static tenon_status* OnSecondClaim(tenon_plugin_self* self, const tenon_graph_cursor* cursor, const int64_t* nodes,
                                     uint64_t count, tenon_device* device, const tenon_claim_sink* sink) {
    return Ask(Of(self)->second_answer_, cursor, nodes, count, device, sink);
  }
  static tenon_status* Ask(const std::function<void(Question&)>& answer, const tenon_graph_cursor* cursor,
                           const int64_t* nodes, uint64_t count, tenon_device* device, const tenon_claim_sink* sink) {
    Question question{cursor, sink, reinterpret_cast<const Device*>(device), {}};
    for (uint64_t i = 0; i < count; ++i) question.offered.insert(question.NameOf(nodes[i]));
    answer(question);
    return question.failed;
  }
  static tenon_status* OnCompile(tenon_plugin_self* self, tenon_compile_args* args, tenon_executable** out_executable) {
    Of(self)->compiled_nodes_ = args->node_count;
    *out_executable = Of(self)->makes_one_ ? reinterpret_cast<tenon_executable*>(self) : nullptr;
    return Status(Of(self)->compile_answer_).release();
  }
  static void OnDestroy(tenon_executable* executable) {
    ++Of(reinterpret_cast<tenon_plugin_self*>(executable))->destroyed_;
  }
  static tenon_status* OnRun(tenon_executable* executable, tenon_frame*) {
    ++Of(reinterpret_cast<tenon_plugin_self*>(executable))->ran_;
    return nullptr;
  }

  // Of the graph as it is.
  std::shared_ptr<const Plan> Planned(std::vector<Edge> feeds, std::vector<Edge> fetches) {
    Plan::Options options;
    options.compile = false;  // the tests ask themselves
    auto plan = MakePlan(graph.Clone(), std::move(feeds), std::move(fetches), {}, env_, &store_, options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return plan.ok() ? *plan : nullptr;
  }
  Edge On(int device, Edge edge) {
    graph.mutable_node(edge.node).device = fakes::kNames[device];
    return edge;
  }
  Edge Sum(Edge a, std::string_view name) { return Add("Plus", {a, a}, {}, name); }

  std::function<void(Question&)> answer_,
      second_answer_;  // second_answer_: of a compiler of a higher priority, if there is one
  Status compile_answer_;
  bool makes_one_ = true;
  uint64_t compiled_nodes_ = 0;
  int destroyed_ = 0, ran_ = 0;
};

TEST_F(ClaimsTest, TakesASetAndKeepsWhyOthersAreLeft) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), a = Sum(x, "a"), b = Sum(a, "b");
  const Edge c = Add("Mystery", {b}, {}, "c"), later = Add("Stop", {c}, {}, "later");
  const auto plan = Planned({x}, {later});
  answer_ = [](Question& question) {
    EXPECT_EQ(question.offered, (std::set<std::string>{"a", "b", "c"})) << "no feed, and nothing that ends later";
    question.Claim({"b", "a"});
    question.Refuse("c", "it is a mystery");
  };
  const auto claims = Claims::Find(*plan);
  ASSERT_TRUE(claims.ok()) << claims.status().ToString();
  ASSERT_EQ((*claims)->claims().size(), 1u);
  EXPECT_EQ((*claims)->claims()[0].nodes, (std::vector{a.node, b.node})) << "in the plan's order, not the compiler's";
  EXPECT_EQ((*claims)->claims()[0].device, &plan->env().devices[0]);
  EXPECT_EQ((*claims)->ClaimOf(a.node), (*claims)->ClaimOf(b.node));
  EXPECT_LT((*claims)->ClaimOf(c.node), (*claims)->ClaimOf(a.node));
  ASSERT_NE((*claims)->RefusalOf(c.node), nullptr);
  EXPECT_EQ((*claims)->RefusalOf(c.node)->compiler, "maker");
  EXPECT_EQ((*claims)->RefusalOf(c.node)->reason, "it is a mystery");
  for (const Edge& edge : {x, a, later}) EXPECT_EQ((*claims)->RefusalOf(edge.node), nullptr);
}

// What is logged while it lives, as one text.
class Logged {
 public:
  Logged() {
    SetLogFunction([](void* argument, uint32_t,
                      std::string_view text) { *static_cast<std::string*>(argument) += StrCat(text, "\n"); },
                   &text_);
  }
  ~Logged() { SetLogFunction(nullptr, nullptr); }
  std::string Take() { return std::exchange(text_, ""); }

 private:
  std::string text_;
};

TEST_F(ClaimsTest, ACompilerThatFailsOrBreaksTheRulesIsNamedAndDoneWithout) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), a = Sum(x, "a"), m = Add("Mystery", {a}, {}, "m"), b = Sum(m, "b");
  const auto plan = Planned({x}, {b});
  Logged logged;
  const auto expect = [&](std::function<void(Question&)> answer, const std::string& text) {
    answer_ = std::move(answer);
    const auto claims = Claims::Find(*plan);
    ASSERT_TRUE(claims.ok()) << claims.status().ToString();
    EXPECT_TRUE((*claims)->claims().empty()) << text;
    for (const Edge& edge : {a, m, b}) EXPECT_EQ((*claims)->ClaimOf(edge.node), -1) << text;
    const std::string said = logged.Take();
    EXPECT_NE(said.find(StrCat("the compiler of maker for ", fakes::kNames[0])), std::string::npos) << said;
    EXPECT_NE(said.find(text), std::string::npos) << said;
  };
  expect([](Question& q) { q.Claim({"a", "m"}), q.Claim({"a"}); }, "node 'a' (Plus) is claimed twice");
  expect([](Question& q) { q.Claim({"x"}); }, "node 'x' (Feed) is not one of those that may be claimed");
  expect([](Question& q) { q.Claim({"nobody"}); }, "there is no node 1000 to claim");
  expect([](Question& q) { q.Refuse("nobody", ""); }, "there is no node 1000 to refuse");
  expect([](Question& q) { q.Claim({}); }, "a claim has no node");
  expect([](Question& q) { q.Claim({"a", "b"}); }, "depend on each other in a circle");
  expect([](Question& q) { q.failed = OutOfRange("too many nodes").release(); }, "too many nodes");
}

// The other compiler of the device keeps what it claimed.
TEST_F(ClaimsTest, ACompilerThatFailsTakesNobodyElsesClaims) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), a = Sum(x, "a"), b = Sum(a, "b");
  const auto plan = Planned({x}, {b});
  Logged logged;
  second_answer_ = [](Question& question) { question.Claim({"a"}); };
  answer_ = [](Question& question) { question.Claim({"b"}), question.Claim({"a"}); };
  const auto claims = Claims::Find(*plan);
  ASSERT_TRUE(claims.ok()) << claims.status().ToString();
  ASSERT_EQ((*claims)->claims().size(), 1u);
  EXPECT_EQ((*claims)->ClaimOf(a.node), 0);
  EXPECT_EQ((*claims)->ClaimOf(b.node), -1);
}

// Each device's compiler is within its rights, and cannot know of the other's set.
TEST_F(ClaimsTest, GivesUpOneOfTwoDevicesSetsThatWouldDependOnEachOther) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), y = Feed(TENON_DT_FLOAT, {}, "y");
  const Edge a = On(0, Sum(x, "a")), b = On(1, Sum(a, "b")), c = On(1, Sum(y, "c")), d = On(0, Sum(c, "d"));
  const auto plan = Planned({x, y}, {b, d});
  answer_ = [this](Question& question) {
    if (question.device == &devices_[0]) question.Claim({"a", "d"});
    if (question.device == &devices_[1]) question.Claim({"b", "c"});
  };
  const auto claims = Claims::Find(*plan);
  ASSERT_TRUE(claims.ok()) << claims.status().ToString();
  EXPECT_EQ((*claims)->ClaimOf(a.node), (*claims)->ClaimOf(d.node));
  EXPECT_EQ((*claims)->RefusalOf(a.node), nullptr);
  for (const Edge& edge : {b, c}) {
    EXPECT_NE((*claims)->ClaimOf(edge.node), (*claims)->ClaimOf(a.node));
    ASSERT_NE((*claims)->RefusalOf(edge.node), nullptr);
    EXPECT_EQ((*claims)->RefusalOf(edge.node)->reason,
              "its set and one of another compiler would depend on each other");
  }
}

// Of two compilers of a device: the one of the higher priority is asked first, the other is offered the rest; where
// their sets would make a circle, the first has its way.
TEST_F(ClaimsTest, SeveralCompilersOfADeviceChooseByTheirPriority) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), y = Feed(TENON_DT_FLOAT, {}, "y");
  const Edge a = Sum(x, "a"), b = Sum(a, "b"), c = Sum(y, "c"), d = Sum(c, "d"), e = Sum(y, "e");
  const auto plan = Planned({x, y}, {b, d, e});
  second_answer_ = [](Question& question) {
    EXPECT_EQ(question.offered, (std::set<std::string>{"a", "b", "c", "d", "e"}));
    question.Claim({"a", "d"});
  };
  answer_ = [](Question& question) {
    EXPECT_EQ(question.offered, (std::set<std::string>{"b", "c", "e"}));
    question.Claim({"e"});
    question.Claim({"b", "c"});
  };
  const auto claims = Claims::Find(*plan);
  ASSERT_TRUE(claims.ok()) << claims.status().ToString();
  ASSERT_GE((*claims)->ClaimOf(a.node), 0);
  EXPECT_EQ((*claims)->claims()[static_cast<size_t>((*claims)->ClaimOf(a.node))].compiler.plugin, "better");
  EXPECT_EQ((*claims)->ClaimOf(a.node), (*claims)->ClaimOf(d.node));
  EXPECT_GE((*claims)->ClaimOf(e.node), 0);
  for (const Edge& edge : {b, c}) {
    EXPECT_EQ((*claims)->ClaimOf(edge.node), -1);
    ASSERT_NE((*claims)->RefusalOf(edge.node), nullptr);
    EXPECT_EQ((*claims)->RefusalOf(edge.node)->compiler, "maker");
  }
}

TEST_F(ClaimsTest, CompilesASetToWhatRunsAndIsDestroyedOnce) {
  const Edge x = Feed(TENON_DT_FLOAT, {}, "x"), a = Sum(x, "a"), b = Sum(a, "b");
  const auto plan = Planned({x}, {b});
  answer_ = [](Question& question) { question.Claim({"a", "b"}); };
  const auto claims = Claims::Find(*plan);
  ASSERT_TRUE(claims.ok()) << claims.status().ToString();
  graph::ShapeInference shapes(&plan->graph());
  ASSERT_TRUE(shapes.Run(plan->order()).ok());
  const Claims::Claim& claim = (*claims)->claims()[0];
  const auto compile = [&] { return CompileClaim(*plan, **claims, claim, claim.nodes, {x}, {b}, shapes); };
  auto region = compile();
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  EXPECT_EQ(compiled_nodes_, 2u);
  EXPECT_EQ((*region)->label(), "a and 1 more");
  tenon_frame frame{};
  EXPECT_EQ((*region)->Run(&frame), nullptr);
  EXPECT_EQ(ran_, 1);
  region = std::shared_ptr<const CompiledRegion>();
  EXPECT_EQ(destroyed_, 1);

  Logged logged;
  const auto expect_kernels = [&](const std::string& said) {
    const auto one_by_one = compile();
    ASSERT_TRUE(one_by_one.ok()) << one_by_one.status().ToString();
    EXPECT_EQ(*one_by_one, nullptr);
    const std::string text = logged.Take();
    EXPECT_EQ(text.empty(), said.empty()) << text;
    EXPECT_NE(text.find(said), std::string::npos) << text;
  };
  makes_one_ = false;
  expect_kernels("gave success and no executable");
  compile_answer_ = Unimplemented("not for these shapes");
  expect_kernels("");
  compile_answer_ = OutOfRange("it is too large");
  expect_kernels(StrCat("compiling a and 1 more for ", fakes::kNames[0], ": it is too large"));
  EXPECT_EQ(destroyed_, 1);

  // Who gave the planning up is told that, and not kept waiting by what comes instead.
  Cancellation given_up;
  given_up.Cancel(Status(Code::kCancelled, "the session is closed"));
  const Allowance allowance(&given_up, nullptr);
  EXPECT_EQ(compile().status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace tenon::exec::claims_test
