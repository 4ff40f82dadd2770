// SPDX-License-Identifier: Apache-2.0
// Whether a value is TensorFlow's.
//
// Integers, bools and strings are equal or not. Of floats NaN equals NaN, infinities equal infinities, and 0 is not -0
// unless the tolerance says so; else the difference is measured in units of the last place, of the expected element or
// (sums, whose order differs) of the largest element of the tensor. Subnormal numbers are zeros: TensorFlow's threads
// flush them. Where TensorFlow's complex number is not finite, anything will do. A tolerance belongs to a dtype and an
// op, never to a case.
#ifndef TENON_TESTS_GOLDEN_COMPARE_H_
#define TENON_TESTS_GOLDEN_COMPARE_H_

#include <string>

#include "tests/golden/tensor_json.h"

namespace tenon::golden {

struct Tolerance {
  double units = 8;         // of the last place; of half and bfloat16 a quarter of it
  bool of_largest = false;  // measured at the largest finite element
  bool of_one = false;      // which counts as 1 at least
  bool complex_of_one = false;  // the same, of complex numbers alone
  bool overflows = false;   // infinity may stand for a half that is nearly as large
  bool signed_zero = true;  // 0 and -0 differ
  double nothing = 0;       // differences up to this are none
};

// differences.json: what may differ from TensorFlow, and why.
class Differences {
 public:
  static Differences Read(const std::string& path);
  Tolerance ForValue(const std::string& op) const { return Of("values", op); }
  Tolerance ForGradient(const std::string& op) const { return Of("gradients", op); }
  // Whether it is said why `op` takes what TensorFlow refuses with this text, and the other way round.
  bool Accepts(const std::string& op, const std::string& error) const { return Says("accepts", op, error); }
  bool Refuses(const std::string& op, const std::string& error) const { return Says("refuses", op, error); }

 private:
  Tolerance Of(const char* table, const std::string& op) const;
  bool Says(const char* table, const std::string& op, const std::string& error) const;
  Json json_;
};

// Empty, or what differs.
std::string Compare(const host::Tensor& want, const host::Tensor& got, const Tolerance& tolerance);

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_COMPARE_H_
