// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes as machine code (devices/cpu_codegen): the bits of the nodes one by one, or, of
// functions that the code computes in ways of its own, numbers within the rounding that
// devices/cpu_codegen/GENERATED_CODE.md states. Of AVX-512 and AVX2. TENON_CHAINS=100000 tries so many random graphs.
// Covers N8.
//
// With the other files of its program it takes half a minute: every function, type and layout, at both levels, each as
// a session with and one without code.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>

#include "tests/engine/codegen.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

namespace tenon::engine::codegen_test {
namespace {

int Chains() {
  const char* const asked = std::getenv("TENON_CHAINS");
  return asked == nullptr ? 400 : std::atoi(asked);
}
int FirstChain() {
  const char* const begin = std::getenv("TENON_CHAINS_FROM");
  return begin == nullptr ? 1 : std::atoi(begin);
}

TEST_P(Codegen, RandomGraphsOfExactFunctionsHaveTheBitsOfTheirNodes) {
  for (const bool has_rows : {false, true}) {
    int compiled = 0;
    for (int seed = FirstChain(); seed <= Chains() && !HasFailure(); ++seed) {
      RandomChain chain(*runtime_, static_cast<uint64_t>(seed),
                        {.is_exact = true, .is_generated = true, .has_rows = has_rows});
      compiled += Compare(chain.graph(), chain.feeds(), chain.Fetches(),
                          (has_rows ? "with rows, seed " : "seed ") + std::to_string(seed) + ": ");
    }
    EXPECT_TRUE(FirstChain() != 1 || compiled > Chains()) << "so few nodes were compiled that nothing was tried";
  }
}

// Of two numbers, in the places between them of their type.
double Distance(DType dtype, const uint8_t* a, const uint8_t* b) {
  const auto places = [&](auto bits) {
    using Bits = decltype(bits);
    const auto rank = [](const uint8_t* from) {
      Bits x;
      std::memcpy(&x, from, sizeof x);
      const auto magnitude = static_cast<double>(static_cast<Bits>(x & std::numeric_limits<Bits>::max()));
      return x < 0 ? -magnitude : magnitude;
    };
    return std::fabs(rank(a) - rank(b));
  };
  if (dtype == DType::kFloat) return places(int32_t{});
  if (dtype == DType::kDouble) return places(int64_t{});
  return places(int16_t{});
}

// As devices/cpu_codegen/GENERATED_CODE.md says.
double MostPlaces(const std::string& op, DType dtype) {
  static const std::map<std::string, double> kMost = {{"Exp", 2},  {"Expm1", 6},    {"Log", 6},   {"Log1p", 6},
                                                      {"Tanh", 8}, {"Sigmoid", 4},  {"Erf", 5},   {"Elu", 6},
                                                      {"Selu", 7}, {"Softplus", 8}, {"Xlogy", 8}, {"SoftplusGrad", 5}};
  const auto found = kMost.find(op);
  if (op == "Softmax" || op == "LogSoftmax") return dtype == DType::kDouble ? 0 : 1;  // and what IsNearSoftmax says
  return found == kMost.end() ? 0 : dtype == DType::kFloat ? found->second : 1;
}

// Of sums of exponentials, which kernels add in another order: a part of the number, or of 1 where it is the difference
// of larger ones.
bool IsSoftmax(const std::string& op) { return op == "Softmax" || op == "LogSoftmax"; }
bool IsNearSoftmax(DType dtype, const uint8_t* a, const uint8_t* b) {
  const auto number = [&](const uint8_t* from) {
    uint32_t bits = 0;
    if (dtype == DType::kFloat) return static_cast<double>(*reinterpret_cast<const float*>(from));
    std::memcpy(&bits, from, 2);
    if (dtype == DType::kBfloat16) return static_cast<double>(std::bit_cast<float>(bits << 16));
    const double magnitude = (bits & 0x7fff) < 0x400
                                 ? std::ldexp(bits & 0x3ff, -24)
                                 : std::ldexp(0x400 | (bits & 0x3ff), static_cast<int>(bits >> 10 & 31) - 25);
    return (bits & 0x7fff) >= 0x7c00 ? HUGE_VAL : (bits & 0x8000) != 0 ? -magnitude : magnitude;
  };
  const double x = number(a), y = number(b),
               part = dtype == DType::kFloat  ? 4e-6
                      : dtype == DType::kHalf ? 2.1e-3
                                              : 1.6e-2;
  return x == y || std::fabs(x - y) <= part * std::max(std::fabs(y), dtype == DType::kFloat ? 1e-30 : 1e-7) ||
         std::fabs(x - y) <= 1e-6;
}

// Every value of the code's against its kernel's of the same operands; and the same bits whatever else is fetched.
void ExpectTheNumbersOfTheNodes(Runtime* runtime, bool has_rows) {
  int compiled = 0;
  for (int seed = FirstChain(); seed <= Chains() && !::testing::Test::HasFailure(); ++seed) {
    const std::string what = (has_rows ? "with rows, seed " : "seed ") + std::to_string(seed) + ": ";
    RandomChain chain(*runtime, static_cast<uint64_t>(seed), {.has_rows = has_rows});
    const Answer whole = RunIt(*runtime, chain.graph(), chain.feeds(), chain.values(), true);
    if (!whole.failure.empty()) {
      EXPECT_EQ(RunIt(*runtime, chain.graph(), chain.feeds(), chain.values(), false).failure, whole.failure) << what;
      continue;
    }
    if (const auto found = whole.how.find("compiled"); found != whole.how.end()) compiled += found->second;
    const std::vector<Output> fetches = chain.Fetches();
    const Answer some = RunIt(*runtime, chain.graph(), chain.feeds(), fetches, true);
    ASSERT_EQ(some.failure, "") << what;
    for (size_t i = 0; i < fetches.size(); ++i) {
      const auto at = std::find_if(chain.values().begin(), chain.values().end(),
                                   [&](const Output& value) { return value.name() == fetches[i].name(); }) -
                      chain.values().begin();
      const bool is_fixed = some.how.contains("tiled") || whole.how.contains("tiled") ||
                            some.how != whole.how;  // by way of kernels a function has other places
      EXPECT_EQ(is_fixed ? "" : DifferenceOf(some.values[i], whole.values[static_cast<size_t>(at)]), "")
          << what << "fetch " << i << " has other bits where less is fetched";
    }
    Graph single(TheRuntime());
    std::vector<std::pair<Output, Tensor>> feeds;
    std::vector<Output> wanted;
    for (size_t v = 0; v < chain.values().size(); ++v)
      feeds.emplace_back(single.Placeholder("", whole.values[v].dtype(), whole.values[v].shape()), whole.values[v]);
    for (const auto& step : chain.steps()) {
      std::vector<Output> in;
      for (const size_t operand : step.operands) in.push_back(feeds[operand].first);
      wanted.push_back(RandomChain::NodeOf(single, step, in));
    }
    if (wanted.empty()) continue;  // a graph of a feed alone
    const Answer kernels = RunIt(TheRuntime(), single, feeds, wanted, false);
    ASSERT_EQ(kernels.failure, "") << what;
    for (size_t s = 0; s < wanted.size() && !::testing::Test::HasFailure(); ++s) {
      const auto& step = chain.steps()[s];
      const Tensor &got = whole.values[step.result], &right = kernels.values[s];
      const double most = MostPlaces(step.op, got.dtype());
      if (most == 0) {
        EXPECT_EQ(DifferenceOf(right, got), "") << what << step.op;
        continue;
      }
      const tenon_tensor_view &x = *tenon_tensor_get_view(got.get()), &y = *tenon_tensor_get_view(right.get());
      const size_t size = got.dtype() == DType::kFloat ? 4 : got.dtype() == DType::kDouble ? 8 : 2;
      for (size_t at = 0; at < x.byte_size; at += size) {
        const auto *a = static_cast<const uint8_t*>(x.dl.data) + at, *b = static_cast<const uint8_t*>(y.dl.data) + at;
        if (IsNan(got.dtype(), a) && IsNan(got.dtype(), b)) continue;
        EXPECT_EQ(IsNan(got.dtype(), a), IsNan(got.dtype(), b)) << what << step.op << " element " << at / size;
        if (IsSoftmax(step.op) && IsNearSoftmax(got.dtype(), a, b)) continue;
        EXPECT_LE(Distance(got.dtype(), a, b), most)
            << what << step.op << " of " << DTypeName(got.dtype()) << ", element " << at / size;
        if (::testing::Test::HasFailure()) {
          for (const size_t operand : step.operands) {
            const tenon_tensor_view& in = *tenon_tensor_get_view(whole.values[operand].get());
            if (in.byte_size == x.byte_size && size == 4)
              ADD_FAILURE() << "of " << static_cast<const float*>(in.dl.data)[at / 4] << ": "
                            << static_cast<const float*>(x.dl.data)[at / 4] << " and "
                            << static_cast<const float*>(y.dl.data)[at / 4];
          }
          break;
        }
      }
    }
  }
  EXPECT_TRUE(FirstChain() != 1 || compiled > Chains()) << "so few nodes were compiled that nothing was tried";
}

TEST_P(Codegen, RandomGraphsOfAllFunctionsHaveTheNumbersOfTheirNodes) { ExpectTheNumbersOfTheNodes(runtime_, false); }
TEST_P(Codegen, RandomGraphsWithRowsHaveTheNumbersOfTheirNodes) { ExpectTheNumbersOfTheNodes(runtime_, true); }

// Of [rows, columns]: a bias of each column, a factor of each row, a scalar; and of more dims, some of which are 1.
// Short rows and long ones.
TEST_P(Codegen, BroadcastsAsNumpyDoes) {
  for (const auto& dims : std::vector<std::pair<Shape, std::vector<Shape>>>{
           {{100, 48}, {{48}, {100, 1}, {1, 48}, {1}, {}}},
           {{40, 1200}, {{1200}, {40, 1}, {1, 1200}, {1}, {}}},
           {{3, 5, 7, 11}, {{11}, {7, 1}, {5, 1, 11}, {3, 1, 1, 1}, {3, 5, 1, 11}, {1, 1, 1, 11}}},
           {{3, 5, 7, 700}, {{700}, {7, 1}, {5, 1, 700}, {3, 1, 1, 1}, {3, 5, 1, 700}, {1, 1, 1, 700}}},
           {{2, 50000}, {{50000}, {2, 1}}},
           {{9000, 1}, {{9000, 1}, {1, 1}}}}) {
    Graph g(*runtime_);
    const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
    std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp(dims.first)}};
    Output y = g.Op("Neg", {x});
    for (const Shape& shape : dims.second) {
      feeds.emplace_back(g.Placeholder("", DType::kFloat, Shape::Unknown()), Ramp(shape));
      y = g.Op("Sub", {g.Op("Square", {g.Op("AddV2", {y, feeds.back().first})}), y});
    }
    EXPECT_EQ(Compare(g, feeds, {y}), 1 + 3 * static_cast<int>(dims.second.size())) << "of rank " << dims.first.rank();
  }
}

TEST_P(Codegen, ValuesThatAreReadOutsideAreThere) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {300, 40});
  const Output a = g.Op("Abs", {x}), b = g.Op("Mul", {a, x}), c = g.Op("Sub", {b, a});
  const Output sum = g.Op("Sum", {b, g.Const<int32_t>({0})});
  EXPECT_EQ(Compare(g, {{x, Ramp({300, 40})}}, {c, a, sum}), 4);
  EXPECT_EQ(Compare(g, {{x, Ramp({300, 40})}}, {c, a, g.Op("Sum", {b, g.Const<int32_t>({1})})}), 4);
  EXPECT_EQ(Compare(g, {{x, Ramp({300, 40})}}, {c, a, g.Op("Max", {b, g.Const<int32_t>({0, 1})})}), 4);
}

// A node between two of a region reads one and feeds the other: they cannot be one pass.
TEST_P(Codegen, WhatStandsBetweenKeepsThemApart) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output a = g.Op("Abs", {x}), b = g.Op("Mul", {a, a});
  const Output sum = g.Op("Cumsum", {b, g.Const<int32_t>(1)});
  const Output y = g.Op("Sub", {b, sum}), z = g.Op("Square", {y});
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {z}), 4);
}

// The product's memory is the chain's to write in, unless a view of it is read later.
TEST_P(Codegen, MemoryIsTakenOverOnlyWhereNobodyReadsItAfterwards) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output product = g.Op("MatMul", {x, x});
  const Output same = g.Op("Reshape", {product, g.Const<int32_t>({64, 64})});
  const Output a = g.Op("Neg", {product}), b = g.Op("Floor", {a}), c = g.Op("AddV2", {b, same}),
               d = g.Op("Mul", {c, product});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {d, a}), 4);
  const Output second = g.Op("MatMul", {x, x});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Abs", {g.Op("Neg", {second})}), g.Op("MatMul", {second, x})}), 2);
}

// Stages take turns: what a later one reads again is not written over by an earlier one. Whoever fetches the product
// too keeps its memory apart.
TEST_P(Codegen, MemoryIsNotTakenOverBetweenStages) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {128, 128});
  const Output product = g.Op("MatMul", {x, x});
  Output y = g.Op("Tanh", {product});
  std::vector<Output> early;
  for (int i = 0; i < 4; ++i) {
    y = g.Op("Sigmoid", {g.Op("Mul", {y, product})});
    if (i == 0) early.push_back(y);
  }
  std::vector<Output> some = {y, early[0]}, all = {y, early[0], product};
  const Answer taken = RunIt(*runtime_, g, {{x, Ramp({128, 128})}}, some, true),
               apart = RunIt(*runtime_, g, {{x, Ramp({128, 128})}}, all, true);
  ASSERT_EQ(taken.failure, "");
  EXPECT_EQ(taken.how.at("compiled"), 9);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(DifferenceOf(taken.values[i], apart.values[i]), "") << i;
}

// One operand twice, and one value as several results' memory.
TEST_P(Codegen, OneValueInSeveralPlaces) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {65, 64}), y = g.Placeholder("y", DType::kFloat, {65, 64});
  const Output a = g.Op("Mul", {x, x}), b = g.Op("AddV2", {a, y}), c = g.Op("Sub", {a, y}), d = g.Op("Maximum", {b, b});
  const Tensor same = Ramp({65, 64});
  EXPECT_EQ(Compare(g, {{x, same}, {y, same}}, {b, c, d, a, b}), 4);
}

// What shapes are is known when the feeds are: those that do not go together fail as their kernels do, and one op's
// rules are not another's.
TEST_P(Codegen, FailuresAreThoseOfTheNodes) {
  Graph h(*runtime_);
  const Output u = h.Placeholder("u", DType::kFloat, Shape::Unknown()),
               v = h.Placeholder("v", DType::kFloat, Shape::Unknown());
  const Output w = h.Op("Square", {h.Op("AddV2", {h.Op("Neg", {u}), v}, {}, "sum")});
  const Output bias = h.Op("Square", {h.Op("BiasAdd", {h.Op("Neg", {u}), v}, {}, "biased")});
  const Output all = h.Op("Square", {h.Op("AddN", {std::vector<Output>{h.Op("Neg", {u}), v}}, {}, "summed")});
  for (const Shape& shape : {Shape{4}, Shape{3}, Shape{1}, Shape{4, 3}, Shape{4, 1}, Shape{}, Shape{2, 4, 3}})
    for (const Output& each : {w, bias, all})
      Compare(h, {{u, Ramp({4, 3})}, {v, Ramp(shape)}}, {each}, std::to_string(shape.rank()));
}

TEST_P(Codegen, LoopsAndBranches) { ExpectAlikeInLoopsAndBranches(*runtime_, {"Softsign", "Sqrt", "Abs"}, "compiled"); }

// A loop over a counter and numbers, each one element or of one shape, with a body of exact functions and casts, and
// with a condition that may hang on the numbers too.
class RandomLoop {
 public:
  RandomLoop(Runtime& runtime, uint64_t seed) : random_(seed), graph_(runtime) {
    const int64_t sizes[] = {0, 2, 5, 16, 17, 33, 100, 700};
    shape_ = Up(2) == 0   ? Shape{}
             : Up(4) == 0 ? Shape{3, sizes[Up(std::size(sizes))]}
                          : Shape{sizes[Up(std::size(sizes))]};
    const DType types[] = {DType::kFloat, DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64};
    type_ = types[Up(std::size(types))];
    std::vector<Output> initial = {graph_.Const<int32_t>(0)}, invariants;
    for (size_t v = 0, count = 1 + Up(5); v < count; ++v) initial.push_back(Feed());
    for (size_t v = 0, count = Up(3); v < count; ++v) invariants.push_back(Feed());
    const size_t variables = initial.size();
    results_ = While(graph_, initial, invariants,
                     [&](const std::vector<Output>& v) {
                       const Output goes = graph_.Op("Less", {v[0], graph_.Const(static_cast<int32_t>(Up(12)))});
                       const auto single =
                           std::find_if(is_single_.begin(), is_single_.end(), [](bool each) { return each; });
                       if (single == is_single_.end() || Up(3) == 0) return goes;
                       const Output& number = v[1 + static_cast<size_t>(single - is_single_.begin())];
                       return graph_.Op("LogicalAnd",
                                        {goes, graph_.Op("NotEqual", {number, graph_.Op("Cast", {graph_.Const(2.0f)},
                                                                                        {{"DstT", type_}})})});
                     },
                     [&](const std::vector<Output>& v) {
                       singles_.clear();
                       many_.clear();
                       for (size_t i = 1; i < v.size(); ++i) (is_single_[i - 1] ? singles_ : many_).push_back(v[i]);
                       if (Up(2) == 0) singles_.push_back(graph_.Op("Cast", {v[0]}, {{"DstT", type_}}));
                       for (size_t n = 0, count = 1 + Up(12); n < count; ++n) AddNode();
                       std::vector<Output> next = {graph_.Op("AddV2", {v[0], graph_.Const<int32_t>(1)})};
                       for (size_t i = 1; i < variables; ++i) {
                         std::vector<Output>& of = is_single_[i - 1] ? singles_ : many_;
                         next.push_back(Up(4) == 0 ? of[Up(of.size())] : of.back());
                         if (Up(2) == 0) std::rotate(of.begin(), of.begin() + 1, of.end());
                       }
                       return next;
                     });
  }
  const Graph& graph() const { return graph_; }
  const std::vector<std::pair<Output, Tensor>>& feeds() const { return feeds_; }
  std::vector<Output> Fetches() {
    std::vector<Output> fetches;
    for (const Output& result : results_)
      if (Up(4) != 0) fetches.push_back(result);
    return fetches.empty() ? results_ : fetches;
  }

 private:
  size_t Up(size_t end) { return static_cast<size_t>(random_() % end); }
  Output Feed() {
    const Shape shape = Up(3) == 0 ? Shape{} : shape_;
    int64_t count = 1;
    for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(random_() % 41) / 4 - 5);
    is_single_.push_back(count == 1);
    feeds_.emplace_back(graph_.Placeholder("", type_, shape), TensorOf(type_, shape, numbers));
    return feeds_.back().first;
  }
  Output Any() {
    const bool single = many_.empty() || (!singles_.empty() && Up(2) == 0);
    const std::vector<Output>& of = single ? singles_ : many_;
    any_is_single_ = any_is_single_ && single;
    return of[Up(of.size())];
  }
  void AddNode() {
    static const char* const kUnary[] = {"Neg", "Abs", "Square", "Sign", "Relu", "Identity"};
    static const char* const kReal[] = {"Sqrt", "Rsqrt", "Floor", "Ceil", "Round", "Reciprocal", "Softsign"};
    static const char* const kBinary[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"};
    static const char* const kCompare[] = {"Less", "LessEqual", "Greater", "Equal", "NotEqual"};
    const bool is_real = type_ == DType::kFloat || type_ == DType::kDouble;
    any_is_single_ = true;
    Output made;
    switch (Up(6)) {
      case 0: made = graph_.Op(kUnary[Up(std::size(kUnary))], {Any()}); break;
      case 1: made = graph_.Op(is_real ? kReal[Up(std::size(kReal))] : "Neg", {Any()}); break;
      case 2:
        made = graph_.Op("SelectV2", {graph_.Op(kCompare[Up(std::size(kCompare))], {Any(), Any()}), Any(), Any()});
        break;
      case 3:
        made = graph_.Op("Cast", {graph_.Op("Cast", {Any()}, {{"DstT", Up(2) == 0 ? DType::kInt32 : DType::kFloat}})},
                         {{"DstT", type_}});
        break;
      default: made = graph_.Op(kBinary[Up(std::size(kBinary))], {Any(), Any()}); break;
    }
    (any_is_single_ ? singles_ : many_).push_back(made);
  }

  Random random_;
  Graph graph_;
  Shape shape_;
  DType type_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<bool> is_single_;  // of the feeds
  std::vector<Output> singles_, many_, results_;
  bool any_is_single_ = true;
};

// Of a body with nodes that have no outputs: updates, assertions, inserts into tables. The kernels run it, and what an
// assertion says is what ends the step.
TEST_P(Codegen, LoopsThatActOnSomethingRunTurnByTurn) {
  for (const bool holds : {true, false}) {
    Graph g(*runtime_);
    const Output variable =
        g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "v"}});
    const Output table = g.Op("MutableHashTableV2", {},
                              {{"key_dtype", DType::kInt64}, {"value_dtype", DType::kFloat}, {"shared_name", "t"}});
    g.AddNode("AssignVariableOp", {variable, g.Const(1.0f)}, {}, "init");
    const Output one = g.Const(1), key = g.Const(int64_t{7}), limit = g.Const(holds ? 100.0f : 3.0f);
    const std::vector<Output> last = While(
        g, {g.Const(0), g.Const(0.5f)}, {variable, table, one, key, limit},
        [&](const auto& v) {
          return g.Op("Less", {v[0], g.Const(4)});
        },
        [&](const auto& v) {
          const Output doubled = g.Op("AddV2", {v[1], v[1]});
          const Operation added = g.AddNode("AssignAddVariableOp", {v[2], doubled});
          const Operation put = g.AddNode("LookupTableInsertV2", {v[3], v[5], doubled});
          const Operation small = g.AddNode("Assert", {g.Op("Less", {doubled, v[6]}), {{doubled}}});
          const auto after = g.ControlDependencies({added, put, small});
          return std::vector<Output>{g.Op("AddV2", {v[0], v[4]}), g.Op("Identity", {doubled})};
        });
    Output value, found;
    {
      const auto after = g.ControlDependencies({last[0]});
      value = g.Op("ReadVariableOp", {variable}, {{"dtype", DType::kFloat}});
      found = g.Op("LookupTableFindV2", {table, key, g.Const(-1.0f)});
    }
    ASSERT_TRUE(g.status().ok()) << g.status().message();
    for (const bool compile : {true, false}) {
      SessionOptions options;
      options.compile = compile;
      auto session = Session::Create(*runtime_, g, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      ASSERT_TRUE(session->RunTargets({"init"}).ok());
      const auto values = session->Run({}, {last[1], value, found});
      if (!holds) {
        EXPECT_EQ(values.status().code(), Code::kInvalidArgument) << values.status().message();
        EXPECT_NE(std::string(values.status().message()).find("Assert"), std::string::npos)
            << values.status().message();
        continue;
      }
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(Values<float>((*values)[0])[0], 8);
      EXPECT_EQ(Values<float>((*values)[1])[0], 1 + 1 + 2 + 4 + 8);
      EXPECT_EQ(Values<float>((*values)[2])[0], 8);
    }
  }
}

TEST_P(Codegen, RandomLoopsHaveTheBitsOfTheirTurns) {
  int compiled = 0;
  for (int seed = FirstChain(); seed <= Chains() && !HasFailure(); ++seed) {
    RandomLoop loop(*runtime_, static_cast<uint64_t>(seed));
    const std::vector<Output> fetches = loop.Fetches();
    compiled += Compare(loop.graph(), loop.feeds(), fetches, "seed " + std::to_string(seed) + ": ") > 0 ? 1 : 0;
  }
  EXPECT_TRUE(FirstChain() != 1 || compiled > Chains() / 2)
      << "so few loops were compiled that nothing was tried: " << compiled;
}

// A graph that came with frames, as TF1 writes it.
TEST_P(Codegen, ALoopOfFramesIsTakenToo) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {37});
  const auto enter = [&](const Output& value, bool constant) {
    return g.Op("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}});
  };
  const Output turn = enter(g.Const<int32_t>(0), false), number = enter(x, false),
               limit = enter(g.Const<int32_t>(5), true), one = enter(g.Const<int32_t>(1), true);
  const Operation turn_merge = g.AddNode("Merge", {turn, turn}), number_merge = g.AddNode("Merge", {number, number});
  const Output goes = g.Op("LoopCond", {g.Op("Less", {turn_merge.output(0), limit})});
  const Operation turn_switch = g.AddNode("Switch", {turn_merge.output(0), goes}),
                  number_switch = g.AddNode("Switch", {number_merge.output(0), goes});
  g.SetInput(turn_merge, 1, g.Op("NextIteration", {g.Op("AddV2", {turn_switch.output(1), one})}));
  g.SetInput(number_merge, 1,
             g.Op("NextIteration", {g.Op("AddV2", {number_switch.output(1), g.Op("Abs", {number_switch.output(1)})})}));
  EXPECT_EQ(Compare(g, {{x, Ramp({37})}}, {g.Op("Exit", {number_switch.output(0)})}), 4);
}

// A step that is given up ends while a loop without end is in its code.
TEST_P(Codegen, ALoopWithoutEndEndsWithItsStep) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {40});
  const auto loop = While(
      g, {g.Const(1.0f), x}, {},
      [&](const std::vector<Output>& v) {
        return g.Op("Greater", {v[0], g.Const(0.0f)});
      },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{g.Op("Abs", {v[0]}), g.Op("AddV2", {v[1], v[0]})};
      });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  auto session = Session::Create(*runtime_, g);
  ASSERT_TRUE(session.ok());
  auto callable = session->Prepare({x}, {loop[1]});
  ASSERT_TRUE(callable.ok());
  RunOptions options;
  options.timeout = std::chrono::milliseconds(100);
  const Tensor numbers = Ramp({40});
  const auto values = callable->Run({View(numbers)}, options);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::kDeadlineExceeded) << values.status().message();
  EXPECT_GE(HowNodesRun(*callable->Explain())["compiled"], 3);
}

// Beside a node that only kernels have, the whole chain is the tiles'.
TEST_P(Codegen, ChainsWithOtherFunctionsAreLeftToTiles) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {65, 64});
  const Answer answer =
      RunIt(*runtime_, g, {{x, Ramp({65, 64})}}, {g.Op("Neg", {g.Op("Sin", {g.Op("Square", {x})})})}, true);
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.how.count("compiled"), 0u);
  EXPECT_EQ(answer.how.at("tiled"), 3);
}

// 0.5, or a small whole number.
Tensor NumberOf(DType type, double value) {
  if (type == DType::kFloat || type == DType::kDouble) return TensorOf(type, Shape{}, {value});
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto half =
      static_cast<uint16_t>(type == DType::kBfloat16 ? bits >> 16 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
  return *Tensor::FromBytes(type, Shape{}, &half, sizeof half);
}

// Powers that two products compute are code; others, and those that a step feeds, are the tiles'.
TEST_P(Codegen, SmallPowersAreProducts) {
  for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16})
    for (const double exponent : {2.0, 3.0, 4.0, 0.5}) {
      Graph g(*runtime_);
      const Output x = g.Placeholder("x", DType::kFloat, {65, 64}),
                   by = g.Op("Cast", {g.Const(static_cast<float>(exponent))}, {{"DstT", type}});
      const Tensor number = NumberOf(type, exponent);
      const Output constant = g.Const(View(number));
      const Output cast = g.Op("Cast", {g.Op("Neg", {x})}, {{"DstT", type}});
      const Tensor feed = Ramp({65, 64});
      const Answer kernels = RunIt(*runtime_, g, {{x, feed}}, {g.Op("Pow", {cast, constant})}, false),
                   code = RunIt(*runtime_, g, {{x, feed}}, {g.Op("Pow", {cast, constant})}, true);
      ASSERT_EQ(kernels.failure + code.failure, "");
      EXPECT_EQ(code.how.contains("compiled") ? code.how.at("compiled") : 0, exponent == 2 || exponent == 3 ? 3 : 0)
          << exponent;
      const tenon_tensor_view &right = *tenon_tensor_get_view(kernels.values[0].get()),
                              &got = *tenon_tensor_get_view(code.values[0].get());
      const size_t size = type == DType::kFloat ? 4 : type == DType::kDouble ? 8 : 2;
      for (size_t at = 0; at < right.byte_size; at += size) {
        const auto *a = static_cast<const uint8_t*>(got.dl.data) + at,
                   *b = static_cast<const uint8_t*>(right.dl.data) + at;
        EXPECT_EQ(IsNan(type, a), IsNan(type, b));
        EXPECT_LE(Distance(type, a, b), 2) << DTypeName(type) << " " << at / size << " to " << exponent;
      }
      EXPECT_EQ(RunIt(*runtime_, g, {{x, feed}, {by, number}}, {g.Op("Pow", {cast, by})}, true).failure, "");
    }
}

TEST_P(Codegen, TakesWhatIsFedIntoItsMiddle) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {40, 30});
  const Output a = g.Op("Neg", {x}), b = g.Op("Square", {a}), c = g.Op("Sub", {b, a}), d = g.Op("Mul", {c, b});
  Compare(g, {{x, Ramp({40, 30})}, {b, Ramp({40, 30})}}, {d});
  Compare(g, {{x, Ramp({40, 30})}, {b, Ramp({40, 30})}}, {d, b, a});
  Compare(g, {{x, Ramp({40, 30})}, {c, Ramp({40, 30})}, {a, Ramp({40, 30})}}, {d, b, a, c});
}

// What is known only when shapes are: values of two shapes are no region, and are the tiles' again.
TEST_P(Codegen, RegionsThatDoNotFitAreLeftToTiles) {
  Graph g(*runtime_);
  const Output u = g.Placeholder("u", DType::kFloat, Shape::Unknown()),
               v = g.Placeholder("v", DType::kFloat, Shape::Unknown());
  const Output w = g.Op("Square", {g.Op("AddV2", {g.Op("Neg", {u}), v})});
  for (const bool fits : {false, true}) {
    const std::vector<std::pair<Output, Tensor>> feeds = {{u, Ramp(fits ? Shape{40, 30} : Shape{30})},
                                                          {v, Ramp({40, 30})}};
    EXPECT_EQ(Compare(g, feeds, {w}), fits ? 3 : 0);
    const Answer answer = RunIt(*runtime_, g, feeds, {w}, true);
    EXPECT_EQ(answer.how.contains("tiled") ? answer.how.at("tiled") : 0, fits ? 0 : 2);
  }
}

// A stranger's graph of very many nodes: regions are cut off, and there are no more programs than may be.
TEST_P(Codegen, ManyNodesTakeAsMuchAsTheyAre) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64});
  Output y = x;
  std::vector<Output> fetches;
  std::mt19937_64 random(7);
  static const char* const kOps[] = {"Neg", "Square", "Abs", "Relu", "Floor", "Sign"};
  for (int i = 0; i < 30000; ++i)
    y = random() % 3 == 0 ? g.Op("Sub", {y, x}) : g.Op(kOps[random() % std::size(kOps)], {y});
  EXPECT_GT(Compare(g, {{x, Ramp({64})}}, {y}), 20000);
}

// In a process of its own, in which the kernel lets nobody execute what he wrote, as hardened systems do.
TEST(CodegenAlone, WithoutExecutableMemoryTilesDoTheWork) {
  constexpr char kAsked[] = "TENON_TEST_WITHOUT_EXECUTABLE_MEMORY";
  constexpr int kCannotBeAsked = 77;
  if (std::getenv(kAsked) == nullptr) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv(kAsked, "1", 1);
      execl("/proc/self/exe", "codegen_test", "--gtest_filter=CodegenAlone.*", static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannotBeAsked) GTEST_SKIP() << "this kernel cannot refuse it (Linux 6.3)";
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return;
  }
  if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) _exit(kCannotBeAsked);
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {300, 40});
  const Answer answer = RunIt(TheRuntime(), g, {{x, Ramp({300, 40})}}, {g.Op("Square", {g.Op("Neg", {x})})}, true);
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.how.count("compiled"), 0u);
  EXPECT_EQ(answer.how.at("tiled"), 2);
  EXPECT_EQ(Values<float>(answer.values[0])[1], 2.9375f * 2.9375f);
}

INSTANTIATE_TEST_SUITE_P(Levels, Codegen, ::testing::Values("avx512", "avx2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::engine::codegen_test
