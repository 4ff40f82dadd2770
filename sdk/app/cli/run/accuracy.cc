// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/table.h"

namespace tenon::cli {

using host::Code;
using host::DType;
using host::Status;

double Accuracy::relative() const { return exact_squares_ == 0 ? 0 : std::sqrt(squares_ / exact_squares_); }

template <class T>
void Accuracy::AddReal(std::span<const T> exact, std::span<const T> reduced, const host::Shape& shape) {
  for (size_t i = 0; i < exact.size(); ++i) {
    const double wanted = exact[i], difference = std::fabs(wanted - static_cast<double>(reduced[i]));
    equal_ += exact[i] == reduced[i] ? 1 : 0;
    worst_ = std::isnan(difference) ? difference : std::max(worst_, difference);
    sum_ += difference;
    squares_ += difference * difference;
    exact_squares_ += wanted * wanted;
    largest_ = std::max(largest_, std::fabs(wanted));
  }
  elements_ += exact.size();
  if (shape.rank() != 2 || shape[1] < 2) return;
  const auto classes = static_cast<size_t>(shape[1]);
  const auto best = [classes](std::span<const T> values, size_t row) {
    return std::max_element(values.begin() + row * classes, values.begin() + (row + 1) * classes) - values.begin();
  };
  for (size_t row = 0; row < exact.size() / classes; ++row)
    same_class_ += best(exact, row) == best(reduced, row) ? 1 : 0;
  rows_ += exact.size() / classes;
}

Status Accuracy::Add(const host::Tensor& exact, const host::Tensor& reduced) {
  if (exact.dtype() != reduced.dtype() || exact.shape() != reduced.shape())
    return Status(Code::kInvalidArgument, "'" + fetch_ + "' is " + TensorText(exact.dtype(), exact.shape()) +
                                              " in floats and " + TensorText(reduced.dtype(), reduced.shape()) +
                                              " in reduced precision");
  is_real_ = exact.dtype() == DType::kFloat || exact.dtype() == DType::kDouble;
  if (exact.dtype() == DType::kFloat) {
    AddReal(exact.data<float>(), reduced.data<float>(), exact.shape());
  } else if (exact.dtype() == DType::kDouble) {
    AddReal(exact.data<double>(), reduced.data<double>(), exact.shape());
  } else if (const uint64_t size = host::DTypeSize(exact.dtype()); size > 0 && exact.dtype() != DType::kString) {
    const auto a = exact.bytes(), b = reduced.bytes();
    for (size_t at = 0; at + size <= a.size(); at += size, ++elements_)
      equal_ += std::equal(a.begin() + at, a.begin() + at + size, b.begin() + at) ? 1 : 0;
  } else {
    for (int64_t i = 0; i < exact.element_count(); ++i, ++elements_)
      equal_ += exact.string(static_cast<uint64_t>(i)) == reduced.string(static_cast<uint64_t>(i)) ? 1 : 0;
  }
  return Status();
}

Json Accuracy::AsJson() const {
  Json json{{"fetch", fetch_}, {"elements", elements_}, {"equal", equal_}};
  if (!is_real_) return json;
  json["max"] = worst_;
  json["mean"] = mean();
  json["max_of_largest"] = relative_worst();
  json["relative"] = relative();
  if (rows_ > 0) json["top1"] = {{"rows", rows_}, {"same", same_class_}};
  return json;
}

void PrintAccuracy(std::string_view title, const std::vector<Accuracy>& accuracy) {
  if (accuracy.empty()) return;
  fmt::print("{}\n", title);
  Table table({"fetch", "largest", "mean", "largest of the largest element", "root mean square, relative", "top-1"});
  for (const Accuracy& each : accuracy) {
    const std::string equal = fmt::format("{} of {} equal", each.equal(), each.elements());
    if (!each.is_real()) table.Add({each.fetch(), equal, "", "", "", ""});
    else
      table.Add({each.fetch(), fmt::format("{:.3g}", each.worst()), fmt::format("{:.3g}", each.mean()),
                 fmt::format("{:.2f} %", 100 * each.relative_worst()), fmt::format("{:.2f} %", 100 * each.relative()),
                 each.rows() == 0 ? "" : fmt::format("{} of {} rows", each.same_class(), each.rows())});
  }
  table.Print(2);
}

Json AccuracyJson(const std::vector<Accuracy>& accuracy) {
  Json json = Json::array();
  for (const Accuracy& each : accuracy) json.push_back(each.AsJson());
  return json;
}

}  // namespace tenon::cli
