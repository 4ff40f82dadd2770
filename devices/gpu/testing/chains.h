// SPDX-License-Identifier: Apache-2.0
// Sources of chains for tests of the vendors' compilers: every function on every type that it has, and inputs spread in
// every way.
#ifndef TENON_DEVICES_GPU_TESTING_CHAINS_H_
#define TENON_DEVICES_GPU_TESTING_CHAINS_H_

#include <string>
#include <utility>
#include <vector>

#include "code/elementwise.h"
#include "fuse/row_source.h"
#include "fuse/source.h"
#include "tenon/dtype.h"

namespace tenon::gpu {

// One source for each type: all functions of that type in one kernel would be too many inputs, so each reads the same
// two.
inline std::vector<std::string> SourcesOfAllFunctions() {
#define TENON_GPU_NAME(name) #name,
  static constexpr std::string_view kUnary[] = {TENON_GPU_UNARY_OF_NUMBERS(TENON_GPU_NAME)};
  static constexpr std::string_view kUnaryFloats[] = {TENON_GPU_UNARY_OF_FLOATS(TENON_GPU_NAME)};
  static constexpr std::string_view kQuestions[] = {TENON_GPU_UNARY_QUESTIONS(TENON_GPU_NAME)};
  static constexpr std::string_view kBinary[] = {TENON_GPU_BINARY_OF_NUMBERS(TENON_GPU_NAME)};
  static constexpr std::string_view kBinaryFloats[] = {TENON_GPU_BINARY_OF_FLOATS(TENON_GPU_NAME)
                                                           TENON_GPU_BINARY_THAT_MAY_FAIL(TENON_GPU_NAME)};
  static constexpr std::string_view kCompare[] = {TENON_GPU_BINARY_QUESTIONS(TENON_GPU_NAME)
                                                      TENON_GPU_BINARY_EQUALITIES(TENON_GPU_NAME)};
#undef TENON_GPU_NAME
  std::vector<std::string> sources;
  for (uint32_t dtype :
       {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32, TENON_DT_INT64}) {
    const bool floating = dtype != TENON_DT_INT32 && dtype != TENON_DT_INT64;
    FusedKernel kernel;
    kernel.inputs = {
        {dtype, FusedInput::kEven}, {dtype, FusedInput::kStrided, 1, {0, 12}}, {dtype, FusedInput::kSingle}};
    kernel.inner = 12;
    kernel.dims = {3, 5};
    const auto add = [&](std::string_view function, std::vector<int> operands, uint32_t result) {
      kernel.nodes.push_back({function, std::move(operands), result, 0.3f});
      kernel.outputs = {static_cast<int>(kernel.nodes.size()) - 1};
    };
    for (std::string_view name : kUnary) add(name, {-1}, dtype);
    for (std::string_view name : kBinary) add(name, {-1, -2}, dtype);
    for (std::string_view name : kCompare) add(name, {-3, -2}, TENON_DT_BOOL);
    const int answer = static_cast<int>(kernel.nodes.size()) - 1;
    add("Select", {answer, -1, -2}, dtype);
    kernel.nodes.push_back({"And", {answer, answer}, TENON_DT_BOOL, 0});
    for (uint32_t to : {TENON_DT_FLOAT, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32, TENON_DT_BOOL})
      add("Cast", {-1}, to);
    if (floating) {
      for (std::string_view name : kUnaryFloats) add(name, {-1}, dtype);
      for (std::string_view name : kQuestions) add(name, {-1}, TENON_DT_BOOL);
      for (std::string_view name : kBinaryFloats) add(name, {-1, -2}, dtype);
    }
    // Everything is an output somewhere, or the compiler leaves it out before it looks at it.
    const FusedKernel all = kernel;
    for (size_t first = 0; first < all.nodes.size(); first += 8) {
      kernel.outputs.clear();
      for (size_t i = first; i < std::min(first + 8, all.nodes.size()); ++i)
        kernel.outputs.push_back(static_cast<int>(i));
      if (first == 0 || first + 8 >= all.nodes.size()) sources.push_back(SourceOf(kernel));
    }
  }
  return sources;
}

// Normalisations of layers with a residual before them: rows of a warp and of a block, that are held and that are not,
// of every type.
inline RowKernel NormalisationOf(uint32_t dtype, int64_t width, uint32_t lanes) {
  RowKernel kernel;
  kernel.width = width;
  kernel.dims = {4, 6};
  kernel.lanes = lanes;
  // x, residual, gamma, one for each row, epsilon.
  kernel.inputs = {{dtype, FusedInput::kEven, 1, {6 * width, width}},
                   {dtype, FusedInput::kStrided, 1, {0, width}},
                   {dtype, FusedInput::kStrided, 1, {0, 0}},
                   {dtype, FusedInput::kStrided, 0, {6, 1}},
                   {dtype, FusedInput::kSingle}};
  const auto add = [&](std::string_view function, std::vector<int> operands, RowNode::Kind kind) {
    kernel.nodes.push_back({{function, std::move(operands), dtype, 0}, kind});
    return static_cast<int>(kernel.nodes.size()) - 1;
  };
  const int in = add("Add", {-1, -2}, RowNode::kElements), mean = add("", {in}, RowNode::kMean);
  const int square = add("SquaredDifference", {in, mean}, RowNode::kElements),
            variance = add("", {square}, RowNode::kMean), sum = add("", {in}, RowNode::kSum);
  const int inverse = add("Rsqrt", {add("Add", {variance, -5}, RowNode::kOne)}, RowNode::kOne);
  const int factor = add("Mul", {inverse, -3}, RowNode::kElements),
            shift = add("Mul", {mean, factor}, RowNode::kElements);
  const int y = add("Add", {add("Mul", {in, factor}, RowNode::kElements), add("Sub", {-4, shift}, RowNode::kElements)},
                    RowNode::kElements);
  const int most = add("", {y}, RowNode::kMost), end = add("Sub", {y, most}, RowNode::kElements);
  kernel.outputs = {end, inverse, sum};
  return kernel;
}
inline std::vector<std::string> SourcesOfRows() {
  std::vector<std::string> sources;
  for (uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16}) {
    for (const auto& [width, lanes] :
         {std::pair<int64_t, uint32_t>{10, 4}, {768, 32}, {1021, 32}, {4096, 256}, {16384, 256}}) {
      sources.push_back(SourceOf(NormalisationOf(dtype, width, lanes)));
    }
  }
  RowKernel wide = NormalisationOf(TENON_DT_FLOAT, 768, 32);
  wide.wide = true;
  sources.push_back(SourceOf(wide));
  return sources;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_TESTING_CHAINS_H_
