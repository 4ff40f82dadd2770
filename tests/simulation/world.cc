// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/world.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <thread>

#include <nlohmann/json.hpp>

#include "tenon/tenon.h"
#include "tenon/train/trainer.h"
#include "net/cluster/planted.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"

namespace tenon::simulation {
namespace {

using host::Code;
using host::ClusterTask;
using host::Graph;
using host::Output;
using host::Session;
using host::Status;

// A failed task is named in this time: three seconds of silence, half a one between pings, and the way.
constexpr uint64_t kNamedWithin = 3500 * kMillisecond;
constexpr uint64_t kEndOfTime = 600 * kSecond;

// The kinds that OneFault does.
constexpr uint64_t kKinds = 16;
std::span<const uint64_t> KindsOf(Focus focus) {
  static constexpr uint64_t tasks[] = {0, 4}, cuts[] = {8}, resets[] = {10}, clients[] = {6, 7, 8, 13},
                            silence[] = {4, 5, 6, 8}, visitors[] = {8, 10};
  switch (focus) {
    case Focus::kTasks: return tasks;
    case Focus::kCuts: return cuts;
    case Focus::kResets: return resets;
    case Focus::kClients: return clients;
    case Focus::kSilence: return silence;
    case Focus::kVisitors: return visitors;
    default: return {};
  }
}

host::RuntimeOptions OptionsOf(const std::string& task) {
  host::RuntimeOptions options;
  options.task = task;
  options.threads = 1;
  options.search = false;
  for (const char* name : {"ops_array", "ops_collective", "ops_control", "ops_io", "ops_math", "ops_state",
                           "passes_collectives", "cpu"})
    options.plugins.push_back(std::string(TENON_SIMULATION_PLUGINS) + "/tenon_" + name + ".so");
  options.plugins.push_back(TENON_SIMULATION_TRANSPORT);
  options.log_level = 5;  // errors are what is simulated
  return options;
}

// One task of the cluster.
struct Node {
  ClusterTask task;
  int id = 0;  // another at each start
  std::unique_ptr<host::Runtime> runtime;
  std::unique_ptr<host::Worker> worker;
};

// What a client tells the world, which looks on.
struct ClientState {
  int id = 0;
  bool done = false;
  uint64_t busy_since = 0;  // 0: it does not wait for the cluster
  const char* doing = "";
  int64_t step = 0;
};

class World {
 public:
  explicit World(const RunOptions& options)
      : options_(options), scheduler_(*Scheduler::Here()), network_(DrawWeather()) {
    active_ = this;
  }
  ~World() { active_ = nullptr; }

  Outcome Run();
  static World* active() { return active_; }
  Network& network() { return network_; }
  void Violate(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = what;
    Tell("VIOLATION: %s", what.c_str());
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  Network::Weather DrawWeather() {
    Network::Weather weather;
    weather.most_ns = weather.least_ns + scheduler_.Draw(2 * kMillisecond);
    weather.spike = scheduler_.Chance(0.5) ? 0.02 : 0;
    if (options_.focus == Focus::kVisitors) weather.spike = 0.1;
    else if (options_.focus != Focus::kAll) weather.spike *= 3;
    weather.spike_ns = 500 * kMillisecond;
    return weather;
  }
  void Tell(const char* format, ...) const __attribute__((format(printf, 2, 3)));

  void StartNode(Node* node);
  void KillNode(Node* node);
  void StartClient();
  void Client(ClientState* state);
  void StartVisitor();
  void Visit(ClientState* state);
  std::string Visit(const host::Runtime& runtime, ClientState* state);
  std::string Reset(const Session& session);
  void CheckWorkers(std::initializer_list<const char*> names, double most = 0);
  uint64_t DrawKind() {
    const std::span<const uint64_t> kinds = KindsOf(options_.focus);
    return kinds.empty() ? scheduler_.Draw(kKinds) : kinds[scheduler_.Draw(kinds.size())];
  }
  void OneFault();
  void ResetOften();
  void Watch();
  void SleepAndWatch(uint64_t ns);
  void End();

  int64_t Input(int64_t step) const { return (step * 7 + static_cast<int64_t>(options_.seed % 5)) % 11 + 1; }
  double ExpectedAfter(int64_t steps, size_t server) const {
    double sum = 0;
    for (int64_t step = 0; step < steps; ++step)
      for (size_t worker = 0; worker < workers_; ++worker)
        sum += static_cast<double>(Input(step) * static_cast<int64_t>(worker + 2) + static_cast<int64_t>(server));
    return sum;
  }

  static World* active_;
  const RunOptions options_;
  Scheduler& scheduler_;
  Network network_;
  Outcome outcome_;
  std::vector<Node> nodes_;
  std::vector<ClusterTask> tasks_;
  size_t servers_ = 1, workers_ = 1;
  int64_t steps_ = 10, checkpoint_steps_ = 2;
  std::string folder_;
  std::string way_;  // of collectives; "": there are none
  uint64_t window_ = 0;  // 1: every value is asked for; 0: none, they are small
  int next_id_ = 1;
  uint64_t troubled_ns_ = 0;  // the last time that something was wrong, or became right again
  std::vector<std::unique_ptr<ClientState>> clients_;
  std::vector<std::unique_ptr<std::thread>> client_threads_;
  std::vector<std::unique_ptr<ClientState>> visitors_;
  std::vector<std::unique_ptr<std::thread>> visitor_threads_;
  bool visitors_rest_ = false, visitors_leave_ = false;
};

World* World::active_ = nullptr;
int g_planted = 0;

void World::Tell(const char* format, ...) const {
  if (!options_.tell) return;
  std::fprintf(stderr, "%10.4f  ", static_cast<double>(scheduler_.now()) * 1e-9);
  va_list list;
  va_start(list, format);
  std::vfprintf(stderr, format, list);
  va_end(list);
  std::fputc('\n', stderr);
}

// ---- Tasks ----

void World::StartNode(Node* node) {
  node->id = next_id_++;
  const int before = scheduler_.SetNode(node->id);
  auto runtime = host::Runtime::Create(OptionsOf(node->task.name));
  if (!runtime.ok()) {
    Violate("a runtime cannot start: " + runtime.status().message());
  } else {
    node->runtime = std::make_unique<host::Runtime>(std::move(*runtime));
    auto worker = host::Worker::Start(*node->runtime, tasks_);
    if (!worker.ok()) Violate("a worker cannot start: " + worker.status().message());
    else node->worker = std::make_unique<host::Worker>(std::move(*worker));
  }
  scheduler_.SetNode(before);
  Tell("%s runs as node %d", node->task.name.c_str(), node->id);
}

void World::KillNode(Node* node) {
  const bool silently = scheduler_.Chance(0.3);
  scheduler_.Kill(node->id);
  network_.Kill(node->id, silently);
  // What the process held is the dead's.
  (void)node->worker.release();
  (void)node->runtime.release();
  Tell("%s (node %d) is killed%s", node->task.name.c_str(), node->id, silently ? ", its machine too" : "");
}

// The sum of a metric's samples.
double Sum(const std::string& metrics, const std::string& name) {
  double sum = 0;
  for (const auto& family : nlohmann::json::parse(metrics))
    if (family["name"] == name)
      for (const auto& sample : family["samples"]) sum += sample["value"].get<double>();
  return sum;
}

// ---- The client ----

void World::StartClient() {
  clients_.push_back(std::make_unique<ClientState>());
  ClientState* const state = clients_.back().get();
  state->id = next_id_++;
  const int before = scheduler_.SetNode(state->id);
  client_threads_.push_back(std::make_unique<std::thread>([this, state] {
    Client(state);
    state->busy_since = 0;
    state->done = true;
  }));
  scheduler_.SetNode(before);
  Tell("a client begins as node %d", state->id);
}

void World::Client(ClientState* state) {
  auto runtime = host::Runtime::Create(OptionsOf(""));
  if (!runtime.ok()) return Violate("a runtime cannot start: " + runtime.status().message());
  Graph graph(*runtime);
  train::Model model(graph);
  std::vector<std::string> server_devices;
  for (size_t i = 0; i < servers_; ++i) server_devices.push_back("/job:ps/task:" + std::to_string(i));
  model.set_variable_devices(server_devices);
  Output x = graph.Placeholder("x", host::DType::kFloat, host::Shape({2}));
  std::vector<Output> parts;
  for (size_t w = 0; w < workers_; ++w) {
    const auto on = graph.Device("/job:worker/task:" + std::to_string(w));
    parts.push_back(graph.Op("Mul", {x, graph.Const(static_cast<float>(w + 2))}));
  }
  // Half of the runs add them up among the workers: each server gets the sum of one of them.
  std::vector<Output> sums;
  for (size_t w = 0; w < workers_ && !way_.empty(); ++w) {
    const auto on = graph.Device("/job:worker/task:" + std::to_string(w));
    sums.push_back(graph.Op("CollectiveReduce", {parts[w]},
                            {{"group_size", static_cast<int64_t>(workers_)},
                             {"group_key", int64_t{1}},
                             {"instance_key", int64_t{1}},
                             {"merge_op", std::string("Add")},
                             {"final_op", std::string("Id")},
                             {"subdiv_offsets", std::vector<int64_t>{}},
                             {"communication_hint", way_}},
                            "sum_" + std::to_string(w)));
  }
  std::vector<train::Operation> updates;
  std::vector<const train::Variable*> variables;
  for (size_t i = 0; i < servers_; ++i) {
    const auto on = graph.Device(server_devices[i]);
    const train::Variable& variable = model.State("v" + std::to_string(i), host::Shape({2}), 0, server_devices[i]);
    variables.push_back(&variable);
    Output sum =
        sums.empty() ? graph.Op("AddN", parts, {{"N", static_cast<int64_t>(parts.size())}}) : sums[i % sums.size()];
    sum = graph.Op("Add", {sum, graph.Const(static_cast<float>(i * workers_))});
    updates.push_back(graph.AddNode("AssignAddVariableOp", {variable.handle, sum}, {{"dtype", host::DType::kFloat}}));
  }
  train::TrainingStep step;
  std::vector<train::Operation> all = updates;
  for (const Output& sum : sums)
    all.emplace_back(sum.graph(), sum.node());  // also those that no server reads: all members come
  step.update = train::Group(graph, all, "update");
  {
    const auto after = graph.ControlDependencies(updates);
    for (size_t i = 0; i < servers_; ++i) {
      const auto on = graph.Device(server_devices[i]);
      Output value = graph.Op("ReadVariableOp", {variables[i]->handle}, {{"dtype", host::DType::kFloat}});
      Output one = graph.Op("Sum", {value, graph.Const(int32_t{0})});
      if (i == 0) step.loss = one;
      else step.metrics.emplace_back("v" + std::to_string(i), one);
    }
  }
  step.feeds = {x};
  std::array<float, 2> values{};
  step.feed = [&](int64_t number) -> host::Result<std::vector<host::View>> {
    state->busy_since = scheduler_.now();
    state->doing = "a step";
    values.fill(static_cast<float>(Input(number)));
    return std::vector<host::View>{host::View(std::span<const float>(values), host::Shape({2}))};
  };
  step.examples = 1;
  train::TrainingOptions training;
  training.steps = steps_;
  training.checkpoint_folder = folder_;
  training.checkpoint_steps = checkpoint_steps_;
  training.keep = 2;
  train::Trainer trainer(model, step, training);
  if (!graph.status().ok()) return Violate("the graph: " + graph.status().message());
  trainer.on_message = [&](const std::string& message) {
    Tell("client %d: %s", state->id, message.c_str());
    if (message.starts_with("warning")) Violate("a checkpoint is passed over: " + message);
  };
  trainer.on_step = [&](const train::StepReport& report) {
    ++outcome_.steps;
    state->step = report.step;
    state->busy_since = scheduler_.now();
    state->doing = "a checkpoint";
    for (size_t i = 0; i < servers_; ++i) {
      const double found = i == 0 ? static_cast<double>(report.loss) : static_cast<double>(report.metrics[i - 1]);
      const double expected = 2 * ExpectedAfter(report.step, i);
      if (found != expected)
        Violate("after step " + std::to_string(report.step) + " variable v" + std::to_string(i) + " is " +
                std::to_string(found) + " instead of " + std::to_string(expected) +
                (found > expected ? ": an update was applied twice" : ": an update was lost"));
    }
  };
  std::optional<Session> session;
  while (outcome_.violation.empty()) {
    host::SessionOptions options;
    options.master = tasks_[scheduler_.Draw(tasks_.size())].address;
    options.connect_timeout = std::chrono::seconds(2);
    options.owner = "training";
    options.receive_window = window_;
    trainer.Leave();
    state->busy_since = scheduler_.now();
    state->doing = "the end of a session";
    session.reset();
    state->busy_since = scheduler_.now();
    state->doing = "a new session";
    auto made = Session::Create(*runtime, options);
    Status status = made.status();
    if (made.ok()) {
      ++outcome_.sessions;
      session.emplace(std::move(*made));
      state->busy_since = scheduler_.now();
      state->doing = "a restore";
      status = trainer.Begin(*session);
    }
    if (status.ok()) {
      auto report = trainer.Run();
      status = report.ok() ? Status() : report.status();
      if (status.ok() && trainer.step() >= steps_) break;
    }
    state->busy_since = 0;
    Tell("client %d, step %ld: %s", state->id, static_cast<long>(trainer.step()), status.message().c_str());
    if (status.message().find("/job:") == std::string::npos && status.message().find("sim://") == std::string::npos &&
        status.message().find("simdisk://") == std::string::npos)
      Violate("a failure names no task: " + status.message());
    if (status.code() == Code::kInternal || status.code() == Code::kInvalidArgument || status.code() == Code::kDataLoss)
      Violate("a failure that no fault explains: " + status.message());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  state->busy_since = scheduler_.now();
  state->doing = "the end";
  trainer.Leave();
  session.reset();
  Tell("client %d is done", state->id);
}

// ---- Visitors ----

// They know no owner and no checkpoint: their sessions' state is their own, and a step that takes too long is given up.
void World::StartVisitor() {
  visitors_.push_back(std::make_unique<ClientState>());
  ClientState* const state = visitors_.back().get();
  state->id = next_id_++;
  const int before = scheduler_.SetNode(state->id);
  visitor_threads_.push_back(std::make_unique<std::thread>([this, state] { Visit(state); }));
  scheduler_.SetNode(before);
  Tell("a visitor comes as node %d", state->id);
}

void World::Visit(ClientState* state) {
  auto runtime = host::Runtime::Create(OptionsOf(""));
  if (!runtime.ok()) return Violate("a runtime cannot start: " + runtime.status().message());
  while (outcome_.violation.empty() && !visitors_leave_) {
    const std::string failure = Visit(*runtime, state);
    if (failure.empty()) continue;
    Tell("visitor %d: %s", state->id, failure.c_str());
    if (failure.find("/job:") == std::string::npos && failure.find("sim://") == std::string::npos)
      Violate("a failure names no task: " + failure);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  state->done = true;
}

// One session; why it ended, when it failed.
std::string World::Visit(const host::Runtime& runtime, ClientState* state) {
  Graph graph(runtime);
  Output x = graph.Placeholder("x", host::DType::kFloat, host::Shape());
  Output there, echo, count;
  {
    const auto on = graph.Device("/job:worker/task:0");
    there = graph.Op("Mul", {x, graph.Const(1.0f)});
  }
  train::Operation initial;
  {
    const auto on = graph.Device("/job:ps/task:0");
    Output handle = graph.Op(
        "VarHandleOp", {},
        {{"dtype", host::DType::kFloat}, {"shape", host::Shape()}, {"shared_name", std::string("visits")}}, "visits");
    Output latest = graph.Op(
        "VarHandleOp", {},
        {{"dtype", host::DType::kFloat}, {"shape", host::Shape()}, {"shared_name", std::string("latest")}}, "latest");
    initial =
        train::Group(graph,
                     {graph.AddNode("AssignVariableOp", {handle, graph.Const(0.0f)}, {{"dtype", host::DType::kFloat}}),
                      graph.AddNode("AssignVariableOp", {latest, graph.Const(0.0f)}, {{"dtype", host::DType::kFloat}})},
                     "initial");
    const train::Operation reading =
        graph.AddNode("ReadVariableOp", {latest}, {{"dtype", host::DType::kFloat}}, "last");
    const auto read = graph.ControlDependencies({reading});
    const auto noted = graph.ControlDependencies(
        {graph.AddNode("AssignVariableOp", {latest, there}, {{"dtype", host::DType::kFloat}})});
    const auto after = graph.ControlDependencies(
        {graph.AddNode("AssignAddVariableOp", {handle, graph.Const(1.0f)}, {{"dtype", host::DType::kFloat}})});
    echo = graph.Op("Add", {there, graph.Const(0.5f)}, {}, "echo");
    count = graph.Op("ReadVariableOp", {handle}, {{"dtype", host::DType::kFloat}}, "count");
  }
  // In a container that is reset now and then, at the first task and the last.
  std::vector<train::Operation> marks;
  for (const ClusterTask& task : {tasks_.front(), tasks_.back()}) {
    const auto on = graph.Device(task.name);
    const std::string name = "mark_" + std::to_string(marks.size());
    const Output handle = graph.Op("VarHandleOp", {},
                                   {{"dtype", host::DType::kFloat},
                                    {"shape", host::Shape()},
                                    {"container", std::string("visitors")},
                                    {"shared_name", name}},
                                   name);
    marks.push_back(graph.AddNode("AssignVariableOp", {handle, graph.Const(1.0f)}, {{"dtype", host::DType::kFloat}}));
  }
  train::Group(graph, marks, "mark");
  host::SessionOptions options;
  options.master = tasks_[scheduler_.Draw(tasks_.size())].address;
  options.connect_timeout = std::chrono::seconds(2);
  options.isolate = true;
  options.receive_window = window_;
  auto session = Session::Create(runtime, graph, options);
  if (!session.ok()) return session.status().message();
  if (const Status begun = session->RunTargets({"initial"}); !begun.ok()) return begun.message();
  auto callable = session->Prepare({"x"}, {"count", "echo", "last"});
  if (!callable.ok()) return callable.status().message();
  const bool often = options_.focus == Focus::kVisitors;
  int64_t asked = 0, answered = 0, well = 0;  // well: the step before, if it ended well
  while (!visitors_leave_ && outcome_.violation.empty()) {
    // After a step that was given up the next comes at once, and may overtake what is left of it.
    if (well != 0 || asked == 0 || visitors_rest_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (visitors_rest_) continue;
    if (scheduler_.Chance(often ? 0.4 : 0.1)) {
      if (const std::string failure = Reset(*session); !failure.empty()) return failure;
      well = 0;
    }
    host::RunOptions run;
    run.timeout =
        std::chrono::microseconds(200 + scheduler_.Draw(scheduler_.Chance(often ? 0.9 : 0.5) ? 3000 : 2000000));
    const auto number = static_cast<float>(++asked);
    // The step before may go on somewhere, of a callable that is there no more.
    if (scheduler_.Chance(0.05)) {
      callable = session->Prepare({"x"}, {"count", "echo", "last"});
      if (!callable.ok()) return callable.status().message();
    }
    const uint64_t began = scheduler_.now();
    auto values = callable->Run({host::View(std::span<const float>(&number, 1), host::Shape())}, run);
    if (scheduler_.now() > began + 2500 * kMillisecond + kNamedWithin && !scheduler_.IsFrozen(state->id) &&
        began > troubled_ns_)
      Violate("a step with a deadline of " + std::to_string(run.timeout.count() / 1000000) + " ms took " +
              std::to_string((scheduler_.now() - began) / kMillisecond));
    const int64_t before = std::exchange(well, values.ok() ? asked : 0);
    if (!values.ok() && values.status().code() == Code::kDeadlineExceeded) continue;
    if (values.status().code() == Code::kFailedPrecondition)
      Violate("a visitor's state is gone: " + values.status().message());
    if (!values.ok()) return values.status().message();
    ++answered;
    const auto found = static_cast<int64_t>((*values)[0].scalar<float>(-1));
    if (const float said = (*values)[1].scalar<float>(-1); said != number + 0.5f)
      Violate("a visitor asked with " + std::to_string(number) + " and was answered " + std::to_string(said));
    if (const float latest = (*values)[2].scalar<float>(-1); before != 0 && latest != static_cast<float>(before))
      Violate("a visitor's step " + std::to_string(before) + " ended well, and then step " + std::to_string(latest) +
              " was done, which had been given up");
    if (found < answered || found > asked)
      Violate("a visitor's count is " + std::to_string(found) + " after " + std::to_string(asked) +
              " steps, of which " + std::to_string(answered) + " ended well");
  }
  return "";
}

// Marks the container, perhaps in a step that is given up, and empties it: why it could not, or nothing.
std::string World::Reset(const Session& session) {
  host::RunOptions run;
  if (scheduler_.Chance(0.5)) run.timeout = std::chrono::microseconds(100 + scheduler_.Draw(3000));
  const Status marked = session.Run({}, {}, {"mark"}, run).status();
  if (!marked.ok() && marked.code() != Code::kDeadlineExceeded) return marked.message();
  for (const bool again : {false, true}) {
    // What may happen meanwhile has time to.
    if (scheduler_.Chance(0.3)) std::this_thread::sleep_for(std::chrono::milliseconds(scheduler_.Draw(1000)));
    const auto dropped = session.ResetContainers({"visitors"});
    if (!dropped.ok()) return dropped.status().message();
    const uint64_t least = marked.ok() && !again ? 2 : 0, most = again ? 0 : 2;
    if (*dropped < least || *dropped > most)
      Violate("a reset dropped " + std::to_string(*dropped) + " variables; " +
              (again         ? "it came after another"
               : marked.ok() ? "two were there"
                             : "two may have been there"));
  }
  return "";
}

// ---- What happens ----

// Looks whether somebody waits for longer than the bound.
void World::Watch() {
  const ClientState& client = *clients_.back();
  if (client.done || client.busy_since == 0 || scheduler_.IsFrozen(client.id)) return;
  // A session that begins may ask a task, then ask all, then restore.
  const bool is_step = std::strcmp(client.doing, "a step") == 0;
  const uint64_t bound = is_step ? kNamedWithin + 500 * kMillisecond : 3 * kNamedWithin;
  const uint64_t since = std::max(client.busy_since, troubled_ns_);
  if (scheduler_.now() > since + bound)
    Violate(std::string(client.doing) + " of client " + std::to_string(client.id) + " has lasted " +
            std::to_string((scheduler_.now() - client.busy_since) / kMillisecond) + " ms, and " +
            std::to_string((scheduler_.now() - since) / kMillisecond) + " ms since the last fault");
}

void World::SleepAndWatch(uint64_t ns) {
  const uint64_t until = scheduler_.now() + ns;
  while (scheduler_.now() < until && outcome_.violation.empty() && !clients_.back()->done) {
    scheduler_.SleepUntil(std::min(until, scheduler_.now() + 100 * kMillisecond));
    Watch();
  }
}

// A value is under way for a small part of a step, so there are several.
void World::ResetOften() {
  for (uint64_t i = 0, count = 1 + scheduler_.Draw(options_.focus == Focus::kResets ? 24 : 6);
       i < count && outcome_.violation.empty(); ++i) {
    const Node& worker = nodes_[servers_ + scheduler_.Draw(workers_)];
    const int other = scheduler_.Chance(0.8) ? nodes_[scheduler_.Draw(servers_)].id : clients_.back()->id;
    Tell("the connections between nodes %d and %d are reset", worker.id, other);
    network_.Reset(worker.id, other);
    troubled_ns_ = scheduler_.now();
    SleepAndWatch(scheduler_.Draw(
        scheduler_.Chance(options_.focus == Focus::kResets ? 0.9 : 0.5) ? 4 * kMillisecond : 600 * kMillisecond));
  }
}

void World::OneFault() {
  Node& node = nodes_[scheduler_.Draw(nodes_.size())];
  const uint64_t kind = DrawKind();
  const uint64_t lasts = scheduler_.Draw(scheduler_.Chance(0.3) ? 20 * kSecond : 5 * kSecond);
  troubled_ns_ = scheduler_.now();
  ++outcome_.faults;
  if (kind < 4) {
    KillNode(&node);
    SleepAndWatch(lasts / 4);
    StartNode(&node);
  } else if (kind < 6) {
    Tell("%s (node %d) is frozen for %.1f s", node.task.name.c_str(), node.id, static_cast<double>(lasts) * 1e-9);
    scheduler_.Freeze(node.id);
    SleepAndWatch(lasts);
    scheduler_.Thaw(node.id);
  } else if (kind == 6) {
    ClientState& client = *clients_.back();
    Tell("client %d is frozen for %.1f s", client.id, static_cast<double>(lasts) * 1e-9);
    scheduler_.Freeze(client.id);
    SleepAndWatch(lasts);
    scheduler_.Thaw(client.id);
  } else if (kind == 14) {
    Tell("the disk fails now and then for %.1f s", static_cast<double>(lasts) * 1e-9);
    network_.set_disk_failures(scheduler_.Chance(0.5) ? 0.02 : 0.3);
    SleepAndWatch(lasts);
    network_.set_disk_failures(0);
  } else if (kind == 15) {
    Tell("the disk loses power");
    network_.CrashDisk();
  } else if (kind == 13 && !visitors_.empty()) {
    const bool silently = scheduler_.Chance(0.7);
    Tell("visitor %d is killed%s", visitors_.back()->id, silently ? ", its machine too" : "");
    scheduler_.Kill(visitors_.back()->id);
    network_.Kill(visitors_.back()->id, silently);
    visitor_threads_.back()->detach();
    visitor_threads_.pop_back();
    visitors_.pop_back();
  } else if (kind == 7) {
    ClientState& client = *clients_.back();
    const bool silently = scheduler_.Chance(0.5);
    Tell("client %d is killed%s", client.id, silently ? ", its machine too" : "");
    scheduler_.Kill(client.id);
    network_.Kill(client.id, silently);
    client_threads_.back()->detach();
    StartClient();
  } else {
    if (kind >= 10) return ResetOften();
    std::vector<int> ids;
    for (const Node& each : nodes_) ids.push_back(each.id);
    ids.push_back(clients_.back()->id);
    const int from = ids[scheduler_.Draw(ids.size())], to = ids[scheduler_.Draw(ids.size())];
    if (from == to) return;
    const bool both = scheduler_.Chance(0.7);
    Tell("nodes %d and %d are cut off%s for %.1f s", from, to, both ? "" : ", one way,",
         static_cast<double>(lasts) * 1e-9);
    network_.Cut(from, to);
    if (both) network_.Cut(to, from);
    SleepAndWatch(lasts);
    network_.Heal(from, to);
    if (both) network_.Heal(to, from);
  }
  troubled_ns_ = scheduler_.now();
}

Outcome World::Run() {
  servers_ = 1 + scheduler_.Draw(2);
  workers_ = 1 + scheduler_.Draw(3);
  if (scheduler_.Chance(0.5)) way_ = std::array<const char*, 3>{"direct", "ring", "tree"}[scheduler_.Draw(3)];
  window_ = options_.seed % 2;
  steps_ = 4 + static_cast<int64_t>(scheduler_.Draw(16));
  checkpoint_steps_ = 1 + static_cast<int64_t>(scheduler_.Draw(4));
  const uint64_t faults = options_.calm ? 0 : scheduler_.Draw(5) + (options_.focus == Focus::kAll ? 0 : 4);
  folder_ = "simdisk://training";
  for (size_t i = 0; i < servers_; ++i)
    tasks_.push_back({"/job:ps/task:" + std::to_string(i), "sim://ps" + std::to_string(i)});
  for (size_t i = 0; i < workers_; ++i)
    tasks_.push_back({"/job:worker/task:" + std::to_string(i), "sim://worker" + std::to_string(i)});
  for (const ClusterTask& task : tasks_) nodes_.push_back({task, 0, nullptr, nullptr});
  for (Node& node : nodes_) StartNode(&node);
  StartClient();
  if (scheduler_.Chance(0.5) || options_.focus == Focus::kVisitors) StartVisitor();
  for (uint64_t i = 0; i < faults && outcome_.violation.empty(); ++i) {
    SleepAndWatch(scheduler_.Draw(scheduler_.Chance(0.5) ? 20 * kMillisecond : kSecond));
    if (clients_.back()->done || !outcome_.violation.empty()) break;
    OneFault();
  }
  while (outcome_.violation.empty() && !clients_.back()->done) {
    SleepAndWatch(kSecond);
    if (scheduler_.now() > kEndOfTime) Violate("the client does not get to its end");
  }
  if (outcome_.violation.empty()) End();
  outcome_.trace = scheduler_.trace();
  outcome_.switches = scheduler_.switches();
  outcome_.frames = network_.frames();
  outcome_.simulated_ns = scheduler_.now();
  return outcome_;
}

void World::CheckWorkers(std::initializer_list<const char*> names, double most) {
  for (const Node& node : nodes_) {
    const auto metrics = node.worker->Metrics();
    if (!metrics.ok()) return Violate("a worker has no metrics: " + metrics.status().message());
    for (const char* name : names)
      if (const double value = Sum(*metrics, name); value > most)
        Violate(node.task.name + " is left with " + std::to_string(value) + " of " + name);
  }
}

void World::End() {
  client_threads_.back()->join();
  visitors_rest_ = true;
  // Longer than a lease: whoever was left by a dead client, or cut off, has been forgotten.
  scheduler_.Sleep(20 * kSecond);
  CheckWorkers({"tenon_worker_steps", "tenon_worker_values_waiting"});
  // At most one session a visitor, with a part of its beginning, one of its mark and one of its callable.
  CheckWorkers({"tenon_worker_parts"}, 3.0 * static_cast<double>(visitor_threads_.size()));
  visitors_leave_ = true;
  for (const auto& thread : visitor_threads_) thread->join();
  CheckWorkers({"tenon_worker_sessions"});
  for (Node& node : nodes_) {
    const Status stopped = node.worker->Stop(std::chrono::seconds(1));
    if (!stopped.ok() && stopped.code() != Code::kDeadlineExceeded)
      Violate("a worker cannot stop: " + stopped.message());
    node.worker.reset();
    node.runtime.reset();
  }
}

// What the parent reads from a child.
std::string Encode(const Outcome& outcome) {
  char head[200];
  std::snprintf(head, sizeof head, "%llu %lld %d %d %llu %llu %llu\n", static_cast<unsigned long long>(outcome.trace),
                static_cast<long long>(outcome.steps), outcome.faults, outcome.sessions,
                static_cast<unsigned long long>(outcome.switches), static_cast<unsigned long long>(outcome.frames),
                static_cast<unsigned long long>(outcome.simulated_ns));
  return head + outcome.violation;
}

Outcome Decode(const std::string& text) {
  Outcome outcome;
  unsigned long long trace = 0, switches = 0, frames = 0, time = 0;
  long long steps = 0;
  if (std::sscanf(text.c_str(), "%llu %lld %d %d %llu %llu %llu", &trace, &steps, &outcome.faults, &outcome.sessions,
                  &switches, &frames, &time) != 7) {
    outcome.violation = "the process of the run ended early";
    return outcome;
  }
  outcome.trace = trace;
  outcome.steps = steps;
  outcome.switches = switches;
  outcome.frames = frames;
  outcome.simulated_ns = time;
  outcome.violation = text.substr(text.find('\n') + 1);
  return outcome;
}

void WriteAll(int file, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(file, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

[[noreturn]] void Child(const RunOptions& options, int answer) {
  // Handing the baton on is quicker within a core.
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
  g_planted = options.planted_bug;
  alarm(120);  // of the real clock: a thread that waits for none of the scheduler's things
  Scheduler::Run(options.seed, [&] {
    World world(options);
    Scheduler::Here()->on_stuck = [&](const std::string& why) {
      Outcome outcome = world.outcome();
      outcome.violation = why;
      WriteAll(answer, Encode(outcome));
      _exit(1);
    };
    WriteAll(answer, Encode(world.Run()));
    // Threads of the dead never end.
    _exit(0);
  });
  _exit(2);
}

}  // namespace
}  // namespace tenon::simulation

bool tenon::cluster::Planted(Bug bug) { return simulation::g_planted == static_cast<int>(bug); }

namespace tenon::simulation {

Outcome Simulate(const RunOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return {.violation = "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Child(options, ends[1]);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome = Decode(text);
  if (WIFSIGNALED(status))
    outcome.violation =
        "the process of the run ended by signal " + std::to_string(WTERMSIG(status)) + "; " + outcome.violation;
  return outcome;
}

void Prepare() {
  // Libraries are opened, and their statics made, before there is a scheduler.
  auto runtime = host::Runtime::Create(OptionsOf(""));
  if (!runtime.ok()) std::fprintf(stderr, "%s\n", runtime.status().message().c_str());
}

}  // namespace tenon::simulation

// For the plugin sim.
extern "C" __attribute__((visibility("default"))) tenon::simulation::Fabric* tenon_simulation_fabric();
extern "C" tenon::simulation::Fabric* tenon_simulation_fabric() {
  auto* const world = tenon::simulation::World::active();
  return world == nullptr ? nullptr : &world->network();
}
