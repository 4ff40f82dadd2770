// SPDX-License-Identifier: Apache-2.0
// Whose pinned tensors of GPUs are and how long: they outlive sessions, keep plugins, and are ordinary memory to all
// but the driver that gave them. Covers E10.
#include <future>
#include <thread>

#include "tenon/train/dataset.h"
#include "tenon/train/device_prefetcher.h"
#include "tests/engine/pinned.h"

namespace tenon::engine::pinned_life_test {
namespace {

TEST(PinnedTensor, OutlivesItsSession) {
  const Doubling graph(Gpus());
  Tensor pinned;
  {
    const Session session = Open(Gpus(), graph.g);
    pinned = Pinned(session);
  }
  Fill(pinned.mutable_data<float>(), 4);
  const Session session = Open(Gpus(), graph.g);
  (void)TheCopies().Take();
  auto values = session.Run({{graph.x, pinned}}, {graph.last});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>{14});
  ExpectCopies(1, 0, "of a session that is gone");
  std::thread([&] { pinned = Tensor(); }).join();
}

TEST(PinnedTensor, KeepsItsPluginLoaded) {
  Runtime runtime = MakeRuntime();
  const std::string id = device_test::GpuPlugin();
  Tensor pinned;
  {
    const Session session = Open(runtime, Graph(runtime));
    pinned = Pinned(session);
  }
  EXPECT_EQ(runtime.UnloadPlugin(id).code(), Code::kFailedPrecondition);
  Fill(pinned.mutable_data<float>(), 1);
  pinned = Tensor();
  const Status unloaded = runtime.UnloadPlugin(id);
  EXPECT_TRUE(unloaded.ok()) << unloaded.message();
}

TEST(PinnedTensor, MayBeEmpty) {
  Graph g(Gpus());
  const Output x = g.Placeholder("x", DType::kFloat, Shape({-1}));
  const Output y = g.Op("AddV2", {x, x}, {}, "y");
  const Session session = Open(Gpus(), g);
  const Tensor none = Pinned(session, 0), into = Pinned(session, 0);
  EXPECT_NE(none.view()->dl.data, nullptr);
  auto step = session.Prepare({x}, {y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Status status = RunInto(*step, *none.view(), *into.view());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(PinnedTensor, OfALostGpuStaysReadable) {
  if (!device_test::GpuIsEmulated()) GTEST_SKIP() << "no GPU is lost here";
  int lost_in_a_step = 0;
  for (int after = 5; after < 200; after += 13) {
    const Runtime runtime = MakeRuntime("lose_after", std::to_string(after));
    const Doubling graph(runtime);
    SessionOptions options;
    options.device = kGpu;
    const auto session = Session::Create(runtime, graph.g, options);
    if (!session.ok()) continue;  // it was lost while it was opened
    const auto from = session->PinnedTensor(DType::kFloat, Shape{kCount}, kGpu),
               to = session->PinnedTensor(DType::kFloat, Shape{kCount}, kGpu);
    if (!from.ok() || !to.ok()) continue;
    Fill(from->mutable_data<float>(), 2);
    auto step = session->Prepare({graph.x}, {graph.y});
    if (!step.ok()) continue;
    Status status;
    for (int i = 0; i < 50 && status.ok(); ++i) status = RunInto(*step, *from->view(), *to->view());
    EXPECT_FALSE(status.ok()) << after;
    EXPECT_NE(std::string(status.message()).find("lost"), std::string::npos) << status.message();
    ++lost_in_a_step;
    std::vector<float> expected(kCount);
    Fill(expected, 2);
    EXPECT_EQ(Values<float>(*from), expected);
    Fill(to->mutable_data<float>(), 5);
    const Status another = session->PinnedTensor(DType::kFloat, {3}, kGpu).status();
    EXPECT_FALSE(another.ok());
    EXPECT_NE(std::string(another.message()).find("a pinned tensor of float[3] for "), std::string::npos)
        << another.message();
    EXPECT_TRUE(session->PinnedTensor(DType::kFloat, {3}, "").ok());
  }
  EXPECT_GE(lost_in_a_step, 5);
}

TEST(PinnedTensor, IsWhatPrefetchedBatchesComeBy) {
  Graph g(Gpus());
  const auto large = [](Graph& body, const std::vector<Output>& x) {
    return body.Op("Fill",
                   {body.Const({static_cast<int32_t>(kCount)}), body.Op("Cast", {x[0]}, {{"DstT", DType::kFloat}})});
  };
  const train::DatasetIterator input = train::Dataset::Range(g, 0, 3).Map(large).MakeIterator("input");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  SessionOptions on_host;
  on_host.device = "/device:CPU:0";
  const Session session = Open(Gpus(), g, on_host);
  ASSERT_TRUE(session.RunTargets({Name(input.begin)}).ok());
  (void)TheCopies().Take();
  auto batches = train::DevicePrefetcher::Create(session, input.next, kGpu);
  ASSERT_TRUE(batches.ok()) << batches.status().message();
  std::vector<Tensor> all;
  for (int i = 0; i < 3; ++i) {
    auto batch = (*batches)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    all.push_back((*batch)[0]);
  }
  EXPECT_EQ((*batches)->Next().status().code(), Code::kOutOfRange);
  ExpectCopies(3, 0, "batches");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Values<float>(*session.CopyTensor(all[static_cast<size_t>(i)], "")),
              std::vector<float>(kCount, static_cast<float>(i)));
}

// The last references go on the thread that ends the step, and in the call that it makes there.
TEST(PinnedTensor, IsReleasedByTheThreadThatEndsAStep) {
  const Doubling graph(Gpus());
  const Session session = Open(Gpus(), graph.g);
  auto step = session.Prepare({graph.x}, {graph.last});
  ASSERT_TRUE(step.ok()) << step.status().message();
  uint64_t after_one = 0;
  for (int i = 0; i < 6; ++i) {
    Tensor pinned = Pinned(session);
    Fill(pinned.mutable_data<float>(), static_cast<float>(i));
    const View fed = pinned;
    std::promise<float> last;
    const Status begun =
        step->RunAsync({fed}, [&last, held = std::move(pinned)](Result<std::vector<Tensor>> values) mutable {
          held = Tensor();
          last.set_value(values.ok() ? (*values)[0].scalar<float>() : -1);
        });
    ASSERT_TRUE(begun.ok()) << begun.message();
    EXPECT_EQ(last.get_future().get(), 2 * (static_cast<float>(i) + 3));
    const uint64_t now = session.Metrics()->bytes_in_use;
    if (i == 0) after_one = now;
    EXPECT_EQ(now, after_one) << "what was released counts still";
  }
}

TEST(PinnedTensor, IsFedToTwoSessionsAtOnce) {
  const Doubling graph(Gpus(), {65536});
  const Session one = Open(Gpus(), graph.g), two = Open(Gpus(), graph.g);
  const Tensor from = Pinned(one, 65536);
  Fill(from.mutable_data<float>(), 3);
  std::vector<std::thread> threads;
  for (const Session* session : {&one, &two, &one, &two})
    threads.emplace_back([&, session] {
      auto step = session->Prepare({graph.x}, {graph.y});
      ASSERT_TRUE(step.ok()) << step.status().message();
      const Tensor to = Pinned(*session, 65536);
      for (int i = 0; i < 10; ++i) {
        const Status status = RunInto(*step, *from.view(), *to.view());
        ASSERT_TRUE(status.ok()) << status.message();
        ExpectDoubled(to.data<float>(), 3);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(PinnedTensor, IsCopiedIntoAGraphsConstant) {
  const Session session = Open(Gpus(), Graph(Gpus()));
  const Tensor pinned = Pinned(session, 8);
  Fill(pinned.mutable_data<float>(), 1);
  const std::vector<float> given = Values<float>(pinned);
  Graph g(Gpus());
  const Output constant = g.Const(View(pinned), "c");
  Fill(pinned.mutable_data<float>(), 50);
  const auto values = Open(Gpus(), g).Run({}, {constant});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), given);
}

// One runtime's memory is ordinary memory to another, whose driver does not know it.
TEST(PinnedTensor, OfAnotherRuntimeIsOrdinaryMemory) {
  const Runtime theirs = MakeRuntime();
  const Doubling graph(Gpus());
  const Session there = Open(theirs, Graph(theirs)), here = Open(Gpus(), graph.g);
  const Tensor from = Pinned(there), to = Pinned(there);
  Fill(from.mutable_data<float>(), 6);
  auto step = here.Prepare({graph.x}, {graph.y});
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Status status = RunInto(*step, *from.view(), *to.view());
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectDoubled(to.data<float>(), 6);
}

}  // namespace
}  // namespace tenon::engine::pinned_life_test
