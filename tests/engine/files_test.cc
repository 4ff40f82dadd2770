// SPDX-License-Identifier: Apache-2.0
// Files by path: the operating system's, and those of file systems that plugins bring. Covers J12.
#include <thread>

#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine {
namespace {

Status WriteFile(const std::string& path, std::string_view bytes) {
  TENON_TRY_ASSIGN(File file, File::OpenWrite(path));
  TENON_TRY(file.Write(bytes));
  return file.Close();
}

Result<std::string> ReadFile(const std::string& path) {
  TENON_TRY_ASSIGN(const File file, File::OpenRead(path));
  TENON_TRY_ASSIGN(const uint64_t size, file.Size());
  std::string bytes(size, '\0');
  TENON_TRY(file.ReadAt(0, bytes.data(), size));
  return bytes;
}

// A folder on each file system.
class FilesTest : public testing::TestWithParam<const char*> {
 protected:
  FilesTest() {
    TheRuntime();
    static int folders = 0;
    folder = std::string(GetParam()) == "memory" ? "memory://files_test_" + std::to_string(folders++) : fakes::TemporaryFolder("files");
    EXPECT_TRUE(MakeDirectory(folder).ok());
  }
  std::string folder;
};
INSTANTIATE_TEST_SUITE_P(On, FilesTest, testing::Values("system", "memory"), [](const auto& info) { return std::string(info.param); });

TEST_P(FilesTest, AreWrittenReadListedRenamedAndRemoved) {
  ASSERT_TRUE(WriteFile(folder + "/a", "one").ok());
  {
    auto file = File::OpenAppend(folder + "/a");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(file->Write(" two").ok());
    EXPECT_TRUE(file->Sync().ok());
  }
  EXPECT_EQ(*ReadFile(folder + "/a"), "one two");
  ASSERT_TRUE(RenameFile(folder + "/a", folder + "/b").ok());
  EXPECT_FALSE(PathExists(folder + "/a"));
  EXPECT_TRUE(SyncDirectory(folder).ok());
  auto names = ListDirectory(folder);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, std::vector<std::string>{"b"});
  EXPECT_TRUE(RemoveFile(folder + "/b").ok());
  EXPECT_TRUE(ListDirectory(folder)->empty());
  EXPECT_TRUE(RemoveFile(folder).ok());
}

TEST_P(FilesTest, SayWhatIsMissingAndWhere) {
  const std::string path = folder + "/missing";
  for (const Status& bad : {ReadFile(path).status(), RemoveFile(path), RenameFile(path, folder + "/x"), ListDirectory(path).status(),
                            WriteFile(path + "/x", ""), SyncDirectory(path)}) {
    EXPECT_EQ(bad.code(), Code::kNotFound) << bad;
    EXPECT_NE(bad.message().find(path), std::string::npos) << bad;
  }
}

TEST_P(FilesTest, AClosedFileIsNotWritten) {
  auto file = File::OpenWrite(folder + "/closed");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Write("1").ok());
  EXPECT_TRUE(file->Close().ok());
  EXPECT_EQ(file->Write("2").code(), Code::kFailedPrecondition);
  EXPECT_TRUE(file->Close().ok()) << "once is enough";
  EXPECT_EQ(*ReadFile(folder + "/closed"), "1");
}

TEST_P(FilesTest, NoPathHasANul) {
  const std::string path = folder + std::string("/a\0b", 4);
  EXPECT_EQ(WriteFile(path, "").code(), Code::kInvalidArgument);
  EXPECT_EQ(MakeDirectory(path).code(), Code::kInvalidArgument);
  EXPECT_EQ(RemoveFile(path).code(), Code::kInvalidArgument);
}

TEST_P(FilesTest, ManyThreadsWriteFilesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string path = folder + "/" + std::to_string(t), text = std::to_string(i);
        EXPECT_TRUE(WriteFile(path + ".tmp", text).ok());
        EXPECT_TRUE(RenameFile(path + ".tmp", path).ok());
        EXPECT_EQ(*ReadFile(path), text);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ListDirectory(folder)->size(), 4u);
}

TEST(Filesystems, AnUnknownSchemeNamesThePluginThatIsNeeded) {
  TheRuntime();
  ASSERT_TRUE(WriteFile("memory://so_that_one_is_there", "").ok());
  const Status bad = WriteFile("pigeon://loft/a", "coo");
  EXPECT_EQ(bad.code(), Code::kNotFound);
  EXPECT_NE(bad.message().find("'pigeon://loft/a'"), std::string::npos) << bad;
  EXPECT_NE(bad.message().find("'tenon.files.pigeon'"), std::string::npos) << bad;
  EXPECT_NE(bad.message().find("memory"), std::string::npos) << bad;
  EXPECT_FALSE(PathExists("pigeon://loft/a"));
}

TEST(Filesystems, APathThatOnlyLooksLikeASchemeIsTheSystems) {
  const std::string folder = fakes::TemporaryFolder("files");
  ASSERT_TRUE(MakeDirectory(folder + "/a:").ok());
  ASSERT_TRUE(WriteFile(folder + "/a://b", "plain").ok());
  EXPECT_EQ(*ReadFile(folder + "/a:/b"), "plain");
}

TEST(Filesystems, AreNotCrossedByARename) {
  TheRuntime();
  const std::string folder = fakes::TemporaryFolder("files");
  ASSERT_TRUE(WriteFile(folder + "/a", "x").ok());
  EXPECT_EQ(RenameFile(folder + "/a", "memory://crossed").code(), Code::kInvalidArgument);
  EXPECT_TRUE(PathExists(folder + "/a"));
}

}  // namespace
}  // namespace tenon::engine
