// SPDX-License-Identifier: Apache-2.0
#include "histogram.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tenon/bytes/wire.h"

namespace tenon::ops {
namespace {

constexpr double kMost = std::numeric_limits<double>::max();

// Where each bucket ends. By multiplication step after step, so that the limits are those that TensorFlow writes, to
// the last bit.
const std::vector<double>& Limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> above;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
    above.push_back(kMost);
    std::vector<double> all(above.rbegin(), above.rend());
    for (double& limit : all) limit = -limit;
    all.push_back(0);
    all.insert(all.end(), above.begin(), above.end());
    return all;
  }();
  return limits;
}

void Put(std::string* packed, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  sdk::PutFixed64(*packed, bits);
}

}  // namespace

Histogram::Histogram() : counts_(Limits().size()), least_(kMost), greatest_(-kMost) {}

void Histogram::Add(double value) {
  const std::vector<double>& limits = Limits();
  const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
  counts_[std::min(static_cast<size_t>(bucket), limits.size() - 1)] += 1;
  least_ = std::min(least_, value);
  greatest_ = std::max(greatest_, value);
  count_ += 1;
  sum_ += value;
  squares_ += value * value;
}

std::string Histogram::Encode() const {
  std::string limits, counts;
  for (size_t i = 0; i < counts_.size(); ++i) {
    // The last of empty ones stands for them, or what comes after them.
    if (counts_[i] <= 0)
      while (i + 1 < counts_.size() && counts_[i + 1] <= 0) ++i;
    Put(&limits, Limits()[i]);
    Put(&counts, counts_[i]);
  }
  sdk::WireWriter proto;
  proto.Double(1, least_);
  proto.Double(2, greatest_);
  proto.Double(3, count_);
  proto.Double(4, sum_);
  proto.Double(5, squares_);
  proto.Bytes(6, limits);
  proto.Bytes(7, counts);
  return proto.bytes();
}

}  // namespace tenon::ops
