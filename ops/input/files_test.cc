// SPDX-License-Identifier: Apache-2.0
// Whole files, and names of files by patterns, over files in memory. What is expected is TensorFlow's answer on such a
// tree.
#include <gtest/gtest.h>

#include <chrono>

#include "tenon/extras/file/glob.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::ops {
extern const tenon_kernel_registration kReadFileKernel, kWriteFileKernel, kMatchingFilesKernel;
}  // namespace tenon::ops

namespace tenon::ops::files_test {
namespace {

using testing::Node;
using testing::Outcome;
using testing::Tensor;
using Names = std::vector<std::string>;

class Files : public ::testing::Test {
 protected:
  Names Matching(const Names& patterns) {
    const Tensor input = testing::Strings({static_cast<int64_t>(patterns.size())}, patterns);
    outcome_ = step_.Run(kMatchingFilesKernel, {"MatchingFiles", {}, {TENON_DT_STRING}, {TENON_DT_STRING}}, {&input});
    return outcome_.ok() ? testing::Texts(step_.outputs[0]) : Names();
  }
  std::string Read(const std::string& name) {
    const Tensor input = testing::Strings({}, {name});
    outcome_ = step_.Run(kReadFileKernel, {"ReadFile", {}, {TENON_DT_STRING}, {TENON_DT_STRING}}, {&input});
    return outcome_.ok() ? testing::Texts(step_.outputs[0])[0] : outcome_.text();
  }
  std::string Write(const std::string& name, const std::string& text) {
    const Tensor input = testing::Strings({}, {name}), contents = testing::Strings({}, {text});
    return step_.Run(kWriteFileKernel, {"WriteFile", {}, {TENON_DT_STRING, TENON_DT_STRING}, {}}, {&input, &contents})
        .text();
  }
  testing::MemoryFiles disk_;
  testing::UseFiles use_{&disk_};
  testing::KernelRunner step_;
  Outcome outcome_;
};

TEST_F(Files, AreReadAndWrittenWhole) {
  EXPECT_EQ(Write("/new/folder/f", std::string("a\0b", 3)), "");
  EXPECT_TRUE(disk_.folders.contains("/new/folder"));
  EXPECT_EQ(Read("/new/folder/f"), std::string("a\0b", 3));
  EXPECT_EQ(Write("/new/folder/f", ""), "");
  EXPECT_EQ(Read("/new/folder/f"), "");
  disk_.files["/shrinks"] = std::string(20 << 20, 'x');
  disk_.on_call = [&](std::string_view operation, std::string_view) {
    if (operation == "read_at") disk_.files["/shrinks"].resize(17 << 20);
    return TENON_OK;
  };
  EXPECT_EQ(Read("/shrinks").substr(0, 10), "DATA_LOSS:");
  disk_.on_call = nullptr;
  EXPECT_EQ(Read("/nope"), "NOT_FOUND: open /nope: no such file");
  disk_.fail_at = disk_.operations + 2;
  EXPECT_EQ(Write("/new/g", "x"), "RESOURCE_EXHAUSTED: write /new/g: no space left");
}

TEST_F(Files, MatchAsInTensorFlow) {
  for (const char* name :
       {"a.txt", "b.txt", ".h.txt", "x*y", "[z]", "s1/a.txt", "s1/t/c.txt", "s2/a.txt", "a.TXT", "ab.c", "s p.txt"})
    disk_.files[std::string("/m/") + name] = "";
  for (const char* name : {"/m", "/m/s1", "/m/s1/t", "/m/s2"}) disk_.folders.insert(name);
  const auto expect = [&](const std::string& pattern, const Names& names) {
    Names whole;
    for (const std::string& name : names) whole.push_back("/m/" + name);
    EXPECT_EQ(Matching({"/m/" + pattern}), whole) << pattern << outcome_.text();
  };
  expect("*", {".h.txt", "[z]", "a.TXT", "a.txt", "ab.c", "b.txt", "s p.txt", "s1", "s2", "x*y"});
  expect("*.txt", {".h.txt", "a.txt", "b.txt", "s p.txt"});
  expect("?.txt", {"a.txt", "b.txt"});
  expect("[ab].txt", {"a.txt", "b.txt"});
  expect("[!a].txt", {"b.txt"});
  expect("[^a].txt", {"b.txt"});
  expect("s*/*.txt", {"s1/a.txt", "s2/a.txt"});
  expect("*/*/c.txt", {"s1/t/c.txt"});
  expect("s1", {"s1"});
  expect("nope", {});
  expect("nope/*", {});
  expect("x\\*y", {"x*y"});
  expect("\\[z\\]", {"[z]"});
  expect("[[]z]", {"[z]"});
  expect("{a,b}.txt", {});
  expect("**/*.txt", {"s1/a.txt", "s2/a.txt"});
  expect("s1/**", {"s1/a.txt", "s1/t"});
  expect("a.t[a-z]t", {"a.txt"});
  expect("[a", {});
  expect("s1/*/", {"s1/a.txt", "s1/t"});
  EXPECT_EQ(Matching({}), Names());
  EXPECT_EQ(Matching({""}), Names());
  EXPECT_EQ(Matching({"/m/b.txt", "/m/a.txt", "/m/[ab].txt"}), (Names{"/m/a.txt", "/m/a.txt", "/m/b.txt", "/m/b.txt"}));
}

TEST_F(Files, MatchInTheTimeOfBothLengths) {
  std::string pattern;
  for (int i = 0; i < 5000; ++i) pattern += "*a";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(sdk::glob::Matches(pattern + "b", std::string(5000, 'a')));
  EXPECT_TRUE(sdk::glob::Matches(pattern, std::string(6000, 'a')));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  for (const char* odd : {"[", "[]", "[!", "[!]", "[a-", "[a-]", "[-a]", "\\", "[\\", "[\\]", "[]]", "[!]]", "*[", "?"})
    (void)sdk::glob::Matches(odd, "]");
  EXPECT_TRUE(sdk::glob::Matches("[]]", "]"));
  EXPECT_TRUE(sdk::glob::Matches("[a-]", "-"));
  EXPECT_FALSE(sdk::glob::Matches("[!]]", "]"));
}

}  // namespace
}  // namespace tenon::ops::files_test
