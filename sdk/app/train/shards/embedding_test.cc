// SPDX-License-Identifier: Apache-2.0
// A sharded embedding gives and learns what a dense table does. Covers P7, P8, D4, K10.
#include "tenon/train/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "tenon/train/optimizer.h"

namespace tenon::train::embedding_test {
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
    if (shards > 0)
      table.emplace(model_, "table", kRows, kWidth, Initializer::Constant(0),
                    std::vector<std::string>(static_cast<size_t>(shards)));
    const auto look_up = [&](Output ids) {
      if (table) return table->Lookup(ids);
      return graph_.Op("GatherV2",
                       {model_.Weight("table", {kRows, kWidth}, Initializer::Constant(0)).value, ids, graph_.Const(0)});
    };
    rows_ = look_up(ids_);
    std::vector<Replica> all;
    for (int i = 0; i < replicas; ++i)
      all.push_back(
          {graph_.Op("Sum", {graph_.Op("SquaredDifference", {i == 0 ? rows_ : look_up(ids_), graph_.Const(1.0f)}),
                             graph_.Const({0, 1})}),
           ""});
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
    for (int row = first; row < kRows; row += step)
      own.insert(own.end(), table.begin() + row * kWidth, table.begin() + (row + 1) * kWidth);
    return graph_.AddNode("AssignVariableOp", {variable.handle, graph_.Const(own, variable.shape)},
                          {{"dtype", DType::kFloat}});
  }
  Result<std::vector<float>> Run(const std::vector<int64_t>& ids, const std::vector<host::Name>& targets) const {
    TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                     session_->Run({{ids_, View(ids, {static_cast<int64_t>(ids.size())})}}, {rows_}, targets));
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

const std::vector<std::vector<int64_t>> kSteps = {{1, 4, 4, 9}, {4}, {0, 9, 1, 9}, {9, 9}, {5}};

// Adam's averages fall in every row, as those of a dense table do.
TEST(Embedding, AdamMovesTheRowsOfTheDenseTable) {
  for (const int replicas : {1, 2}) {
    const Fit dense(0, Of(OptimizerOptions::Kind::kAdam), replicas),
        sharded(3, Of(OptimizerOptions::Kind::kAdam), replicas);
    for (const std::vector<int64_t>& ids : kSteps) {
      ASSERT_TRUE(dense.Train(ids).ok());
      const auto trained = sharded.Train(ids);
      ASSERT_TRUE(trained.ok()) << trained.status();
    }
    const std::vector<float> learned = *sharded.LookUp(AllRows()), wanted = *dense.LookUp(AllRows());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(learned[i], wanted[i], 2e-5) << i;
    EXPECT_NE(learned[1 * kWidth], Table()[1 * kWidth]);
    EXPECT_EQ(learned[2 * kWidth], Table()[2 * kWidth]) << "a row that never had a gradient";
  }
}

// A row's momentum moves when the row has a gradient, as TensorFlow's sparse updates have it: by the formula, in
// numbers.
TEST(Embedding, MomentumOfARowMovesWithItsGradients) {
  for (const bool nesterov : {false, true}) {
    OptimizerOptions options = Of(OptimizerOptions::Kind::kMomentum);
    options.nesterov = nesterov;
    const Fit sharded(2, options);
    std::vector<float> table = Table(), accumulated(table.size(), 0);
    for (const std::vector<int64_t>& ids : kSteps) {
      ASSERT_TRUE(sharded.Train(ids).ok());
      std::vector<float> gradient(table.size(), 0);
      for (const int64_t id : ids)
        for (int64_t i = id * kWidth; i < (id + 1) * kWidth; ++i)
          gradient[static_cast<size_t>(i)] += 2 * (table[static_cast<size_t>(i)] - 1);
      for (const int64_t id : std::set<int64_t>(ids.begin(), ids.end()))
        for (auto i = static_cast<size_t>(id * kWidth); i < static_cast<size_t>((id + 1) * kWidth); ++i) {
          accumulated[i] = 0.9f * accumulated[i] + gradient[i];
          table[i] -= 0.1f * (nesterov ? gradient[i] + 0.9f * accumulated[i] : accumulated[i]);
        }
    }
    const std::vector<float> learned = *sharded.LookUp(AllRows());
    for (size_t i = 0; i < table.size(); ++i)
      EXPECT_NEAR(learned[i], table[i], 1e-5 * (1 + std::abs(table[i]))) << i << (nesterov ? ", nesterov" : "");
  }
}

// Where all rows have gradients in each step, every optimizer does to rows what it does to the whole.
TEST(Embedding, EveryOptimizerLearnsAsOfADenseTableWhenAllRowsCount) {
  using Kind = OptimizerOptions::Kind;
  for (const Kind kind :
       {Kind::kGradientDescent, Kind::kMomentum, Kind::kAdam, Kind::kAdagrad, Kind::kRmsProp, Kind::kAdadelta}) {
    OptimizerOptions options = Of(kind);
    options.rms_momentum = 0.5f;
    const Fit dense(0, options), sharded(3, options);
    for (int step = 0; step < 4; ++step) {
      ASSERT_TRUE(dense.Train(AllRows()).ok());
      const auto trained = sharded.Train(AllRows());
      ASSERT_TRUE(trained.ok()) << trained.status();
    }
    const std::vector<float> learned = *sharded.LookUp(AllRows()), wanted = *dense.LookUp(AllRows());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(learned[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i])))
          << i << " of optimizer " << static_cast<int>(kind);
  }
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
}  // namespace tenon::train::embedding_test
