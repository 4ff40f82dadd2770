// SPDX-License-Identifier: Apache-2.0
// A histogram as TensorBoard reads it (HistogramProto): buckets whose limits grow by a tenth, from 1e-12 to 1e20 on
// either side of zero.
#ifndef TENON_OPS_SUMMARY_HISTOGRAM_H_
#define TENON_OPS_SUMMARY_HISTOGRAM_H_

#include <string>
#include <vector>

namespace tenon::ops {

class Histogram {
 public:
  Histogram();
  void Add(double value);
  // Serialized. Empty buckets in a row are written as one.
  std::string Encode() const;

 private:
  std::vector<double> counts_;  // of each bucket
  double least_, greatest_;
  double count_ = 0, sum_ = 0, squares_ = 0;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_SUMMARY_HISTOGRAM_H_
