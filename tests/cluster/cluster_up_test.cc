// SPDX-License-Identifier: Apache-2.0
// `tenon cluster up`: who may use what it starts, which files its tasks touch, and tasks that die.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cluster/program.h"
#include "tests/engine/engine.h"
#include "tenon/model/load.h"
#include "tests/fakes/model_golden.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine {
namespace {

namespace fs = std::filesystem;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A cluster, up until the object ends.
class ClusterUp {
 public:
  explicit ClusterUp(std::vector<std::string> options)
      : said_(fakes::TemporaryFolder("cluster_up") + "/said"), program_(Words(std::move(options)), "", said_) {
    const std::string before = "the cluster stands in ";
    if (!AwaitLine(before, 1) || !AwaitLine("listens at", 1)) return;
    std::istringstream words(Contents(said_).substr(Contents(said_).find(before) + before.size()));
    for (std::string word, last; words >> word && word != "\n"; last = word) {
      if (last.empty()) file_ = word.substr(0, word.size() - 1);
      if (last == "--master") master_ = word;
      if (last == "--credentials") {
        credentials_ = word;
        break;
      }
    }
  }
  ~ClusterUp() { End(); }
  void End() {
    program_.Signal(SIGTERM);
    EXPECT_NE(program_.Wait(60), -2) << "it did not end";
  }
  // Whether it has said so often something that has this.
  bool AwaitLine(const std::string& part, int times) {
    for (int i = 0; i < 6000; ++i) {
      const std::string said = Contents(said_);
      int found = 0;
      for (size_t at = said.find(part); at != std::string::npos; at = said.find(part, at + 1)) ++found;
      if (found >= times && said.ends_with('\n')) return true;
      if (!program_.Runs()) break;
      usleep(10000);
    }
    ADD_FAILURE() << "'" << part << "' was not said: " << Contents(said_);
    return false;
  }
  SessionOptions Options() const {
    SessionOptions options;
    options.master = master_;
    options.credentials = credentials_.empty() ? "" : Contents(credentials_);
    options.connect_timeout = std::chrono::seconds(60);
    return options;
  }
  const std::string& file() const { return file_; }
  const std::string& credentials() const { return credentials_; }
  pid_t process() const { return program_.process(); }
  std::vector<pid_t> tasks() const {
    std::vector<pid_t> found;
    const std::string own = std::to_string(program_.process());
    std::istringstream children(Contents("/proc/" + own + "/task/" + own + "/children"));
    for (pid_t child; children >> child;) found.push_back(child);
    return found;
  }

 private:
  static std::vector<std::string> Words(std::vector<std::string> options) {
    options.insert(options.begin(), {"cluster", "up", "--worker-option=--threads=1"});
    return options;
  }
  const std::string said_;
  Program program_;
  std::string file_, master_, credentials_;
};

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

Graph Negation() {
  Graph graph(TheRuntime());
  graph.Op("Neg", {graph.Placeholder("x", DType::kFloat, Shape{})}, {}, "y");
  return graph;
}

Status RunStep(const SessionOptions& options) {
  const Graph graph = Negation();
  TENON_TRY_ASSIGN(Session session, Session::Create(TheRuntime(), graph, options));
  return session.Run({{"x", *Tensor::Scalar(1.0f)}}, {"y"}).status();
}

#ifdef TENON_TEST_HAS_grpc
TEST(ClusterUp, LetsInWhoHasItsTokenAndNobodyElse) {
  ClusterUp cluster({"--workers=1"});
  ASSERT_FALSE(cluster.credentials().empty());
  EXPECT_EQ(ModeOf(cluster.file()), 0600u);
  EXPECT_EQ(ModeOf(cluster.credentials()), 0600u);
  EXPECT_EQ(ModeOf(fs::path(cluster.file()).parent_path()), 0700u);
  EXPECT_EQ(Contents(cluster.file()).find("127.0.0.1"), std::string::npos) << "sockets of this user's will do";
  const Status known = RunStep(cluster.Options());
  EXPECT_TRUE(known.ok()) << known;
  SessionOptions stranger = cluster.Options();
  stranger.credentials.clear();
  stranger.connect_timeout = std::chrono::seconds(5);
  const Status refused = RunStep(stranger);
  EXPECT_EQ(refused.code(), Code::kUnauthenticated) << refused;
  EXPECT_NE(refused.message().find("a token is asked for"), std::string::npos) << refused;

  const std::string token = nlohmann::json::parse(Contents(cluster.credentials())).at("token");
  EXPECT_EQ(token.size(), 64u);
  std::vector<pid_t> processes = cluster.tasks();
  EXPECT_EQ(processes.size(), 1u);
  processes.push_back(cluster.process());
  for (const pid_t each : processes) {
    const std::string of = "/proc/" + std::to_string(each);
    EXPECT_EQ(Contents(of + "/cmdline").find(token), std::string::npos);
    EXPECT_EQ(Contents(of + "/environ").find(token), std::string::npos);
  }
  const std::string folder = fs::path(cluster.file()).parent_path();
  cluster.End();
  EXPECT_FALSE(fs::exists(folder));
}

TEST(ClusterUp, ItsTasksTouchTheFilesThatItGrants) {
  const std::string folder = fakes::TemporaryFolder("granted");
  ClusterUp cluster({"--workers=1", "--files=" + folder + "/in"});
  fs::create_directory(folder + "/in");
  for (const char* name : {"/in/words", "/words"}) std::ofstream(folder + name) << "a\nb\n";
  Graph graph(TheRuntime());
  const Output path = graph.Placeholder("path", DType::kString, Shape{});
  const Output table =
      graph.Op("HashTableV2", {}, {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}}, "table");
  graph.AddNode("InitializeTableFromTextFileV2", {table, path},
                {{"key_index", int64_t{-2}}, {"value_index", int64_t{-1}}}, "read");
  const Output names = graph.StringConst(std::vector<std::string>{"x"}, "names"),
               slices = graph.StringConst(std::vector<std::string>{""}, "slices");
  graph.AddNode("SaveV2", {path, names, slices, names}, {}, "save");
  auto session = Session::Create(TheRuntime(), graph, cluster.Options());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](const std::string& node, const std::string& at) {
    return session->Run({{path, *Tensor::String(at)}}, {}, {node}).status();
  };
  const Status read = run("read", folder + "/words"), written = run("save", folder + "/saved");
  for (const Status& refused : {read, written}) {
    EXPECT_EQ(refused.code(), Code::kPermissionDenied) << refused;
    for (const std::string& part : {std::string("task /job:worker/replica:0/task:0 may not"), "--files " + folder})
      EXPECT_NE(refused.message().find(part), std::string::npos) << refused;
  }
  EXPECT_EQ(run("read", "/etc/passwd").code(), Code::kPermissionDenied);
  EXPECT_FALSE(fs::exists(folder + "/saved.index"));
  const Status granted = run("save", folder + "/in/saved");
  EXPECT_TRUE(granted.ok()) << granted;
  EXPECT_TRUE(fs::exists(folder + "/in/saved.index"));
  const Status allowed = run("read", folder + "/in/words");
  EXPECT_TRUE(allowed.ok()) << allowed;
}

// The tasks see none of its files: this process reads the values, and sends them.
TEST(ClusterUp, RunsAModelWhoseFilesItsTasksDoNotSee) {
  ClusterUp cluster({"--workers=1", "--ps=1"});
  for (const std::string name : {"keras_dense", "v1_frames", "partitioned"}) {
    const auto file = model::ModelFile::Open(TENON_TEST_SOURCE_DIR "/tests/golden/models/" + name);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto loaded = model::Model::Load(TheRuntime(), *file, cluster.Options());
    ASSERT_TRUE(loaded.ok()) << name << ": " << loaded.status();
    for (const auto& golden : fakes::ModelGoldens()[name]) {
      model::NamedTensors inputs;
      for (const auto& [key, value] : golden["inputs"].items()) inputs.emplace_back(key, fakes::TensorOf(value));
      const auto outputs = loaded->Run(golden["signature"].get<std::string>(), inputs);
      ASSERT_TRUE(outputs.ok()) << name << ": " << outputs.status();
      for (const auto& [key, value] : *outputs) fakes::ExpectGolden(value, golden["outputs"][key], name + " " + key);
    }
  }
}

TEST(ClusterUp, ATaskThatWasKilledIsStartedAgainAfterAPause) {
  ClusterUp cluster({"--workers=1", "--restart"});
  ASSERT_EQ(cluster.tasks().size(), 1u);
  kill(cluster.tasks()[0], SIGKILL);
  ASSERT_TRUE(cluster.AwaitLine("is started again in 100 ms", 1));
  ASSERT_TRUE(cluster.AwaitLine("listens at", 3)) << "the first time, in its last lines, and again";
  const Status status = RunStep(cluster.Options());
  EXPECT_TRUE(status.ok()) << status;
}
#endif

#ifdef TENON_TEST_HAS_shm
TEST(ClusterUp, OverSharedMemoryTheSystemSaysWhoComes) {
  const ClusterUp cluster({"--workers=1", "--transport=shm"});
  EXPECT_EQ(cluster.credentials(), "");
  const Status status = RunStep(cluster.Options());
  EXPECT_TRUE(status.ok()) << status;
}
#endif

// What --write names may be a link that somebody planted.
TEST(ClusterUp, WritesNoFileThroughALink) {
  const std::string folder = fakes::TemporaryFolder("planted");
  std::ofstream(folder + "/victim") << "mine";
  fs::create_symlink(folder + "/victim", folder + "/cluster.json");
  const ClusterUp cluster({"--workers=1", "--write=" + folder + "/cluster.json"});
  EXPECT_EQ(Contents(folder + "/victim"), "mine");
  EXPECT_NE(Contents(folder + "/cluster.json").find("worker"), std::string::npos);
}

}  // namespace
}  // namespace tenon::engine
