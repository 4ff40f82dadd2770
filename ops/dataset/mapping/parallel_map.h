// SPDX-License-Identifier: Apache-2.0
// Calls of a function beside one another, in the order of the elements.
#ifndef TENON_OPS_DATASET_MAPPING_PARALLEL_MAP_H_
#define TENON_OPS_DATASET_MAPPING_PARALLEL_MAP_H_

#include <string>

#include "base/captured_function.h"
#include "performance/prefetch.h"

namespace tenon::ops {

// Input `input`, an int32 or int64: how many calls at once. INVALID_ARGUMENT: fewer than one.
int64_t CallsOf(const sdk::RunContext& c, int32_t input, const std::string& who);

// function and input outlive it.
IteratorPtr NewParallelMapper(const Pass& pass, const Captured& function, const Dataset& input, int64_t calls);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_MAPPING_PARALLEL_MAP_H_
