// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

Status BadValue(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

struct Unit {
  std::string_view name;
  double factor;
};

// A positive number and one of the units; "" is the first unit's name.
Result<double> ParseWithUnit(std::string_view text, std::string_view what, const std::vector<Unit>& units) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(parsed.ptr, static_cast<size_t>(text.data() + text.size() - parsed.ptr));
  const auto found = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == unit; });
  if (parsed.ec != std::errc() || !std::isfinite(number) || number < 0 || found == units.end()) {
    std::string names;
    for (const Unit& known : units)
      names += (names.empty() || known.name.empty() ? "" : ", ") + std::string(known.name);
    return BadValue("'" + std::string(text) + "' is no " + std::string(what) + "; a number and one of the units " +
                    names);
  }
  return number * found->factor;
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;
  TENON_TRY_ASSIGN(const double bytes, ParseWithUnit(text, "size",
                                                     {{"", 1},
                                                      {"B", 1},
                                                      {"k", kKi},
                                                      {"K", kKi},
                                                      {"KiB", kKi},
                                                      {"M", kMi},
                                                      {"MiB", kMi},
                                                      {"G", kGi},
                                                      {"GiB", kGi},
                                                      {"T", kTi},
                                                      {"TiB", kTi}}));
  if (bytes >= 9.2e18 || bytes < 1) return BadValue("'" + std::string(text) + "' is no size that memory can have");
  return static_cast<uint64_t>(bytes);
}

Result<std::chrono::nanoseconds> ParseTime(std::string_view text) {
  TENON_TRY_ASSIGN(
      const double nanoseconds,
      ParseWithUnit(text, "time",
                    {{"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}}));
  if (nanoseconds >= 9e18 || nanoseconds < 1)
    return BadValue("'" + std::string(text) + "' is no time that a step can have");
  return std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds));
}

Result<uint32_t> ParseLogLevel(std::string_view text) {
  constexpr std::pair<std::string_view, uint32_t> kLevels[] = {{"", 0},
                                                               {"debug", TENON_LOG_DEBUG + 1},
                                                               {"info", TENON_LOG_INFO + 1},
                                                               {"warning", TENON_LOG_WARNING + 1},
                                                               {"error", TENON_LOG_ERROR + 1}};
  for (const auto& [name, level] : kLevels) {
    if (name == text) return level;
  }
  return BadValue("'" + std::string(text) + "': there are debug, info, warning and error");
}

Result<host::PluginOption> ParsePluginOption(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t dot = text.substr(0, equals).rfind('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot == 0 || dot + 1 == equals) {
    return BadValue("'" + std::string(text) + "' is not of the form PLUGIN.KEY=VALUE");
  }
  return host::PluginOption{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1, equals - dot - 1)),
                            std::string(text.substr(equals + 1))};
}

std::pair<std::string, std::string> SplitAssignment(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

// "tpu_sim:2"
Result<DeviceCount> ParseDevices(std::string_view text) {
  const size_t colon = text.rfind(':');
  const Status bad = BadValue("'" + std::string(text) + "' is not of the form NAME:COUNT, such as tpu_sim:2");
  if (colon == std::string_view::npos || colon == 0) return bad;
  const std::string_view number = text.substr(colon + 1);
  DeviceCount wanted{"tenon." + std::string(text.substr(0, colon)), 0};
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), wanted.count);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return bad;
  return wanted;
}

std::string CheckSize(const std::string& text) { return WhatIsWrong(ParseSize(text)); }
std::string CheckTime(const std::string& text) { return WhatIsWrong(ParseTime(text)); }

}  // namespace tenon::cli
