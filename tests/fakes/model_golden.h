// SPDX-License-Identifier: Apache-2.0
// The SavedModels of tests/golden/models, and what TensorFlow computes with each (models.json): for tests of every way
// to load them.
#ifndef TENON_TESTS_FAKES_MODEL_GOLDEN_H_
#define TENON_TESTS_FAKES_MODEL_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::fakes {

inline const nlohmann::json& ModelGoldens() {
  static const auto* const goldens = new nlohmann::json(
      nlohmann::json::parse(std::ifstream(std::string(TENON_TEST_SOURCE_DIR) + "/tests/golden/models/models.json")));
  return *goldens;
}

inline std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : ModelGoldens().items()) names.push_back(name);
  return names;
}

// name: "float32" as NumPy has it; use(zero of the C++ type).
template <typename Use>
auto WithGoldenType(const std::string& name, Use use) {
  if (name == "int32") return use(int32_t{});
  if (name == "int64") return use(int64_t{});
  if (name == "uint8") return use(uint8_t{});
  EXPECT_EQ(name, "float32") << "a type that this does not read";
  return use(float{});
}

inline host::Tensor TensorOf(const nlohmann::json& golden) {
  const host::Shape shape(golden["shape"].get<std::vector<int64_t>>());
  if (golden["dtype"] == "string") {
    const auto texts = golden["values"].get<std::vector<std::string>>();
    return *host::Tensor::Strings(std::span<const std::string>(texts), shape);
  }
  if (golden["dtype"] == "bool") {
    const auto values = golden["values"].get<std::vector<bool>>();
    const auto plain = std::make_unique<bool[]>(values.size());
    std::copy(values.begin(), values.end(), plain.get());
    return *host::Tensor::From(std::span<const bool>(plain.get(), values.size()), shape);
  }
  return WithGoldenType(golden["dtype"], [&](auto zero) {
    const auto values = golden["values"].get<std::vector<decltype(zero)>>();
    return *host::Tensor::From(std::span<const decltype(zero)>(values), shape);
  });
}

// Equal but for float32's rounding.
inline void ExpectGolden(const host::Tensor& tensor, const nlohmann::json& golden, const std::string& where) {
  const host::Tensor wanted = TensorOf(golden);
  ASSERT_EQ(tensor.dtype(), wanted.dtype()) << where;
  ASSERT_EQ(tensor.shape().dims(), wanted.shape().dims()) << where;
  for (uint64_t i = 0; golden["dtype"] == "string" && i < static_cast<uint64_t>(wanted.element_count()); ++i)
    EXPECT_EQ(tensor.string(i), wanted.string(i)) << where << "[" << i << "]";
  if (golden["dtype"] == "string") return;
  if (golden["dtype"] == "bool") {
    const auto found = tensor.data<bool>(), right = wanted.data<bool>();
    for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(found[i], right[i]) << where << "[" << i << "]";
    return;
  }
  WithGoldenType(golden["dtype"], [&](auto zero) {
    const auto found = tensor.data<decltype(zero)>(), right = wanted.data<decltype(zero)>();
    for (int64_t i = 0; i < wanted.element_count(); ++i)
      EXPECT_NEAR(static_cast<double>(found[i]), static_cast<double>(right[i]),
                  1e-5 * (1 + std::abs(static_cast<double>(right[i]))))
          << where << "[" << i << "]";
  });
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_MODEL_GOLDEN_H_
