// SPDX-License-Identifier: Apache-2.0
// Row splits: where the rows of a ragged tensor begin and end, int32 or int64. Failures are INVALID_ARGUMENT, thrown.
#ifndef TENON_OPS_SPARSE_SPLITS_H_
#define TENON_OPS_SPARSE_SPLITS_H_

#include <array>
#include <limits>
#include <string_view>

#include "tenon/sdk/kernel/kept_tensor.h"

namespace tenon::ops::sparse {

// Borrows the view.
class Splits {
 public:
  // A vector of one number at least. what: for messages.
  Splits(const tenon_tensor_view& view, std::string_view what) : view_(view), what_(what) {
    if (view.dl.ndim != 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, what, " must be vectors; one has shape ", sdk::DimsOf(view));
    if (sdk::Count(view) < 1) sdk::Fail(TENON_INVALID_ARGUMENT, what, " must have at least one number each");
  }
  int64_t rows() const { return sdk::Count(view_) - 1; }
  // i in [0, rows()].
  int64_t operator[](int64_t i) const {
    return view_.dtype == TENON_DT_INT32 ? sdk::Data<const int32_t>(view_)[i] : sdk::Data<const int64_t>(view_)[i];
  }
  // That they begin at 0, never fall, and end with `count`, which are the rows of the level below; with less where some
  // may belong to no row.
  void CheckWithin(const sdk::RunContext& c, int64_t count, bool all = true) const {
    sdk::CancelPoll poll(c);
    if ((*this)[0] != 0) sdk::Fail(TENON_INVALID_ARGUMENT, what_, " must begin with 0, not with ", (*this)[0]);
    for (int64_t i = 0; i < rows(); ++i, poll())
      if ((*this)[i + 1] < (*this)[i])
        sdk::Fail(TENON_INVALID_ARGUMENT, what_, " must not fall; from ", (*this)[i], " they go to ", (*this)[i + 1]);
    if (all ? (*this)[rows()] != count : (*this)[rows()] > count)
      sdk::Fail(TENON_INVALID_ARGUMENT, what_, " must end with the number of values, ", count, ", not with ",
                (*this)[rows()]);
  }
  // Those of rows [first, end), counted from 0.
  sdk::KeptTensor Part(const sdk::RunContext& c, int64_t first, int64_t end) const {
    sdk::KeptTensor part = sdk::NewTensor(c, view_.dtype, std::array{end - first + 1});
    for (int64_t i = first; i <= end; ++i) {
      if (view_.dtype == TENON_DT_INT32)
        sdk::Data<int32_t>(part.view())[i - first] = static_cast<int32_t>((*this)[i] - (*this)[first]);
      else sdk::Data<int64_t>(part.view())[i - first] = (*this)[i] - (*this)[first];
    }
    return part;
  }

 private:
  const tenon_tensor_view& view_;
  std::string_view what_;
};

// Makes an output of splits, named in dynamic_outputs: as many rows are added.
class SplitsWriter {
 public:
  SplitsWriter(const sdk::RunContext& c, int32_t output, uint32_t dtype, int64_t rows)
      : wide_(dtype == TENON_DT_INT64) {
    c.AllocOutput(output, std::array{sdk::Add(rows, 1)});
    to_ = c.output<char>(output);
    Put();
  }
  // A row of that length, which is not negative.
  void Add(int64_t length) {
    sum_ = sdk::Add(sum_, length);
    Put();
  }

 private:
  void Put() {
    if (!wide_ && sum_ > std::numeric_limits<int32_t>::max())
      sdk::Fail(TENON_INVALID_ARGUMENT, "the splits reach ", sum_, ", which int32 cannot hold; ask for int64");
    if (wide_) reinterpret_cast<int64_t*>(to_)[at_++] = sum_;
    else reinterpret_cast<int32_t*>(to_)[at_++] = static_cast<int32_t>(sum_);
  }
  char* to_ = nullptr;
  bool wide_;
  int64_t sum_ = 0, at_ = 0;
};

}  // namespace tenon::ops::sparse
#endif  // TENON_OPS_SPARSE_SPLITS_H_
