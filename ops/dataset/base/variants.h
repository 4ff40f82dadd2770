// SPDX-License-Identifier: Apache-2.0
// Sparse and ragged tensors as components of elements: variants, which the ops of sparse and ragged tensors take apart.
#ifndef TENON_OPS_DATASET_BASE_VARIANTS_H_
#define TENON_OPS_DATASET_BASE_VARIANTS_H_

#include <utility>
#include <vector>

#include "base/element.h"
#include "tenon/extras/kernel/held_tensors.h"

namespace tenon::ops {

// Three variants, as DeserializeSparse takes them.
inline sdk::KeptTensor NewSparse(const sdk::Work& work, sdk::KeptTensor indices, sdk::KeptTensor values,
                                 sdk::KeptTensor shape) {
  const int64_t dims[] = {3};
  sdk::KeptTensor cells = work.NewTensor(TENON_DT_VARIANT, dims);
  auto** cell = sdk::Data<tenon_variant*>(cells.view());
  for (sdk::KeptTensor* part : {&indices, &values, &shape}) {
    std::vector<sdk::KeptTensor> one;
    one.push_back(std::move(*part));
    *cell++ = sdk::HoldTensors(work.services(), sdk::kTensorVariant, std::move(one));
  }
  return cells;
}

// One variant, as RaggedTensorFromVariant takes it.
inline sdk::KeptTensor NewRagged(const sdk::Work& work, sdk::KeptTensor splits, sdk::KeptTensor values) {
  sdk::KeptTensor cell = work.NewTensor(TENON_DT_VARIANT, {});
  std::vector<sdk::KeptTensor> both;
  both.push_back(std::move(splits));
  both.push_back(std::move(values));
  *sdk::Data<tenon_variant*>(cell.view()) = sdk::HoldTensors(work.services(), sdk::kRaggedVariant, std::move(both));
  return cell;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_VARIANTS_H_
