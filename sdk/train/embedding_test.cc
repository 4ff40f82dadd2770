// SPDX-License-Identifier: Apache-2.0
// A sharded embedding gives and learns what a dense table does. Covers P7, P8, D4, K10.
#include "tenon/train/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tenon/train/optimizer.h"

namespace tenon::train {
namespace {

constexpr int64_t kRows = 11, kWidth = 3;

Runtime& TheRuntime() {
  static Runtime* const runtime = new Runtime(*Runtime::Create());
  return *runtime;
}

std::vector<float> Table() {
  std::vector<float> table;
  for (int i = 0; i < kRows * kWidth; ++i) table.push_back(0.37f * static_cast<float>(i) - 2.1f);
  return table;
}

// loss = sum of squares of (the rows of the ids - 1), with ids that come twice.
class Fit {
 public:
  // shards 0: one dense variable, gathered by value.
  Fit(int shards, const OptimizerOptions& options, int replicas = 1) : graph_(TheRuntime()), model_(graph_) {
    ids_ = graph_.Placeholder("ids", DType::kInt64, {-1});
    std::optional<Embedding> table;
    if (shards > 0) table.emplace(model_, "table", kRows, kWidth, Initializer::Constant(0), std::vector<std::string>(static_cast<size_t>(shards)));
    const auto look_up = [&](Output ids) {
      if (table) return table->Lookup(ids);
      return graph_.Op("GatherV2", {model_.Weight("table", {kRows, kWidth}, Initializer::Constant(0)).value, ids, graph_.Const(0)});
    };
    rows_ = look_up(ids_);
    std::vector<Replica> all;
    for (int i = 0; i < replicas; ++i)
      all.push_back({graph_.Op("Sum", {graph_.Op("SquaredDifference", {i == 0 ? rows_ : look_up(ids_), graph_.Const(1.0f)}), graph_.Const({0, 1})}), ""});
    update_ = Minimize(model_, all, graph_.Const(0.1f), options);
    if (!graph_.status().ok()) return;
    const Operation init = model_.InitializeAll();
    // The same first values, whatever the shards.
    std::vector<Operation> given;
    for (const Variable* variable : model_.trainable()) given.push_back(Given(*variable, shards));
    const Operation given_all = Group(graph_, given, "given");
    session_.emplace(*Session::Create(TheRuntime(), graph_));
    EXPECT_TRUE(session_->RunTargets({init}).ok());
    EXPECT_TRUE(session_->RunTargets({given_all}).ok());
  }
  Result<std::vector<float>> LookUp(const std::vector<int64_t>& ids) const { return Run(ids, {}); }
  Result<std::vector<float>> Train(const std::vector<int64_t>& ids) const { return Run(ids, {update_}); }
  const Status& status() const { return graph_.status(); }

 private:
  Operation Given(const Variable& variable, int shards) {
    const std::vector<float> table = Table();
    const auto step = std::max(shards, 1);
    const int first = shards > 0 ? std::stoi(variable.name.substr(std::string("table/shard_").size())) : 0;
    std::vector<float> own;
    for (int row = first; row < kRows; row += step) own.insert(own.end(), table.begin() + row * kWidth, table.begin() + (row + 1) * kWidth);
    return graph_.AddNode("AssignVariableOp", {variable.handle, graph_.Const(own, variable.shape)}, {{"dtype", DType::kFloat}});
  }
  Result<std::vector<float>> Run(const std::vector<int64_t>& ids, const std::vector<host::Name>& targets) const {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values, session_->Run({{ids_, View(ids, {static_cast<int64_t>(ids.size())})}}, {rows_}, targets));
    return std::vector<float>(values[0].data<float>().begin(), values[0].data<float>().end());
  }
  Graph graph_;
  Model model_;
  Output ids_, rows_;
  Operation update_;
  std::optional<Session> session_;
};

std::vector<int64_t> AllRows() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kRows; ++i) ids.push_back(i);
  return ids;
}

OptimizerOptions Of(OptimizerOptions::Kind kind) {
  OptimizerOptions options;
  options.kind = kind;
  options.fused = false;
  return options;
}

TEST(Embedding, GivesTheRowsOfTheDenseTableHoweverManyShards) {
  const Fit dense(0, Of(OptimizerOptions::Kind::kGradientDescent));
  for (const int shards : {1, 2, 3, 11}) {
    const Fit sharded(shards, Of(OptimizerOptions::Kind::kGradientDescent));
    for (const std::vector<int64_t>& ids : {AllRows(), {7}, {3, 3, 10, 0}, {}}) {
      const auto rows = sharded.LookUp(ids);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(*rows, *dense.LookUp(ids)) << shards;
    }
  }
}

TEST(Embedding, LearnsTheBitsOfTheDenseTableAndChangesNoOtherRow) {
  for (const auto kind : {OptimizerOptions::Kind::kGradientDescent, OptimizerOptions::Kind::kAdagrad})
    for (const int replicas : {1, 2}) {
      const Fit dense(0, Of(kind), replicas), sharded(3, Of(kind), replicas);
      for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1, 4, 4, 9}, {4}, {0, 9, 1, 9}}) {
        ASSERT_TRUE(dense.Train(ids).ok());
        const auto trained = sharded.Train(ids);
        ASSERT_TRUE(trained.ok()) << trained.status();
      }
      const std::vector<float> learned = *sharded.LookUp(AllRows());
      EXPECT_EQ(learned, *dense.LookUp(AllRows()));
      EXPECT_NE(learned[4 * kWidth], Table()[4 * kWidth]);
      EXPECT_EQ(learned[5 * kWidth], Table()[5 * kWidth]);
    }
}

TEST(Embedding, RefusesAnIdThatIsNoRow) {
  const Fit sharded(3, Of(OptimizerOptions::Kind::kGradientDescent));
  EXPECT_EQ(sharded.LookUp({kRows}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(sharded.LookUp({-1}).status().code(), Code::kInvalidArgument);
}

TEST(Embedding, RefusesOptimizersThatMoveEveryRow) {
  const Fit adam(2, Of(OptimizerOptions::Kind::kAdam));
  EXPECT_EQ(adam.status().code(), Code::kUnimplemented);
  EXPECT_NE(adam.status().message().find("'table/shard_0' is changed by rows"), std::string::npos) << adam.status();
  const Fit momentum(2, Of(OptimizerOptions::Kind::kMomentum));
  EXPECT_EQ(momentum.status().code(), Code::kUnimplemented);
}

TEST(Embedding, KeepsTheShapeOfItsIds) {
  Graph graph(TheRuntime());
  Model model(graph);
  const Embedding table(model, "t", 8, 2, Initializer::Constant(0.5f), {"", ""});
  const Output out = table.Lookup(graph.Const(std::vector<int32_t>{1, 2, 3, 4, 5, 6}, {2, 3}));
  const Operation init = model.InitializeAll();
  const Session session = *Session::Create(TheRuntime(), graph);
  ASSERT_TRUE(session.RunTargets({init}).ok());
  EXPECT_EQ((*session.Run({}, {out}))[0].shape(), (Shape{2, 3, 2}));
}

TEST(Embedding, NeedsARowForEachDevice) {
  Graph graph(TheRuntime());
  Model model(graph);
  const Embedding table(model, "t", 1, 2, Initializer::Constant(0.5f), {"", ""});
  EXPECT_EQ(graph.status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(table.Lookup(Output()).valid());
}

}  // namespace
}  // namespace tenon::train
