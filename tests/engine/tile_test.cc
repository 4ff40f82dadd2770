// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes in one pass over memory: the bits are those of the nodes one by one, whatever the types, shapes and order are, in loops and branches
// too. TENON_CHAINS=100000 tries so many random graphs. Covers N8.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

using Random = std::mt19937_64;

// How many nodes run how, as the callable says.
std::map<std::string, int> HowNodesRun(const std::string& text) {
  std::map<std::string, int> how;
  for (size_t at = text.find("\"runs\":\""); at != std::string::npos; at = text.find("\"runs\":\"", at)) {
    at += 8;
    ++how[text.substr(at, text.find('"', at) - at)];
  }
  return how;
}

struct Answer {
  std::vector<Tensor> values;
  std::map<std::string, int> how;
  std::string failure;
};

Answer RunIt(const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds, const std::vector<Output>& fetches, bool compile, uint32_t executor = TENON_EXECUTOR_AUTO) {
  SessionOptions options;
  options.compile = compile;
  options.executor = executor;
  Answer answer;
  auto session = Session::Create(TheRuntime(), graph, options);
  if (!session.ok()) return answer.failure = session.status().message(), answer;
  std::vector<Name> names, wanted(fetches.begin(), fetches.end());
  std::vector<View> views;
  for (const auto& [name, value] : feeds) {
    names.emplace_back(name);
    views.emplace_back(value);
  }
  auto callable = session->Prepare(names, wanted);
  if (!callable.ok()) return answer.failure = callable.status().message(), answer;
  for (int step = 0; step < 2; ++step) {  // the second has the first one's memory
    auto values = callable->Run(views);
    if (!values.ok()) return answer.failure = values.status().message(), answer;
    answer.values = std::move(*values);
  }
  answer.how = HowNodesRun(*callable->Explain());
  return answer;
}

// One NaN is as good as another: which of two operands' comes out hangs on the order in which a compiler puts them.
bool IsNan(DType dtype, const uint8_t* element) {
  const auto is = [&](auto bits, auto infinity) {
    std::memcpy(&bits, element, sizeof bits);
    return static_cast<decltype(bits)>(bits << 1) > static_cast<decltype(bits)>(infinity << 1);
  };
  if (dtype == DType::kFloat) return is(uint32_t{}, uint32_t{0x7f800000});
  if (dtype == DType::kDouble) return is(uint64_t{}, uint64_t{0x7ff0000000000000});
  const bool half = dtype == DType::kHalf;
  return (half || dtype == DType::kBfloat16) && is(uint16_t{}, static_cast<uint16_t>(half ? 0x7c00 : 0x7f80));
}

// "": none.
std::string DifferenceOf(const Tensor& a, const Tensor& b) {
  const tenon_tensor_view &x = *tenon_tensor_get_view(a.get()), &y = *tenon_tensor_get_view(b.get());
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()) || x.byte_size != y.byte_size) return "of another type or shape";
  const auto *left = static_cast<const uint8_t*>(x.dl.data), *right = static_cast<const uint8_t*>(y.dl.data);
  const size_t size = x.byte_size / std::max<size_t>(1, static_cast<size_t>(std::accumulate(x.dl.shape, x.dl.shape + x.dl.ndim, int64_t{1}, std::multiplies<>())));
  size_t at = 0;
  const auto differ = [&] { return std::memcmp(left + at, right + at, size) != 0 && !(IsNan(a.dtype(), left + at) && IsNan(a.dtype(), right + at)); };
  while (at < x.byte_size && !differ()) at += size;
  if (at == x.byte_size) return "";
  std::string text = DTypeName(a.dtype()) + " element " + std::to_string(at / size) + ":";
  for (const uint8_t* from : {left, right}) {
    text += " ";
    for (size_t i = size; i-- > 0;) text += "0123456789abcdef"[from[at / size * size + i] >> 4], text += "0123456789abcdef"[from[at / size * size + i] & 15];
  }
  return text;
}

// The same bits, in one pass and node by node; how many nodes were taken together.
int Compare(const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds, const std::vector<Output>& fetches, const std::string& what = "") {
  EXPECT_TRUE(graph.status().ok()) << what << graph.status().message();
  const Answer one_by_one = RunIt(graph, feeds, fetches, false), tiled = RunIt(graph, feeds, fetches, true);
  EXPECT_EQ(one_by_one.failure, tiled.failure) << what;
  EXPECT_EQ(one_by_one.how.count("tiled"), 0u) << what;
  EXPECT_EQ(one_by_one.values.size(), tiled.values.size()) << what;
  for (size_t i = 0; i < std::min(one_by_one.values.size(), tiled.values.size()); ++i)
    EXPECT_EQ(DifferenceOf(one_by_one.values[i], tiled.values[i]), "") << what << "fetch " << i << ", '" << fetches[i].name() << "'";
  const auto found = tiled.how.find("tiled");
  return found == tiled.how.end() ? 0 : found->second;
}

// A graph of element-wise nodes over values of a few shapes that broadcast to one another.
class RandomChain {
 public:
  explicit RandomChain(uint64_t seed) : random_(seed), graph_(TheRuntime()) {
    const DType types[] = {DType::kFloat, DType::kFloat, DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64, DType::kHalf, DType::kBfloat16};
    type_ = types[Up(std::size(types))];
    is_real_ = type_ != DType::kInt32 && type_ != DType::kInt64;
    const int64_t sizes[] = {1, 2, 3, 5, 7, 16, 33, 64, 100, 257};
    for (size_t d = 0, rank = 1 + Up(3); d < rank; ++d) full_.push_back(sizes[Up(std::size(sizes))]);
    if (Up(4) == 0) full_.back() = 1 + static_cast<int64_t>(Up(3000));
    if (Up(20) == 0) full_[Up(full_.size())] = 0;
    for (size_t i = 0, feeds = 1 + Up(3); i < feeds; ++i) AddFeed(i == 0);
    if (Up(2) == 0) values_.push_back(graph_.Op("Cast", {graph_.Const(0.75f)}, {{"DstT", type_}}));
    for (size_t i = 0, nodes = 2 + Up(20); i < nodes; ++i) AddNode();
  }
  int Check(const std::string& what) {
    std::vector<Output> fetches = {values_.back()};
    for (const Output& value : values_)
      if (Up(6) == 0) fetches.push_back(value);
    if (!flags_.empty() && Up(2) == 0) fetches.push_back(flags_.back());
    return Compare(graph_, feeds_, fetches, what);
  }

 private:
  size_t Up(size_t end) { return static_cast<size_t>(random_() % end); }
  const Output& Any() { return Up(3) == 0 ? values_[Up(values_.size())] : values_[values_.size() - 1 - Up(std::min<size_t>(values_.size(), 4))]; }

  void AddFeed(bool whole) {
    std::vector<int64_t> dims = full_;
    if (!whole) {
      if (Up(2) == 0) dims.erase(dims.begin(), dims.begin() + static_cast<int64_t>(Up(dims.size() + 1)));
      for (int64_t& dim : dims)
        if (Up(4) == 0) dim = 1;
    }
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<float> numbers;
    const float special[] = {0.f, -0.f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e-39f, 3e38f};
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(is_real_ && Up(50) == 0 ? special[Up(std::size(special))] : static_cast<float>(static_cast<double>(random_() % 20001) / 2000 - 5));
    Graph cast(TheRuntime());
    const Output from = cast.Placeholder("x", DType::kFloat, Shape(dims));
    const auto made = RunOnce(cast, {{from, *Tensor::From(numbers, Shape(dims))}}, {cast.Op("Cast", {from}, {{"DstT", type_}})});
    ASSERT_EQ(made.size(), 1u);
    const Output fed = graph_.Placeholder("", type_, Up(2) == 0 ? Shape(dims) : Shape::Unknown());
    feeds_.emplace_back(fed, made[0]);
    values_.push_back(fed);
  }

  void AddNode() {
    static const char* const kUnary[] = {"Neg", "Abs", "Square", "Sign", "Relu", "Relu6"};
    static const char* const kRealUnary[] = {"Sqrt", "Exp", "Tanh", "Sigmoid", "Rsqrt", "Floor", "Reciprocal", "Log1p", "Softplus", "Elu", "Sin", "Erf"};
    static const char* const kBinary[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"};
    static const char* const kCompare[] = {"Less", "GreaterEqual", "Equal", "NotEqual"};
    const size_t kind = Up(12);
    if (kind < 3) {
      const bool real = is_real_ && Up(2) == 0;
      values_.push_back(graph_.Op(real ? kRealUnary[Up(std::size(kRealUnary))] : kUnary[Up(std::size(kUnary))], {Any()}));
    } else if (kind < 7) {
      values_.push_back(graph_.Op(kBinary[Up(std::size(kBinary))], {Any(), Any()}));
    } else if (kind == 7) {
      values_.push_back(graph_.Op(is_real_ ? "RealDiv" : "FloorDiv", {Any(), graph_.Op("AddV2", {graph_.Op("Abs", {Any()}), One()})}));
    } else if (kind == 8) {
      flags_.push_back(graph_.Op(kCompare[Up(std::size(kCompare))], {Any(), Any()}));
    } else if (kind == 9 && !flags_.empty()) {
      values_.push_back(graph_.Op("SelectV2", {flags_[Up(flags_.size())], Any(), Any()}));
    } else if (kind == 10) {
      const Output x = Any();
      values_.push_back(graph_.Op("AddN", {std::vector<Output>(2 + Up(4), x)}));
    } else {
      const DType by_way_of = Up(2) == 0 ? DType::kDouble : DType::kFloat;
      const Output there = graph_.Op("Cast", {Any()}, {{"DstT", by_way_of}});
      values_.push_back(graph_.Op("Cast", {there}, {{"DstT", type_}}));
    }
  }
  Output One() { return graph_.Op("Cast", {graph_.Const(1.0f)}, {{"DstT", type_}}); }

  Random random_;
  Graph graph_;
  DType type_;
  bool is_real_;
  std::vector<int64_t> full_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Output> values_, flags_;
};

TEST(Tiles, RandomGraphsHaveTheBitsOfTheirNodesOneByOne) {
  const char* const asked = std::getenv("TENON_CHAINS");
  const int count = asked == nullptr ? 400 : std::atoi(asked);
  int taken = 0;
  const char* const begin = std::getenv("TENON_CHAINS_FROM");
  for (int seed = begin == nullptr ? 1 : std::atoi(begin); seed <= count && !::testing::Test::HasFailure(); ++seed) taken += RandomChain(static_cast<uint64_t>(seed)).Check("seed " + std::to_string(seed) + ": ");
  if (begin == nullptr) EXPECT_GT(taken, count) << "so few nodes were taken together that nothing was tried";
}

Tensor Ramp(const Shape& shape) {
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 97) / 16 - 3);
  return *Tensor::From(values, shape);
}

TEST(Tiles, AChainIsOnePass) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
  Output y = g.Op("AddV2", {g.Op("Mul", {x, g.Const(2.0f)}), g.Const(1.0f)});
  for (int i = 0; i < 3; ++i) y = g.Op("Tanh", {g.Op("Mul", {y, x})});
  EXPECT_EQ(Compare(g, {{x, Ramp({5, 4001})}}, {y}), 8);
}

// Of [rows, columns]: a bias of each column, a factor of each row, a scalar; and of more dims, some of which are 1.
TEST(Tiles, WhatIsBroadcastIsLaidOut) {
  for (const auto& dims : std::vector<std::pair<Shape, std::vector<Shape>>>{{{100, 48}, {{48}, {100, 1}, {1, 48}, {1}, {}}},
                                                                             {{3, 5, 7, 11}, {{11}, {7, 1}, {5, 1, 11}, {3, 1, 1, 1}, {3, 5, 1, 11}, {1, 1, 1, 11}}},
                                                                             {{2, 5000}, {{5000}, {2, 1}}},
                                                                             {{9000, 1}, {{9000, 1}, {1, 1}}}}) {
    Graph g(TheRuntime());
    const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
    std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp(dims.first)}};
    Output y = g.Op("Neg", {x});
    for (const Shape& shape : dims.second) {
      feeds.emplace_back(g.Placeholder("", DType::kFloat, Shape::Unknown()), Ramp(shape));
      y = g.Op("Tanh", {g.Op("AddV2", {y, feeds.back().first})});
    }
    EXPECT_EQ(Compare(g, feeds, {y}), 1 + 2 * static_cast<int>(dims.second.size())) << "of rank " << dims.first.rank();
  }
}

TEST(Tiles, ValuesThatAreReadOutsideAreThere) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {300, 40});
  const Output a = g.Op("Exp", {x}), b = g.Op("Mul", {a, x}), c = g.Op("Sub", {b, a});
  const Output sum = g.Op("Sum", {b, g.Const<int32_t>({0})});
  EXPECT_EQ(Compare(g, {{x, Ramp({300, 40})}}, {c, a, sum}), 3);
}

// A node between two of a group reads one and feeds the other: they cannot be one pass.
TEST(Tiles, WhatStandsBetweenKeepsThemApart) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output a = g.Op("Tanh", {x}), b = g.Op("Mul", {a, a});
  const Output mean = g.Op("Mean", {b, g.Const<int32_t>({1})}, {{"keep_dims", true}});
  const Output y = g.Op("Sub", {b, mean}), z = g.Op("Square", {y});
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {z}), 4);
}

// One node feeds a loop, another reads what the loop gives of something else: no value goes from the one to the other, but the loop runs between them.
TEST(Tiles, ALoopRunsBetweenWhatItReadsAndWhatReadsIt) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output a = g.Op("Tanh", {x});
  const auto loop = While(g, {g.Const<int32_t>(0), a, x}, {}, [&](const std::vector<Output>& v) { return g.Op("Less", {v[0], g.Const<int32_t>(3)}); },
                          [&](const std::vector<Output>& v) {
                            return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), g.Op("Sin", {g.Op("Neg", {v[1]})}), g.Op("Cos", {g.Op("Neg", {v[2]})})};
                          });
  const Output y = g.Op("Mul", {g.Op("Square", {a}), loop[2]}), z = g.Op("AddV2", {y, loop[1]});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {z, loop[1]}), 4);
}

// The product's memory is the chain's to write in, unless a view of it is read later.
TEST(Tiles, MemoryIsTakenOverOnlyWhereNobodyReadsItAfterwards) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output product = g.Op("MatMul", {x, x});
  const Output same = g.Op("Reshape", {product, g.Const<int32_t>({64, 64})});
  const Output a = g.Op("Neg", {product}), b = g.Op("Tanh", {a}), c = g.Op("AddV2", {b, same}), d = g.Op("Mul", {c, product});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {d, a}), 4);
  const Output second = g.Op("MatMul", {x, x});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Exp", {g.Op("Neg", {second})}), g.Op("MatMul", {second, x})}), 2);
}

// A divisor that is zero is an error as ever: integer division is no pass's.
TEST(Tiles, FailuresAreThoseOfTheNodes) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kInt32, {3});
  const Output y = g.Op("Neg", {g.Op("FloorDiv", {g.Op("Square", {x}), g.Op("Neg", {x})}, {}, "quotient")});
  Compare(g, {{x, TensorOf(DType::kInt32, {3}, {1, 0, 2})}}, {y});
  const Answer answer = RunIt(g, {{x, TensorOf(DType::kInt32, {3}, {1, 0, 2})}}, {y}, true);
  EXPECT_NE(answer.failure.find("quotient"), std::string::npos) << answer.failure;
  // Shapes that do not go together are known when the feeds are.
  Graph h(TheRuntime());
  const Output u = h.Placeholder("u", DType::kFloat, Shape::Unknown()), v = h.Placeholder("v", DType::kFloat, Shape::Unknown());
  const Output w = h.Op("Tanh", {h.Op("AddV2", {h.Op("Neg", {u}), v}, {}, "sum")});
  Compare(h, {{u, Ramp({4, 3})}, {v, Ramp({4})}}, {w});
}

TEST(Tiles, LoopsAndBranches) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {70, 33}), flag = g.Placeholder("flag", DType::kBool, Shape{});
  const auto loop = While(g, {g.Const<int32_t>(0), x}, {x}, [&](const std::vector<Output>& v) { return g.Op("Less", {v[0], g.Const<int32_t>(5)}); },
                          [&](const std::vector<Output>& v) {
                            const Output scaled = g.Op("Mul", {v[1], g.Const(0.5f)});
                            return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), g.Op("Tanh", {g.Op("AddV2", {scaled, v[2]})})};
                          });
  const auto branch = Cond(g, flag, {loop[1]}, [&](const std::vector<Output>& v) { return std::vector<Output>{g.Op("Exp", {g.Op("Neg", {v[0]})})}; },
                           [&](const std::vector<Output>& v) { return std::vector<Output>{g.Op("Square", {g.Op("Sigmoid", {v[0]})})}; });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    for (const double taken : {0.0, 1.0}) {
      const std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp({70, 33})}, {flag, TensorOf(DType::kBool, Shape{}, {taken})}};
      const Answer one_by_one = RunIt(g, feeds, {branch[0], loop[0]}, false, executor), tiled = RunIt(g, feeds, {branch[0], loop[0]}, true, executor);
      ASSERT_EQ(one_by_one.failure, "");
      ASSERT_EQ(tiled.failure, "");
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(DifferenceOf(one_by_one.values[i], tiled.values[i]), "") << i;
      if (executor == TENON_EXECUTOR_AUTO) EXPECT_GE(tiled.how.at("tiled"), 7);
    }
  }
}

}  // namespace
}  // namespace tenon::engine
