// SPDX-License-Identifier: Apache-2.0
// The common form of datasets over others: a dataset of one input, and its iterator over that.
#ifndef TENON_OPS_DATASET_ITERATE_H_
#define TENON_OPS_DATASET_ITERATE_H_

#include "dataset.h"

namespace tenon::ops {

// A dataset of the dataset in input 0.
struct OverOne : Dataset {
  struct Attrs : Node {
    explicit Attrs(sdk::CreateContext& c) : Node(c) {}
    Attrs(sdk::CreateContext& c, std::string_view types_attr) : Node(c, false, types_attr) {}
  };
  OverOne(const Node& node, const sdk::RunContext& c, bool waits = true) : OverOne(node, DatasetOf(c, 0), waits) {}
  OverOne(const Node& node, DatasetPtr from, bool waits) : Dataset(node, {from}, waits), input(std::move(from)) {}
  const DatasetPtr input;
};

// Its iterator: what it is of, and the iterator of the input.
template <class D>
struct OverIterator : Iterator {
  OverIterator(const D& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
  const D& dataset;
  const Pass& pass;
  IteratorPtr from;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ITERATE_H_
