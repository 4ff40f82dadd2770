// SPDX-License-Identifier: Apache-2.0
// JSON of the command line: objects keep the order in which their members were added.
#ifndef TENON_CLI_JSON_H_
#define TENON_CLI_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "tenon/tenon.h"

namespace tenon::cli {

using Json = nlohmann::ordered_json;

// A tensor as {"dtype", "shape", "value"}; value is nested arrays. Numbers that JSON lacks (nan, inf) are strings;
// bytes that are not UTF-8 are replaced.
Json TensorJson(const host::Tensor& tensor);

// What the runtime tells, kept.
inline std::string KeptText(tenon_span span) { return std::string(host::Text(span)); }

// On standard output, with a line end.
void PrintJson(const Json& json);

}  // namespace tenon::cli

#endif  // TENON_CLI_JSON_H_
