// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/best_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

constexpr const char* kBestFileName = "checkpoint_best";

}  // namespace

const BestCheckpoint* BestCheckpoints::Find(std::string_view name) const {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const BestCheckpoint& one) { return one.name == name; });
  return found == list.end() ? nullptr : &*found;
}

bool BestCheckpoints::Forget(std::string_view name) {
  return std::erase_if(list, [&](const BestCheckpoint& one) { return one.name == name; }) > 0;
}

std::vector<BestCheckpoint> BestCheckpoints::Add(BestCheckpoint checkpoint, size_t most, bool higher_is_better) {
  list.push_back(std::move(checkpoint));
  // Of equals the older one is better.
  std::stable_sort(list.begin(), list.end(), [&](const BestCheckpoint& a, const BestCheckpoint& b) {
    return higher_is_better ? a.metric > b.metric : a.metric < b.metric;
  });
  std::vector<BestCheckpoint> out;
  for (; list.size() > most; list.pop_back()) out.push_back(std::move(list.back()));
  return out;
}

std::string BestCheckpoints::Format() const {
  std::string text;
  for (const BestCheckpoint& one : list) {
    char metric[64];
    std::snprintf(metric, sizeof(metric), "%.17g ", one.metric);
    text += metric + one.name + (one.kept ? " kept\n" : "\n");
  }
  return text;
}

Result<BestCheckpoints> BestCheckpoints::Parse(std::string_view text) {
  BestCheckpoints best;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    BestCheckpoint one;
    std::string kept, more;
    words >> one.metric >> one.name >> kept >> more;
    if (one.name.empty() || !std::isfinite(one.metric) || !more.empty() || (kept != "" && kept != "kept")) {
      return Status(Code::kDataLoss, "the line '" + line + "' is no metric and the name of a checkpoint");
    }
    one.kept = !kept.empty();
    best.list.push_back(std::move(one));
  }
  return best;
}

Result<BestCheckpoints> BestCheckpoints::Read(const std::string& folder) {
  const std::string path = data::JoinPath(folder, kBestFileName);
  const Result<std::string> text = data::ReadFile(path);
  if (!text.ok() && text.status().code() == Code::kNotFound) return BestCheckpoints();
  if (!text.ok()) return text.status();
  Result<BestCheckpoints> best = Parse(*text);
  if (!best.ok()) return best.status().Annotate("'" + path + "'");
  return best;
}

Status BestCheckpoints::Write(const std::string& folder) const {
  const std::string text = Format();
  return data::ReplaceFile(data::JoinPath(folder, kBestFileName), {text});
}

Status BestCheckpoints::Remove(const std::string& folder) {
  const std::string path = data::JoinPath(folder, kBestFileName);
  return data::FileExists(path) ? host::RemoveFile(path) : Status();
}

}  // namespace tenon::train
