// SPDX-License-Identifier: Apache-2.0
// How far two values are apart, and how far their type and their node's inputs explain that.
#ifndef TENON_CLI_COMPARE_DEVIATION_H_
#define TENON_CLI_COMPARE_DEVIATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::cli {

// Of a value from the other run, against the reference.
struct Deviation {
  std::string misfit;    // another type or shape, and then nothing else is known; "": none
  bool rounds = false;   // the type has a rounding error: floating point, complex
  double relative = 0;  // rounds: the largest difference of two elements over the reference's largest element; infinite
                        // where one alone is no number
  double magnitude = 0;  // rounds: of the reference's largest element that is a finite number
  double unit = 0;       // rounds: the unit roundoff of the type
  int64_t elements = 0, different = 0;
  int64_t worst = -1;    // the element that differs most (or the first that differs), in row-major order
};

Deviation Compare(const host::Tensor& reference, const host::Tensor& other);

// What a node's output may deviate by, relative to its largest element:
//
//   slack * (sum over inputs i of e_i * a_i  +  u * sqrt(t) * max a_i)
//
// where e_i is how far the input deviates already, a_i = max(1, |input i|, |input i| / |output|) in largest elements
// bounds what a cancellation or an exponential makes of it, u is the larger one of the output's unit roundoff and of
// what the precision policy allows, and t is how many elements of inputs come to one of the output, whose rounding
// errors add up as a random walk (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). At
// most 1.
double PredictedDeviation(const Deviation& output, const std::vector<const Deviation*>& inputs, double policy_unit,
                          double slack);

}  // namespace tenon::cli

#endif  // TENON_CLI_COMPARE_DEVIATION_H_
