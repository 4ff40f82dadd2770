// SPDX-License-Identifier: Apache-2.0
// A worker that is told to end while something in it never does.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/cluster/processes.h"
#include "tests/cluster/program.h"
#include "tests/cluster/scrape.h"
#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WorkerEnd : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, WorkerEnd, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WorkerEnd);

// The test's own time is the bound: it would wait for ever.
TEST_P(WorkerEnd, AKernelThatNeverReturnsIsNamedAndLeft) {
  const std::string folder = fakes::TemporaryFolder("worker_end");
  const std::string address =
      std::string(GetParam()) + "://" +
      (GetParam() == std::string("grpc") ? folder + "/socket" : "tenon_end_" + std::to_string(getpid()));
  std::ofstream(folder + "/cluster.json") << "{\"worker\": [\"" << address << "\"]}";
  Program worker({"worker", "--cluster", folder + "/cluster.json", "--job=worker", "--task=0", "--threads=1",
                  "--patience=1ms", "--metrics=127.0.0.1:0", std::string("--plugin=") + TENON_TEST_ENDLESS_PLUGIN},
                 folder + "/errors", folder + "/said");
  while (worker.Runs() && Contents(folder + "/said").find("shows its metrics at") == std::string::npos) usleep(10000);
  const std::string said = Contents(folder + "/said");
  ASSERT_NE(said.find("listens at"), std::string::npos) << said << Contents(folder + "/errors");
  Graph graph(TheRuntime());
  graph.Op("Relu", {graph.Placeholder("x", DType::kFloat, Shape{1})}, {}, "y");
  SessionOptions options;
  options.master = address;
  auto session = Session::Create(TheRuntime(), graph, options);
  ASSERT_TRUE(session.ok()) << session.status();
  Status ended;
  std::thread step([&] {
    ended = session->Run({{"x", *Tensor::From(std::vector<float>{1}, Shape{1})}}, {"y"}).status();
  });
  // Until the step runs.
  const std::string running = "tenon_worker_steps{state=\"running\"} 1";
  const int port = std::atoi(said.c_str() + said.find("127.0.0.1:") + 10);
  const auto metrics = [&] {
    const Telephone telephone(port);
    return telephone.Say("GET /metrics HTTP/1.1\r\n\r\n") ? telephone.Hear() : "";
  };
  for (std::string found = metrics(); !found.empty() && found.find(running) == std::string::npos; found = metrics())
    usleep(1000);
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 1);
  step.join();
  EXPECT_FALSE(ended.ok());
  const std::string errors = Contents(folder + "/errors");
  EXPECT_NE(errors.find("was to stop, and this does not end: step 1 of part 1 of session "), std::string::npos)
      << errors;
}

}  // namespace
}  // namespace tenon::engine
