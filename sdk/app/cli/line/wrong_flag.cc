// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/wrong_flag.h"

#include <CLI/CLI.hpp>

namespace tenon::cli {

void WrongFlag(const std::string& flag, const std::string& what) { throw CLI::ValidationError(flag, what); }

}  // namespace tenon::cli
