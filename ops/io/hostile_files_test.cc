// SPDX-License-Identifier: Apache-2.0
// Files that mean harm or cannot be read for a while, and a second writer: no checkpoint is lost, and neither time nor
// memory goes beyond what the files are worth. Work is counted in calls of the file system.
#include <gtest/gtest.h>

#include "bundle.h"
#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::ops {
extern const tenon_kernel_registration kSaveV2Kernel, kRestoreV2Kernel, kMergeV2CheckpointsKernel;
}  // namespace tenon::ops

namespace tenon::ops::hostile_files_test {
namespace {

using testing::KernelRunner;
using testing::Make;
using testing::MemoryFiles;
using testing::Outcome;
using testing::Tensor;
using testing::Values;

// What the kernels are told that ask.
bool cancelled = false;
KernelRunner Runner() {
  KernelRunner step;
  step.is_cancelled = [] { return cancelled; };
  return step;
}

Tensor Text(const std::vector<std::string>& values) {
  return testing::Strings({static_cast<int64_t>(values.size())}, values);
}

Outcome Save(const std::string& prefix, const std::string& name, const Tensor& tensor) {
  const Tensor p = testing::Strings({}, {prefix}), n = Text({name}), s = Text({""});
  return Runner().Run(kSaveV2Kernel, {}, {&p, &n, &s, &tensor});
}
Outcome Save(const std::string& prefix, float value) {
  return Save(prefix, "a", Make<float>({1}, {value}));
}
Outcome Restore(const std::string& prefix, float* out) {
  const Tensor p = testing::Strings({}, {prefix}), n = Text({"a"}), s = Text({""});
  KernelRunner step = Runner();
  Outcome outcome = step.Run(kRestoreV2Kernel, {"", {}, {}, {TENON_DT_FLOAT}}, {&p, &n, &s});
  if (outcome.ok()) *out = Values<float>(step.outputs[0])[0];
  return outcome;
}
Outcome Merge(const std::vector<std::string>& prefixes, const std::string& destination) {
  const Tensor from = Text(prefixes), to = testing::Strings({}, {destination});
  return Runner().Run(kMergeV2CheckpointsKernel, {"", {{"delete_old_dirs", false}, {"allow_missing_files", false}}},
                      {&from, &to});
}

class HostileFiles : public ::testing::Test {
 protected:
  float Value(const std::string& prefix) {
    float value = -1;
    const Outcome outcome = Restore(prefix, &value);
    EXPECT_TRUE(outcome.ok()) << outcome.message;
    return value;
  }
  // The new checkpoint counts, its data have their name, its index does not yet.
  void KillBetweenTheRenames() {
    ASSERT_TRUE(Save("m", 1).ok());
    std::string old_index = disk.files["m.index"];
    ASSERT_TRUE(Save("m", 2).ok());
    disk.files["m.index.tmp"] = std::exchange(disk.files["m.index"], old_index);
    ASSERT_EQ(Value("m"), 2);
  }
  static Tensor Large() { return Make<float>({1 << 20}, std::vector<float>(1 << 20, 5)); }

  MemoryFiles disk;
  testing::UseFiles use{&disk};
};

// ---- What cannot be read at the moment ----

TEST_F(HostileFiles, AFailureToReadLosesNoCheckpoint) {
  // What a read may end with for a while: too many files, no memory, a loose cable (which the system calls an error of
  // input), a slow server.
  for (const uint32_t code :
       {TENON_RESOURCE_EXHAUSTED, TENON_DATA_LOSS, TENON_UNAVAILABLE, TENON_PERMISSION_DENIED, TENON_OUT_OF_RANGE}) {
    for (const char* operation : {"open_read", "read_at"}) {
      for (const bool temporary_only : {true, false}) {
        disk = MemoryFiles();
        KillBetweenTheRenames();
        disk.on_call = [&](std::string_view what, std::string_view path) -> uint32_t {
          return what == operation && (!temporary_only || path.ends_with(".index.tmp")) ? code : TENON_OK;
        };
        const Outcome failed = Save("m", 3);
        EXPECT_EQ(failed.code, code) << operation << ": " << failed.message;
        float value = 0;
        EXPECT_EQ(Restore("m", &value).code, code) << operation << ": the older index is not the answer";
        disk.on_call = nullptr;
        EXPECT_EQ(Value("m"), 2) << operation << " " << code;
        EXPECT_TRUE(Save("m", 4).ok());
        EXPECT_EQ(Value("m"), 4);
        EXPECT_EQ(disk.files.size(), 2u);
      }
    }
  }
}

TEST_F(HostileFiles, AMergeThatCannotReadLosesNoCheckpoint) {
  KillBetweenTheRenames();
  ASSERT_TRUE(Save("part", 3).ok());
  disk.on_call = [](std::string_view what, std::string_view path) -> uint32_t {
    return what == "read_at" && path == "m.index.tmp" ? TENON_DATA_LOSS : TENON_OK;
  };
  EXPECT_FALSE(Merge({"part"}, "m").ok());
  disk.on_call = nullptr;
  EXPECT_EQ(Value("m"), 2);
  EXPECT_EQ(Value("part"), 3);
}

TEST_F(HostileFiles, AnIndexThatIsNotFinishedIsRemoved) {
  ASSERT_TRUE(Save("m", 1).ok());
  disk.files["m.index.tmp"] = disk.files["m.index"].substr(0, 20);
  EXPECT_EQ(Value("m"), 1);
  EXPECT_TRUE(Save("m", 2).ok());
  EXPECT_EQ(Value("m"), 2);
  EXPECT_EQ(disk.files.size(), 2u);
}

// ---- Two writers ----

// At each call of a save, another one of the same checkpoint begins and ends.
TEST_F(HostileFiles, ASecondWriterIsRefusedAtAnyMoment) {
  for (const bool merges : {false, true}) {
    int refused = 0;
    bool finished = false;
    for (int moment = 1; !finished; ++moment) {
      disk = MemoryFiles();
      ASSERT_TRUE(Save("m", 1).ok());
      ASSERT_TRUE(Save("part", 3).ok());
      int call = 0;
      std::string said;
      uint32_t code = TENON_OK;
      disk.on_call = [&](std::string_view, std::string_view) -> uint32_t {
        if (++call != moment) return TENON_OK;
        const Outcome rival = merges ? Merge({"part"}, "m") : Save("m", 3);
        code = rival.code;
        said = rival.message;
        return TENON_OK;
      };
      const Outcome first = Save("m", 2);
      finished = call < moment;
      disk.on_call = nullptr;
      EXPECT_TRUE(first.ok()) << first.message;
      if (code == TENON_ABORTED) {
        ++refused;
        EXPECT_NE(said.find("the checkpoint m is being written by "), std::string::npos) << said;
        EXPECT_EQ(Value("part"), 3);
      } else {
        EXPECT_EQ(code, TENON_OK) << said;
      }
      EXPECT_EQ(Value("m"), 2) << "moment " << moment;
      EXPECT_TRUE(Save("m", 4).ok());
      EXPECT_EQ(Value("m"), 4) << "moment " << moment;
    }
    EXPECT_GT(refused, 5);
  }
}

TEST_F(HostileFiles, ASecondWriterIsToldTheFirstOnesProcess) {
  std::string said;
  bool once = true;
  disk.on_call = [&](std::string_view, std::string_view path) -> uint32_t {
    if (path.ends_with(".data-00000-of-00001.tmp") && std::exchange(once, false)) said = Save("m", 3).message;
    return TENON_OK;
  };
  ASSERT_TRUE(Save("m", 2).ok());
  EXPECT_NE(said.find("process " + std::to_string(getpid())), std::string::npos) << said;
}

TEST_F(HostileFiles, ALockThatADeadWriterLeftMeansNothing) {
  disk.files["m.lock"] = "process 1\n";
  EXPECT_TRUE(Save("m", 2).ok());
  EXPECT_EQ(disk.files.size(), 2u);
}

// As a cleaner that takes the writer for dead would.
TEST_F(HostileFiles, DataThatSomebodyTakesAwayEndTheSave) {
  ASSERT_TRUE(Save("m", 1).ok());
  disk.on_call = [&](std::string_view what, std::string_view path) -> uint32_t {
    if (what == "rename" && path.ends_with(".data-00000-of-00001.tmp")) disk.files.erase("m.data-00000-of-00001.tmp");
    return TENON_OK;
  };
  EXPECT_FALSE(Save("m", 2).ok());
  disk.on_call = nullptr;
  EXPECT_EQ(Value("m"), 1);
}

TEST_F(HostileFiles, WhoReadsWhileAnotherWritesGetsOneOfTheTwo) {
  for (int moment = 1, reads = 2; moment <= reads; ++moment) {
    disk = MemoryFiles();
    ASSERT_TRUE(Save("m", 1).ok());
    int call = 0;
    disk.on_call = [&](std::string_view, std::string_view) -> uint32_t {
      if (++call == moment) {
        EXPECT_TRUE(Save("m", 2).ok());
      }
      return TENON_OK;
    };
    const float value = Value("m");
    EXPECT_TRUE(value == 1 || value == 2) << value << " at " << moment;
    reads = call < 1000 ? call : 0;
  }
}

// ---- Time and memory ----

std::string IndexOf(int64_t shards, const std::vector<std::pair<std::string, io::BundleEntry>>& entries = {}) {
  io::BundleHeader header;
  header.shards = shards;
  std::vector<io::TableEntry> table = {{"", header.Serialize()}};
  for (const auto& [name, entry] : entries) table.push_back({name, entry.Serialize()});
  return io::BuildTable(table);
}

TEST_F(HostileFiles, AnIndexOfMoreShardsThanThereAreFilesIsNoWork) {
  ASSERT_TRUE(Save("m", 1).ok());
  disk.files["m.index.tmp"] = IndexOf(INT32_MAX);
  disk.calls = 0;
  // A bound, so that the test ends where there is none.
  disk.on_call = [&](std::string_view, std::string_view) -> uint32_t {
    return disk.calls > 100000 ? TENON_INTERNAL : TENON_OK;
  };
  EXPECT_EQ(Value("m"), 1);
  const Outcome saved = Save("m", 2);
  EXPECT_TRUE(saved.ok()) << saved.message;
  EXPECT_LT(disk.calls, 60);
  EXPECT_EQ(Value("m"), 2);
}

TEST_F(HostileFiles, NumbersOfShardsThatAreNoneAreRefused) {
  ASSERT_TRUE(Save("p", 1).ok());
  ASSERT_TRUE(Save("m", 1).ok());
  for (const int64_t shards : {int64_t{-1}, int64_t{0}, int64_t{1} << 31, (int64_t{1} << 32) + 1, INT64_MAX}) {
    disk.files["m.index"] = IndexOf(shards);
    float value = 0;
    EXPECT_EQ(Restore("m", &value).code, TENON_DATA_LOSS) << shards;
    EXPECT_EQ(Merge({"m", "p"}, "q").code, TENON_DATA_LOSS) << shards;
  }
  io::BundleEntry entry;
  entry.dtype = TENON_DT_FLOAT;
  entry.size = 4;
  for (const int64_t shard : {int64_t{1}, int64_t{INT32_MAX}, (int64_t{1} << 32)}) {
    entry.shard = shard;
    disk.files["m.index"] = IndexOf(1, {{"a", entry}});
    EXPECT_EQ(Merge({"p", "m"}, "q").code, TENON_DATA_LOSS) << shard;
    EXPECT_EQ(Value("p"), 1);
  }
  // Each is good; together they are too many.
  disk.files["m.index"] = disk.files["n.index"] = IndexOf(INT32_MAX - 1);
  const Outcome sum = Merge({"m", "n"}, "q");
  EXPECT_EQ(sum.code, TENON_INVALID_ARGUMENT) << sum.message;
}

TEST_F(HostileFiles, MergingACheckpointIntoItselfLosesNothing) {
  ASSERT_TRUE(Save("m", 1).ok());
  ASSERT_TRUE(Save("n", "b", Make<float>({1}, {2})).ok());
  EXPECT_TRUE(Merge({"m"}, "m").ok());
  EXPECT_EQ(Merge({"m", "n"}, "m").code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Value("m"), 1);
}

// A table whose index names the same block so often.
std::string TableOfOneBlock(uint64_t times) {
  const auto finish = [](std::string& file, size_t begin) {
    file.push_back(0);
    sdk::PutFixed32(file, sdk::MaskCrc32c(sdk::Crc32c(std::string_view(file).substr(begin))));
  };
  // Restarts and no entries: a block that is large and empty.
  constexpr uint32_t kRestarts = 1 << 14;
  std::string file(kRestarts * 4, '\0');
  sdk::PutFixed32(file, kRestarts);
  const size_t block_size = file.size();
  finish(file, 0);
  const size_t index_at = file.size();
  for (uint64_t i = 0; i < times; ++i) {
    std::string handle;
    sdk::PutVarint(handle, 0);
    sdk::PutVarint(handle, block_size);
    file += {0, 0, static_cast<char>(handle.size())};
    file += handle;
  }
  sdk::PutFixed32(file, 0);
  sdk::PutFixed32(file, 1);
  const size_t index_size = file.size() - index_at;
  finish(file, index_at);
  std::string footer;
  for (uint64_t number : {uint64_t{0}, uint64_t{0}, uint64_t{index_at}, uint64_t{index_size}})
    sdk::PutVarint(footer, number);
  footer.resize(40, '\0');
  sdk::PutFixed64(footer, 0xdb4775248b80fb57u);
  return file + footer;
}

TEST_F(HostileFiles, BlocksThatOverlapAreSummedOnce) {
  disk.files["m.index"] = TableOfOneBlock(200);
  uint64_t reads = 0;
  disk.on_call = [&](std::string_view what, std::string_view) -> uint32_t {
    reads += what == "read_at";
    return TENON_OK;
  };
  float value = 0;
  const Outcome outcome = Restore("m", &value);
  EXPECT_EQ(outcome.code, TENON_DATA_LOSS);
  EXPECT_NE(outcome.message.find("before the end of the block before it"), std::string::npos) << outcome.message;
  EXPECT_LT(reads, 8u);
}

// Keys that each share all of a long one: 3 bytes in the file, a megabyte in memory.
TEST_F(HostileFiles, KeysThatAreLargerThanTheFileAreRefused) {
  std::string block;
  const std::string first(1 << 16, 'k');
  const auto add = [&](uint64_t shared, std::string_view rest) {
    sdk::PutVarint(block, shared);
    sdk::PutVarint(block, rest.size());
    sdk::PutVarint(block, 0);
    block += rest;
  };
  add(0, "");
  add(0, first);
  for (int i = 1; i < 20000; ++i)
    add(first.size(), {std::string(1, static_cast<char>(i >> 8)) + static_cast<char>(i & 0xff)});
  sdk::PutFixed32(block, 0);
  sdk::PutFixed32(block, 1);
  const size_t size = block.size();
  const auto finish = [](std::string& file, size_t begin) {
    file.push_back(0);
    sdk::PutFixed32(file, sdk::MaskCrc32c(sdk::Crc32c(std::string_view(file).substr(begin))));
  };
  finish(block, 0);
  const size_t index_at = block.size();
  std::string handle;
  sdk::PutVarint(handle, 0);
  sdk::PutVarint(handle, size);
  block += {0, 0, static_cast<char>(handle.size())};
  block += handle;
  sdk::PutFixed32(block, 0);
  sdk::PutFixed32(block, 1);
  const size_t index_size = block.size() - index_at;
  finish(block, index_at);
  std::string footer;
  for (uint64_t number : {uint64_t{0}, uint64_t{0}, uint64_t{index_at}, uint64_t{index_size}})
    sdk::PutVarint(footer, number);
  footer.resize(40, '\0');
  sdk::PutFixed64(footer, 0xdb4775248b80fb57u);
  disk.files["m.index"] = block + footer;
  float value = 0;
  const Outcome outcome = Restore("m", &value);
  EXPECT_EQ(outcome.code, TENON_DATA_LOSS);
  EXPECT_NE(outcome.message.find("far larger than the file"), std::string::npos) << outcome.message;
}

// ---- Cancellation ----

// The step is cancelled at each call of the file system: few calls follow, and what was there is there.
TEST_F(HostileFiles, ACancelledSaveStopsAndKeepsWhatWasThere) {
  int stopped = 0;
  bool finished = false;
  for (int moment = 1; !finished; ++moment) {
    disk = MemoryFiles();
    ASSERT_TRUE(Save("m", "a", Make<float>({1}, {1})).ok());
    int call = 0;
    disk.on_call = [&](std::string_view, std::string_view) -> uint32_t {
      cancelled = ++call >= moment;
      return TENON_OK;
    };
    const Outcome outcome = Save("m", "a", Large());  // of four chunks
    finished = call < moment;
    disk.on_call = nullptr;
    cancelled = false;
    if (!outcome.ok()) {
      ++stopped;
      EXPECT_EQ(outcome.code, TENON_CANCELLED) << outcome.message;
      EXPECT_LE(call - moment, 8) << "moment " << moment;
      EXPECT_EQ(Value("m"), 1);
    } else {
      EXPECT_EQ(Value("m"), 5);
    }
    EXPECT_EQ(disk.files.size(), 2u) << "moment " << moment;
  }
  EXPECT_GT(stopped, 6);
}

TEST_F(HostileFiles, ACancelledRestoreStops) {
  ASSERT_TRUE(Save("m", "a", Large()).ok());
  std::vector<int> after;
  bool finished = false;
  for (int moment = 1; !finished; ++moment) {
    int call = 0;
    disk.on_call = [&](std::string_view, std::string_view) -> uint32_t {
      cancelled = ++call >= moment;
      return TENON_OK;
    };
    float value = 0;
    const Outcome outcome = Restore("m", &value);
    finished = call < moment;
    disk.on_call = nullptr;
    cancelled = false;
    if (outcome.ok()) continue;
    EXPECT_EQ(outcome.code, TENON_CANCELLED) << outcome.message;
    after.push_back(call - moment);
  }
  ASSERT_GT(after.size(), 6u);
  EXPECT_LE(*std::max_element(after.begin(), after.end()), 2);
}

}  // namespace
}  // namespace tenon::ops::hostile_files_test
