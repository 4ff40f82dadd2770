// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/cluster_file.h"

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tenon/data/file.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;
using nlohmann::json;

Status BadFile(const std::string& source, const std::string& what) {
  return Status(
      Code::kInvalidArgument,
      source + ": " + what + R"(; a cluster is written as {"ps": ["host:port"], "worker": ["host:port", ...]})");
}

Result<int> Index(const json& value, const std::string& source) {
  if (value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < 1000000) return value.get<int>();
  if (value.is_string()) {  // as some launchers write it
    const std::string& text = value.get_ref<const std::string&>();
    int index = -1;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && index >= 0) return index;
  }
  return BadFile(source, value.dump() + " is no task's number");
}

Status AddJob(const std::string& job, const json& tasks, const std::string& source, ClusterFile* out) {
  const auto add = [&](int index, const json& address) -> Status {
    if (!address.is_string() || address.get_ref<const std::string&>().empty())
      return BadFile(source, "task " + std::to_string(index) + " of job '" + job + "' has no address");
    out->tasks.push_back({TaskName(job, index), address.get<std::string>()});
    return Status();
  };
  if (tasks.is_array()) {
    for (size_t i = 0; i < tasks.size(); ++i) TENON_TRY(add(static_cast<int>(i), tasks[i]));
    return Status();
  }
  if (!tasks.is_object())
    return BadFile(source, "job '" + job + "' is " + tasks.type_name() + " instead of a list of addresses");
  for (const auto& [number, address] : tasks.items()) {
    TENON_TRY_ASSIGN(const int index, Index(json(number), source));
    TENON_TRY(add(index, address));
  }
  return Status();
}

}  // namespace

Result<ClusterFile> ClusterFile::Read(const std::string& path) {
  TENON_TRY_ASSIGN(const std::string text, data::ReadFile(path));
  return Parse(text, path);
}

Result<int> LauncherRank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* value = std::getenv(variable); value != nullptr) return Index(json(std::string(value)), variable);
  return -1;
}

std::string TaskName(const std::string& job, int task) { return "/job:" + job + "/task:" + std::to_string(task); }

Result<ClusterFile> ClusterFile::Parse(std::string_view text, const std::string& source) {
  const json read = json::parse(text, nullptr, false);
  if (!read.is_object()) return BadFile(source, read.is_discarded() ? "it is no JSON" : "it is no JSON object");
  ClusterFile out;
  const bool whole = read.contains("cluster") && read["cluster"].is_object();
  const json& cluster = whole ? read["cluster"] : read;
  for (const auto& [job, tasks] : cluster.items()) TENON_TRY(AddJob(job, tasks, source, &out));
  if (out.tasks.empty()) return BadFile(source, "it names no task");
  if (whole && read.contains("task") && read["task"].is_object()) {
    const json& task = read["task"];
    if (!task.contains("type") || !task["type"].is_string() || !task.contains("index"))
      return BadFile(source, "its task has no type and index");
    out.job = task["type"].get<std::string>();
    TENON_TRY_ASSIGN(out.task, Index(task["index"], source));
  }
  return out;
}

}  // namespace tenon::cli
