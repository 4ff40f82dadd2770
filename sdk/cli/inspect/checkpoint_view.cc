// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/inspect/checkpoint_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "sdk/cli/describe.h"
#include "sdk/cli/inspect/summary.h"
#include "sdk/cli/json.h"
#include "sdk/cli/line/printable.h"
#include "sdk/cli/line/slips.h"
#include "sdk/cli/line/wrong_flag.h"
#include "sdk/cli/print_tensor.h"
#include "sdk/cli/table.h"
#include "tenon/data/number_text.h"
#include "tenon/model/checkpoint.h"
#include "tenon/sdk/near_miss.h"

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

}  // namespace tenon::cli
