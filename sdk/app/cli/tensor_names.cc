// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/tensor_names.h"

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/model_flags.h"
#include "tenon/data/graph_def.h"
#include "tenon/model/load.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::cli {
namespace {

using data::NodeView;
using host::Code;
using host::Result;
using host::Status;
using model::Signature;
using model::TensorInfo;

constexpr size_t kMostListed = 20;
// Graphs of older producers have a scalar's shape where they mean that it is not known.
constexpr int64_t kFirstWithShapes = 24;

bool IsPlaceholder(const NodeView& node) { return node.op == "Placeholder" || node.op == "PlaceholderWithDefault"; }

const TensorInfo* FindInfo(const std::vector<TensorInfo>* infos, std::string_view key) {
  for (size_t i = 0; infos != nullptr && i < infos->size(); ++i)
    if ((*infos)[i].key == key) return &(*infos)[i];
  return nullptr;
}

}  // namespace

Result<TensorNames> TensorNames::Of(const model::ModelFile& file, const Signature* signature) {
  TENON_TRY_ASSIGN(model::GraphIndex index, IndexOf(file));
  return TensorNames(file, signature, std::move(index));
}

Result<std::string> TensorNames::Feed(const std::string& name, const char* flag) const {
  return Find(flag, name, signature_ == nullptr ? nullptr : &signature_->inputs);
}
Result<std::string> TensorNames::Fetch(const std::string& name, const char* flag) const {
  return Find(flag, name, signature_ == nullptr ? nullptr : &signature_->outputs);
}

void TensorNames::CheckNode(const std::string& flag, const std::string& name) const {
  if (!HasNode(name)) Refuse(flag, name, nullptr);
}

Result<std::string> TensorNames::Find(const char* flag, const std::string& name,
                                      const std::vector<TensorInfo>* infos) const {
  if (const TensorInfo* info = FindInfo(infos, name)) return model::TensorOf(*signature_, *info);
  if (!HasNode(name)) Refuse(flag, name, infos);
  return name;
}

void TensorNames::Refuse(const std::string& flag, const std::string& name, const std::vector<TensorInfo>* infos) const {
  sdk::NearMiss near(name);
  for (size_t i = 0; infos != nullptr && i < infos->size(); ++i) near.Try((*infos)[i].key);
  for (const NodeView& node : index_.graph().nodes) near.Try(node.name);
  const std::string graph = "graph '" + file_->path() + "'";
  const std::string where = infos == nullptr ? graph + " has no such node"
                                             : "neither signature '" + signature_->name + "' nor " + graph + " has it";
  WrongFlag(flag, Join(Join(Quoted(name) + ": " + where + near.Hint(), Known(flag, infos)), Choice()));
}

// What there is instead: of a signature its keys, else what may be fed.
std::string TensorNames::Known(const std::string& flag, const std::vector<TensorInfo>* infos) const {
  const bool feeds = flag == "--feed" || flag == "--data";
  if (infos != nullptr) return std::string(feeds ? "its inputs: " : "its outputs: ") + InfosText(*infos);
  const std::string placeholders = feeds ? Placeholders() : "";
  return placeholders.empty() ? "" : "its placeholders: " + placeholders;
}

std::string TensorNames::Placeholders() const {
  std::string text;
  size_t count = 0;
  for (const NodeView& node : index_.graph().nodes) {
    if (!IsPlaceholder(node) || ++count > kMostListed) continue;
    const Expected expected = ExpectedOf(node);
    text += (text.empty() ? "" : ", ") + std::string(node.name) + " " + TensorText(expected.dtype, expected.shape);
  }
  return count > kMostListed ? text + ", and " + std::to_string(count - kMostListed) + " more" : text;
}

std::string TensorNames::Choice() const {
  const std::vector<Signature>& all = file_->meta().signatures;
  if (signature_ != nullptr || all.size() < 2) return "";
  return "choose one of its signatures with --signature NAME: " + SignaturesText(all);
}

Status TensorNames::CheckFeed(const std::string& given, const std::string& tensor, const host::Tensor& value,
                              const std::string& file) const {
  return Misfit(ExpectedOf(given, tensor), value, file);
}

Status TensorNames::CheckRows(const std::string& given, const std::string& tensor, const host::Tensor& value,
                              const std::string& file) const {
  Expected expected = ExpectedOf(given, tensor);
  if (expected.shape.rank() > 0) {
    std::vector<int64_t> dims = expected.shape.dims();
    dims[0] = -1;
    expected.shape = host::Shape(std::move(dims));
  }
  return Misfit(expected, value, file);
}

std::string TensorNames::TypeOf(const std::string& given, const std::string& tensor) const {
  const Expected expected = ExpectedOf(given, tensor);
  return TensorText(expected.dtype, expected.shape);
}

Status TensorNames::Misfit(const Expected& expected, const host::Tensor& value, const std::string& file) const {
  const bool same_type = expected.dtype == host::DType::kInvalid || expected.dtype == value.dtype();
  if (same_type && model::Fits(expected.shape, value.shape())) return Status();
  const std::string inputs =
      signature_ != nullptr && signature_->inputs.size() > 1 ? "; its inputs: " + InfosText(signature_->inputs) : "";
  return Status(Code::kInvalidArgument, "graph '" + file_->path() + "': " + expected.what + " is " +
                                            TensorText(expected.dtype, expected.shape) + ", '" + file + "' is " +
                                            TensorText(value.dtype(), value.shape()) + inputs);
}

TensorNames::Expected TensorNames::ExpectedOf(const std::string& given, const std::string& tensor) const {
  const TensorInfo* info = signature_ == nullptr ? nullptr : signature_->FindInput(given);
  if (info != nullptr && info->kind == TensorInfo::Kind::kDense)
    return {info->dtype, info->shape, "input '" + given + "' of signature '" + signature_->name + "'"};
  const NodeView* node = index_.FindNode(data::NodeOfInput(tensor));
  return node != nullptr && IsPlaceholder(*node) ? ExpectedOf(*node) : Expected();
}

TensorNames::Expected TensorNames::ExpectedOf(const NodeView& node) const {
  Expected expected{node.TypeAttr("dtype"), node.ShapeAttr("shape"),
                    "feed '" + std::string(node.name) + "' (" + std::string(node.op) + ")"};
  if (expected.shape.rank() == 0 && index_.graph().producer < kFirstWithShapes) expected.shape = host::Shape::Unknown();
  return expected;
}

std::string TensorNames::OpOf(std::string_view tensor) const {
  const NodeView* node = index_.FindNode(data::NodeOfInput(tensor));
  return node == nullptr ? "" : " (" + std::string(node->op) + ")";
}

}  // namespace tenon::cli
