// SPDX-License-Identifier: Apache-2.0
// A committed file of this folder, as it is.
#ifndef TENON_TESTS_GOLDEN_READ_FILE_H_
#define TENON_TESTS_GOLDEN_READ_FILE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tenon::engine {

inline std::string ReadFile(const std::string& name) {
  std::ifstream in(std::string(TENON_GOLDEN_FOLDER) + "/" + name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_GOLDEN_READ_FILE_H_
