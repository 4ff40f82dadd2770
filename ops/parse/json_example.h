// SPDX-License-Identifier: Apache-2.0
// An Example written as JSON, in the mapping of protocol buffers, as bytes.
#ifndef TENON_OPS_PARSE_JSON_EXAMPLE_H_
#define TENON_OPS_PARSE_JSON_EXAMPLE_H_

#include <string>
#include <string_view>

namespace tenon::ops::parse {

// Appends the message's bytes, features in the text's order and lists not packed, as TensorFlow has them. False:
// `problem` says what is wrong, and where. Takes a few times the text's memory, however it is nested.
bool ExampleOfJson(std::string_view text, std::string* message, std::string* problem);

}  // namespace tenon::ops::parse

#endif  // TENON_OPS_PARSE_JSON_EXAMPLE_H_
