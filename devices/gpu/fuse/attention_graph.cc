// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_graph.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "code/attention.h"
#include "fuse/executable.h"
#include "tenon/extras/device/regions.h"
#include "tenon/sdk/kernel/half.h"
#include "tenon/extras/op/einsum.h"

namespace tenon::gpu {
namespace {

constexpr int kMostOfConstant = 4;  // nodes that make one of another

// Of BatchMatMul: dims before the matrices count from the last one.
constexpr int kRow = -1, kColumn = -2, kDepth = -3;

DimLabels OfMatrices(size_t rank, int row, int column) {
  DimLabels labels;
  for (size_t i = rank; i-- > 2;) labels.push_back(static_cast<int>(i));
  labels.push_back(row);
  labels.push_back(column);
  return labels;
}

double Rounded(double value, uint32_t dtype) {
  if (dtype == TENON_DT_HALF) return static_cast<float>(sdk::Half(static_cast<float>(value)));
  if (dtype == TENON_DT_BFLOAT16) return static_cast<float>(sdk::Bfloat16(static_cast<float>(value)));
  return dtype == TENON_DT_FLOAT ? static_cast<float>(value) : value;
}
std::optional<double> OnlyElement(const tenon_tensor_view& view) {
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

}  // namespace

bool Has(const DimLabels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
bool AreDistinct(DimLabels labels) {
  std::sort(labels.begin(), labels.end());
  return std::adjacent_find(labels.begin(), labels.end()) == labels.end();
}
bool AreIn(const DimLabels& labels, const DimLabels& those, int except) {
  return std::all_of(labels.begin(), labels.end(), [&](int label) { return label == except || Has(those, label); });
}

DimsOfEdge KnownDims(const tenon_graph_cursor& cursor) {
  return [&cursor](const tenon_output& edge) -> std::optional<std::vector<int64_t>> {
    tenon_shape shape = {nullptr, -1, 0};
    if (edge.node >= 0) sdk::Check(cursor.output_shape(cursor.graph, edge, &shape));
    if (shape.rank < 0) return {};
    return std::vector<int64_t>(shape.dims, shape.dims + shape.rank);
  };
}

bool IsHeadSize(int64_t size) { return size >= 8 && size <= kMostAttentionDepth && size % 8 == 0; }

bool IsBatchProduct(const tenon_graph_cursor& cursor, int64_t id) {
  const tenon_node* const node = cursor.node(cursor.graph, id);
  const std::string_view op = sdk::ToText(cursor.node_services->op(node));
  return sdk::IsOneOf(op, {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"}) &&
         cursor.node_services->input_count(node) == 2;
}

tenon_output AttentionGraph::Input(int64_t id, int32_t number) const {
  tenon_output source = {-1, 0, 0};
  sdk::Check(cursor_.input(cursor_.graph, id, number, &source));
  return source;
}

bool AttentionGraph::HasType(int64_t id, uint32_t dtype, int32_t inputs) const {
  const tenon_node* const node = NodeOf(id);
  if (services_.input_count(node) < inputs || dtype != services_.output_dtype(node, 0)) return false;
  for (int32_t i = 0; i < inputs; ++i) {
    if (services_.input_dtype(node, i) != dtype) return false;
  }
  return true;
}

std::optional<double> AttentionGraph::Constant(const tenon_output& edge, int deep) const {
  if (edge.node < 0 || deep > kMostOfConstant) return {};
  const tenon_node* const node = NodeOf(edge.node);
  const std::string_view op = OpOf(edge.node);
  if (op == "Const") {
    tenon_attr_value value = {};
    sdk::Check(services_.attr(node, TENON_SPAN("value"), &value));
    return value.kind == TENON_ATTR_TENSOR ? OnlyElement(*static_cast<const tenon_tensor_view*>(value.data))
                                           : std::nullopt;
  }
  const uint32_t dtype = services_.output_dtype(node, 0);
  const bool is_float =
      dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
  if (!is_float || !sdk::IsOneOf(op, {"Cast", "Identity", "Sqrt", "Rsqrt"})) return {};
  const std::optional<double> of = Constant(Input(edge.node, 0), deep + 1);
  if (!of.has_value()) return {};
  return Rounded(op == "Sqrt" ? std::sqrt(*of) : op == "Rsqrt" ? 1 / std::sqrt(*of) : *of, dtype);
}

std::optional<ProductLabels> AttentionGraph::LabelsOf(int64_t id) const {
  const auto left = dims_(Input(id, 0)), right = dims_(Input(id, 1));
  if (!left.has_value() || !right.has_value()) return {};
  ProductLabels labels;
  if (OpOf(id) == "Einsum") {
    tenon_attr_value value = {};
    sdk::Check(services_.attr(NodeOf(id), TENON_SPAN("equation"), &value));
    std::string error;
    const sdk::EinsumEquation equation =
        sdk::ParseEinsum(sdk::ToText(*static_cast<const tenon_span*>(value.data)), 2, &error);
    for (int i = 0; error.empty() && i < 2; ++i) {
      labels.operands[i] = sdk::EinsumEquation::Labels(equation.inputs[static_cast<size_t>(i)],
                                                       static_cast<int>((i == 0 ? left : right)->size()), &error);
    }
    if (error.empty())
      labels.out =
          equation.OutputLabels(sdk::EinsumEquation::EllipsisDims({labels.operands[0], labels.operands[1]}), &error);
    if (!error.empty()) return {};
  } else {
    if (left->size() < 2 || right->size() < 2) return {};
    const bool turns_left = BoolAttr(services_, NodeOf(id), TENON_SPAN("adj_x")),
               turns_right = BoolAttr(services_, NodeOf(id), TENON_SPAN("adj_y"));
    labels.operands[0] = OfMatrices(left->size(), turns_left ? kDepth : kRow, turns_left ? kRow : kDepth);
    labels.operands[1] = OfMatrices(right->size(), turns_right ? kColumn : kDepth, turns_right ? kDepth : kColumn);
    labels.out = OfMatrices(std::max(left->size(), right->size()), kRow, kColumn);
  }
  if (!AreDistinct(labels.operands[0]) || !AreDistinct(labels.operands[1]) || !AreDistinct(labels.out)) return {};
  return labels;
}

}  // namespace tenon::gpu
