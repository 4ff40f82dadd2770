// SPDX-License-Identifier: Apache-2.0
// DimNames: names for sizes that a graph does not say, and for what is computed of them.
//
// A dim is a number, -1 (nothing is known), or a name, at or below TENON_DIM_NAMES: two dims that have one name are of
// one size in every step. Two that have different names may be of one size or not. What is computed of names in two
// ways and is the same polynomial of them has one name: rows * 4 / 2 and rows + rows are one dim.
//
// Names lie far apart: what is computed with one as if it were a number is none.
#ifndef TENON_CORE_GRAPH_DIM_NAMES_H_
#define TENON_CORE_GRAPH_DIM_NAMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/tensor.h"

namespace tenon::graph {

// One thread.
class DimNames {
 public:
  DimNames() = default;
  DimNames(DimNames&&) = default;
  DimNames& operator=(DimNames&&) = default;

  // A name of its own.
  int64_t New();
  // Whether it is one of these names.
  bool Has(int64_t dim) const;

  // Of numbers and names; -1: of an operand nothing is known, the result is no size (too large, not whole), or it would
  // have too many terms.
  int64_t Sum(int64_t a, int64_t b);
  int64_t Product(int64_t a, int64_t b);
  // a / b, where it is whole whatever the names stand for, and has none of b's names left: what is inferred of such a
  // shape holds where one of these is 0, too. Of a step in which both are 0 it says nothing.
  int64_t Quotient(int64_t a, int64_t b);

  // What a dim is in a step where names that New made stand for these sizes; nothing: one of it is not among them.
  std::optional<int64_t> SizeOf(int64_t dim, const std::map<int64_t, int64_t>& sizes) const;

 private:
  using Factors = std::vector<int64_t>;      // indices of names that New made, ascending, each as often as it is one
  using Terms = std::map<Factors, int64_t>;  // with what each is multiplied, which is above 0; no term: 0

  std::optional<Terms> TermsOf(int64_t dim) const;
  int64_t DimOf(Terms terms);
  int64_t Name(int64_t index) const;

  std::map<Terms, int64_t> indices_;    // of what is computed
  std::vector<const Terms*> terms_;     // by index; nullptr: New made it
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_DIM_NAMES_H_
