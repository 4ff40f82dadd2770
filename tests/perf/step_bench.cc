// SPDX-License-Identifier: Apache-2.0
// A training step beside bare calls for the same arithmetic: Eigen, oneDNN, and the engine's own kernels called in a
// row with frames made before (recorder_plugin.cc). All sides train from the same weights on one batch, and their
// losses are compared before anything is timed.
//
// Compare/<network>/<threads> runs the sides in turn, some ten milliseconds each, and reports medians ("us_<side>") and
// what the engine takes over each side ("x_<side>"). Step/<side>/... runs one side alone, for profilers.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "bare_step.h"
#include "recorder.h"
#include "tenon/train/digits.h"
#include "tiny_network.h"

namespace tenon::perf {
namespace {

using namespace host;  // NOLINT: a program of its own

[[noreturn]] void Die(const std::string& why) {
  std::cerr << "step_bench: " << why << "\n";
  std::exit(1);
}
void Check(const Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}
template <class T>
T Must(Result<T> result) {
  Check(result.status());
  return std::move(*result);
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Of this thread alone: neighbours of a busy machine take less part in it.
double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// threads 0: as many as cores. Recording runtimes have one thread.
const Runtime& RuntimeOf(uint32_t threads, bool recording) {
  static std::map<std::pair<uint32_t, bool>, Runtime> runtimes;
  const auto key = std::make_pair(threads, recording);
  auto found = runtimes.find(key);
  if (found == runtimes.end()) {
    RuntimeOptions options;
    options.threads = threads;
    if (recording) options.plugins = {TENON_PERF_RECORDER_PLUGIN};
    found = runtimes.emplace(key, Must(Runtime::Create(options))).first;
  }
  return found->second;
}

const tenon_perf_recorder& Recorder() {
  void* library = dlopen(TENON_PERF_RECORDER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Die(dlerror());
  auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {};
  args.struct_size = sizeof args;
  args.host_abi_major = TENON_ABI_MAJOR;
  const tenon_plugin* plugin = query(&args);
  return *static_cast<const tenon_perf_recorder*>(plugin->capabilities[1].table);
}

// ---- The networks ----

// The second half of each batch repeats the first with other labels: the loss stays away from zero however long a side
// trains, so that no side meets subnormal numbers.
TinyBatch MakeTinyBatch() {
  TinyBatch batch;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < TinyBatch::kRows * TinyBatch::kInputs / 2; ++i) batch.x.push_back(normal(random));
  batch.x.insert(batch.x.end(), batch.x.begin(), batch.x.end());
  for (int64_t i = 0; i < TinyBatch::kRows; ++i) batch.labels.push_back((i % 16 + i / 16) % 10);
  return batch;
}

const train::DigitData& Data() {
  static const train::DigitData data = Must(train::DigitData::Load(TENON_PERF_DIGITS));
  return data;
}

DigitBatch MakeDigitBatch() {
  DigitBatch batch;
  for (int64_t i = 0; i < DigitBatch::kRows; ++i) {
    const uint8_t* image = Data().training.image(i % 16);
    batch.images.insert(batch.images.end(), image, image + train::kDigitPixels);
    batch.labels.push_back(static_cast<uint8_t>((Data().training.labels[static_cast<size_t>(i % 16)] + i / 16) % 10));
  }
  batch.down = 2;
  batch.right = 0;
  batch.rate = train::DigitOptions().learning_rate;
  return batch;
}

// A network in a session: one step of it, and its weights.
class EngineStep {
 public:
  virtual ~EngineStep() = default;
  float Run() {
    Check(callable_->RunInto(feeds_.data(), fetches_.data()));
    return outputs_[0];
  }
  const Callable& callable() const { return *callable_; }
  Weights ReadWeights() {
    Weights weights;
    for (const train::Variable* variable : model_->trainable()) {
      const std::vector<Tensor> values = Must(session_->Run({}, {variable->value}));
      weights.emplace_back(values[0].data<float>().begin(), values[0].data<float>().end());
    }
    return weights;
  }

 protected:
  explicit EngineStep(const Runtime& runtime) : graph_(runtime), runtime_(runtime) {}
  // fetches are float scalars, the loss first.
  void Start(train::Model& model, const Operation& initialize, const std::vector<Output>& feeds,
             std::vector<View> values, const std::vector<Output>& fetches, const Operation& update) {
    model_ = &model;
    SessionOptions options;
    options.seed = 1;
    session_.emplace(Must(Session::Create(runtime_, graph_, options)));
    Check(session_->RunTargets({initialize}));
    callable_.emplace(
        Must(session_->Prepare({feeds.begin(), feeds.end()}, {fetches.begin(), fetches.end()}, {update})));
    values_ = std::move(values);
    for (const View& value : values_) views_.push_back(value.c_view());
    for (const tenon_tensor_view& view : views_) feeds_.push_back(&view);
    outputs_.resize(fetches.size());
    for (float& output : outputs_) fetch_values_.emplace_back(std::span<const float>(&output, 1), Shape());
    for (const View& value : fetch_values_) fetches_.push_back(value.c_view());
  }

  Graph graph_;

 private:
  const Runtime& runtime_;
  train::Model* model_ = nullptr;
  std::optional<Session> session_;
  std::optional<Callable> callable_;
  std::vector<View> values_, fetch_values_;
  std::vector<tenon_tensor_view> views_, fetches_;
  std::vector<const tenon_tensor_view*> feeds_;
  std::vector<float> outputs_;
};

class TinyEngine final : public EngineStep {
 public:
  explicit TinyEngine(const Runtime& runtime) : EngineStep(runtime), network_(graph_, TinyBatch::kRate) {
    Start(network_.model, network_.initialize, {network_.x, network_.labels},
          {View(batch_.x, {32, 64}), View(batch_.labels, {32})}, {network_.loss}, network_.update);
  }

 private:
  TinyBatch batch_ = MakeTinyBatch();
  TinyNetwork network_;
};

// As `tenon train digits` builds and runs it, with the same fetches; the step counter stays at 0, so the rate stays.
class DigitEngine final : public EngineStep {
 public:
  explicit DigitEngine(const Runtime& runtime) : EngineStep(runtime), network_(graph_, Data(), {}) {
    const train::TrainingStep step = network_.Step();
    const Operation initialize = network_.model().InitializeAll();
    Start(network_.model(), initialize, step.feeds,
          {View(batch_.images, {32, 8, 8}), View(batch_.labels, {32}), View(std::span<const int32_t>(shift_), {4})},
          {step.loss, step.metrics[0].second}, step.update);
  }

 private:
  DigitBatch batch_ = MakeDigitBatch();
  std::array<int32_t, 4> shift_ = {0, static_cast<int32_t>(batch_.down), static_cast<int32_t>(batch_.right), 0};
  train::DigitNetwork network_;
};

// ---- The sides ----

// The recorded calls of a step's kernels. Its session runs no more.
class KernelStep {
 public:
  explicit KernelStep(std::unique_ptr<EngineStep> engine) : engine_(std::move(engine)) {
    const tenon_perf_recorder& recorder = Recorder();
    for (int i = 0; i < 3; ++i) engine_->Run();
    recorder.start();
    const float loss = engine_->Run();
    if (const char* problem = recorder.stop()) Die(problem);
    uint64_t count = 0;
    const tenon_perf_call* calls = recorder.calls(&count);
    calls_.assign(calls, calls + count);
    // The loss is the mean whose value the step gave.
    for (const tenon_perf_call& call : calls_) {
      const tenon_tensor_view* output = call.frame->output_count == 1 ? call.frame->outputs[0] : nullptr;
      if (std::string_view(call.op.data, call.op.size) != "Mean" || output->byte_size != sizeof(float)) continue;
      const auto* value = static_cast<const float*>(output->dl.data);
      if (*value == loss) loss_ = value;
    }
    if (loss_ == nullptr) Die("no recorded call gave the loss");
  }
  static constexpr int kStepsBefore = 4;  // that made the recording
  // Microseconds of each op's calls in one step; reading the clock costs some 25 ns a call.
  void AddTimes(std::map<std::string, double>* out_times) {
    double before = Seconds();
    for (const tenon_perf_call& call : calls_) {
      if (call.run(call.kernel, call.prepared, call.frame) != nullptr) Die("a recorded call failed");
      const double now = Seconds();
      (*out_times)[std::string(call.op.data, call.op.size)] += (now - before) * 1e6;
      before = now;
    }
  }
  float Run() {
    for (const tenon_perf_call& call : calls_) {
      if (call.run(call.kernel, call.prepared, call.frame) != nullptr) Die("a recorded call failed");
    }
    return *loss_;
  }

 private:
  std::unique_ptr<EngineStep> engine_;
  std::vector<tenon_perf_call> calls_;
  const float* loss_ = nullptr;
};

struct Side {
  std::string name;
  std::function<float()> run;
};

template <class Step>
Side MakeSide(const std::string& name, std::shared_ptr<Step> step) {
  return {name, [step] { return step->Run(); }};
}

// A network and all that can run it. The kernels alone have one thread.
template <class Engine, class Batch>
std::vector<Side> MakeSides(const Batch& batch, uint32_t threads,
                            std::unique_ptr<BareStep> (*with_eigen)(const Batch&, const Weights&),
                            std::unique_ptr<BareStep> (*with_onednn)(const Batch&, const Weights&)) {
  auto engine = std::make_shared<Engine>(RuntimeOf(threads, false));
  const Weights first = engine->ReadWeights();
  std::vector<Side> sides = {MakeSide("engine", engine),
                             MakeSide("eigen", std::shared_ptr<BareStep>(with_eigen(batch, first))),
                             MakeSide("onednn", std::shared_ptr<BareStep>(with_onednn(batch, first)))};
  std::vector<float> losses;
  for (int i = 0; i < 12; ++i) losses.push_back(engine->Run());
  const auto compare = [&losses](const Side& side, size_t from) {
    for (size_t i = from; i < losses.size(); ++i) {
      const float loss = side.run();
      if (!(std::abs(loss - losses[i]) <= 2e-3f * std::abs(losses[i]))) {
        Die("step " + std::to_string(i) + ": the engine's loss is " + std::to_string(losses[i]) + ", that of " +
            side.name + " " + std::to_string(loss) + "; they do not the same arithmetic");
      }
    }
  };
  compare(sides[1], 0);
  compare(sides[2], 0);
  if (threads == 1) {
    sides.push_back(MakeSide("kernels", std::make_shared<KernelStep>(std::make_unique<Engine>(RuntimeOf(1, true)))));
    compare(sides[3], KernelStep::kStepsBefore);
  }
  return sides;
}

std::vector<Side> Sides(bool digits, uint32_t threads) {
  static const TinyBatch tiny_batch = MakeTinyBatch();
  static const DigitBatch digit_batch = MakeDigitBatch();
  return digits ? MakeSides<DigitEngine>(digit_batch, threads, DigitsWithEigen, DigitsWithOnednn)
                : MakeSides<TinyEngine>(tiny_batch, threads, TinyWithEigen, TinyWithOnednn);
}

int Cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// threads 0: the engine's default, and as many for the libraries; wall time then, else the thread's.
void Compare(benchmark::State& state, bool digits, uint32_t threads) {
  UseThreads(threads == 0 ? Cores() : static_cast<int>(threads));
  const std::vector<Side> sides = Sides(digits, threads);
  const auto now = threads == 1 ? ThreadSeconds : Seconds;
  std::vector<std::vector<double>> times(sides.size());
  std::vector<int> repeat;
  for (const Side& side : sides) {
    const double begin = Seconds();
    int runs = 0;
    while (Seconds() - begin < 0.02) side.run(), ++runs;
    repeat.push_back(std::max(1, runs / 2));
  }
  for (auto _ : state) {
    for (size_t i = 0; i < sides.size(); ++i) {
      // Brings its memory back into the caches, and lets OpenMP's threads of the side before go to sleep.
      for (int r = 0; r < repeat[i]; ++r) sides[i].run();
      const double begin = now();
      for (int r = 0; r < repeat[i]; ++r) sides[i].run();
      times[i].push_back((now() - begin) / repeat[i]);
    }
    state.SetIterationTime(times[0].back());
  }
  const double engine = Median(times[0]);
  for (size_t i = 0; i < sides.size(); ++i) {
    state.counters["us_" + sides[i].name] = Median(times[i]) * 1e6;
    if (i > 0) state.counters["x_" + sides[i].name] = engine / Median(times[i]);
  }
}

// One side alone, for profilers; and on several threads, where the teams of the libraries do not spin beside the
// engine's.
void Step(benchmark::State& state, bool digits, uint32_t threads, size_t side) {
  UseThreads(threads == 0 ? Cores() : static_cast<int>(threads));
  const std::vector<Side> sides = Sides(digits, threads);
  for (auto _ : state) benchmark::DoNotOptimize(sides[side].run());
}

// Where the time of the kernels goes, by op.
void Ops(benchmark::State& state, bool digits) {
  const auto& runtime = RuntimeOf(1, true);
  KernelStep step(digits ? std::unique_ptr<EngineStep>(std::make_unique<DigitEngine>(runtime))
                         : std::make_unique<TinyEngine>(runtime));
  std::map<std::string, double> times;
  for (auto _ : state) step.AddTimes(&times);
  for (const auto& [op, time] : times) state.counters["us_" + op] = time / static_cast<double>(state.iterations());
}

[[maybe_unused]] const bool registered = [] {
  const auto add = [](const std::string& name, const auto&... arguments) {
    return benchmark::RegisterBenchmark(name.c_str(), arguments...)->Unit(benchmark::kMicrosecond);
  };
  const char* const sides[] = {"engine", "eigen", "onednn", "kernels"};
  for (const bool digits : {false, true}) {
    const std::string network = digits ? "digits" : "tiny";
    for (const uint32_t threads : {1u, 0u}) {
      const std::string case_name = network + (threads == 1 ? "/threads:1" : "/threads:default");
      add("Compare/" + case_name, Compare, digits, threads)->UseManualTime()->Iterations(60);
      for (size_t side = 0; side < (threads == 1 ? 4 : 3); ++side) {
        add(std::string("Step/") + sides[side] + "/" + case_name, Step, digits, threads, side)->UseRealTime();
      }
    }
    add("Ops/" + network, Ops, digits);
  }
  return true;
}();

}  // namespace
}  // namespace tenon::perf

BENCHMARK_MAIN();
