// SPDX-License-Identifier: Apache-2.0
// Datasets that are elements themselves.
#ifndef TENON_OPS_DATASET_WINDOW_H_
#define TENON_OPS_DATASET_WINDOW_H_

#include <string>
#include <vector>

#include "dataset.h"

namespace tenon::ops {

// A dataset of these elements, as a component of an element. who: in whose name it speaks.
sdk::KeptTensor NewHeldDataset(const sdk::Work& work, const std::string& who, std::vector<uint32_t> types, std::vector<sdk::Shape> shapes, std::vector<Element> elements);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_WINDOW_H_
