// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/checkpoint.h"

#include <algorithm>

#include "sdk/app/model/index_table.h"
#include "tenon/data/file.h"
#include "tenon/data/graph_def.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using sdk::WireReader;

// Field numbers of tensorflow.BundleHeaderProto and BundleEntryProto.
constexpr uint32_t kHeaderShards = 1;
constexpr uint32_t kEntryDtype = 1, kEntryShape = 2, kEntrySize = 5, kEntrySlice = 7;

Result<int64_t> ParseHeader(std::string_view bytes) {
  uint64_t shards = 0;
  WireReader reader(bytes);
  while (reader.Next())
    if (reader.field() == kHeaderShards) shards = reader.varint();
  if (reader.ok() && shards >= 1 && shards <= INT32_MAX) return static_cast<int64_t>(shards);
  return Status(Code::kDataLoss, "the index is damaged: it does not say how many data files there are");
}

Result<CheckpointTensor> ParseEntry(std::string_view name, std::string_view bytes) {
  CheckpointTensor tensor;
  tensor.name = name;
  int64_t slices = 0;
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == kEntryDtype) tensor.dtype = static_cast<DType>(reader.varint());
    if (reader.field() == kEntryShape) tensor.shape = data::ParseTensorShape(reader.delimited());
    if (reader.field() == kEntrySize) tensor.bytes = reader.varint();
    slices += reader.field() == kEntrySlice;
  }
  tensor.parts = std::max<int64_t>(slices, 1);
  if (reader.ok()) return tensor;
  return Status(Code::kDataLoss, "the index is damaged: its entry for '" + std::string(name) + "' cannot be read");
}

// Slices have entries of their own under keys that begin with a zero byte; the whole tensor's entry counts them.
bool IsSliceKey(std::string_view key) { return key.starts_with('\0'); }

Result<CheckpointIndex> ParseIndex(std::string_view bytes) {
  CheckpointIndex index;
  bool header = false;
  TENON_TRY(ReadTable(bytes, [&](std::string_view key, std::string_view value) -> Status {
    if (key.empty()) {
      TENON_TRY_ASSIGN(index.shards, ParseHeader(value));
      header = true;
    } else if (!IsSliceKey(key)) {
      TENON_TRY_ASSIGN(CheckpointTensor tensor, ParseEntry(key, value));
      index.tensors.push_back(std::move(tensor));
    }
    return Status();
  }));
  if (!header) return Status(Code::kDataLoss, "the index is damaged: it has no header");
  return index;
}

}  // namespace

std::string CheckpointPrefix(std::string_view path) {
  constexpr std::string_view kIndex = ".index", kData = ".data-";
  if (path.ends_with(kIndex)) return std::string(path.substr(0, path.size() - kIndex.size()));
  const size_t data = path.rfind(kData);
  const bool in_name = data != std::string_view::npos && path.find('/', data) == std::string_view::npos;
  return std::string(path.substr(0, in_name ? data : std::string_view::npos));
}

bool IsCheckpoint(const std::string& path) {
  const std::string prefix = CheckpointPrefix(path);
  return data::FileExists(prefix + ".index") && (prefix != path || !data::FileExists(path));
}

Result<CheckpointIndex> CheckpointIndex::Read(const std::string& path) {
  const std::string prefix = CheckpointPrefix(path);
  TENON_TRY_ASSIGN(const data::MappedFile file, data::MappedFile::Open(prefix + ".index"));
  Result<CheckpointIndex> index = ParseIndex(file.bytes());
  if (!index.ok()) return index.status().Annotate("'" + prefix + ".index'");
  index->prefix = prefix;
  return index;
}

const CheckpointTensor* CheckpointIndex::Find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const CheckpointTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

Result<Tensor> ReadCheckpointTensor(const Runtime& runtime, const CheckpointIndex& index,
                                    const CheckpointTensor& tensor) {
  host::Graph graph(runtime);
  const auto text = [&](const std::string& value) -> Result<host::Output> {
    TENON_TRY_ASSIGN(Tensor made, Tensor::Strings({value}));
    return graph.Const(made);
  };
  TENON_TRY_ASSIGN(Tensor path, Tensor::String(index.prefix));
  TENON_TRY_ASSIGN(const host::Output name, text(tensor.name));
  TENON_TRY_ASSIGN(const host::Output whole, text(""));
  graph.AddNode("RestoreV2", {graph.Const(path), name, whole}, {{"dtypes", std::vector<DType>{tensor.dtype}}}, "value");
  TENON_TRY(graph.status());
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  TENON_TRY_ASSIGN(std::vector<Tensor> values, session.Run({}, {"value"}));
  return std::move(values[0]);
}

}  // namespace tenon::model
