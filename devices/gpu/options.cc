// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <charconv>
#include <string_view>

namespace tenon::gpu {
namespace {

sdk::Outcome ParseFolder(std::string_view key, std::string_view value, std::string* out) {
  if (value != "auto" && value != "off" && !value.starts_with('/')) {
    return sdk::Fault(TENON_INVALID_ARGUMENT, "option ", key, " is '", value,
                      "'; it may be auto, off, or an absolute path");
  }
  *out = value;
  return {};
}

sdk::Outcome ParseStorage(std::string_view value, std::string* out) {
  if (value != "auto" && value != "always" && value != "off")
    return sdk::Fault(TENON_INVALID_ARGUMENT, "option storage is '", value, "'; it may be auto, always or off");
  *out = value;
  return {};
}

sdk::Outcome ParseOne(std::string_view key, std::string_view value, Options* o) {
  if (key == "devices") return ParseInteger(key, value, -1, 1024, &o->devices);
  if (key == "queues") return ParseInteger(key, value, 1, 16, &o->queues);
  if (key == "memory_limit") return ParseInteger(key, value, 0, INT64_MAX, &o->memory_limit);
  if (key == "cache") return ParseFolder(key, value, &o->cache);
  if (key == "libraries") return ParseFolder(key, value, &o->libraries);
  if (key == "collectives") return ParseFolder(key, value, &o->collectives);
  if (key == "storage") return ParseStorage(value, &o->storage);
  o->more[std::string(key)] = value;
  return {};
}

}  // namespace

sdk::Outcome ParseInteger(std::string_view key, std::string_view text, int64_t low, int64_t high, int64_t* out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || *out < low || *out > high) {
    return sdk::Fault(TENON_INVALID_ARGUMENT, "option ", key, " is '", text, "'; it may be a whole number from ", low,
                      " to ", high);
  }
  return {};
}

sdk::Outcome ParseOptions(const tenon_load_args& args, const tenon_option_declaration* declarations,
                          uint64_t declaration_count, Options* out_options) {
  // Defaults stand in the declarations alone.
  for (uint64_t i = 0; i < declaration_count; ++i) {
    sdk::Outcome outcome =
        ParseOne(sdk::ToText(declarations[i].key), sdk::ToText(declarations[i].default_value), out_options);
    if (!outcome.ok()) return outcome;
  }
  for (uint64_t i = 0; i < args.option_count; ++i) {
    sdk::Outcome outcome = ParseOne(sdk::ToText(args.options[i].key), sdk::ToText(args.options[i].value), out_options);
    if (!outcome.ok()) return outcome;
  }
  return {};
}

}  // namespace tenon::gpu
