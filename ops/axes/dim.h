// SPDX-License-Identifier: Apache-2.0
// Dim: a size as far as a graph says it before a step runs: a number, or a number times sizes that are called by
// numbers of their own.
//
// Two Dims that are equal are one size in every step. Two that differ may be one size or not, unless both are numbers.
#ifndef TENON_OPS_AXES_DIM_H_
#define TENON_OPS_AXES_DIM_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon::ops {

class Dim {
 public:
  Dim(int64_t number) : number_(number) {}  // NOLINT: a number is one
  // Of a size that nothing is known of but its name.
  static Dim Named(int64_t name) {
    Dim dim(1);
    dim.names_ = {name};
    return dim;
  }

  bool is_number() const { return names_.empty(); }
  // The factor that is a number.
  int64_t number() const { return number_; }
  bool Is(int64_t number) const { return is_number() && number_ == number; }

  // Nothing: it is none of these, or too large.
  static std::optional<Dim> Product(const Dim& a, const Dim& b);
  static std::optional<Dim> Quotient(const Dim& a, const Dim& b);

  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  int64_t number_;
  std::vector<int64_t> names_;  // ascending, each as often as it is a factor
};

using Dims = std::vector<Dim>;

// Of all of them.
std::optional<Dim> Product(const Dims& dims);
// The shape to which both broadcast; nothing: they do not, or it is not known which of two sizes it has.
std::optional<Dims> Broadcast(const Dims& a, const Dims& b);
// The axes of what both broadcast to along which `of` is repeated, as far as a sum along them gives of's sizes: where
// of has a 1. Nothing: it is not known of an axis whether it is one.
std::optional<std::vector<int64_t>> RepeatedAxes(const Dims& of, const Dims& other);

}  // namespace tenon::ops

#endif  // TENON_OPS_AXES_DIM_H_
