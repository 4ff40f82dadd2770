// SPDX-License-Identifier: Apache-2.0
// Containers: which sessions share state, how it is dropped, and that nobody loses what it is using. Covers D5, D6.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::containers_test {
namespace {

// A variable and a queue of one name, in a container.
struct State {
  State(const std::string& name, const std::string& container) : g(TheRuntime()) {
    x = g.Placeholder("x", DType::kFloat, Shape());
    const Output handle =
        g.Op("VarHandleOp", {},
             {{"dtype", DType::kFloat}, {"shape", Shape()}, {"shared_name", name + "_v"}, {"container", container}});
    assign = g.AddNode("AssignVariableOp", {handle, x}, {}, "assign");
    value = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "value");
    const Output queue = g.Op("FIFOQueueV2", {},
                              {{"component_types", std::vector<DType>{DType::kFloat}},
                               {"shared_name", name + "_q"},
                               {"container", container}});
    put = g.AddNode("QueueEnqueueV2", {queue, x}, {}, "put");
    taken = g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "taken");
    size = g.Op("QueueSizeV2", {queue}, {}, "size");
    destroy = g.AddNode("DestroyResourceOp", {queue}, {}, "destroy");
  }
  Session Open(bool alone = false) const {
    SessionOptions options;
    options.share_state = !alone;
    auto session = Session::Create(TheRuntime(), g, options);
    EXPECT_TRUE(session.ok()) << session.status();
    return std::move(*session);
  }
  void Fill(const Session& session, float number) const {
    EXPECT_TRUE(session.Run({{x, *Tensor::Scalar(number)}}, {}, {assign, put}).ok());
  }
  std::string Read(const Session& session) const {
    const auto values = session.Run({}, {value, size});
    return values.ok()
               ? std::to_string((*values)[0].scalar<float>()) + " " + std::to_string((*values)[1].scalar<int32_t>())
               : std::string(CodeName(values.status().code()));
  }
  Graph g;
  Output x, value, taken, size;
  Operation assign, put, destroy;
};

TEST(Containers, TheUnnamedOneIsTheSessionsOwnOrTheRuntimes) {
  const State state("shared", "");
  {
    const Session first = state.Open();
    state.Fill(first, 3);
  }
  const Session second = state.Open(), alone = state.Open(/*alone=*/true);
  EXPECT_EQ(state.Read(second), "3.000000 1") << "it outlives the session";
  EXPECT_EQ(state.Read(alone), "FAILED_PRECONDITION");
  state.Fill(alone, 5);
  EXPECT_EQ(state.Read(alone), "5.000000 1");
  EXPECT_EQ(state.Read(second), "3.000000 1");
  const Session another = state.Open(/*alone=*/true);
  EXPECT_EQ(state.Read(another), "FAILED_PRECONDITION");
  EXPECT_EQ(*second.ResetContainers(), 2u);
}

TEST(Containers, AreEmptiedByNameAndFilledAgain) {
  const State unnamed("emptied", ""), one("emptied", "one"), two("emptied", "two");
  const Session of_unnamed = unnamed.Open(), of_one = one.Open(), of_two = two.Open(),
                alone = unnamed.Open(/*alone=*/true);
  for (const auto& [state, session] :
       {std::pair(&unnamed, &of_unnamed), {&one, &of_one}, {&two, &of_two}, {&unnamed, &alone}})
    state->Fill(*session, 1);
  EXPECT_EQ(*of_unnamed.ResetContainers({"one", "of nobody"}), 2u);
  EXPECT_EQ(one.Read(of_one), "FAILED_PRECONDITION");
  EXPECT_EQ(two.Read(of_two), "1.000000 1");
  EXPECT_EQ(unnamed.Read(of_unnamed), "1.000000 1");
  EXPECT_EQ(*alone.ResetContainers(), 2u) << "its own";
  EXPECT_EQ(unnamed.Read(of_unnamed), "1.000000 1");
  EXPECT_EQ(*of_two.ResetContainers({"", "two"}), 4u);
  EXPECT_EQ(unnamed.Read(of_unnamed), "FAILED_PRECONDITION");
  EXPECT_EQ(two.Read(of_two), "FAILED_PRECONDITION");
  one.Fill(of_one, 7);
  EXPECT_EQ(one.Read(of_one), "7.000000 1") << "the nodes are there still";
  EXPECT_EQ(*of_one.ResetContainers({"one"}), 2u);
  EXPECT_EQ(*of_one.ResetContainers({"one"}), 0u);
}

// A queue that goes while steps wait in it stays theirs: they end when they are cancelled, and touch no memory that is
// gone.
TEST(Containers, WhoUsesAnObjectKeepsItWhenItIsDropped) {
  for (const bool by_op : {false, true}) {
    const State state("waited_for", "");
    const Session session = state.Open();
    state.Fill(session, 1);
    ASSERT_TRUE(session.Run({}, {state.taken}).ok());
    const Cancellation cancellation = *Cancellation::Create();
    RunOptions options;
    options.cancellation = &cancellation;
    std::vector<Status> ended(3);
    std::vector<std::thread> waiting;
    for (Status& status : ended)
      waiting.emplace_back([&] { status = session.Run({}, {state.taken}, {}, options).status(); });
    // They are in the queue when nothing more can come between, or soon after: both must hold.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (by_op) {
      EXPECT_TRUE(session.Run({}, {}, {state.destroy}).ok());
    }
    else EXPECT_EQ(*session.ResetContainers(), 2u);
    state.Fill(session, 9);  // another queue
    EXPECT_EQ(state.Read(session), "9.000000 1");
    const_cast<Cancellation&>(cancellation).Cancel();
    for (std::thread& thread : waiting) thread.join();
    for (const Status& status : ended) EXPECT_EQ(status.code(), Code::kCancelled) << status;
    EXPECT_TRUE(session.ResetContainers().ok());
  }
}

// The same of one that its kernels know by its address alone: writers of event files, while others write.
TEST(Containers, AWriterThatIsDroppedWritesWhatItIsGiven) {
  const std::string folder = testing::TempDir() + "/tenon_containers_" + std::to_string(getpid());
  Graph g(TheRuntime());
  const Output writer = g.Op("SummaryWriter", {}, {{"shared_name", std::string("containers_writer")}});
  const Operation create =
      g.AddNode("CreateSummaryFileWriter",
                {writer, g.StringConst(folder), g.Const(10), g.Const(1000), g.StringConst("")}, {}, "create");
  std::vector<Operation> writes;
  for (int i = 0; i < 20; ++i)
    writes.push_back(
        g.AddNode("WriteScalarSummary", {writer, g.Const(int64_t{i}), g.StringConst("loss"), g.Const(0.5f)}));
  ASSERT_TRUE(g.status().ok()) << g.status();
  const auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      for (; !done.load(); ++rounds) {
        const Status made = session->RunTargets({create});
        EXPECT_TRUE(made.ok()) << made;
        const Status written = session->Run({}, {}, {writes.begin(), writes.end()}).status();
        if (!written.ok()) {
          EXPECT_EQ(written.code(), Code::kNotFound) << written;
        }
      }
    });
  while (rounds.load() < 200) EXPECT_TRUE(session->ResetContainers().ok());
  done = true;
  for (std::thread& thread : threads) thread.join();
  std::filesystem::remove_all(folder);
}

// Emptied again and again under the feet of steps: each of them finds it full or empty.
TEST(Containers, AreEmptiedWhileStepsRun) {
  const State state("raced", "raced");
  const Session session = state.Open();
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (; !done.load(); ++rounds) {
        const Status filled =
            session.Run({{state.x, *Tensor::Scalar(1.0f + static_cast<float>(t))}}, {}, {state.assign, state.put})
                .status();
        EXPECT_TRUE(filled.ok() || filled.code() == Code::kNotFound) << filled;  // the queue went between its two nodes
        const auto values = session.Run({}, {state.value, state.size});
        if (values.ok()) {
          EXPECT_GE((*values)[0].scalar<float>(), 1);
        } else
          EXPECT_TRUE(values.status().code() == Code::kFailedPrecondition || values.status().code() == Code::kNotFound)
              << values.status();
      }
    });
  while (rounds.load() < 500) EXPECT_TRUE(session.ResetContainers({"raced"}).ok());
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(session.ResetContainers({"raced"}).ok());
}

}  // namespace
}  // namespace tenon::engine::containers_test
