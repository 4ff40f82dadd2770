// SPDX-License-Identifier: Apache-2.0
#include "plugins/library.h"

#include <gtest/gtest.h>

#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::library_test {
namespace {

LoadReport OpenError(const std::string& path) {
  LoadReport report;
  const auto elf = ReadElf(path, &report);
  EXPECT_EQ(Library::Open(path, elf ? elf->identity : FileIdentity{1, 1},
                          elf ? elf->wanted : std::vector<std::string>(), &report),
            nullptr)
      << path;
  return report;
}

TEST(Library, OpensAPluginAndGivesItsEntryPoint) {
  LoadReport report;
  const auto elf = ReadElf(FixturePath("good"), &report);
  ASSERT_TRUE(elf.has_value());
  const Library* library = Library::Open(FixturePath("good"), elf->identity, elf->wanted, &report);
  ASSERT_NE(library, nullptr) << report.text;
  ASSERT_NE(library->query(), nullptr);
  EXPECT_EQ(Library::Open(FixturePath("good"), elf->identity, elf->wanted, &report), library);
}

TEST(Library, AMissingSymbolIsNamed) {
  const LoadReport report = OpenError(FixturePath("missing_symbol"));
  EXPECT_EQ(report.reason, Reason::kMissingSymbol);
  EXPECT_EQ(report.missing, "tenon_test_defined_nowhere");
  EXPECT_EQ(report.text, FixturePath("missing_symbol") + ": undefined symbol: tenon_test_defined_nowhere");
  EXPECT_EQ(
      report.hint,
      "link the library that defines tenon_test_defined_nowhere, or build with -Wl,--no-undefined to find out why");
}

TEST(Library, AMissingLibraryIsNamed) {
  const LoadReport report = OpenError(FixturePath("missing_library"));
  EXPECT_EQ(report.reason, Reason::kMissingLibrary);
  EXPECT_EQ(report.missing, "libtenon_test_absent.so");
  EXPECT_EQ(report.text, "libtenon_test_absent.so: cannot open shared object file: No such file or directory");
  EXPECT_EQ(report.hint, "install libtenon_test_absent.so, or put it where the system looks for libraries");
}

TEST(Library, AMissingEntryPointIsNamed) {
  const LoadReport report = OpenError(FixturePath("no_entry"));
  EXPECT_EQ(report.reason, Reason::kNoEntryPoint);
  EXPECT_EQ(report.text, "it does not export tenon_plugin_query");
  EXPECT_EQ(report.missing, "tenon_plugin_query");
}

TEST(Library, GivesTheSystemsOwnWordsForTheRest) {
  const TemporaryFolder folder;
  const LoadReport report = OpenError(folder.Write("x.so", std::string(100, 'x')));
  EXPECT_EQ(report.reason, Reason::kOpenFailed);
  EXPECT_EQ(report.text, folder.At("x.so") + ": invalid ELF header");
}

TEST(Library, AVersionThatIsMissingIsNamed) {
  const LoadReport report =
      ExplainOpenError("/x.so", "/lib/libc.so.6: version `GLIBC_9.99' not found (required by /x.so)");
  EXPECT_EQ(report.reason, Reason::kMissingSymbol);
  EXPECT_EQ(report.missing, "GLIBC_9.99");
}

}  // namespace
}  // namespace tenon::plugins::library_test
