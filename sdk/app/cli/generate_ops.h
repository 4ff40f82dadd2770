// SPDX-License-Identifier: Apache-2.0
// C++ wrappers of ops, made from the signatures of whatever op packages are loaded.
//
// One inline function an op, in tenon::ops: inputs as Output (lists as vectors), attributes without a default as
// parameters, those with one in a struct of options, attributes that the inputs determine not at all.
#ifndef TENON_CLI_GENERATE_OPS_H_
#define TENON_CLI_GENERATE_OPS_H_

#include <string>
#include <vector>

#include "sdk/app/cli/signature.h"

namespace tenon::cli {

// The text of a header. Ops whose names begin with an underscore are the engine's own and are left out.
host::Result<std::string> GenerateOps(const std::vector<OpSignature>& signatures);

// The wrapper of one op.
host::Result<std::string> GenerateOp(const OpSignature& signature);

}  // namespace tenon::cli

#endif  // TENON_CLI_GENERATE_OPS_H_
