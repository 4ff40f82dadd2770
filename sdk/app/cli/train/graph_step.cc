// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/train/graph_step.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using data::NodeView;
using host::DType;
using host::Result;
using host::Status;
using model::Signature;
using model::TensorInfo;

constexpr size_t kMostVariablesListed = 10;

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kHalf || dtype == DType::kBfloat16;
}
bool IsNumber(DType dtype) {
  return IsFloat(dtype) || dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kUint64 ||
         dtype == DType::kUint32 || dtype == DType::kInt16 || dtype == DType::kUint16 || dtype == DType::kInt8 ||
         dtype == DType::kUint8 || dtype == DType::kBool;
}
bool IsOneNumber(const TensorInfo& info) {
  return info.kind == TensorInfo::Kind::kDense && info.shape.has_rank() && info.shape.rank() == 0 &&
         IsNumber(info.dtype);
}

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostVariablesListed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMostVariablesListed
             ? text + ", and " + std::to_string(names.size() - kMostVariablesListed) + " more"
             : text;
}

// Nodes that look like train ops: nobody reads them, and they change variables by an optimizer's op, directly or as a
// group.
std::vector<std::string> TrainOpsOf(const model::GraphIndex& index) {
  std::unordered_map<std::string_view, std::vector<const NodeView*>> readers;
  for (const NodeView& node : index.graph().nodes)
    for (std::string_view input : node.inputs) readers[data::NodeOfInput(input)].push_back(&node);
  const auto applies = [](const NodeView& node) {
    return node.op.starts_with("Apply") || node.op.starts_with("ResourceApply") || node.op.starts_with("SparseApply") ||
           node.op.starts_with("ResourceSparseApply");
  };
  // Forwards from the optimizers' ops, each node once.
  std::unordered_set<const NodeView*> behind;
  std::vector<const NodeView*> open;
  const auto visit = [&](const NodeView& node) {
    if (behind.insert(&node).second) open.push_back(&node);
  };
  for (const NodeView& node : index.graph().nodes)
    if (applies(node)) visit(node);
  while (!open.empty()) {
    const auto at = readers.find(open.back()->name);
    open.pop_back();
    if (at == readers.end()) continue;
    for (const NodeView* reader : at->second) visit(*reader);
  }
  std::vector<std::string> found;
  for (const NodeView& node : index.graph().nodes)
    if (behind.contains(&node) && !readers.contains(node.name)) found.emplace_back(node.name);
  return found;
}

class Chooser {
 public:
  Chooser(const StepWords& words, const model::ModelFile& file, const Signature* signature, bool by_name,
          const TensorNames& names)
      : words_(words), file_(file), signature_(signature), by_name_(by_name), names_(names) {}

  Result<GraphStep> Run() {
    if (!words_.minimize.empty() && !words_.loss.empty() && words_.loss != words_.minimize)
      WrongFlag("--loss", "the loss is what --minimize names, " + Quoted(words_.minimize));
    for (const std::string& target : words_.targets) names_.CheckNode("--target", target);
    const bool trains = signature_ != nullptr && (by_name_ || signature_->name == kTrainSignature);
    if (!words_.minimize.empty()) TENON_TRY(Minimize());
    else if (!words_.targets.empty())
      TENON_TRY(ByTargets(words_.targets, "by --target " + Listed(words_.targets)));
    else if (trains)
      TENON_TRY(BySignature());
    else if (!file_.meta().train_op.empty())
      TENON_TRY(ByTargets({file_.meta().train_op}, "by its train op '" + file_.meta().train_op + "'"));
    else
      RefuseNothing();
    TENON_TRY(ChooseSummaries());
    return std::move(step_);
  }

 private:
  Status Minimize() {
    TENON_TRY_ASSIGN(step_.loss, names_.Fetch(words_.minimize, "--minimize"));
    step_.loss_name = words_.minimize;
    step_.targets = words_.targets;
    step_.what = "minimising '" + words_.minimize + "'";
    return Status();
  }

  Status ByTargets(const std::vector<std::string>& targets, const std::string& what) {
    if (words_.loss.empty())
      WrongFlag("--loss",
                "which tensor is the loss? It is watched: a training ends where it is no number" + LikelyLosses());
    TENON_TRY_ASSIGN(step_.loss, names_.Fetch(words_.loss, "--loss"));
    step_.loss_name = words_.loss;
    step_.targets = targets;
    step_.what = what;
    return Status();
  }
  std::string LikelyLosses() const {
    std::vector<std::string> likely;
    const auto collected = file_.meta().collections.find("losses");
    for (const NodeView& node : names_.graph().nodes) {
      const std::string_view last = node.name.substr(node.name.rfind('/') + 1);
      if (last == "loss" || last == "total_loss" || last == "cost") likely.emplace_back(node.name);
    }
    if (collected != file_.meta().collections.end())
      likely.insert(likely.end(), collected->second.begin(), collected->second.end());
    return likely.empty() ? "" : "; the graph has: " + Listed(likely);
  }

  Status BySignature() {
    for (const TensorInfo& output : signature_->outputs) {
      if (output.kind == TensorInfo::Kind::kDense) step_.targets.push_back(output.tensor);
      else
        step_.targets.insert(step_.targets.end(), output.parts.begin(), output.parts.end());
    }
    step_.what = "by its signature '" + signature_->name + "'";
    TENON_TRY(LossOfSignature());
    for (const TensorInfo& output : signature_->outputs)
      if (IsOneNumber(output) && output.key != step_.loss_name) step_.metrics.emplace_back(output.key, output.tensor);
    return Status();
  }

  Status LossOfSignature() {
    std::vector<std::string> floats;
    for (const TensorInfo& output : signature_->outputs)
      if (IsOneNumber(output) && IsFloat(output.dtype)) floats.push_back(output.key);
    step_.loss_name = words_.loss;
    if (step_.loss_name.empty() && signature_->FindOutput("loss") != nullptr) step_.loss_name = "loss";
    if (step_.loss_name.empty() && floats.size() == 1) step_.loss_name = floats[0];
    if (step_.loss_name.empty())
      WrongFlag("--loss", "which output of signature '" + signature_->name + "' is the loss? None is called so, and " +
                              (floats.empty() ? "none is one floating number"
                                              : "several are one floating number: " + Listed(floats)) +
                              "; its outputs: " + InfosText(signature_->outputs));
    TENON_TRY_ASSIGN(step_.loss, names_.Fetch(step_.loss_name, "--loss"));
    return Status();
  }

  Status ChooseSummaries() {
    for (const std::string& name : words_.summaries) {
      TENON_TRY_ASSIGN(std::string tensor, names_.Fetch(name, "--summary"));
      step_.summaries.push_back(std::move(tensor));
    }
    if (!step_.summaries.empty()) return Status();
    // The merged one, where there is one.
    for (const char* collection : {"summary_op", "summaries"}) {
      const auto found = file_.meta().collections.find(collection);
      if (found == file_.meta().collections.end() || !step_.summaries.empty()) continue;
      step_.summaries = found->second;
      step_.collected_summaries = true;
    }
    return Status();
  }

  [[noreturn]] void RefuseNothing() const {
    std::string text =
        "nothing says what a step of '" + file_.path() + "' does: it has no signature '" + kTrainSignature + "'";
    text += file_.meta().signatures.empty() ? " (nor another one)"
                                            : " (its signatures: " + SignaturesText(file_.meta().signatures) + ")";
    const auto several = file_.meta().collections.find("train_op");
    text += several == file_.meta().collections.end()
                ? " and no collection 'train_op'"
                : ", and its collection 'train_op' names several nodes: " + Listed(several->second);
    text += "; give --signature NAME, --target NODE with --loss TENSOR, or --minimize TENSOR";
    const std::vector<std::string> likely = TrainOpsOf(names_.index());
    WrongFlag("--target", text + (likely.empty() ? LikelyLosses() : "; these look like train ops: " + Listed(likely)));
  }

  const StepWords& words_;
  const model::ModelFile& file_;
  const Signature* const signature_;
  const bool by_name_;
  const TensorNames& names_;
  GraphStep step_;
};

}  // namespace

Result<GraphStep> ChooseStep(const StepWords& words, const model::ModelFile& file, const Signature* signature,
                             bool by_name, const TensorNames& names) {
  return Chooser(words, file, signature, by_name, names).Run();
}

}  // namespace tenon::cli
