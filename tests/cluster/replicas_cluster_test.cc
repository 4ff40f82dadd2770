// SPDX-License-Identifier: Apache-2.0
// Replicas with clients of their own, over parameter servers: asynchronous, synchronous, and with backups. Covers D8,
// P2, P12 to P14, R9.
#include "tenon/train/replicas.h"

#include <atomic>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "tenon/train/embedding.h"
#include "tests/cluster/local_cluster.h"

namespace tenon::engine::replicas_cluster_test {
namespace {

using train::ReplicaChief;
using train::ReplicaClient;
using train::ReplicaEvent;
using train::ReplicaGraph;
using train::ReplicaOptions;
using Kind = ReplicaEvent::Kind;

constexpr int64_t kBatch = 4, kInputs = 5;
const std::vector<std::pair<std::string, int>> kJobs = {{"ps", 2}, {"worker", 3}};
const std::vector<std::string> kServers = {"/job:ps/task:0", "/job:ps/task:1"};

// The share of a replica of the batch of a step.
std::vector<float> Inputs(int64_t step, int64_t replica) {
  std::mt19937 random(static_cast<unsigned>(step * 100 + replica));
  std::vector<float> x;
  for (int64_t i = 0; i < kBatch * kInputs; ++i) x.push_back(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  return x;
}

// Two layers, a table of rows in a shard at each server, and two weights at two servers that are always changed alike:
// `mixed` is 0 unless they are of two versions.
struct Net {
  explicit Net(const std::vector<std::string>& servers) : g(TheRuntime()), model(g, 7) {
    model.set_variable_devices(servers);
    twins[0] = &model.Weight("twin/a", {64}, train::Initializer::Constant(1));
    twins[1] = &model.Weight("twin/b", {64}, train::Initializer::Constant(1));
    table.emplace(model, "table", 7, 3, train::Initializer::Constant(0.25f),
                  servers.empty() ? std::vector<std::string>(2) : servers);
    x = g.Placeholder("x", DType::kFloat, {kBatch, kInputs});
    rate = g.Const(0.1f);
  }
  Output Loss(Output in) {
    const Output ids = g.Op(
        "Cast", {g.Op("Mul", {g.Op("Abs", {g.Op("Slice", {in, g.Const({0, 0}), g.Const({-1, 2})})}), g.Const(6.0f)})},
        {{"DstT", DType::kInt32}});
    const Output looked_up =
        g.Op("Mean", {g.Op("Square", {g.Op("Sub", {table->Lookup(ids), g.Const(0.5f)})}), g.Const({0, 1, 2})});
    const Output h = model.Relu(model.Dense("one", in, kInputs, 8, train::Initializer::He(kInputs)));
    const Output y = model.Dense("two", h, 8, 2, train::Initializer::He(8));
    const Output wanted = g.Op("Mul", {g.Op("Slice", {in, g.Const({0, 0}), g.Const({-1, 2})}), g.Const(3.0f)});
    const Output fit = g.Op("Mean", {g.Op("SquaredDifference", {y, wanted}), g.Const({0, 1})});
    const Output a = g.Op("Mean", {g.Op("Square", {twins[0]->value}), g.Const({0})}),
                 b = g.Op("Mean", {g.Op("Square", {twins[1]->value}), g.Const({0})});
    mixed = g.Op("Sub", {a, b});
    return g.Op("AddN", {fit, a, b, looked_up});
  }
  std::vector<Name> Weights() const {
    std::vector<Name> names;
    for (const train::Variable* variable : model.trainable()) names.emplace_back(variable->value);
    return names;
  }
  Graph g;
  train::Model model;
  const train::Variable* twins[2];
  std::optional<train::Embedding> table;
  Output x, rate, mixed;
};

// Momentum, so that an update that is lost or doubled shows for ever.
train::OptimizerOptions Optimizer() {
  train::OptimizerOptions options;
  options.kind = train::OptimizerOptions::Kind::kMomentum;
  return options;
}

std::vector<std::vector<float>> WeightsOf(const Session& session, const Net& net) {
  auto values = session.Run({}, net.Weights());
  EXPECT_TRUE(values.ok()) << values.status().message();
  std::vector<std::vector<float>> all;
  if (values.ok())
    for (const Tensor& value : *values) all.push_back(Values<float>(value));
  return all;
}

ReplicaOptions Options(const std::string& name, int64_t replicas, int64_t backups = 0, bool synchronous = true) {
  ReplicaOptions options;
  options.name = name;
  options.replicas = replicas;
  options.backups = backups;
  options.synchronous = synchronous;
  options.device = kServers[0];
  return options;
}

// A client: a graph and a session of its own.
struct Client {
  Client(const LocalCluster& cluster, const ReplicaOptions& options, int64_t number)
      : net(kServers),
        graph(net.model, Loss(number), net.rate, Optimizer(), options, number),
        session(cluster.Client(Empty())) {
    EXPECT_TRUE(net.g.status().ok()) << net.g.status().message();
  }
  static Graph Empty() { return Graph(TheRuntime()); }
  Output Loss(int64_t number) {
    const auto on = net.g.Device("/job:worker/task:" + std::to_string(number % 3));
    return net.Loss(net.x);
  }
  void Begin() {
    auto begun = ReplicaClient::Begin(session, graph, {net.x}, {net.mixed});
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    replica = std::move(*begun);
  }
  void Lead() {
    auto begun = ReplicaChief::Begin(session, graph);
    ASSERT_TRUE(begun.ok()) << begun.status().message();
    chief = std::move(*begun);
  }
  int64_t Next() {
    const Result<int64_t> next = replica->Next();
    EXPECT_TRUE(next.ok()) << next.status().message();
    return next.ok() ? *next : -1;
  }
  // The step's own data. Gives whether it saw variables of two versions.
  Result<bool> Step(int64_t step, int64_t number) {
    const std::vector<float> x = Inputs(step, number);
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, replica->Step({View(x, {kBatch, kInputs})}));
    return values[1].scalar<float>(1) != 0;
  }
  Net net;
  ReplicaGraph graph;
  Session session;
  std::unique_ptr<ReplicaClient> replica;
  std::unique_ptr<ReplicaChief> chief;
};

using Trace = std::vector<std::tuple<Kind, int64_t, int64_t>>;

// A job in threads: the chief beside n replicas, up to a number of steps.
struct Job {
  Job(const LocalCluster& cluster, const ReplicaOptions& options, int64_t steps,
      std::vector<std::vector<int64_t>> forced = {}) {
    Client leader(cluster, options, 0);
    leader.Lead();
    leader.chief->forced = std::move(forced);
    leader.chief->on_event = [this](const ReplicaEvent& event) {
      arrived += event.kind == Kind::kArrived;
      late += event.kind == Kind::kLate;
    };
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < options.replicas; ++i)
      threads.emplace_back([&, i] {
        Client client(cluster, options, i);
        client.Begin();
        std::mt19937 random(std::random_device{}());
        for (int64_t step = client.Next(); step >= 0 && step < steps; step = client.Next()) {
          for (unsigned pause = random() % 4; pause > 0; --pause) std::this_thread::yield();
          const Result<bool> mixed = client.Step(step, i);
          EXPECT_TRUE(mixed.ok()) << mixed.status().message();
          ++delivered;
        }
      });
    const Status led = leader.chief->Run(steps);
    EXPECT_TRUE(led.ok()) << led.message();
    contributors = leader.chief->contributors();
    for (std::thread& thread : threads) thread.join();
    weights = WeightsOf(leader.session, leader.net);
  }
  std::atomic<int> delivered{0};
  int arrived = 0, late = 0;
  std::vector<std::vector<int64_t>> contributors;
  std::vector<std::vector<float>> weights;
};

TEST(Replicas, AsynchronousOnesApplyWhenTheyAreDoneWhateverOthersDo) {
  const LocalCluster cluster("loopback://replicas_async", kJobs);
  const ReplicaOptions options = Options("async", 2, 0, false);
  Client a(cluster, options, 0), b(cluster, options, 1);
  a.Lead();
  Trace trace;
  for (Client* client : {&a, &b}) {
    client->Begin();
    client->replica->on_event = [&trace](const ReplicaEvent& e) { trace.emplace_back(e.kind, e.replica, e.step); };
  }
  EXPECT_EQ(a.Next(), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(b.Next(), i);
    EXPECT_TRUE(b.Step(i, 1).ok());
  }
  EXPECT_TRUE(a.Step(0, 0).ok());
  // What a began with version 0 it applied to version 3.
  EXPECT_EQ(trace, (Trace{{Kind::kBegan, 0, 0},
                          {Kind::kBegan, 1, 0},
                          {Kind::kApplied, 1, 1},
                          {Kind::kBegan, 1, 1},
                          {Kind::kApplied, 1, 2},
                          {Kind::kBegan, 1, 2},
                          {Kind::kApplied, 1, 3},
                          {Kind::kApplied, 0, 4}}));
}

TEST(Replicas, SynchronousOnesAllReadOneVersionAndAreAppliedTogether) {
  const LocalCluster cluster("loopback://replicas_sync", kJobs);
  const ReplicaOptions options = Options("sync", 2);
  Client a(cluster, options, 0), b(cluster, options, 1);
  a.Lead();
  Trace trace;
  a.chief->on_event = [&trace](const ReplicaEvent& e) { trace.emplace_back(e.kind, e.replica, e.step); };
  std::thread chief([&a] { EXPECT_TRUE(a.chief->Run(2).ok()); });
  a.Begin();
  b.Begin();
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(a.Next(), step);
    EXPECT_EQ(b.Next(), step);
    EXPECT_FALSE(*b.Step(step, 1));
    EXPECT_FALSE(*a.Step(step, 0));
  }
  EXPECT_EQ(a.Next(), 2);
  chief.join();
  EXPECT_EQ(trace, (Trace{{Kind::kArrived, 1, 0},
                          {Kind::kArrived, 0, 0},
                          {Kind::kApplied, -1, 0},
                          {Kind::kArrived, 1, 1},
                          {Kind::kArrived, 0, 1},
                          {Kind::kApplied, -1, 1}}));
}

TEST(Replicas, WithABackupTheFirstCountAndTheLateOneIsDropped) {
  const LocalCluster cluster("loopback://replicas_backup", kJobs);
  const ReplicaOptions options = Options("backup", 3, 1);
  Client a(cluster, options, 0), b(cluster, options, 1), straggler(cluster, options, 2);
  a.Lead();
  Trace trace;
  a.chief->on_event = [&trace](const ReplicaEvent& e) { trace.emplace_back(e.kind, e.replica, e.step); };
  std::thread chief([&a] { EXPECT_TRUE(a.chief->Run(3).ok()); });
  for (Client* client : {&a, &b, &straggler}) client->Begin();
  EXPECT_EQ(straggler.Next(), 0);
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(a.Next(), step);
    EXPECT_EQ(b.Next(), step);
    EXPECT_FALSE(*a.Step(step, 0));
    EXPECT_FALSE(*b.Step(step, 1));
  }
  EXPECT_EQ(a.Next(), 2);
  EXPECT_TRUE(straggler.Step(0, 2).ok()) << "two steps were made without it";
  EXPECT_EQ(straggler.Next(), 2) << "the newest";
  EXPECT_FALSE(*straggler.Step(2, 2));
  EXPECT_FALSE(*a.Step(2, 0));
  chief.join();
  EXPECT_EQ(trace, (Trace{{Kind::kArrived, 0, 0},
                          {Kind::kArrived, 1, 0},
                          {Kind::kApplied, -1, 0},
                          {Kind::kArrived, 0, 1},
                          {Kind::kArrived, 1, 1},
                          {Kind::kApplied, -1, 1},
                          {Kind::kLate, 2, 0},
                          {Kind::kArrived, 2, 2},
                          {Kind::kArrived, 0, 2},
                          {Kind::kApplied, -1, 2}}));
  EXPECT_EQ(a.chief->contributors(), (std::vector<std::vector<int64_t>>{{0, 1}, {0, 1}, {0, 2}}));
}

TEST(Replicas, SynchronousOnesGiveTheBitsOfOneGraphWithAllOfThem) {
  constexpr int64_t kReplicas = 3, kSteps = 20;
  const LocalCluster cluster("loopback://replicas_bits", kJobs);
  const Job job(cluster, Options("bits", kReplicas), kSteps);
  Net net({});
  std::vector<train::Replica> towers;
  std::vector<Output> xs;
  for (int64_t i = 0; i < kReplicas; ++i) {
    xs.push_back(net.g.Placeholder("x" + std::to_string(i), DType::kFloat, {kBatch, kInputs}));
    towers.push_back({net.Loss(xs.back()), ""});
  }
  const Operation update = train::Minimize(net.model, towers, net.rate, Optimizer());
  const Operation init = net.model.InitializeAll();
  const Session session = *Session::Create(TheRuntime(), net.g);
  ASSERT_TRUE(session.RunTargets({init}).ok());
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<Feed> fed;
    for (int64_t i = 0; i < kReplicas; ++i)
      fed.push_back({xs[static_cast<size_t>(i)], *Tensor::From(Inputs(step, i), {kBatch, kInputs})});
    ASSERT_TRUE(session.RunTargets({update}, fed).ok());
  }
  EXPECT_EQ(job.weights, WeightsOf(session, net));
}

TEST(Replicas, GivenTheRecordedContributorsTheWeightsAreTheSameBits) {
  constexpr int64_t kSteps = 40;
  const LocalCluster cluster("loopback://replicas_replay", kJobs);
  const Job job(cluster, Options("recorded", 4, 2), kSteps);
  ASSERT_EQ(job.contributors.size(), static_cast<size_t>(kSteps));
  for (const std::vector<int64_t>& step : job.contributors) {
    EXPECT_EQ(step.size(), 2u);
    EXPECT_EQ(std::set<int64_t>(step.begin(), step.end()).size(), 2u) << "no replica takes two places";
  }
  EXPECT_EQ(job.arrived, 2 * kSteps);
  EXPECT_LE(job.arrived + job.late, job.delivered);
  const Job again(cluster, Options("replayed", 4, 2), kSteps, job.contributors);
  EXPECT_EQ(again.contributors, job.contributors);
  EXPECT_EQ(again.weights, job.weights);
}

TEST(Replicas, ALostBackupIsNotMissedAndTwoAreNamed) {
  const LocalCluster cluster("loopback://replicas_lost", kJobs);
  ReplicaOptions options = Options("lost", 3, 1);
  options.patience = std::chrono::milliseconds(250);
  auto a = std::make_unique<Client>(cluster, options, 0), b = std::make_unique<Client>(cluster, options, 1),
       c = std::make_unique<Client>(cluster, options, 2);
  a->Lead();
  Status led;
  std::thread chief([&] { led = a->chief->Run(100); });
  for (Client* client : {a.get(), b.get(), c.get()}) {
    client->Begin();
    EXPECT_EQ(client->Next(), 0);
  }
  c.reset();
  for (int step = 0; step < 5; ++step) {
    EXPECT_TRUE(a->Step(step, 0).ok());
    EXPECT_TRUE(b->Step(step, 1).ok());
    EXPECT_EQ(a->Next(), step + 1);
    EXPECT_EQ(b->Next(), step + 1);
  }
  b.reset();
  EXPECT_TRUE(a->Step(5, 0).ok());
  chief.join();
  EXPECT_EQ(led.code(), Code::kUnavailable) << led.message();
  EXPECT_NE(led.message().find("replicas 1, 2 of 'lost' have not been heard of for 250 ms: step 5"), std::string::npos)
      << led.message();
  a->chief.reset();
  const Status given_up = a->replica->Next().status();
  EXPECT_EQ(given_up.code(), Code::kAborted);
  EXPECT_NE(given_up.message().find("the chief of 'lost' has given up after step 5"), std::string::npos)
      << given_up.message();
}

TEST(Replicas, ALostServerIsNamedToAll) {
  LocalCluster cluster("loopback://replicas_server", kJobs);
  const ReplicaOptions options = Options("server", 2);
  Client a(cluster, options, 0), b(cluster, options, 1);
  a.Lead();
  Status led;
  std::thread chief([&] { led = a.chief->Run(100); });
  a.Begin();
  b.Begin();
  EXPECT_EQ(b.Next(), 0);
  EXPECT_TRUE(b.Step(0, 1).ok());
  Status waited;
  std::thread waiting([&] { waited = b.replica->Next().status(); });
  cluster.Stop(0);
  chief.join();
  waiting.join();
  for (const Status& status : {led, waited}) {
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
    EXPECT_NE(status.message().find("/job:ps/replica:0/task:0"), std::string::npos) << status.message();
  }
}

TEST(Replicas, ADescriptionThatCannotBeIsRefused) {
  Net net({});
  const Output loss = net.Loss(net.x);
  const ReplicaGraph graph(net.model, loss, net.rate, Optimizer(), Options("none", 2, 2), 0);
  EXPECT_EQ(net.g.status().code(), Code::kInvalidArgument);
  EXPECT_NE(net.g.status().message().find("replica 0 of 2 with 2 backups"), std::string::npos)
      << net.g.status().message();
}

}  // namespace
}  // namespace tenon::engine::replicas_cluster_test
