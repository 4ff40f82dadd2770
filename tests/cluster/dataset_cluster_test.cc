// SPDX-License-Identifier: Apache-2.0
// Input at a task: files are read, parsed, shuffled and batched where the nodes are placed; what travels is what a step
// asks for. Covers M1, M2, P16.
#include <fstream>
#include <numeric>

#include "tests/cluster/local_cluster.h"
#include "tests/fakes/counting_transport.h"
#include "tests/fakes/plugin_capability.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine::dataset_cluster_test {
namespace {

constexpr int kRecords = 40;
constexpr size_t kBytes = 100'000;  // of a record
constexpr const char* kReader = "/job:worker/task:0";

using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;

const tenon_test_counted& Counted() {
  static const auto* const table = static_cast<const tenon_test_counted*>(
      fakes::CapabilityOf(fakes::PluginOf(TENON_TEST_COUNTED_PLUGIN), TENON_TEST_COUNTED));
  return *table;
}

// Records of one length, the first bytes of which are their number.
std::string WriteRecords() {
  const std::string path = fakes::TemporaryFolder("dataset_cluster") + "/records";
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < kRecords; ++i) file << static_cast<char>(i) << std::string(kBytes - 1, 'x');
  return path;
}

// A pipeline at the reader, which gives the first byte of each record; and the same numbers doubled at the other
// worker.
struct Input {
  explicit Input(const std::string& path) : g(TheRuntime()) {
    const auto on = g.Device(kReader);
    const auto number = [&](int64_t value) { return g.Const(value); };
    const Attrs strings = Spec(DType::kString), numbers = Spec(DType::kInt64);
    Output data = g.Op("FixedLengthRecordDatasetV2",
                       {g.StringConst(path), number(0), number(kBytes), number(0), number(0), g.StringConst("")});
    data = g.Op("ShuffleDatasetV3", {data, number(8), number(3), number(5), g.Op("DummySeedGenerator", {})}, strings);
    const Function first = Define(
        g, "first",
        [](Graph& body, const std::vector<Output>& x) {
          const Output bytes = body.Op("DecodeRaw", {x[0]}, {{"out_type", DType::kUint8}});
          const Output one = body.Op("StridedSlice", {bytes, body.Const({0}), body.Const({1}), body.Const({1})},
                                     {{"shrink_axis_mask", int64_t{1}}});
          return std::vector<Output>{body.Op("Cast", {one}, {{"DstT", DType::kInt64}})};
        },
        {DType::kString});
    data = g.Op("ParallelMapDatasetV2", {data, number(2)}, With(numbers, {{"f", first}, {"Targuments", Types{}}}));
    data = g.Op("PrefetchDataset", {data, number(2)}, numbers);
    const Output iterator =
        g.Op("IteratorV2", {}, With(numbers, {{"shared_name", std::string("input")}, {"container", std::string()}}));
    begin = g.AddNode("MakeIterator", {data, iterator});
    next = g.Op("IteratorGetNext", {iterator}, numbers);
    const auto words = [&](const char* text) {
      return g.Op("Const", {}, {{"dtype", DType::kString}, {"value", *Tensor::Strings({text})}});
    };
    const Output prefix = g.StringConst(path + ".state"), name = words("state"), whole = words("");
    save = g.AddNode("SaveV2", {prefix, name, whole, g.Op("SerializeIterator", {iterator})},
                     {{"dtypes", Types{DType::kVariant}}});
    restore = g.AddNode("DeserializeIterator",
                        {iterator, g.Op("RestoreV2", {prefix, name, whole}, {{"dtypes", Types{DType::kVariant}}})});
    const auto elsewhere = g.Device("/job:worker/task:1");
    doubled = g.Op("AddV2", {next, next});
    EXPECT_TRUE(g.status().ok()) << g.status().message();
  }
  static Attrs Spec(DType type) { return {{"output_types", Types{type}}, {"output_shapes", Shapes{Shape()}}}; }
  static Attrs With(Attrs some, const Attrs& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  }
  static int64_t Take(const Session& session, const Output& what) {
    RunOptions patience;
    patience.timeout = std::chrono::seconds(60);
    auto values = session.Run({}, {what}, {}, patience);
    EXPECT_TRUE(values.ok()) << values.status().message();
    return values.ok() ? (*values)[0].scalar<int64_t>() : -1;
  }
  Graph g;
  Operation begin, save, restore;
  Output next, doubled;
};

class DatasetCluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(TheRuntime().LoadPlugin(TENON_TEST_COUNTED_PLUGIN).ok()); }
};

TEST_F(DatasetCluster, DataIsReadWhereTheNodesAreAndDoesNotTravel) {
  const LocalCluster cluster("counted://dataset", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const Input input(WriteRecords());
  const Session session = cluster.Client(input.g);
  ASSERT_TRUE(session.RunTargets({input.begin}).ok());
  std::vector<int64_t> got = {Input::Take(session, input.doubled) / 2};  // which carries the parts there
  const uint64_t before = Counted().bytes();
  while (got.size() < kRecords) got.push_back(Input::Take(session, input.doubled) / 2);
  EXPECT_EQ(Counted().bytes() - before, (kRecords - 1) * sizeof(int64_t)) << "the numbers, to the other worker";
  EXPECT_FALSE(std::is_sorted(got.begin(), got.end())) << "they are shuffled";
  std::sort(got.begin(), got.end());
  std::vector<int64_t> all(kRecords);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(got, all);
  EXPECT_EQ(session.Run({}, {input.doubled}).status().code(), Code::kOutOfRange);
}

TEST_F(DatasetCluster, AnotherTaskGoesOnFromTheStateThatOneKept) {
  const Input input(WriteRecords());
  std::vector<int64_t> rest;
  {
    const LocalCluster cluster("counted://dataset_kept", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
    const Session session = cluster.Client(input.g);
    ASSERT_TRUE(session.RunTargets({input.begin}).ok());
    for (int i = 0; i < 7; ++i) Input::Take(session, input.next);
    const Status saved = session.RunTargets({input.save});
    ASSERT_TRUE(saved.ok()) << saved.message();
    for (int i = 7; i < kRecords; ++i) rest.push_back(Input::Take(session, input.next));
  }
  const LocalCluster cluster("counted://dataset_again", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const Session session = cluster.Client(input.g);
  ASSERT_TRUE(session.RunTargets({input.begin}).ok());
  const Status restored = session.RunTargets({input.restore});
  ASSERT_TRUE(restored.ok()) << restored.message();
  for (const int64_t expected : rest) EXPECT_EQ(Input::Take(session, input.next), expected);
}

TEST_F(DatasetCluster, AFileThatIsNotAtTheTaskIsNamed) {
  const LocalCluster cluster("counted://dataset_gone", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const Input input(fakes::TemporaryFolder("dataset_cluster_gone") + "/gone");
  const Session session = cluster.Client(input.g);
  ASSERT_TRUE(session.RunTargets({input.begin}).ok());
  const Status failed = session.Run({}, {input.doubled}).status();
  EXPECT_EQ(failed.code(), Code::kNotFound);
  EXPECT_NE(failed.message().find("/gone"), std::string::npos) << failed.message();
}

TEST_F(DatasetCluster, WhoWaitsForATaskThatGoesIsTold) {
  LocalCluster cluster("counted://dataset_lost", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  const Input input(WriteRecords());
  const Session session = cluster.Client(input.g);
  ASSERT_TRUE(session.RunTargets({input.begin}).ok());
  Input::Take(session, input.next);
  cluster.Stop(0);
  EXPECT_FALSE(session.Run({}, {input.next}).ok());
}

TEST_F(DatasetCluster, ADatasetDoesNotTravelToAnotherTask) {
  const LocalCluster cluster("counted://dataset_travels", {{"worker", 2}}, {TENON_TEST_COUNTED_PLUGIN});
  Graph g(TheRuntime());
  Output data;
  {
    const auto on = g.Device(kReader);
    data = g.Op("RangeDataset", {g.Const(int64_t{0}), g.Const(int64_t{9}), g.Const(int64_t{1})},
                Input::Spec(DType::kInt64));
  }
  const auto elsewhere = g.Device("/job:worker/task:1");
  const Output iterator = g.Op(
      "IteratorV2", {},
      Input::With(Input::Spec(DType::kInt64), {{"shared_name", std::string("other")}, {"container", std::string()}}));
  const Operation begin = g.AddNode("MakeIterator", {data, iterator});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const Session session = cluster.Client(g);
  const Status refused = session.RunTargets({begin});
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("variant"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace tenon::engine::dataset_cluster_test
