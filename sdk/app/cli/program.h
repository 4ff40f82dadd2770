// SPDX-License-Identifier: Apache-2.0
// bin/tenon as a shell runs it, for tests.
#ifndef TENON_CLI_PROGRAM_H_
#define TENON_CLI_PROGRAM_H_

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tenon/data/file.h"

namespace tenon::cli {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

// In a folder, which gets the files out.txt and err.txt. before: what the shell does first.
inline Outcome RunTenon(const std::string& folder, const std::string& arguments, const std::string& before = "") {
  const std::string command =
      "cd '" + folder + "' && " + before + " '" TENON_TEST_BUILD_DIR "/bin/tenon' " + arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, *data::ReadFile(folder + "/out.txt"),
          *data::ReadFile(folder + "/err.txt")};
}

}  // namespace tenon::cli

#endif  // TENON_CLI_PROGRAM_H_
