// SPDX-License-Identifier: Apache-2.0
// The tree itself: files, folders, and what a crash leaves of them. Covers J12.
#include "tree.h"

#include <gtest/gtest.h>

#include <random>

#include "tenon/testing/linked.h"

namespace tenon::memory_files::tree_test {
namespace {

using testing::Outcome;
using sdk::OpenMode;

// A tree whose failures are the test's.
class TreeTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tree::File> Open(const std::string& path, OpenMode mode) {
    std::unique_ptr<Tree::File> file;
    const Outcome opened = tree.Open(path, mode, &file);
    EXPECT_TRUE(opened.ok()) << opened.message;
    return file;
  }
  void Write(const std::string& path, const std::string& bytes, bool sync) {
    const auto file = Open(path, OpenMode::kWrite);
    ASSERT_NE(file, nullptr);
    EXPECT_TRUE(Outcome(file->Write(bytes.data(), bytes.size())).ok());
    if (sync) {
      EXPECT_TRUE(Outcome(file->Sync()).ok());
    }
  }
  std::string Read(const std::string& path) {
    const auto file = Open(path, OpenMode::kRead);
    if (file == nullptr) return "?";
    uint64_t size = 0;
    EXPECT_TRUE(Outcome(file->Size(&size)).ok());
    std::string bytes(size, '\0');
    EXPECT_TRUE(Outcome(file->ReadAt(0, bytes.data(), size)).ok());
    return bytes;
  }
  uint32_t OpenCode(const std::string& path, OpenMode mode) {
    std::unique_ptr<Tree::File> file;
    return Outcome(tree.Open(path, mode, &file)).code;
  }
  std::vector<std::string> List(const std::string& path) {
    std::vector<std::string> names;
    EXPECT_TRUE(Outcome(tree.List(path, &names)).ok());
    return names;
  }
  Tree tree;
};

TEST_F(TreeTest, KeepsWhatIsWritten) {
  ASSERT_TRUE(Outcome(tree.MakeDirectory("memory://a")).ok());
  Write("memory://a/x", "one", false);
  EXPECT_EQ(Read("memory://a/x"), "one");
  const auto more = Open("memory://a/x", OpenMode::kAppend);
  ASSERT_TRUE(Outcome(more->Write(" two", 4)).ok());
  EXPECT_EQ(Read("memory://a/x"), "one two");
  Write("memory://a/x", "new", false);
  EXPECT_EQ(Read("memory://a/x"), "new");
  Write("memory://a-b", "", false);
  EXPECT_EQ(List("memory://"), (std::vector<std::string>{"a", "a-b"}));
  EXPECT_EQ(List("memory://a"), std::vector<std::string>{"x"});
}

TEST_F(TreeTest, NoPathLeadsOut) {
  Write("memory://../../top", "here", false);
  EXPECT_EQ(Read("memory:///top"), "here");
  EXPECT_EQ(Read("memory://nowhere/.././//top"), "here");
  EXPECT_EQ(List("memory://.."), std::vector<std::string>{"top"});
  EXPECT_EQ(OpenCode("memory://..", OpenMode::kWrite), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(tree.Remove("memory://x/..")).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(tree.Rename("memory://top", "memory://top/../..")).code, TENON_INVALID_ARGUMENT);
}

TEST_F(TreeTest, SaysWhatIsNotThere) {
  std::unique_ptr<Tree::File> file;
  const Outcome missing = tree.Open("memory://a/x", OpenMode::kRead, &file);
  EXPECT_EQ(missing.code, TENON_NOT_FOUND);
  EXPECT_EQ(missing.message, "cannot read 'memory://a/x': there is no such file or folder");
  EXPECT_EQ(OpenCode("memory://a/x", OpenMode::kWrite), TENON_NOT_FOUND) << "no folder for it";
  EXPECT_EQ(Outcome(tree.Remove("memory://a")).code, TENON_NOT_FOUND);
  EXPECT_EQ(Outcome(tree.Rename("memory://a", "memory://b")).code, TENON_NOT_FOUND);
  EXPECT_EQ(Outcome(tree.SyncDirectory("memory://a")).code, TENON_NOT_FOUND);
  EXPECT_FALSE(tree.Exists("memory://a"));
  EXPECT_TRUE(tree.Exists("memory://"));
}

TEST_F(TreeTest, AFileIsNoFolderAndAFolderNoFile) {
  Write("memory://f", "x", false);
  ASSERT_TRUE(Outcome(tree.MakeDirectory("memory://d")).ok());
  EXPECT_EQ(OpenCode("memory://f/x", OpenMode::kWrite), TENON_NOT_FOUND);
  EXPECT_EQ(OpenCode("memory://d", OpenMode::kRead), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Outcome(tree.MakeDirectory("memory://f")).code, TENON_ALREADY_EXISTS);
  EXPECT_TRUE(Outcome(tree.MakeDirectory("memory://d")).ok()) << "is there already";
  Write("memory://d/x", "x", false);
  EXPECT_EQ(Outcome(tree.Remove("memory://d")).code, TENON_FAILED_PRECONDITION) << "not empty";
  EXPECT_EQ(Outcome(tree.Rename("memory://d", "memory://e")).code, TENON_UNIMPLEMENTED);
}

TEST_F(TreeTest, ReadsNothingThatIsNotThere) {
  Write("memory://x", "12345", false);
  const auto file = Open("memory://x", OpenMode::kRead);
  char target[8] = "-------";
  EXPECT_EQ(Outcome(file->ReadAt(3, target, 3)).code, TENON_OUT_OF_RANGE);
  EXPECT_EQ(Outcome(file->ReadAt(UINT64_MAX, target, 2)).code, TENON_OUT_OF_RANGE);
  EXPECT_EQ(Outcome(file->ReadAt(1, target, UINT64_MAX)).code, TENON_OUT_OF_RANGE);
  EXPECT_STREQ(target, "-------");
  EXPECT_EQ(Outcome(file->Write("x", 1)).code, TENON_FAILED_PRECONDITION) << "it is open for reading";
  EXPECT_EQ(Outcome(Open("memory://x", OpenMode::kAppend)->ReadAt(0, target, 1)).code, TENON_FAILED_PRECONDITION);
}

TEST_F(TreeTest, AFileThatIsRemovedStaysForWhoHasItOpen) {
  Write("memory://x", "12345", false);
  const auto file = Open("memory://x", OpenMode::kRead);
  ASSERT_TRUE(Outcome(tree.Remove("memory://x")).ok());
  EXPECT_FALSE(tree.Exists("memory://x"));
  uint64_t size = 0;
  ASSERT_TRUE(Outcome(file->Size(&size)).ok());
  EXPECT_EQ(size, 5u);
}

TEST_F(TreeTest, ACrashLeavesWhatWasSynced) {
  Write("memory://bytes_and_name", "kept", true);
  Write("memory://name", "lost", false);
  ASSERT_TRUE(Outcome(tree.SyncDirectory("memory://")).ok());
  {
    const auto file = Open("memory://bytes_and_name", OpenMode::kAppend);
    ASSERT_TRUE(Outcome(file->Write("+", 1)).ok());
    Write("memory://bytes", "kept by nobody", true);
    tree.Crash();
    EXPECT_EQ(Outcome(file->Write("+", 1)).code, TENON_UNAVAILABLE) << "it was open";
  }
  EXPECT_EQ(List("memory://"), (std::vector<std::string>{"bytes_and_name", "name"}));
  EXPECT_EQ(Read("memory://bytes_and_name"), "kept");
  EXPECT_EQ(Read("memory://name"), "");
}

TEST_F(TreeTest, ARenameLastsWhenItsFolderWasSynced) {
  Write("memory://old", "1", true);
  ASSERT_TRUE(Outcome(tree.SyncDirectory("memory://")).ok());
  ASSERT_TRUE(Outcome(tree.Rename("memory://old", "memory://new")).ok());
  tree.Crash();
  EXPECT_EQ(List("memory://"), std::vector<std::string>{"old"});
  ASSERT_TRUE(Outcome(tree.Rename("memory://old", "memory://new")).ok());
  ASSERT_TRUE(Outcome(tree.SyncDirectory("memory://")).ok());
  tree.Crash();
  EXPECT_EQ(List("memory://"), std::vector<std::string>{"new"});
}

TEST_F(TreeTest, WhatLiesInAFolderThatIsLostIsLost) {
  ASSERT_TRUE(Outcome(tree.MakeDirectory("memory://d")).ok());
  Write("memory://d/x", "1", true);
  ASSERT_TRUE(Outcome(tree.SyncDirectory("memory://d")).ok());
  tree.Crash();
  EXPECT_TRUE(List("memory://").empty());
}

TEST_F(TreeTest, RandomPathsStayInside) {
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string path = "memory://";
    for (uint32_t length = random() % 12; length > 0; --length) path += "./a"[random() % 3];
    const std::string inside = sdk::PathInside(path);
    EXPECT_EQ(inside.find("//"), std::string::npos) << path;
    EXPECT_FALSE(inside.starts_with('/') || inside.ends_with('/')) << path;
    EXPECT_EQ(("/" + inside + "/").find("/../"), std::string::npos) << path;
    EXPECT_EQ(sdk::PathInside("memory://" + inside), inside) << path;
  }
}

}  // namespace
}  // namespace tenon::memory_files::tree_test
