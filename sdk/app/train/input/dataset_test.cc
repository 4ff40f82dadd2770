// SPDX-License-Identifier: Apache-2.0
// Pipelines that a program builds: each transformation's elements, functions of elements, buckets of sequences, what is
// refused. Covers M5, M8.
#include "tenon/train/dataset.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/training_golden.h"

namespace tenon::train::dataset_test {
namespace {

using Numbers = std::vector<int64_t>;
using Outputs = std::vector<Output>;

// The first component of each element of a pass, its elements in a row behind one another, with "|" between.
std::string Pass(const Dataset& dataset, Graph& graph, size_t component = 0, int64_t most = 100) {
  const DatasetIterator input = dataset.MakeIterator("input");
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  if (!graph.status().ok()) return "";
  const Session session = SessionOf(graph, {});
  if (const Status begun = session.RunTargets({Name(input.begin)}); !begun.ok()) return std::string(begun.message());
  std::string said;
  for (int64_t n = 0; n < most; ++n) {
    const auto values = session.Run({}, {Name(input.next[component])});
    if (!values.ok())
      return said +
             (values.status().code() == Code::kOutOfRange ? "" : "failed: " + std::string(values.status().message()));
    const Tensor& value = (*values)[0];
    if (n > 0) said += '|';
    for (int64_t i = 0; i < value.shape().element_count(); ++i)
      said +=
          (i > 0 ? " " : "") + (value.dtype() == DType::kString ? std::string(value.string(static_cast<uint64_t>(i)))
                                                                : std::to_string(value.data<int64_t>()[i]));
  }
  return said + "|...";
}

class DatasetTest : public testing::Test {
 protected:
  Graph graph{SharedRuntime()};
  Output Int(Graph& body, int64_t n) { return body.Const(n); }
};

TEST_F(DatasetTest, TransformsElements) {
  const Dataset range = Dataset::Range(graph, 0, 10);
  struct Case {
    const char* what;
    std::string wanted;
    std::function<Dataset(const Dataset&)> make;
  };
  const Case cases[] = {
      {"all", "0|1|2|3|4|5|6|7|8|9", [](const Dataset& d) { return d; }},
      {"map", "0|2|4",
       [](const Dataset& d) {
         return d.Take(3).Map([](Graph& g, const Outputs& x) { return g.Op("AddV2", {x[0], x[0]}); });
       }},
      {"parallel map", "0|2|4",
       [](const Dataset& d) {
         return d.Take(3).Map(
             [](Graph& g, const Outputs& x) {
               return g.Op("AddV2", {x[0], x[0]});
             },
             {.parallel_calls = 4});
       }},
      {"filter", "7|8|9",
       [](const Dataset& d) {
         return d.Filter([](Graph& g, const Outputs& x) { return g.Op("Greater", {x[0], g.Const(int64_t{6})}); });
       }},
      {"take while", "0|1",
       [](const Dataset& d) {
         return d.TakeWhile([](Graph& g, const Outputs& x) { return g.Op("Less", {x[0], g.Const(int64_t{2})}); });
       }},
      {"flat map", "0|0|1|0|1|2",
       [](const Dataset& d) {
         return d.Skip(1).Take(3).FlatMap([](Graph& g, const Outputs& x) {
           return Dataset::FromTensorSlices(g, {g.Op("Range", {g.Const(int64_t{0}), x[0], g.Const(int64_t{1})})});
         });
       }},
      {"interleave", "0|1|2|0|1|2|0|1",
       [](const Dataset& d) {
         return d.Take(3)
             .Interleave([](Graph& g, const Outputs& x) { return Dataset::FromTensors(g, {x[0]}).Repeat(3); },
                         {.cycle_length = 3, .block_length = 1})
             .Take(8);
       }},
      {"batch", "0 1 2 3|4 5 6 7|8 9", [](const Dataset& d) { return d.Batch(4); }},
      {"batch without the rest", "0 1 2 3|4 5 6 7", [](const Dataset& d) { return d.Batch(4, true); }},
      {"unbatch", "0|1|2|3", [](const Dataset& d) { return d.Batch(4).Unbatch().Take(4); }},
      {"shard", "1|4|7", [](const Dataset& d) { return d.Shard(3, 1); }},
      {"repeat", "8|9|8|9|8|9", [](const Dataset& d) { return d.Skip(8).Repeat(3); }},
      {"concatenate", "9|0|1", [](const Dataset& d) { return d.Skip(9).Concatenate(d.Take(2)); }},
      {"enumerate", "5|6", [](const Dataset& d) { return d.Skip(8).Enumerate(5); }},
      {"cache, prefetch", "0|1", [](const Dataset& d) { return d.Take(2).Cache().Prefetch(); }},
      {"windows", "0 1 2|2 3 4|4 5 6",
       [](const Dataset& d) {
         return d.Window(3, {.shift = 2, .drop_remainder = true}).Take(3).FlatMap([](Graph& g, const Outputs& x) {
           return Dataset::FromVariant(g, x[0], {{DType::kInt64, Shape()}}).Batch(3);
         });
       }},
      {"groups", "0 2 4|1 3 5|6 8|7 9",
       [](const Dataset& d) {
         return d.GroupByWindow(
             [](Graph& g, const Outputs& x) {
               return g.Op("FloorMod", {x[0], g.Const(int64_t{2})});
             },
             [](Graph&, Output, const Dataset& window) { return window.Batch(3); },
             [](Graph& g, Output) { return g.Const(int64_t{3}); });
       }},
  };
  for (const Case& each : cases) {
    Graph fresh(SharedRuntime());
    EXPECT_EQ(Pass(each.make(Dataset::Range(fresh, 0, 10)), fresh), each.wanted) << each.what;
  }
}

TEST_F(DatasetTest, ShufflesByItsSeed) {
  const auto pass = [](int64_t seed) {
    Graph fresh(SharedRuntime());
    return Pass(Dataset::Range(fresh, 0, 20).Shuffle(20, {.seed = seed}), fresh);
  };
  EXPECT_EQ(pass(1), pass(1));
  EXPECT_NE(pass(1), pass(2));
}

TEST_F(DatasetTest, FunctionsOfElementsHaveWhatTheyCapture) {
  const Output weight = graph.Op("AddV2", {graph.Const(int64_t{40}), graph.Const(int64_t{2})});
  const Dataset scaled = Dataset::Range(graph, 0, 3)
                             .Map(
                                 [](Graph& g, const Outputs& x) {
                                   return g.Op("Mul", {x[0], x[1]});
                                 },
                                 {.captured = {weight}});
  EXPECT_EQ(Pass(scaled, graph), "0|42|84");
}

TEST_F(DatasetTest, KnowsTheShapesOfItsComponents) {
  const Dataset pairs = Dataset::FromTensorSlices(
      graph, {graph.Const(std::vector<float>(12), {4, 3}), graph.Const(std::vector<int64_t>(4), {4})});
  EXPECT_EQ(pairs.components()[0].shape.ToString(), "[3]");
  EXPECT_EQ(pairs.Batch(2).components()[0].shape.ToString(), "[?,3]");
  EXPECT_EQ(pairs.Batch(2, true).components()[1].shape.ToString(), "[2]");
  EXPECT_EQ(pairs.PaddedBatch(2, {.shapes = {{-1}, {}}, .drop_remainder = true}).components()[0].shape.ToString(),
            "[2,?]");
  EXPECT_EQ(pairs.Map([](Graph&, const Outputs& x) {
                   return Outputs{x[1], x[0]};
                 })
                .components()[1]
                .dtype,
            DType::kFloat);
  EXPECT_EQ(pairs.Window(2).components()[1].dtype, DType::kVariant);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

TEST_F(DatasetTest, ReadsFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "dataset_files";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.txt") << "one\ntwo\n";
  std::ofstream(folder / "b.txt") << "three\n";
  const Dataset lines = Dataset::MatchingFiles(graph, graph.StringConst((folder / "*.txt").string()))
                            .FlatMap([](Graph& g, const Outputs& x) { return Dataset::TextLines(g, x[0]); });
  EXPECT_EQ(Pass(lines, graph), "one|two|three");
  Graph other(SharedRuntime());
  EXPECT_EQ(Pass(Dataset::FixedLengthRecords(other, other.StringConst((folder / "b.txt").string()), 2, 0, 0), other),
            "th|re|e\n");
}

// Sequences 1; 1 1; 1 1 1; ...
Dataset Sequences(Graph& graph, int64_t many) {
  return Dataset::Range(graph, 1, many + 1).Map([](Graph& g, const Outputs& x) {
    const Output length = g.Op("Reshape", {x[0], g.Const({1})});
    return Outputs{g.Op("Fill", {length, g.Const(int64_t{1})}), x[0]};
  });
}

TEST_F(DatasetTest, PutsSequencesOfAboutTheSameLengthTogether) {
  const BucketOptions options{.boundaries = {3, 5}, .batch_sizes = {2, 2, 1}, .padding = {.shapes = {{-1}, {}}}};
  EXPECT_EQ(Pass(Sequences(graph, 6).BucketByLength(0, options), graph),
            "1 0 1 1|1 1 1 0 1 1 1 1|1 1 1 1 1|1 1 1 1 1 1");
  Graph second(SharedRuntime());
  EXPECT_EQ(
      Pass(Sequences(second, 5).BucketByLength([](Graph&, const Outputs& x) { return x[1]; }, options), second, 1),
      "1 2|3 4|5");
  Graph third(SharedRuntime());
  BucketOptions with_values = options;
  with_values.padding.values = {third.Const(int64_t{-7}), third.Const(int64_t{0})};
  EXPECT_EQ(Pass(Sequences(third, 2).BucketByLength(0, with_values), third), "1 -7 1 1");
}

TEST_F(DatasetTest, PadsToTheBoundaryOfTheBucketAndRefusesWhatIsLonger) {
  const BucketOptions options{
      .boundaries = {4}, .batch_sizes = {2, 1}, .padding = {.shapes = {{-1}, {}}}, .pad_to_boundary = true};
  EXPECT_EQ(Pass(Sequences(graph, 2).BucketByLength(0, options), graph), "1 0 0 1 1 0");
  Graph other(SharedRuntime());
  const std::string said = Pass(Sequences(other, 5).BucketByLength(0, options), other);
  EXPECT_NE(said.find("length is not below the last boundary:] [4]"), std::string::npos) << said;
}

TEST_F(DatasetTest, SaysWhatIsWrongWhenItIsBuilt) {
  const auto refusal = [](const std::function<void(Graph&, const Dataset&)>& build) {
    Graph fresh(SharedRuntime());
    build(fresh, Dataset::Range(fresh, 0, 5));
    EXPECT_FALSE(fresh.status().ok());
    return std::string(fresh.status().message());
  };
  EXPECT_NE(refusal([](Graph&, const Dataset& d) {
              d.BucketByLength(3, {{2}, {1, 1}});
            }).find("component 3 of elements of 1"),
            std::string::npos);
  EXPECT_NE(refusal([](Graph&, const Dataset& d) {
              d.BucketByLength(0, {{2, 2}, {1, 1, 1}});
            }).find("boundaries are positive and ascend"),
            std::string::npos);
  EXPECT_NE(refusal([](Graph&, const Dataset& d) {
              d.PaddedBatch(2, {.shapes = {{}, {}}});
            }).find("2 shapes"),
            std::string::npos);
  EXPECT_NE(refusal([](Graph& g, const Dataset& d) {
              d.Concatenate(Dataset::TextLines(g, g.StringConst("x")));
            }).find("different dtypes"),
            std::string::npos);
  EXPECT_NE(refusal([](Graph&, const Dataset& d) {
              d.Map([](Graph& g, const Outputs& x) { return g.Op("NoSuchOp", {x[0]}); });
            }).find("NoSuchOp"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::train::dataset_test
