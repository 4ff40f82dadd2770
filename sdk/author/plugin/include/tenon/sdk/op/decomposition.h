// SPDX-License-Identifier: Apache-2.0
// Decompositions: an op as other ops that compute the same. The host builds them where no device has a kernel for the
// op.
//
//   static void SquaredDifference(DecomposeContext& d) {
//     d.SetOutput(0, d.Op("Square", {d.Sub(d.input(0), d.input(1))}));
//   }
//
// DecomposeFunction<SquaredDifference> is the C function. Every output needs a SetOutput.
#ifndef TENON_SDK_OP_DECOMPOSITION_H_
#define TENON_SDK_OP_DECOMPOSITION_H_

#include "tenon/sdk/op/node_builder.h"

namespace tenon::sdk {

class DecomposeContext : public NodeBuilder {
 public:
  DecomposeContext(tenon_plugin_self* self, const tenon_graph_builder* builder, const tenon_node_services* services,
                   const tenon_node* node, const Output* inputs, Output* outputs)
      : NodeBuilder(self, builder, services, node), inputs_(inputs), outputs_(outputs) {}

  Output input(int index) const { return inputs_[index]; }
  void SetOutput(int index, Output value) {
    if (ok()) outputs_[index] = value;
  }

 private:
  const Output* inputs_;
  Output* outputs_;
};

// The C function of a decomposition in C++.
template <void (*Function)(DecomposeContext&)>
tenon_status* DecomposeFunction(tenon_plugin_self* self, const tenon_graph_builder* builder,
                                const tenon_node_services* services, const tenon_node* node, const tenon_output* inputs,
                                tenon_output* out_outputs) {
  return Guard([&] {
    DecomposeContext d(self, builder, services, node, inputs, out_outputs);
    Function(d);
    return d.Finish();
  });
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_DECOMPOSITION_H_
