// SPDX-License-Identifier: Apache-2.0
// Lists and optionals as values that may leave their process (tenon/ext/draft/variant.h).
#ifndef TENON_OPS_DATA_FLOW_CROSSING_H_
#define TENON_OPS_DATA_FLOW_CROSSING_H_

#include "tenon/ext/draft/variant.h"

namespace tenon::ops {

extern const tenon_variant_package kCrossingVariants;

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_CROSSING_H_
