// SPDX-License-Identifier: Apache-2.0
// A table and a layer over classes that stand in shards on several tasks are one tensor in a checkpoint: they restore
// into another number of shards, with what their optimizer keeps of them; and checkpoints that hold each shard by
// itself are still read. Covers J5.
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "tenon/train/embedding.h"
#include "tenon/train/optimizer.h"
#include "tenon/train/saver.h"
#include "tenon/train/sharded_softmax.h"
#include "tests/cluster/local_cluster.h"

namespace tenon::engine::sharded_checkpoint_test {
namespace {

using train::ClassShards, train::Embedding, train::Initializer, train::Model, train::OptimizerOptions, train::Partition,
    train::Saver, train::SaverOptions;

constexpr int64_t kRows = 7, kWidth = 3, kClasses = 5;

using Kind = OptimizerOptions::Kind;

struct How {
  Partition partition = Partition::kDiv;
  bool by_itself = false;      // each variable is kept under its own name, as checkpoints had it once
  Kind kind = Kind::kAdagrad;  // what it keeps stands beside the rows; others than it do not train tables
};

// Words that are classified: their rows in a table, where the optimizer trains such, and a layer over classes.
class Words {
 public:
  Words(const LocalCluster& cluster, const std::string& folder, int shards, const How& how = {})
      : graph_(TheRuntime()), model_(graph_, static_cast<uint64_t>(shards)) {
    std::vector<std::string> devices;
    for (int i = 0; i < shards; ++i) devices.push_back("/job:ps/task:" + std::to_string(i));
    model_.set_variable_devices({devices[0]});
    ids_ = graph_.Placeholder("ids", DType::kInt64, {-1});
    labels_ = graph_.Placeholder("labels", DType::kInt64, {-1});
    Output inputs;
    if (how.kind == Kind::kAdagrad) {
      inputs = Embedding(model_, "words", kRows, kWidth, Initializer::TruncatedNormal(0.5f), devices, how.partition)
                   .Lookup(ids_);
    } else {
      inputs =
          graph_.Op("OneHot", {graph_.Op("FloorMod", {ids_, graph_.Const(kWidth)}),
                               graph_.Const(static_cast<int32_t>(kWidth)), graph_.Const(1.0f), graph_.Const(0.25f)});
    }
    const ClassShards classes = train::MakeClassShards(
        model_, "classes", kClasses, kWidth, Initializer::TruncatedNormal(0.5f), {devices, how.partition, false});
    loss_ = graph_.Op("Mean", {train::ShardedSoftmaxLoss(graph_, classes, inputs, labels_), graph_.Const({0})});
    OptimizerOptions options;
    options.kind = how.kind;
    update_ = train::Minimize(model_, loss_, graph_.Const(0.3f), options);
    SaverOptions saving;
    saving.step_variable.clear();
    if (how.by_itself)
      for (const train::Variable& variable : model_.variables())
        saving.variables.push_back({variable.name, variable.name});
    const Operation init = model_.InitializeAll();
    saver_.emplace(model_, folder, saving);
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    SessionOptions session;
    session.isolate = true;
    session_.emplace(cluster.Client(graph_, session));
    EXPECT_TRUE(session_->RunTargets({init}).ok());
  }
  // The loss before each of so many steps, the same for whoever is in the same state.
  std::vector<float> Train(int steps) const {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      const auto values =
          session_->Run({{ids_, *Tensor::From(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 3}, Shape{8})},
                         {labels_, *Tensor::From(std::vector<int64_t>{4, 3, 2, 1, 0, 1, 2, 3}, Shape{8})}},
                        {loss_}, {update_});
      EXPECT_TRUE(values.ok()) << values.status();
      losses.push_back(values.ok() ? (*values)[0].scalar<float>() : -1);
    }
    return losses;
  }
  Status Save() { return saver_->Save(*session_, 1).status(); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const train::Variable& variable : model_.variables()) names.push_back(variable.name);
    return names;
  }
  Status Restore() {
    const auto restored = saver_->RestoreNewest(*session_);
    if (!restored.ok()) return restored.status();
    return restored->warnings.empty() && !restored->prefix.empty()
               ? Status()
               : Status(Code::kUnknown, restored->warnings.empty() ? "none" : restored->warnings[0]);
  }

 private:
  Graph graph_;
  Model model_;
  Output ids_, labels_, loss_;
  Operation update_;
  std::optional<Saver> saver_;
  std::optional<Session> session_;
};

class ShardedCheckpoint : public testing::Test {
 protected:
  ~ShardedCheckpoint() override { std::filesystem::remove_all(folder_); }
  static void ExpectNear(const std::vector<float>& found, const std::vector<float>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], wanted[i], 1e-5) << "step " << i;  // sums over shards round in another order
  }
  const LocalCluster cluster_{"loopback://sharded_checkpoint", {{"ps", 3}}};
  const std::string folder_ = testing::TempDir() + "/tenon_sharded_" + std::to_string(getpid());
};

TEST_F(ShardedCheckpoint, RestoresIntoAnyNumberOfShards) {
  for (const Kind kind : {Kind::kAdagrad, Kind::kMomentum, Kind::kAdam, Kind::kGradientDescent})
    for (const int from : {2, 1, 3}) {
      const std::string folder = folder_ + "/" + std::to_string(static_cast<int>(kind)) + std::to_string(from);
      std::vector<float> wanted;
      {
        Words words(cluster_, folder, from, {.kind = kind});
        const std::vector<float> first = words.Train(3);
        ASSERT_LT(first[2], first[0]);
        const Status saved = words.Save();
        ASSERT_TRUE(saved.ok()) << saved;
        wanted = words.Train(3);
      }
      for (const int to : {3, 1, 2}) {
        Words words(cluster_, folder, to, {.kind = kind});
        const Status restored = words.Restore();
        ASSERT_TRUE(restored.ok()) << from << " into " << to << ": " << restored;
        ExpectNear(words.Train(3), wanted);
      }
    }
}

// As TensorFlow's partitioned variables stand in a checkpoint: one tensor of all rows under one name, and so what the
// optimizer keeps of them.
TEST_F(ShardedCheckpoint, HoldsEachTableAsOneTensor) {
  std::string prefix;
  {
    Words words(cluster_, folder_, 3);
    (void)words.Train(2);
    ASSERT_TRUE(words.Save().ok());
    prefix = folder_ + "/model.ckpt-1";
  }
  Graph g(TheRuntime());
  const std::vector<std::string> names = {"words",           "words/Adagrad",
                                          "classes/weights", "classes/weights/Adagrad",
                                          "classes/biases",  "classes/biases/Adagrad"};
  const Operation all = g.AddNode(
      "RestoreV2", {g.StringConst(prefix), g.StringConst(names), g.StringConst(std::vector<std::string>(names.size()))},
      {{"dtypes", std::vector<DType>(names.size(), DType::kFloat)}});
  std::vector<Name> fetches;
  for (size_t i = 0; i < names.size(); ++i) fetches.push_back(all.output(static_cast<int32_t>(i)));
  const std::vector<Tensor> values = RunOnce(g, {}, fetches);
  ASSERT_EQ(values.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const Shape shape = i < 2 ? Shape{kRows, kWidth} : i < 4 ? Shape{kClasses, kWidth} : Shape{kClasses};
    EXPECT_EQ(values[i].shape().dims(), shape.dims()) << names[i];
  }
}

TEST_F(ShardedCheckpoint, ReadsThoseThatHoldEachShardByItself) {
  std::vector<float> wanted;
  const How as_once{.by_itself = true, .kind = Kind::kMomentum}, now{.kind = Kind::kMomentum};
  {
    Words words(cluster_, folder_, 2, as_once);
    (void)words.Train(3);
    ASSERT_TRUE(words.Save().ok());
    wanted = words.Train(3);
  }
  {
    Words words(cluster_, folder_, 2, now);
    const Status restored = words.Restore();
    ASSERT_TRUE(restored.ok()) << restored;
    ExpectNear(words.Train(3), wanted);
  }
  for (const int to : {3, 1}) {
    Words other(cluster_, folder_, to, now), untouched(cluster_, folder_, to, now);
    const Status refused = other.Restore();
    EXPECT_FALSE(refused.ok());
    for (const char* word : {"'classes/", "shards whose rows stand in their order", "is restored into as many shards"})
      EXPECT_NE(refused.message().find(word), std::string::npos) << refused;
    ExpectNear(other.Train(3), untouched.Train(3));  // no variable was changed
  }
}

TEST_F(ShardedCheckpoint, RowsByTurnsAreRestoredIntoAsManyShardsAlone) {
  std::vector<float> wanted;
  const How turns{.partition = Partition::kMod};
  {
    Words words(cluster_, folder_, 2, turns);
    (void)words.Train(3);
    ASSERT_TRUE(words.Save().ok());
    wanted = words.Train(3);
  }
  {
    Words words(cluster_, folder_, 2, turns);
    const Status restored = words.Restore();
    ASSERT_TRUE(restored.ok()) << restored;
    ExpectNear(words.Train(3), wanted);
  }
  for (const int to : {3, 1}) {
    Words other(cluster_, folder_, to, turns), untouched(cluster_, folder_, to, turns);
    const Status refused = other.Restore();
    EXPECT_FALSE(refused.ok());
    for (const std::string& word :
         {"stands in " + std::to_string(to) + " shards whose rows go by turns (Partition::kMod)",
          std::string("make the model with as many as were saved")})
      EXPECT_NE(refused.message().find(word), std::string::npos) << refused;
    ExpectNear(other.Train(3), untouched.Train(3));
  }
  // Rows in their order are others, and no table is read as what it is not.
  Words in_order(cluster_, folder_, 2);
  const Status refused = in_order.Restore();
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("'words' stands in 2 shards whose rows stand in their order"), std::string::npos)
      << refused;
}

}  // namespace
}  // namespace tenon::engine::sharded_checkpoint_test
