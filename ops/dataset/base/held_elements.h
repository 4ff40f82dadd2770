// SPDX-License-Identifier: Apache-2.0
// Held: a dataset of elements that lie in memory. Windows are such, which are elements themselves.
#ifndef TENON_OPS_DATASET_BASE_HELD_ELEMENTS_H_
#define TENON_OPS_DATASET_BASE_HELD_ELEMENTS_H_

#include <utility>
#include <vector>

#include "base/dataset.h"

namespace tenon::ops {

class Held final : public Dataset {
 public:
  Held(const Node& node, std::vector<Element> elements) : Dataset(node, {}, false), elements_(std::move(elements)) {}
  const std::vector<Element>& elements() const { return elements_; }
  int64_t Cardinality() const override { return static_cast<int64_t>(elements_.size()); }
  IteratorPtr NewIterator(const Pass& pass) const override;

 private:
  const std::vector<Element> elements_;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_HELD_ELEMENTS_H_
