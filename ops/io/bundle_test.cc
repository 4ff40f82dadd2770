// SPDX-License-Identifier: Apache-2.0
// The kernels of the io package, and the file format under them, over files in memory. Covers B6, E5, J7.
#include "bundle.h"

#include <gtest/gtest.h>

#include "checkpoints_for_test.h"
#include "snappy.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/testing/kernel_case.h"

namespace tenon::ops {
extern const tenon_kernel_registration kMergeV2CheckpointsKernel, kShardedFilenameKernel, kStringJoinKernel;
}  // namespace tenon::ops

namespace tenon::ops::bundle_test {
namespace {

class Checkpoint : public ::testing::Test {
 protected:
  MemoryFiles disk;
  testing::UseFiles use{&disk};
};

Named Small(float value) {
  Named out;
  out.emplace_back("a", Vector<float>(TENON_DT_FLOAT, {value, value + 1}));
  out.emplace_back("s", Strings({"text", std::to_string(value)}));
  return out;
}

TEST_F(Checkpoint, GivesBackWhatWasSaved) {
  const Named tensors = GoldenTensors();
  const Outcome outcome = Save("folder/below/model", tensors);
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(Difference("folder/below/model", tensors), "");
  EXPECT_EQ(disk.files.size(), 2u);
  EXPECT_EQ(disk.folders, (std::set<std::string, std::less<>>{"folder", "folder/below"}));
}

TEST_F(Checkpoint, OfTensorFlowIsRead) {
  disk.files["golden.index"] = ReadSource("ops/io/testdata/golden.index");
  disk.files["golden.data-00000-of-00001"] = ReadSource("ops/io/testdata/golden.data-00000-of-00001");
  EXPECT_EQ(Difference("golden", GoldenTensors()), "");
}

TEST_F(Checkpoint, HasTheVeryBytesThatTensorFlowWrites) {
  ASSERT_TRUE(Save("mine", GoldenTensors()).ok());
  EXPECT_EQ(disk.files["mine.data-00000-of-00001"], ReadSource("ops/io/testdata/golden.data-00000-of-00001"));
  EXPECT_EQ(disk.files["mine.index"], ReadSource("ops/io/testdata/golden.index"));
}

TEST_F(Checkpoint, WithAnyBitFlippedIsAnErrorOrUnharmed) {
  const Named tensors = Small(3);
  ASSERT_TRUE(Save("m", tensors).ok());
  size_t errors = 0, bits = 0;
  for (const char* path : {"m.index", "m.data-00000-of-00001"}) {
    std::string& bytes = disk.files[path];
    bits += 8 * bytes.size();
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      const Restored got = Restore("m", {"a", "s"}, {TENON_DT_FLOAT, TENON_DT_STRING});
      if (got.outcome.ok()) {
        EXPECT_EQ(BytesOf(got.tensors[0]), BytesOf(tensors[0].second)) << path << " bit " << bit;
        EXPECT_EQ(BytesOf(got.tensors[1]), BytesOf(tensors[1].second)) << path << " bit " << bit;
        EXPECT_NE(path, std::string("m.data-00000-of-00001"));  // every bit of the data counts
      } else {
        ++errors;
        EXPECT_EQ(got.outcome.code, TENON_DATA_LOSS) << got.outcome.message;
      }
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
  }
  // Unharmed: parts of the footer (48 bytes), and the meta-index (13), which nobody reads.
  EXPECT_GE(errors, bits - 8 * (48 + 13));
  EXPECT_LT(errors, bits);
  EXPECT_EQ(Difference("m", tensors), "");
}

TEST_F(Checkpoint, CutOffAnywhereIsDataLoss) {
  ASSERT_TRUE(Save("m", Small(3)).ok());
  for (const char* path : {"m.index", "m.data-00000-of-00001"}) {
    const std::string whole = disk.files[path];
    for (size_t size = 0; size < whole.size(); ++size) {
      disk.files[path] = whole.substr(0, size);
      const Restored got = Restore("m", {"a", "s"}, {TENON_DT_FLOAT, TENON_DT_STRING});
      EXPECT_EQ(got.outcome.code, TENON_DATA_LOSS) << path << " of " << size << " bytes";
    }
    disk.files[path] = whole;
  }
}

// What is on disk after operation number `fail` failed, and perhaps all after it, is the old or the new checkpoint.
void FailEverywhere(MemoryFiles& disk, bool crash) {
  const Named old = Small(1), next = Small(2);
  bool finished = false;
  int old_kept = 0;
  for (int fail = 1; !finished; ++fail) {
    disk = MemoryFiles();
    ASSERT_TRUE(Save("f/m", old).ok());
    disk.operations = 0;
    disk.fail_at = fail;
    disk.crash = crash;
    const Outcome outcome = Save("f/m", next);
    finished = disk.operations < fail;
    disk.fail_at = 0;
    EXPECT_EQ(outcome.code, finished ? TENON_OK : TENON_RESOURCE_EXHAUSTED) << outcome.message;
    const std::string from_old = Difference("f/m", old), from_new = Difference("f/m", next);
    EXPECT_TRUE(from_old.empty() || from_new.empty()) << "operation " << fail << ": " << from_old << "; " << from_new;
    old_kept += from_old.empty() ? 1 : 0;
    // And the next save repairs everything.
    const Outcome again = Save("f/m", Small(5));
    EXPECT_TRUE(again.ok()) << again.message;
    EXPECT_EQ(Difference("f/m", Small(5)), "");
    EXPECT_EQ(disk.files.size(), 2u) << "operation " << fail;
  }
  EXPECT_GE(old_kept, 5);
}
TEST_F(Checkpoint, OfTheSameNameSurvivesAnyOneOperationFailing) { FailEverywhere(disk, false); }
TEST_F(Checkpoint, OfTheSameNameSurvivesACrashAtAnyOperation) { FailEverywhere(disk, true); }

TEST_F(Checkpoint, LeavesNothingBehindWhenSavingFails) {
  disk.fail_at = 2;
  EXPECT_FALSE(Save("m", Small(1)).ok());
  EXPECT_TRUE(disk.files.empty());
}

TEST_F(Checkpoint, NamesTheTensorTheFileAndThePlaceOfDamage) {
  ASSERT_TRUE(Save("m", GoldenTensors()).ok());
  disk.files["m.data-00000-of-00001"][20] ^= 1;  // in "matrix", which follows 8 bytes
  const Restored got = Restore("m", {"matrix"}, {TENON_DT_FLOAT});
  EXPECT_EQ(got.outcome.code, TENON_DATA_LOSS);
  for (const char* part : {"'matrix'", "m.data-00000-of-00001", "byte 8", "24 bytes"}) {
    EXPECT_NE(got.outcome.message.find(part), std::string::npos) << got.outcome.message;
  }
}

TEST_F(Checkpoint, SaysWhatIsMissingOrOfAnotherType) {
  EXPECT_EQ(Restore("m", {"a"}, {TENON_DT_FLOAT}).outcome.code, TENON_NOT_FOUND);
  ASSERT_TRUE(Save("m", Small(1)).ok());
  const Restored missing = Restore("m", {"b"}, {TENON_DT_FLOAT});
  EXPECT_EQ(missing.outcome.code, TENON_NOT_FOUND);
  EXPECT_NE(missing.outcome.message.find("'b'"), std::string::npos) << missing.outcome.message;
  const Restored type = Restore("m", {"a"}, {TENON_DT_INT32});
  EXPECT_EQ(type.outcome.code, TENON_INVALID_ARGUMENT);
  EXPECT_NE(type.outcome.message.find("float"), std::string::npos) << type.outcome.message;
}

TEST_F(Checkpoint, RefusesOneNameTwiceAndTypesWithoutBytes) {
  Named twice = Small(1);
  twice.emplace_back("a", Vector<float>(TENON_DT_FLOAT, {1}));
  EXPECT_EQ(Save("m", twice).code, TENON_ALREADY_EXISTS);
  Named handle;
  handle.emplace_back("r", Vector<uint64_t>(TENON_DT_RESOURCE, {0}));
  EXPECT_EQ(Save("m", handle).code, TENON_UNIMPLEMENTED);
  EXPECT_TRUE(disk.files.empty());
}

TEST_F(Checkpoint, TakesSlicesThatAreTheWhole) {
  ASSERT_TRUE(Save("m", Small(1), {"2 -", "2 0,2"}).ok());
  EXPECT_TRUE(Restore("m", {"a"}, {TENON_DT_FLOAT}, {"2 0,2"}).outcome.ok());
  for (const char* spec : {"3 -", "2 1,2", "2 -1,1", "2", "2 ", "2 -:-", "x -", "2 0;2", "2 0,"}) {
    EXPECT_EQ(Restore("m", {"a"}, {TENON_DT_FLOAT}, {spec}).outcome.code, TENON_INVALID_ARGUMENT) << spec;
  }
}

// A tensor of shape [4, 3] with elements 0 to 11, stored in rows 0-1, in row 2 and in two pieces of row 3.
Outcome SaveInParts(const std::string& prefix) {
  const auto piece = [](std::vector<int64_t> dims, std::vector<float> values) {
    return Make<float>(std::move(dims), values);
  };
  Named pieces;
  pieces.emplace_back("w", piece({2, 3}, {0, 1, 2, 3, 4, 5}));
  pieces.emplace_back("w", piece({1, 3}, {6, 7, 8}));
  pieces.emplace_back("w", piece({1, 1}, {9}));
  pieces.emplace_back("w", piece({1, 2}, {10, 11}));
  pieces.emplace_back("other", piece({1}, {12}));
  return Save(prefix, pieces, {"4 3 0,2:-", "4 3 2,1:-", "4 3 3,1:0,1", "4 3 3,1:1,2", ""});
}

std::vector<float> RestoreOne(const std::string& spec) {
  const Restored restored = Restore("m", {"w"}, {TENON_DT_FLOAT}, {spec});
  EXPECT_TRUE(restored.outcome.ok()) << restored.outcome.message;
  if (!restored.outcome.ok()) return {};
  const std::string bytes = BytesOf(restored.tensors[0]);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(Checkpoint, InPartsIsRestoredInOtherPartsAndAsAWhole) {
  const Outcome saved = SaveInParts("m");
  ASSERT_TRUE(saved.ok()) << saved.message;
  EXPECT_EQ(RestoreOne(""), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(RestoreOne("4 3 2,1:-"), (std::vector<float>{6, 7, 8}));
  EXPECT_EQ(RestoreOne("4 3 1,3:1,2"), (std::vector<float>{4, 5, 7, 8, 10, 11}));
  EXPECT_EQ(RestoreOne("4 3 3,1:0,2"), (std::vector<float>{9, 10}));
  EXPECT_EQ(Restore("m", {"w"}, {TENON_DT_FLOAT}, {"4 4 -:-"}).outcome.code, TENON_INVALID_ARGUMENT);
  ASSERT_TRUE(Save("m", Small(1)).ok());
  const Restored part = Restore("m", {"a"}, {TENON_DT_FLOAT}, {"2 1,1"});
  ASSERT_TRUE(part.outcome.ok()) << part.outcome.message << " of a tensor that is stored whole";
  EXPECT_EQ(BytesOf(part.tensors[0]).size(), sizeof(float));
}

TEST_F(Checkpoint, InPartsThatDoNotFitIsRefused) {
  const auto piece = [](std::vector<int64_t> dims) {
    return Make<float>(std::move(dims), std::vector<float>(2, 0.0f));
  };
  Named pieces;
  pieces.emplace_back("w", piece({2}));
  pieces.emplace_back("w", piece({2}));
  EXPECT_EQ(Save("m", pieces, {"4 0,2", "4 0,2"}).code, TENON_ALREADY_EXISTS);
  EXPECT_EQ(Save("m", pieces, {"4 0,2", "5 2,2"}).code, TENON_ALREADY_EXISTS);
  EXPECT_EQ(Save("m", pieces, {"4 0,1", "4 2,2"}).code, TENON_INVALID_ARGUMENT)
      << "a slice of one element, a tensor of two";
  ASSERT_TRUE(Save("m", pieces, {"4 0,2", "4 1,2"}).ok());
  EXPECT_EQ(Restore("m", {"w"}, {TENON_DT_FLOAT}).outcome.code, TENON_DATA_LOSS) << "they overlap";
  EXPECT_TRUE(Restore("m", {"w"}, {TENON_DT_FLOAT}, {"4 0,1"}).outcome.ok()) << "but not here";
  ASSERT_TRUE(Save("m", pieces, {"5 0,2", "5 3,2"}).ok());
  EXPECT_EQ(Restore("m", {"w"}, {TENON_DT_FLOAT}).outcome.code, TENON_DATA_LOSS) << "one is missing";
}

TEST_F(Checkpoint, LargerThanAChunkAndWithManyTensorsIsWhole) {
  Named tensors;
  tensors.emplace_back("big", Vector<int32_t>(TENON_DT_INT32, std::vector<int32_t>(900000, 7)));
  for (int i = 0; i < 12000; ++i) {  // more than one block of the index
    tensors.emplace_back("name_that_is_not_short/" + std::to_string(i * 7919 % 12000),
                         Vector<int32_t>(TENON_DT_INT32, {i}));
  }
  ASSERT_TRUE(Save("m", tensors).ok());
  EXPECT_GT(disk.files["m.index"].size(), size_t{262144});
  EXPECT_EQ(Difference("m", tensors), "");
}

// ---- MergeV2Checkpoints ----

Outcome Merge(const std::vector<std::string>& prefixes, const std::string& destination, bool allow_missing = false) {
  const Tensor from = Strings(prefixes), to = testing::Strings({}, {destination});
  return KernelRunner().Run(kMergeV2CheckpointsKernel,
                    {"", {{"delete_old_dirs", true}, {"allow_missing_files", allow_missing}}},
                    {&from, &to});
}
Named Part(const std::string& name, float value) {
  Named out;
  out.emplace_back(name, Vector<float>(TENON_DT_FLOAT, {value}));
  return out;
}

TEST_F(Checkpoint, OfPartsIsMergedWithoutCopying) {
  ASSERT_TRUE(Save("m_temp/part-0", Part("a", 1)).ok());
  ASSERT_TRUE(Save("m_temp/part-1", Part("b", 2)).ok());
  const Outcome outcome = Merge({"m_temp/part-0", "m_temp/part-1"}, "m");
  ASSERT_TRUE(outcome.ok()) << outcome.message;
  EXPECT_EQ(Difference("m", Part("a", 1)), "");
  EXPECT_EQ(Difference("m", Part("b", 2)), "");
  EXPECT_EQ(disk.files.size(), 3u);
  EXPECT_EQ(disk.files.count("m.data-00001-of-00002"), 1u);
  EXPECT_TRUE(disk.folders.empty());
}

TEST_F(Checkpoint, OfPartsWithOneTensorTwiceIsRefusedAndLeftAlone) {
  ASSERT_TRUE(Save("p0", Part("a", 1)).ok());
  ASSERT_TRUE(Save("p1", Part("a", 2)).ok());
  EXPECT_EQ(Merge({"p0", "p1"}, "m").code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Difference("p0", Part("a", 1)), "");
  EXPECT_EQ(Difference("p1", Part("a", 2)), "");
}

TEST_F(Checkpoint, OfPartsMayMissSomeIfAllowed) {
  ASSERT_TRUE(Save("p0", Part("a", 1)).ok());
  EXPECT_EQ(Merge({"p0", "p1"}, "m").code, TENON_NOT_FOUND);
  ASSERT_TRUE(Merge({"p0", "p1"}, "m", true).ok());
  EXPECT_EQ(Difference("m", Part("a", 1)), "");
}

TEST_F(Checkpoint, IsNeverLostWhileAnotherIsMergedOverIt) {
  for (const bool crash : {false, true}) {
    bool finished = false;
    for (int fail = 1; !finished; ++fail) {
      disk = MemoryFiles();
      ASSERT_TRUE(Save("m", Part("a", 1)).ok());
      ASSERT_TRUE(Save("p0", Part("a", 2)).ok());
      disk.operations = 0;
      disk.fail_at = fail;
      disk.crash = crash;
      const Outcome outcome = Merge({"p0"}, "m");
      finished = disk.operations < fail;
      disk.fail_at = 0;
      EXPECT_TRUE(Difference("m", Part("a", 1)).empty() || Difference("m", Part("a", 2)).empty())
          << "operation " << fail << ": " << outcome.message;
    }
  }
}

// ---- The strings ----

TEST(ShardedFilename, CountsInFiveDigits) {
  const Tensor name = testing::Strings({}, {"model"}), shard = Make<int32_t>({}, {3}),
               shards = Make<int32_t>({}, {12});
  KernelRunner step;
  ASSERT_TRUE(step.Run(kShardedFilenameKernel, {"", {}, {}, {TENON_DT_STRING}}, {&name, &shard, &shards}).ok());
  EXPECT_EQ(Texts(step.outputs[0]), std::vector<std::string>{"model-00003-of-00012"});
}

TEST(StringJoin, RepeatsScalarsForEveryElement) {
  const Tensor scalar = testing::Strings({}, {"a"}), vector = Strings({"x", ""}), other = Strings({"1", "2", "3"});
  const Node node = {"StringJoin", {{"separator", "-"}}, {}, {TENON_DT_STRING}};
  KernelRunner step;
  ASSERT_TRUE(step.Run(kStringJoinKernel, node, {&scalar, &vector, &scalar}).ok());
  EXPECT_EQ(Texts(step.outputs[0]), (std::vector<std::string>{"a-x-a", "a--a"}));
  EXPECT_EQ(step.Run(kStringJoinKernel, node, {&vector, &other}).code, TENON_INVALID_ARGUMENT);
}

// ---- Below ----

TEST(Snappy, ReadsLiteralsAndCopiesThatOverlap) {
  std::string out;
  // 10 bytes: the literal "ab", then a copy of 8 bytes from 2 back.
  EXPECT_TRUE(io::SnappyUncompress(std::string_view("\x0a\x04"
                                                    "ab\x11\x02",
                                                    6),
                                   &out));
  EXPECT_EQ(out, "ababababab");
  // The same with an offset of two bytes.
  EXPECT_TRUE(io::SnappyUncompress(std::string_view("\x0a\x04"
                                                    "ab\x1e\x02\x00",
                                                    7),
                                   &out));
  EXPECT_EQ(out, "ababababab");
  for (std::string_view bad : {std::string_view("\x0a\x04"
                                                "ab\x11\x03",
                                                6),
                               std::string_view("\x0b\x04"
                                                "ab\x11\x02",
                                                6),
                               std::string_view("\x09\x04"
                                                "ab\x11\x02",
                                                6),
                               std::string_view("\x0a\x04"
                                                "ab\x11",
                                                5),
                               std::string_view("\x0a\x04"
                                                "ab\x11\x00",
                                                6),
                               std::string_view("\xff\xff\xff\x7f\x00", 5)}) {
    EXPECT_FALSE(io::SnappyUncompress(bad, &out));
  }
}

TEST(Table, ReadsSnappyBlocks) {
  // One data block, as one Snappy literal, where BuildTable writes it plain.
  const std::string plain = io::BuildTable({{"key", "value"}});
  const size_t block_size = 3 + 3 + 5 + 8;
  std::string compressed;
  sdk::PutVarint(compressed, block_size);
  compressed.push_back(static_cast<char>((block_size - 1) << 2));
  compressed += plain.substr(0, block_size);
  std::string file = compressed;
  const auto finish = [&file](size_t begin, char type) {
    file.push_back(type);
    sdk::PutFixed32(file, sdk::MaskCrc32c(sdk::Crc32c(std::string_view(file).substr(begin))));
  };
  finish(0, 1);
  const size_t index_at = file.size();
  std::string handle;
  sdk::PutVarint(handle, 0);
  sdk::PutVarint(handle, compressed.size());
  std::string index = {0, 1, static_cast<char>(handle.size()), 'l'};
  index += handle;
  sdk::PutFixed32(index, 0);
  sdk::PutFixed32(index, 1);
  file += index;
  finish(index_at, 0);
  std::string footer;
  for (uint64_t number : {uint64_t{0}, uint64_t{0}, uint64_t{index_at}, uint64_t{index.size()}})
    sdk::PutVarint(footer, number);
  footer.resize(40, '\0');
  sdk::PutFixed64(footer, 0xdb4775248b80fb57u);
  const std::string bytes = file + footer;
  io::TableText source(bytes);
  const io::Table table(source, "file", {});
  const auto& entries = table.entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].key, "key");
  EXPECT_EQ(entries[0].value, "value");
}

}  // namespace
}  // namespace tenon::ops::bundle_test
