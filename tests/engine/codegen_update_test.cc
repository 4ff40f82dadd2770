// SPDX-License-Identifier: Apache-2.0
// Updates of variables at the end of chains, as machine code (devices/cpu_codegen): the bits of the kernels one by one,
// in what is kept and what is fetched; failures, races, and steps that are given up. TENON_CHAINS=10000 tries so many
// random chains.
#include <filesystem>
#include <limits>
#include <thread>

#include "tests/engine/codegen.h"

namespace tenon::engine::codegen_update_test {
namespace {

using Updates = Codegen;

struct Rule {
  const char* op;
  int variables;
  bool gradient_last;            // else before the last scalar
  std::vector<double> scalars;
  bool has_nesterov = false;
};
const Rule kRules[] = {{"AssignAddVariableOp", 1, true, {}},
                       {"AssignSubVariableOp", 1, true, {}},
                       {"ResourceApplyGradientDescent", 1, true, {0.037}},
                       {"ResourceApplyMomentum", 2, false, {0.037, 0.91}, true},
                       {"ResourceApplyKerasMomentum", 2, false, {0.037, 0.91}, true},
                       {"ResourceApplyAdagrad", 2, true, {0.037}},
                       {"ResourceApplyAdagradV2", 2, true, {0.037, 1e-3}},
                       {"ResourceApplyRMSProp", 3, true, {0.037, 0.9, 0.3, 1e-3}},
                       {"ResourceApplyAdam", 3, true, {0.9, 0.999, 0.037, 0.91, 0.99, 1e-3}, true}};

std::string NewName() {
  static int made = 0;
  return "variable" + std::to_string(++made);
}

Tensor Numbers(const Shape& shape, uint64_t seed, bool is_special) {
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
  const float special[] = {
      0.f, -0.f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e-39f, -3e38f};
  std::vector<float> numbers;
  Random random(seed);
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(is_special && random() % 40 == 0
                          ? special[random() % std::size(special)]
                          : static_cast<float>(static_cast<double>(random() % 20001) / 2000 - 5));
  return *Tensor::From(numbers, shape);
}

// Variables of one shape that a chain over g, which is fed, and perhaps over their values changes.
struct Training {
  Training(Runtime& runtime, const Rule& chosen, DType dtype, const Shape& dims)
      : rule(chosen), graph(runtime), type(dtype), shape(dims) {
    for (int k = 0; k < rule.variables; ++k) {
      handles.push_back(graph.Op("VarHandleOp", {}, {{"dtype", type}, {"shape", shape}, {"shared_name", NewName()}}));
      // Slots are sums of squares in places.
      const Tensor first = Numbers(shape, static_cast<uint64_t>(k) + 5, false);
      Output value = graph.Const(View(first));
      if (k > 0) value = graph.Op("Abs", {value});
      inits.push_back(graph.AddNode("AssignVariableOp", {handles.back(), Cast(value)}, {}, "init" + std::to_string(k)));
      values.push_back(graph.Op("ReadVariableOp", {handles.back()}, {{"dtype", type}}, "value" + std::to_string(k)));
    }
    feed = graph.Placeholder("g", DType::kFloat, shape);
    gradient = Cast(feed);
  }
  Output Cast(const Output& value) {
    return type == DType::kFloat ? value : graph.Op("Cast", {value}, {{"DstT", type}});
  }
  Output Scalar(double value) { return Cast(graph.Const(static_cast<float>(value))); }
  Operation Update(const Output& by, const std::vector<Operation>& after, const std::string& name,
                   bool nesterov = false) {
    std::vector<Output> in = handles;
    for (size_t i = 0; i < rule.scalars.size(); ++i) {
      if (!rule.gradient_last && i + 1 == rule.scalars.size()) in.push_back(by);
      in.push_back(Scalar(rule.scalars[i]));
    }
    if (rule.gradient_last) in.push_back(by);
    const auto guard = graph.ControlDependencies(after);
    return rule.has_nesterov ? graph.AddNode(rule.op, in, {{"use_nesterov", nesterov}}, name)
                             : graph.AddNode(rule.op, in, {}, name);
  }
  Output Read(const std::vector<Operation>& after) {
    const auto guard = graph.ControlDependencies(after);
    return graph.Op("ReadVariableOp", {handles[0]}, {{"dtype", type}});
  }
  // Some nodes over the gradient and what else there is.
  Output RandomGradient(Random& random, std::vector<Output>* made) {
    std::vector<Output> from = {gradient, graph.Op("Neg", {gradient})};
    if (random() % 2 == 0) from.push_back(graph.Op("ReadVariableOp", {handles[0]}, {{"dtype", type}}));
    const char* const binary[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"};
    const char* const unary[] = {"Neg", "Abs", "Relu", "Square"};
    for (size_t n = 0, count = 1 + random() % 6; n < count; ++n) {
      const Output a = from[random() % from.size()], b = from[from.size() - 1 - random() % 2];
      switch (random() % 4) {
        case 0: from.push_back(graph.Op(unary[random() % std::size(unary)], {a})); break;
        case 1: from.push_back(graph.Op("Mul", {b, Scalar(0.625)})); break;
        case 2: from.push_back(graph.Op("AddN", {std::vector<Output>{a, b}})); break;
        default: from.push_back(graph.Op(binary[random() % std::size(binary)], {a, b})); break;
      }
      if (random() % 6 == 0) made->push_back(from.back());
    }
    return from.back();
  }

  const Rule& rule;
  Graph graph;
  DType type;
  Shape shape;
  std::vector<Output> handles, values;
  std::vector<Operation> inits;
  Output feed, gradient;
};

// Three steps of the targets; then what was fetched in the last and what the variables are.
Answer Train(Runtime& runtime, const Training& training, const std::vector<Output>& fetches,
             const std::vector<Name>& targets, bool compile, const Tensor& fed) {
  SessionOptions options;
  options.compile = compile;
  Answer answer;
  EXPECT_TRUE(training.graph.status().ok()) << training.graph.status().message();
  auto session = Session::Create(runtime, training.graph, options);
  if (!session.ok()) return answer.failure = session.status().message(), answer;
  for (const Operation& init : training.inits)
    if (auto status = session->Run({}, {}, {init}).status(); !status.ok())
      return answer.failure = status.message(), answer;
  auto callable = session->Prepare({training.feed}, std::vector<Name>(fetches.begin(), fetches.end()), targets);
  if (!callable.ok()) return answer.failure = callable.status().message(), answer;
  for (int step = 0; step < 3; ++step) {
    auto values = callable->Run({View(fed)});
    if (!values.ok()) return answer.failure = values.status().message(), answer;
    answer.values = std::move(*values);
  }
  answer.how = HowNodesRun(*callable->Explain());
  auto left = session->Run({}, std::vector<Name>(training.values.begin(), training.values.end()));
  if (!left.ok()) return answer.failure = left.status().message(), answer;
  for (Tensor& each : *left) answer.values.push_back(std::move(each));
  return answer;
}

int Compared(Runtime& runtime, const Training& training, const std::vector<Output>& fetches,
             const std::vector<Name>& targets, const std::string& what) {
  const Tensor fed = Numbers(training.shape, 77, true);
  const Answer kernels = Train(runtime, training, fetches, targets, false, fed),
               code = Train(runtime, training, fetches, targets, true, fed);
  EXPECT_EQ(kernels.failure, "") << what;
  EXPECT_EQ(code.failure, "") << what;
  EXPECT_EQ(kernels.how.count("compiled"), 0u) << what;
  EXPECT_EQ(kernels.values.size(), code.values.size()) << what;
  for (size_t i = 0; i < std::min(kernels.values.size(), code.values.size()); ++i)
    EXPECT_EQ(DifferenceOf(kernels.values[i], code.values[i]), "") << what << ", value " << i;
  const auto found = code.how.find("compiled");
  return found == code.how.end() ? 0 : found->second;
}

TEST_P(Updates, HaveTheBitsOfTheirKernels) {
  for (const Rule& rule : kRules)
    for (const DType type :
         {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64})
      for (const bool nesterov : {false, true}) {
        if ((nesterov && !rule.has_nesterov) ||
            (!rule.scalars.empty() && (type == DType::kInt32 || type == DType::kInt64)))
          continue;
        for (const Shape& shape : {Shape{5}, Shape{3, 33}, Shape{70001}}) {
          Training training(*runtime_, rule, type, shape);
          const Output by =
              training.graph.Op("Sub", {training.graph.Op("Neg", {training.gradient}), training.gradient});
          training.Update(by, {}, "update", nesterov);
          EXPECT_GE(Compared(*runtime_, training, {}, {"update"},
                             std::string(rule.op) + " " + DTypeName(type) + (nesterov ? " nesterov" : "")),
                    type == DType::kInt64 ? 0 : 3)
              << rule.op << " " << DTypeName(type);
        }
      }
}

TEST_P(Updates, OfRandomChainsHaveTheBitsOfTheirKernels) {
  const char* const asked = std::getenv("TENON_CHAINS");
  const int count = asked == nullptr ? 150 : std::atoi(asked);
  int compiled = 0;
  for (int seed = 1; seed <= count && !HasFailure(); ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const DType types[] = {DType::kFloat, DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16};
    const Shape shapes[] = {Shape{2}, Shape{0, 3}, Shape{17}, Shape{9, 100}, Shape{3, 5, 700}, Shape{40000}};
    Training training(*runtime_, kRules[random() % std::size(kRules)], types[random() % std::size(types)],
                      shapes[random() % std::size(shapes)]);
    std::vector<Output> fetches;
    const Output by = training.RandomGradient(random, &fetches);
    if (random() % 4 == 0) fetches.push_back(by);
    training.Update(by, {}, "update", random() % 2 == 0);
    compiled +=
        Compared(*runtime_, training, fetches, {"update"}, "seed " + std::to_string(seed) + ", " + training.rule.op);
  }
  EXPECT_TRUE(asked != nullptr || compiled > 2 * count) << "so few nodes were compiled that nothing was tried";
}

// What the graph orders is ordered: two updates of one variable, a read between them, and one that both came after.
TEST_P(Updates, KeepTheOrderOfTheGraph) {
  for (const Rule& rule : kRules) {
    Training t(*runtime_, rule, DType::kFloat, Shape{300});
    Graph& g = t.graph;
    const Output a = g.Op("Square", {g.Op("Neg", {t.gradient})}), b = g.Op("Abs", {g.Op("Sub", {t.gradient, a})});
    const Output before = g.Op("Neg", {t.Read({})}, {}, "old");
    const Operation first = t.Update(a, {*g.Find("old")}, "first");
    const Output between = t.Read({first});
    // The second one's chain reads what the first has written.
    const Output c = g.Op("Mul", {g.Op("AddV2", {b, between}), b});
    const Operation second = t.Update(c, {first}, "second");
    const Output after = g.Op("Neg", {t.Read({second})});
    EXPECT_GT(Compared(*runtime_, t, {before, between, after, c, a}, {second}, rule.op), 3) << rule.op;
  }
}

// A gradient of which the variable's old value is a part (a decay of weights): the value that was read is the memory
// that is written, as if the two were apart.
TEST_P(Updates, OverTheValueThatWasReadTakeNoSecondMemory) {
  constexpr int64_t kCount = 1 << 20;
  for (const Rule& rule : kRules)
    for (const bool reads_all : {false, true}) {
      uint64_t bytes[2];
      for (const bool decays : {false, true}) {
        Training t(*runtime_, rule, DType::kFloat, Shape{kCount});
        Output by = t.graph.Op("Mul", {t.gradient, t.graph.Const(0.5f)});
        for (size_t k = 0; k < (decays ? reads_all ? t.handles.size() : 1 : 0); ++k)
          by = t.graph.Op("AddV2",
                          {by, t.graph.Op("Mul", {t.graph.Op("ReadVariableOp", {t.handles[k]}, {{"dtype", t.type}}),
                                                  t.graph.Const(0.01f)})});
        t.Update(by, {}, "update");
        if (decays) { EXPECT_GE(Compared(*runtime_, t, {}, {"update"}, rule.op), 4) << rule.op; }
        auto session = Session::Create(*runtime_, t.graph);
        ASSERT_TRUE(session.ok()) << session.status().message();
        for (const Operation& init : t.inits) ASSERT_TRUE(session->Run({}, {}, {init}).ok());
        const Tensor fed = Numbers(t.shape, 1, false);
        auto callable = session->Prepare({t.feed}, {}, {"update"});
        ASSERT_TRUE(callable.ok()) << callable.status().message();
        for (int step = 0; step < 3; ++step) { ASSERT_TRUE(callable->Run({View(fed)}).ok()); }
        const auto metrics = session->Metrics();
        ASSERT_TRUE(metrics.ok()) << metrics.status().message();
        bytes[decays] = metrics->bytes_in_use;
      }
      EXPECT_LT(bytes[1], bytes[0] + kCount) << rule.op << (reads_all ? ", all" : "");
    }
}

// Parts of the old value that each element needs are there until the last one is written.
TEST_P(Updates, ReadPartsOfTheOldValue) {
  for (const Rule& rule : kRules)
    for (const int part : {0, 1, 2, 3}) {
      Training t(*runtime_, rule, DType::kFloat, Shape{64, 512});
      Graph& g = t.graph;
      const Output old = g.Op("ReadVariableOp", {t.handles.back()}, {{"dtype", t.type}});
      const auto piece = [&](std::initializer_list<int32_t> from, std::initializer_list<int32_t> size) {
        return g.Op("Slice", {old, g.Const(from), g.Const(size)});
      };
      const Output read = part == 0   ? piece({0, 0}, {1, 1})
                          : part == 1 ? piece({0, 0}, {1, 512})
                          : part == 2 ? piece({32, 0}, {1, 512})
                                      : g.Op("Reshape", {g.Op("Slice", {g.Op("Reshape", {old, g.Const({512, 64})}),
                                                                        g.Const({511, 63}), g.Const({1, 1})}),
                                                         g.Const(std::vector<int32_t>(), Shape{0})});
      const Output by = g.Op("Mul", {g.Op("AddV2", {t.gradient, read}), g.Op("Neg", {t.gradient})});
      t.Update(by, {}, "update");
      Compared(*runtime_, t, {}, {"update"}, std::string(rule.op) + " part " + std::to_string(part));
    }
}

// Rows of the old value in another order are all there until the last one is written.
TEST_P(Updates, GatherRowsOfTheOldValue) {
  std::vector<int32_t> turned;
  for (int32_t row = 63; row >= 0; --row) turned.push_back(row);
  for (const Rule& rule : kRules)
    for (const bool of_variable : {false, true}) {
      Training t(*runtime_, rule, DType::kFloat, Shape{64, 512});
      Graph& g = t.graph;
      const Output indices = g.Const(turned, Shape{64});
      const Output rows =
          of_variable
              ? g.Op("ResourceGather", {t.handles[0], indices}, {{"dtype", t.type}})
              : g.Op("GatherV2", {g.Op("ReadVariableOp", {t.handles[0]}, {{"dtype", t.type}}), indices, g.Const(0)});
      t.Update(g.Op("Mul", {g.Op("AddV2", {t.gradient, rows}), g.Op("Neg", {t.gradient})}), {}, "update");
      EXPECT_GE(Compared(*runtime_, t, {}, {"update"}, rule.op), 4) << rule.op;
    }
}

// One chain, two variables' updates: one of them is in the code.
TEST_P(Updates, OfOneGradientTwice) {
  Training t(*runtime_, kRules[3], DType::kFloat, Shape{300});
  const Output by = t.graph.Op("Square", {t.graph.Op("Neg", {t.gradient})});
  t.Update(by, {}, "update");
  const Output other =
      t.graph.Op("VarHandleOp", {}, {{"dtype", t.type}, {"shape", t.shape}, {"shared_name", NewName()}});
  t.inits.push_back(
      t.graph.AddNode("AssignVariableOp", {other, t.graph.Const(View(Numbers(t.shape, 3, false)))}, {}, "other"));
  t.values.push_back(t.graph.Op("ReadVariableOp", {other}, {{"dtype", t.type}}));
  t.graph.AddNode("AssignSubVariableOp", {other, by}, {}, "subtract");
  EXPECT_GE(Compared(*runtime_, t, {}, {"update", "subtract"}, ""), 2);
}

// The kernel's failure, with its node's name; and no variable has lost its value.
TEST_P(Updates, FailAsTheirKernelsDo) {
  for (const Rule& rule : kRules)
    for (int wrong = 0; wrong < rule.variables; ++wrong)
      for (const bool is_missing : {false, true}) {
        std::string failures[2];
        for (const bool compile : {false, true}) {
          Training t(*runtime_, rule, DType::kFloat, Shape{300});
          const auto at = static_cast<size_t>(wrong);
          const Output by = t.graph.Op("Square", {t.graph.Op("Neg", {t.gradient})});
          t.handles[at] = t.graph.Op(
              "VarHandleOp", {},
              {{"dtype", t.type}, {"shape", Shape::Unknown()}, {"shared_name", std::string("wrong") + NewName()}});
          t.graph.AddNode("AssignVariableOp", {t.handles[at], t.graph.Const(View(Numbers(Shape{30, 10}, 3, false)))},
                          {}, "wrong");
          t.Update(by, {}, "update");
          SessionOptions options;
          options.compile = compile;
          auto session = Session::Create(*runtime_, t.graph, options);
          ASSERT_TRUE(session.ok()) << session.status().message();
          for (const Operation& init : t.inits) ASSERT_TRUE(session->Run({}, {}, {init}).ok());
          if (!is_missing) { ASSERT_TRUE(session->Run({}, {}, {"wrong"}).ok()); }
          failures[compile] =
              session->Run({{t.feed, View(Numbers(t.shape, 1, false))}}, {}, {"update"}).status().message();
          for (size_t k = 0; k < t.values.size(); ++k) {
            const auto left = session->Run({}, {t.values[k]});
            EXPECT_TRUE(left.ok()) << rule.op << ": " << left.status().message();
          }
        }
        // Names of variables differ.
        const auto said = [](std::string text) {
          for (size_t at = text.find("variable"); at != std::string::npos; at = text.find("variable", at + 8))
            while (at + 8 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 8])) != 0)
              text.erase(at + 8, 1);
          return text;
        };
        EXPECT_NE(failures[0], "");
        EXPECT_NE(failures[0].find("node 'update' (" + std::string(rule.op) + ")"), std::string::npos) << failures[0];
        EXPECT_TRUE(said(failures[1]).ends_with(said(failures[0]))) << rule.op << "\n"
                                                                    << failures[0] << "\n"
                                                                    << failures[1];
        EXPECT_NE(failures[1], "");
      }
}

TEST_P(Updates, OfConcurrentStepsLoseNothing) {
  Training t(*runtime_, kRules[0], DType::kDouble, Shape{5000});
  const Output ones = t.graph.Op("Neg", {t.graph.Op("Neg", {t.graph.Op("OnesLike", {t.gradient})})});
  t.Update(ones, {}, "update");
  auto session = Session::Create(*runtime_, t.graph);
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (const Operation& init : t.inits) ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  const Tensor fed = Numbers(t.shape, 1, false);
  const auto first = DoublesOf((*session->Run({}, {t.values[0]}))[0]);
  constexpr int kThreads = 4, kSteps = 100;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int step = 0; step < kSteps; ++step) EXPECT_TRUE(session->Run({{t.feed, View(fed)}}, {}, {"update"}).ok());
    });
  for (std::thread& thread : threads) thread.join();
  const auto last = DoublesOf((*session->Run({}, {t.values[0]}))[0]);
  for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(last[i], first[i] + kThreads * kSteps, 1e-9) << i;
}

// A step that is given up has updated all elements or none.
TEST_P(Updates, AreWholeWhenTheirStepIsGivenUp) {
  Training t(*runtime_, kRules[0], DType::kDouble, Shape{1 << 20});
  t.Update(t.graph.Op("Square", {t.graph.Op("Neg", {t.graph.Op("OnesLike", {t.gradient})})}), {}, "update");
  t.graph.AddNode("AssignVariableOp", {t.handles[0], t.graph.Op("ZerosLike", {t.gradient})}, {}, "zero");
  auto session = Session::Create(*runtime_, t.graph);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Tensor fed = *Tensor::Zeros(DType::kFloat, t.shape);
  ASSERT_TRUE(session->Run({{t.feed, View(fed)}}, {}, {"zero"}).ok());
  int done = 0;
  for (int i = 0; i < 60; ++i) {
    RunOptions options;
    options.timeout = std::chrono::microseconds(200 + 100 * i);
    done += session->Run({{t.feed, View(fed)}}, {}, {"update"}, options).ok() ? 1 : 0;
    const auto left = session->Run({}, {t.values[0]});
    ASSERT_TRUE(left.ok()) << left.status().message();
    const auto got = DoublesOf((*left)[0]);
    ASSERT_EQ(std::count(got.begin(), got.end(), got[0]), static_cast<int64_t>(got.size()));
    ASSERT_GE(got[0], done);
  }
}

TEST_P(Updates, AreInWhatIsSaved) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tenon_codegen_update_" + std::string(GetParam()))).string();
  Training t(*runtime_, kRules[8], DType::kFloat, Shape{1000});
  const Operation update = t.Update(t.graph.Op("Square", {t.graph.Op("Neg", {t.gradient})}), {}, "update");
  const Output file = t.graph.StringConst(path), names = t.graph.StringConst(std::vector<std::string>{"v"}),
               slices = t.graph.StringConst(std::vector<std::string>{""});
  const Operation saved = t.graph.AddNode("SaveV2", {file, names, slices, t.Read({update})}, {}, "save");
  const auto guard = t.graph.ControlDependencies({saved});
  const Output restored = t.graph.Op("RestoreV2", {file, names, slices}, {{"dtypes", std::vector<DType>{t.type}}});
  EXPECT_EQ(Compared(*runtime_, t, {restored}, {"save"}, ""), 3);
  for (const char* end : {".index", ".data-00000-of-00001"}) std::filesystem::remove(path + end);
}

INSTANTIATE_TEST_SUITE_P(Levels, Updates, ::testing::Values("avx512", "avx2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::engine::codegen_update_test
