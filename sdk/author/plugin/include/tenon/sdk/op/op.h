// SPDX-License-Identifier: Apache-2.0
// An op's file: what the op is, as one constant, with its shape function and its gradient above it.
//
//   #include "tenon/sdk/op/op.h"
//   namespace tenon::ops {
//   using namespace sdk;
//   static void SquareGradient(GradientContext& g) {
//     g.SetDx(0, g.Mul(g.dy(0), g.Mul(g.input(0), g.Scalar(2, g.input(0)))));
//   }
//   TENON_OP(kSquare) = DefineOp({
//       .name = "Square", .inputs = "x: T", .outputs = "y: T", .attrs = "T: {float, double}",
//       .doc = "x * x, element by element.", .properties = "elementwise",
//       .shape = ShapeFunction<SameShape>, .gradient = GradientFunction<SquareGradient>});
//   }
//
// That is all: the package (package.h) has every op that its files define so. DefineOp runs in the compiler, so that
// the definition can be read before load().
#ifndef TENON_SDK_OP_OP_H_
#define TENON_SDK_OP_OP_H_

#include <cstdint>
#include <string_view>

#include "tenon/sdk/list.h"
#include "tenon/sdk/op/cost.h"
#include "tenon/sdk/op/decomposition.h"
#include "tenon/sdk/op/gradient.h"
#include "tenon/sdk/op/shape_function.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

// tenon_op_definition with defaults; the words are explained in tenon/op.h.
struct OpDefinition {
  std::string_view name;
  std::string_view inputs = {};
  std::string_view outputs = {};
  std::string_view attrs = {};
  std::string_view constraints = {};
  std::string_view roles = {};
  std::string_view doc = {};
  std::string_view properties = {};
  uint64_t traits = 0;
  tenon_shape_function shape = nullptr;
  tenon_gradient_function gradient = nullptr;
  tenon_cost_function cost = nullptr;
  tenon_decompose_function decompose = nullptr;  // decomposition.h
  int32_t deprecated_at = 0;
  int32_t version = 0;
  std::string_view deprecation = {};
};

consteval tenon_op_definition DefineOp(const OpDefinition& op) {
  return {TENON_HEAD(tenon_op_definition),
          ToSpan(op.name),
          ToSpan(op.inputs),
          ToSpan(op.outputs),
          ToSpan(op.attrs),
          ToSpan(op.constraints),
          ToSpan(op.roles),
          ToSpan(op.doc),
          op.traits,
          op.shape,
          op.gradient,
          op.cost,
          op.deprecated_at,
          op.version,
          ToSpan(op.deprecation),
          op.decompose,
          ToSpan(op.properties)};
}

}  // namespace tenon::sdk

// Defines an op of the package under this name, which other files may declare extern.
#define TENON_OP(name)                                \
  TENON_ENTRY(tenon_ops, tenon_op_definition, name); \
  constinit const tenon_op_definition name

#endif  // TENON_SDK_OP_OP_H_
