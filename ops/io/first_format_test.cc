// SPDX-License-Identifier: Apache-2.0
// Checkpoints of the first format: TensorFlow's are read, what is saved comes back, and what is damaged or lies is said
// to be so. Covers B6.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoints_for_test.h"

namespace tenon::ops {
extern const tenon_kernel_registration kSaveKernel, kSaveSlicesKernel, kRestoreKernel, kRestoreSliceKernel;
}  // namespace tenon::ops

namespace tenon::ops::first_format_test {
namespace {

Outcome SaveFirst(const std::string& path, const Named& tensors, std::vector<std::string> specs = {}) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  const bool slices = !specs.empty();
  const Tensor p = testing::Strings({}, {path}), n = Strings(names), s = Strings(specs);
  std::vector<const Tensor*> inputs = {&p, &n};
  if (slices) inputs.push_back(&s);
  for (const auto& [name, tensor] : tensors) inputs.push_back(&tensor);
  return KernelRunner().Run(slices ? kSaveSlicesKernel : kSaveKernel, {}, inputs);
}

struct One {
  Outcome outcome;
  std::vector<Tensor> tensors;
};
One RestoreFirst(const std::string& pattern, const std::string& name, uint32_t dtype, const char* spec = nullptr) {
  const Tensor p = testing::Strings({}, {pattern}), n = testing::Strings({}, {name}),
               s = testing::Strings({}, {spec == nullptr ? "" : spec});
  std::vector<const Tensor*> inputs = {&p, &n};
  if (spec != nullptr) inputs.push_back(&s);
  KernelRunner step;
  const Node node = {"", {{"dt", testing::Type{dtype}}, {"preferred_shard", int64_t{-1}}}, {}, {dtype}};
  Outcome outcome = step.Run(spec != nullptr ? kRestoreSliceKernel : kRestoreKernel, node, inputs);
  return {std::move(outcome), std::move(step.outputs)};
}

// "" when every tensor comes back, by Restore and by RestoreV2.
std::string FirstDifference(const std::string& path, const Named& want) {
  for (const auto& [name, tensor] : want) {
    const One got = RestoreFirst(path, name, tensor.dtype);
    if (!got.outcome.ok()) return got.outcome.message;
    if (got.tensors[0].dims != tensor.dims || BytesOf(got.tensors[0]) != BytesOf(tensor)) return name + " differs";
  }
  return Difference(path, want);
}

class FirstFormat : public ::testing::Test {
 protected:
  MemoryFiles disk;
  testing::UseFiles use{&disk};
};

Named Few() {
  Named out;
  out.emplace_back("a", Vector<float>(TENON_DT_FLOAT, {1, 2}));
  out.emplace_back("n", Vector<int64_t>(TENON_DT_INT64, {-1, 300}));
  out.emplace_back("s", Strings({"text", ""}));
  return out;
}

TEST_F(FirstFormat, GivesBackWhatWasSaved) {
  ASSERT_TRUE(SaveFirst("folder/below/model", GoldenTensors()).ok());
  EXPECT_EQ(FirstDifference("folder/below/model", GoldenTensors()), "");
  EXPECT_EQ(disk.files.size(), 1u);
}

TEST_F(FirstFormat, OfTensorFlowIsRead) {
  disk.files["golden.first"] = ReadSource("ops/io/testdata/golden.first");
  Named tensors = GoldenTensors();
  std::erase_if(tensors, [](const auto& each) { return each.first == "bfloat16"; });
  EXPECT_EQ(FirstDifference("golden.first", tensors), "");
  const One row = RestoreFirst("golden.first", "matrix", TENON_DT_FLOAT, "2 3 1,1:1,2");
  ASSERT_TRUE(row.outcome.ok()) << row.outcome.message;
  EXPECT_EQ(testing::Values<float>(row.tensors[0]), (std::vector<float>{1, 1.25}));
}

TEST_F(FirstFormat, ManyBlocksAndLargeValues) {
  Named many;
  for (int i = 0; i < 40; ++i)
    many.emplace_back("layer/" + std::to_string(i),
                      Make<float>({30000}, std::vector<float>(30000, static_cast<float>(i))));
  many.emplace_back("long", testing::Strings({}, {std::string(700000, 'x')}));
  ASSERT_TRUE(SaveFirst("m", many).ok());
  EXPECT_EQ(FirstDifference("m", many), "");
}

TEST_F(FirstFormat, SlicesOfSeveralFilesMakeATensor) {
  Named upper, lower;
  upper.emplace_back("w", Make<float>({1, 2}, {1, 2}));
  lower.emplace_back("w", Make<float>({2, 2}, {3, 4, 5, 6}));
  ASSERT_TRUE(SaveFirst("d/m-0", upper, {"3 2 0,1:-"}).ok());
  ASSERT_TRUE(SaveFirst("d/m-1", lower, {"3 2 1,2:-"}).ok());
  const One whole = RestoreFirst("d/m-?", "w", TENON_DT_FLOAT);
  ASSERT_TRUE(whole.outcome.ok()) << whole.outcome.message;
  EXPECT_EQ(testing::Values<float>(whole.tensors[0]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(RestoreFirst("d/m-0", "w", TENON_DT_FLOAT).outcome.message.find("2 of 6 elements are stored"),
            std::string::npos);
  EXPECT_TRUE(RestoreFirst("d/m-0", "w", TENON_DT_FLOAT, "3 2 0,1:-").outcome.ok());
}

TEST_F(FirstFormat, WhatDoesNotFitIsRefusedAndLosesNothing) {
  ASSERT_TRUE(SaveFirst("m", Few()).ok());
  const std::string before = disk.files["m"];
  Named twice;
  twice.emplace_back("a", Make<float>({2, 2}, {1, 2, 3, 4}));
  twice.emplace_back("a", Make<float>({1, 2}, {1, 2}));
  EXPECT_EQ(SaveFirst("m", twice, {"3 2 0,2:-", "3 2 1,1:-"}).code, TENON_INVALID_ARGUMENT);  // they overlap
  EXPECT_EQ(SaveFirst("m", twice).code, TENON_INVALID_ARGUMENT);
  Named variants;
  variants.emplace_back("v", Make<uint64_t>({}, {0}, TENON_DT_VARIANT));
  EXPECT_EQ(SaveFirst("m", variants).code, TENON_UNIMPLEMENTED);
  EXPECT_EQ(disk.files["m"], before);
  EXPECT_EQ(disk.files.size(), 1u);
  EXPECT_EQ(RestoreFirst("m", "b", TENON_DT_FLOAT).outcome.code, TENON_NOT_FOUND);
  EXPECT_EQ(RestoreFirst("other", "a", TENON_DT_FLOAT).outcome.code, TENON_NOT_FOUND);
  EXPECT_EQ(RestoreFirst("m", "a", TENON_DT_INT32).outcome.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(RestoreFirst("m", "a", TENON_DT_FLOAT, "3 0,1").outcome.code, TENON_INVALID_ARGUMENT);
}

TEST_F(FirstFormat, WithAnyBitFlippedIsAnErrorOrUnharmed) {
  ASSERT_TRUE(SaveFirst("m", Few()).ok());
  std::string& bytes = disk.files["m"];
  size_t errors = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = [&] { bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8)); };
    flip();
    const One got = RestoreFirst("m", "n", TENON_DT_INT64);
    if (!got.outcome.ok()) ++errors;
    else EXPECT_EQ(testing::Values<int64_t>(got.tensors[0]), (std::vector<int64_t>{-1, 300})) << "bit " << bit;
    flip();
  }
  EXPECT_GT(errors, 4 * bytes.size());
}

TEST_F(FirstFormat, CutAnywhereIsAnError) {
  ASSERT_TRUE(SaveFirst("m", Few()).ok());
  const std::string whole = disk.files["m"];
  for (size_t length = 0; length < whole.size(); ++length) {
    disk.files["m"] = whole.substr(0, length);
    EXPECT_EQ(RestoreFirst("m", "n", TENON_DT_INT64).outcome.code, TENON_DATA_LOSS) << length;
  }
}

}  // namespace
}  // namespace tenon::ops::first_format_test
