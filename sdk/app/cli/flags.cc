// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "sdk/app/cli/line/wrong_flag.h"
#include "tenon/data/file.h"
#include "tenon/session_options.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;

Status Bad(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

// That --devices NAME:COUNT was followed: all of them are there.
Status CheckDevices(const host::Runtime& runtime, const std::string& text) {
  TENON_TRY_ASSIGN(const DeviceCount wanted, ParseDevices(text));
  uint64_t found = 0;
  std::string problem;
  for (const tenon_device_info& device : runtime.Devices()) {
    if (host::Text(device.plugin) != wanted.plugin) continue;
    if (device.name.size > 0) ++found;
    else
      problem = host::Text(device.problem);
  }
  if (found >= wanted.count) return Status();
  return Status(Code::kNotFound, "--devices " + text + ": " + wanted.plugin + " has " + std::to_string(found) + " of " +
                                     std::to_string(wanted.count) + " devices" +
                                     (problem.empty() ? "" : ": " + problem));
}

}  // namespace

// An option that no plugin has, or not with this value, is a wrong word of the command line; all else is not.
void RuntimeFlags::RefuseOptions(const Status& status) const {
  constexpr std::string_view kOption = "option '";
  if (!status.message().starts_with(kOption)) return;
  for (const std::string& text : devices) {
    const std::string option = std::string(kOption) + "tenon." + text.substr(0, text.rfind(':')) + ".devices";
    if (status.message().starts_with(option)) WrongFlag("--devices " + text, status.message());
  }
  WrongFlag("--option", status.message().substr(kOption.size() - 1));
}

void RuntimeFlags::AddTo(CLI::App& command) {
  command.add_option("--plugin", plugins, "Load this plugin besides the installed ones; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_option("--option", plugin_options, "Set an option of a plugin; may be repeated")
      ->type_name("PLUGIN.KEY=VALUE")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return WhatIsWrong(ParsePluginOption(text)); });
  command.add_option("--devices", devices, "So many devices of the plugin tenon.NAME, as tpu_sim:2; may be repeated")
      ->type_name("NAME:COUNT")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return WhatIsWrong(ParseDevices(text)); });
  command.add_option("--threads", threads, "Threads of a step (default: as many as cores)")->type_name("N");
  command
      .add_option("--tuning-folder", tuning_folder,
                  "Keep here what kernels find out about this machine, for later runs: 4,096 files at most, of which "
                  "the oldest go (default: nowhere)")
      ->type_name("FOLDER");
  command.add_option("--log", log_level, "Log from this level on: debug, info, warning (default) or error")
      ->type_name("LEVEL")
      ->check([](const std::string& text) { return WhatIsWrong(ParseLogLevel(text)); });
  command.add_flag("--no-search", no_search, "Load only what --plugin names, not the installed plugins");
}

Result<host::RuntimeOptions> RuntimeFlags::Options() const {
  host::RuntimeOptions options;
  for (const std::string& plugin : plugins) {
    // The host loads paths, which have a slash; a bare name is a file here.
    options.plugins.push_back(plugin.find('/') == std::string::npos ? "./" + plugin : plugin);
  }
  for (const std::string& text : plugin_options) {
    TENON_TRY_ASSIGN(host::PluginOption option, ParsePluginOption(text));
    options.plugin_options.push_back(std::move(option));
  }
  for (const std::string& text : devices) {
    TENON_TRY_ASSIGN(const DeviceCount wanted, ParseDevices(text));
    options.plugin_options.push_back({wanted.plugin, "devices", std::to_string(wanted.count)});
  }
  options.threads = threads;
  options.tuning_folder = tuning_folder;
  options.search = !no_search;
  TENON_TRY_ASSIGN(options.log_level, ParseLogLevel(log_level));
  return options;
}

Result<host::Runtime> RuntimeFlags::Create() const {
  TENON_TRY_ASSIGN(const host::RuntimeOptions options, Options());
  return CreateWith(options);
}

Result<host::Runtime> RuntimeFlags::CreateWith(const host::RuntimeOptions& options) const {
  Result<host::Runtime> created = host::Runtime::Create(options);
  if (!created.ok()) RefuseOptions(created.status());
  TENON_TRY_ASSIGN(host::Runtime runtime, std::move(created));
  // The host takes names that do not end in .so for folders to search; what is no folder is meant as a library here.
  for (const std::string& path : options.plugins) {
    struct stat info = {};
    const bool folder = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (!folder && !path.ends_with(".so")) TENON_TRY(runtime.LoadPlugin(path));
  }
  for (const std::string& text : devices) TENON_TRY(CheckDevices(runtime, text));
  return runtime;
}

namespace {

enum class OptionKind { SIZE, NUMBER, CHOICE, SWITCH, TEXT, FILE, TIME };

// visit(name, kind, flag, help, names, value) for each option that has a flag; value(options) is it.
template <typename Visit>
Status ForEachFlag(Visit&& visit) {
#define TENON_FLAG(name, kind, value, reach, flag, help, names)       \
  if constexpr (flag[0] != '\0')                                      \
    TENON_TRY(visit(                                                  \
        #name, OptionKind::kind, flag, help, std::string_view(names), \
        [](host::SessionOptions & options) -> auto& { return options.name; }));
  TENON_SESSION_OPTIONS(TENON_FLAG)
#undef TENON_FLAG
  return Status();
}

// The number of a text among "a|b|c".
Result<uint32_t> ChoiceOf(std::string_view names, std::string_view text) {
  uint32_t number = 0;
  std::string all;
  for (std::string_view rest = names;; ++number) {
    const size_t end = rest.find('|');
    const std::string_view name = rest.substr(0, end);
    if (name == text) return number;
    all += (all.empty() ? "" : end == std::string_view::npos ? " and " : ", ") + std::string(name);
    if (end == std::string_view::npos) return Bad("there are " + all + ", found '" + std::string(text) + "'");
    rest.remove_prefix(end + 1);
  }
}

Result<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return number;
  return Bad("'" + std::string(text) + "' is no whole number");
}

// What is wrong with a flag's text; "" when nothing is, or it is not known before the file is read.
std::string Problem(OptionKind kind, std::string_view names, const std::string& text) {
  switch (kind) {
    case OptionKind::SIZE:
      return WhatIsWrong(ParseSize(text));
    case OptionKind::NUMBER:
      return WhatIsWrong(ParseNumber(text));
    case OptionKind::CHOICE:
      return WhatIsWrong(ChoiceOf(names, text));
    case OptionKind::TIME:
      return WhatIsWrong(ParseTime(text));
    default: return "";
  }
}

// What a flag's text says of an option of that type.
template <typename Value>
Status Read(OptionKind kind, std::string_view names, const std::string& text, Value* out) {
  if constexpr (std::is_same_v<Value, std::string>) {
    if (kind == OptionKind::FILE) {
      TENON_TRY_ASSIGN(*out, data::ReadFile(text));
    } else {
      *out = text;
    }
  } else if constexpr (std::is_same_v<Value, uint64_t>) {
    TENON_TRY_ASSIGN(*out, kind == OptionKind::SIZE ? ParseSize(text) : ParseNumber(text));
  } else if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) {
    TENON_TRY_ASSIGN(*out, ParseTime(text));
  } else if constexpr (!std::is_same_v<Value, bool>) {
    TENON_TRY_ASSIGN(const uint32_t number, ChoiceOf(names, text));
    *out = static_cast<Value>(number);
  }
  return Status();
}

}  // namespace

const std::string& SessionFlags::Given(std::string_view option) const {
  static const std::string none;
  const auto found = texts.find(option);
  return found == texts.end() ? none : found->second;
}

void SessionFlags::AddTo(CLI::App& command, bool with_seed) {
  (void)ForEachFlag(
      [&](const char* name, OptionKind kind, const char* flag, const char* help, std::string_view names, auto) {
        constexpr std::pair<std::string_view, const char*> kTypes[] = {
            {"device", "NAME"}, {"placer", "ID"}, {"master", "ADDRESS"}, {"device_filters", "NAMES"}};
        const char* type = kind == OptionKind::SIZE     ? "SIZE"
                           : kind == OptionKind::NUMBER ? "N"
                           : kind == OptionKind::FILE   ? "FILE"
                           : kind == OptionKind::TIME   ? "TIME"
                                                        : "NAME";
        for (const auto& [option, word] : kTypes)
          if (option == name) type = word;
        if (kind == OptionKind::SWITCH) {
          command.add_flag(flag, switches[name], help);
        } else if (with_seed || std::string_view(name) != "seed") {
          const auto check = [kind, names](const std::string& text) { return Problem(kind, names, text); };
          command.add_option(flag, texts[name], help)->type_name(type)->check(check);
        }
        return Status();
      });
  command.add_option("--deadline", deadline, "Longest time of one step, and of all that prepares it, such as 500ms")
      ->type_name("TIME")
      ->check(CheckTime);
}

Result<host::SessionOptions> SessionFlags::Options() const {
  host::SessionOptions options;
  TENON_TRY(ForEachFlag([&](const char* name, OptionKind kind, const char* flag, const char*, std::string_view names,
                            auto member) -> Status {
    auto& value = member(options);
    const std::string& text = Given(name);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
      const auto given = switches.find(std::string_view(name));
      if (given != switches.end() && given->second) value = !value;
    }
    // Costs are added to the file, which there may not be yet; a calibration is written by who finds it.
    if (writes_calibration && std::string_view(name) == "calibration") return Status();
    if (text.empty() || (std::string_view(name) == "costs" && access(text.c_str(), F_OK) != 0)) return Status();
    return Read(kind, names, text, &value).Annotate(flag);
  }));
  options.placement_source = Given("placement");
  if (!options.costs.empty()) options.costs_source = Given("costs");
  return options;
}

void SessionFlags::LeaveCluster() {
#define TENON_LEAVE(name, kind, value, reach, flag, help, names) \
  if (std::string_view(#reach) == "ON_CLUSTER") texts.erase(#name), switches.erase(#name);
  TENON_SESSION_OPTIONS(TENON_LEAVE)
#undef TENON_LEAVE
  texts.erase("device");
}

Result<std::chrono::nanoseconds> SessionFlags::Deadline() const {
  if (deadline.empty()) return std::chrono::nanoseconds(0);
  return ParseTime(deadline);
}

Result<data::ReadLimit> SessionFlags::Files() const {
  if (Given("memory_limit").empty()) return data::ReadLimit();
  TENON_TRY_ASSIGN(const uint64_t bytes, ParseSize(Given("memory_limit")));
  return data::ReadLimit(bytes);
}

}  // namespace tenon::cli
