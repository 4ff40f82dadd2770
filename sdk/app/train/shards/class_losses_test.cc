// SPDX-License-Identifier: Apache-2.0
// Losses over many classes: sampled ones against TensorFlow's, the sharded softmax against the whole one, however the
// classes are parted. Covers B16, P9, P10.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "tenon/train/optimizer.h"
#include "tenon/train/sampled_loss.h"
#include "tenon/train/sharded_softmax.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::class_losses_test {
namespace {

using Loss = Output (*)(Graph&, const ClassShards&, const Output&, const Output&, const SampledLossOptions&);

struct Parting {
  size_t shards;
  Partition partition;
  bool by_rows = false;
};
const Parting kPartings[] = {{1, Partition::kDiv},      {2, Partition::kDiv}, {4, Partition::kDiv},
                             {9, Partition::kDiv},      {1, Partition::kMod}, {2, Partition::kMod},
                             {4, Partition::kMod},      {9, Partition::kMod}, {4, Partition::kMod, true},
                             {4, Partition::kDiv, true}};

// Classes in shards with the golden's weights, and their gradients put together again.
struct Classes {
  explicit Classes(const Parting& parting, std::vector<std::string> devices = {})
      : graph(SharedRuntime()),
        model(graph),
        golden(TrainingGolden("sampled")),
        weights(GoldenValues(golden["weights"])),
        biases(GoldenValues(golden["biases"])) {
    if (devices.empty()) devices.resize(parting.shards);
    shards = MakeClassShards(model, "classes", kClasses, kWidth, Initializer::Constant(0),
                             {devices, parting.partition, parting.by_rows});
    inputs = GoldenConst(graph, golden["inputs"]);
    for (size_t i = 0; i < shards.weights.size(); ++i) {
      given.push_back(AssignNode(graph, *shards.weights[i], OwnOf(weights, kWidth, parting, i)));
      given.push_back(AssignNode(graph, *shards.biases[i], OwnOf(biases, 1, parting, i)));
    }
  }
  static constexpr int64_t kClasses = 9, kWidth = 4;

  // Which class is row `row` of shard `shard`.
  static size_t ClassOf(const Parting& parting, size_t shard, size_t row) {
    if (parting.partition == Partition::kMod) return shard + row * parting.shards;
    size_t first = 0;
    for (size_t i = 0; i < shard; ++i) first += RowsOf(parting, i);
    return first + row;
  }
  static size_t RowsOf(const Parting& parting, size_t shard) {
    return kClasses / parting.shards + (shard < kClasses % parting.shards ? 1 : 0);
  }
  static std::vector<float> OwnOf(const std::vector<float>& all, size_t width, const Parting& parting, size_t shard) {
    std::vector<float> own;
    for (size_t row = 0; row < RowsOf(parting, shard); ++row) {
      const auto from = all.begin() + static_cast<ptrdiff_t>(ClassOf(parting, shard, row) * width);
      own.insert(own.end(), from, from + static_cast<ptrdiff_t>(width));
    }
    return own;
  }

  // loss, d/dweights, d/dbiases, d/dinputs of the sum of the losses; the whole gradients of all classes.
  std::vector<std::vector<float>> Run(const Parting& parting, const Output& loss,
                                      std::optional<Session> own = std::nullopt) {
    std::vector<Output> xs{inputs};
    for (size_t i = 0; i < shards.weights.size(); ++i) {
      xs.push_back(parting.by_rows ? shards.weights[i]->handle : shards.weights[i]->value);
      xs.push_back(parting.by_rows ? shards.biases[i]->handle : shards.biases[i]->value);
    }
    std::vector<Name> fetches{loss};
    const std::vector<host::Gradient> gradients = graph.Gradients({loss}, xs);
    for (size_t i = 0; i < gradients.size(); ++i) fetches.emplace_back(Whole(gradients[i], i));
    Session session = own ? std::move(*own) : NewSession();
    EXPECT_TRUE(session.Extend(graph).ok() && session.RunTargets(given).ok()) << graph.status();
    const auto values = session.Run({}, fetches);
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return {};
    std::vector<std::vector<float>> found{Floats((*values)[0]), std::vector<float>(weights.size(), NAN),
                                          std::vector<float>(biases.size(), NAN), Floats((*values)[1])};
    for (size_t i = 0; i < parting.shards; ++i) {
      PutBack(Floats((*values)[2 + 2 * i]), kWidth, parting, i, &found[1]);
      PutBack(Floats((*values)[3 + 2 * i]), 1, parting, i, &found[2]);
    }
    return found;
  }
  Output Whole(const host::Gradient& gradient, size_t i) {
    if (gradient.kind == host::Gradient::Kind::kDense) return gradient.dense;
    const int64_t rows = shards.weights[(i - 1) / 2]->shape[0];
    return graph.Op("UnsortedSegmentSum", {gradient.dense, gradient.indices, graph.Const(static_cast<int32_t>(rows))});
  }
  static void PutBack(const std::vector<float>& own, size_t width, const Parting& parting, size_t shard,
                      std::vector<float>* all) {
    for (size_t i = 0; i < own.size(); ++i) (*all)[ClassOf(parting, shard, i / width) * width + i % width] = own[i];
  }

  Graph graph;
  Model model;
  const nlohmann::json& golden;
  const std::vector<float> weights, biases;
  ClassShards shards;
  Output inputs;
  std::vector<Name> given;
};

Output LabelsOf(Graph& graph, const nlohmann::json& labels) {
  std::vector<int64_t> all;
  for (const auto& row : labels)
    for (const auto& label : row) all.push_back(label.get<int64_t>());
  const auto batch = static_cast<int64_t>(labels.size()), count = static_cast<int64_t>(labels[0].size());
  return count == 1 ? graph.Const(all, {batch}) : graph.Const(all, {batch, count});
}

TEST(SampledLoss, IsTensorFlows) {
  for (const Parting& parting : kPartings)
    for (const auto& golden : TrainingGolden("sampled")["cases"])
      for (const std::string name : {"softmax", "nce", "nce_without_hits"}) {
        Classes classes(parting);
        Graph& graph = classes.graph;
        SampledLossOptions options;
        const auto sampled = golden["sampled"].get<std::vector<int64_t>>();
        options.candidates =
            Candidates{graph.Const(sampled, {static_cast<int64_t>(sampled.size())}),
                       GoldenConst(graph, golden["true_expected"]), GoldenConst(graph, golden["sampled_expected"])};
        if (name == "nce_without_hits") options.remove_accidental_hits = true;
        const Loss loss_of = name == "softmax" ? SampledSoftmaxLoss : NceLoss;
        const auto found = classes.Run(
            parting, loss_of(graph, classes.shards, classes.inputs, LabelsOf(graph, golden["labels"]), options));
        ASSERT_TRUE(graph.status().ok()) << graph.status();
        ASSERT_EQ(found.size(), 4u);
        const std::string where = name + " of " + std::to_string(parting.shards);
        ExpectNear(found[0], GoldenValues(golden[name]["loss"]), where + " loss");
        for (size_t i = 0; i < 3; ++i)
          ExpectNear(found[1 + i], GoldenValues(golden[name]["gradients"][i]), where + " gradient " + std::to_string(i),
                     5e-6f);
      }
}

// With all classes sampled, and the label left out of the sample, it is the whole softmax but for what is subtracted.
TEST(SampledLoss, SamplesLogUniformly) {
  Graph graph(SharedRuntime());
  const Output labels = graph.Const(std::vector<int64_t>{0, 5}, {2, 1});
  const Candidates drawn = LogUniformCandidates(graph, labels, 9, 9, 3),
                   few = LogUniformCandidates(graph, labels, 3, 1000);
  const Session session = SessionOf(graph, {});
  const auto values = session.Run({}, {drawn.sampled, drawn.true_expected, drawn.sampled_expected});
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<int64_t> sampled((*values)[0].data<int64_t>().begin(), (*values)[0].data<int64_t>().end());
  std::sort(sampled.begin(), sampled.end());
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(sampled[i], static_cast<int64_t>(i));
  std::vector<int> seen(1000);
  for (int i = 0; i < 300; ++i) {
    const auto again = session.Run({}, {few.sampled});
    for (const int64_t c : (*again)[0].data<int64_t>()) ++seen[static_cast<size_t>(c)];
  }
  EXPECT_GT(seen[0], 30);  // of 300 each with a tenth or more
  EXPECT_GT(seen[0] + seen[1] + seen[2], 4 * (seen[900] + seen[901] + seen[902] + 1));
}

TEST(SampledLoss, LearnsAsTheWholeSoftmaxDoes) {
  Graph graph(SharedRuntime());
  Model model(graph, 3);
  constexpr int64_t kClasses = 40;
  const ClassShards classes =
      MakeClassShards(model, "classes", kClasses, 8, Initializer::Constant(0), {{"", "", ""}, Partition::kMod, true});
  const Variable& vectors = model.Rows("vectors", {kClasses, 8}, Initializer::TruncatedNormal(1));
  std::vector<int64_t> all;
  for (int64_t c = 0; c < kClasses; ++c) all.push_back(c);
  const Output ids = graph.Const(all, {kClasses}),
               x = graph.Op("ResourceGather", {vectors.handle, ids}, {{"dtype", DType::kFloat}});
  SampledLossOptions options;
  options.sampled = 10;
  options.seed = 4;
  const auto mean = [&](const Output& losses) { return graph.Op("Mean", {losses, graph.Const({0})}); };
  const Output sampled = mean(SampledSoftmaxLoss(graph, classes, x, ids, options)),
               whole = mean(ShardedSoftmaxLoss(graph, classes, x, ids));
  OptimizerOptions adagrad;
  adagrad.kind = OptimizerOptions::Kind::kAdagrad;
  adagrad.fused = false;
  const Operation update = Minimize(model, sampled, graph.Const(0.5f), adagrad);
  const Session session = SessionOf(graph, {model.InitializeAll()});
  const auto loss = [&] {
    const auto values = session.Run({}, {whole});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? (*values)[0].scalar<float>() : NAN;
  };
  EXPECT_NEAR(loss(), std::log(40.0f), 1e-4f);
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(session.RunTargets({update}).ok());
  EXPECT_LT(loss(), 0.1f);
}

// ---- The whole softmax, in shards ----

std::vector<std::vector<float>> Unsharded(const std::vector<int64_t>& labels, float scale) {
  const Parting one{1, Partition::kDiv};
  Classes classes(one);
  Graph& graph = classes.graph;
  const Output x = graph.Op("Mul", {classes.inputs, graph.Const(scale)});
  const Output logits =
      graph.Op("BiasAdd", {graph.Op("MatMul", {x, classes.shards.weights[0]->value}, {{"transpose_b", true}}),
                           classes.shards.biases[0]->value});
  return classes.Run(one, graph
                              .AddNode("SparseSoftmaxCrossEntropyWithLogits",
                                       {logits, graph.Const(labels, {static_cast<int64_t>(labels.size())})})
                              .output(0));
}

TEST(ShardedSoftmax, IsTheWholeOne) {
  for (const float scale : {1.0f, 200.0f})  // logits of hundreds
    for (const std::vector<int64_t>& labels : {std::vector<int64_t>{0, 4, 8}, {2, 2, 7}}) {
      const auto wanted = Unsharded(labels, scale);
      for (const Parting& parting : kPartings) {
        Classes classes(parting);
        Graph& graph = classes.graph;
        const std::vector<int32_t> narrow(labels.begin(), labels.end());
        const Output x = graph.Op("Mul", {classes.inputs, graph.Const(scale)});
        const auto found = classes.Run(parting, ShardedSoftmaxLoss(graph, classes.shards, x, graph.Const(narrow, {3})));
        ASSERT_TRUE(graph.status().ok()) << graph.status();
        ASSERT_EQ(found.size(), 4u);
        for (size_t i = 0; i < 4; ++i)
          ExpectNear(found[i], wanted[i], "value " + std::to_string(i) + " of " + std::to_string(parting.shards),
                     1e-5f);
      }
    }
}

// What loss and gradient have in common is merged; where nothing is, it is computed twice.
TEST(ShardedSoftmax, IsTheSameWithoutOptimization) {
  const Parting parting{4, Partition::kMod};
  const auto wanted = Unsharded({0, 4, 8}, 1);
  Classes classes(parting);
  const Output loss = ShardedSoftmaxLoss(classes.graph, classes.shards, classes.inputs, classes.graph.Const({0, 4, 8}));
  host::SessionOptions options;
  options.optimize = false;
  options.executor = TENON_EXECUTOR_DYNAMIC;
  Session session = NewSession(options);
  const auto found = classes.Run(parting, loss, std::move(session));
  ASSERT_EQ(found.size(), 4u);
  for (size_t i = 0; i < 4; ++i) ExpectNear(found[i], wanted[i], "value " + std::to_string(i), 1e-5f);
}

TEST(ShardedSoftmax, RefusesLabelsThatAreNoClass) {
  Classes classes({2, Partition::kDiv});
  Graph& graph = classes.graph;
  const Output labels = graph.Placeholder("labels", DType::kInt32, {-1});
  const Output loss = ShardedSoftmaxLoss(graph, classes.shards, classes.inputs, labels);
  SampledLossOptions options;
  options.sampled = 3;
  const Output sampled = SampledSoftmaxLoss(graph, classes.shards, classes.inputs, labels, options);
  const Session session = SessionOf(graph, classes.given);
  for (const int32_t wrong : {-1, 9, INT32_MAX, INT32_MIN})
    for (const Output& each : {loss, sampled}) {
      const Status status = session.Run({{labels, View(std::vector<int32_t>{0, wrong, 1}, {3})}}, {each}).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
      EXPECT_NE(status.message().find("a label is no class; there are the classes 0 to 8, and the labels are"),
                std::string::npos)
          << status;
      EXPECT_NE(status.message().find("[0 " + std::to_string(wrong) + " 1]"), std::string::npos) << status;
    }
  EXPECT_TRUE(session.Run({{labels, View(std::vector<int32_t>{0, 8, 1}, {3})}}, {loss, sampled}).ok());
  EXPECT_FALSE(session.Run({{labels, View(std::vector<int32_t>{0, 8}, {2})}}, {loss}).ok())
      << "two labels for three examples";
}

TEST(ClassLosses, RefuseWhatDoesNotFit) {
  const auto refused = [](const std::function<void(Classes&)>& build) {
    Classes classes({2, Partition::kDiv});
    build(classes);
    EXPECT_EQ(classes.graph.status().code(), Code::kInvalidArgument) << classes.graph.status();
    return classes.graph.status().message();
  };
  const auto labels = [](Classes& c) { return c.graph.Const({1, 2, 3}); };
  EXPECT_NE(
      refused([&](Classes& c) { ShardedSoftmaxLoss(c.graph, {}, c.inputs, labels(c)); }).find("0 shards of weights"),
      std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              std::swap(c.shards.weights[0], c.shards.weights[1]);  // 4 and 5 rows, where 5 and 4 are wanted
              ShardedSoftmaxLoss(c.graph, c.shards, c.inputs, labels(c));
            }).find("shard 0 of 2 has weights [4,4] and biases [5]; of 9 classes it needs [5,4] and [5]"),
            std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              ShardedSoftmaxLoss(c.graph, c.shards, c.graph.Const({1.0f}), labels(c));
            }).find("they are [batch, 4] and [batch]"),
            std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              NceLoss(c.graph, c.shards, c.graph.Const(std::vector<float>(6), {2, 3}), labels(c));
            }).find("inputs are [2,3]"),
            std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              ShardedSoftmaxLoss(c.graph, c.shards, c.inputs, c.graph.Const({1.0f, 2.0f, 3.0f}));
            }).find("labels are float"),
            std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              SampledLossOptions options;
              options.sampled = 10;
              SampledSoftmaxLoss(c.graph, c.shards, c.inputs, labels(c), options);
            }).find("10 different classes cannot be sampled of 9"),
            std::string::npos);
  EXPECT_NE(refused([&](Classes& c) {
              MakeClassShards(c.model, "more", 1, 2, Initializer::Constant(0), {{"", ""}});
            }).find("each needs a class at least"),
            std::string::npos);
}

// ---- Beside the weights ----

// The devices of the placement's nodes of this name or op, whatever scope they stand in.
std::vector<std::string> DevicesOf(const nlohmann::json& placement, const std::string& what) {
  std::vector<std::string> devices;
  for (const auto& node : placement["nodes"]) {
    const std::string name = node["name"].get<std::string>(), last = name.substr(name.rfind('/') + 1);
    if (node["op"] == what || last == what || last.starts_with(what + "_"))
      devices.push_back(node["device"].get<std::string>());
  }
  return devices;
}

TEST(ShardedSoftmax, ComputesBesideTheWeights) {
  host::RuntimeOptions runtime_options;
  runtime_options.plugin_options = {{"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "precision", "exact"}};
  const auto runtime = Runtime::Create(runtime_options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Graph graph(*runtime);
  Model model(graph);
  ClassShardsOptions options;
  options.devices = {"TPU:0", "TPU:1"};
  const ClassShards classes = MakeClassShards(model, "classes", 4000, 32, Initializer::Constant(0), options);
  const Output x = model.Weight("x", {8, 32}, Initializer::TruncatedNormal(1), "CPU:0").value;
  const Output labels = graph.Const(std::vector<int64_t>{0, 1, 1999, 2000, 2001, 3999, 7, 8}, {8});
  const Output loss = graph.Op("Mean", {ShardedSoftmaxLoss(graph, classes, x, labels), graph.Const({0})});
  OptimizerOptions descent;
  descent.kind = OptimizerOptions::Kind::kGradientDescent;
  const Operation update = Minimize(model, loss, graph.Const(0.5f), descent), init = model.InitializeAll();
  auto session = Session::Create(*runtime, graph);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto placement = session->Place({}, {loss}, {update});
  ASSERT_TRUE(placement.ok()) << placement.status();
  const nlohmann::json placed = nlohmann::json::parse(placement->json);
  EXPECT_EQ(placed["notes"].dump().find("wants"), std::string::npos)
      << placed["notes"];  // a device that it does not get
  // All that can be as large as a shard's logits or weights; each is there once, for loss and gradient together.
  for (const std::string what : {"products", "logits", "Exp", "OneHot", "of_logits", "of_inputs", "of_weights"}) {
    std::vector<std::string> devices = DevicesOf(placed, what);
    ASSERT_EQ(devices.size(), 2u) << what;
    std::sort(devices.begin(), devices.end());
    EXPECT_TRUE(devices[0].ends_with("TPU:0") && devices[1].ends_with("TPU:1"))
        << what << " on " << devices[0] << " and " << devices[1];
  }
  for (const std::string& device : DevicesOf(placed, "SelectV2")) EXPECT_NE(device.find("TPU:"), std::string::npos);
  // Of 8 examples: the inputs there and their gradients back, [8, 32] each, and what is [8].
  EXPECT_LT(placed["transfer_bytes"].get<double>(), 2 * 2 * 8 * 32 * 4 + 40 * 8 * 8);
  ASSERT_TRUE(session->RunTargets({init}).ok());
  EXPECT_NEAR((*session->Run({}, {loss}, {update}))[0].scalar<float>(), std::log(4000.0f), 1e-3f);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(session->RunTargets({update}).ok());
  EXPECT_LT((*session->Run({}, {loss}))[0].scalar<float>(), 1);
}

}  // namespace
}  // namespace tenon::train::class_losses_test
