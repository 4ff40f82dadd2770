// SPDX-License-Identifier: Apache-2.0
// What steps take by the clock of simulated devices: that it is the same for the same step, that compiling makes no
// step longer, and that copies and independent chains run beside each other. Random graphs with fixed seeds, placed by
// the engine, or at random by name. Covers F4, G1, G2, H8, N8, R4.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/engine/engine.h"
#include "tests/fakes/trace_events.h"

namespace tenon::engine::simulated_time_test {
namespace {

// TENON_SIMULATED_GRAPHS=300 tries more, TENON_SIMULATED_FIRST=215 begins there.
int Number(const char* variable, int otherwise) {
  const char* wished = std::getenv(variable);
  return wished == nullptr ? otherwise : std::atoi(wished);
}

// One device's clock never goes back, so each measurement has devices of its own.
Runtime NewRuntime(const char* cores = "1") {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "cores", cores}};
  auto made = Runtime::Create(options);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().message();
    std::abort();  // NOLINT: nothing can be tested without a runtime
  }
  return std::move(*made);
}

struct Work {
  std::string device;
  std::string name;
  double begin, end;
};

// What the devices did by their own clock, in microseconds.
std::vector<Work> OwnWork(const std::string& trace) {
  std::vector<Work> works;
  for (const fakes::TraceSpan& span : fakes::TraceSpans(trace))
    if (span.process.ends_with("its own clock") && span.category != "wait")
      works.push_back({span.process, span.name, span.begin, span.end});
  std::stable_sort(works.begin(), works.end(), [](const Work& a, const Work& b) {
    return std::tie(a.device, a.begin, a.end, a.name) < std::tie(b.device, b.begin, b.end, b.name);
  });
  return works;
}

// TENON_SIMULATED_TELL: says what each graph took; with "works" also when each work was.
bool Tells() { return std::getenv("TENON_SIMULATED_TELL") != nullptr; }
bool TellsWorks() { return Tells() && std::string_view(std::getenv("TENON_SIMULATED_TELL")) == "works"; }
void Tell(const std::vector<Work>& works) {
  for (const Work& work : works)
    std::cout << work.begin << " to " << work.end << " " << work.device << " " << work.name << "\n";
}

double FirstBegin(const std::vector<Work>& works) {
  return std::min_element(works.begin(), works.end(), [](const Work& a, const Work& b) { return a.begin < b.begin; })
      ->begin;
}
double Length(const std::vector<Work>& works) {
  return std::max_element(works.begin(), works.end(), [](const Work& a, const Work& b) { return a.end < b.end; })->end -
         FirstBegin(works);
}

// By name, seconds that the placement predicts for each node; "" for the step.
std::map<std::string, double> PredictedSeconds(Session& session, const std::vector<Name>& feeds,
                                               const std::vector<Name>& fetches) {
  const auto placed = session.Place(feeds, fetches);
  EXPECT_TRUE(placed.ok()) << placed.status().message();
  const auto json = nlohmann::json::parse(placed->json);
  std::map<std::string, double> seconds = {{"", json["seconds"]}};
  for (const auto& node : json["nodes"]) seconds[node["name"]] = double{node["finish"]} - double{node["start"]};
  return seconds;
}

// A graph of square matrices, which the engine places, or whose nodes name one of two devices each.
class Squares {
 public:
  Squares(Runtime& runtime, uint32_t seed, bool named) : graph_(runtime), random_(seed) {
    const int64_t size = int64_t{64} << random_() % 3;
    const Shape shape{size, size};
    std::vector<Output> values;
    for (uint32_t i = 0; i < 2 + random_() % 3; ++i) {
      const Output x = graph_.Placeholder("x" + std::to_string(i), DType::kFloat, shape);
      feeds_.push_back({x, *Tensor::Zeros(DType::kFloat, shape)});
      values.push_back(x);
    }
    const uint32_t chains = 1 + random_() % 4, steps = 6 + random_() % 30;
    std::vector<Output> ends;
    for (uint32_t i = 0; i < chains; ++i) ends.push_back(values[random_() % values.size()]);
    for (uint32_t i = 0; i < steps; ++i) {
      const auto device = graph_.Device(named ? "/device:TPU:" + std::to_string(random_() % 2) : "/device:TPU:*");
      Output& end = ends[random_() % chains];
      end = Next(end, random_() % 4 == 0 ? ends[random_() % chains] : values[random_() % values.size()]);
    }
    for (const Output& end : ends) {
      const auto device = graph_.Device("/device:TPU:*");
      fetches_.push_back(random_() % 2 == 0 ? graph_.Op("Max", {end, graph_.Const({0, 1})}) : end);
    }
  }

  // Seconds of a step node by node.
  double Predicted(Runtime& runtime) {
    auto session = Session::Create(runtime, graph_);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<Name> feeds;
    for (const Feed& feed : feeds_) feeds.push_back(feed.name);
    return PredictedSeconds(*session, feeds, fetches_)[""];
  }
  // Works of `steps` steps, one after the other.
  std::vector<std::vector<Work>> Run(Runtime& runtime, bool compile, int steps = 1) {
    SessionOptions options;
    options.compile = compile;
    auto session = Session::Create(runtime, graph_, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<std::vector<Work>> out;
    for (int step = 0; step < steps; ++step) {
      std::string trace;
      RunOptions run;
      run.trace = &trace;
      const auto values = session->Run(feeds_, fetches_, {}, run);
      EXPECT_TRUE(values.ok()) << values.status().message();
      out.push_back(OwnWork(trace));
    }
    return out;
  }

 private:
  Output Next(const Output& a, const Output& b) {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: return graph_.Op("MatMul", {a, b});
      case 3: return graph_.Op("AddV2", {a, b});
      case 4: return graph_.Op("Mul", {a, b});
      case 5: return graph_.Op("Relu", {a});
      case 6: return graph_.Op("Tanh", {a});
      default: return graph_.Op("Softmax", {a});
    }
  }
  Graph graph_;
  std::mt19937 random_;
  std::vector<Feed> feeds_;
  std::vector<Name> fetches_;
};

struct Ratios {
  double sum = 0, worst = 0;
  int graphs = 0, longer = 0, shorter = 0;
  void Add(double ratio) {
    sum += std::log(ratio);
    worst = std::max(worst, ratio);
    longer += ratio > 1.0001;
    shorter += ratio < 0.9999;
    ++graphs;
  }
  double mean() const { return std::exp(sum / graphs); }
};

Ratios CompiledByNodes(const char* cores, bool named, uint32_t graphs) {
  Ratios ratios;
  const auto first = static_cast<uint32_t>(Number("TENON_SIMULATED_FIRST", 0));
  for (uint32_t seed = first; seed < first + graphs; ++seed) {
    double seconds[2];
    for (const bool compile : {false, true}) {
      Runtime runtime = NewRuntime(cores);
      const std::vector<Work> works = Squares(runtime, seed, named).Run(runtime, compile)[0];
      seconds[compile] = Length(works);
      if (TellsWorks()) Tell(works);
    }
    ratios.Add(seconds[1] / seconds[0]);
    if (Tells()) std::cout << seed << ": " << seconds[0] << " us by nodes, " << seconds[1] << " us compiled\n";
  }
  std::cout << "cores " << cores << (named ? ", named: " : ", placed: ") << graphs
            << " graphs, compiled by nodes: mean " << ratios.mean() << ", worst " << ratios.worst << ", "
            << ratios.longer << " longer, " << ratios.shorter << " shorter\n";
  return ratios;
}

TEST(SimulatedTime, IsNotLongerWhereCompilersMayTakeNodes) {
  const auto graphs = static_cast<uint32_t>(Number("TENON_SIMULATED_GRAPHS", 12));
  for (const char* cores : {"1", "2"})
    for (const bool named : {false, true}) {
      const Ratios ratios = CompiledByNodes(cores, named, graphs);
      EXPECT_EQ(ratios.longer, 0) << cores << " " << named;
      EXPECT_GT(ratios.shorter, 0);
    }
}

TEST(SimulatedTime, OfAKernelIsWhatThePlacementPredicts) {
  Runtime runtime = NewRuntime();
  Graph g(runtime);
  const auto device = g.Device("/device:TPU:0");
  const auto input = [&](const char* name, const Shape& shape) { return g.Placeholder(name, DType::kFloat, shape); };
  const Shape left{100, 130}, right{130, 260}, images{2, 9, 9, 5}, filter{3, 3, 5, 7}, results{2, 9, 9, 7};
  const Output a = input("a", left), b = input("b", right), stack = input("stack", {3, 100, 130}),
               x = input("x", images), w = input("w", filter), y = input("y", results);
  const std::vector<Feed> feeds = {{a, *Tensor::Zeros(DType::kFloat, left)},
                                   {b, *Tensor::Zeros(DType::kFloat, right)},
                                   {stack, *Tensor::Zeros(DType::kFloat, {3, 100, 130})},
                                   {x, *Tensor::Zeros(DType::kFloat, images)},
                                   {w, *Tensor::Zeros(DType::kFloat, filter)},
                                   {y, *Tensor::Zeros(DType::kFloat, results)}};
  const Attrs window = {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}};
  const std::vector<Name> fetches = {
      g.Op("MatMul", {a, b}, {}, "product"),
      g.Op("MatMul", {a, a}, {{"transpose_b", true}}, "square"),
      g.Op("BatchMatMulV2", {stack, b}, {}, "batch"),
      g.Op("Conv2D", {x, w}, window, "conv"),
      g.Op("Conv2DBackpropInput", {g.Const({2, 9, 9, 5}), w, y}, window, "to_input"),
      g.Op("Conv2DBackpropFilter", {x, g.Const({3, 3, 5, 7}), y}, window, "to_filter"),
      g.Op("Softmax", {a}, {}, "softmax"),
      g.Op("Sum", {a, g.Const({1})}, {}, "sum"),
  };
  SessionOptions options;
  options.compile = false;
  auto session = Session::Create(runtime, g, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto predicted = PredictedSeconds(*session, {a, b, stack, x, w, y}, fetches);
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  const auto values = session->Run(feeds, fetches, {}, run);
  ASSERT_TRUE(values.ok()) << values.status().message();
  std::set<std::string> seen;
  for (const Work& work : OwnWork(trace)) {
    if (!predicted.contains(work.name)) continue;  // a copy
    seen.insert(work.name);
    EXPECT_NEAR(work.end - work.begin, predicted.at(work.name) * 1e6, 0.003) << work.name;
  }
  EXPECT_EQ(seen,
            (std::set<std::string>{"product", "square", "batch", "conv", "to_input", "to_filter", "softmax", "sum"}));
}

// How far the whole step is from its prediction, node by node.
TEST(SimulatedTime, OfAStepIsNearWhatThePlacementPredicts) {
  double worst = 1, sum = 0;
  const int graphs = Number("TENON_SIMULATED_GRAPHS", 25), first = Number("TENON_SIMULATED_FIRST", 0);
  for (int seed = first; seed < first + graphs; ++seed) {
    Runtime runtime = NewRuntime();
    Squares squares(runtime, static_cast<uint32_t>(seed), seed % 2 == 0);
    const double predicted = squares.Predicted(runtime) * 1e6;
    const std::vector<Work> works = squares.Run(runtime, false)[0];
    const double found = Length(works);
    if (TellsWorks()) Tell(works);
    const double ratio = std::max(predicted / found, found / predicted);
    worst = std::max(worst, ratio);
    sum += std::log(ratio);
    if (Tells()) std::cout << seed << ": " << predicted << " us predicted, " << found << " us\n";
  }
  std::cout << "the step from its prediction: mean " << std::exp(sum / graphs) << ", worst " << worst << "\n";
  EXPECT_LT(worst, 1.35);
  EXPECT_LT(std::exp(sum / graphs), 1.05);
}

// The first work that is another or at another time from the step's begin on; times are cycles of 1.43 ns cut to
// nanoseconds.
std::string Differs(const std::vector<Work>& a, const std::vector<Work>& b) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " works against " + std::to_string(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double begins[] = {a[i].begin - FirstBegin(a), b[i].begin - FirstBegin(b)};
    if (a[i].name != b[i].name || a[i].device != b[i].device || std::abs(begins[0] - begins[1]) > 0.0025 ||
        std::abs(a[i].end - a[i].begin - b[i].end + b[i].begin) > 0.0025)
      return a[i].device + " " + a[i].name + " at " + std::to_string(begins[0]) + " us against " + b[i].device + " " +
             b[i].name + " at " + std::to_string(begins[1]);
  }
  return "";
}

TEST(SimulatedTime, IsTheSameForTheSameStep) {
  const int steps = Number("TENON_SIMULATED_STEPS", 100);
  for (uint32_t seed = 0; seed < 3; ++seed)
    for (const bool compile : {false, true}) {
      Runtime runtime = NewRuntime(seed % 2 == 0 ? "1" : "3");
      std::vector<std::vector<Work>> all = Squares(runtime, seed, seed % 3 != 0).Run(runtime, compile, steps + 1);
      all.erase(all.begin());  // in the first one constants are brought to their devices
      for (size_t step = 1; step < all.size(); ++step) {
        const std::string other = Differs(all[0], all[step]);
        EXPECT_EQ(other, "") << "seed " << seed << (compile ? ", compiled" : ", by nodes") << ", step " << step;
        if (!other.empty()) break;
      }
    }
}

// ---- At once ----

// The works of the second step of a session on one device of two cores, node by node.
std::vector<Work> WorksOf(const std::function<void(Graph&, std::vector<Feed>*, std::vector<Name>*)>& make,
                          bool one_queue) {
  Runtime runtime = NewRuntime("2");
  Graph g(runtime);
  std::vector<Feed> feeds;
  std::vector<Name> fetches;
  {
    const auto device = g.Device("/device:TPU:0");
    make(g, &feeds, &fetches);
  }
  SessionOptions options;
  options.compile = false;
  options.debug.one_queue = one_queue;
  auto session = Session::Create(runtime, g, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  for (int step = 0; step < 2; ++step) {  // in the first one constants are brought
    const auto values = session->Run(feeds, fetches, {}, run);
    EXPECT_TRUE(values.ok()) << values.status().message();
  }
  return OwnWork(trace);
}

// Microseconds in which works of both kinds run.
double AtOnce(const std::vector<Work>& works, const std::function<bool(const Work&)>& one,
              const std::function<bool(const Work&)>& other) {
  std::vector<double> instants;
  for (const Work& work : works) instants.insert(instants.end(), {work.begin, work.end});
  std::sort(instants.begin(), instants.end());
  double sum = 0;
  for (size_t i = 1; i < instants.size(); ++i) {
    const auto runs = [&](const std::function<bool(const Work&)>& is) {
      return std::any_of(works.begin(), works.end(), [&](const Work& work) {
        return is(work) && work.begin <= instants[i - 1] && work.end >= instants[i];
      });
    };
    if (runs(one) && runs(other)) sum += instants[i] - instants[i - 1];
  }
  return sum;
}

double Sum(const std::vector<Work>& works, const std::function<bool(const Work&)>& is) {
  double sum = 0;
  for (const Work& work : works) sum += is(work) ? work.end - work.begin : 0;
  return sum;
}

bool IsIn(const Work& work) { return work.name.ends_with("/to_TPU_0"); }
bool IsProduct(const Work& work) { return work.name.starts_with("MatMul"); }

// Eight inputs, each for products of its own that take about as long as its copy.
void CopiesAndProducts(Graph& g, std::vector<Feed>* feeds, std::vector<Name>* fetches) {
  const Shape shape{512, 512};
  for (int i = 0; i < 8; ++i) {
    const Output x = g.Placeholder("x" + std::to_string(i), DType::kFloat, shape);
    feeds->push_back({x, *Tensor::Zeros(DType::kFloat, shape)});
    fetches->push_back(g.Op("Max", {g.Op("MatMul", {g.Op("MatMul", {x, x}), x}), g.Const({0, 1})}));
  }
}

TEST(SimulatedTime, OfCopiesIsBesideKernels) {
  const std::vector<Work> all = WorksOf(CopiesAndProducts, false), one = WorksOf(CopiesAndProducts, true);
  std::cout << Length(all) << " us, of copies " << Sum(all, IsIn) << ", of products " << Sum(all, IsProduct)
            << ", of both at once " << AtOnce(all, IsIn, IsProduct) << "; one queue " << Length(one) << "\n";
  ASSERT_GT(Sum(all, IsIn), 0.25 * Length(one));
  ASSERT_GT(Sum(all, IsProduct), 0.25 * Length(one));
  EXPECT_LT(AtOnce(one, IsIn, IsProduct), 0.001);
  EXPECT_GT(AtOnce(all, IsIn, IsProduct), 0.87 * Sum(all, IsIn)) << "all but the first of eight";
}

// Two chains that do not need each other.
void TwoChains(Graph& g, std::vector<Feed>* feeds, std::vector<Name>* fetches) {
  const Shape shape{256, 256};
  const Output x = g.Placeholder("x", DType::kFloat, shape);
  feeds->push_back({x, *Tensor::Zeros(DType::kFloat, shape)});
  for (const std::string chain : {"a", "b"}) {
    Output y = g.Op("Mul", {x, g.Const(chain == "a" ? 0.5f : 0.25f)});
    for (int i = 0; i < 16; ++i) y = g.Op("MatMul", {y, x}, {}, chain + std::to_string(i));
    fetches->push_back(g.Op("Max", {y, g.Const({0, 1})}));
  }
}

TEST(SimulatedTime, OfIndependentChainsIsThatOfOneOnTwoQueues) {
  const auto of = [](char chain) { return [chain](const Work& work) { return work.name[0] == chain; }; };
  const std::vector<Work> all = WorksOf(TwoChains, false), one = WorksOf(TwoChains, true);
  std::cout << Length(all) << " us, of each chain " << Sum(all, of('a')) << ", of both at once "
            << AtOnce(all, of('a'), of('b')) << "; one queue " << Length(one) << "\n";
  ASSERT_GT(Sum(all, of('a')), 0.4 * Length(one));
  EXPECT_LT(AtOnce(one, of('a'), of('b')), 0.001);
  EXPECT_GT(AtOnce(all, of('a'), of('b')), 0.9 * Sum(all, of('a')));
  EXPECT_LT(Length(all), 0.6 * Length(one));
}

}  // namespace
}  // namespace tenon::engine::simulated_time_test
