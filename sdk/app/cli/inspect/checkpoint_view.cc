// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/inspect/checkpoint_view.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/inspect/summary.h"
#include "sdk/app/cli/json.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/print_tensor.h"
#include "sdk/app/cli/table.h"
#include "tenon/data/file.h"
#include "tenon/data/number_text.h"
#include "tenon/model/checkpoint.h"
#include "tenon/bytes/near_miss.h"
#include "tenon/train/checkpoint_state.h"

namespace tenon::cli {
namespace {

using host::Result;
using host::Runtime;
using host::Status;
using host::Tensor;
using model::CheckpointIndex;
using model::CheckpointTensor;

struct Totals {
  int64_t elements = 0;
  double bytes = 0;
};

Totals TotalsOf(const CheckpointIndex& index) {
  Size size;
  double bytes = 0;
  for (const CheckpointTensor& tensor : index.tensors) {
    size.Add(tensor.dtype, tensor.shape);
    bytes += static_cast<double>(tensor.bytes);
  }
  return {size.elements, bytes};
}

Json IndexJson(const CheckpointIndex& index) {
  Json json = {{"form", "checkpoint"}, {"prefix", index.prefix}, {"shards", index.shards}, {"tensors", Json::array()}};
  for (const CheckpointTensor& tensor : index.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", DTypeText(tensor.dtype)},
                               {"shape", ShapeJson(tensor.shape)},
                               {"bytes", tensor.bytes},
                               {"parts", tensor.parts}});
  }
  return json;
}

void PrintIndex(const CheckpointIndex& index) {
  const Totals totals = TotalsOf(index);
  fmt::print("{}: a checkpoint of {} tensors, {} elements, {} in {} data files\n\n", Printable(index.prefix),
             index.tensors.size(), data::FormatCount(totals.elements), FormatBytes(totals.bytes), index.shards);
  Table table({"TENSOR", "DTYPE", "SHAPE", "SIZE", ""});
  for (const CheckpointTensor& tensor : index.tensors) {
    table.Add({tensor.name, DTypeText(tensor.dtype), tensor.shape.ToString(),
               FormatBytes(static_cast<double>(tensor.bytes)),
               tensor.parts > 1 ? fmt::format("in {} slices", tensor.parts) : ""});
  }
  table.Print();
}

[[noreturn]] void RefuseName(const CheckpointIndex& index, const std::string& name) {
  sdk::NearMiss near(name);
  for (const CheckpointTensor& tensor : index.tensors) near.Try(tensor.name);
  WrongFlag("--values", Join("checkpoint '" + index.prefix + "' has no tensor " + Quoted(name) + near.Hint(),
                             "`tenon inspect " + index.prefix + "` lists them"));
}

Status PrintValue(const Runtime& runtime, const CheckpointIndex& index, const std::string& name, bool json) {
  const CheckpointTensor* found = index.Find(name);
  if (found == nullptr) RefuseName(index, name);
  const Result<Tensor> value = model::ReadCheckpointTensor(runtime, index, *found);
  if (!value.ok()) return value.status().Annotate("checkpoint '" + index.prefix + "'");
  if (json) {
    Json out = {{"name", name}};
    out.update(TensorJson(*value));
    PrintJson(out);
  } else {
    fmt::print("{}: {}\n{}\n", Printable(name), TensorText(value->dtype(), value->shape()), FormatTensor(*value));
  }
  return Status();
}

}  // namespace

Status InspectCheckpoint(const Runtime& runtime, const std::string& path, const std::string& values, bool json) {
  TENON_TRY_ASSIGN(const CheckpointIndex index, CheckpointIndex::Read(path));
  if (!values.empty()) return PrintValue(runtime, index, values, json);
  if (json)
    PrintJson(IndexJson(index));
  else
    PrintIndex(index);
  return Status();
}

namespace {

constexpr char kStateFile[] = "checkpoint";

// The folder of either.
std::string StateFolder(const std::string& path) {
  const std::string folder = data::FolderOf(path);
  return std::filesystem::path(path).filename() == kStateFile && data::FileExists(path)
             ? (folder.empty() ? "." : folder)
             : path;
}

// Seconds since 1970, as the file says them: no number and no time of this calendar are none.
std::string TimeText(double seconds) {
  constexpr double kYear10000 = 253402300800;
  if (!(seconds >= 0 && seconds < kYear10000)) return "";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(static_cast<std::time_t>(seconds)));
}

struct Kept {
  std::string prefix, time, trouble;
  int64_t tensors = 0;
  double bytes = 0;
};

Result<std::vector<Kept>> KeptIn(const std::string& folder) {
  TENON_TRY_ASSIGN(const train::CheckpointState state, train::CheckpointState::Read(folder));
  std::vector<Kept> all;
  for (size_t i = 0; i < state.paths.size(); ++i) {
    Kept kept{train::CheckpointPath(folder, state.paths[i]), "", "", 0, 0};
    if (i < state.timestamps.size()) kept.time = TimeText(state.timestamps[i]);
    if (const Result<CheckpointIndex> index = CheckpointIndex::Read(kept.prefix); index.ok()) {
      kept.tensors = static_cast<int64_t>(index->tensors.size());
      kept.bytes = TotalsOf(*index).bytes;
    } else {
      kept.trouble = index.status().message();
    }
    all.push_back(std::move(kept));
  }
  return all;
}

}  // namespace

bool IsCheckpointFolder(const std::string& path) {
  const std::string folder = StateFolder(path);
  return folder != path || (data::FileExists(data::JoinPath(path, kStateFile)) &&
                            !data::FileExists(data::JoinPath(path, "saved_model.pb")));
}

Status InspectCheckpointFolder(const std::string& path, bool json) {
  const std::string folder = StateFolder(path);
  const Result<std::vector<Kept>> all = KeptIn(folder);
  if (!all.ok()) return all.status().Annotate("'" + data::JoinPath(folder, kStateFile) + "'");
  if (json) {
    Json out = {{"form", "checkpoint folder"}, {"folder", folder}, {"checkpoints", Json::array()}};
    for (const Kept& kept : *all)
      out["checkpoints"].push_back({{"prefix", kept.prefix},
                                    {"time", kept.time},
                                    {"tensors", kept.tensors},
                                    {"bytes", kept.bytes},
                                    {"trouble", kept.trouble}});
    PrintJson(out);
    return Status();
  }
  fmt::print("{}: a folder of {} checkpoints, the newest last\n\n", Printable(folder), all->size());
  Table table({"CHECKPOINT", "SAVED", "TENSORS", "SIZE", ""});
  for (const Kept& kept : *all)
    table.Add({kept.prefix, kept.time, kept.trouble.empty() ? std::to_string(kept.tensors) : "",
               kept.trouble.empty() ? FormatBytes(kept.bytes) : "", kept.trouble});
  table.Print();
  return Status();
}

}  // namespace tenon::cli
