// SPDX-License-Identifier: Apache-2.0
// Temporary folders of tests, removed when the test program ends; kept, and named, when a test has failed.
#ifndef TENON_TESTS_FAKES_TEMPORARY_FOLDER_H_
#define TENON_TESTS_FAKES_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace tenon::fakes {

// The path of a new folder. use: what its name says of it, "tenon_<use>_...".
inline std::string TemporaryFolder(const std::string& use) {
  struct Folders {
    std::vector<std::string> paths;
    ~Folders() {
      const bool failed = ::testing::UnitTest::GetInstance()->Failed();
      for (const std::string& path : paths) {
        std::error_code ignored;
        if (failed) std::printf("kept: %s\n", path.c_str());
        else std::filesystem::remove_all(path, ignored);
      }
    }
  };
  ::testing::UnitTest::GetInstance();  // made before the folders, so that it is there when they go
  static Folders folders;
  std::string path = ::testing::TempDir() + "tenon_" + use + "_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    ADD_FAILURE() << "no temporary folder can be made at " << path;
  } else {
    folders.paths.push_back(path);
  }
  return path;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_TEMPORARY_FOLDER_H_
