// SPDX-License-Identifier: Apache-2.0
// Archive: the state of a pass over a dataset as bytes, written, or read by a pass that has just begun and then goes on
// where the other one stood.
//
// An iterator's State() names the same fields in the same order in both directions. What is read is a stranger's: each
// number has its bounds, a list is no longer than the bytes that are left, and what a field may not be is
// INVALID_ARGUMENT, thrown, which ends the pass that reads.
#ifndef TENON_OPS_DATASET_BASE_ARCHIVE_H_
#define TENON_OPS_DATASET_BASE_ARCHIVE_H_

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dataset.h"
#include "tenon/sdk/outcome.h"

namespace tenon::ops {

class Archive {
 public:
  // Writes; the bytes are in memory of the pass's session.
  explicit Archive(const Pass& pass) : pass_(&pass), reading_(false) {}
  // Reads these pieces, uint8 vectors, which outlive it.
  Archive(const Pass& pass, std::vector<tenon_tensor_view> pieces);

  bool reading() const { return reading_; }
  const Pass& pass() const { return *pass_; }
  // While it lives, what is written or read is of a pass within the one before.
  class Within {
   public:
    Within(Archive& archive, const Pass& pass) : archive_(archive), outer_(std::exchange(archive.pass_, &pass)) {}
    ~Within() { archive_.pass_ = outer_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    Archive& archive_;
    const Pass* const outer_;
  };

  // An integer, or what std::vector calls a size.
  template <class Integer>
  void Number(Integer& value, int64_t least = 0, int64_t most = INT64_MAX) {
    value = static_cast<Integer>(Int(static_cast<int64_t>(value), least, most));
  }
  void Flag(bool& value) { Number(value, 0, 1); }
  void Word(uint64_t& value) { value = static_cast<uint64_t>(Int(static_cast<int64_t>(value), INT64_MIN, INT64_MAX)); }
  void Text(std::string& text, int64_t most = INT64_MAX);  // bytes
  void Failure(sdk::Outcome& outcome);
  // Tensors: of plain types, strings, and scalars that hold a dataset of elements in memory, variants of sparse and
  // ragged tensors. UNIMPLEMENTED, thrown: others.
  void Values(Element& element);
  // A vector or deque of at most `most` parts, each by each(part).
  template <class List, class Each>
  void ListOf(List& list, int64_t most, const Each& each) {
    auto size = static_cast<int64_t>(list.size());
    Number(size, 0, reading_ ? std::min<int64_t>(most, Left()) : most);
    if (reading_) {
      list.clear();
      Charge(static_cast<uint64_t>(size) * sizeof(typename List::value_type));
    }
    for (int64_t i = 0; i < size; ++i) {
      if (reading_) list.emplace_back();
      each(list[static_cast<size_t>(i)]);
    }
  }
  template <class List>
  void Elements(List& elements, int64_t most = INT64_MAX) {
    ListOf(elements, most, [this](auto& element) { Values(element); });
  }
  // An iterator over this dataset; nullptr is one that has ended, or never began.
  void Of(const Dataset& dataset, IteratorPtr& iterator);
  // One that is there.
  void There(const Dataset& dataset, IteratorPtr& iterator) {
    Of(dataset, iterator);
    if (iterator == nullptr) Refuse("a pass that it needs is not in it");
  }
  // For what is read and does not fit.
  [[noreturn]] void Refuse(std::string_view why) const;

  // What was written.
  std::vector<sdk::KeptTensor> Take();
  // All was read. INVALID_ARGUMENT: there is more.
  void CheckEnd() const;

 private:
  int64_t Int(int64_t value, int64_t least, int64_t most);
  void Write(const char* bytes, uint64_t count);
  void Read(char* bytes, uint64_t count);
  void Charge(uint64_t bytes) const;  // whether the session has them
  int64_t Left() const { return static_cast<int64_t>(left_); }
  void WriteTensor(const tenon_tensor_view& view);
  sdk::KeptTensor ReadTensor();
  sdk::KeptTensor ReadDataset();
  std::vector<tenon_tensor_view> TensorsOf(const tenon_variant* variant, std::string_view type) const;
  // Of a scalar: whether what it holds is no dataset.
  bool IsOfTensors(const tenon_tensor_view& view) const;
  void WriteHeld(const tenon_variant* variant);
  void ReadHeld(tenon_variant** cell);

  const Pass* pass_;
  const bool reading_;
  std::vector<sdk::KeptTensor> blocks_;    // written
  uint64_t room_ = 0;                      // left in the last block
  std::vector<tenon_tensor_view> pieces_;  // to read
  size_t piece_ = 0;
  uint64_t at_ = 0;    // in that piece
  uint64_t left_ = 0;  // bytes to read
  int within_ = 0;     // datasets that lie in one another, where we are
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_ARCHIVE_H_
