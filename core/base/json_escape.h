// SPDX-License-Identifier: Apache-2.0
// Text as it stands between JSON's quotes.
#ifndef TENON_CORE_BASE_JSON_ESCAPE_H_
#define TENON_CORE_BASE_JSON_ESCAPE_H_

#include <string>
#include <string_view>

namespace tenon {

std::string JsonEscape(std::string_view text);

}  // namespace tenon

#endif  // TENON_CORE_BASE_JSON_ESCAPE_H_
