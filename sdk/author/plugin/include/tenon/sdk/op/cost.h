// SPDX-License-Identifier: Apache-2.0
// Cost functions: how much arithmetic a node is. Bytes are counted from the shapes when not said.
//
//   static void MatMulCost(CostContext& c) { c.SetFlops(2.0 * c.Elements(c.Output(0)) * inner); }
//
// CostFunction<MatMulCost> is the C function. Units: floating-point operations and bytes, of one run of the node.
// Shapes may be unknown.
#ifndef TENON_SDK_OP_COST_H_
#define TENON_SDK_OP_COST_H_

#include "tenon/sdk/node.h"

namespace tenon::sdk {

class CostContext : public NodeContext {
 public:
  CostContext(tenon_plugin_self* self, const tenon_node_services* services, const tenon_node* node,
              const tenon_shape* inputs, const tenon_shape* outputs, tenon_cost* cost)
      : NodeContext(services, node, self), inputs_(inputs), outputs_(outputs), cost_(cost) {
    for (int i = 0; i < input_count(); ++i) cost_->bytes_read += Bytes(Input(i), input_type(i));
    for (int i = 0; i < output_count(); ++i) cost_->bytes_written += Bytes(Output(i), output_type(i));
  }

  Shape Input(int index) const { return Shape(inputs_[index]); }
  Shape Output(int index) const { return Shape(outputs_[index]); }
  // As a double, 0 when unknown.
  static double Elements(const Shape& shape) {
    const int64_t elements = shape.elements();
    return elements > 0 ? static_cast<double>(elements) : 0.0;
  }
  void SetFlops(double flops) { cost_->flops = flops; }

 private:
  static double Bytes(const Shape& shape, uint32_t dtype) {
    return Elements(shape) * static_cast<double>(ElementSize(dtype));
  }
  const tenon_shape* inputs_;
  const tenon_shape* outputs_;
  tenon_cost* cost_;
};

// The C function of a cost function in C++.
template <void (*Function)(CostContext&)>
tenon_status* CostFunction(tenon_plugin_self* self, const tenon_node_services* services, const tenon_node* node,
                           const tenon_shape* input_shapes, const tenon_shape* output_shapes, tenon_cost* out_cost) {
  return Guard([&] {
    out_cost->flops = out_cost->bytes_read = out_cost->bytes_written = 0;
    CostContext c(self, services, node, input_shapes, output_shapes, out_cost);
    Function(c);
    return c.Finish();
  });
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_COST_H_
