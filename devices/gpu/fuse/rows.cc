// SPDX-License-Identifier: Apache-2.0
#include "fuse/rows.h"

#include <algorithm>

#include "code/fused.h"
#include "fuse/chain.h"
#include "fuse/row_source.h"
#include "kernels/reduction.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::gpu {
namespace {

// Whether it is known, and names the last of `rank` dims alone.
bool IsLastAxis(const tenon_tensor_view& axes, size_t rank) {
  if (axes.dl.data == nullptr || sdk::Count(axes) != 1 ||
      (axes.dtype != TENON_DT_INT32 && axes.dtype != TENON_DT_INT64))
    return false;
  const int64_t axis = sdk::IndexAt(sdk::Data<const void>(axes), axes.dtype, 0);
  return axis == -1 || axis == static_cast<int64_t>(rank) - 1;
}

class Rows {
 public:
  Rows(const tenon_compile_args& args, Device& device)
      : args_(args), cursor_(*args.cursor), services_(*cursor_.node_services), device_(device) {}

  std::unique_ptr<Executable> Make() {
    FindShape();
    auto made = std::make_unique<ChainExecutable>();
    AddInputs(made.get());
    for (uint64_t i = 0; i < args_.node_count; ++i) AddNode(args_.nodes[i]);
    for (uint64_t i = 0; i < args_.output_count; ++i)
      kernel_.outputs.push_back(names_.at({args_.outputs[i].node, args_.outputs[i].index}));
    kernel_.lanes = LanesFor(kernel_.width);
    kernel_.wide = sdk::Multiply(rows_, kernel_.width) > INT32_MAX;
    made->total = rows_;
    made->grid = GroupGrid(device_.facts(), rows_, kernel_.lanes);
    const Outcome outcome = device_.FindCompiled(SourceOf(kernel_), kFusedName, &made->code);
    if (!outcome.ok()) sdk::Fail(outcome.code, outcome.message);
    std::vector<uint32_t> results;
    for (const int output : kernel_.outputs) {
      const RowNode& node = kernel_.nodes[static_cast<size_t>(output)];
      // What has one value for a row lies beside no input.
      results.push_back(node.kind == RowNode::kElements ? node.result : TENON_DT_INVALID);
    }
    AddInPlace(kernel_.inputs, results, made.get());
    return made;
  }

 private:
  const tenon_node* NodeOf(int64_t id) const { return cursor_.node(cursor_.graph, id); }
  std::string_view OpOf(int64_t id) const { return sdk::ToText(services_.op(NodeOf(id))); }
  tenon_output SourceOfInput(int64_t id, int32_t input) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id, input, &source));
    return source;
  }
  sdk::Dims ShapeOf(const tenon_output& edge) const { return sdk::DimsOf(ViewOf(args_, edge)); }

  // Of what the sums are of, which is one.
  void FindShape() {
    for (uint64_t i = 0; i < args_.node_count; ++i) {
      if (!IsOpOfRows(OpOf(args_.nodes[i]))) continue;
      const sdk::Dims dims = ShapeOf(SourceOfInput(args_.nodes[i], 0));
      if (shape_.empty()) shape_.assign(dims.begin(), dims.end());
      if (!std::equal(dims.begin(), dims.end(), shape_.begin(), shape_.end())) {
        sdk::Fail(TENON_UNIMPLEMENTED, "a chain with sums of shapes ", sdk::Dims(shape_), " and ", dims);
      }
    }
    kernel_.width = shape_.empty() ? 0 : shape_.back();
    if (kernel_.width < 2 || kernel_.width > kLongestRow)
      sdk::Fail(TENON_UNIMPLEMENTED, "sums of rows of ", kernel_.width, " elements in a chain");
    outer_ = sdk::Dims(shape_).first(shape_.size() - 1);
    rows_ = sdk::Count(outer_);
  }

  void AddInputs(ChainExecutable* made) {
    made->inputs = InputsRead(args_);
    std::vector<tenon_output> edges;
    for (const int32_t i : made->inputs) edges.push_back(args_.inputs[i]);
    std::vector<sdk::Dims> outer;
    for (const tenon_output& edge : edges) {
      const sdk::Dims dims = ShapeOf(edge);
      if (dims.size() > shape_.size() && sdk::Count(dims) != 1)
        sdk::Fail(TENON_UNIMPLEMENTED, "a chain with shapes ", dims, " and ", sdk::Dims(shape_));
      outer.push_back(dims.empty() ? dims : dims.first(dims.size() - 1));
    }
    const std::vector<sdk::BroadcastDim> dims = sdk::BroadcastDims(outer, outer_, "a chain");
    if (dims.size() > static_cast<size_t>(kMostFusedDims))
      sdk::Fail(TENON_UNIMPLEMENTED, "a chain whose shapes alternate ", dims.size(), " times");
    for (size_t d = dims.size(); d-- > 0;) kernel_.dims.push_back(dims[d].size);
    for (size_t i = 0; i < edges.size(); ++i) {
      AddInput(edges[i], i, dims);
      made->is_packed.push_back(!IsOfRow(kernel_.inputs.back()));
      names_[{edges[i].node, edges[i].index}] = -1 - static_cast<int>(i);
    }
  }
  void AddInput(const tenon_output& edge, size_t number, const std::vector<sdk::BroadcastDim>& dims) {
    const sdk::Dims own = ShapeOf(edge);
    const int64_t last = own.empty() ? 1 : own.back();
    if (last != 1 && last != kernel_.width)
      sdk::Fail(TENON_UNIMPLEMENTED, "a chain with shapes ", own, " and ", sdk::Dims(shape_));
    FusedInput input = {ViewOf(args_, edge).dtype, FusedInput::kStrided, last == 1 ? 0 : 1, {}};
    for (size_t d = dims.size(); d-- > 0;) input.strides.push_back(dims[d].steps[number] * last);
    const int64_t count = sdk::Count(own);
    if (count == 1) input.spread = FusedInput::kSingle;
    if (last != 1 && count == rows_ * kernel_.width) input.spread = FusedInput::kEven;
    kernel_.inputs.push_back(std::move(input));
  }

  int Add(FusedNode node, RowNode::Kind kind) {
    kernel_.nodes.push_back({std::move(node), kind});
    return static_cast<int>(kernel_.nodes.size()) - 1;
  }
  void AddNode(int64_t id) {
    const std::string_view op = OpOf(id);
    FusedNode node = ReadNode(args_, id, names_);
    const sdk::Dims dims = ShapeOf({id, 0, 0});
    const bool is_one = IsShapeOfOnes({dims.begin(), dims.end()}, shape_);
    if (!is_one && !std::equal(dims.begin(), dims.end(), shape_.begin(), shape_.end())) {
      sdk::Fail(TENON_UNIMPLEMENTED, "a chain with nodes of shapes ", dims, " and ", sdk::Dims(shape_));
    }
    int made = 0;
    if (op == "Sum" || op == "Mean") {
      if (!is_one || !IsLastAxis(ViewOf(args_, SourceOfInput(id, 1)), shape_.size())) {
        sdk::Fail(TENON_UNIMPLEMENTED, "a sum along other dims than the last, in a chain");
      }
      made = Add(std::move(node), op == "Mean" ? RowNode::kMean : RowNode::kSum);
    } else if (IsOpOfRows(op)) {
      made = AddSoftmax(node, op == "LogSoftmax");
    } else {
      made = Add(std::move(node), is_one ? RowNode::kOne : RowNode::kElements);
    }
    names_[{id, 0}] = made;
  }
  // exp(x - most) / sum, or x - most - log(sum); halves are rounded once.
  int AddSoftmax(const FusedNode& softmax, bool of_logs) {
    const bool is_half = sdk::ElementSize(softmax.result) == 2;
    const uint32_t dtype = is_half ? static_cast<uint32_t>(TENON_DT_FLOAT) : softmax.result;
    const auto add = [&](std::string_view function, std::vector<int> operands, RowNode::Kind kind) {
      return Add({function, std::move(operands), dtype, 0}, kind);
    };
    const int x = is_half ? add("Cast", softmax.operands, RowNode::kElements) : softmax.operands[0];
    const int shifted = add("Sub", {x, add("", {x}, RowNode::kMost)}, RowNode::kElements),
              raised = add("Exp", {shifted}, RowNode::kElements);
    const int sum = add("", {raised}, RowNode::kSum);
    const int y = of_logs ? add("Sub", {shifted, add("Log", {sum}, RowNode::kOne)}, RowNode::kElements)
                          : add("Mul", {raised, add("Reciprocal", {sum}, RowNode::kOne)}, RowNode::kElements);
    return is_half ? Add({"Cast", {y}, softmax.result, 0}, RowNode::kElements) : y;
  }

  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  Device& device_;
  std::vector<int64_t> shape_;
  sdk::Dims outer_;
  int64_t rows_ = 0;
  RowKernel kernel_;
  OperandNames names_;
};

}  // namespace

std::string WhyNotOfRows(const tenon_graph_cursor& cursor, int64_t id, const std::vector<int64_t>& shape) {
  const tenon_node_services& services = *cursor.node_services;
  const tenon_node* const node = cursor.node(cursor.graph, id);
  const uint32_t dtype = services.output_dtype(node, 0);
  if (dtype != TENON_DT_FLOAT && dtype != TENON_DT_DOUBLE && dtype != TENON_DT_HALF && dtype != TENON_DT_BFLOAT16)
    return "its numbers are no floats";
  if (shape.empty() || shape.back() < 2 || shape.back() > kLongestRow)
    return "its rows are not known to have 2 to 16384 elements";
  const std::string_view op = sdk::ToText(services.op(node));
  if (op != "Sum" && op != "Mean") return "";
  if (!BoolAttr(services, node, TENON_SPAN("keep_dims"))) return "it does not keep the dim that it sums along";
  tenon_output axes = {-1, 0, 0};
  sdk::Check(cursor.input(cursor.graph, id, 1, &axes));
  const tenon_node* const constant = axes.node < 0 ? nullptr : cursor.node(cursor.graph, axes.node);
  if (constant == nullptr || sdk::ToText(services.op(constant)) != "Const") return "its axes are no constant";
  tenon_attr_value value = {};
  sdk::Check(services.attr(constant, TENON_SPAN("value"), &value));
  const bool is_last =
      value.kind == TENON_ATTR_TENSOR && IsLastAxis(*static_cast<const tenon_tensor_view*>(value.data), shape.size());
  return is_last ? "" : "it sums along other dims than the last";
}

bool IsShapeOfOnes(const std::vector<int64_t>& ones, const std::vector<int64_t>& rows) {
  return !rows.empty() && ones.size() == rows.size() && ones.back() == 1 &&
         std::equal(ones.begin(), ones.end() - 1, rows.begin());
}

bool HasOpsOfRows(const tenon_compile_args& args) {
  const tenon_graph_cursor& cursor = *args.cursor;
  return std::any_of(args.nodes, args.nodes + args.node_count, [&](int64_t id) {
    return IsOpOfRows(sdk::ToText(cursor.node_services->op(cursor.node(cursor.graph, id))));
  });
}

std::unique_ptr<Executable> MakeRows(const tenon_compile_args& args, Device& device) {
  return Rows(args, device).Make();
}

}  // namespace tenon::gpu
