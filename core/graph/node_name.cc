// SPDX-License-Identifier: Apache-2.0
#include "core/graph/node_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tenon::graph {

bool IsValidNodeName(std::string_view name) {
  if (name.empty()) return false;
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_'; };
  if (!word(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return word(c) || c == '-' || c == '/' || c == '\\' || c == '>'; });
}

bool SplitTensorName(std::string_view text, std::string_view* node, int32_t* index) {
  *index = 0;
  *node = text;
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, *index);
    if (error != std::errc() || rest != end || *index < 0) return false;
    *node = text.substr(0, colon);
  }
  return !node->empty() && (*node)[0] != '^';
}

}  // namespace tenon::graph
