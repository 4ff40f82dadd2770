// SPDX-License-Identifier: Apache-2.0
#include "core/place/placement_file.h"

#include <algorithm>

#include "core/graph/graph.h"
#include "core/place/device_name.h"

namespace tenon::place {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// A node of a function that the graph calls has the call's name before its own, once the call is replaced by its body.
bool IsBelowCall(const graph::Graph& graph, std::string_view name) {
  for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
    const graph::NodeId id = graph.Find(name.substr(0, slash));
    if (id && graph.node(id).has(TENON_OP_CALL)) return true;
  }
  return false;
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  // On a mismatch the last '*' takes one character more.
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<PlacementFile> PlacementFile::Parse(std::string_view text, std::string_view source) {
  PlacementFile file;
  file.source_ = source;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    const std::string_view line = Trim(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    const auto bad = [&](std::string_view why) { return InvalidArgument(StrCat(source, ":", number, ": ", why)); };
    const std::string_view node = line.substr(0, line.find_first_of(kBlanks));
    const std::string_view device = Trim(line.substr(node.size()));
    if (device.empty())
      return bad(StrCat("'", node, "' has no device; a line is a node's name, a blank, a device name"));
    if (auto name = DeviceName::Parse(device); !name.ok()) return bad(name.status().message());
    if (node.find_first_of("*?") != std::string_view::npos) {
      file.patterns_.push_back(file.rules_.size());
    } else if (const auto [it, added] = file.exact_.emplace(node, file.rules_.size()); !added) {
      return bad(StrCat("node '", node, "' stands already in line ", file.rules_[it->second].line));
    }
    file.rules_.push_back({std::string(node), std::string(device), number});
  }
  return file;
}

const std::string* PlacementFile::Find(const std::string& node) const {
  if (const auto found = exact_.find(node); found != exact_.end()) return &rules_[found->second].device;
  for (auto i = patterns_.rbegin(); i != patterns_.rend(); ++i)
    if (MatchesPattern(rules_[*i].node, node)) return &rules_[*i].device;
  return nullptr;
}

Status PlacementFile::Check(const graph::Graph& graph) const {
  for (const Rule& rule : rules_) {
    const std::string where = StrCat(source_, ":", rule.line);
    if (exact_.contains(rule.node)) {
      if (auto found = graph.Get(rule.node); !found.ok() && !IsBelowCall(graph, rule.node))
        return std::move(found).status().Annotate(where);
      continue;
    }
    bool used = IsBelowCall(graph, rule.node);
    for (const graph::NodeId id : graph.ids()) used = used || MatchesPattern(rule.node, graph.node(id).name);
    if (!used) return NotFound(StrCat(where, ": no node's name is like '", rule.node, "'"));
  }
  return Status::Ok();
}

std::string PlacementFile::Write(const graph::Graph& graph, const graph::NodeMap<DeviceId>& device_of_node,
                                 const IdVector<DeviceId, std::string>& device_names) {
  std::string out = "# node  device\n";
  for (const graph::NodeId id : device_of_node.ids()) {
    if (!device_of_node[id]) continue;
    out += StrCat(graph.node(id).name, "\t", device_names[device_of_node[id]], "\n");
  }
  return out;
}

}  // namespace tenon::place
