// SPDX-License-Identifier: Apache-2.0
// A deep LSTM whose layers stand on three devices, as in section 7 of TensorFlow's white paper (model parallel
// training, and steps at once).
//
// The network repeats what it read two symbols before. It is unrolled in time: a device works on a later symbol while
// the next device works on this one. What of the devices' time is left idle, more work at once fills:
//   - a training step takes several microbatches, and applies the mean of their gradients: the losses are those of the
//   whole batch;
//   - several steps, each with a batch of its own, run at once from threads of the client.
// Both are done in a row too, and measured by the clock of the simulated devices (device type TPU), which counts cycles
// and knows neither the host's time nor its load. On devices without a clock of their own the losses are printed alone.
//
//   deep_lstm                      # three simulated devices, kernel by kernel
//   deep_lstm --compile            # all that a device does in a step is one piece of work where it can be: less work,
//   more of it in a row in a step deep_lstm --devices CPU:0      # the whole network on one
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tenon/tenon.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/recurrent.h"

using namespace tenon::host;
using namespace tenon::train;

namespace {

constexpr int64_t kSymbols = 8, kBatch = 8, kTime = 8, kUnits = 32, kDelay = 2;
constexpr int kTries = 10;

struct Settings {
  std::vector<std::string> devices = {"TPU:0", "TPU:1", "TPU:2"};
  int64_t layers = 3;
  int64_t microbatches = 4;
  int64_t steps = 60;
  int64_t at_once = 4;
  bool compile = false;
};

// Symbols [time, batch], made by a seed.
std::vector<int32_t> Symbols(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> symbols(kTime * kBatch);
  for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % kSymbols);
  return symbols;
}

const std::string& DeviceOf(const Settings& settings, int64_t layer) {
  const auto count = static_cast<int64_t>(settings.devices.size());
  return settings.devices[static_cast<size_t>(layer * count / settings.layers)];
}

// The loss of one microbatch. symbols: [time, batch].
Output Loss(Model& model, const Settings& settings, const Output& symbols) {
  Graph& graph = model.graph();
  std::vector<Output> line;  // of the symbols, in time: what a layer gets and gives
  {
    const auto on = graph.Device(settings.devices.front());
    const Output coded = graph.Op(
        "OneHot", {symbols, graph.Const(static_cast<int32_t>(kSymbols)), graph.Const(1.0f), graph.Const(0.0f)});
    line = graph.AddNode("Unpack", {coded}, {{"num", kTime}, {"axis", 0}}).outputs();
  }
  std::vector<RnnCell> cells;
  std::vector<std::vector<Output>> states;
  for (int64_t layer = 0; layer < settings.layers; ++layer) {
    const auto on = graph.Device(DeviceOf(settings, layer));
    model.set_variable_devices({DeviceOf(settings, layer)});
    cells.push_back(LstmCell(model, "layer_" + std::to_string(layer), layer == 0 ? kSymbols : kUnits, kUnits));
    states.emplace_back(2, graph.Op("Fill", {graph.Const({static_cast<int32_t>(kBatch), static_cast<int32_t>(kUnits)}),
                                             graph.Const(0.0f)}));
  }
  if (!graph.status().ok()) return {};
  // Work is given to devices in the order in which it was built: all layers of a symbol before the next symbol, so that
  // no device gets what it has to do only when the one before has done everything.
  for (Output& x : line) {
    for (size_t layer = 0; layer < cells.size(); ++layer) {
      const auto on = graph.Device(DeviceOf(settings, static_cast<int64_t>(layer)));
      RnnStep step = cells[layer].Step(graph, x, states[layer]);
      x = step.output;
      states[layer] = std::move(step.state);
    }
  }
  if (!graph.status().ok()) return {};
  const auto on = graph.Device(settings.devices.back());
  model.set_variable_devices({settings.devices.back()});
  // From the third symbol on it is known what to say.
  const std::vector<Output> told(line.begin() + kDelay, line.end());
  std::vector<Output> joined = told;
  joined.push_back(graph.Const(0));
  const Output outputs = graph.AddNode("ConcatV2", joined, {{"N", static_cast<int64_t>(told.size())}}).outputs()[0];
  const Output logits = model.Dense("answers", outputs, kUnits, kSymbols, Initializer::TruncatedNormal(0.1f));
  const Output asked =
      graph.Op("Slice", {symbols, graph.Const({0, 0}),
                         graph.Const({static_cast<int32_t>(kTime - kDelay), static_cast<int32_t>(kBatch)})});
  return SparseSoftmaxLoss(graph, logits, graph.Op("Reshape", {asked, graph.Const({-1})}));
}

struct Measured {
  double length = 0;  // microseconds of simulated time
  double busy = 0;    // in which a device computed, of all devices added
  Measured& operator+=(const Measured& other) {
    length += other.length;
    busy += other.busy;
    return *this;
  }
};

// What the devices computed, by their own clock. Copies are left out: those of the feeds may be early.
class Clocks {
 public:
  // Adds what a trace has of them; the same work seen in the traces of two steps counts once.
  void Add(const std::string& trace) {
    std::map<int64_t, std::string> groups;
    const auto events = nlohmann::json::parse(trace)["traceEvents"];
    for (const auto& event : events)
      if (event["ph"] == "M" && event["name"] == "process_name") groups[event["pid"]] = event["args"]["name"];
    for (const auto& event : events) {
      const std::string group = event["ph"] == "X" ? groups[event["pid"]] : "";
      if (!group.ends_with(", its own clock") || event["cat"] == "wait" || event["cat"] == "copy") continue;
      const double begin = event["ts"];
      work_[group].push_back({begin, begin + event["dur"].get<double>()});
    }
  }
  // From the first work to the end of the last; zeros where no device has a clock.
  Measured Sum() const {
    Measured sum;
    double begin = std::numeric_limits<double>::infinity(), end = -begin;
    for (auto [group, spans] : work_) {
      std::sort(spans.begin(), spans.end());
      double done = spans.front().first;
      begin = std::min(begin, done);
      for (const auto& [from, to] : spans) {
        sum.busy += std::max(0.0, to - std::max(done, from));
        done = std::max(done, to);
      }
      end = std::max(end, done);
    }
    if (!work_.empty()) sum.length = end - begin;
    return sum;
  }

 private:
  std::map<std::string, std::vector<std::pair<double, double>>> work_;
};

void Print(const char* what, const Measured& measured, size_t devices) {
  if (measured.length <= 0) return;
  std::printf("%-32s %9.1f us, each device busy %4.1f %%\n", what, measured.length,
              100 * measured.busy / measured.length / static_cast<double>(devices));
}

// A step that makes each device wait until all have done what they had. The host takes no simulated time, so without it
// a step would begin on the first device, by its clock, before the one before had ended on the last.
Operation Barrier(Graph& graph, const std::vector<std::string>& devices) {
  std::vector<Output> arrived;
  for (const std::string& device : devices) {
    const auto on = graph.Device(device);
    arrived.push_back(graph.Op("RandomUniform", {graph.Const({1})}, {{"dtype", DType::kFloat}, {"seed", 1}}));
  }
  std::vector<Operation> gone;
  for (const std::string& device : devices) {
    const auto on = graph.Device(device);
    gone.push_back(graph.AddNode("AddN", arrived));
  }
  return Group(graph, gone, "barrier");
}

struct Ran {
  float loss = 0;
  Measured measured;
};

// A step by itself, once all devices have met.
Result<Ran> MeasuredRun(const Callable& step, const std::vector<View>& feeds, const Callable& meet) {
  TENON_TRY(meet.Run().status());
  std::string trace;
  RunOptions run;
  run.trace = &trace;
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, step.Run(feeds, run));
  Clocks clocks;
  clocks.Add(trace);
  return Ran{values[0].scalar<float>(), clocks.Sum()};
}

Output Mean(Graph& graph, const std::vector<Output>& values, const std::string& device) {
  const auto on = graph.Device(device);
  return graph.Op("Mul",
                  {graph.AddNode("AddN", values).outputs()[0], graph.Const(1.0f / static_cast<float>(values.size()))});
}

Status Run(const Settings& settings) {
  RuntimeOptions runtime_options;
  runtime_options.plugin_options.push_back({"tenon.tpu_sim", "devices", std::to_string(settings.devices.size())});
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create(runtime_options));
  Graph graph(runtime);
  Model model(graph, 1);

  std::vector<Output> symbols, losses;
  for (int64_t m = 0; m < settings.microbatches; ++m) {
    symbols.push_back(graph.Placeholder("symbols_" + std::to_string(m), DType::kInt32, {kTime, kBatch}));
    losses.push_back(Loss(model, settings, symbols.back()));
  }
  if (!graph.status().ok()) return graph.status();
  const Output loss = Mean(graph, losses, settings.devices.back());
  std::vector<Name> of_one{losses[0]};  // the loss of one microbatch and its gradients
  for (const Output& gradient : DenseGradients(model, losses[0])) of_one.emplace_back(gradient);
  OptimizerOptions optimizer;
  optimizer.kind = OptimizerOptions::Kind::kAdam;
  const Operation train = Minimize(model, loss, graph.Const(0.01f), optimizer);
  const Operation initial = model.InitializeAll();
  const Operation barrier = Barrier(graph, settings.devices);

  SessionOptions session_options;
  session_options.compile = settings.compile;
  session_options.seed = 1;
  session_options.soft_placement = false;  // a device that is not there is an error
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph, session_options));
  TENON_TRY(session.RunTargets({initial}));
  const std::vector<Name> inputs(symbols.begin(), symbols.end());
  TENON_TRY_ASSIGN(const Callable step, session.Prepare(inputs, {loss}, {train}));
  TENON_TRY_ASSIGN(const Callable meet, session.Prepare({}, {}, {barrier}));

  for (int64_t i = 0; i < settings.steps; ++i) {
    std::vector<std::vector<int32_t>> batch;
    std::vector<View> feeds;
    for (int64_t m = 0; m < settings.microbatches; ++m)
      batch.push_back(Symbols(static_cast<uint64_t>(i * settings.microbatches + m)));
    for (const auto& each : batch) feeds.push_back(View(each, {kTime, kBatch}));
    const bool last = i + 1 == settings.steps;
    TENON_TRY_ASSIGN(const Ran ran, MeasuredRun(step, feeds, meet));
    if (i % 20 == 0 || last) std::printf("step %3d  loss %.6f\n", static_cast<int>(i), ran.loss);
    if (!last) continue;
    // The same work, and no update, one microbatch after the other.
    TENON_TRY_ASSIGN(const Callable one, session.Prepare({symbols[0]}, of_one));
    Measured in_a_row;
    for (const View& feed : feeds) {
      TENON_TRY_ASSIGN(const Ran part, MeasuredRun(one, {feed}, meet));
      in_a_row += part.measured;
    }
    Print("training, microbatches in a row", in_a_row, settings.devices.size());
    Print("training, microbatches at once", ran.measured, settings.devices.size());
  }

  // Steps, one batch each, in a row and at once.
  TENON_TRY_ASSIGN(const Callable look, session.Prepare({symbols[0]}, {losses[0]}));
  std::vector<std::vector<int32_t>> batches;
  for (int64_t k = 0; k < settings.at_once; ++k) batches.push_back(Symbols(static_cast<uint64_t>(1000000 + k)));
  Measured in_a_row;
  for (const auto& batch : batches) {
    TENON_TRY_ASSIGN(const Ran ran, MeasuredRun(look, {View(batch, {kTime, kBatch})}, meet));
    std::printf("a batch in a row  loss %.6f\n", ran.loss);
    in_a_row += ran.measured;
  }
  // A device works in the order in which the host's threads hand it the steps' parts, and a busy host may make a bad
  // one: the best of some tries.
  Measured at_once;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    TENON_TRY(meet.Run().status());
    std::vector<std::string> traces(batches.size());
    std::vector<Result<std::vector<Tensor>>> found(batches.size(), Status());
    {
      std::vector<std::jthread> clients;
      for (size_t k = 0; k < batches.size(); ++k) {
        clients.emplace_back([&, k] {
          RunOptions run;
          run.trace = &traces[k];
          found[k] = look.Run({View(batches[k], {kTime, kBatch})}, run);
        });
      }
    }
    Clocks clocks;
    for (size_t k = 0; k < batches.size(); ++k) {
      TENON_TRY(found[k].status());
      if (attempt == 0) std::printf("a batch at once   loss %.6f\n", (*found[k])[0].scalar<float>());
      clocks.Add(traces[k]);
    }
    const Measured sum = clocks.Sum();
    if (attempt == 0 || sum.length < at_once.length) at_once = sum;
  }
  Print("steps in a row", in_a_row, settings.devices.size());
  Print("steps at once", at_once, settings.devices.size());
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("A deep LSTM whose layers stand on several devices.");
  app.add_option("--devices", settings.devices, "where the layers stand, in their order")->delimiter(',');
  app.add_option("--layers", settings.layers, "of LSTM cells")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--microbatches", settings.microbatches, "of a training step")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "of training")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_flag("--compile", settings.compile, "devices' compilers may join kernels");
  app.add_option("--at-once", settings.at_once, "steps at once")->check(CLI::Range(1, 64))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Status status = Run(settings);
  if (!status.ok()) std::fprintf(stderr, "deep_lstm: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
