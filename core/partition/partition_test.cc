// SPDX-License-Identifier: Apache-2.0
// Covers B9, H1, H2, H6, H12, L7, L8.
#include "core/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::partition::partition_test {
namespace {

using fakes::GraphMaker;
using graph::Edge;
using graph::Node;

constexpr const char* kDevices[] = {"/device:A:0", "/device:B:0", "/device:C:0"};

class PartitionTest : public testing::Test, public GraphMaker {
 protected:
  Edge On(int device, Edge edge) {
    graph.mutable_node(edge.node).device = kDevices[device];
    return edge;
  }
  Edge Sum(int device, Edge a, Edge b, std::string_view name = {}) { return On(device, Add("Plus", {a, b}, {}, name)); }
  PartitionRequest Request() {
    PartitionRequest request;
    request.graph = &graph;
    request.order = Order();
    request.feeds = feeds_;
    request.fetches = fetches_;
    request.targets = targets_;
    request.default_device = kDevices[0];
    return request;
  }
  Partitioned Parted() {
    auto made = Partition(Request());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? *std::move(made) : Partitioned{};
  }
  Status Error() {
    auto made = Partition(Request());
    EXPECT_FALSE(made.ok()) << "it was partitioned";
    return made.status();
  }
  // The channels, as "a:0 A>B" or "^a A>B".
  std::vector<std::string> Channels(const Partitioned& parted) {
    std::vector<std::string> out;
    for (const Channel& channel : parted.channels) {
      const auto letter = [&](int32_t part) { return parted.parts[part].device.substr(8, 1); };
      const std::string value =
          channel.value.index < 0 ? StrCat("^", graph.node(channel.value.node).name) : graph.EdgeName(channel.value);
      out.push_back(StrCat(value, " ", letter(channel.from), ">", letter(channel.to)));
    }
    return out;
  }

  std::vector<Edge> feeds_, fetches_;
  std::vector<graph::NodeId> targets_;
};

const Part* PartOn(const Partitioned& parted, int device) {
  for (const Part& part : parted.parts)
    if (part.device == kDevices[device]) return &part;
  return nullptr;
}

int Count(const Part& part, uint64_t trait) {
  int count = 0;
  for (const graph::NodeId id : part.graph.ids()) count += part.graph.node(id).has(trait);
  return count;
}

// Empty when both graphs have the same nodes, in the same order.
std::string Difference(const graph::Graph& a, const graph::Graph& b) {
  if (a.size() != b.size()) return StrCat(a.size(), " nodes against ", b.size());
  for (const graph::NodeId id : a.ids()) {
    const Node &x = a.node(id), &y = b.node(id);
    std::vector<graph::NodeId> controls[] = {x.controls, y.controls};
    for (auto& list : controls) std::sort(list.begin(), list.end());
    if (x.name != y.name || x.op != y.op || x.device != y.device)
      return StrCat(x.Describe(), " against ", y.Describe());
    if (x.inputs != y.inputs || controls[0] != controls[1]) return StrCat(x.Describe(), " has other inputs");
    for (const auto& [name, value] : x.attrs)
      if (y.FindAttr(name) == nullptr || !y.FindAttr(name)->Equals(value))
        return StrCat(x.Describe(), " has another ", name);
  }
  return "";
}

// Whether parts that run their nodes by ids, one after the other, and wait in receives, all come to their end; of
// graphs without loops.
bool RunsToItsEnd(const Partitioned& parted) {
  std::vector<graph::NodeId> at(parted.parts.size(), graph::NodeId(0));
  IdVector<ChannelId, bool> sent(parted.channels.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t p = 0; p < parted.parts.size(); ++p) {
      const Part& part = parted.parts[p];
      for (; part.graph.Has(at[p]); ++at[p], moved = true) {
        const Node& node = part.graph.node(at[p]);
        const ChannelId channel = part.channels[at[p]];
        if (!channel) continue;
        if (node.has(TENON_OP_SEND)) sent[channel] = true;
        else if (!sent[channel]) break;
      }
    }
  }
  for (size_t p = 0; p < parted.parts.size(); ++p)
    if (at[p] != parted.parts[p].graph.next_id()) return false;
  return true;
}

// What holds of every partition.
void CheckParts(const graph::Graph& whole, const Partitioned& parted, bool structured) {
  std::set<std::tuple<Edge, int32_t, int32_t>> values;
  std::set<std::string> names;
  for (const Channel& channel : parted.channels) {
    EXPECT_TRUE(values.emplace(channel.value, channel.from, channel.to).second) << channel.name << " is there twice";
    EXPECT_TRUE(names.insert(channel.name).second) << channel.name << " names two channels";
    const Node& send = parted.parts[channel.from].graph.node(channel.send);
    const Node& recv = parted.parts[channel.to].graph.node(channel.recv);
    EXPECT_TRUE(send.has(TENON_OP_SEND));
    EXPECT_TRUE(recv.has(TENON_OP_RECV));
    for (const Node* node : {&send, &recv}) {
      EXPECT_EQ(node->FindAttr("tensor_name")->s(), channel.name);
      EXPECT_EQ(node->FindAttr("send_device")->s(), parted.parts[channel.from].device);
      EXPECT_EQ(node->FindAttr("recv_device")->s(), parted.parts[channel.to].device);
    }
  }
  for (const Part& part : parted.parts) {
    auto order = part.graph.TopologicalOrder();
    ASSERT_TRUE(order.ok()) << order.status().ToString();
    EXPECT_TRUE(std::is_sorted((*order).begin(), (*order).end())) << "ids are no order to run in";
    auto loops = graph::LoopAnalysis::Run(part.graph, *order);
    ASSERT_TRUE(loops.ok()) << loops.status().ToString();
    for (const graph::Frame& frame : (*loops).frames())
      EXPECT_TRUE(!structured || !frame.parent || frame.structured)
          << part.device << ": " << frame.name << ": " << frame.why_not;
    for (const graph::NodeId id : part.graph.ids()) EXPECT_EQ(part.graph.node(id).device, part.device);
  }
  auto merged = Merge(parted);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_EQ(Difference(*merged, whole), "");
}

TEST_F(PartitionTest, SendsAValueOnceToEachDeviceThatReadsIt) {
  const Edge a = On(0, Feed(TENON_DT_FLOAT, {2}, "a")), b = Sum(0, a, a, "b");
  for (int i = 0; i < 3; ++i) Sum(1, b, b);
  Sum(2, b, Sum(1, b, b));
  const Partitioned parted = Parted();
  EXPECT_EQ(Channels(parted), (std::vector<std::string>{"b:0 A>B", "b:0 A>C", "Plus_3:0 B>C"}));
  CheckParts(graph, parted, true);
  EXPECT_TRUE(RunsToItsEnd(parted));
}

TEST_F(PartitionTest, LeavesAGraphOnOneDeviceAsItIs) {
  const Edge a = On(1, Feed(TENON_DT_FLOAT, {}, "a"));
  Sum(1, a, a);
  const Partitioned parted = Parted();
  ASSERT_EQ(parted.parts.size(), 1u);
  EXPECT_TRUE(parted.channels.empty());
  EXPECT_EQ(Difference(parted.parts[0].graph, graph), "");
}

TEST_F(PartitionTest, APartHasTheFunctionsThatItsNodesNameAndTheyCall) {
  const auto define = [this](const std::string& name, const std::string& calls) {
    graph::FunctionDef function;
    function.name = name;
    if (!calls.empty())
      function.nodes.push_back({"call", "Call", "", {}, {{"f", graph::AttrValue::Function({calls, nullptr})}}});
    graph.library()[name] = std::make_shared<const graph::FunctionDef>(std::move(function));
  };
  define("outer", "inner");
  define("inner", "missing");
  define("other", "");
  define("nobodys", "");
  const Edge a = On(0, Feed(TENON_DT_FLOAT, {}, "a"));
  const auto naming = [](const char* name) {
    return graph::AttrMap{{"_f", graph::AttrValue::Function({name, nullptr})}};
  };
  On(1, Add("Plus", {a, a}, naming("outer")));
  On(2, Add("Plus", {a, a}, naming("other")));
  const Partitioned parted = Parted();
  const auto names = [&](int device) {
    std::set<std::string> found;
    for (const auto& [name, function] : PartOn(parted, device)->graph.library()) found.insert(name);
    return found;
  };
  EXPECT_EQ(names(0), std::set<std::string>());
  EXPECT_EQ(names(1), (std::set<std::string>{"inner", "outer"}));
  EXPECT_EQ(names(2), std::set<std::string>{"other"});
  auto merged = Merge(parted);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_EQ(merged->library().size(), 3u);
}

TEST_F(PartitionTest, RepeatsSmallConstantsAndSendsLargeOnes) {
  const Edge small = On(0, Value(1, "small"));
  const Edge large =
      On(0, ValueOf(fakes::TensorOf<float>(TENON_DT_FLOAT, {100000}, std::vector<float>(100000, 1)), "large"));
  Sum(1, small, large);
  const Partitioned parted = Parted();
  EXPECT_EQ(Channels(parted), std::vector<std::string>{"large:0 A>B"});
  EXPECT_TRUE(PartOn(parted, 1)->graph.Find("small"));
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, LetsControlEdgesTravelAsValuesWithoutBytes) {
  const Edge a = On(0, Add("Draw", {}, {}, "a"));
  On(1, Add("Draw", {}, {}, "b", {a.node}));
  const Partitioned parted = Parted();
  EXPECT_EQ(Channels(parted), std::vector<std::string>{"^a A>B"});
  const Part& from = *PartOn(parted, 0);
  const Node& send = from.graph.node(parted.channels[partition::ChannelId(0)].send);
  EXPECT_EQ(from.graph.node(send.inputs[0].node).FindAttr("value")->tensor().byte_size(), 0u);
  EXPECT_EQ(send.controls, std::vector<graph::NodeId>{from.graph.Find("a")});
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, LetsAControlEdgeFollowAValueThatCrossesAnyway) {
  const Edge a = On(0, Add("Draw", {}, {}, "a"));
  On(1, Add("Draw", {}, {}, "b", {a.node}));
  Sum(1, a, a);
  const Partitioned parted = Parted();
  EXPECT_EQ(Channels(parted), std::vector<std::string>{"a:0 A>B"});
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, FeedsEachPartThatReadsAFeedAndFetchesWhereValuesAre) {
  feeds_ = {On(0, Feed(TENON_DT_FLOAT, {}, "x")), On(1, Feed(TENON_DT_FLOAT, {}, "y"))};
  fetches_ = {Sum(1, feeds_[0], feeds_[1], "far"), Sum(0, feeds_[0], feeds_[0], "near"), feeds_[1]};
  targets_ = {fetches_[0].node};
  const Partitioned parted = Parted();
  EXPECT_TRUE(parted.channels.empty());
  const Part &a = *PartOn(parted, 0), &b = *PartOn(parted, 1);
  EXPECT_EQ(a.feed_numbers, std::vector<int32_t>{0});
  EXPECT_EQ(b.feed_numbers, (std::vector<int32_t>{1, 0}));
  EXPECT_TRUE(b.graph.node(b.feeds[1].node).FindAttr("client_terminated")->b());
  EXPECT_EQ(a.fetch_numbers, std::vector<int32_t>{1});
  EXPECT_EQ(b.fetch_numbers, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(b.targets, std::vector<graph::NodeId>{b.graph.Find("far")});
  CheckParts(graph, parted, true);
}

// A node that only names what is fed is in no part; its inputs may be open, as prune leaves them, or lead to what
// others need.
TEST_F(PartitionTest, WhoReadsAFedValueReceivesItFromTheCallerAndItsNodeIsLeftOut) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge made = Sum(1, x, x, "made");
  auto open = graph.Add({graph.node(made.node).op, "open", {{}, {}}, {}, graph.node(made.node).attrs, kDevices[2]});
  ASSERT_TRUE(open.ok()) << open.status().ToString();
  const Edge closed = Sum(2, made, x, "closed"), twice = Sum(2, closed, closed, "twice");
  feeds_ = {x, {*open, 0}, closed, twice};
  fetches_ = {Sum(0, {*open, 0}, closed, "end"), Sum(1, made, {*open, 0}, "other"), closed};
  Partitioned parted = Parted();
  EXPECT_TRUE(parted.channels.empty()) << "what is fed is sent by nobody";
  ASSERT_EQ(parted.parts.size(), 3u) << "what is fed and fetched is given back where it would be made";
  const Part &a = *PartOn(parted, 0), &b = *PartOn(parted, 1), &c = *PartOn(parted, 2);
  for (const Part* part : {&a, &b, &c}) {
    for (const char* name : {"open", "closed", "twice"}) EXPECT_FALSE(part->graph.Find(name)) << name;
    for (const graph::NodeId id : part->graph.ids())
      for (const Edge& edge : part->graph.node(id).inputs) EXPECT_TRUE(edge.node) << part->graph.node(id).name;
  }
  EXPECT_EQ(std::set<int32_t>(a.feed_numbers.begin(), a.feed_numbers.end()), (std::set<int32_t>{0, 1, 2}))
      << "x stands where it is";
  EXPECT_EQ(std::set<int32_t>(b.feed_numbers.begin(), b.feed_numbers.end()), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(c.feed_numbers, std::vector<int32_t>{2});
  EXPECT_EQ(c.fetches, c.feeds);
  auto merged = Merge(parted);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  EXPECT_TRUE(merged->Find("end") && merged->Find("other") && merged->Find("made") && !merged->Find("closed"));
  // In one part alone too; and a node that others wait for runs.
  fetches_ = {Sum(0, {*open, 0}, {*open, 0}, "alone")};
  targets_ = {closed.node};
  parted = Parted();
  EXPECT_TRUE(PartOn(parted, 2)->graph.Find("closed"));
}

TEST_F(PartitionTest, SaysWhichValuesMayBeDead) {
  const Edge x = On(0, Feed(TENON_DT_FLOAT, {}, "x")), p = On(0, Feed(TENON_DT_BOOL, {}, "p"));
  const Edge by_p = On(0, Add("Branch", {x, p}, {}, "by_p"));
  const Edge no = Sum(1, {by_p.node, 0}, {by_p.node, 0}, "no");
  const Edge yes = Sum(0, {by_p.node, 1}, {by_p.node, 1}, "yes");
  const Edge both = On(0, Add("Join", {no, yes}, {}, "both"));
  Sum(1, both, x, "after");
  const Partitioned parted = Parted();
  std::map<std::string, bool> dead;
  for (const Channel& channel : parted.channels) dead[graph.EdgeName(channel.value)] = channel.may_be_dead;
  EXPECT_EQ(dead, (std::map<std::string, bool>{{"by_p:0", true}, {"no:0", true}, {"both:0", false}, {"x:0", false}}));
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, SendsALoopsConditionOnceATurnToEachOtherParticipant) {
  const Edge zero = On(0, Value(0, "zero")), limit = On(0, Value(10, "limit"));
  Edge inner;
  const Loop loop = While(
      "loop", {zero, zero},
      [&](const Edges& v) {
        return On(0, Add("Below", {v[0], On(0, Into(limit, "loop", true))}));
      },
      [&](const Edges& v) {
        inner = Sum(1, v[1], v[1], "on_b");
        return Edges{Sum(0, v[0], v[0], "on_a"), Sum(2, inner, v[1], "on_c")};
      });
  for (const auto* edges : {&loop.enters, &loop.merges, &loop.switches, &loop.nexts, &loop.exits})
    for (Edge edge : *edges) On(0, edge);
  On(0, loop.condition);
  const Partitioned parted = Parted();
  ASSERT_EQ(parted.parts.size(), 3u);
  int conditions = 0;
  for (const Channel& channel : parted.channels) {
    conditions += channel.value == loop.condition;
    EXPECT_EQ(channel.depth, 1);
    EXPECT_FALSE(channel.may_be_dead) << channel.name;
  }
  EXPECT_EQ(conditions, 2) << "participants without the one that has the condition";
  // The others: values of the body, each once.
  EXPECT_EQ(parted.channels.size(), 2u + 4u);
  // The machine of a participant carries one value that nobody reads.
  const Part& b = *PartOn(parted, 1);
  EXPECT_EQ(Count(b, TENON_OP_ENTER), 1);
  EXPECT_EQ(Count(b, TENON_OP_NEXT_ITERATION), 1);
  EXPECT_EQ(Count(b, TENON_OP_EXIT), 0);
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, RunsALoopsInvariantsOnEachDeviceThatReadsThem) {
  const Edge zero = On(0, Value(0, "zero")), x = On(0, Feed(TENON_DT_FLOAT, {}, "x"));
  const Edge doubled = Sum(0, x, x, "doubled");
  const Loop loop = While("loop", {zero}, [&](const Edges& v) { return On(0, Add("Below", {v[0], v[0]})); },
                          [&](const Edges& v) {
                            const Edge invariant = On(0, Into(doubled, "loop", true, "invariant"));
                            return Edges{Sum(1, v[0], invariant)};
                          });
  for (const auto* edges : {&loop.enters, &loop.merges, &loop.switches, &loop.nexts, &loop.exits})
    for (Edge edge : *edges) On(0, edge);
  On(0, loop.condition);
  const Partitioned parted = Parted();
  std::map<std::string, int32_t> depths;
  for (const Channel& channel : parted.channels) depths[graph.EdgeName(channel.value)] = channel.depth;
  EXPECT_EQ(depths["doubled:0"], 0) << "it crosses once, not in every turn";
  EXPECT_FALSE(depths.contains("invariant:0"));
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, RefusesReferencesAndHandlesThatWouldCross) {
  const Edge cell = On(0, Add("Cell", {}, {}, "cell"));
  On(1, Add("Write", {cell, On(1, Value(1))}, {}, "write"));
  EXPECT_EQ(Error().message(),
            "node 'write' (Write) on /device:B:0 takes a reference of node 'cell' (Cell) on /device:A:0; they must be "
            "on one device");
  graph.mutable_node(graph.Find("write")).device = kDevices[0];
  const Edge handle = On(0, Add("Handle", {}, {}, "handle"));
  On(1, Add("Look", {handle}, {}, "look"));
  EXPECT_EQ(Error().message(),
            "node 'look' (Look) on /device:B:0 takes a resource handle of node 'handle' (Handle) on /device:A:0; they "
            "must be on one device");
}

TEST_F(PartitionTest, SendsTheValueOfAVariableThatIsReadElsewhere) {
  const Edge cell = On(0, Add("Cell", {}, {}, "cell"));
  Sum(1, cell, cell);
  const Partitioned parted = Parted();
  EXPECT_EQ(Channels(parted), std::vector<std::string>{"cell:0 A>B"});
  CheckParts(graph, parted, true);
}

TEST_F(PartitionTest, RefusesALoopOverSeveralDevicesThatHasNoOneCondition) {
  const Edge start = On(0, Value(0));
  const Edge merge = On(0, Add("Join", {On(0, Into(start, "endless")), {}}));
  const Edge next = On(0, Add("Again", {Sum(1, merge, merge)}));
  ASSERT_TRUE(graph.SetInput(merge.node, 1, next).ok());
  EXPECT_EQ(Error().message(),
            "loop 'endless' stands on several devices, but has no loop condition; put its nodes on one device");
}

// ---- Random graphs ----

class RandomParts : public PartitionTest {
 protected:
  void Make(uint32_t seed) {
    random_.seed(seed);
    graph = graph::Graph(&fakes::TinyOps());
    loops_ = 0;
    Edges values = {Any(Feed(TENON_DT_FLOAT, {}, "x")), Any(Value(3)), Any(Feed(TENON_DT_FLOAT, {}, "y"))};
    feeds_ = {values[0], values[2]};
    Grow(&values, 3 + static_cast<int>(Draw(20)), 2);
    fetches_ = {values.back()};
  }
  uint32_t Draw(uint32_t below) { return static_cast<uint32_t>(random_()) % below; }
  Edge Any(Edge edge) { return On(static_cast<int>(Draw(3)), edge); }
  Edge Pick(const Edges& values) { return values[Draw(static_cast<uint32_t>(values.size()))]; }

  void Grow(Edges* values, int steps, int depth) {
    for (int i = 0; i < steps; ++i) {
      const uint32_t what = Draw(10);
      std::vector<graph::NodeId> controls;
      if (Draw(4) == 0) controls.push_back(Pick(*values).node);
      if (what == 0 && depth > 0) GrowLoop(values, depth);
      else if (what == 1) GrowConditional(values);
      else values->push_back(Any(Add("Plus", {Pick(*values), Pick(*values)}, {}, {}, controls)));
    }
  }
  void GrowConditional(Edges* values) {
    const Edge p = Any(Add("Below", {Pick(*values), Pick(*values)}));
    const Edge by_p = Any(Add("Branch", {Pick(*values), p}));
    const Edge sides[] = {Any(Add("Plus", {{by_p.node, 0}, {by_p.node, 0}})),
                          Any(Add("Plus", {{by_p.node, 1}, {by_p.node, 1}}))};
    values->push_back(Any(Add("Join", {sides[0], sides[1]})));
  }
  void GrowLoop(Edges* values, int depth) {
    const std::string name = StrCat("loop", loops_++);
    Edges initial = {Pick(*values), Pick(*values)};
    const Edge outside = Pick(*values);
    const Loop loop = While(
        name, initial,
        [&](const Edges& v) {
          return Any(Add("Below", {v[0], Any(Into(outside, name, true))}));
        },
        [&](const Edges& v) {
          Edges inside = v;
          inside.push_back(
              Any(Add("Value", {},
                      {{"dtype", graph::AttrValue::Type(TENON_DT_FLOAT)},
                       {"value", graph::AttrValue::OfTensor(fakes::TensorOf<float>(TENON_DT_FLOAT, {}, {1}))}},
                      {}, {Any(Add("Copy", {v[0]})).node})));
          Grow(&inside, 1 + static_cast<int>(Draw(5)), depth - 1);
          return Edges{inside[inside.size() - 1], inside[inside.size() / 2]};
        });
    for (size_t i = 0; i < initial.size(); ++i) {
      const int device = static_cast<int>(Draw(3));
      for (Edge edge : {loop.enters[i], loop.merges[i], loop.switches[i], loop.nexts[i], loop.exits[i]})
        if (together_) On(device, edge);
        else Any(edge);
    }
    Any(loop.condition);
    for (Edge exit : loop.exits) values->push_back(exit);
  }

  std::mt19937 random_;
  int loops_ = 0;
  bool together_ = true;  // the parts of a loop variable
};

TEST_F(RandomParts, MergeIntoTheSameGraph) {
  for (uint32_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    together_ = seed % 4 != 0;
    Make(seed);
    const Partitioned parted = Parted();
    CheckParts(graph, parted, together_);
    EXPECT_TRUE(loops_ > 0 || RunsToItsEnd(parted));
  }
}

}  // namespace
}  // namespace tenon::partition::partition_test
