// SPDX-License-Identifier: Apache-2.0
// `tenon help TOPIC`: what belongs to no single command.
#ifndef TENON_CLI_LINE_TOPICS_H_
#define TENON_CLI_LINE_TOPICS_H_

#include <span>
#include <string_view>

namespace tenon::cli {

struct Topic {
  std::string_view name, about, text;
};

std::span<const Topic> Topics();
// nullptr: there is none.
const Topic* FindTopic(std::string_view name);

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_TOPICS_H_
