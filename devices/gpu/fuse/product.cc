// SPDX-License-Identifier: Apache-2.0
#include "fuse/product.h"

#include <string>

#include "kernels/product.h"

namespace tenon::gpu {
namespace {

bool IsFloat(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
}

// The op of sums (tenon/extras/device/mixed_precision_pass.h).
constexpr std::string_view kSums = "BatchMatMulV3";

bool IsSumsOfOne(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph, int64_t id) {
  const sdk::RegionGraph::Node& n = graph.at(id);
  if (n.op != kSums || graph.services().input_dtype(n.node, 0) == graph.services().output_dtype(n.node, 0))
    return false;
  tenon_shape shape = {nullptr, -1, 0};
  sdk::Check(cursor.output_shape(cursor.graph, {id, 0, 0}, &shape));
  return shape.rank == 2;
}

class ProductExecutable final : public Executable {
 public:
  ProductExecutable(Shapes& shapes, bool transpose_a, bool transpose_b, bool relu, const int32_t (&inputs)[3])
      : plan_(MatrixProblem(transpose_a, transpose_b, false, shapes), shapes, {.bias = true, .relu = relu}),
        inputs_{inputs[0], inputs[1], inputs[2]} {
    if (shapes.workspace_bytes() > 0)
      workspace_bytes = static_cast<uint64_t>(shapes.workspace_bytes()) + kDeviceAlignment;
  }
  void Run(const tenon_frame& frame) const override {
    const auto at = [&](int operand) { return sdk::Data<const void>(*frame.inputs[inputs_[operand]]); };
    SubmitTo(frame, AlignedWorkspace(frame),
             [&](Launcher& on) { plan_.Launch(on, at(0), at(1), sdk::Data<void>(*frame.outputs[0]), at(2)); });
  }

 private:
  const ProductPlan plan_;
  const int32_t inputs_[3];  // of the frame: left, right, bias
};

}  // namespace

int64_t OnlyReader(const sdk::RegionGraph& graph, const std::vector<int>& readers, const std::vector<bool>& ours,
                   int64_t id, std::string_view op) {
  if (readers[static_cast<size_t>(id)] != 1) return -1;
  for (int64_t reader = id + 1; reader < static_cast<int64_t>(graph.size()); ++reader) {
    const sdk::RegionGraph::Node& n = graph.at(reader);
    if (n.op != op || n.inputs.empty() || n.inputs[0].node != id) continue;
    return ours[static_cast<size_t>(reader)] && n.dead_with == graph.at(id).dead_with ? reader : -1;
  }
  return -1;
}

std::vector<int> ReadersOf(const sdk::RegionGraph& graph) {
  std::vector<int> readers(graph.size());
  for (int64_t id = 0; id < static_cast<int64_t>(graph.size()); ++id) {
    for (const tenon_output& input : graph.at(id).inputs) {
      if (input.node >= 0) ++readers[static_cast<size_t>(input.node)];
    }
  }
  return readers;
}

std::vector<int64_t> EndOfProduct(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                  const std::vector<int>& readers, const std::vector<bool>& ours, int64_t product) {
  const sdk::RegionGraph::Node& n = graph.at(product);
  if ((n.op != "MatMul" && !IsSumsOfOne(cursor, graph, product)) || !IsFloat(graph.services().output_dtype(n.node, 0)))
    return {};
  const int64_t bias = OnlyReader(graph, readers, ours, product, "BiasAdd");
  if (bias < 0) return {};
  const int64_t relu = OnlyReader(graph, readers, ours, bias, "Relu");
  return relu < 0 ? std::vector<int64_t>{bias} : std::vector<int64_t>{bias, relu};
}

bool IsProduct(const tenon_compile_args& args) {
  const tenon_graph_cursor& cursor = *args.cursor;
  const auto op = [&](uint64_t i) {
    return sdk::ToText(cursor.node_services->op(cursor.node(cursor.graph, args.nodes[i])));
  };
  return args.node_count > 1 && sdk::IsOneOf(op(0), {"MatMul", kSums}) && op(1) == "BiasAdd";
}

std::unique_ptr<Executable> MakeProduct(const tenon_compile_args& args, Device& device) {
  const tenon_graph_cursor& cursor = *args.cursor;
  const tenon_node_services& services = *cursor.node_services;
  const int64_t product = args.nodes[0], bias = args.nodes[1], last = args.nodes[args.node_count - 1];
  if (args.output_count != 1 || args.outputs[0].node != last)
    sdk::Fail(TENON_UNIMPLEMENTED, "somebody reads a product before its bias is added");
  // Which of the frame's inputs an operand is.
  const auto place = [&](int64_t node, int32_t input) {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor.input(cursor.graph, node, input, &source));
    for (uint64_t i = 0; i < args.input_count; ++i) {
      if (args.inputs[i].node == source.node && args.inputs[i].index == source.index) return static_cast<int32_t>(i);
    }
    sdk::Fail(TENON_INTERNAL, "an operand of a product does not enter its set");
  };
  const int32_t inputs[] = {place(product, 0), place(product, 1), place(bias, 1)};
  const tenon_tensor_view* views[3];
  for (int i = 0; i < 3; ++i) views[i] = &ViewOf(args, args.inputs[inputs[i]]);
  const tenon_tensor_view* const out = &ViewOf(args, args.outputs[0]);
  const tenon_node* const node = cursor.node(cursor.graph, product);
  const bool gives_sums = sdk::ToText(services.op(node)) == kSums;
  const auto turned = [&](std::string_view name, std::string_view of_sums) {
    return BoolAttr(services, node, sdk::ToSpan(gives_sums ? of_sums : name));
  };
  Shapes shapes(views, 3, &out, 1, 0, device, args.precision, "MatMul", sdk::ToText(services.name(node)));
  if (sdk::Count(shapes.in(2)) != shapes.out(0).back())
    sdk::Fail(TENON_UNIMPLEMENTED, "a bias of shape ", shapes.in(2), " beside a product of shape ", shapes.out(0));
  return std::make_unique<ProductExecutable>(shapes, turned("transpose_a", "adj_x"), turned("transpose_b", "adj_y"),
                                             args.node_count > 2, inputs);
}

}  // namespace tenon::gpu
