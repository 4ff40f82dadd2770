// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/tuning_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tenon::exec::tuning_cache_test {
namespace {

class Tuning : public ::testing::Test {
 protected:
  Tuning() : folder_(::testing::TempDir() + "tenon_tuning_" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
  }
  ~Tuning() override { std::filesystem::remove_all(folder_); }
  // What another process finds.
  Result<std::string> Found(const std::string& key) {
    TuningCache other;
    TENON_RETURN_IF_ERROR(other.UseFolder(folder_));
    return other.Get(key);
  }
  std::string OnlyFile() const { return std::filesystem::directory_iterator(folder_)->path(); }

  const std::string folder_;
};

TEST_F(Tuning, IsFoundInTheProcessAndInAnother) {
  TuningCache cache;
  ASSERT_TRUE(cache.UseFolder(folder_).ok());
  EXPECT_EQ(cache.Get("key").status().code(), Code::kNotFound);
  cache.Put("key", "algorithm 7");
  EXPECT_EQ(*cache.Get("key"), "algorithm 7");
  EXPECT_EQ(*Found("key"), "algorithm 7");
  EXPECT_EQ(Found("kez").status().code(), Code::kNotFound);
  cache.Put("key", "algorithm 8");
  EXPECT_EQ(*Found("key"), "algorithm 8");
}

TEST_F(Tuning, StaysInTheProcessWithoutAFolder) {
  TuningCache cache;
  cache.Put("key", std::string("a\0b", 3));
  EXPECT_EQ(*cache.Get("key"), std::string("a\0b", 3));
}

TEST_F(Tuning, AFileThatIsNotWholeIsAsNone) {
  TuningCache cache;
  ASSERT_TRUE(cache.UseFolder(folder_).ok());
  cache.Put("key", "algorithm 7");
  const std::string path = OnlyFile();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_EQ(Found("key").status().code(), Code::kNotFound);
  std::ofstream(path, std::ios::app) << '8';
  EXPECT_EQ(Found("key").status().code(), Code::kNotFound) << "whole again, with another last byte";
}

TEST_F(Tuning, WhatOthersMayWriteIsNotUsed) {
  TuningCache cache;
  ASSERT_TRUE(cache.UseFolder(folder_).ok());
  cache.Put("key", "algorithm 7");
  ASSERT_EQ(chmod(OnlyFile().c_str(), 0666), 0);
  EXPECT_EQ(Found("key").status().code(), Code::kNotFound);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const Status status = TuningCache().UseFolder(folder_);
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("others may write"), std::string::npos);
}

TEST_F(Tuning, ALinkIsNotFollowed) {
  TuningCache cache;
  ASSERT_TRUE(cache.UseFolder(folder_).ok());
  cache.Put("key", "algorithm 7");
  const std::string path = OnlyFile(), elsewhere = folder_ + "_elsewhere";
  std::filesystem::rename(path, elsewhere);
  std::filesystem::create_symlink(elsewhere, path);
  EXPECT_EQ(Found("key").status().code(), Code::kNotFound);
  std::filesystem::remove(elsewhere);
}

TEST_F(Tuning, AFullFolderLosesWhatWasWrittenFirst) {
  constexpr size_t kMost = 32;
  TuningCache cache(kMost);
  ASSERT_TRUE(cache.UseFolder(folder_).ok());
  const auto files = [this] { return std::distance(std::filesystem::directory_iterator(folder_), {}); };
  const auto date_newest = [this](int64_t second) {  // not by the clock
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      struct stat info {};
      ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
      const timespec times[2] = {{second, 0}, {second, 0}};
      if (info.st_mtim.tv_sec > 1'000'000) {
        ASSERT_EQ(utimensat(AT_FDCWD, entry.path().c_str(), times, 0), 0);
      }
    }
  };
  const std::string foreign = folder_ + "/notes.txt", left = folder_ + "/0123456789abcdef.tuning.aBcDeF";
  std::ofstream(foreign) << "somebody's";
  date_newest(1);
  for (size_t i = 0; i < kMost; ++i) {
    cache.Put("key " + std::to_string(i), "value");
    date_newest(static_cast<int64_t>(10 + i));
  }
  EXPECT_EQ(files(), kMost + 1);
  cache.Put("key 3", "newer");
  EXPECT_EQ(files(), kMost + 1) << "one that is there needs no room";
  date_newest(100);
  std::ofstream(left) << "of a process that ended meanwhile";
  date_newest(2);
  cache.Put("key 32", "value");
  EXPECT_EQ(files(), kMost - 2 + 1 + 1) << "a sixteenth is free, but for the new one; and the notes";
  for (const size_t gone : {0, 1})
    EXPECT_EQ(Found("key " + std::to_string(gone)).status().code(), Code::kNotFound) << gone;
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_EQ(*Found("key 3"), "newer");
  EXPECT_EQ(*Found("key 2"), "value");
  EXPECT_EQ(*cache.Get("key 0"), "value") << "in the process it stays";
}

TEST_F(Tuning, ForgetsTheOldestWhenItIsFull) {
  TuningCache cache;
  const std::string value(TuningCache::kLargestValue, 'x');
  const size_t most = TuningCache::kMostBytes / TuningCache::kLargestValue;
  for (size_t i = 0; i <= most; ++i) cache.Put("key " + std::to_string(i), value);
  EXPECT_EQ(cache.Get("key 0").status().code(), Code::kNotFound);
  EXPECT_EQ(*cache.Get("key " + std::to_string(most)), value);
}

}  // namespace
}  // namespace tenon::exec::tuning_cache_test
