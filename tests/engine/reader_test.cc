// SPDX-License-Identifier: Apache-2.0
// Readers as an application meets them: names through a queue of data_flow, files on the disk, steps that wait, are
// given up and time out, and records parsed. Covers B13, M1.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::reader_test {
namespace {

class Readers : public ::testing::Test {
 protected:
  Readers() : folder_(std::filesystem::path(::testing::TempDir()) / ("readers_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    queue_ = graph_.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kString}}}, "queue");
    name_ = graph_.Op("Placeholder", {}, {{"dtype", DType::kString}, {"shape", Shape()}}, "name");
    graph_.AddNode("QueueEnqueueV2", {queue_, name_}, {}, "put");
    graph_.AddNode("QueueCloseV2", {queue_}, {}, "close");
  }
  ~Readers() override { std::filesystem::remove_all(folder_); }

  void Begin(const std::string& op, Attrs attrs = {}) {
    const Output reader = graph_.Op(op, {}, std::move(attrs), "reader");
    graph_.AddNode("ReaderReadV2", {reader, queue_}, {}, "read");
    graph_.AddNode("ReaderNumRecordsProducedV2", {reader}, {}, "count");
    graph_.AddNode("ReaderNumWorkUnitsCompletedV2", {reader}, {}, "units");
    auto session = Session::Create(TheRuntime(), graph_);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::make_unique<Session>(std::move(*session));
  }
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    if (session_ == nullptr) return;
    const auto put = session_->Run({{"name", *Tensor::String((folder_ / name).string())}}, {}, {"put"});
    EXPECT_TRUE(put.ok()) << put.status().message();
  }
  // "KEY=VALUE", the folder left out, or the error.
  std::string Read(const RunOptions& options = {}) {
    auto read = session_->Run({}, {"read:0", "read:1"}, {}, options);
    if (!read.ok()) return std::string(read.status().message());
    return std::filesystem::path((*read)[0].string(0)).filename().string() + "=" + std::string((*read)[1].string(0));
  }

  static std::vector<std::string> TextsOf(const Tensor& tensor) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < tensor.element_count(); ++i) texts.emplace_back(tensor.string(static_cast<uint64_t>(i)));
    return texts;
  }

  const std::filesystem::path folder_;
  Graph graph_{TheRuntime()};
  Output queue_, name_;
  std::unique_ptr<Session> session_;
};

TEST_F(Readers, ReadFileAfterFileAndEndWithTheQueue) {
  Begin("TextLineReaderV2");
  Put("a", "1\r\n2");
  Put("b", "3\n");
  EXPECT_EQ(Read(), "a:1=1");
  EXPECT_EQ(Read(), "a:2=2");
  EXPECT_EQ(Read(), "b:1=3");
  EXPECT_TRUE(session_->RunTargets({"close"}).ok());
  EXPECT_NE(Read().find("closed"), std::string::npos);
  EXPECT_EQ((*session_->Run({}, {"count:0"}))[0].scalar<int64_t>(), 3);
}

TEST_F(Readers, WaitForANameUntilTheStepIsGivenUp) {
  Begin("WholeFileReaderV2");
  RunOptions soon;
  soon.timeout = std::chrono::milliseconds(5);
  EXPECT_EQ(session_->Run({}, {"read:0"}, {}, soon).status().code(), Code::kDeadlineExceeded);
  auto cancellation = Cancellation::Create();
  RunOptions cancellable;
  cancellable.cancellation = &*cancellation;
  std::thread waits(
      [&] { EXPECT_EQ(session_->Run({}, {"read:0"}, {}, cancellable).status().code(), Code::kCancelled); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  cancellation->Cancel();
  waits.join();
  Put("a", "x");
  EXPECT_EQ(Read(), "a=x") << "who was given up took nothing";
}

TEST_F(Readers, ServeManyStepsAtOnceEachRecordOnce) {
  Begin("TextLineReaderV2");
  constexpr int kSteps = 64, kFiles = 8;  // more steps than threads, all of which wait before there is a file
  std::atomic<int> done{0};
  std::vector<std::thread> steps;
  std::vector<std::string> got(kSteps);
  for (int i = 0; i < kSteps; ++i) steps.emplace_back([&, i] { got[static_cast<size_t>(i)] = Read(), ++done; });
  for (int file = 0; file < kFiles; ++file) {
    std::string text;
    for (int line = 0; line < kSteps / kFiles; ++line) text += std::to_string(line) + "\n";
    Put("f" + std::to_string(file), text);
  }
  for (std::thread& step : steps) step.join();
  std::sort(got.begin(), got.end());
  EXPECT_EQ(std::unique(got.begin(), got.end()), got.end());
  EXPECT_EQ(got.front(), "f0:1=0");
  EXPECT_EQ(got.back(), "f7:8=7");
}

TEST_F(Readers, EndWithTheirSession) {
  Begin("TextLineReaderV2");
  Put("a", "1\n");
  EXPECT_EQ(Read(), "a:1=1");  // the file stays open
  std::thread waits(
      [owned = session_.get()] { EXPECT_EQ(owned->Run({}, {"read:0"}).status().code(), Code::kCancelled); });
  // The step waits for a name when the file is done.
  while ((*session_->Run({}, {"units:0"}))[0].scalar<int64_t>() == 0) std::this_thread::yield();
  session_.reset();
  waits.join();
}

TEST_F(Readers, OfTheFirstVersionAreTheSame) {
  Put("a", "1\n2\n");
  const Output queue = graph_.Op("FIFOQueue", {}, {{"component_types", std::vector<DType>{DType::kString}}});
  graph_.AddNode("QueueEnqueue", {queue, graph_.StringConst((folder_ / "a").string())}, {}, "put_first");
  const Output reader = graph_.Op("TextLineReader", {}, {{"skip_header_lines", int64_t{1}}});
  const Output line = graph_.Op("ReaderRead", {reader, queue}),
               more = graph_.Op("ReaderReadUpTo", {reader, queue, graph_.Const(int64_t{5})});
  const Output count = graph_.Op("ReaderNumRecordsProduced", {reader}),
               files = graph_.Op("ReaderNumWorkUnitsCompleted", {reader});
  graph_.AddNode("ReaderReset", {reader}, {}, "reset");
  graph_.AddNode("QueueClose", {queue}, {}, "close_first");
  const auto session = Session::Create(TheRuntime(), graph_);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto number = [&](const Output& of) { return (*session->Run({}, {of}))[0].scalar<int64_t>(-1); };
  for (int turn = 0; turn < 2; ++turn) ASSERT_TRUE(session->RunTargets({"put_first"}).ok());
  auto read = session->Run({}, {line, Output(line.graph(), line.node(), 1)});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ((*read)[0].string(0), (folder_ / "a").string() + ":2");
  EXPECT_EQ((*read)[1].string(0), "2");
  ASSERT_TRUE(session->RunTargets({"close_first"}).ok());
  EXPECT_EQ(TextsOf((*session->Run({}, {more}))[0]), (std::vector<std::string>{(folder_ / "a").string() + ":2"}));
  EXPECT_EQ(session->Run({}, {line}).status().code(), Code::kOutOfRange);
  EXPECT_EQ(number(count), 2);
  EXPECT_EQ(number(files), 2);
  ASSERT_TRUE(session->RunTargets({"reset"}).ok());
  EXPECT_EQ(number(count), 0);
}

TEST_F(Readers, FilesAreReadWrittenAndFound) {
  const std::string one = (folder_ / "new" / "one.txt").string(), two = (folder_ / "new" / "two.txt").string();
  const Output text = graph_.StringConst("text");
  for (const std::string& path : {one, two})
    graph_.AddNode("WriteFile", {graph_.StringConst(path), text}, {}, path == one ? "write_one" : "write_two");
  const Output contents = graph_.Op("ReadFile", {graph_.StringConst(one)});
  const Output found = graph_.Op("MatchingFiles", {graph_.StringConst((folder_ / "n*" / "*.txt").string())});
  const auto session = Session::Create(TheRuntime(), graph_);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->Run({}, {contents}).status().code(), Code::kNotFound);
  ASSERT_TRUE(session->RunTargets({"write_one", "write_two"}).ok());
  EXPECT_EQ(TextsOf((*session->Run({}, {contents}))[0]), (std::vector<std::string>{"text"}));
  EXPECT_EQ(TextsOf((*session->Run({}, {found}))[0]), (std::vector<std::string>{one, two}));
}

}  // namespace
}  // namespace tenon::engine::reader_test
