// SPDX-License-Identifier: Apache-2.0
// Batches: elements as the rows of one.
#ifndef TENON_OPS_DATASET_BATCHING_BATCH_H_
#define TENON_OPS_DATASET_BATCHING_BATCH_H_

#include <string>
#include <vector>

#include "base/dataset.h"

namespace tenon::ops {

// Elements (at least one) of the same shapes. INVALID_ARGUMENT, thrown: they are not. who: for messages.
Element BatchOf(const Pass& pass, const std::string& who, const std::vector<Element>& elements);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BATCHING_BATCH_H_
