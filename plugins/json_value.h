// SPDX-License-Identifier: Apache-2.0
// JsonValue: a JSON document of a few levels. The library parses; the tree is our own, since the library's needs memory
// to be let go of, and a process that has none left would end there.
#ifndef TENON_PLUGINS_JSON_VALUE_H_
#define TENON_PLUGINS_JSON_VALUE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tenon::plugins {

struct JsonValue {
  enum class Kind { kOther, kInteger, kText, kList, kObject };

  // INVALID_ARGUMENT: it is no JSON, or deeper than kDeepest.
  static Result<JsonValue> Parse(std::string_view text);
  static constexpr size_t kDeepest = 16;

  // Of an object; the last of several with one name. nullptr: there is none, or this is no object.
  const JsonValue* Find(std::string_view name) const;

  Kind kind = Kind::kOther;  // null, true, false, numbers that are not whole or beyond 63 bits
  int64_t integer = 0;
  std::string text;
  std::vector<JsonValue> items;    // of a list; of an object, the values
  std::vector<std::string> names;  // of an object's values
};

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_JSON_VALUE_H_
