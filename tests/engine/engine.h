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
