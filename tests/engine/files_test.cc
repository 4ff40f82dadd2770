// SPDX-License-Identifier: Apache-2.0
// Files by path: the operating system's, and those of file systems that plugins bring. Covers J12.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <csignal>
#include <thread>

#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::engine::files_test {
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
    folder = std::string(GetParam()) == "memory" ? "memory://files_test_" + std::to_string(folders++)
                                                 : fakes::TemporaryFolder("files");
    EXPECT_TRUE(MakeDirectory(folder).ok());
  }
  std::string folder;
};
INSTANTIATE_TEST_SUITE_P(On, FilesTest, testing::Values("system", "memory"),
                         [](const auto& info) { return std::string(info.param); });

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
  for (const Status& bad : {ReadFile(path).status(), RemoveFile(path), RenameFile(path, folder + "/x"),
                            ListDirectory(path).status(), WriteFile(path + "/x", ""), SyncDirectory(path)}) {
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

TEST_P(FilesTest, HaveOneWriterAtATime) {
  const std::string path = folder + "/one";
  {
    auto first = File::OpenWrite(path);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(first->Write("first").ok());
    const Status second = File::OpenWrite(path).status();
    EXPECT_EQ(second.code(), Code::kAborted) << second;
    EXPECT_NE(second.message().find(path), std::string::npos) << second;
    EXPECT_EQ(*ReadFile(path), "first") << "nothing was cut off";
    EXPECT_TRUE(File::OpenAppend(path).ok()) << "who continues a file does no harm";
    // Another file of that name is another file.
    ASSERT_TRUE(RemoveFile(path).ok());
    EXPECT_TRUE(WriteFile(path, "other").ok());
  }
  EXPECT_TRUE(WriteFile(path, "third").ok());
  EXPECT_EQ(*ReadFile(path), "third");
}

TEST_P(FilesTest, AreGivenBackByAWriterThatFails) {
  const std::string path = folder + "/moved";
  { ASSERT_TRUE(File::OpenWrite(path).ok()); }  // nobody closed it
  EXPECT_TRUE(WriteFile(path, "x").ok());
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

// What would wait for its other end, for ever, is refused by its name, however it is opened.
TEST(SystemFiles, AreOrdinaryOnes) {
  const std::string folder = fakes::TemporaryFolder("files");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {AF_UNIX, {}};
  (folder + "/socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  for (const std::string& path : {folder + "/pipe", folder + "/socket", folder, std::string("/dev/zero")}) {
    for (const Status& bad :
         {File::OpenRead(path).status(), File::OpenWrite(path).status(), File::OpenAppend(path).status()}) {
      EXPECT_EQ(bad.code(), Code::kInvalidArgument) << bad;
      EXPECT_NE(bad.message().find("'" + path + "'"), std::string::npos) << bad;
    }
  }
  close(listener);
}

TEST(SystemFiles, AreNotWrittenThroughALink) {
  const std::string folder = fakes::TemporaryFolder("files");
  ASSERT_TRUE(WriteFile(folder + "/victim", "whole").ok());
  ASSERT_EQ(symlink("victim", (folder + "/link").c_str()), 0);
  const Status bad = WriteFile(folder + "/link", "");
  EXPECT_EQ(bad.code(), Code::kInvalidArgument) << bad;
  EXPECT_EQ(*ReadFile(folder + "/victim"), "whole");
  EXPECT_EQ(*ReadFile(folder + "/link"), "whole");
}

// 0, or the number of what was not so.
int WriteBeyondTheLimit(const std::string& path) {
  sigset_t before, after, pending;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const rlimit limit = {4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
  auto file = File::OpenWrite(path);
  if (!file.ok()) return 1;
  if (file->Write(std::string(1 << 16, 'x')).code() != Code::kResourceExhausted) return 2;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  if (sigismember(&before, SIGXFSZ) != sigismember(&after, SIGXFSZ)) return 3;
  if (sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ) != 0) return 4;
  struct sigaction action = {};
  sigaction(SIGXFSZ, nullptr, &action);
  return action.sa_handler == SIG_DFL ? 0 : 5;
}

TEST(SystemFiles, ThatMayNotGrowAreAnErrorAndNotTheEnd) {
  const std::string path = fakes::TemporaryFolder("files") + "/large";
  EXPECT_EXIT(_exit(WriteBeyondTheLimit(path)), testing::ExitedWithCode(0), "");
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
}  // namespace tenon::engine::files_test
