// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/checkpoint.h"

#include <gtest/gtest.h>

#include "sdk/app/model/index_table.h"
#include "tenon/data/file.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/table.h"
#include "tenon/bytes/wire.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::model::checkpoint_test {
namespace {

const std::string kVariables = TENON_TEST_SOURCE_DIR "/tests/golden/models/keras_dense/variables/variables";

std::string Contents(const std::string& path) { return *data::ReadFile(path); }

Result<CheckpointIndex> ReadBytes(const std::string& bytes) {
  static const std::string folder = fakes::TemporaryFolder("checkpoint_test");
  EXPECT_TRUE(data::ReplaceFile(folder + "/c.index", {bytes}, data::Durability::kQuick).ok());
  return CheckpointIndex::Read(folder + "/c");
}

TEST(Checkpoint, ListsWhatTensorFlowWrote) {
  const Result<CheckpointIndex> index = CheckpointIndex::Read(kVariables);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->prefix, kVariables);
  EXPECT_EQ(index->shards, 1);
  ASSERT_FALSE(index->tensors.empty());
  const CheckpointTensor* graph = index->Find("_CHECKPOINTABLE_OBJECT_GRAPH");
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->dtype, DType::kString);
  uint64_t bytes = 0;
  for (const CheckpointTensor& tensor : index->tensors) bytes += tensor.bytes;
  EXPECT_EQ(bytes, Contents(kVariables + ".data-00000-of-00001").size());
}

TEST(Checkpoint, IsKnownByAnyOfItsNames) {
  for (const char* suffix : {"", ".index", ".data-00000-of-00001"}) {
    EXPECT_TRUE(IsCheckpoint(kVariables + suffix)) << suffix;
    EXPECT_EQ(CheckpointPrefix(kVariables + suffix), kVariables) << suffix;
  }
  EXPECT_FALSE(IsCheckpoint(kVariables + ".meta"));
  EXPECT_EQ(CheckpointPrefix("a.data-0/b"), "a.data-0/b") << "that is a folder's name";
}

TEST(Checkpoint, SaysWhatIsDamaged) {
  EXPECT_EQ(CheckpointIndex::Read("/nowhere/c").status().code(), Code::kNotFound);
  EXPECT_EQ(ReadBytes("").status().code(), Code::kDataLoss);
  EXPECT_EQ(ReadBytes(std::string(48, 'x')).status().code(), Code::kDataLoss);
}

// Of an index each byte of which may be wrong: never a crash, and what is read all the same is right.
TEST(Checkpoint, TrustsNoByte) {
  const std::string good = Contents(kVariables + ".index");
  const std::vector<CheckpointTensor> tensors = CheckpointIndex::Read(kVariables)->tensors;
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(ReadBytes(good.substr(0, size)).ok()) << size;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    const Result<CheckpointIndex> read = ReadBytes(bad);
    if (!read.ok()) continue;
    ASSERT_EQ(read->tensors.size(), tensors.size()) << at;
    for (size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(read->tensors[i].name, tensors[i].name) << at;
  }
}

void AddVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

struct Entry {
  uint64_t shared;
  std::string own, value;
};

// A block with its list of one beginning, its trailer and its sum.
std::string Block(const std::vector<Entry>& entries) {
  std::string block;
  for (const Entry& entry : entries) {
    AddVarint(block, entry.shared);
    AddVarint(block, entry.own.size());
    AddVarint(block, entry.value.size());
    block += entry.own + entry.value;
  }
  block += std::string("\0\0\0\0\1\0\0\0\0", 9);
  const uint32_t sum = sdk::MaskCrc32c(sdk::Crc32c(block));
  for (int i = 0; i < 4; ++i) block += static_cast<char>(sum >> (8 * i));
  return block;
}

std::string Handle(uint64_t offset, size_t block) {
  std::string handle;
  AddVarint(handle, offset);
  AddVarint(handle, block - 5);
  return handle;
}

// A table of one data block, of which the index has an entry for each of the handles.
std::string Table(const std::string& data, const std::vector<std::string>& handles) {
  std::vector<Entry> entries;
  for (const std::string& handle : handles) entries.push_back({0, "k", handle});
  const std::string index = Block(entries);
  std::string footer = Handle(0, data.size()) + Handle(data.size(), index.size());
  footer.resize(sdk::kTableFooter - sdk::kTableEnd.size());
  return data + index + footer + std::string(sdk::kTableEnd);
}

// Names that share all but a byte with the one before would make gigabytes of a megabyte.
TEST(Checkpoint, GrowsNoNamesBeyondTheFile) {
  std::vector<Entry> entries = {{0, std::string(60000, 'a'), ""}};
  for (int i = 0; i < 100000; ++i) entries.push_back({60000, "b", ""});
  const std::string block = Block(entries);
  const Status status =
      ReadTable(Table(block, {Handle(0, block.size())}), [](std::string_view, std::string_view) { return Status(); });
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("longer than any"), std::string::npos) << status;
}

TEST(Checkpoint, ReadsEachBlockOnce) {
  const std::string block = Block({{0, "a", "1"}, {1, "b", "2"}});
  std::string read;
  const auto take = [&](std::string_view key, std::string_view value) {
    read += std::string(key) + "=" + std::string(value) + " ";
    return Status();
  };
  EXPECT_TRUE(ReadTable(Table(block, {Handle(0, block.size())}), take).ok());
  EXPECT_EQ(read, "a=1 ab=2 ");
  EXPECT_EQ(ReadTable(Table(block, {Handle(0, block.size()), Handle(0, block.size())}), take).code(), Code::kDataLoss);
}

}  // namespace
}  // namespace tenon::model::checkpoint_test
