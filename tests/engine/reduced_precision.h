// SPDX-License-Identifier: Apache-2.0
// What tests of reduced precisions share: a prepared step's floats with its explanation, and how far floats are from
// others.
#ifndef TENON_TESTS_ENGINE_REDUCED_PRECISION_H_
#define TENON_TESTS_ENGINE_REDUCED_PRECISION_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {

struct Outcome {
  std::vector<std::vector<float>> values;
  std::string explanation;
};

// Failures are test failures.
inline Outcome RunPrepared(const Session& session, const std::vector<Name>& feeds, const std::vector<View>& views,
                           const std::vector<Name>& fetches) {
  Outcome out;
  const auto callable = session.Prepare(feeds, fetches);
  EXPECT_TRUE(callable.ok()) << callable.status();
  if (!callable.ok()) return out;
  const auto values = callable->Run(views);
  EXPECT_TRUE(values.ok()) << values.status();
  if (!values.ok()) return out;
  for (const Tensor& value : *values) {
    EXPECT_EQ(value.dtype(), DType::kFloat) << "what is fetched keeps its type";
    out.values.push_back(Values<float>(value));
  }
  const auto explanation = callable->Explain();
  EXPECT_TRUE(explanation.ok()) << explanation.status();
  if (explanation.ok()) out.explanation = *explanation;
  return out;
}

// The root of the mean square of the difference over that of the values.
inline double Relative(const std::vector<float>& exact, const std::vector<float>& reduced) {
  EXPECT_EQ(exact.size(), reduced.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(exact.size(), reduced.size()); ++i)
    difference += std::pow(exact[i] - reduced[i], 2), size += std::pow(exact[i], 2);
  return std::sqrt(difference / size);
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_REDUCED_PRECISION_H_
