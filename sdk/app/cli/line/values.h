// SPDX-License-Identifier: Apache-2.0
// The texts that flags are made of: sizes, times, names with values.
#ifndef TENON_CLI_LINE_VALUES_H_
#define TENON_CLI_LINE_VALUES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/tenon.h"

namespace tenon::cli {

// "1000", "64k", "512M", "1.5GiB": bytes; k, M, G and T are powers of 1024.
host::Result<uint64_t> ParseSize(std::string_view text);
// "2", "500ms", "1.5s", "10us", "3min", "1h"; without a unit: seconds.
host::Result<std::chrono::nanoseconds> ParseTime(std::string_view text);
// "debug", "info", "warning", "error" -> what tenon_runtime_options.log_level wants; "" -> 0.
host::Result<uint32_t> ParseLogLevel(std::string_view text);
// "PLUGIN.KEY=VALUE"; the plugin's id may hold dots.
host::Result<host::PluginOption> ParsePluginOption(std::string_view text);
// "NAME=FILE" at the first '='; FILE is empty when there is none.
std::pair<std::string, std::string> SplitAssignment(std::string_view text);

struct DeviceCount {
  std::string plugin;  // "tenon.tpu_sim"
  uint64_t count = 0;
};

// "tpu_sim:2".
host::Result<DeviceCount> ParseDevices(std::string_view text);

// For CLI11: what is wrong with a text; "": nothing.
std::string CheckSize(const std::string& text);
std::string CheckTime(const std::string& text);
template <typename Value>
std::string WhatIsWrong(const host::Result<Value>& result) {
  return result.ok() ? std::string() : result.status().message();
}

}  // namespace tenon::cli

#endif  // TENON_CLI_LINE_VALUES_H_
