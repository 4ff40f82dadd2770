// SPDX-License-Identifier: Apache-2.0
// Folders and files that nobody else can plant or read.
#include "sdk/app/cli/cluster/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::private_folder_test {
namespace {

namespace fs = std::filesystem;

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(PrivateFolder, IsThisUsersAloneAndGoesWithWhatItHas) {
  std::string path;
  {
    auto folder = PrivateFolder::Make("tenon_test");
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = folder->path();
    EXPECT_EQ(ModeOf(path), 0700u);
    ASSERT_TRUE(WriteNewFile(path + "/a", "text").ok());
    EXPECT_EQ(ModeOf(path + "/a"), 0600u);
    EXPECT_EQ(Contents(path + "/a"), "text");
    EXPECT_EQ(WriteNewFile(path + "/a", "other").code(), host::Code::kAlreadyExists);
    const PrivateFolder moved = std::move(*folder);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(PrivateFolder, TakesARuntimeFolderThatIsPrivateAlone) {
  const std::string runtime = fakes::TemporaryFolder("runtime");
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  EXPECT_TRUE(PrivateFolder::Make("tenon_test")->path().starts_with(runtime + "/"));
  fs::permissions(runtime, fs::perms::all);
  EXPECT_FALSE(PrivateFolder::Make("tenon_test")->path().starts_with(runtime + "/"));
  if (kept) setenv("XDG_RUNTIME_DIR", kept->c_str(), 1);
  else unsetenv("XDG_RUNTIME_DIR");
}

TEST(PrivateFolder, APlantedLinkIsNotWrittenThrough) {
  const std::string folder = fakes::TemporaryFolder("planted");
  const std::string victim = folder + "/victim", planted = folder + "/planted", nowhere = folder + "/nowhere";
  std::ofstream(victim) << "mine";
  fs::create_symlink(victim, planted);
  fs::create_symlink(folder + "/new", nowhere);
  EXPECT_EQ(WriteNewFile(planted, "theirs").code(), host::Code::kAlreadyExists);
  EXPECT_EQ(WriteNewFile(nowhere, "theirs").code(), host::Code::kAlreadyExists);
  EXPECT_TRUE(PutFile(planted, "theirs").ok());
  EXPECT_EQ(Contents(victim), "mine");
  EXPECT_EQ(Contents(planted), "theirs");
  EXPECT_FALSE(fs::is_symlink(planted));
  EXPECT_FALSE(fs::exists(folder + "/new"));
}

TEST(PrivateFolder, DigitsAreNotTheSameTwice) {
  const auto a = RandomDigits(32), b = RandomDigits(32);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size(), 64u);
  EXPECT_NE(*a, *b);
}

}  // namespace
}  // namespace tenon::cli::private_folder_test
