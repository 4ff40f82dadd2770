// SPDX-License-Identifier: Apache-2.0
// A signature as JSON, for programs that make nodes of it (the form stands in docs/ops_as_json.md).
#ifndef TENON_CLI_SIGNATURE_JSON_H_
#define TENON_CLI_SIGNATURE_JSON_H_

#include "sdk/app/cli/json.h"
#include "sdk/app/cli/signature.h"

namespace tenon::cli {

// {"inputs": [...], "outputs": [...], "attrs": [...]}. An error names the op and the default that cannot be read.
host::Result<Json> SignatureJson(const OpSignature& signature);
// {"T": ["float32", "float64"]} of a kernel's "T: float, double; Index: int32".
Json KernelTypesJson(std::string_view types);

}  // namespace tenon::cli

#endif  // TENON_CLI_SIGNATURE_JSON_H_
