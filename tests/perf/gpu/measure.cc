// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tenon/data/npy.h"

namespace tenon::perf {
namespace {

using cli::Json;
using host::Callable;
using host::Code;
using host::DType;
using host::Graph;
using host::Name;
using host::Operation;
using host::Output;
using host::Result;
using host::Session;
using host::Shape;
using host::Status;
using host::Tensor;
using host::View;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Of this thread alone: what launching costs it, and some of the waiting.
double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Timing {
  double median = 0, least = 0, thread = 0;  // seconds a step; `thread` is the median of the calling thread's own
  int64_t steps = 0;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// step: does one, and gives what the device is done with when `wait` had it.
template <class Step, class Wait>
Result<Timing> Time(double seconds, const Step& step, const Wait& wait) {
  const auto row = [&](int64_t steps) -> Result<std::pair<double, double>> {
    const double begin = Seconds(), thread = ThreadSeconds();
    for (int64_t i = 1; i < steps; ++i) TENON_TRY(step().status());
    TENON_TRY_ASSIGN(auto last, step());
    TENON_TRY(wait(last));
    const auto count = static_cast<double>(steps);
    return std::pair((Seconds() - begin) / count, (ThreadSeconds() - thread) / count);
  };
  double one = 0;
  int64_t warm = 0;
  for (const double end = Seconds() + seconds / 4; warm < 4 || Seconds() < end; ++warm) {
    TENON_TRY_ASSIGN(const auto took, row(1));
    one = took.first;
  }
  constexpr double kRow = 0.02;  // seconds: many rows, and in each of them the end counts little
  const int64_t steps = std::clamp<int64_t>(std::llround(kRow / std::max(one, 1e-9)), 1, 10000);
  Timing timing;
  std::vector<double> took, thread;
  for (const double end = Seconds() + seconds; took.size() < 3 || Seconds() < end;) {
    TENON_TRY_ASSIGN(const auto each, row(steps));
    took.push_back(each.first);
    thread.push_back(each.second);
    timing.steps += steps;
  }
  timing.median = Median(took);
  timing.thread = Median(thread);
  timing.least = *std::min_element(took.begin(), took.end());
  return timing;
}

void Put(Json* out, const Timing& timing) {
  (*out)["median_ms"] = timing.median * 1e3;
  (*out)["least_ms"] = timing.least * 1e3;
  (*out)["thread_ms"] = timing.thread * 1e3;
  (*out)["steps"] = timing.steps;
}

const char* NameOf(host::Precision precision) {
  return precision == host::Precision::kStrict      ? "strict"
         : precision == host::Precision::kAllowTf32 ? "tf32"
                                                    : "bfloat16";
}

// A step whose one fetch stays on the device.
class DeviceStep {
 public:
  static Result<DeviceStep> Prepare(const Bench& bench, const Session& session, const Output& fetch,
                                    const std::vector<Name>& targets = {}) {
    TENON_TRY_ASSIGN(Callable callable, session.Prepare({}, {fetch}, targets, {}, {bench.session.device}));
    return DeviceStep(session, std::move(callable));
  }
  Result<Tensor> operator()() const {
    TENON_TRY_ASSIGN(std::vector<Tensor> fetched, callable_.Run());
    return std::move(fetched[0]);
  }
  // On the host.
  Result<Tensor> Bring(const Tensor& fetched) const { return session_->CopyTensor(fetched, ""); }
  const Callable& callable() const { return callable_; }

  Result<Timing> TimeIt(double seconds) const {
    return Time(seconds, *this, [this](const Tensor& last) { return Bring(last).status(); });
  }

 private:
  DeviceStep(const Session& session, Callable callable) : session_(&session), callable_(std::move(callable)) {}
  const Session* session_;
  Callable callable_;
};

// Steps of which metrics are wanted, timed: what the session did in each of them.
Status PutTimed(const Bench& bench, const Session& session, const DeviceStep& step, Json* out) {
  TENON_TRY_ASSIGN(const tenon_session_metrics before, session.Metrics());
  TENON_TRY_ASSIGN(const Timing timing, step.TimeIt(bench.seconds));
  TENON_TRY_ASSIGN(const tenon_session_metrics after, session.Metrics());
  Put(out, timing);
  const auto steps = static_cast<double>(after.steps - before.steps);
  (*out)["captured_launches_a_step"] = static_cast<double>(after.captured_launches - before.captured_launches) / steps;
  (*out)["host_waits_a_step"] = static_cast<double>(after.host_waits - before.host_waits) / steps;
  (*out)["device_peak_bytes"] = after.device_peak_bytes;
  (*out)["host_peak_bytes"] = after.peak_bytes;
  return Status();
}

// A variable of normal numbers on the device, and what gives it its value.
struct Numbers {
  Numbers(Graph& graph, const std::string& name, const Shape& shape, float deviation) {
    handle = graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", name}}, name);
    const std::vector<int64_t> dims = shape.dims();
    const Output normal =
        graph.Op("RandomStandardNormal", {graph.Const(dims, {static_cast<int64_t>(dims.size())})},
                 {{"dtype", DType::kFloat}, {"seed", 7}, {"seed2", static_cast<int64_t>(name.size())}});
    assign = graph.AddNode("AssignVariableOp", {handle, graph.Op("Mul", {normal, graph.Const(deviation)})},
                           {{"dtype", DType::kFloat}});
    value = graph.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
  }
  Output handle, value;
  Operation assign;
};

// ---- Training ----

std::string FileName(const std::string& folder, std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return folder + "/" + name + ".npy";
}

Status Export(const Session& session, const Network& network, const std::string& folder) {
  for (const train::Variable* variable : network.model().trainable()) {
    TENON_TRY_ASSIGN(const std::vector<Tensor> value, session.Run({}, {variable->value}));
    TENON_TRY(data::WriteNpy(FileName(folder, "weight/" + variable->name), value[0]));
  }
  for (const BatchPart& part : network.batch())
    TENON_TRY(data::WriteNpy(FileName(folder, "batch/" + part.name), part.value));
  return Status();
}

Result<Json> Losses(const DeviceStep& step, int64_t count) {
  Json losses = Json::array();
  for (int64_t i = 0; i < count; ++i) {
    TENON_TRY_ASSIGN(const Tensor there, step());
    TENON_TRY_ASSIGN(const Tensor loss, step.Bring(there));
    losses.push_back(loss.scalar<float>(NAN));
  }
  return losses;
}

// Of the nodes that the steps before ran: how many on which device, which values cross from one to another, and by op
// those that run elsewhere than wished.
Status PutPlaces(const Callable& callable, const std::string& device, Json* out) {
  TENON_TRY_ASSIGN(const std::string text, callable.Explain());
  std::map<std::string, int64_t> places;
  std::map<std::string, std::pair<int64_t, std::string>> elsewhere;
  int64_t compiled = 0;
  Json moves = Json::array();
  for (const Json& node : Json::parse(text)) {
    const std::string at = node.value("device", ""), runs = node.value("runs", "");
    if (runs == "folded or forwarded") continue;
    if (runs == "compiled") ++compiled;
    if (node.contains("moves_from")) {
      // A fetch that stays is copied to where it is its reader's: that crosses nothing.
      if (node.value("moves_from", "") != at)
        moves.push_back({{"value", node.value("name", "")}, {"from", node.value("moves_from", "")}, {"to", at}});
      continue;
    }
    ++places[at];
    if (at.ends_with(device)) continue;
    auto& [count, example] = elsewhere[node.value("op", "")];
    ++count;
    example = node.value("name", "");
  }
  (*out)["places"] = places;
  (*out)["compiled"] = compiled;
  (*out)["moves"] = std::move(moves);
  Json& list = (*out)["elsewhere"] = Json::array();
  for (const auto& [op, found] : elsewhere)
    list.push_back({{"op", op}, {"count", found.first}, {"example", found.second}});
  return Status();
}

}  // namespace

Result<tenon_device_info> FindDevice(const host::Runtime& runtime, const std::string& name) {
  std::string known;
  for (const tenon_device_info& device : runtime.Devices()) {
    const std::string_view full = host::Text(device.name);
    if (device.problem.size > 0) {
      known += "\n  none of " + std::string(host::Text(device.plugin)) + ": " + std::string(host::Text(device.problem));
    } else if (full.ends_with(name)) {
      return device;
    } else {
      known += "\n  " + std::string(full);
    }
  }
  return Status(Code::kNotFound, "there is no device '" + name + "'; there are:" + known);
}

Json DeviceJson(const tenon_device_info& device) {
  return {{"device", host::Text(device.name)},
          {"plugin", host::Text(device.plugin)},
          {"model", host::Text(device.model)},
          {"memory_bytes", device.memory_bytes}};
}

Result<Json> MeasureTraining(const Bench& bench, const NetworkKind& kind, const Size& size, const TrainingRun& run) {
  Graph graph(bench.runtime);
  const Network network(graph, kind, size);
  TENON_TRY_ASSIGN(const Session session, Session::Create(bench.runtime, graph, bench.session));
  TENON_TRY(network.Begin(session));
  if (!run.folder.empty()) TENON_TRY(Export(session, network, run.folder));
  TENON_TRY_ASSIGN(const DeviceStep step, DeviceStep::Prepare(bench, session, network.loss(), {network.update()}));
  Json out = {{"what", "training"},
              {"network", kind.name},
              {"batch", network.size().batch},
              {"precision", NameOf(bench.session.precision)}};
  out["parameters"] = network.model().parameter_count();
  out["flop"] = network.flop();
  const double begin = Seconds();
  TENON_TRY_ASSIGN(out["losses"], Losses(step, run.losses));
  out["first_steps_ms"] = (Seconds() - begin) * 1e3;
  TENON_TRY(PutPlaces(step.callable(), bench.session.device, &out));
  if (bench.seconds > 0) TENON_TRY(PutTimed(bench, session, step, &out));
  return out;
}

Result<Json> MeasureProducts(const Bench& bench, int64_t side, int64_t count) {
  Graph graph(bench.runtime);
  const float deviation = 1 / std::sqrt(static_cast<float>(side));  // so that products stay as large as their factors
  const Numbers a(graph, "a", {side, side}, deviation), b(graph, "bb", {side, side}, deviation);
  Output product = a.value;
  for (int64_t i = 0; i < count; ++i) product = graph.Op("MatMul", {product, b.value});
  const Output total = graph.Op("Sum", {product, graph.Const({0, 1})});  // of which little comes home
  TENON_TRY_ASSIGN(const Session session, Session::Create(bench.runtime, graph, bench.session));
  TENON_TRY(session.RunTargets({a.assign, b.assign}));
  TENON_TRY_ASSIGN(const DeviceStep step, DeviceStep::Prepare(bench, session, total));
  Json out = {{"what", "products"}, {"side", side}, {"count", count}, {"precision", NameOf(bench.session.precision)}};
  TENON_TRY(PutTimed(bench, session, step, &out));
  const auto n = static_cast<double>(side);
  out["tflops"] = 2 * n * n * n * static_cast<double>(count) / out["median_ms"].get<double>() / 1e9;
  return out;
}

Result<Json> MeasureLaunches(const Bench& bench, int64_t nodes) {
  Graph graph(bench.runtime);
  const Numbers numbers(graph, "numbers", {1, 8}, 1);
  Output x = numbers.value;
  for (int64_t i = 0; i < nodes; ++i) x = graph.Op("Softmax", {x});
  TENON_TRY_ASSIGN(const Session session, Session::Create(bench.runtime, graph, bench.session));
  TENON_TRY(session.RunTargets({numbers.assign}));
  TENON_TRY_ASSIGN(const DeviceStep step, DeviceStep::Prepare(bench, session, x));
  Json out = {
      {"what", "launches"}, {"nodes", nodes}, {"capture", bench.session.capture}, {"compile", bench.session.compile}};
  TENON_TRY(PutTimed(bench, session, step, &out));
  out["us_a_node"] = out["median_ms"].get<double>() * 1e3 / static_cast<double>(nodes);
  return out;
}

Result<Json> MeasureCopies(const Bench& bench, int64_t bytes) {
  const Shape shape{bytes / static_cast<int64_t>(sizeof(float))};
  Graph graph(bench.runtime);
  const Numbers numbers(graph, "numbers", shape, 1), total(graph, "total", shape, 1);
  const Operation add = graph.AddNode("AssignAddVariableOp", {total.handle, numbers.value}, {{"dtype", DType::kFloat}});
  const Output one = graph.Op("Slice", {total.value, graph.Const({0}), graph.Const({1})});
  TENON_TRY_ASSIGN(const Session session, Session::Create(bench.runtime, graph, bench.session));
  TENON_TRY(session.RunTargets({numbers.assign, total.assign}));
  TENON_TRY_ASSIGN(const Tensor here, Tensor::Zeros(DType::kFloat, shape));
  TENON_TRY_ASSIGN(const Callable sum, session.Prepare({}, {}, {add}));
  TENON_TRY_ASSIGN(const Callable read, session.Prepare({}, {numbers.value}));
  std::vector<float> home(static_cast<size_t>(shape.element_count()));
  const View into(home, shape);
  const tenon_tensor_view home_view = into.c_view();
  const auto bring = [&]() -> Result<Tensor> {
    TENON_TRY(read.RunInto(nullptr, &home_view));
    return Tensor();
  };
  const auto nothing = [](const auto&) {
    return Status();
  };  // a step with a fetch has been waited for, and so has a copy
  TENON_TRY_ASSIGN(const Callable last, session.Prepare({}, {one}));
  const auto end = [&](const auto&) { return last.Run().status(); };
  TENON_TRY_ASSIGN(const Tensor pinned, session.PinnedTensor(DType::kFloat, shape, bench.session.device));
  std::ranges::fill(pinned.mutable_data<float>(), 0.0f);
  const auto bring_pinned = [&]() -> Result<Tensor> {
    TENON_TRY(read.RunInto(nullptr, pinned.view()));
    return Tensor();
  };
  TENON_TRY_ASSIGN(const Timing to,
                   Time(
                       bench.seconds, [&] { return session.CopyTensor(here, bench.session.device); }, nothing));
  TENON_TRY_ASSIGN(const Timing to_pinned,
                   Time(
                       bench.seconds, [&] { return session.CopyTensor(pinned, bench.session.device); }, nothing));
  TENON_TRY_ASSIGN(const Timing from, Time(bench.seconds, bring, nothing));
  TENON_TRY_ASSIGN(const Timing from_pinned, Time(bench.seconds, bring_pinned, nothing));
  TENON_TRY_ASSIGN(const Timing on, Time(bench.seconds, [&] { return sum.Run(); }, end));
  const auto rate = [&](const Timing& timing, double times) {
    return times * static_cast<double>(bytes) / timing.median / 1e9;
  };
  const auto is_zero = [](float value) { return value == 0; };
  if (std::ranges::all_of(home, is_zero) || std::ranges::all_of(pinned.data<float>(), is_zero))
    return Status(Code::kInternal, "the copies from the device brought nothing but zeros");
  Json out = {{"what", "copies"}, {"bytes", bytes}};
  out["to_device_gbs"] = rate(to, 1);
  out["from_device_gbs"] = rate(from, 1);
  out["to_device_pinned_gbs"] = rate(to_pinned, 1);
  out["from_device_pinned_gbs"] = rate(from_pinned, 1);
  out["on_device_gbs"] = rate(on, 3);  // two read, one written
  out["to_device_ms"] = to.median * 1e3;
  out["from_device_ms"] = from.median * 1e3;
  out["on_device_ms"] = on.median * 1e3;
  return out;
}

}  // namespace tenon::perf
