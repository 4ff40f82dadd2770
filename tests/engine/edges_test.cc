// SPDX-License-Identifier: Apache-2.0
// Every edge of a graph fed and fetched: with the value that it had, a feed changes nothing; a fetch is answered or
// refused by name, the same by every executor. Edges inside loops have a value in each turn, and are refused. Covers
// C3, C7.
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>

#include "tests/engine/random_program_run.h"
#include "tests/golden/read_file.h"

namespace tenon::engine::edges_test {
namespace {

struct Manner {
  std::string name;
  SessionOptions options{};
};
std::vector<Manner> Manners() {
  std::vector<Manner> manners = {{"straight"}, {"unoptimized"}, {"dynamic"}, {"dynamic, unoptimized"}, {"parted"}};
  manners[1].options.optimize = manners[3].options.optimize = false;
  manners[2].options.executor = manners[3].options.executor = TENON_EXECUTOR_DYNAMIC;
  manners[4].options.debug.partition = true;
  return manners;
}

bool HasNumbers(DType dtype) {
  return IsFloating(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kBool;
}
bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

// A graph with what it is fed, in a session of each manner.
class Edges {
 public:
  Edges(const Graph& graph, std::vector<Feed> feeds, std::vector<Name> results, Name before = "")
      : feeds_(std::move(feeds)), results_(std::move(results)), before_(std::move(before)) {
    for (int64_t node = 0; node < graph.node_count(); ++node)
      for (const Output& edge : Operation(graph.get(), node).outputs())
        if (HasNumbers(edge.dtype())) names_.push_back(edge.name());
    for (const Manner& manner : Manners()) {
      auto session = Session::Create(TheRuntime(), graph, manner.options);
      EXPECT_TRUE(session.ok()) << session.status();
      sessions_.emplace_back(manner.name, std::move(*session));
    }
  }

  // Empty, or what is wrong.
  std::string Check(uint32_t seed, bool each) {
    for (const auto& [manner, session] : sessions_) {
      auto right = Run(session, {}, results_);
      if (!right.ok()) return manner + ": " + right.status().ToString();
      right_.push_back(std::move(*right));
    }
    if (const std::string why = CheckFetches(); !why.empty()) return why;
    if (values_.empty()) return "";
    std::mt19937 random(seed);
    const auto any = [&] {
      return std::next(values_.begin(), static_cast<std::ptrdiff_t>(random() % values_.size()))->first;
    };
    for (const auto& [name, value] : values_) {
      if (!each && random() % 4 != 0) continue;
      if (const std::string why = CheckFeeds({name}); !why.empty()) return why;
    }
    for (int i = 0; i < 8; ++i) {
      std::set<std::string> several;
      for (size_t count = 2 + random() % 3; count-- > 0;) several.insert(any());
      if (const std::string why = CheckFeeds({several.begin(), several.end()}); !why.empty()) return why;
    }
    return "";
  }
  const std::map<std::string, Tensor>& values() const { return values_; }
  const std::map<std::string, Status>& refused() const { return refused_; }

 private:
  Result<std::vector<Tensor>> Run(const Session& session, const std::vector<Feed>& more,
                                  const std::vector<Name>& fetches) {
    if (!before_.text().empty())
      if (Status status = session.RunTargets({before_}); !status.ok()) return status;
    std::vector<Feed> feeds = more;
    for (const Feed& feed : feeds_) {
      const auto is_it = [&](const Feed& other) { return other.name.text() == feed.name.text(); };
      if (std::none_of(more.begin(), more.end(), is_it)) feeds.push_back(feed);
    }
    RunOptions options;
    options.timeout = std::chrono::seconds(20);
    return session.Run(feeds, fetches, {}, options);
  }

  std::string CheckFetches() {
    for (const std::string& name : names_) {
      std::optional<Result<std::vector<Tensor>>> first;
      for (const auto& [manner, session] : sessions_) {
        auto found = Run(session, {}, {name});
        if (!first.has_value()) {
          first = found;
          continue;
        }
        const std::string where = "fetch " + name + ", " + manner + ": ";
        if (found.ok() != first->ok())
          return where + (found.ok() ? "answered" : found.status().ToString()) + ", and straight " +
                 (first->ok() ? "answered" : first->status().ToString());
        if (!found.ok() && found.status().code() != first->status().code())
          return where + found.status().ToString() + ", and straight " + first->status().ToString();
        if (found.ok() && !SameBits((*found)[0], (**first)[0])) return where + "another value than in straight code";
      }
      if (first->ok()) values_.emplace(name, (**first)[0]);
      else refused_.emplace(name, first->status());
    }
    return "";
  }

  std::string CheckFeeds(const std::vector<std::string>& names) {
    std::string what = "feed";
    std::vector<Feed> fed;
    for (const std::string& name : names) {
      what += " " + name;
      fed.push_back({name, values_.at(name)});
    }
    for (size_t i = 0; i < sessions_.size(); ++i) {
      auto found = Run(sessions_[i].second, fed, results_);
      if (!found.ok()) return what + ", " + sessions_[i].first + ": " + found.status().ToString();
      for (size_t k = 0; k < found->size(); ++k)
        if (!SameBits((*found)[k], right_[i][k]))
          return what + ", " + sessions_[i].first + ": " + results_[k].text() + " is another value";
    }
    return "";
  }

  const std::vector<Feed> feeds_;
  const std::vector<Name> results_;
  const Name before_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, Session>> sessions_;
  std::vector<std::vector<Tensor>> right_;   // by session
  std::map<std::string, Tensor> values_;     // of edges outside of loops and of branches that were not taken
  std::map<std::string, Status> refused_;
};

TEST(Edges, OfRandomProgramsAreFedAndFetched) {
  int fetched = 0, refused = 0, wrong = 0;
  for (uint32_t seed = 0; seed < 40 && wrong < 5; ++seed) {
    ProgramOptions options;
    options.steps = 3 + static_cast<int>(seed % 7);
    options.depth = static_cast<int>(seed % 3);
    const Region program = ProgramMaker(seed, options).Make();
    Graph graph(TheRuntime());
    std::vector<Output> parameters;
    for (const Type& type : program.parameters)
      parameters.push_back(graph.Placeholder("x" + std::to_string(parameters.size()), type.dtype, ShapeOf(type.form)));
    const std::vector<Output> values = ProgramBuilder(graph).Build(program, parameters);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const std::vector<Plain> plain = RandomParameters(program, seed);
    std::vector<Feed> feeds;
    for (size_t i = 0; i < plain.size(); ++i)
      feeds.push_back({parameters[i], TensorOf(plain[i].type.dtype, ShapeOf(plain[i].type.form), plain[i].elements)});
    std::vector<Name> results;
    for (const int result : program.results) results.push_back(values[static_cast<size_t>(result)]);
    Edges edges(graph, feeds, results);
    const std::string why = edges.Check(seed, false);
    if (!why.empty()) ADD_FAILURE() << "seed " << seed << ": " << why << "\n" << Describe(program, program.results);
    wrong += !why.empty();
    fetched += static_cast<int>(edges.values().size());
    refused += static_cast<int>(edges.refused().size());
    for (const auto& [name, status] : edges.refused())
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << name << ": " << status;
  }
  EXPECT_GT(fetched, 800);
  EXPECT_GT(refused, 800);
}

// Calls, branches and loops over functions, as TensorFlow wrote them.
TEST(Edges, OfCallsBranchesAndLoopsOverFunctionsAreFedAndFetched) {
  for (const std::string file : {"control_flow", "call_forms"}) {
    const auto golden = nlohmann::json::parse(ReadFile(file + ".json"));
    const auto graph = Graph::Import(TheRuntime(), ReadFile(file + ".pb"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const int32_t n : {0, 2}) {
      std::vector<Feed> feeds = {{"n", *Tensor::Scalar(n)}};
      for (const std::string name : {"x", "w"})
        feeds.push_back({name, *Tensor::From(golden["feeds"][name].get<std::vector<double>>(), Shape{3})});
      std::vector<Name> results;
      // A feed in the place of what writes to a variable leaves that out.
      for (const auto& [name, value] : golden["steps"][0]["found"].items())
        if (name != "state") results.emplace_back("y_" + name + ":0");
      Edges edges(*graph, feeds, results, Name(golden["initialize"].get<std::string>()));
      const std::string why = edges.Check(static_cast<uint32_t>(n), true);
      EXPECT_EQ(why, "") << file << ", n = " << n;
      EXPECT_GT(edges.values().size(), 40u);
    }
  }
}

// ---- One by one ----

// y = x doubled while i < n, from 10 on.
struct Doubled {
  Doubled() {
    const auto last = While(
        g, {g.Const(10), x}, {n},
        [&](const auto& v) {
          return g.Op("Less", {v[0], v[2]}, {}, "asks");
        },
        [&](const auto& v) {
          return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}, {}, "plus"),
                                     g.Op("AddV2", {v[1], v[1]}, {}, "twice")};
        });
    g.Op("Identity", {last[1]}, {}, "y");
  }
  std::vector<Feed> FeedsOf(int32_t limit) const {
    return {{n, *Tensor::Scalar(limit)}, {x, *Tensor::From(std::vector<float>{1, 2}, Shape{2})}};
  }
  Graph g{TheRuntime()};
  Output n = g.Placeholder("n", DType::kInt32, {}), x = g.Placeholder("x", DType::kFloat, {2});
};

TEST(Edges, InsideALoopAreNoFetchesByAnyExecutor) {
  const Doubled loop;
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), loop.g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    for (const int32_t limit : {13, 10})
      for (const char* name : {"while/plus:0", "while/twice:0", "while/asks:0", "while/Merge:0", "while/Switch:1",
                               "while/NextIteration:0", "while/Enter:0"}) {
        const auto found = session->Run(loop.FeedsOf(limit), {name});
        ASSERT_FALSE(found.ok()) << manner.name << ": " << name;
        EXPECT_EQ(found.status().code(), Code::kInvalidArgument) << found.status();
        EXPECT_TRUE(found.status().message().find("is inside a loop ('while') and cannot be fetched") !=
                    std::string::npos)
            << found.status();
      }
    auto y = session->Run(loop.FeedsOf(13), {"y:0", "while/Exit:0"});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(Values<float>((*y)[0]), (std::vector<float>{8, 16}));
    EXPECT_EQ(Values<int32_t>((*y)[1])[0], 13);
  }
}

TEST(Edges, InsideALoopAreNoFeedsByAnyExecutor) {
  const Doubled loop;
  const Tensor number = *Tensor::Scalar(12), vector = *Tensor::From(std::vector<float>{5, 6}, Shape{2}),
               no = *Tensor::Scalar(false);
  const std::vector<std::pair<std::string, Tensor>> inside = {
      {"while/plus:0", number},    {"while/twice:0", vector},    {"while/asks:0", no},
      {"while/Merge:0", number},   {"while/Switch_1:1", vector}, {"while/NextIteration:0", number},
      {"while/Enter_1:0", vector}, {"while/Enter_2:0", number},  {"while/LoopCond:0", no}};
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), loop.g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    for (const auto& [name, value] : inside) {
      std::vector<Feed> feeds = loop.FeedsOf(13);
      feeds.push_back({name, value});
      const auto found = session->Run(feeds, {"y:0"});
      ASSERT_FALSE(found.ok()) << manner.name << ": " << name;
      EXPECT_EQ(found.status().code(), Code::kInvalidArgument) << found.status();
      EXPECT_TRUE(found.status().message().find("feed '" + name + "': ") != std::string::npos &&
                  found.status().message().find("is inside a loop") != std::string::npos)
          << found.status();
    }
    std::vector<Feed> feeds = loop.FeedsOf(13);
    feeds.push_back({"while/Exit_1:0", vector});
    auto y = session->Run(feeds, {"y:0"});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ(Values<float>((*y)[0]), (std::vector<float>{5, 6})) << "what leaves the loop";
  }
}

TEST(Edges, OfABranchThatIsNotTakenAreAUsersError) {
  Graph g(TheRuntime());
  const Output p = g.Placeholder("p", DType::kBool, {}), x = g.Placeholder("x", DType::kFloat, {});
  Cond(g, p, {x}, [&](const auto& v) { return std::vector<Output>{g.Op("Square", {v[0]}, {}, "squared")}; },
       [&](const auto& v) { return std::vector<Output>{g.Op("Neg", {v[0]}, {}, "negative")}; });
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    const std::vector<Feed> feeds = {{p, *Tensor::Scalar(true)}, {x, *Tensor::Scalar(3.0f)}};
    auto taken = session->Run(feeds, {"cond/squared:0"});
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ((*taken)[0].scalar<float>(), 9);
    const auto other = session->Run(feeds, {"cond/negative:0"});
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.status().code(), Code::kInvalidArgument) << manner.name << ": " << other.status();
    EXPECT_TRUE(other.status().message().find(
                    "'cond/negative:0' has no value: it lies in a branch that was not taken") != std::string::npos)
        << other.status();
  }
}

// One output of a call is fed; the other is computed.
TEST(Edges, OfACallAreFedOneByOne) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {});
  const Function both =
      Define(g, "both",
             [](Graph& body, const std::vector<Output>& v) {
               return std::vector<Output>{body.Op("AddV2", {v[0], body.Const(1.0f)}), body.Op("Square", {v[0]})};
             },
             {{DType::kFloat, {}, "x"}});
  const Operation call = g.Call(both, {x}, "call");
  const Output sum = g.Op("Mul", {call.output(0), call.output(1)}, {}, "product");
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    const Feed three = {x, *Tensor::Scalar(3.0f)};
    for (const int fed : {0, 1}) {
      auto found = session->Run({three, {call.output(fed), *Tensor::Scalar(100.0f)}}, {sum});
      ASSERT_TRUE(found.ok()) << manner.name << ": " << found.status();
      EXPECT_EQ((*found)[0].scalar<float>(), fed == 0 ? 900 : 400) << manner.name;
    }
    auto neither =
        session->Run({{call.output(0), *Tensor::Scalar(2.0f)}, {call.output(1), *Tensor::Scalar(100.0f)}}, {sum});
    ASSERT_TRUE(neither.ok()) << "x is not needed: " << neither.status();
    EXPECT_EQ((*neither)[0].scalar<float>(), 200);
  }
}

// A node of one input is fed, and another output of the node that gives it.
TEST(Edges, AreFedBesideTheirSiblings) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {4}), p = g.Placeholder("p", DType::kBool, {});
  const Operation halves = g.AddNode("Split", {g.Const(0), x}, {{"num_split", 2}}, "s");
  const Output first = g.Op("PlaceholderWithDefault", {halves.output(0)}, {{"shape", Shape{2}}}, "first");
  const std::vector<Output> either = Cond(
      g, p, {first, halves.output(1)},
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], v[1]})};
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("Sub", {v[0], v[1]})};
      });
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto pair = [](float a, float b) { return *Tensor::From(std::vector<float>{a, b}, Shape{2}); };
    auto found =
        session->Run({{p, *Tensor::Scalar(true)}, {first, pair(1, 2)}, {halves.output(1), pair(10, 20)}}, {either[0]});
    ASSERT_TRUE(found.ok()) << manner.name << ": " << found.status();
    EXPECT_EQ(Values<float>((*found)[0]), (std::vector<float>{11, 22})) << manner.name;
  }
}

// Others wait for an op that is fed: it runs. Where nobody does, it does not.
TEST(Edges, AreFedAndTheirNodesRunWhereOthersWaitForThem) {
  Graph g(TheRuntime());
  const Output queue = g.Op("FIFOQueueV2", {},
                            {{"component_types", std::vector<DType>{DType::kFloat}},
                             {"shapes", std::vector<Shape>{Shape{}}},
                             {"shared_name", "edges"}},
                            "queue");
  g.AddNode("QueueEnqueueManyV2", {queue, g.Const({1.0f, 2.0f, 3.0f, 4.0f})},
            {{"Tcomponents", std::vector<DType>{DType::kFloat}}}, "fill");
  const Output taken =
      g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "taken");
  Output after;
  {
    const auto waits = g.ControlDependencies({Operation(taken)});
    after = g.Op("QueueSizeV2", {queue}, {}, "after");
  }
  const Output twice = g.Op("AddV2", {taken, taken}, {}, "twice"), left = g.Op("QueueSizeV2", {queue}, {}, "left");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const Manner& manner : Manners()) {
    auto session = Session::Create(TheRuntime(), g, manner.options);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->RunTargets({"fill"}).ok());
    const auto run = [&](const std::vector<Name>& fetches, const std::vector<Name>& targets = {}) {
      auto found = session->Run({{taken, *Tensor::Scalar(9.0f)}}, fetches, targets);
      EXPECT_TRUE(found.ok()) << manner.name << ": " << found.status();
      return found.ok() ? std::move(*found) : std::vector<Tensor>();
    };
    const auto found = run({after, twice});
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].scalar<int32_t>(), 3) << manner.name;
    EXPECT_EQ(found[1].scalar<float>(), 18) << manner.name;
    EXPECT_EQ(run({twice})[0].scalar<float>(), 18);
    EXPECT_EQ(run({left})[0].scalar<int32_t>(), 3) << manner.name << ": nobody waited";
    run({}, {Name("taken")});
    EXPECT_EQ(run({left})[0].scalar<int32_t>(), 2) << manner.name << ": it was a target";
    EXPECT_TRUE(session->Run({}, {taken}).ok() && session->Run({}, {taken}).ok());
  }
}

}  // namespace
}  // namespace tenon::engine::edges_test
