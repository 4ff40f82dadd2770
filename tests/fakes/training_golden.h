// SPDX-License-Identifier: Apache-2.0
// What TensorFlow computes where sdk/app/train makes graphs of its own (tests/golden/training.json), and values beside
// it.
#ifndef TENON_TESTS_FAKES_TRAINING_GOLDEN_H_
#define TENON_TESTS_FAKES_TRAINING_GOLDEN_H_

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fakes/counting_model.h"

namespace tenon::train {

inline const nlohmann::json& TrainingGolden(const std::string& part) {
  static const auto* const golden = new nlohmann::json(
      nlohmann::json::parse(std::ifstream(std::string(TENON_TEST_SOURCE_DIR) + "/tests/golden/training.json")));
  return golden->at(part);
}

inline float GoldenNumber(const nlohmann::json& number) {
  return number.is_string() ? std::strtof(number.get<std::string>().c_str(), nullptr) : number.get<float>();
}
inline std::vector<float> GoldenValues(const nlohmann::json& tensor) {
  std::vector<float> values;
  for (const auto& value : tensor.at("values")) values.push_back(GoldenNumber(value));
  return values;
}
inline Shape GoldenShape(const nlohmann::json& tensor) { return Shape(tensor.at("shape").get<std::vector<int64_t>>()); }
inline Tensor GoldenTensor(const nlohmann::json& tensor) {
  return *Tensor::From(GoldenValues(tensor), GoldenShape(tensor));
}
inline Output GoldenConst(Graph& graph, const nlohmann::json& tensor) {
  return graph.Const(GoldenValues(tensor), GoldenShape(tensor));
}

// Equal but for rounding; infinite and no numbers alike.
inline void ExpectNear(const std::vector<float>& found, const std::vector<float>& wanted, const std::string& where,
                       float tolerance = 2e-6f) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isfinite(wanted[i])) {
      EXPECT_NEAR(found[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << where << "[" << i << "]";
    } else {
      EXPECT_EQ(std::to_string(std::abs(found[i])), std::to_string(std::abs(wanted[i]))) << where << "[" << i << "]";
    }
  }
}

// A session of the graph in which the node ran.
inline Session SessionOf(const Graph& graph, const std::vector<Name>& first) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  Session session = NewSession();
  Status status = session.Extend(graph);
  EXPECT_TRUE(status.ok()) << status;
  if (!first.empty()) status = session.RunTargets(first);
  EXPECT_TRUE(status.ok()) << status;
  return session;
}

// The variable with another first value.
inline Operation AssignNode(Graph& graph, const Variable& variable, const std::vector<float>& values) {
  return graph.AddNode("AssignVariableOp", {variable.handle, graph.Const(values, variable.shape)},
                       {{"dtype", variable.dtype}});
}

}  // namespace tenon::train

#endif  // TENON_TESTS_FAKES_TRAINING_GOLDEN_H_
