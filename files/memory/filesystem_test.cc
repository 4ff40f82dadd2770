// SPDX-License-Identifier: Apache-2.0
// The suite of sdk/author/testing for file systems, over the built plugin.
#include "tenon/testing/filesystem_suite.h"

#include "tenon/testing/googletest.h"

namespace tenon::memory_files::filesystem_test {
namespace {

const bool kRegistered =
    testing::RegisterSuite<testing::FilesystemSubject>("Filesystem", testing::FilesystemCases(), [] {
      static const testing::Library library(TENON_TESTED_PLUGIN);
      return testing::FilesystemSubject{library, "memory://"};
    });

}  // namespace
}  // namespace tenon::memory_files::filesystem_test
