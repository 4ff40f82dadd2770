// SPDX-License-Identifier: Apache-2.0
#include "plugins/search.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::search_test {
namespace {

// Sets the variable for one test.
class Environment {
 public:
  explicit Environment(const std::string& value) { setenv(kPathVariable, value.c_str(), 1); }
  ~Environment() { unsetenv(kPathVariable); }
};

// Changes the current folder for one test.
class CurrentFolder {
 public:
  explicit CurrentFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~CurrentFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

std::vector<std::string> Paths(const SearchResult& result) {
  std::vector<std::string> paths;
  for (const Candidate& candidate : result.candidates) paths.push_back(candidate.path);
  return paths;
}

SearchResult SearchPaths(std::vector<std::string> paths) {
  SearchOptions options;
  options.paths = std::move(paths);
  options.explicit_only = true;
  return Search(options);
}

TEST(Search, ABareNameIsRefusedEvenWhereTheFileExists) {
  const TemporaryFolder folder;
  folder.Copy("good", "bare.so");
  const CurrentFolder here(folder.path());
  const SearchResult result = SearchPaths({"bare.so"});
  EXPECT_TRUE(result.candidates.empty());
  ASSERT_EQ(result.reports.size(), 1u);
  EXPECT_EQ(result.reports[0].reason, Reason::kBarePath);
  EXPECT_EQ(result.reports[0].outcome, Outcome::kRejected);
  EXPECT_EQ(result.reports[0].hint, "write an absolute path, or ./bare.so for a file in the current folder");
}

TEST(Search, APathWithASlashIsMadeAbsolute) {
  const TemporaryFolder folder;
  const std::string path = folder.Copy("good", "named.so");
  const CurrentFolder here(folder.path());
  const SearchResult result = SearchPaths({"./named.so"});
  EXPECT_EQ(Paths(result), std::vector<std::string>{path});
  EXPECT_TRUE(result.candidates[0].named);
}

TEST(Search, TheCurrentFolderIsNeverSearched) {
  const TemporaryFolder folder;
  folder.Copy("good", "planted.so");
  std::filesystem::create_directories(folder.At("lib/tenon/plugins"));
  folder.Copy("good", "lib/tenon/plugins/planted.so");
  const CurrentFolder here(folder.path());
  SearchOptions options;
  for (const char* value : {"", ":", "::", ":" "/nonexistent_tenon_folder" ":"}) {
    const Environment environment(value);
    EXPECT_TRUE(Search(options).candidates.empty()) << value;
  }
}

TEST(Search, ARelativeFolderOfTheEnvironmentIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.At("plugins"));
  folder.Copy("good", "plugins/planted.so");
  const CurrentFolder here(folder.path());
  for (const char* value : {"plugins", "./plugins", "."}) {
    const Environment environment(value);
    const SearchResult result = Search({});
    EXPECT_TRUE(result.candidates.empty()) << value;
    ASSERT_EQ(result.reports.size(), 1u) << value;
    EXPECT_EQ(result.reports[0].reason, Reason::kRelativeFolder);
    EXPECT_EQ(result.reports[0].path, value);
    EXPECT_EQ(result.reports[0].hint, "begin it with a slash; the current folder is never searched");
  }
}

TEST(Search, TheOrderIsNamedThenEnvironmentThenSystem) {
  const TemporaryFolder named, first, second, system;
  const std::string a = named.Copy("good", "z.so");
  const std::string b1 = first.Copy("good", "a.so"), b2 = first.Copy("good", "b.so");
  const std::string c = second.Copy("good", "a.so");
  const std::string d = system.Copy("good", "a.so");
  const Environment environment(first.path() + ":" + second.path());
  SearchOptions options;
  options.paths = {a};
  options.system_folder = system.path();
  const SearchResult result = Search(options);
  EXPECT_EQ(Paths(result), (std::vector<std::string>{a, b1, b2, c, d}));
  EXPECT_TRUE(result.reports.empty());
  std::vector<int> ranks;
  for (const Candidate& candidate : result.candidates) ranks.push_back(candidate.rank);
  EXPECT_EQ(ranks, (std::vector<int>{0, 1, 1, 2, 3}));
  options.explicit_only = true;
  EXPECT_EQ(Paths(Search(options)), std::vector<std::string>{a});
}

TEST(Search, WhatACallerAddsComesAfterTheEnvironmentAndMayBeALibrary) {
  const TemporaryFolder environments, added, other, system;
  const std::string a = environments.Copy("good", "a.so");
  const std::string b = added.Copy("good", "b.so");
  const std::string c = other.Copy("good", "c.so");
  other.Copy("good", "not_named.so");
  const std::string d = system.Copy("good", "d.so");
  const Environment environment(environments.path());
  SearchOptions options;
  options.more = added.path() + ":" + c + ":relative:/nonexistent_tenon_folder:/nonexistent_tenon.so";
  options.system_folder = system.path();
  const SearchResult result = Search(options);
  EXPECT_EQ(Paths(result), (std::vector<std::string>{a, b, c, d}));
  EXPECT_FALSE(result.candidates[2].named);  // it is opened when something of it is asked for, as all that is found
  EXPECT_LT(result.candidates[1].rank, result.candidates[2].rank);
  EXPECT_LT(result.candidates[2].rank, result.candidates[3].rank);
  ASSERT_EQ(result.reports.size(), 3u);
  EXPECT_EQ(result.reports[0].reason, Reason::kRelativeFolder);
  EXPECT_NE(result.reports[0].text.find("the option 'tenon.plugin_path'"), std::string::npos) << result.reports[0].text;
  EXPECT_EQ(result.reports[1].reason, Reason::kNotFound);
  EXPECT_EQ(result.reports[2].reason, Reason::kNotFound);
  options.explicit_only = true;
  EXPECT_TRUE(Search(options).candidates.empty());
}

TEST(Search, OnlyFilesThatEndLikeALibraryCountInAFolder) {
  const TemporaryFolder folder;
  folder.Write("a.txt", "x");
  folder.Write(".hidden.so", "x");
  folder.Write("b.so.json", "{}");
  folder.Write(".so", "x");
  const std::string good = folder.Copy("good");
  EXPECT_EQ(Paths(SearchPaths({folder.path()})), std::vector<std::string>{good});
}

TEST(Search, AFileCountsOnceUnderItsFirstName) {
  const TemporaryFolder folder, other;
  const std::string a = folder.Copy("good", "a.so");
  std::filesystem::create_hard_link(a, folder.At("b.so"));
  std::filesystem::create_symlink(a, other.At("c.so"));
  const SearchResult result = SearchPaths({folder.path(), other.path(), folder.path()});
  EXPECT_EQ(Paths(result), std::vector<std::string>{a});
  ASSERT_EQ(result.reports.size(), 2u);
  for (const LoadReport& report : result.reports) {
    EXPECT_EQ(report.outcome, Outcome::kNotChosen);
    EXPECT_EQ(report.reason, Reason::kSameFile);
  }
  EXPECT_EQ(result.reports[1].path, other.At("c.so"));
}

TEST(Search, WhatIsMissingIsReportedWhereItWasAskedFor) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.At("gone"), folder.At("dangling.so"));
  const SearchResult result = SearchPaths({folder.At("nothing"), folder.path()});
  EXPECT_TRUE(result.candidates.empty());
  ASSERT_EQ(result.reports.size(), 2u);
  EXPECT_EQ(result.reports[0].reason, Reason::kNotFound);
  EXPECT_EQ(result.reports[1].reason, Reason::kNotFound);
  EXPECT_EQ(result.reports[1].path, folder.At("dangling.so"));
  SearchOptions options;
  options.system_folder = folder.At("nothing");  // nobody asked for it
  EXPECT_TRUE(Search(options).reports.empty());
}

int anchor = 0;

TEST(Search, TheFoldersBesideAnAddressAreThoseOfItsExecutable) {
  const std::string folder = std::filesystem::canonical("/proc/self/exe").parent_path().string();
  const std::vector<std::string> folders = FoldersBeside(&anchor);
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0], folder + "/tenon/plugins");
  EXPECT_EQ(folders[1], std::filesystem::path(folder).parent_path().string() + "/lib/tenon/plugins");
  EXPECT_TRUE(FoldersBeside(nullptr).empty());
  int on_the_stack = 0;
  EXPECT_TRUE(FoldersBeside(&on_the_stack).empty());
}

TEST(Search, TheFoldersBesideAnAddressAreThoseOfItsLibrary) {
  const std::vector<std::string> folders = FoldersBeside(reinterpret_cast<const void*>(&fopen));  // of libc
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0].front(), '/');
  EXPECT_TRUE(folders[0].ends_with("/tenon/plugins"));
  EXPECT_NE(folders[0], FoldersBeside(&anchor)[0]);
}

TEST(Search, TheFoldersBesideALibraryAreFoundWhenItWasOpenedByARelativePath) {
  const TemporaryFolder folder;
  std::filesystem::copy(std::string(TENON_TEST_BUILD_DIR) + "/tests/fakes/plugins/tenon_fixture_good.so",
                        folder.At("a library.so"));
  void* const library = [&] {
    const CurrentFolder here(folder.path());
    return dlopen("./a library.so", RTLD_NOW | RTLD_LOCAL);
  }();
  ASSERT_NE(library, nullptr) << dlerror();
  const std::vector<std::string> folders = FoldersBeside(dlsym(library, TENON_QUERY_SYMBOL));
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0], std::filesystem::canonical(folder.path()).string() + "/tenon/plugins");
  std::filesystem::remove(folder.At("a library.so"));
  EXPECT_TRUE(FoldersBeside(dlsym(library, TENON_QUERY_SYMBOL)).empty());  // nobody knows where it is now
  dlclose(library);
}

// Runs the helper and gives its output; exit code 3 means that it has no raised privileges.
std::string OutputOf(const std::string& command, int* out_code) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[256];
  while (pipe != nullptr && fgets(buffer, sizeof(buffer), pipe) != nullptr) text += buffer;
  const int state = pipe == nullptr ? -1 : pclose(pipe);
  *out_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  return text;
}

TEST(Search, TheEnvironmentIsIgnoredWithRaisedPrivileges) {
  const std::string helper = std::string(TENON_TEST_BUILD_DIR) + "/tests/fakes/plugins/tenon_fixture_privileged";
  const Environment environment("/somewhere");
  int code = 0;
  EXPECT_EQ(OutputOf(helper, &code), "[/somewhere]");
  ASSERT_EQ(code, 0);

  const TemporaryFolder folder;
  const std::string raised = folder.At("raised");
  std::filesystem::copy_file(helper, raised);
  constexpr uid_t kNobody = 65534;
  if (chmod(folder.path().c_str(), 0755) != 0 || chown(raised.c_str(), kNobody, static_cast<gid_t>(-1)) != 0 ||
      chmod(raised.c_str(), 04755) != 0) {
    GTEST_SKIP() << "only root can make a program that raises its privileges";
  }
  const std::string text = OutputOf(raised + " check", &code);
  if (code == 3) GTEST_SKIP() << "the temporary folder does not let programs raise their privileges";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(text, "[]");
}

}  // namespace
}  // namespace tenon::plugins::search_test
