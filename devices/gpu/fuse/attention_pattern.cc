// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "code/attention.h"
#include "fuse/executable.h"
#include "tenon/sdk/device/regions.h"
#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/op/einsum.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostSteps = 8;
constexpr int kMostOfConstant = 4;  // nodes that make one of another

// Of BatchMatMul: dims before the matrices count from the last one.
constexpr int kRow = -1, kColumn = -2, kDepth = -3;

bool Has(const DimLabels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
bool AreDistinct(DimLabels labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
}

DimLabels OfMatrices(size_t rank, int row, int column) {
  DimLabels labels;
  for (size_t i = rank; i-- > 2;) labels.push_back(static_cast<int>(i));
  labels.push_back(row);
  labels.push_back(column);
  return labels;
}

// What the dims of a product's operands and of its result are called.
struct ProductLabels {
  DimLabels operands[2], out;
};

class Finder {
 public:
  Finder(const tenon_graph_cursor& cursor, const std::function<bool(int64_t)>& may_take, const DimsOfEdge& dims)
      : cursor_(cursor), services_(*cursor.node_services), may_take_(may_take), dims_(dims) {}

  std::optional<AttentionPattern> Find(int64_t softmax, int64_t values) {
    found_.softmax = softmax;
    found_.values = values;
    found_.nodes = {softmax, values};
    const bool is_one = IsBatchProduct(cursor_, values) && HasType(softmax) && HasType(values) && WalkToScores(Input(softmax, 0)) && ReadScores() && ReadValues();
    if (!is_one) return {};
    std::sort(found_.nodes.begin(), found_.nodes.end());
    return found_;
  }

 private:
  const tenon_node* NodeOf(int64_t id) const { return cursor_.node(cursor_.graph, id); }
  std::string_view OpOf(int64_t id) const { return sdk::ToText(services_.op(NodeOf(id))); }
  tenon_output Input(int64_t id, int32_t number) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id, number, &source));
    return source;
  }
  bool HasType(int64_t id) const {
    const tenon_node* const node = NodeOf(id);
    const uint32_t dtype = services_.output_dtype(node, 0);
    if (dtype != TENON_DT_FLOAT && dtype != TENON_DT_HALF && dtype != TENON_DT_BFLOAT16) return false;
    for (int32_t i = 0; i < services_.input_count(node); ++i) {
      if (services_.input_dtype(node, i) != dtype) return false;
    }
    return dtype == services_.output_dtype(NodeOf(found_.softmax), 0);
  }

  static double Rounded(double value, uint32_t dtype) {
    if (dtype == TENON_DT_HALF) return static_cast<float>(sdk::Half(static_cast<float>(value)));
    if (dtype == TENON_DT_BFLOAT16) return static_cast<float>(sdk::Bfloat16(static_cast<float>(value)));
    return dtype == TENON_DT_FLOAT ? static_cast<float>(value) : value;
  }
  static std::optional<double> OnlyElement(const tenon_tensor_view& view) {
    if (view.dl.data == nullptr || sdk::Count(view) != 1) return {};
    switch (view.dtype) {
      case TENON_DT_FLOAT: return *sdk::Data<const float>(view);
      case TENON_DT_DOUBLE: return *sdk::Data<const double>(view);
      case TENON_DT_HALF: return static_cast<float>(*sdk::Data<const sdk::Half>(view));
      case TENON_DT_BFLOAT16: return static_cast<float>(*sdk::Data<const sdk::Bfloat16>(view));
      case TENON_DT_INT32: return *sdk::Data<const int32_t>(view);
      case TENON_DT_INT64: return static_cast<double>(*sdk::Data<const int64_t>(view));
      default: return {};
    }
  }
  // The one element of a constant, or of what is made of one.
  std::optional<double> Constant(const tenon_output& edge, int deep = 0) const {
    if (edge.node < 0 || deep > kMostOfConstant) return {};
    const tenon_node* const node = NodeOf(edge.node);
    const std::string_view op = OpOf(edge.node);
    if (op == "Const") {
      tenon_attr_value value = {};
      sdk::Check(services_.attr(node, TENON_SPAN("value"), &value));
      return value.kind == TENON_ATTR_TENSOR ? OnlyElement(*static_cast<const tenon_tensor_view*>(value.data)) : std::nullopt;
    }
    const uint32_t dtype = services_.output_dtype(node, 0);
    const bool is_float = dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
    if (!is_float || !sdk::IsOneOf(op, {"Cast", "Identity", "Sqrt", "Rsqrt"})) return {};
    const std::optional<double> of = Constant(Input(edge.node, 0), deep + 1);
    if (!of.has_value()) return {};
    return Rounded(op == "Sqrt" ? std::sqrt(*of) : op == "Rsqrt" ? 1 / std::sqrt(*of) : *of, dtype);
  }

  // From what the softmax reads to the product, over steps; meanwhile it becomes known what a score is in terms of the edge's value.
  bool WalkToScores(tenon_output edge) {
    for (size_t step = 0; step <= kMostSteps; ++step) {
      if (edge.node < 0 || edge.index != 0 || !may_take_(edge.node) || !HasType(edge.node)) return false;
      found_.nodes.push_back(edge.node);
      if (IsBatchProduct(cursor_, edge.node)) {
        found_.scores = edge.node;
        return std::isnormal(static_cast<float>(found_.scale)) && std::isfinite(static_cast<float>(found_.shift));
      }
      if (services_.input_count(NodeOf(edge.node)) != 2 || !Step(edge.node, &edge)) return false;
    }
    return false;
  }
  bool Step(int64_t id, tenon_output* edge) {
    const std::string_view op = OpOf(id);
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
      if (IsBatchProduct(cursor_, edge.node)) return true;
      if (services_.input_count(NodeOf(edge.node)) != 2) return false;
      const tenon_output left = Input(edge.node, 0);
      edge = Constant(left).has_value() ? Input(edge.node, 1) : left;
    }
    return false;
  }

  std::optional<ProductLabels> LabelsOf(int64_t id) const {
    const auto left = dims_(Input(id, 0)), right = dims_(Input(id, 1));
    if (!left.has_value() || !right.has_value()) return {};
    ProductLabels labels;
    if (OpOf(id) == "Einsum") {
      tenon_attr_value value = {};
      sdk::Check(services_.attr(NodeOf(id), TENON_SPAN("equation"), &value));
      std::string error;
      const sdk::EinsumEquation equation = sdk::ParseEinsum(sdk::ToText(*static_cast<const tenon_span*>(value.data)), 2, &error);
      for (int i = 0; error.empty() && i < 2; ++i) {
        labels.operands[i] = sdk::EinsumEquation::Labels(equation.inputs[static_cast<size_t>(i)], static_cast<int>((i == 0 ? left : right)->size()), &error);
      }
      if (error.empty()) labels.out = equation.OutputLabels(sdk::EinsumEquation::EllipsisDims({labels.operands[0], labels.operands[1]}), &error);
      if (!error.empty()) return {};
    } else {
      if (left->size() < 2 || right->size() < 2) return {};
      const bool turns_left = BoolAttr(services_, NodeOf(id), TENON_SPAN("adj_x")), turns_right = BoolAttr(services_, NodeOf(id), TENON_SPAN("adj_y"));
      labels.operands[0] = OfMatrices(left->size(), turns_left ? kDepth : kRow, turns_left ? kRow : kDepth);
      labels.operands[1] = OfMatrices(right->size(), turns_right ? kColumn : kDepth, turns_right ? kDepth : kColumn);
      labels.out = OfMatrices(std::max(left->size(), right->size()), kRow, kColumn);
    }
    if (!AreDistinct(labels.operands[0]) || !AreDistinct(labels.operands[1]) || !AreDistinct(labels.out)) return {};
    return labels;
  }

  // Queries and keys are rows whose elements lie beside each other; the keys are the scores' last dim.
  bool ReadScores() {
    const std::optional<ProductLabels> labels = LabelsOf(found_.scores);
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
    if (Has(found_.query_labels, found_.key_label) || found_.key_labels.back() != found_.depth_label || Has(found_.score_labels, found_.depth_label)) return false;
    if (!AreIn(found_.query_labels, found_.score_labels, found_.depth_label) || !AreIn(found_.key_labels, found_.score_labels, found_.depth_label)) return false;
    int queries = 0;
    for (const int label : found_.score_labels) {
      if (label == found_.key_label || Has(found_.key_labels, label)) continue;
      if (!Has(found_.query_labels, label)) return false;
      found_.query_label = label;
      ++queries;
    }
    return queries == 1 && IsHeadSize(dims_(found_.query)->back()) && IsHeadSize(dims_(found_.key)->back());
  }

  // Whether all labels but `except` are among those.
  static bool AreIn(const DimLabels& labels, const DimLabels& those, int except) {
    return std::all_of(labels.begin(), labels.end(), [&](int label) { return label == except || Has(those, label); });
  }

  // The probabilities' dims are the scores': the values' are called after these.
  bool ReadValues() {
    const int probabilities = Input(found_.values, 0).node == found_.softmax ? 0 : 1;
    found_.value = Input(found_.values, 1 - probabilities);
    if (found_.value.node == found_.softmax) return false;
    const std::optional<ProductLabels> labels = LabelsOf(found_.values);
    if (!labels.has_value()) return false;
    const DimLabels& of_probabilities = labels->operands[probabilities];
    const DimLabels& of_value = labels->operands[1 - probabilities];
    if (of_probabilities.size() != found_.score_labels.size() || of_value.empty() || labels->out.empty()) return false;
    constexpr int kOwn = INT32_MIN;  // the depth of the values, which no other dim is called after
    const auto rename = [&](int label) {
      const auto at = std::find(of_probabilities.begin(), of_probabilities.end(), label);
      return at == of_probabilities.end() ? kOwn : found_.score_labels[static_cast<size_t>(at - of_probabilities.begin())];
    };
    for (const int label : of_value) found_.value_labels.push_back(rename(label));
    for (const int label : labels->out) found_.out_labels.push_back(rename(label));
    found_.value_depth_label = kOwn;
    if (!AreDistinct(found_.value_labels) || !AreDistinct(found_.out_labels)) return false;
    if (found_.value_labels.back() != kOwn || found_.out_labels.back() != kOwn || labels->out.back() != of_value.back()) return false;
    // Every key is summed over, nothing else is.
    if (Has(found_.out_labels, found_.key_label) || !Has(found_.value_labels, found_.key_label) || Has(found_.value_labels, found_.query_label)) return false;
    if (found_.out_labels.size() != found_.score_labels.size()) return false;
    return AreIn(found_.score_labels, found_.out_labels, found_.key_label) && IsHeadSize(dims_(found_.value)->back());
  }

  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  const std::function<bool(int64_t)>& may_take_;
  const DimsOfEdge& dims_;
  AttentionPattern found_;
};

}  // namespace

bool IsHeadSize(int64_t size) { return size >= 8 && size <= kMostAttentionDepth && size % 8 == 0; }

bool IsBatchProduct(const tenon_graph_cursor& cursor, int64_t id) {
  const tenon_node* const node = cursor.node(cursor.graph, id);
  const std::string_view op = sdk::ToText(cursor.node_services->op(node));
  return sdk::IsOneOf(op, {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"}) && cursor.node_services->input_count(node) == 2;
}

std::optional<AttentionPattern> FindAttention(const tenon_graph_cursor& cursor, int64_t softmax, int64_t values, const std::function<bool(int64_t)>& may_take,
                                              const DimsOfEdge& dims) {
  return Finder(cursor, may_take, dims).Find(softmax, values);
}

}  // namespace tenon::gpu
