// SPDX-License-Identifier: Apache-2.0
// For tests: checkpoints through the kernels, and the tensors of testdata/make_golden.py.
#ifndef TENON_OPS_IO_CHECKPOINTS_FOR_TEST_H_
#define TENON_OPS_IO_CHECKPOINTS_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tenon/sdk/number.h"
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tenon/testing/memory_files.h"

namespace tenon::ops {

extern const tenon_kernel_registration kSaveV2Kernel, kRestoreV2Kernel;

using testing::KernelRunner;
using testing::Make;
using testing::MemoryFiles;
using testing::Node;
using testing::Outcome;
using testing::Tensor;
using testing::Texts;

using Named = std::vector<std::pair<std::string, Tensor>>;

inline Tensor Strings(const std::vector<std::string>& values) {
  return testing::Strings({static_cast<int64_t>(values.size())}, values);
}

inline Outcome Save(const std::string& prefix, const Named& tensors, std::vector<std::string> specs = {}) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  specs.resize(names.size());
  const Tensor p = testing::Strings({}, {prefix}), n = Strings(names), s = Strings(specs);
  std::vector<const Tensor*> inputs = {&p, &n, &s};
  for (const auto& [name, tensor] : tensors) inputs.push_back(&tensor);
  return KernelRunner().Run(kSaveV2Kernel, {}, inputs);
}

struct Restored {
  Outcome outcome;
  std::vector<Tensor> tensors;
};
inline Restored Restore(const std::string& prefix, const std::vector<std::string>& names, std::vector<uint32_t> dtypes,
                 std::vector<std::string> specs = {}) {
  specs.resize(names.size());
  const Tensor p = testing::Strings({}, {prefix}), n = Strings(names), s = Strings(specs);
  KernelRunner step;
  Outcome outcome = step.Run(kRestoreV2Kernel, {"", {}, {}, std::move(dtypes)}, {&p, &n, &s});
  return {std::move(outcome), std::move(step.outputs)};
}

inline std::string BytesOf(const Tensor& tensor) {
  if (tensor.dtype != TENON_DT_STRING) {
    uint64_t bytes = sdk::ElementSize(tensor.dtype);
    for (int64_t dim : tensor.dims) bytes *= static_cast<uint64_t>(dim);
    return std::string(static_cast<const char*>(tensor.view().dl.data), bytes);
  }
  std::string out;
  for (const std::string& text : Texts(tensor)) out += std::to_string(text.size()) + ":" + text;
  return out;
}

// Restores all tensors by name and compares; "" when all are equal, else what is wrong.
inline std::string Difference(const std::string& prefix, const Named& want) {
  std::vector<std::string> names;
  std::vector<uint32_t> dtypes;
  for (const auto& [name, tensor] : want) {
    names.push_back(name);
    dtypes.push_back(tensor.dtype);
  }
  const Restored got = Restore(prefix, names, dtypes);
  if (!got.outcome.ok()) return got.outcome.message;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto& [name, tensor] = want[i];
    if (got.tensors[i].dims != tensor.dims) return name + " has another shape";
    if (BytesOf(got.tensors[i]) != BytesOf(tensor)) return name + " has other elements";
  }
  return "";
}

template <class T>
inline Tensor Vector(uint32_t dtype, const std::vector<T>& values) {
  return Make<T>({static_cast<int64_t>(values.size())}, values, dtype);
}

// The tensors of testdata/make_golden.py, in its order.
inline Named GoldenTensors() {
  Named out;
  out.emplace_back("scalar/int64", Make<int64_t>({}, {-7}));
  out.emplace_back("matrix", Make<float>({2, 3}, {0, 0.25, 0.5, 0.75, 1, 1.25}));
  out.emplace_back("empty", Make<double>({0, 4}, {}));
  out.emplace_back("strings", testing::Strings({2, 2}, {"", "one", std::string("\0\xff bytes", 8),
                                                       "gr\xc3\xbc\xc3\x9f"
                                                       "e"}));
  out.emplace_back("string", testing::Strings({}, {std::string(300, 'x')}));
  out.emplace_back("half", Vector<uint16_t>(TENON_DT_HALF, {sdk::ToHalf(1.5f), sdk::ToHalf(-2), sdk::ToHalf(65504)}));
  out.emplace_back("bfloat16", Vector<uint16_t>(TENON_DT_BFLOAT16, {sdk::ToBfloat16(1.5f), sdk::ToBfloat16(-2)}));
  out.emplace_back("complex", Make<float>({1}, {1, 2}, TENON_DT_COMPLEX64));
  out.emplace_back("bool", Vector<uint8_t>(TENON_DT_BOOL, {1, 0, 1}));
  out.emplace_back("int8", Vector<int8_t>(TENON_DT_INT8, {-128, 127}));
  out.emplace_back("uint16", Vector<uint16_t>(TENON_DT_UINT16, {65535}));
  for (int i = 0; i < 20; ++i) {
    char name[64];
    std::snprintf(name, sizeof(name), "layer/block_%02d/kernel", i);
    out.emplace_back(name,
                     Make<float>({i % 3, 2},
                                       std::vector<float>(static_cast<size_t>(i % 3 * 2), static_cast<float>(i))));
  }
  return out;
}

inline std::string ReadSource(const std::string& path) {
  std::ifstream file(std::string(TENON_TEST_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace tenon::ops

#endif  // TENON_OPS_IO_CHECKPOINTS_FOR_TEST_H_
