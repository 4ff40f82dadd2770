// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fuse/attention_graph.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostSteps = 8;

class Finder {
 public:
  Finder(const tenon_graph_cursor& cursor, const std::function<bool(int64_t)>& may_take, const DimsOfEdge& dims)
      : graph_(cursor, dims), may_take_(may_take) {}

  std::optional<AttentionPattern> Find(int64_t softmax, int64_t values) {
    found_.softmax = softmax;
    found_.values = values;
    found_.nodes = {softmax, values};
    if (!graph_.IsProduct(values) || !FindScores() || !HasType(values) || !ReadValues()) return {};
    std::sort(found_.nodes.begin(), found_.nodes.end());
    return found_;
  }
  std::optional<AttentionPattern> FindProbabilities(int64_t softmax) {
    found_.softmax = softmax;
    found_.nodes = {softmax};
    if (!FindScores()) return {};
    return found_;
  }

 private:
  bool FindScores() {
    dtype_ = graph_.TypeOf(found_.softmax);
    const bool is_float = dtype_ == TENON_DT_FLOAT || dtype_ == TENON_DT_HALF || dtype_ == TENON_DT_BFLOAT16;
    return is_float && HasType(found_.softmax) && WalkToScores(Input(found_.softmax, 0)) && ReadScores();
  }
  bool HasType(int64_t id) const { return graph_.HasType(id, dtype_, graph_.InputCount(id)); }
  tenon_output Input(int64_t id, int32_t number) const { return graph_.Input(id, number); }
  std::optional<double> Constant(const tenon_output& edge) const { return graph_.Constant(edge); }

  // From what the softmax reads to the product, over steps; meanwhile it becomes known what a score is in terms of the
  // edge's value.
  bool WalkToScores(tenon_output edge) {
    for (size_t step = 0; step <= kMostSteps; ++step) {
      if (edge.node < 0 || edge.index != 0 || !may_take_(edge.node) || !HasType(edge.node)) return false;
      found_.nodes.push_back(edge.node);
      if (graph_.IsProduct(edge.node)) {
        found_.scores = edge.node;
        return std::isnormal(static_cast<float>(found_.scale)) && std::isfinite(static_cast<float>(found_.shift));
      }
      if (graph_.InputCount(edge.node) != 2 || !Step(edge.node, &edge)) return false;
    }
    return false;
  }
  bool Step(int64_t id, tenon_output* edge) {
    const std::string_view op = graph_.OpOf(id);
    const tenon_output left = Input(id, 0), right = Input(id, 1);
    const std::optional<double> of_left = Constant(left), of_right = Constant(right);
    if (of_left.has_value() && of_right.has_value()) return false;
    if (op == "Mul" || op == "RealDiv") {
      if (!of_right.has_value() && (op == "RealDiv" || !of_left.has_value())) return false;
      found_.scale = op == "RealDiv" ? found_.scale / *of_right : found_.scale * of_left.value_or(of_right.value_or(1));
      *edge = of_left.has_value() ? right : left;
      return true;
    }
    if (op != "AddV2" && op != "Add" && op != "Sub") return false;
    const double sign = op == "Sub" ? -1 : 1;
    if (of_right.has_value()) {
      found_.shift += sign * found_.scale * *of_right;
      *edge = left;
      return true;
    }
    if (op != "Sub" && of_left.has_value()) {
      found_.shift += found_.scale * *of_left;
      *edge = right;
      return true;
    }
    if (found_.mask.node >= 0) return false;
    const bool is_right = op != "Sub" && !LeadsToProduct(left);
    found_.mask = is_right ? left : right;
    found_.mask_scale = sign * found_.scale;
    *edge = is_right ? right : left;
    return found_.mask.node >= 0;
  }
  // Whether the edge is that of a sum's two that comes from the product.
  bool LeadsToProduct(tenon_output edge) const {
    for (size_t step = 0; step <= kMostSteps; ++step) {
      if (edge.node < 0 || edge.index != 0 || !may_take_(edge.node)) return false;
      if (graph_.IsProduct(edge.node)) return true;
      if (graph_.InputCount(edge.node) != 2) return false;
      const tenon_output left = Input(edge.node, 0);
      edge = Constant(left).has_value() ? Input(edge.node, 1) : left;
    }
    return false;
  }

  // Queries and keys are rows whose elements lie beside each other; the keys are the scores' last dim.
  bool ReadScores() {
    const std::optional<ProductLabels> labels = graph_.LabelsOf(found_.scores);
    if (!labels.has_value() || labels->out.size() < 2) return false;
    found_.score_labels = labels->out;
    found_.key_label = labels->out.back();
    const int key = Has(labels->operands[1], found_.key_label) ? 1 : 0;
    found_.query_labels = labels->operands[1 - key];
    found_.key_labels = labels->operands[key];
    found_.query = Input(found_.scores, 1 - key);
    found_.key = Input(found_.scores, key);
    if (found_.query_labels.empty() || found_.key_labels.empty()) return false;
    found_.depth_label = found_.query_labels.back();
    if (Has(found_.query_labels, found_.key_label) || found_.key_labels.back() != found_.depth_label ||
        Has(found_.score_labels, found_.depth_label))
      return false;
    if (!AreIn(found_.query_labels, found_.score_labels, found_.depth_label) ||
        !AreIn(found_.key_labels, found_.score_labels, found_.depth_label))
      return false;
    int queries = 0;
    for (const int label : found_.score_labels) {
      if (label == found_.key_label || Has(found_.key_labels, label)) continue;
      if (!Has(found_.query_labels, label)) return false;
      found_.query_label = label;
      ++queries;
    }
    return queries == 1 && IsHeadSize(graph_.DimsOf(found_.query)->back()) &&
           IsHeadSize(graph_.DimsOf(found_.key)->back());
  }

  // The probabilities' dims are the scores': the values' are called after these.
  bool ReadValues() {
    const int probabilities = Input(found_.values, 0).node == found_.softmax ? 0 : 1;
    found_.value = Input(found_.values, 1 - probabilities);
    if (found_.value.node == found_.softmax) return false;
    const std::optional<ProductLabels> labels = graph_.LabelsOf(found_.values);
    if (!labels.has_value()) return false;
    const DimLabels& of_probabilities = labels->operands[probabilities];
    const DimLabels& of_value = labels->operands[1 - probabilities];
    if (of_probabilities.size() != found_.score_labels.size() || of_value.empty() || labels->out.empty()) return false;
    constexpr int kOwn = INT32_MIN;  // the depth of the values, which no other dim is called after
    const auto rename = [&](int label) {
      const auto at = std::find(of_probabilities.begin(), of_probabilities.end(), label);
      return at == of_probabilities.end() ? kOwn
                                          : found_.score_labels[static_cast<size_t>(at - of_probabilities.begin())];
    };
    for (const int label : of_value) found_.value_labels.push_back(rename(label));
    for (const int label : labels->out) found_.out_labels.push_back(rename(label));
    found_.value_depth_label = kOwn;
    if (!AreDistinct(found_.value_labels) || !AreDistinct(found_.out_labels)) return false;
    if (found_.value_labels.back() != kOwn || found_.out_labels.back() != kOwn || labels->out.back() != of_value.back())
      return false;
    // Every key is summed over, nothing else is.
    if (Has(found_.out_labels, found_.key_label) || !Has(found_.value_labels, found_.key_label) ||
        Has(found_.value_labels, found_.query_label))
      return false;
    if (found_.out_labels.size() != found_.score_labels.size()) return false;
    return AreIn(found_.score_labels, found_.out_labels, found_.key_label) &&
           IsHeadSize(graph_.DimsOf(found_.value)->back());
  }

  const AttentionGraph graph_;
  const std::function<bool(int64_t)>& may_take_;
  uint32_t dtype_ = 0;
  AttentionPattern found_;
};

}  // namespace

std::optional<AttentionPattern> FindAttention(const tenon_graph_cursor& cursor, int64_t softmax, int64_t values,
                                              const std::function<bool(int64_t)>& may_take, const DimsOfEdge& dims) {
  return Finder(cursor, may_take, dims).Find(softmax, values);
}

std::optional<AttentionPattern> FindProbabilities(const tenon_graph_cursor& cursor, int64_t softmax,
                                                  const std::function<bool(int64_t)>& may_take,
                                                  const DimsOfEdge& dims) {
  return Finder(cursor, may_take, dims).FindProbabilities(softmax);
}

}  // namespace tenon::gpu
