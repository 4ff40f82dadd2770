// SPDX-License-Identifier: Apache-2.0
// Where a pass over a dataset stands, written and read again: while steps wait in it, give up in it, and by what it was
// not written for. That the elements are the right ones behind each element of each pipeline stands in tests/golden.
// Covers M1.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/engine/dataset_pipeline.h"

namespace tenon::engine::dataset_state_test {
namespace {

// A pipeline whose state goes through a checkpoint in memory.
struct Kept : Pipeline {
  explicit Kept(std::string checkpoint) : path(std::move(checkpoint)) {}
  Session OpenWithState() {
    Session session = Open();
    const auto word = [this](const std::string& text) {
      return g.Op("Const", {}, {{"dtype", DType::kString}, {"value", *Tensor::Strings({text})}});
    };
    const Output prefix = g.StringConst("memory://" + path), name = word("state"), whole = word("");
    const std::vector<DType> variant = {DType::kVariant};
    save = g.AddNode("SaveV2", {prefix, name, whole, g.Op("SerializeIterator", {iterator})}, {{"dtypes", variant}});
    restore =
        g.AddNode("DeserializeIterator", {iterator, g.Op("RestoreV2", {prefix, name, whole}, {{"dtypes", variant}})});
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    EXPECT_TRUE(session.Extend(g).ok());
    return session;
  }
  std::string path;
  Operation save, restore;
};

RunOptions Soon() {
  RunOptions options;
  options.timeout = std::chrono::milliseconds(5);
  return options;
}

TEST(DatasetState, CarriesWhatWasMadeAheadAndWhatAStepLeftBehind) {
  for (const int64_t calls : {0, 3}) {
    Kept p("ahead" + std::to_string(calls));
    p.Range(9);
    ThroughQueue(&p, calls);
    p.Then("PrefetchDataset", {p.Int(2)});
    const Gate gate(&p);
    const Session session = p.OpenWithState();
    ASSERT_TRUE(p.Begin(session).ok());
    EXPECT_EQ(p.Next(session, Soon()).status().code(), Code::kDeadlineExceeded) << "which waits, and goes away";
    EXPECT_EQ(session.Run({}, {}, {p.save}, Soon()).status().code(), Code::kDeadlineExceeded)
        << "what is under way comes first";
    for (int i = 0; i < 9 + 3; ++i) ASSERT_TRUE(session.RunTargets({gate.open}).ok());
    EXPECT_EQ(*p.Next(session), 0);
    ASSERT_TRUE(session.RunTargets({p.save}).ok());
    EXPECT_EQ(*p.Next(session), 1) << "to keep the state takes nothing away";
    EXPECT_EQ(*p.Next(session), 2);

    ASSERT_TRUE(session.RunTargets({p.restore}).ok());
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(session.RunTargets({gate.open}).ok());
    std::vector<int64_t> rest = UpTo(9);
    rest.erase(rest.begin());
    EXPECT_EQ(p.All(session), rest);
  }
}

TEST(DatasetState, ComesInTheTurnOfItsAsker) {
  Kept p("turn");
  p.Range(4);
  ThroughQueue(&p, 0);
  const Gate gate(&p);
  const Session session = p.OpenWithState();
  ASSERT_TRUE(p.Begin(session).ok());
  std::thread taker([&] { EXPECT_EQ(*p.Next(session), 0); });
  while (p.Next(session, Soon()).status().code() != Code::kDeadlineExceeded) {
  }
  std::thread keeper([&] { EXPECT_TRUE(session.RunTargets({p.save}).ok()); });
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(session.RunTargets({gate.open}).ok());
  taker.join();
  keeper.join();
  ASSERT_TRUE(session.RunTargets({p.restore}).ok());
  EXPECT_EQ(p.All(session), (std::vector<int64_t>{1, 2, 3}));
}

TEST(DatasetState, ManyStepsTakeElementsWhileItIsKept) {
  Kept p("many");
  p.Range(3000);
  p.Map("same", [](Graph& body, const Output& x) { return body.Op("Identity", {x}); }, 4);
  p.Then("PrefetchDataset", {p.Int(8)});
  const Session session = p.OpenWithState();
  ASSERT_TRUE(p.Begin(session).ok());
  std::atomic<bool> over = false;
  std::atomic<int> kept = 0;
  std::thread keeper([&] {
    while (!over) {
      EXPECT_TRUE(session.RunTargets({p.save}).ok());
      ++kept;
    }
  });
  EXPECT_EQ(p.All(session), UpTo(3000)) << "nothing is lost, and nothing comes twice";
  over = true;
  keeper.join();
  EXPECT_GT(kept, 0);
}

TEST(DatasetState, OfAnotherPipelineIsRefusedByItsName) {
  Kept a("other"), b("other");
  a.Range(5);
  a.Then("TakeDataset", {a.Int(3)});
  b.Range(5);
  b.Then("SkipDataset", {b.Int(3)});
  const Session one = a.OpenWithState(), other = b.OpenWithState();
  ASSERT_TRUE(a.Begin(one).ok() && b.Begin(other).ok());
  ASSERT_TRUE(one.RunTargets({a.save}).ok());
  const Status refused = other.RunTargets({b.restore});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("it is of a TakeDataset where SkipDataset 'SkipDataset' stands"), std::string::npos)
      << refused.message();
  EXPECT_EQ(b.All(other), (std::vector<int64_t>{3, 4})) << "and the pass goes on where it was";
}

TEST(DatasetState, NeedsAPassThatHasBegun) {
  Kept p("begun");
  p.Range(5);
  const Session session = p.OpenWithState();
  EXPECT_EQ(session.RunTargets({p.save}).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(p.Begin(session).ok());
  ASSERT_TRUE(session.RunTargets({p.save}).ok());
  const Session fresh = [&] {
    auto made = Session::Create(TheRuntime(), p.g);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }();
  const Status refused = fresh.RunTargets({p.restore});
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("Restore() failed because the iterator has not been initialized"), std::string::npos)
      << refused.message();
}

TEST(DatasetState, IsRefusedWhereAnElementIsADatasetThatIsNotInMemory) {
  Kept p("nested");
  p.Range(3);
  const Function inner = Define(
      p.g, "inner",
      [](Graph& body, const std::vector<Output>& x) {
        return std::vector<Output>{body.Op(
            "TensorDataset", {x[0]}, {{"Toutput_types", Types{DType::kInt64}}, {"output_shapes", Shapes{Shape()}}})};
      },
      {DType::kInt64});
  p.type = DType::kVariant;
  p.dataset = p.g.Op("ParallelMapDatasetV2", {p.dataset, p.Int(2)}, p.Spec({{"f", inner}, {"Targuments", Types{}}}));
  p.Then("PrefetchDataset", {p.Int(2)});
  const Session session = p.OpenWithState();
  ASSERT_TRUE(p.Begin(session).ok());
  Status refused;  // once there is an element
  for (int i = 0; i < 1000 && refused.ok(); ++i) {
    refused = session.RunTargets({p.save});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(refused.code(), Code::kUnimplemented);
  EXPECT_NE(refused.message().find("it has an element that is a dataset, TensorDataset"), std::string::npos)
      << refused.message();
}

}  // namespace
}  // namespace tenon::engine::dataset_state_test
