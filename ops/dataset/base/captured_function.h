// SPDX-License-Identifier: Apache-2.0
// A function of a dataset, with the values that it gets behind an element's components.
#ifndef TENON_OPS_DATASET_BASE_CAPTURED_FUNCTION_H_
#define TENON_OPS_DATASET_BASE_CAPTURED_FUNCTION_H_

#include "base/dataset.h"

namespace tenon::ops {

class Captured {
 public:
  // Takes the inputs from `first` on, `count` of them.
  Captured(const sdk::Function& function, const std::string& who, const sdk::RunContext& c, int32_t first,
           int32_t count);
  Captured(const sdk::Function& function, const std::string& who, const sdk::RunContext& c, int32_t first)
      : Captured(function, who, c, first, c.input_count() - first) {}

  // The function's results for the components of `first`, then of `second`. A failure names the dataset.
  Element Call(const Pass& pass, const Element& first, const Element& second = {}) const {
    return CallInto(pass, {}, first, second);
  }
  // Results that fit lie in their places then (Function::CallInto).
  Element CallInto(const Pass& pass, std::span<const tenon_tensor_view* const> places, const Element& first,
                   const Element& second = {}) const;
  // Of a predicate: INVALID_ARGUMENT unless the result is one bool.
  bool Ask(const Pass& pass, const Element& element) const;
  // Of a function that gives one int64.
  int64_t Count(const Pass& pass, const Element& element) const;
  // Of a function that gives a dataset, of these types.
  DatasetPtr CallForDataset(const Pass& pass, const Element& element, const std::vector<uint32_t>& types) const;
  const std::string& who() const { return who_; }

 private:
  const sdk::Function function_;
  const std::string who_;
  const Element others_;
};

// A pass over a dataset that a function gave in the middle of another pass.
class Opened {
 public:
  Opened() = default;
  Opened(Opened&&) noexcept = default;
  Opened& operator=(Opened&& other) noexcept {
    Close();  // the iterator before what it is of
    dataset_ = std::move(other.dataset_);
    pass_ = std::move(other.pass_);
    iterator_ = std::move(other.iterator_);
    return *this;
  }
  bool is_open() const { return iterator_ != nullptr; }
  Iterator& operator*() const { return *iterator_; }
  Iterator* operator->() const { return iterator_.get(); }
  // make(pass, dataset): the iterator. RESOURCE_EXHAUSTED, thrown: such passes lie in one another too deep.
  template <class Make>
  void Open(const Pass& outer, DatasetPtr dataset, const Make& make) {
    Close();
    auto pass = std::make_unique<const Pass>(outer, *dataset);
    iterator_ = make(*pass, *dataset);
    pass_ = std::move(pass);
    dataset_ = std::move(dataset);
  }
  void Open(const Pass& outer, DatasetPtr dataset) {
    Open(outer, std::move(dataset), [](const Pass& pass, const Dataset& of) { return of.NewIterator(pass); });
  }
  void Close() {
    iterator_.reset();
    pass_.reset();
    dataset_.reset();
  }
  // Of what is open.
  void State(Archive& archive) const;

 private:
  DatasetPtr dataset_;
  std::unique_ptr<const Pass> pass_;
  IteratorPtr iterator_;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_CAPTURED_FUNCTION_H_
