// SPDX-License-Identifier: Apache-2.0
#include "base/held_elements.h"

#include "base/archive.h"

namespace tenon::ops {

IteratorPtr Held::NewIterator(const Pass&) const {
  struct Each final : Iterator {
    explicit Each(const Held& of) : dataset(of) {}
    bool Next(Element* out) override {
      if (at >= dataset.elements_.size()) return false;
      *out = Share(dataset.elements_[at++]);
      return true;
    }
    Poll TryNext(Element* out) override { return Next(out) ? Poll::kElement : Poll::kEnd; }
    void State(Archive& archive) override { archive.Number(at, 0, dataset.Cardinality()); }
    const Held& dataset;
    size_t at = 0;
  };
  return std::make_unique<Each>(*this);
}

}  // namespace tenon::ops
