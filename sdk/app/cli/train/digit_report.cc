// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/digit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sdk/app/cli/json.h"
#include "sdk/app/cli/table.h"

namespace tenon::cli {
namespace {

constexpr size_t kDigitsShown = 8;  // digits
constexpr size_t kWrongShown = 4;
constexpr size_t kInARow = 4;
constexpr std::string_view kShades = " .:-=+*#%@";

// The first few, and the first few that were read wrongly in place of the last of them.
std::vector<size_t> Choose(const train::DigitSet& digits, std::span<const int64_t> answers) {
  std::vector<size_t> wrong;
  for (size_t i = 0; i < answers.size() && wrong.size() < kWrongShown; ++i) {
    if (answers[i] != digits.labels[i]) wrong.push_back(i);
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < answers.size() && chosen.size() + wrong.size() < kDigitsShown; ++i) {
    if (answers[i] == digits.labels[i]) chosen.push_back(i);
  }
  chosen.insert(chosen.end(), wrong.begin(), wrong.end());
  return chosen;
}

std::string DrawRow(const train::DigitSet& digits, std::span<const int64_t> answers, std::span<const size_t> row) {
  constexpr auto kSide = static_cast<size_t>(train::kDigitSide);
  std::string text;
  for (size_t y = 0; y < kSide; ++y) {
    text += "  ";
    for (size_t index : row) {
      const uint8_t* image = digits.image(static_cast<int64_t>(index));
      for (size_t x = 0; x < kSide; ++x) {
        text.append(2, kShades[image[y * kSide + x] * (kShades.size() - 1) / train::kDigitInk]);
      }
      text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  text += "  ";
  for (size_t index : row) {
    const bool right = answers[index] == digits.labels[index];
    text += fmt::format("{:<18}", right ? fmt::format("read as {}", answers[index])
                                        : fmt::format("read as {}, is {}", answers[index], digits.labels[index]));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n\n";
}

// What one plugin did for a step.
struct Work {
  std::set<std::string> ops;  // that it defined
  int64_t nodes = 0;          // of those ops
  int64_t kernels = 0;        // nodes that its kernels run
  std::map<std::string, int64_t> how;
};

std::string Describe(const Work& work) {
  std::string text;
  if (work.nodes > 0) text += fmt::format("says what {} nodes mean ({} ops)", work.nodes, work.ops.size());
  if (work.kernels == 0) return text;
  text += fmt::format("{}runs {} nodes:", text.empty() ? "" : "; ", work.kernels);
  for (const auto& [how, count] : work.how)
    text += fmt::format(" {} {}", count, how) + (how == work.how.rbegin()->first ? "" : ",");
  return text;
}

std::string PluginTable(const host::Runtime& runtime, const Json& nodes) {
  std::map<std::string, Work> works;
  for (const Json& node : nodes) {
    Work& definer = works[node.value("op_plugin", "")];
    definer.ops.insert(node.value("op", ""));
    ++definer.nodes;
    const std::string kernel_plugin = node.value("kernel_plugin", "");
    if (kernel_plugin.empty()) continue;
    Work& runner = works[kernel_plugin];
    ++runner.kernels;
    ++runner.how[node.value("runs", "")];
  }
  Table table({"PLUGIN", "VERSION", "WHAT IT DOES"});
  for (const tenon_load_report& report : runtime.Reports()) {
    const auto work = works.find(std::string(host::Text(report.id)));
    if (report.outcome != TENON_LOAD_LOADED || work == works.end()) continue;
    table.Add({work->first, std::string(host::Text(report.version)), Describe(work->second)});
  }
  return table.Format(2);
}

// Of a cluster the tasks' own plugins work, which they do not name.
std::string DeviceTable(const Json& nodes) {
  std::map<std::string, Work> works;
  for (const Json& node : nodes) {
    Work& work = works[node.value("device", "")];
    work.ops.insert(node.value("op", ""));
    ++work.nodes;
  }
  Table table({"DEVICE", "NODES", "OPS"});
  for (const auto& [device, work] : works)
    table.Add({device, std::to_string(work.nodes), std::to_string(work.ops.size())});
  return table.Format(2);
}

}  // namespace

std::string WorkTable(const host::Runtime& runtime, const std::string& explanation) {
  const Json nodes = Json::parse(explanation, nullptr, false);
  if (!nodes.is_array()) return "The engine did not say who did the work of a training step.\n";
  const auto is_remote = [](const Json& node) { return node.value("op_plugin", "").empty(); };
  if (std::all_of(nodes.begin(), nodes.end(), is_remote))
    return "These devices of the cluster did the work of a training step:\n" + DeviceTable(nodes);
  return "These plugins did the work of a training step:\n" + PluginTable(runtime, nodes);
}

std::string DrawDigits(const train::DigitSet& digits, std::span<const int64_t> answers) {
  const std::vector<size_t> chosen = Choose(digits, answers);
  std::string text = "Some of the held-out digits, with the answers given:\n";
  for (size_t i = 0; i < chosen.size(); i += kInARow) {
    text += DrawRow(digits, answers, std::span(chosen).subspan(i, std::min(kInARow, chosen.size() - i)));
  }
  return text;
}

}  // namespace tenon::cli
