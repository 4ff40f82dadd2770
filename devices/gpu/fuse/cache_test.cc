// SPDX-License-Identifier: Apache-2.0
// Compiled code on disk: kept and found again, in a folder that is this user's alone.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/cache.h"
#include "tenon/plugin.h"
#include "tests/fakes/temporary_folder.h"

namespace {

int lines = 0;
const tenon_host* Host() {
  static const tenon_host host = [] {
    tenon_host made = {};
    made.log = [](uint32_t, tenon_span) { ++lines; };
    return made;
  }();
  return &host;
}

}  // namespace

const tenon_host* tenon_plugin_host = Host();

namespace tenon::gpu {
namespace {

const std::vector<char> kCode = {'c', 'o', 'd', 'e'};

class CacheTest : public testing::Test {
 protected:
  const std::string folder_ = fakes::TemporaryFolder("code") + "/gpu";
};

TEST_F(CacheTest, GivesWhatWasKept) {
  CodeCache(folder_).Keep("text", kCode);
  EXPECT_EQ(CodeCache(folder_).Find("text"), kCode);
  EXPECT_FALSE(CodeCache(folder_).Find("other").has_value());
  struct stat info = {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(CodeCache("").Find("text").has_value());
}

TEST_F(CacheTest, AFolderThatOthersMayWriteIsNotUsed) {
  CodeCache(folder_).Keep("text", kCode);
  for (const mode_t mode : {0777, 0770, 0702}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_FALSE(CodeCache(folder_).Find("text").has_value()) << std::oct << mode;
    CodeCache(folder_).Keep("more", kCode);
  }
  EXPECT_EQ(lines, 1) << "it is said once";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(CodeCache(folder_).Find("text").has_value());
  EXPECT_FALSE(CodeCache(folder_).Find("more").has_value());
}

TEST_F(CacheTest, NorIsAnotherUsersOrALink) {
  CodeCache(folder_).Keep("text", kCode);
  const std::string link = folder_ + "_link";
  ASSERT_EQ(symlink(folder_.c_str(), link.c_str()), 0);
  EXPECT_FALSE(CodeCache(link).Find("text").has_value());
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED LOUDLY: only root can give a folder to another user";
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(CodeCache(folder_).Find("text").has_value());
}

}  // namespace
}  // namespace tenon::gpu
