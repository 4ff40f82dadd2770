// SPDX-License-Identifier: Apache-2.0
// Reductions of the first dims without an engine: memory of exactly the size that is asked for, threads that share
// pieces, and every way of going over rows: wide ones, rows behind them, pieces of long ones, with inputs of one
// element for each row, and with sums of rows. Numbers are small integers, whose sums are exact; the kernels' bits are
// tests/engine's to ask for.
#include "reduce/reduce_columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tenon/testing/tensor.h"
#include "testing/generator_testing.h"

namespace tenon::cpu_codegen::reduce_columns_test {
namespace {

struct FreeIt {
  void operator()(void* memory) const { std::free(memory); }
};
template <class T>
using Memory = std::unique_ptr<T[], FreeIt>;
template <class T>
Memory<T> Of(int64_t count) {
  return Memory<T>(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64)));
}

struct Reduced {
  std::vector<float> elements, columns;
};
// outputs: of the shape, then of columns.
Reduced RunIt(const Executable& executable, const std::vector<std::vector<float>>& inputs,
              const std::vector<std::vector<int64_t>>& shapes, int64_t rows, int64_t columns) {
  static const tenon_frame_services services = ServicesOf(InThreads);
  std::vector<std::unique_ptr<float[]>> memory;  // of the very size
  std::vector<tenon_tensor_view> views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    memory.push_back(std::make_unique<float[]>(inputs[i].size()));
    std::copy(inputs[i].begin(), inputs[i].end(), memory.back().get());
    views.push_back(testing::ViewOf(TENON_DT_FLOAT, shapes[i], memory.back().get()));
  }
  Reduced run{std::vector<float>(static_cast<size_t>(rows * columns)),
              std::vector<float>(static_cast<size_t>(columns))};
  const auto elements = std::make_unique<float[]>(run.elements.size()),
             sums = std::make_unique<float[]>(run.columns.size());
  const std::vector<int64_t> all = {rows, columns}, last = {columns};
  tenon_tensor_view outputs[] = {testing::ViewOf(TENON_DT_FLOAT, all, elements.get()),
                                 testing::ViewOf(TENON_DT_FLOAT, last, sums.get())};
  std::vector<const tenon_tensor_view*> in;
  for (const tenon_tensor_view& view : views) in.push_back(&view);
  tenon_tensor_view* const out[] = {&outputs[0], &outputs[1]};
  const auto workspace = Of<char>(static_cast<int64_t>(executable.workspace_bytes));
  tenon_frame frame = {};
  frame.inputs = in.data();
  frame.outputs = out;
  frame.input_count = static_cast<int32_t>(in.size());
  frame.output_count = 2;
  frame.workspace = workspace.get();
  frame.workspace_bytes = executable.workspace_bytes;
  frame.services = &services;
  executable.Run(frame);
  std::copy_n(elements.get(), run.elements.size(), run.elements.begin());
  std::copy_n(sums.get(), run.columns.size(), run.columns.begin());
  return run;
}

std::vector<float> Numbers(int64_t count, int64_t step) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i * step % 13 - 6));
  return numbers;
}

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{2, 2},    {64, 17},   {65, 100},  {3, 3001}, {200, 2048}, {3000, 5},
                           {5001, 2}, {70000, 3}, {1300, 64}, {40, 10},  {33, 16},    {2000, 33}};

// x times one number for each row; columns add it up.
TEST(Columns, AreReducedBesideElements) {
  for (const Level level : Levels())
    for (const auto [rows, columns] : kSizes)
      for (const bool is_flat : {true, false}) {
        Region region;
        region.shape = {rows, columns};
        region.shapes = {region.shape, is_flat ? std::vector<int64_t>{} : std::vector<int64_t>{rows, 1}};
        region.sources = {0, 1};
        region.leading = 1;
        region.columns = {1};
        region.of_row = {false, false};
        region.program = {level,
                          false,
                          {{TENON_DT_FLOAT}, {TENON_DT_FLOAT}},
                          {{Function::kMul, TENON_DT_FLOAT, {0, 1}}, {Function::kSum, TENON_DT_FLOAT, {2}}},
                          {2, 3}};
        const auto shapes = region.shapes;
        const std::vector<float> x = Numbers(rows * columns, 7), factors = Numbers(is_flat ? 1 : rows, 5);
        const Reduced run = RunIt(*ColumnExecutable::Make(std::move(region)), {x, factors}, shapes, rows, columns);
        std::vector<float> right(static_cast<size_t>(columns), 0.f);
        for (int64_t i = 0; i < rows * columns; ++i) {
          const float value = x[static_cast<size_t>(i)] * factors[static_cast<size_t>(is_flat ? 0 : i / columns)];
          ASSERT_EQ(run.elements[static_cast<size_t>(i)], value) << rows << " x " << columns;
          right[static_cast<size_t>(i % columns)] += value;
        }
        ASSERT_EQ(run.columns, right) << rows << " x " << columns << (is_flat ? ", flat" : "");
      }
}

// The largest of a row is taken from the row, and columns of that are added up.
TEST(Columns, AreReducedBesideRows) {
  for (const Level level : Levels())
    for (const auto [rows, columns] : kSizes) {
      if (columns < 16) continue;
      Region region;
      region.shape = {rows, columns};
      region.shapes = {region.shape};
      region.sources = {0};
      region.leading = region.reduced = 1;
      region.columns = {2};
      region.of_row = {true, false, false};
      region.program = {level,
                        false,
                        {{TENON_DT_FLOAT}},
                        {{Function::kMax, TENON_DT_FLOAT, {0}},
                         {Function::kSub, TENON_DT_FLOAT, {0, 1}},
                         {Function::kMin, TENON_DT_FLOAT, {2}}},
                        {2, 3}};
      const std::vector<float> x = Numbers(rows * columns, 7);
      const Reduced run = RunIt(*ColumnExecutable::Make(std::move(region)), {x}, {{rows, columns}}, rows, columns);
      std::vector<float> right(static_cast<size_t>(columns), 1.f);
      float largest = 0;
      for (int64_t i = 0; i < rows * columns; ++i) {
        if (i % columns == 0) largest = *std::max_element(x.begin() + i, x.begin() + i + columns);
        const float value = x[static_cast<size_t>(i)] - largest;
        ASSERT_EQ(run.elements[static_cast<size_t>(i)], value) << rows << " x " << columns;
        right[static_cast<size_t>(i % columns)] = std::min(right[static_cast<size_t>(i % columns)], value);
      }
      ASSERT_EQ(run.columns, right) << rows << " x " << columns;
    }
}

}  // namespace
}  // namespace tenon::cpu_codegen::reduce_columns_test
