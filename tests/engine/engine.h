// SPDX-License-Identifier: Apache-2.0
// What tests of the engine share: one runtime with the build's plugins, and values as vectors.
#ifndef TENON_TESTS_ENGINE_ENGINE_H_
#define TENON_TESTS_ENGINE_ENGINE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::engine {

using namespace host;  // NOLINT: tests of the face

inline Runtime& TheRuntime() {
  static Runtime* const runtime = [] {
    auto made = Runtime::Create();
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  const tenon_tensor_view& view = *tenon_tensor_get_view(tensor.get());
  const T* data = static_cast<const T*>(view.dl.data);
  return {data, data + view.byte_size / sizeof(T)};
}

// Elements as doubles, of the types that tests calculate with: float, double, int32, int64, bool.
inline Tensor TensorOf(DType dtype, const Shape& shape, const std::vector<double>& values) {
  const auto as = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> converted;
    for (double value : values) converted.push_back(static_cast<T>(value));
    return *Tensor::FromBytes(dtype, shape, converted.data(), converted.size() * sizeof(T));
  };
  if (dtype == DType::kFloat) return as(0.0f);
  if (dtype == DType::kInt32) return as(int32_t{0});
  if (dtype == DType::kInt64) return as(int64_t{0});
  if (dtype == DType::kBool) return as(uint8_t{0});
  return as(0.0);
}

inline std::vector<double> DoublesOf(const Tensor& tensor) {
  const auto as = [&](auto zero) {
    const auto values = Values<decltype(zero)>(tensor);
    return std::vector<double>(values.begin(), values.end());
  };
  if (tensor.dtype() == DType::kFloat) return as(0.0f);
  if (tensor.dtype() == DType::kInt32) return as(int32_t{0});
  if (tensor.dtype() == DType::kInt64) return as(int64_t{0});
  if (tensor.dtype() == DType::kBool) return as(uint8_t{0});
  return as(0.0);
}

// Runs in a fresh session and gives the fetches; failures are test failures.
inline std::vector<Tensor> RunOnce(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                                   const SessionOptions& options = {}, const std::vector<Name>& targets = {}) {
  auto session = Session::Create(TheRuntime(), graph, options);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    return {};
  }
  auto values = session->Run(feeds, fetches, targets);
  if (!values.ok()) {
    ADD_FAILURE() << values.status().message();
    return {};
  }
  return std::move(*values);
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_ENGINE_H_
