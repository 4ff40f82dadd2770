// SPDX-License-Identifier: Apache-2.0
// Sums of the products of steps become one product (products.cc).
#ifndef TENON_PASSES_KNOWN_AXES_PRODUCTS_H_
#define TENON_PASSES_KNOWN_AXES_PRODUCTS_H_

#include "tenon/sdk/op/graph_pass.h"

namespace tenon::passes {

// Of the step's nodes AddN and MatMul matter.
void JoinProducts(sdk::PassContext& p);

}  // namespace tenon::passes

#endif  // TENON_PASSES_KNOWN_AXES_PRODUCTS_H_
