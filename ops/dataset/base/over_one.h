// SPDX-License-Identifier: Apache-2.0
// The common form of datasets over others: a dataset of one input, and its iterator over that.
#ifndef TENON_OPS_DATASET_BASE_OVER_ONE_H_
#define TENON_OPS_DATASET_BASE_OVER_ONE_H_

#include "base/archive.h"
#include "base/dataset.h"

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

// Its iterator: what it is of, and the iterator of the input, which may go before it where kMayGo.
template <class D, bool kMayGo = false>
struct OverIterator : Iterator {
  OverIterator(const D& of, const Pass& in) : dataset(of), pass(in), from(of.input->NewIterator(in)) {}
  void State(Archive& archive) final {
    if (kMayGo) archive.Of(*dataset.input, from);
    else archive.There(*dataset.input, from);
    SaveOrLoad(archive);
  }
  // State() without the input's.
  virtual void SaveOrLoad(Archive& archive) = 0;

  const D& dataset;
  const Pass& pass;
  IteratorPtr from;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_OVER_ONE_H_
