// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes: random ones, and their answers by each way in which the engine runs them.
#ifndef TENON_TESTS_ENGINE_CHAINS_H_
#define TENON_TESTS_ENGINE_CHAINS_H_

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

// One whose chains are compiled to code of the level ("avx512", "avx2"), of values of any number of elements, or to
// none ("none"). nullptr: this machine or this build has no such code.
inline Runtime* RuntimeOf(const std::string& level) {
  static std::map<std::string, Runtime*> all;
  const auto [found, is_new] = all.emplace(level, nullptr);
  if (!is_new) return found->second;
  RuntimeOptions options;
  options.plugin_options = {{"tenon.cpu_codegen", "level", level},
                            {"tenon.cpu_codegen", "least", "2"},
                            {"tenon.cpu_codegen", "least_columns", "2"}};
  auto made = Runtime::Create(options);
  if (!made.ok() && level == "none") made = Runtime::Create();  // it was not built
  if (made.ok()) found->second = new Runtime(std::move(*made));
  return found->second;
}

using Random = std::mt19937_64;

// How many nodes run how, as the callable says.
inline std::map<std::string, int> HowNodesRun(const std::string& text) {
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

inline Answer RunIt(Runtime& runtime, const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds,
                    const std::vector<Output>& fetches, bool compile, uint32_t executor = TENON_EXECUTOR_AUTO) {
  SessionOptions options;
  options.compile = compile;
  options.executor = executor;
  Answer answer;
  auto session = Session::Create(runtime, graph, options);
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
inline bool IsNan(DType dtype, const uint8_t* element) {
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
inline std::string DifferenceOf(const Tensor& a, const Tensor& b) {
  const tenon_tensor_view &x = *tenon_tensor_get_view(a.get()), &y = *tenon_tensor_get_view(b.get());
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()) || x.byte_size != y.byte_size)
    return "of another type or shape";
  const auto *left = static_cast<const uint8_t*>(x.dl.data), *right = static_cast<const uint8_t*>(y.dl.data);
  const size_t size =
      x.byte_size / std::max<size_t>(1, static_cast<size_t>(std::accumulate(x.dl.shape, x.dl.shape + x.dl.ndim,
                                                                            int64_t{1}, std::multiplies<>())));
  size_t at = 0;
  const auto differ = [&] {
    return std::memcmp(left + at, right + at, size) != 0 &&
           !(IsNan(a.dtype(), left + at) && IsNan(a.dtype(), right + at));
  };
  while (at < x.byte_size && !differ()) at += size;
  if (at == x.byte_size) return "";
  std::string text = DTypeName(a.dtype()) + " element " + std::to_string(at / size) + ":";
  for (const uint8_t* from : {left, right}) {
    text += " ";
    for (size_t i = size; i-- > 0;)
      text += "0123456789abcdef"[from[at / size * size + i] >> 4],
          text += "0123456789abcdef"[from[at / size * size + i] & 15];
  }
  return text;
}

// A graph of element-wise nodes over values of a few shapes that broadcast to one another.
class RandomChain {
 public:
  // A node as it was added, by the places of its operands among values().
  struct Step {
    std::string op;
    std::vector<size_t> operands;
    size_t result = 0;
    DType type = DType::kFloat;  // of a cast
    std::vector<int32_t> axes = {};  // of a reduction
    bool keeps_dims = false;
  };
  struct Choice {
    bool is_exact = false;      // no function that code computes in ways of its own
    bool is_generated = false;  // no op that no code is generated for
    bool has_rows = false;      // reductions, whose results go on; softmax; norms
  };
  // The step's node, of these operands.
  static Output NodeOf(Graph& graph, const Step& step, const std::vector<Output>& in) {
    if (step.op == "Cast") return graph.Op("Cast", {in[0]}, {{"DstT", step.type}});
    if (step.op == "AddN") return graph.Op("AddN", {in});
    if (!step.axes.empty())
      return graph.Op(step.op.c_str(), {in[0], graph.Const(step.axes, Shape{static_cast<int64_t>(step.axes.size())})},
                      {{"keep_dims", step.keeps_dims}});
    return in.size() == 1   ? graph.Op(step.op.c_str(), {in[0]})
           : in.size() == 2 ? graph.Op(step.op.c_str(), {in[0], in[1]})
                            : graph.Op(step.op.c_str(), {in[0], in[1], in[2]});
  }
  RandomChain(Runtime& runtime, uint64_t seed, Choice choice) : random_(seed), graph_(runtime), choice_(choice) {
    const DType types[] = {DType::kFloat, DType::kFloat, DType::kFloat, DType::kDouble,
                           DType::kInt32, DType::kInt64, DType::kHalf,  DType::kBfloat16};
    type_ = types[Up(std::size(types))];
    is_real_ = type_ != DType::kInt32 && type_ != DType::kInt64;
    const int64_t sizes[] = {1, 2, 3, 5, 7, 16, 33, 64, 100, 257};
    for (size_t d = 0, rank = 1 + Up(3); d < rank; ++d) full_.push_back(sizes[Up(std::size(sizes))]);
    if (Up(4) == 0) full_.back() = 1 + static_cast<int64_t>(Up(3000));
    // Not so many that a thousand graphs take a day.
    const auto elements = [&] { return std::accumulate(full_.begin(), full_.end(), int64_t{1}, std::multiplies<>()); };
    while (elements() > 50000) *std::max_element(full_.begin(), full_.end()) /= 3;
    if (Up(20) == 0) full_[Up(full_.size())] = 0;
    for (size_t i = 0, feeds = 1 + Up(3); i < feeds; ++i) AddFeed(i == 0);
    if (Up(2) == 0) numbers_.push_back(Keep(graph_.Op("Cast", {graph_.Const(0.75f)}, {{"DstT", type_}})));
    for (size_t i = 0, nodes = 2 + Up(20); i < nodes; ++i) AddNode();
  }

  const Graph& graph() const { return graph_; }
  const std::vector<std::pair<Output, Tensor>>& feeds() const { return feeds_; }
  const std::vector<Output>& values() const { return values_; }
  const std::vector<Step>& steps() const { return steps_; }
  std::vector<Output> Fetches() {
    std::vector<Output> fetches = {values_[numbers_.back()]};
    for (const std::vector<size_t>* some : {&numbers_, &reduced_})
      for (const size_t value : *some)
        if (Up(some == &numbers_ ? 6 : 2) == 0) fetches.push_back(values_[value]);
    if (!flags_.empty() && Up(2) == 0) fetches.push_back(values_[flags_.back()]);
    return fetches;
  }

 private:
  size_t Up(size_t end) { return static_cast<size_t>(random_() % end); }
  size_t Keep(const Output& value, size_t rank = 0) {
    values_.push_back(value);
    ranks_.push_back(rank);
    return values_.size() - 1;
  }
  size_t Any() {
    return Up(3) == 0 ? numbers_[Up(numbers_.size())]
                      : numbers_[numbers_.size() - 1 - Up(std::min<size_t>(numbers_.size(), 4))];
  }
  size_t Add(Step step) {
    std::vector<Output> in;
    size_t rank = 0;
    for (const size_t operand : step.operands) {
      in.push_back(values_[operand]);
      rank = std::max(rank, ranks_[operand]);
    }
    if (!step.axes.empty() && !step.keeps_dims) rank -= step.axes.size();
    step.result = Keep(NodeOf(graph_, step, in), rank);
    steps_.push_back(std::move(step));
    return steps_.back().result;
  }
  size_t Add(const char* op, const std::vector<size_t>& operands) { return Add({op, operands, 0, type_}); }
  size_t Cast(size_t value, DType type) { return Add({"Cast", {value}, 0, type}); }

  // Of some of the last dims, or of the first, or of any.
  size_t Reduce(const char* op, size_t value, bool keeps) {
    const auto rank = static_cast<int32_t>(ranks_[value]);
    Step step{op, {value}, 0, type_, {}, keeps};
    const int32_t count = Up(2) == 0 ? 1 : 1 + static_cast<int32_t>(Up(ranks_[value]));
    for (int32_t i = 0; i < count; ++i) step.axes.push_back(Up(2) == 0 ? i - count : rank - count + i);
    if (Up(6) == 0) step.axes = {static_cast<int32_t>(Up(ranks_[value]))};
    if (Up(4) == 0) std::iota(step.axes.begin(), step.axes.end(), 0);
    return Add(std::move(step));
  }
  void AddRows() {
    static const char* const kReductions[] = {"Sum", "Mean", "Max", "Min", "Prod"};
    const size_t x = Any();
    if (ranks_[x] == 0) return;
    const size_t kind = Up(choice_.is_exact || !is_real_ ? 6 : 8);
    const auto reduction = [&] { return kReductions[Up(is_real_ ? 5 : 1)]; };  // means of no integers fail
    if (kind < 3) {
      numbers_.push_back(Reduce(reduction(), x, true));
    } else if (kind == 3) {
      reduced_.push_back(Reduce(reduction(), x, false));
    } else if (kind < 6) {
      if (!is_real_) return;
      const size_t mean = Reduce("Mean", x, true), variance = Reduce("Mean", Add("SquaredDifference", {x, mean}), true);
      const size_t one = Keep(graph_.Op("Cast", {graph_.Const(0.001f)}, {{"DstT", type_}}));
      const size_t factor = Add("Mul", {Add("Rsqrt", {Add("AddV2", {variance, one})}), numbers_[0]});
      numbers_.push_back(
          Add("AddV2", {Add("Mul", {x, factor}), Add("Sub", {numbers_[0], Add("Mul", {mean, factor})})}));
    } else {
      numbers_.push_back(Add(kind == 6 ? "Softmax" : "LogSoftmax", {x}));
    }
  }

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
    // None below the smallest normal one: of these a product is 0, and what a compiler made of a product by 1 shows
    // them as they are.
    const float special[] = {0.f,
                             -0.f,
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::min(),
                             -std::numeric_limits<float>::min(),
                             3e38f,
                             88.7f,
                             -103.f};
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(is_real_ && Up(50) == 0
                            ? special[Up(std::size(special))]
                            : static_cast<float>(static_cast<double>(random_() % 20001) / 2000 - 5));
    Graph cast(TheRuntime());
    const Output from = cast.Placeholder("x", DType::kFloat, Shape(dims));
    const auto made =
        RunOnce(cast, {{from, *Tensor::From(numbers, Shape(dims))}}, {cast.Op("Cast", {from}, {{"DstT", type_}})});
    ASSERT_EQ(made.size(), 1u);
    const Output fed =
        graph_.Placeholder("", type_, Up(choice_.has_rows ? 8 : 2) != 1 ? Shape(dims) : Shape::Unknown());
    feeds_.emplace_back(fed, made[0]);
    numbers_.push_back(Keep(fed, dims.size()));
  }

  void AddNode() {
    static const char* const kUnary[] = {"Neg", "Abs", "Square", "Sign", "Relu", "Relu6"};
    static const char* const kExactUnary[] = {"Sqrt",  "Rsqrt",      "Floor",    "Ceil",
                                              "Round", "Reciprocal", "Softsign", "LeakyRelu"};
    static const char* const kRealUnary[] = {"Exp",   "Tanh",     "Sigmoid", "Log1p", "Log",
                                             "Expm1", "Softplus", "Elu",     "Selu"};
    static const char* const kOther[] = {"Sin", "Erf"};
    static const char* const kBinary[] = {"AddV2",    "Sub",      "Mul", "Maximum", "Minimum", "SquaredDifference",
                                          "ReluGrad", "Relu6Grad"};
    static const char* const kRealBinary[] = {
        "RealDiv",  "DivNoNan",  "MulNoNan",       "Xdivy",   "FloorDiv", "TruncateDiv",  "TanhGrad",     "SigmoidGrad",
        "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "EluGrad", "SeluGrad", "SoftsignGrad", "LeakyReluGrad"};
    static const char* const kNearBinary[] = {"Xlogy", "SoftplusGrad"};
    static const char* const kCompare[] = {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"};
    static const char* const kAsk[] = {"IsNan", "IsInf", "IsFinite"};
    const auto one_of = [&](const auto& names) { return names[Up(std::size(names))]; };
    if (choice_.has_rows && Up(3) == 0) return AddRows();
    const size_t kind = Up(14);
    if (kind < 4) {
      const char* op = one_of(kUnary);
      if (is_real_ && Up(2) == 0) {
        op = choice_.is_exact || Up(2) == 0 ? one_of(kExactUnary) : one_of(kRealUnary);
        if (!choice_.is_generated && !choice_.is_exact && Up(4) == 0) op = one_of(kOther);
      }
      numbers_.push_back(Add(op, {Any()}));
    } else if (kind < 8) {
      const char* op = is_real_ && Up(3) == 0
                           ? (!choice_.is_exact && Up(6) == 0 ? one_of(kNearBinary) : one_of(kRealBinary))
                           : one_of(kBinary);
      const size_t left = Any();
      // Gradients do not broadcast.
      const bool is_gradient = std::string(op).ends_with("Grad");
      numbers_.push_back(Add(op, {left, is_gradient ? Add(kUnary[Up(2)], {left}) : Any()}));
    } else if (kind == 8) {
      const size_t low = Any(), one = Keep(graph_.Op("Cast", {graph_.Const(1.0f)}, {{"DstT", type_}}));
      if (is_real_) numbers_.push_back(Add("RealDiv", {Any(), Add("AddV2", {Add("Abs", {low}), one})}));
      else if (!choice_.is_generated)
        numbers_.push_back(Add("FloorDiv", {Any(), Add("AddV2", {Add("Abs", {low}), one})}));
      else
        numbers_.push_back(
            Add("ClipByValue", {Any(), one, Keep(graph_.Op("Cast", {graph_.Const(3.0f)}, {{"DstT", type_}}))}));
    } else if (kind == 9) {
      flags_.push_back(is_real_ && Up(3) == 0 ? Add(one_of(kAsk), {Any()}) : Add(one_of(kCompare), {Any(), Any()}));
      if (flags_.size() > 1 && Up(2) == 0)
        flags_.push_back(
            Up(3) == 0 ? Add("LogicalNot", {flags_.back()})
                       : Add(Up(2) == 0 ? "LogicalAnd" : "LogicalOr", {flags_.back(), flags_[Up(flags_.size())]}));
    } else if (kind == 10 && !flags_.empty()) {
      numbers_.push_back(Add("SelectV2", {flags_[Up(flags_.size())], Any(), Any()}));
    } else if (kind == 11) {
      numbers_.push_back(Add("AddN", std::vector<size_t>(2 + Up(3), Any())));
    } else if (kind == 12 && !flags_.empty()) {
      numbers_.push_back(Cast(flags_[Up(flags_.size())], type_));
    } else {
      const DType ways[] = {DType::kDouble,   DType::kFloat, DType::kInt32, DType::kInt64,
                            DType::kBfloat16, DType::kHalf,  DType::kBool};
      const DType by_way_of = Up(2) == 0 ? DType::kFloat : ways[Up(std::size(ways))];
      const size_t there = Cast(Any(), by_way_of);
      if (by_way_of == DType::kBool) flags_.push_back(there);
      numbers_.push_back(Cast(there, type_));
    }
  }

  Random random_;
  Graph graph_;
  const Choice choice_;
  DType type_;
  bool is_real_;
  std::vector<int64_t> full_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Output> values_;
  std::vector<size_t> ranks_;             // of values
  std::vector<size_t> numbers_, flags_;   // of values_: of the chain's type, and truths
  std::vector<size_t> reduced_;           // of values_: with fewer dims than they were reduced from
  std::vector<Step> steps_;
};

inline Tensor Ramp(const Shape& shape) {
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 97) / 16 - 3);
  return *Tensor::From(values, shape);
}

// A chain in a loop that ends with one op, and one in each branch of a conditional, with another op: node by node and
// taken together, by both executors. how: as those that are taken together run.
struct ChainOps {
  const char *in_loop, *in_then, *in_else;
};
inline void ExpectAlikeInLoopsAndBranches(Runtime& runtime, const ChainOps& ops, const std::string& how) {
  Graph g(runtime);
  const Output x = g.Placeholder("x", DType::kFloat, {70, 33}), flag = g.Placeholder("flag", DType::kBool, Shape{});
  const auto loop = While(
      g, {g.Const<int32_t>(0), x}, {x},
      [&](const std::vector<Output>& v) {
        return g.Op("Less", {v[0], g.Const<int32_t>(5)});
      },
      [&](const std::vector<Output>& v) {
        const Output scaled = g.Op("Mul", {v[1], g.Const(0.5f)});
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}),
                                   g.Op(ops.in_loop, {g.Op("AddV2", {scaled, v[2]})})};
      });
  const auto branch = Cond(
      g, flag, {loop[1]},
      [&](const std::vector<Output>& v) { return std::vector<Output>{g.Op(ops.in_then, {g.Op("Neg", {v[0]})})}; },
      [&](const std::vector<Output>& v) { return std::vector<Output>{g.Op("Square", {g.Op(ops.in_else, {v[0]})})}; });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    for (const double taken : {0.0, 1.0}) {
      const std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp({70, 33})},
                                                            {flag, TensorOf(DType::kBool, Shape{}, {taken})}};
      const Answer one_by_one = RunIt(runtime, g, feeds, {branch[0], loop[0]}, false, executor),
                   together = RunIt(runtime, g, feeds, {branch[0], loop[0]}, true, executor);
      ASSERT_EQ(one_by_one.failure, "");
      ASSERT_EQ(together.failure, "");
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(DifferenceOf(one_by_one.values[i], together.values[i]), "") << i;
      EXPECT_TRUE(executor != TENON_EXECUTOR_AUTO || together.how.at(how) >= 7);
    }
  }
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_CHAINS_H_
