// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/sampled_loss.h"

#include <string>

#include "sdk/app/train/shards/row_shards.h"

namespace tenon::train {
namespace {

class SampledLogits {
 public:
  SampledLogits(Graph& graph, const ClassShards& classes, const SampledLossOptions& options, std::string what)
      : graph_(graph), classes_(classes), options_(options), what_(std::move(what)) {}

  // False where the graph has failed.
  bool Make(const Output& inputs, const Output& labels, bool remove_hits) {
    if (!CheckShards(graph_, classes_, what_) || !CheckInputs(inputs) || !CheckCounts(labels)) return false;
    const Output checked = CheckedLabels(graph_, labels, classes_.classes(), what_);
    labels_ = labels.shape().rank() == 1 ? graph_.Op("ExpandDims", {checked, graph_.Const(1)}) : checked;
    candidates_ = options_.candidates
                      ? *options_.candidates
                      : LogUniformCandidates(graph_, labels_, options_.sampled, classes_.classes(), options_.seed);
    LookUp(inputs);
    if (options_.remove_accidental_hits.value_or(remove_hits)) sampled_ = Add(sampled_, Hits());
    true_ = graph_.Op("Sub", {true_, Log(candidates_.true_expected)});
    sampled_ = graph_.Op("Sub", {sampled_, Log(candidates_.sampled_expected)});
    return graph_.status().ok();
  }
  Output logits() { return Joined(true_, sampled_); }  // [batch, labels + S]
  // How probable each should be.
  Output targets() {
    const Output share = graph_.Const(1.0f / static_cast<float>(label_count_));
    return Joined(Filled(true_, share), Filled(sampled_, graph_.Const(0.0f)));
  }

 private:
  bool Refuse(const std::string& why) {
    graph_.Fail(Status(Code::kInvalidArgument, what_ + ": " + why));
    return false;
  }
  bool CheckInputs(const Output& inputs) {
    const Shape shape = inputs.shape();
    if (!shape.has_rank() || (shape.rank() == 2 && (shape[1] < 0 || shape[1] == classes_.width()))) return true;
    return Refuse("inputs are " + shape.ToString() + "; the weights take [batch, " + std::to_string(classes_.width()) +
                  "]");
  }
  bool CheckCounts(const Output& labels) {
    const Shape shape = labels.shape();
    label_count_ = shape.rank() == 1 ? 1 : shape.rank() == 2 ? shape[1] : -1;
    if (label_count_ < 1)
      return Refuse("labels are " + shape.ToString() +
                    "; they are [batch] or [batch, labels], with a number of labels that the graph knows");
    if (!options_.candidates && (options_.sampled < 1 || options_.sampled > classes_.classes()))
      return Refuse(std::to_string(options_.sampled) + " different classes cannot be sampled of " +
                    std::to_string(classes_.classes()));
    return true;
  }

  // Labels and sample in one look-up: [batch labels + S, ...].
  void LookUp(const Output& inputs) {
    const Output flat = graph_.Op("Reshape", {labels_, graph_.Const({-1})}), labels = graph_.Op("Size", {flat});
    const Output ids = graph_.Op("ConcatV2", {flat, candidates_.sampled, graph_.Const(0)});
    const Output weights = LookUpRows(graph_, classes_.weights, classes_.partition, ids);
    const Output biases = LookUpRows(graph_, classes_.biases, classes_.partition, ids);
    const auto width = static_cast<int32_t>(classes_.width()), count = static_cast<int32_t>(label_count_);
    const Output of_labels = graph_.Op("Reshape", {Begin(weights, labels), graph_.Const({-1, count, width})});
    const Output products = graph_.Op("Mul", {of_labels, graph_.Op("ExpandDims", {inputs, graph_.Const(1)})});
    true_ = Add(graph_.Op("Sum", {products, graph_.Const({2})}),
                graph_.Op("Reshape", {Begin(biases, labels), graph_.Const({-1, count})}));
    sampled_ = Add(graph_.Op("MatMul", {inputs, End(weights, labels)}, {{"transpose_b", true}}), End(biases, labels));
  }
  // The lowest number where a sample is a label of the example; else 0.
  Output Hits() {
    const Operation hits =
        graph_.AddNode("ComputeAccidentalHits", {labels_, candidates_.sampled}, {{"num_true", label_count_}});
    const Output places = graph_.Op("Cast", {hits.output(1)}, {{"DstT", DType::kInt32}});
    const Output indices = graph_.Op("Pack", {hits.output(0), places}, {{"axis", 1}});
    // A hit of two equal labels stands twice, and counts once.
    return graph_.Op("SparseToDense", {indices, graph_.Op("Shape", {sampled_}), hits.output(2), graph_.Const(0.0f)},
                     {{"validate_indices", false}});
  }

  Output Add(const Output& a, const Output& b) { return graph_.Op("AddV2", {a, b}); }
  Output Log(const Output& expected) { return graph_.Op("Log", {graph_.Op("StopGradient", {expected})}); }
  Output Joined(const Output& a, const Output& b) { return graph_.Op("ConcatV2", {a, b, graph_.Const(1)}); }
  Output Filled(const Output& like, const Output& value) {
    return graph_.Op("Fill", {graph_.Op("Shape", {like}), value});
  }
  Output Begin(const Output& rows, const Output& count) {
    return Rows(rows, graph_.Const({0}), graph_.Op("ExpandDims", {count, graph_.Const(0)}), 1);
  }
  Output End(const Output& rows, const Output& count) {
    return Rows(rows, graph_.Op("ExpandDims", {count, graph_.Const(0)}), graph_.Const({0}), 2);
  }
  // which: 1, all before `end`; 2, all from `begin` on.
  Output Rows(const Output& rows, const Output& begin, const Output& end, int64_t which) {
    return graph_.Op("StridedSlice", {rows, begin, end, graph_.Const({1})},
                     {{which == 1 ? "begin_mask" : "end_mask", 1}});
  }

  Graph& graph_;
  const ClassShards& classes_;
  const SampledLossOptions& options_;
  const std::string what_;
  int64_t label_count_ = 0;
  Candidates candidates_;
  Output labels_, true_, sampled_;  // [batch, labels] twice, [batch, S]
};

}  // namespace

Candidates LogUniformCandidates(Graph& graph, const Output& labels, int64_t sampled, int64_t classes, int64_t seed) {
  const Shape shape = labels.shape();
  if (shape.rank() != 2 || shape[1] < 1)
    graph.Fail(
        Status(Code::kInvalidArgument, "LogUniformCandidates: labels are " + shape.ToString() +
                                           "; they are [batch, labels], with a number of labels that the graph knows"));
  if (!graph.status().ok()) return {};
  const Operation sampler = graph.AddNode(
      "LogUniformCandidateSampler", {labels},
      {{"num_true", shape[1]}, {"num_sampled", sampled}, {"unique", true}, {"range_max", classes}, {"seed", seed}});
  return {sampler.output(0), sampler.output(1), sampler.output(2)};
}

Output SampledSoftmaxLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels,
                          const SampledLossOptions& options) {
  const auto scope = graph.Scope("sampled_softmax");
  SampledLogits logits(graph, classes, options, "SampledSoftmaxLoss");
  if (!logits.Make(inputs, labels, true)) return Output();
  return graph.Op("SoftmaxCrossEntropyWithLogits", {logits.logits(), logits.targets()});
}

// max(x, 0) - x z + log(1 + e^-|x|), which overflows for no x.
Output NceLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels,
               const SampledLossOptions& options) {
  const auto scope = graph.Scope("nce");
  SampledLogits logits(graph, classes, options, "NceLoss");
  if (!logits.Make(inputs, labels, false)) return Output();
  const Output x = logits.logits(), z = logits.targets();
  const Output linear = graph.Op("Sub", {graph.Op("Relu", {x}), graph.Op("Mul", {x, z})});
  const Output log = graph.Op("Log1p", {graph.Op("Exp", {graph.Op("Neg", {graph.Op("Abs", {x})})})});
  return graph.Op("Sum", {graph.Op("AddV2", {linear, log}), graph.Const({1})});
}

}  // namespace tenon::train
