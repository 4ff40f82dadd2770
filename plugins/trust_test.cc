// SPDX-License-Identifier: Apache-2.0
// Libraries that others may write, or put another in the place of. Root can make such files for another user; who is
// not root tests what it can.
#include "plugins/trust.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/library.h"
#include "plugins/loader.h"
#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::trust_test {
namespace {

constexpr uid_t kNobody = 65534;

class TrustTest : public testing::Test {
 protected:
  // Found by search, with the others of its folder.
  LoadReport Found(const std::string& folder, const std::string& library) const {
    LoaderOptions options;
    options.search.paths = {folder};
    options.search.explicit_only = true;
    Loader loader(&TestHost(), options);
    loader.Scan();
    for (const LoadReport& report : loader.reports())
      if (report.path == library) return report;
    return {};
  }
  static LoadReport Named(const std::string& library, bool allow = false) {
    LoaderOptions options;
    options.search.explicit_only = true;
    options.allow_untrusted = allow;
    Loader loader(&TestHost(), options);
    return loader.OpenFile(library).report;
  }
  void ExpectRefused(const LoadReport& report, const std::string& part) {
    EXPECT_EQ(report.outcome, Outcome::kRejected) << report.text;
    EXPECT_EQ(ReasonName(report.reason), "NOT_TRUSTED") << report.text;
    EXPECT_NE(report.text.find(part), std::string::npos) << report.text;
    EXPECT_NE(report.hint.find("chmod go-w"), std::string::npos) << report.hint;
  }
  const TemporaryFolder folder_;
};

TEST_F(TrustTest, ALibraryThatEverybodyMayWriteIsRefused) {
  const std::string path = folder_.Copy("good");
  EXPECT_EQ(Named(path).reason, Reason::kOk);
  chmod(path.c_str(), 0757);
  ExpectRefused(Found(folder_.path(), path), "it is no place to load a library from: everybody may write it");
  ExpectRefused(Named(path), "everybody may write it");
  EXPECT_EQ(Named(path, /*allow=*/true).reason, Reason::kOk);
}

TEST_F(TrustTest, SoIsOneInAFolderThatEverybodyMayWrite) {
  const std::string path = folder_.Copy("good");
  chmod(folder_.path().c_str(), 0777);
  ExpectRefused(Found(folder_.path(), path), "'" + folder_.path() + "', through which it is found, is no place");
  ExpectRefused(Named(path), "everybody may write it");
  chmod(folder_.path().c_str(), 01777);
  EXPECT_EQ(Named(path).reason, Reason::kOk) << "the sticky bit keeps it from being replaced";
}

TEST_F(TrustTest, AndOneThatALinkInSuchAFolderLeadsTo) {
  const TemporaryFolder own;
  const std::string real = own.Copy("good"), link = folder_.At("good.so");
  std::filesystem::create_symlink(real, link);
  chmod(folder_.path().c_str(), 0777);
  ExpectRefused(Found(folder_.path(), link), folder_.path());
  chmod(folder_.path().c_str(), 0700);
  chmod(own.path().c_str(), 0777);
  ExpectRefused(Found(folder_.path(), link), own.path());
  chmod(own.path().c_str(), 0700);
}

// A manifest has a say in what is loaded: it needs the same right.
TEST_F(TrustTest, AManifestBesideItThatEverybodyMayWriteIsRefused) {
  const std::string path = folder_.Copy("good");
  const std::string manifest = folder_.Write("good.so.json", "{}");
  chmod(manifest.c_str(), 0666);
  ExpectRefused(Found(folder_.path(), path), "its manifest " + manifest);
}

TEST_F(TrustTest, AnotherUsersLibraryIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIPPED LOUDLY: only root can give a file to another user";
  const std::string path = folder_.Copy("good");
  ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
  ExpectRefused(Found(folder_.path(), path), "user 65534 owns it, who is neither this one (0) nor root");
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder_.path().c_str(), kNobody, kNobody), 0);
  ExpectRefused(Found(folder_.path(), path), "user 65534 owns it");
  ASSERT_EQ(chown(folder_.path().c_str(), 0, 0), 0);
  EXPECT_EQ(Named(path).reason, Reason::kOk);
}

// The attack: a folder of another's with a library whose manifest says that it is a newer version of a real package.
TEST_F(TrustTest, AForeignFolderShadowsNoPackage) {
  const TemporaryFolder foreign;
  const std::string planted = foreign.Copy("bare", "planted.so"), real = folder_.Copy("variant_v1");
  std::ostringstream hash;
  hash << std::hex << TENON_LAYOUT_HASH;
  foreign.Write(
      "planted.so.json",
      StrCat("{\"tenon_manifest\": 1, \"id\": \"test.variant\", \"version\": \"99.0.0\", \"abi\": {\"major\": ",
             TENON_ABI_MAJOR, ", \"minor\": 0, \"layout_hash\": \"", hash.str(), "\"}}"));
  chmod(foreign.path().c_str(), 0777);
  LoaderOptions options;
  options.search.paths = {foreign.path(), folder_.path()};
  options.search.explicit_only = true;
  Loader loader(&TestHost(), options);
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_EQ(loader.packages()[0]->path, real);
}

TEST_F(TrustTest, GroupsAreOthersUnlessTheyAreTheUsersOwn) {
  const Trust trust(1000);
  struct stat info = {};
  info.st_mode = S_IFREG | 0775;
  info.st_uid = 1000;
  info.st_gid = 1000;
  EXPECT_EQ(trust.Wrong(info), "");
  info.st_gid = 100;
  EXPECT_EQ(trust.Wrong(info), "the group 100 may write it");
  info.st_mode = S_IFDIR | S_ISVTX | 0777;
  EXPECT_EQ(trust.Wrong(info), "");
  info.st_uid = 1001;
  EXPECT_EQ(trust.Wrong(info), "user 1001 owns it, who is neither this one (1000) nor root");
  info.st_uid = 0;
  info.st_mode = S_IFREG | 0755;
  EXPECT_EQ(trust.Wrong(info), "");
}

TEST_F(TrustTest, ALibraryThatWasReplacedAfterItWasLookedAtIsNotOpened) {
  const std::string path = folder_.Copy("good");
  LoadReport report;
  const auto elf = ReadElf(path, &report);
  ASSERT_TRUE(elf.has_value());
  const std::string other =
      folder_.Copy("missing_symbol", "other.so");  // which could not be opened, and would give another reason
  std::filesystem::rename(other, path);
  EXPECT_EQ(Library::Open(path, elf->stamp, elf->wanted, &report), nullptr);
  EXPECT_EQ(ReasonName(report.reason), "CHANGED");
}

}  // namespace
}  // namespace tenon::plugins::trust_test
