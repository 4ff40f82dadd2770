// SPDX-License-Identifier: Apache-2.0
// Files that were granted, and all others: by "..", by links, by names that begin alike.
#include "core/files/granted_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "core/files/files.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::files::granted_files_test {
namespace {

namespace fs = std::filesystem;

class GrantedFilesTest : public testing::Test {
 protected:
  GrantedFilesTest() : top_(fs::canonical(fakes::TemporaryFolder("granted")).string()) {
    for (const char* folder : {"/in", "/in/sub", "/inside_out", "/out"}) fs::create_directory(top_ + folder);
    Put(top_ + "/out/secret", "secret");
    Put(top_ + "/inside_out/secret", "secret");
    Put(top_ + "/in/mine", "mine");
  }
  ~GrantedFilesTest() override { FileGrants::Lift(this); }

  static void Put(const std::string& path, const char* text) { std::ofstream(path) << text; }
  void Grant(const std::vector<std::string>& texts) {
    std::vector<FileGrant> grants;
    for (const std::string& text : texts) {
      auto grant = FileGrant::Parse(text);
      ASSERT_TRUE(grant.ok()) << grant.status().message();
      grants.push_back(*std::move(grant));
    }
    FileGrants::Restrict(this, "/job:worker/task:7", std::move(grants));
  }
  static Status Read(const std::string& path, std::string* out_text = nullptr) {
    tenon_file* file = nullptr;
    TENON_RETURN_IF_ERROR(Status(Files()->open_read(Span(path), &file)));
    uint64_t size = 0;
    Status status(Files()->size(file, &size));
    std::string text(size, '\0');
    if (status.ok()) status = Status(Files()->read_at(file, 0, text.data(), size));
    ReleaseStatus(Files()->close(file));
    if (out_text != nullptr) *out_text = text;
    return status;
  }
  static Status Write(const std::string& path) {
    tenon_file* file = nullptr;
    TENON_RETURN_IF_ERROR(Status(Files()->open_write(Span(path), &file)));
    Status status(Files()->write(file, "new", 3));
    ReleaseStatus(Files()->close(file));
    return status;
  }
  static Status Rename(const std::string& from, const std::string& to) {
    return Status(Files()->rename(Span(from), Span(to)));
  }
  static Status Remove(const std::string& path) { return Status(Files()->remove(Span(path))); }
  static Status MakeFolder(const std::string& path) { return Status(Files()->make_directory(Span(path))); }
  static Status List(const std::string& path, std::vector<std::string>* out) {
    return Status(Files()->list(
        Span(path),
        [](void* names, tenon_span name) { static_cast<std::vector<std::string>*>(names)->emplace_back(View(name)); },
        out));
  }

  const std::string top_;
};

TEST_F(GrantedFilesTest, EveryThingIsGrantedUntilSomebodyRestricts) {
  EXPECT_TRUE(Read(top_ + "/out/secret").ok());
  Grant({});
  EXPECT_EQ(Read(top_ + "/out/secret").code(), Code::kPermissionDenied);
  FileGrants::Lift(this);
  EXPECT_TRUE(Read(top_ + "/out/secret").ok());
}

TEST_F(GrantedFilesTest, AFolderIsGrantedWithAllBelowIt) {
  Grant({top_ + "/in"});
  std::string text;
  EXPECT_TRUE(Read(top_ + "/in/mine", &text).ok());
  EXPECT_EQ(text, "mine");
  EXPECT_TRUE(Write(top_ + "/in/sub/a").ok());
  EXPECT_TRUE(MakeFolder(top_ + "/in/new").ok());
  EXPECT_TRUE(MakeFolder(top_ + "/in/new").ok()) << "is there already";
  EXPECT_TRUE(MakeFolder(top_ + "/in").ok());
  EXPECT_TRUE(Rename(top_ + "/in/sub/a", top_ + "/in/new/b").ok());
  EXPECT_TRUE(Status(Files()->sync_directory(Span(std::string_view(top_ + "/in")))).ok());
  std::vector<std::string> names;
  EXPECT_TRUE(List(top_ + "/in", &names).ok());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"mine", "new", "sub"}));
  EXPECT_TRUE(Remove(top_ + "/in/new/b").ok());
  EXPECT_TRUE(Remove(top_ + "/in/new").ok());
  const std::string there = top_ + "/in/mine", root = top_ + "/in", gone = top_ + "/in/gone";
  EXPECT_EQ(Files()->exists(Span(there)), 1u);
  EXPECT_EQ(Files()->exists(Span(root)), 1u);
  EXPECT_EQ(Files()->exists(Span(gone)), 0u);
  EXPECT_EQ(Read(gone).code(), Code::kNotFound);
}

TEST_F(GrantedFilesTest, NothingElseIsAndTheErrorSaysWhatWouldGrantIt) {
  Grant({top_ + "/in"});
  const std::string secret = top_ + "/out/secret";
  const Status refused = Read(secret);
  EXPECT_EQ(refused.code(), Code::kPermissionDenied);
  for (const std::string& part : {"'" + secret + "'", std::string("task /job:worker/task:7"),
                                  "--files " + top_ + "/out:ro", "granted: " + top_ + "/in"})
    EXPECT_NE(refused.message().find(part), std::string::npos) << part << " in " << refused.message();
  const std::string out = top_ + "/out", ways = top_ + "/in/../out/secret", alike = top_ + "/inside_out/secret";
  EXPECT_EQ(Read(ways).code(), Code::kPermissionDenied);
  EXPECT_EQ(Read(alike).code(), Code::kPermissionDenied);
  EXPECT_EQ(Write(top_ + "/out/new").code(), Code::kPermissionDenied);
  EXPECT_EQ(MakeFolder(top_ + "/out/new").code(), Code::kPermissionDenied);
  EXPECT_EQ(MakeFolder(top_ + "/out").code(), Code::kPermissionDenied) << "that it is there is not told";
  EXPECT_TRUE(MakeFolder("/").ok());
  EXPECT_EQ(Remove(secret).code(), Code::kPermissionDenied);
  EXPECT_EQ(Rename(secret, top_ + "/in/stolen").code(), Code::kPermissionDenied);
  EXPECT_EQ(Rename(top_ + "/in/mine", top_ + "/out/given").code(), Code::kPermissionDenied);
  EXPECT_EQ(Files()->exists(Span(secret)), 0u);
  std::vector<std::string> names;
  EXPECT_EQ(List(out, &names).code(), Code::kPermissionDenied);
  EXPECT_TRUE(fs::exists(secret));
  EXPECT_TRUE(fs::exists(top_ + "/in/mine"));
}

TEST_F(GrantedFilesTest, LinksDoNotLeadOut) {
  fs::create_symlink("../out", top_ + "/in/folder");
  fs::create_symlink("../out/secret", top_ + "/in/file");
  fs::create_symlink(top_ + "/out/secret", top_ + "/in/absolute");
  fs::create_symlink("../out/planted", top_ + "/in/dangling");
  fs::create_symlink("mine", top_ + "/in/neighbour");
  fs::create_symlink("../mine", top_ + "/in/sub/above");
  Grant({top_ + "/in"});
  for (const char* name : {"/in/folder/secret", "/in/file", "/in/absolute", "/in/dangling"}) {
    EXPECT_EQ(Read(top_ + name).code(), Code::kPermissionDenied) << name;
    EXPECT_EQ(Write(top_ + name).code(), Code::kPermissionDenied) << name;
    const std::string path = top_ + name;
    EXPECT_EQ(Files()->exists(Span(path)), 0u);
  }
  EXPECT_EQ(Remove(top_ + "/in/folder/secret").code(), Code::kPermissionDenied);
  EXPECT_EQ(Rename(top_ + "/in/folder/secret", top_ + "/in/x").code(), Code::kPermissionDenied);
  EXPECT_EQ(MakeFolder(top_ + "/in/folder/x").code(), Code::kPermissionDenied);
  EXPECT_TRUE(fs::exists(top_ + "/out/secret"));
  EXPECT_FALSE(fs::exists(top_ + "/out/planted"));
  EXPECT_TRUE(Read(top_ + "/in/neighbour").ok());
  EXPECT_TRUE(Read(top_ + "/in/sub/above").ok());
}

// A granted folder that somebody puts a link in the place of is no way either.
TEST_F(GrantedFilesTest, AFolderThatBecameALinkIsGrantedNoMore) {
  Grant({top_ + "/in/sub"});
  fs::remove(top_ + "/in/sub");
  fs::create_symlink("../out", top_ + "/in/sub");
  EXPECT_EQ(Read(top_ + "/in/sub/secret").code(), Code::kPermissionDenied);
}

TEST_F(GrantedFilesTest, OneThatIsALinkMeansWhatItLeadsTo) {
  fs::create_symlink("in", top_ + "/called");
  Grant({top_ + "/called"});
  EXPECT_TRUE(Read(top_ + "/called/mine").ok());
  EXPECT_TRUE(Read(top_ + "/in/mine").ok());
}

TEST_F(GrantedFilesTest, ReadOnlyFilesAndTheMostSpecialGrant) {
  Put(top_ + "/out/vocabulary", "words");
  Grant({top_ + "/in", top_ + "/in/sub:ro", top_ + "/out/vocabulary:ro"});
  Put(top_ + "/in/sub/fixed", "fixed");
  EXPECT_TRUE(Read(top_ + "/in/sub/fixed").ok());
  EXPECT_EQ(Write(top_ + "/in/sub/fixed").code(), Code::kPermissionDenied);
  EXPECT_EQ(Remove(top_ + "/in/sub/fixed").code(), Code::kPermissionDenied);
  EXPECT_EQ(Rename(top_ + "/in/sub", top_ + "/in/other").code(), Code::kPermissionDenied)
      << "what is read alone would be written by another name";
  EXPECT_EQ(Remove(top_ + "/in").code(), Code::kPermissionDenied);
  EXPECT_TRUE(Write(top_ + "/in/mine").ok());
  EXPECT_TRUE(Read(top_ + "/out/vocabulary").ok());
  EXPECT_EQ(Write(top_ + "/out/vocabulary").code(), Code::kPermissionDenied);
  EXPECT_EQ(Read(top_ + "/out/secret").code(), Code::kPermissionDenied);
}

TEST_F(GrantedFilesTest, NoLinkLeadsToWhereOneMayOnlyRead) {
  fs::create_directory(top_ + "/in/ro");
  Put(top_ + "/in/ro/kept", "kept");
  fs::create_symlink("ro", top_ + "/in/rolink");
  fs::create_symlink("ro/kept", top_ + "/in/filelink");
  fs::create_symlink("ro/planted", top_ + "/in/dangling");
  fs::create_symlink("sub", top_ + "/in/sublink");
  Grant({top_ + "/in", top_ + "/in/ro:ro"});
  for (const char* path : {"/in/rolink/kept", "/in/rolink/new", "/in/filelink", "/in/dangling", "/in/ro/new"}) {
    const Status status = Write(top_ + path);
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << path << ": " << status.message();
  }
  EXPECT_EQ(Status(Files()->remove(Span(top_ + "/in/rolink/kept"))).code(), Code::kPermissionDenied);
  EXPECT_EQ(Status(Files()->make_directory(Span(top_ + "/in/rolink/made"))).code(), Code::kPermissionDenied);
  EXPECT_EQ(Status(Files()->rename(Span(top_ + "/in/mine"), Span(top_ + "/in/rolink/mine"))).code(),
            Code::kPermissionDenied);
  EXPECT_EQ(Status(Files()->rename(Span(top_ + "/in/rolink/kept"), Span(top_ + "/in/taken"))).code(),
            Code::kPermissionDenied);
  EXPECT_FALSE(fs::exists(top_ + "/in/ro/new") || fs::exists(top_ + "/in/ro/planted") ||
               fs::exists(top_ + "/in/ro/made"));
  std::string text;
  EXPECT_TRUE(Read(top_ + "/in/rolink/kept", &text).ok());
  EXPECT_EQ(text, "kept");
  // Others go on.
  EXPECT_TRUE(Write(top_ + "/in/sublink/new").ok());
  EXPECT_TRUE(Write(top_ + "/in/sublink/new").ok()) << "it is there already";
  EXPECT_TRUE(Status(Files()->rename(Span(top_ + "/in/mine"), Span(top_ + "/in/sublink/mine"))).ok());
}

TEST_F(GrantedFilesTest, WhetherAFolderIsThereIsToldOfGrantedOnesAlone) {
  Grant({top_ + "/in"});
  for (const char* path : {"/out", "/nowhere"}) {
    EXPECT_EQ(Status(Files()->make_directory(Span(top_ + path))).code(), Code::kPermissionDenied) << path;
    EXPECT_EQ(Status(Files()->sync_directory(Span(top_ + path))).code(), Code::kPermissionDenied) << path;
  }
  EXPECT_TRUE(Status(Files()->make_directory(Span(top_))).ok()) << "above what was granted";
  EXPECT_TRUE(Status(Files()->sync_directory(Span(top_))).ok());
}

TEST_F(GrantedFilesTest, AFolderMayBeMadeLater) {
  Grant({top_ + "/later"});
  EXPECT_EQ(Write(top_ + "/later/a").code(), Code::kNotFound);
  EXPECT_TRUE(MakeFolder(top_ + "/later").ok());
  EXPECT_TRUE(Write(top_ + "/later/a").ok());
}

TEST_F(GrantedFilesTest, APipeIsNotWaitedForAndNoFile) {
  Grant({top_ + "/in"});
  const std::string pipe = top_ + "/in/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Read(pipe).code(), Code::kInvalidArgument);
  EXPECT_FALSE(Write(pipe).ok());
}

TEST_F(GrantedFilesTest, SchemesAreGrantedByName) {
  Grant({"memory://", "other://a"});
  // Let through, so the next question is who brings it.
  EXPECT_EQ(Read("memory://x").code(), Code::kNotFound);
  EXPECT_EQ(Read("other://a/b").code(), Code::kNotFound);
  EXPECT_EQ(Read("other://ab").code(), Code::kPermissionDenied);
  EXPECT_EQ(Read("other://a/../b").code(), Code::kPermissionDenied);
  EXPECT_EQ(Read("third://a").code(), Code::kPermissionDenied);
  EXPECT_EQ(Read(top_ + "/in/mine").code(), Code::kPermissionDenied);
  EXPECT_FALSE(FileGrant::Parse("").ok());
  EXPECT_FALSE(FileGrant::Parse(":ro").ok());
  EXPECT_FALSE(FileGrant::Parse("memory://a/../b").ok());
}

// On old kernels nothing follows links; what leads out is refused there too.
TEST_F(GrantedFilesTest, WithoutOpenat2NoLinkIsFollowed) {
  fs::create_symlink("../out", top_ + "/in/folder");
  fs::create_symlink("mine", top_ + "/in/neighbour");
  const std::string in = top_ + "/in";
  const int folder = open(in.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(folder, 0);
  for (const Beneath how : {Beneath::kKernel, Beneath::kStepByStep}) {
    const auto opened = [&](const char* rest, int flags) {
      const int found = OpenBeneath(folder, rest, flags, 0600, how);
      if (found >= 0) close(found);
      return found >= 0;
    };
    EXPECT_TRUE(opened("mine", O_RDONLY));
    EXPECT_TRUE(opened("sub", O_RDONLY | O_DIRECTORY));
    EXPECT_TRUE(opened("sub/made", O_WRONLY | O_CREAT));
    EXPECT_TRUE(opened(".", O_RDONLY | O_DIRECTORY));
    EXPECT_FALSE(opened("../out/secret", O_RDONLY));
    EXPECT_FALSE(opened("sub/../../out/secret", O_RDONLY));
    EXPECT_FALSE(opened("folder/secret", O_RDONLY));
    EXPECT_FALSE(opened("folder", O_PATH));
    EXPECT_FALSE(opened("mine/below", O_RDONLY));
    EXPECT_EQ(opened("neighbour", O_RDONLY), how == Beneath::kKernel);
  }
  close(folder);
}

}  // namespace
}  // namespace tenon::files::granted_files_test
