// SPDX-License-Identifier: Apache-2.0
// How far values of a reduced precision are from the same in floats, over batches.
#ifndef TENON_CLI_RUN_ACCURACY_H_
#define TENON_CLI_RUN_ACCURACY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/app/cli/json.h"
#include "tenon/tenon.h"

namespace tenon::cli {

// Of one fetch.
class Accuracy {
 public:
  explicit Accuracy(std::string fetch) : fetch_(std::move(fetch)) {}
  // Of one batch: both of one type and shape. INVALID_ARGUMENT where they are not.
  host::Status Add(const host::Tensor& exact, const host::Tensor& reduced);

  const std::string& fetch() const { return fetch_; }
  double worst() const { return worst_; }
  double mean() const { return elements_ == 0 ? 0 : sum_ / static_cast<double>(elements_); }
  // The largest difference over the largest element, and the root of the squares' sum over that of the elements; 0
  // where all is 0.
  double relative_worst() const { return largest_ == 0 ? 0 : worst_ / largest_; }
  double relative() const;
  // Of matrices whose rows score at least two classes: how many rows have their largest element in the same place.
  uint64_t rows() const { return rows_; }
  uint64_t same_class() const { return same_class_; }
  // Of integers, truth values and texts: how many elements are equal.
  uint64_t elements() const { return elements_; }
  uint64_t equal() const { return equal_; }
  bool is_real() const { return is_real_; }

  Json AsJson() const;

 private:
  template <class T>
  void AddReal(std::span<const T> exact, std::span<const T> reduced, const host::Shape& shape);

  std::string fetch_;
  bool is_real_ = true;
  uint64_t elements_ = 0, equal_ = 0, rows_ = 0, same_class_ = 0;
  double worst_ = 0, sum_ = 0, largest_ = 0, squares_ = 0, exact_squares_ = 0;
};

// Of several fetches, as a table below its title.
void PrintAccuracy(std::string_view title, const std::vector<Accuracy>& accuracy);
Json AccuracyJson(const std::vector<Accuracy>& accuracy);

}  // namespace tenon::cli

#endif  // TENON_CLI_RUN_ACCURACY_H_
