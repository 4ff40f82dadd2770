// SPDX-License-Identifier: Apache-2.0
#include "core/graph/dim_names.h"

#include <algorithm>
#include <iterator>

#include "core/base/checked.h"

namespace tenon::graph {
namespace {

constexpr size_t kMostTerms = 16, kMostFactors = 16;
constexpr size_t kMostComputed = 1 << 14;  // names of some KB at most: they are charged to no limit
constexpr int kSpread = 20;                // bits between two names

// Some bits that hang on all of the index's.
int64_t Mark(int64_t index) {
  const uint64_t mixed = (static_cast<uint64_t>(index) + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return static_cast<int64_t>(mixed >> (64 - kSpread));
}

}  // namespace

int64_t DimNames::Name(int64_t index) const { return TENON_DIM_NAMES - ((index << kSpread) + Mark(index)); }

bool DimNames::Has(int64_t dim) const {
  if (dim > TENON_DIM_NAMES || dim == INT64_MIN) return false;
  const int64_t index = (TENON_DIM_NAMES - dim) >> kSpread;
  return Within(index, terms_.size()) && Name(index) == dim;
}

int64_t DimNames::New() {
  terms_.push_back(nullptr);
  return Name(std::ssize(terms_) - 1);
}

std::optional<DimNames::Terms> DimNames::TermsOf(int64_t dim) const {
  if (dim == 0) return Terms();
  if (dim > 0) return Terms{{{}, dim}};
  if (!Has(dim)) return std::nullopt;
  const int64_t index = (TENON_DIM_NAMES - dim) >> kSpread;
  const Terms* const computed = terms_[static_cast<size_t>(index)];
  return computed != nullptr ? *computed : Terms{{{index}, 1}};
}

int64_t DimNames::DimOf(Terms terms) {
  if (terms.empty()) return 0;
  if (terms.size() > kMostTerms) return -1;
  if (const auto& [factors, times] = *terms.begin(); terms.size() == 1) {
    if (factors.empty()) return times;
    if (factors.size() == 1 && times == 1) return Name(factors[0]);
  }
  const bool is_long = std::any_of(terms.begin(), terms.end(),
                                   [](const auto& term) { return term.first.size() > kMostFactors; });
  if (is_long) return -1;
  const auto found = indices_.find(terms);
  if (found != indices_.end()) return Name(found->second);
  if (indices_.size() >= kMostComputed) return -1;
  const int64_t index = std::ssize(terms_);
  terms_.push_back(&indices_.emplace(std::move(terms), index).first->first);
  return Name(index);
}

int64_t DimNames::Sum(int64_t a, int64_t b) {
  std::optional<Terms> sum = TermsOf(a);
  const std::optional<Terms> more = TermsOf(b);
  if (!sum.has_value() || !more.has_value()) return -1;
  for (const auto& [factors, times] : *more) {
    int64_t& own = (*sum)[factors];
    if (__builtin_add_overflow(own, times, &own)) return -1;
  }
  return DimOf(*std::move(sum));
}

int64_t DimNames::Product(int64_t a, int64_t b) {
  const std::optional<Terms> x = TermsOf(a), y = TermsOf(b);
  if (!x.has_value() || !y.has_value()) return -1;
  Terms product;
  for (const auto& [factors, times] : *x)
    for (const auto& [others, by] : *y) {
      Factors all;
      std::merge(factors.begin(), factors.end(), others.begin(), others.end(), std::back_inserter(all));
      int64_t term = 0, &own = product[std::move(all)];
      if (__builtin_mul_overflow(times, by, &term) || __builtin_add_overflow(own, term, &own)) return -1;
    }
  return DimOf(std::move(product));
}

int64_t DimNames::Quotient(int64_t a, int64_t b) {
  const std::optional<Terms> whole = TermsOf(a), parts = TermsOf(b);
  if (!whole.has_value() || !parts.has_value() || parts->empty()) return -1;
  if (*whole == *parts) return 1;
  if (parts->size() != 1) return -1;
  const auto& [by, times] = *parts->begin();
  Terms quotient;
  for (const auto& [factors, own] : *whole) {
    if (own % times != 0 || !std::includes(factors.begin(), factors.end(), by.begin(), by.end())) return -1;
    Factors left;
    std::set_difference(factors.begin(), factors.end(), by.begin(), by.end(), std::back_inserter(left));
    const auto is_divisors = [&](int64_t name) { return std::binary_search(by.begin(), by.end(), name); };
    if (std::any_of(left.begin(), left.end(), is_divisors)) return -1;
    quotient.emplace(std::move(left), own / times);
  }
  return DimOf(std::move(quotient));
}

std::optional<int64_t> DimNames::SizeOf(int64_t dim, const std::map<int64_t, int64_t>& sizes) const {
  const std::optional<Terms> terms = TermsOf(dim);
  if (!terms.has_value()) return std::nullopt;
  int64_t sum = 0;
  for (const auto& [factors, times] : *terms) {
    int64_t product = times;
    for (const int64_t index : factors) {
      const auto found = sizes.find(Name(index));
      if (found == sizes.end()) return std::nullopt;
      product *= found->second;
    }
    sum += product;
  }
  return sum;
}

}  // namespace tenon::graph
