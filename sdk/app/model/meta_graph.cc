// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/meta_graph.h"

#include <algorithm>

#include "tenon/data/graph_def.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using sdk::FindBytes;
using sdk::FindNumber;
using sdk::WireReader;

// Field numbers of tensorflow.MetaGraphDef and the messages in it.
constexpr uint32_t kMetaInfo = 1, kMetaGraphDef = 2, kMetaSaver = 3, kMetaCollection = 4, kMetaSignature = 5,
                   kMetaAsset = 6;
constexpr uint32_t kInfoTag = 4, kInfoVersion = 5;
constexpr uint32_t kSaverFilename = 1, kSaverSave = 2, kSaverRestore = 3;
constexpr uint32_t kMetaMapKey = 1, kMetaMapValue = 2;
constexpr uint32_t kSignatureInput = 1, kSignatureOutput = 2, kSignatureMethod = 3, kSignatureDefault = 4;
constexpr uint32_t kTensorName = 1, kTensorDtype = 2, kTensorShape = 3, kTensorSparse = 4, kTensorComposite = 5;
constexpr uint32_t kSparseValues = 1, kSparseIndices = 2, kSparseShape = 3, kCompositeComponent = 2;
constexpr uint32_t kAssetTensor = 1, kAssetFile = 2;
constexpr uint32_t kCollectionNodes = 1, kCollectionBytes = 2, kCollectionAny = 5, kListValue = 1, kAnyValue = 2;

constexpr std::string_view kInitSignature = "__saved_model_init_op", kTrainSignature = "__saved_model_train_op";
constexpr std::string_view kAssetCollection = "saved_model_assets", kRunnerCollection = "queue_runners";
constexpr std::string_view kTrainCollection = "train_op";
constexpr std::string_view kVariableCollections[] = {"variables", "local_variables", "trainable_variables",
                                                     "model_variables"};
constexpr uint32_t kVariableName = 1, kVariableInitializer = 2;
constexpr std::string_view kMainOpCollections[] = {"saved_model_main_op", "legacy_init_op"};

// All fields of one number.
std::vector<std::string_view> AllBytes(std::string_view message, uint32_t field) {
  std::vector<std::string_view> all;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == field && reader.is_bytes()) all.push_back(reader.bytes());
  }
  return all;
}

// "a" of "a:0": the node that a signature names where a tensor was expected.
std::string NodeOf(std::string_view tensor) { return std::string(data::NodeOfInput(tensor)); }

TensorInfo ParseTensorInfo(std::string_view bytes) {
  TensorInfo info;
  info.tensor = FindBytes(bytes, kTensorName);
  info.dtype = static_cast<DType>(FindNumber(bytes, kTensorDtype));
  const std::vector<std::string_view> shapes = AllBytes(bytes, kTensorShape);
  info.shape = shapes.empty() ? Shape::Unknown() : data::ParseTensorShape(shapes.back());
  if (const auto sparse = AllBytes(bytes, kTensorSparse); !sparse.empty()) {
    info.kind = TensorInfo::Kind::kSparse;
    for (uint32_t field : {kSparseValues, kSparseIndices, kSparseShape})
      info.parts.emplace_back(FindBytes(sparse.back(), field));
  } else if (const auto composite = AllBytes(bytes, kTensorComposite); !composite.empty()) {
    info.kind = TensorInfo::Kind::kComposite;
    for (std::string_view component : AllBytes(composite.back(), kCompositeComponent)) {
      info.parts.emplace_back(FindBytes(component, kTensorName));
    }
  }
  return info;
}

std::vector<TensorInfo> ParseTensorMap(std::string_view signature, uint32_t field) {
  std::vector<TensorInfo> infos;
  for (std::string_view entry : AllBytes(signature, field)) {
    TensorInfo info = ParseTensorInfo(FindBytes(entry, kMetaMapValue));
    info.key = FindBytes(entry, kMetaMapKey);
    infos.push_back(std::move(info));
  }
  std::stable_sort(infos.begin(), infos.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.key < b.key; });
  return infos;
}

Signature ParseSignature(std::string_view entry) {
  const std::string_view bytes = FindBytes(entry, kMetaMapValue);
  Signature signature;
  signature.name = FindBytes(entry, kMetaMapKey);
  signature.method = FindBytes(bytes, kSignatureMethod);
  signature.inputs = ParseTensorMap(bytes, kSignatureInput);
  signature.outputs = ParseTensorMap(bytes, kSignatureOutput);
  for (std::string_view given : AllBytes(bytes, kSignatureDefault)) {
    for (TensorInfo& input : signature.inputs)
      if (input.key == FindBytes(given, kMetaMapKey)) input.default_value = FindBytes(given, kMetaMapValue);
  }
  return signature;
}

Asset ParseAsset(std::string_view bytes) {
  return {std::string(FindBytes(FindBytes(bytes, kAssetTensor), kTensorName)),
          std::string(FindBytes(bytes, kAssetFile))};
}

class Parser {
 public:
  Result<MetaGraph> Run(std::string_view bytes) {
    meta_.bytes = bytes;
    WireReader reader(bytes);
    while (reader.Next()) {
      if (reader.is_bytes()) Field(reader.field(), reader.bytes());
    }
    if (!reader.ok()) return Status(Code::kInvalidArgument, "the bytes are no MetaGraphDef, or damaged");
    if (!status_.ok()) return status_;
    std::stable_sort(meta_.signatures.begin(), meta_.signatures.end(),
                     [](const auto& a, const auto& b) { return a.name < b.name; });
    if (meta_.assets.empty()) meta_.assets = std::move(collected_assets_);
    for (std::string& op : collected_main_ops_) {
      if (meta_.main_op.empty()) meta_.main_op = std::move(op);
    }
    const auto train = meta_.collections.find(kTrainCollection);
    if (meta_.train_op.empty() && train != meta_.collections.end()) {
      const std::vector<std::string>& all = train->second;  // one may be named twice
      if (std::count(all.begin(), all.end(), all[0]) == static_cast<ptrdiff_t>(all.size()))
        meta_.train_op = NodeOf(all[0]);
    }
    return std::move(meta_);
  }

 private:
  void Field(uint32_t field, std::string_view bytes) {
    switch (field) {
      case kMetaInfo:
        for (std::string_view tag : AllBytes(bytes, kInfoTag)) meta_.tags.emplace_back(tag);
        meta_.tensorflow_version = FindBytes(bytes, kInfoVersion);
        break;
      case kMetaGraphDef:
        meta_.graph_def = bytes;
        break;
      case kMetaSaver:
        meta_.saver = {std::string(FindBytes(bytes, kSaverFilename)), std::string(FindBytes(bytes, kSaverSave)),
                       std::string(FindBytes(bytes, kSaverRestore))};
        break;
      case kMetaCollection:
        AddCollection(FindBytes(bytes, kMetaMapKey), FindBytes(bytes, kMetaMapValue));
        break;
      case kMetaSignature:
        AddSignature(ParseSignature(bytes));
        break;
      case kMetaAsset:
        meta_.assets.push_back(ParseAsset(bytes));
        break;
      default:
        break;
    }
  }

  // Two of them are no functions for callers: what to run first, and what trains one step.
  void AddSignature(Signature signature) {
    if (signature.name == kInitSignature) {
      if (!signature.outputs.empty()) meta_.main_op = NodeOf(signature.outputs[0].tensor);
    } else if (signature.name == kTrainSignature) {
      if (!signature.outputs.empty()) meta_.train_op = NodeOf(signature.outputs[0].tensor);
    } else {
      meta_.signatures.push_back(std::move(signature));
    }
  }

  // What older files have instead of fields.
  void AddCollection(std::string_view name, std::string_view value) {
    if (name == kAssetCollection) {
      for (std::string_view any : AllBytes(FindBytes(value, kCollectionAny), kListValue)) {
        collected_assets_.push_back(ParseAsset(FindBytes(any, kAnyValue)));
      }
    }
    if (name == kRunnerCollection) {
      for (std::string_view def : AllBytes(FindBytes(value, kCollectionBytes), kListValue)) {
        auto runner = ParseQueueRunner(def);
        if (runner.ok()) meta_.queue_runners.push_back(std::move(*runner));
        else status_ = runner.status().Annotate("collection 'queue_runners'");
      }
    }
    for (std::string_view node : AllBytes(FindBytes(value, kCollectionNodes), kListValue))
      meta_.collections[std::string(name)].emplace_back(node);
    if (std::find(std::begin(kVariableCollections), std::end(kVariableCollections), name) !=
        std::end(kVariableCollections)) {
      for (std::string_view def : AllBytes(FindBytes(value, kCollectionBytes), kListValue))
        meta_.variables[std::string(name)].push_back(
            {NodeOf(FindBytes(def, kVariableName)), NodeOf(FindBytes(def, kVariableInitializer))});
    }
    for (size_t i = 0; i < std::size(kMainOpCollections); ++i) {
      if (name != kMainOpCollections[i]) continue;
      const std::vector<std::string_view> nodes = AllBytes(FindBytes(value, kCollectionNodes), kListValue);
      if (!nodes.empty()) collected_main_ops_[i] = NodeOf(nodes[0]);
    }
  }

  MetaGraph meta_;
  Status status_;
  std::vector<Asset> collected_assets_;
  std::string collected_main_ops_[std::size(kMainOpCollections)];
};

const TensorInfo* FindIn(const std::vector<TensorInfo>& infos, std::string_view key) {
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.key == key; });
  return found == infos.end() ? nullptr : &*found;
}

}  // namespace

bool Fits(const Shape& wanted, const Shape& found) {
  if (!wanted.has_rank()) return true;
  if (wanted.rank() != found.rank()) return false;
  for (size_t i = 0; i < found.dims().size(); ++i)
    if (wanted[i] >= 0 && wanted[i] != found[i]) return false;
  return true;
}

const TensorInfo* Signature::FindInput(std::string_view key) const { return FindIn(inputs, key); }
const TensorInfo* Signature::FindOutput(std::string_view key) const { return FindIn(outputs, key); }

const Signature* MetaGraph::FindSignature(std::string_view name) const {
  const auto found =
      std::find_if(signatures.begin(), signatures.end(), [&](const Signature& s) { return s.name == name; });
  return found == signatures.end() ? nullptr : &*found;
}

Result<MetaGraph> ParseMetaGraph(std::string_view bytes) { return Parser().Run(bytes); }

}  // namespace tenon::model
