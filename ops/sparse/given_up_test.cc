// SPDX-License-Identifier: Apache-2.0
// What sorts asks whether its step was given up, and ends when it was.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/library.h"

namespace tenon::ops::given_up_test {
namespace {

using testing::KernelCase;
using testing::Make;
using testing::Out;
using testing::Result;
using testing::Scalar;
using testing::Tensor;
using testing::Vector;

const tenon_kernel_package& Package() {
  static const testing::Library library(TENON_TEST_SPARSE);
  static const testing::Loaded loaded(library);
  return *library.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS);
}

constexpr int64_t kCount = 400'000;

Tensor Random(testing::Dimensions dims) {
  std::mt19937 random(3);
  std::vector<int64_t> values(static_cast<size_t>(kCount));
  for (int64_t& value : values) value = random() % kCount;
  return Make<int64_t>(std::move(dims), values);
}
Tensor Places() {
  std::mt19937 random(5);
  std::vector<int64_t> values(static_cast<size_t>(2 * kCount));
  for (size_t i = 0; i < values.size(); i += 2) {
    values[i] = random() % 1000;
    values[i + 1] = random() % kCount;
  }
  return Make<int64_t>({kCount, 2}, values);
}

struct Long {
  const char* name;
  std::function<Result(const std::function<bool()>&)> run;  // whose kernel is told so, when it asks
};
void PrintTo(const Long& c, std::ostream* out) { *out << c.name; }

class GivenUp : public ::testing::TestWithParam<Long> {
 public:
  std::pair<uint32_t, int64_t> RunUntil(int64_t last) {
    int64_t asks = 0;
    const Result result = GetParam().run([&] { return ++asks >= last; });
    if (last == std::numeric_limits<int64_t>::max()) {
      EXPECT_EQ(result.text(), "");
    }
    return {result.code, asks};
  }
};

TEST_P(GivenUp, EndsInTheMiddle) {
  const auto [whole, asks] = RunUntil(std::numeric_limits<int64_t>::max());
  EXPECT_GE(asks, 20);  // some 15 million comparisons of 20 ns
  EXPECT_EQ(RunUntil(asks / 2), std::pair(static_cast<uint32_t>(TENON_CANCELLED), asks / 2));
}

const Tensor kShape = Vector<int64_t>({1000, kCount});

INSTANTIATE_TEST_SUITE_P(
    Kernels, GivenUp,
    ::testing::ValuesIn(std::vector<Long>{
        {"DenseToDenseSetOperation",
         [](const auto& asked) {
           KernelCase kernel(Package(), "DenseToDenseSetOperation");
           kernel.Attr("set_operation", std::string("union")).Attr("validate_indices", true).GivenUpWhen(asked);
           return kernel.Run({Random({1, kCount}), Random({1, kCount})},
                             {Out<int64_t>(), Out<int64_t>(), Out<int64_t>()});
         }},
        {"SetSize",
         [](const auto& asked) {
           KernelCase kernel(Package(), "SetSize");
           return kernel.Attr("validate_indices", false)
               .GivenUpWhen(asked)
               .Run({Places(), Random({kCount}), kShape}, {Out<int32_t>()});
         }},
        {"SparseReorder",
         [](const auto& asked) {
           return KernelCase(Package(), "SparseReorder")
               .GivenUpWhen(asked)
               .Run({Places(), Random({kCount}), kShape}, {Out<int64_t>(), Out<int64_t>()});
         }},
        {"SparseCountSparseOutput",
         [](const auto& asked) {
           KernelCase kernel(Package(), "SparseCountSparseOutput");
           kernel.Attr("minlength", int64_t{-1})
               .Attr("maxlength", int64_t{-1})
               .Attr("binary_output", false)
               .GivenUpWhen(asked);
           return kernel.Run({Places(), Random({kCount}), kShape, Make<float>({0}, {})},
                             {Out<int64_t>(), Out<float>(), Out<int64_t>()});
         }},
    }),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon::ops::given_up_test
