// SPDX-License-Identifier: Apache-2.0
// Datasets that are kept in files: caches that passes write beside one another, leave, or find damaged; folders that
// are saved not to their end. That TensorFlow reads and writes the same folders is shown in tests/golden. Covers M1.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/dataset_pipeline.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine::dataset_saved_test {
namespace {

class SavedDatasets : public ::testing::Test {
 protected:
  std::vector<std::string> FilesIn(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    return names;
  }
  // Numbers up to `stop`, of which the cache is asked twice.
  Pipeline Cached(int64_t stop) const {
    Pipeline p;
    p.Range(stop);
    p.Then("CacheDataset", {p.g.StringConst(folder_ + "/numbers")});
    return p;
  }
  const std::string folder_ = fakes::TemporaryFolder("saved_datasets");
};

TEST_F(SavedDatasets, ACacheIsWrittenByTheFirstWholePassAndReadByLaterSessions) {
  Pipeline p = Cached(20);
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  EXPECT_EQ(p.All(session), UpTo(20));
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{"numbers.elements"});
  Pipeline other = Cached(3);  // whose input it does not look at
  const Session later = other.Open();
  ASSERT_TRUE(other.Begin(later).ok());
  EXPECT_EQ(other.All(later), UpTo(20));
}

TEST_F(SavedDatasets, APassThatIsLeftLeavesNoFile) {
  Pipeline p = Cached(20);
  {
    const Session session = p.Open();
    ASSERT_TRUE(p.Begin(session).ok());
    EXPECT_EQ(*p.Next(session), 0);
    EXPECT_EQ(FilesIn(folder_).size(), 1u) << "what is being written";
    ASSERT_TRUE(p.Begin(session).ok());
    EXPECT_EQ(*p.Next(session), 0);
  }
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{});
}

TEST_F(SavedDatasets, PassesThatWriteTheSameCacheDoNoHarm) {
  Pipeline a = Cached(50), b = Cached(50);
  const Session one = a.Open(), other = b.Open();
  ASSERT_TRUE(a.Begin(one).ok() && b.Begin(other).ok());
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(*a.Next(one), i);
    EXPECT_EQ(*b.Next(other), i);
  }
  EXPECT_EQ(a.Next(one).status().code(), Code::kOutOfRange);
  EXPECT_EQ(b.Next(other).status().code(), Code::kOutOfRange);
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{"numbers.elements"});
  ASSERT_TRUE(a.Begin(one).ok());
  EXPECT_EQ(a.All(one), UpTo(50));
}

TEST_F(SavedDatasets, ElementsLargerThanWhatIsWrittenAtOnce) {
  constexpr int64_t kRows = 3, kNumbers = 300'001;
  std::vector<float> numbers(kRows * kNumbers);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000);
  Pipeline p;
  p.type = DType::kFloat;
  p.shape = Shape{kNumbers};
  p.dataset = p.g.Op("TensorSliceDataset", {p.g.Const(*Tensor::From(numbers, Shape{kRows, kNumbers}))},
                     {{"Toutput_types", Types{p.type}}, {"output_shapes", Shapes{p.shape}}});
  p.Then("CacheDataset", {p.g.StringConst(folder_ + "/large")});
  const Session session = p.Open();
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(p.Begin(session).ok());
    for (int64_t row = 0; row < kRows; ++row) {
      auto values = session.Run({}, {p.next});
      ASSERT_TRUE(values.ok()) << values.status().message();
      const auto begin = numbers.begin() + row * kNumbers;
      EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>(begin, begin + kNumbers))
          << "pass " << pass << ", row " << row;
    }
    EXPECT_EQ(session.Run({}, {p.next}).status().code(), Code::kOutOfRange);
  }
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{"large.elements"});
}

TEST_F(SavedDatasets, ADamagedCacheIsNamed) {
  Pipeline p = Cached(20);
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  EXPECT_EQ(p.All(session), UpTo(20));
  const std::string path = folder_ + "/numbers.elements";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  ASSERT_TRUE(p.Begin(session).ok());
  for (int64_t i = 0; i < 19; ++i) EXPECT_EQ(*p.Next(session), i);
  const Status damaged = p.Next(session).status();
  EXPECT_EQ(damaged.code(), Code::kDataLoss);
  EXPECT_NE(damaged.message().find(path), std::string::npos) << damaged.message();
  // Elements of another type.
  Pipeline strings;
  strings.type = DType::kString;
  strings.dataset = strings.g.Op("TensorDataset", {strings.g.StringConst("a")},
                                 {{"Toutput_types", Types{DType::kString}}, {"output_shapes", Shapes{Shape()}}});
  strings.Then("CacheDataset", {strings.g.StringConst(folder_ + "/numbers")});
  const Session other = strings.Open();
  ASSERT_TRUE(strings.Begin(other).ok());
  const Status mismatch = strings.Text(other).status();
  EXPECT_EQ(mismatch.code(), Code::kDataLoss);
  EXPECT_NE(mismatch.message().find("Type mismatch between parsed tensor (int64) and dtype (string)"),
            std::string::npos)
      << mismatch.message();
}

TEST_F(SavedDatasets, ACacheThatCannotBeWrittenFailsOneElementAndTheOthersCome) {
  Pipeline p;
  p.Range(3);
  p.Then("CacheDataset", {p.g.StringConst(folder_ + "/no/such/folder/numbers")});
  const Session session = p.Open();
  ASSERT_TRUE(p.Begin(session).ok());
  const Status refused = p.Next(session).status();
  EXPECT_EQ(refused.code(), Code::kNotFound);
  EXPECT_NE(refused.message().find(folder_ + "/no/such/folder"), std::string::npos) << refused.message();
  EXPECT_EQ(p.All(session), UpTo(3));
}

// A pipeline whose elements each pass saves, and the function that gives an element's shard.
Pipeline Saving(const std::string& folder, int64_t stop, int64_t shards) {
  Pipeline p;
  p.Range(stop);
  const Function shard = Define(p.g, "shard",
                                [&](Graph& body, const std::vector<Output>& x) {
                                  return std::vector<Output>{body.Op("FloorMod", {x[0], body.Const(shards)})};
                                },
                                {DType::kInt64});
  p.dataset = p.g.Op("SaveDatasetV2", {p.dataset, p.g.StringConst(folder)},
                     p.Spec({{"shard_func", shard}, {"Tshard_func_args", Types{}}}));
  return p;
}
Pipeline Loading(const std::string& folder) {
  Pipeline p;
  const Function read =
      Define(p.g, "read",
             [&](Graph& body, const std::vector<Output>& x) {
               const Function same = Define(
                   body, "same", [](Graph&, const std::vector<Output>& inner) { return std::vector<Output>{inner[0]}; },
                   {DType::kVariant});
               return std::vector<Output>{body.Op("FlatMapDataset", {x[0]},
                                                  {{"f", same},
                                                   {"Targuments", Types{}},
                                                   {"output_types", Types{DType::kInt64}},
                                                   {"output_shapes", Shapes{Shape()}}})};
             },
             {DType::kVariant});
  p.dataset =
      p.g.Op("LoadDataset", {p.g.StringConst(folder)}, p.Spec({{"reader_func", read}, {"Treader_func_args", Types{}}}));
  return p;
}

TEST_F(SavedDatasets, AFolderIsReadShardByShard) {
  Pipeline saving = Saving(folder_ + "/saved", 7, 3);
  const Session save = saving.Open();
  ASSERT_TRUE(saving.Begin(save).ok());
  EXPECT_EQ(saving.All(save), UpTo(7)) << "they pass on";
  Pipeline loading = Loading(folder_ + "/saved");
  const Session load = loading.Open();
  ASSERT_TRUE(loading.Begin(load).ok());
  EXPECT_EQ(loading.All(load), (std::vector<int64_t>{0, 3, 6, 1, 4, 2, 5}));
}

TEST_F(SavedDatasets, AFolderThatWasNotSavedToItsEndIsNone) {
  Pipeline saving = Saving(folder_ + "/saved", 7, 3);
  {
    const Session save = saving.Open();
    ASSERT_TRUE(saving.Begin(save).ok());
    EXPECT_EQ(*saving.Next(save), 0);
  }
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{});
  Pipeline loading = Loading(folder_ + "/saved");
  const Session load = loading.Open();
  const Status none = loading.Begin(load);
  EXPECT_EQ(none.code(), Code::kNotFound);
  EXPECT_NE(none.message().find("no dataset was saved in " + folder_ + "/saved, or not to its end"), std::string::npos)
      << none.message();
}

TEST_F(SavedDatasets, AnElementThatFailsLeavesNothingSaved) {
  Pipeline saving = Saving(folder_ + "/saved", 7, 0);  // x mod 0
  const Session save = saving.Open();
  ASSERT_TRUE(saving.Begin(save).ok());
  EXPECT_EQ(saving.Next(save).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(saving.Next(save).status().code(), Code::kOutOfRange) << "the pass has ended";
  EXPECT_EQ(FilesIn(folder_), std::vector<std::string>{});
}

TEST_F(SavedDatasets, DamagedMetadataAreNamedAndLeadNowhereElse) {
  std::filesystem::create_directories(folder_ + "/saved");
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(folder_ + "/saved/snapshot.metadata", std::ios::binary) << bytes;
    Pipeline loading = Loading(folder_ + "/saved");
    const Session load = loading.Open();
    const Status status = loading.Begin(load);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  const std::string finalized = std::string("\xc0\x3e\x01", 3), version = "\x20\x02", types = "\x2a\x01\x09";
  EXPECT_NE(refused("\x12\x05..").find("is damaged"), std::string::npos);
  EXPECT_NE(refused(std::string("\x12\x05../..") + version + types + finalized)
                .find("the run is '../..', which is no number"),
            std::string::npos);
  EXPECT_NE(refused(std::string("\x12\x01" "7") + version + types).find("was not saved to its end"), std::string::npos);
  EXPECT_NE(refused(std::string("\x12\x01"
                                "7") +
                    version + "\x2a\x01\x07" + finalized)
                .find("has components of string, which are not the node's output_types"),
            std::string::npos);
  EXPECT_NE(refused(std::string("\x12\x01"
                                "7") +
                    "\x20\x01" + types + finalized)
                .find("is of format 1; format 2 is supported"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::engine::dataset_saved_test
