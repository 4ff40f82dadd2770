// SPDX-License-Identifier: Apache-2.0
// Parts before chains and concatenations behind them without an engine: rows between pages that nobody may touch, of
// every alignment, length and number; threads that share pieces; indices that name no row; and where parts lie.
#include "region/edge_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "code/code.h"
#include "reduce/reduce_rows.h"
#include "run/elements.h"
#include "tenon/testing/tensor.h"
#include "testing/generator_testing.h"

namespace tenon::cpu_codegen::edge_moves_test {
namespace {

// ---- Code ----

// x + y, where rows of x are anywhere, and rows of the result apart.
void AddRows(Level level, const Kind& kind, int inputs, int64_t count) {
  Program program{level, false, {}, {}, {}};
  for (int i = 0; i < inputs; ++i) program.inputs.push_back({.dtype = kind.dtype, .is_listed = i % 2 == 0});
  const Function function = kind.dtype == TENON_DT_BOOL ? Function::kOr : Function::kAdd;
  for (int i = 1; i < inputs; ++i) program.nodes.push_back({function, kind.dtype, {i == 1 ? 0 : inputs + i - 2, i}});
  program.outputs = {inputs + static_cast<int>(program.nodes.size()) - 1};
  const std::shared_ptr<const Code> code = CodeOf(program);
  ASSERT_NE(code, nullptr);
  const auto size = static_cast<int64_t>(kind.size);
  Guarded memory, table;
  const int64_t bytes = count * size;
  // Rows at both ends of the page.
  std::memset(table.begin(), 0, table.size());
  std::memset(memory.begin(), 0, memory.size());
  for (int64_t i = 0; i < bytes; i += size) table.begin()[i] = (table.end() - bytes)[i] = 1;
  const int64_t stride = static_cast<int64_t>(memory.size()) - bytes;
  char* const rows[] = {table.end() - bytes, table.begin(), table.end() - bytes};
  // One row at the page's begin, one at its end.
  Call call;
  call.count = count;
  call.rows = 2;
  for (int i = 0; i < inputs; ++i) {
    const bool is_listed = i % 2 == 0;
    call.inputs[i] = is_listed ? static_cast<const void*>(rows) : table.begin();
    call.input_steps[i] = is_listed ? kPointer : static_cast<int64_t>(table.size()) - bytes;
  }
  call.outputs[0] = memory.begin();
  call.output_steps[0] = stride;
  code->Run(call);
  std::vector<char> between(memory.begin() + bytes, memory.end() - bytes);
  EXPECT_TRUE(std::all_of(between.begin(), between.end(), [](char each) { return each == 0; }))
      << "what lies between rows was written";
  for (const char* at : {static_cast<const char*>(memory.begin()), static_cast<const char*>(memory.end() - bytes)})
    for (int64_t i = 0; i < count; ++i) {
      const char right = kind.dtype == TENON_DT_INT32 || kind.dtype == TENON_DT_INT64 ? static_cast<char>(inputs) : 1;
      if (kind.dtype == TENON_DT_INT32 || kind.dtype == TENON_DT_INT64 || kind.dtype == TENON_DT_BOOL) {
        EXPECT_EQ(at[i * size], right);
      }
    }
}

TEST(Edges, CodeReadsRowsAnywhereAndWritesThemApart) {
  for (const Level level : Levels())
    for (const Kind& kind : kKinds)
      for (const int inputs : {2, 3, 20})  // of which not all pointers stand in registers
        for (const int64_t count : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 200})
          AddRows(level, kind, inputs, count);
}

// ---- Executables ----

void Alone(tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
  function(argument, 0, total);
}

tenon_frame_services Services(bool in_threads) { return ServicesOf(in_threads ? InThreads : Alone); }

// Memory of the very size, which a sanitizer watches, at any alignment of elements.
struct Value {
  Value(uint32_t type, std::vector<int64_t> dims, size_t shift)
      : dtype(type),
        shape(std::move(dims)),
        memory(std::make_unique<char[]>(bytes() + shift)),
        data(memory.get() + shift) {}
  size_t bytes() const { return static_cast<size_t>(sdk::Count(shape)) * sdk::ElementSize(dtype); }
  uint32_t dtype;
  std::vector<int64_t> shape;
  std::unique_ptr<char[]> memory;
  char* data;
};

void RunIt(const Executable& executable, const std::vector<Value*>& inputs, const std::vector<Value*>& outputs,
           bool in_threads) {
  const tenon_frame_services services = Services(in_threads);
  std::vector<tenon_tensor_view> in, out;
  for (const Value* each : inputs) in.push_back(testing::ViewOf(each->dtype, each->shape, each->data));
  for (const Value* each : outputs) out.push_back(testing::ViewOf(each->dtype, each->shape, each->data));
  std::vector<const tenon_tensor_view*> in_views;
  std::vector<tenon_tensor_view*> out_views;
  for (tenon_tensor_view& view : in) in_views.push_back(&view);
  for (tenon_tensor_view& view : out) out_views.push_back(&view);
  std::vector<char*> workspace((executable.workspace_bytes + 7) / 8 + 1);
  tenon_frame frame = {};
  frame.inputs = in_views.data();
  frame.outputs = out_views.data();
  frame.input_count = static_cast<int32_t>(in.size());
  frame.output_count = static_cast<int32_t>(out.size());
  frame.workspace = workspace.data();
  frame.workspace_bytes = executable.workspace_bytes;
  frame.services = &services;
  executable.Run(frame);
}

void Fill(Value* value, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto* const to = reinterpret_cast<float*>(value->data);
  for (int64_t i = 0; i < sdk::Count(value->shape); ++i) {
    const auto number = static_cast<float>(random() % 31) - 15;
    std::memcpy(to + i, &number, 4);
  }
}
float At(const Value& value, int64_t i) {
  float number;
  std::memcpy(&number, value.data + i * 4, 4);
  return number;
}

Part SliceOf(int32_t input, int64_t row, int64_t of, int64_t at) {
  return {input, 4, row, of * 4, at * 4, std::nullopt, false, false};
}

// Columns [at, at + row) of x less those of y, beside each other with their sum.
TEST(Edges, SlicesAreReadAndConcatenationsWrittenByAnyThreads) {
  for (const Level level : Levels())
    for (const int64_t row : {16, 17, 40, 129, 9000})
      for (const int64_t rows : {1, 2, 7, 65})
        for (const size_t shift : {size_t{0}, size_t{4}, size_t{20}})
          for (const bool in_threads : {false, true}) {
            const int64_t of = 2 * row + 5;
            Region region;
            region.shape = {rows, row};
            region.shapes = {region.shape, region.shape, {row}};
            region.sources = {0, 0, 1};
            region.parts = {SliceOf(0, row, of, 3), SliceOf(1, row, of, row + 5)};
            region.of_row = {false, false};
            region.program = {level,
                              false,
                              {{TENON_DT_FLOAT}, {TENON_DT_FLOAT}, {TENON_DT_FLOAT}},
                              {{Function::kSub, TENON_DT_FLOAT, {0, 1}}, {Function::kAdd, TENON_DT_FLOAT, {3, 2}}},
                              {3, 4}};
            region.targets = {{0, row, 2 * row * 4, 0}, {0, row, 2 * row * 4, row * 4}};
            const auto made = ElementExecutable::Make(std::move(region));
            EXPECT_TRUE(std::all_of(made->in_place.begin(), made->in_place.end(),
                                    [](const auto& each) { return each.input != 0; }));
            Value x(TENON_DT_FLOAT, {rows, of}, shift), bias(TENON_DT_FLOAT, {row}, shift),
                out(TENON_DT_FLOAT, {rows, 2 * row}, shift);
            Fill(&x, 1), Fill(&bias, 2);
            RunIt(*made, {&x, &bias}, {&out}, in_threads);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t j = 0; j < row; ++j) {
                const float less = At(x, r * of + 3 + j) - At(x, r * of + row + 5 + j);
                ASSERT_EQ(At(out, r * 2 * row + j), less) << row << " " << rows << " " << r << " " << j;
                ASSERT_EQ(At(out, r * 2 * row + row + j), less + At(bias, j));
              }
          }
}

Region GatherRegion(Level level, int64_t rows, int64_t row, bool has_reductions) {
  Region region;
  region.shape = {rows, row};
  region.shapes = {region.shape, {row}};
  region.sources = {0, 2};
  Part part;
  part.size = 4;
  part.row = row;
  part.gather = Gather{0, 1, false, TENON_DT_FLOAT, region.shape, row * 4, rows, 0, "node 'g' (GatherV2)"};
  region.parts = {part};
  region.program = {
      level, false, {{TENON_DT_FLOAT}, {TENON_DT_FLOAT}}, {{Function::kAdd, TENON_DT_FLOAT, {0, 1}}}, {2}};
  region.of_row = {false};
  region.targets = {{0, 0, 0, 0}};
  if (has_reductions) {
    region.reduced = 1;
    region.program.nodes.push_back({Function::kMax, TENON_DT_FLOAT, {2}});
    region.program.nodes.push_back({Function::kSub, TENON_DT_FLOAT, {2, 3}});
    region.of_row = {false, true, false};
    region.program.outputs = {4};
  }
  return region;
}
std::unique_ptr<Executable> Make(Region region) {
  return region.reduced > 0 ? RowExecutable::Make(std::move(region)) : ElementExecutable::Make(std::move(region));
}

template <class Index>
Value IndicesOf(uint32_t dtype, const std::vector<int64_t>& rows) {
  Value value(dtype, {static_cast<int64_t>(rows.size())}, 0);
  for (size_t i = 0; i < rows.size(); ++i) reinterpret_cast<Index*>(value.data)[i] = static_cast<Index>(rows[i]);
  return value;
}
Value IndicesOf(uint32_t dtype, const std::vector<int64_t>& rows) {
  return dtype == TENON_DT_INT32 ? IndicesOf<int32_t>(dtype, rows) : IndicesOf<int64_t>(dtype, rows);
}

TEST(Edges, GathersAreAddedAndReducedByAnyThreads) {
  for (const Level level : Levels())
    for (const uint32_t dtype : {TENON_DT_INT32, TENON_DT_INT64})
      for (const bool has_reductions : {false, true})
        for (const int64_t row : {16, 33, 300, 5000})
          for (const int64_t rows : {1, 3, 50})
            for (const bool in_threads : {false, true}) {
              const auto made = Make(GatherRegion(level, rows, row, has_reductions));
              std::vector<int64_t> numbers;
              for (int64_t i = 0; i < rows; ++i) numbers.push_back(i * 5 % 7);
              Value table(TENON_DT_FLOAT, {7, row}, 4), indices = IndicesOf(dtype, numbers),
                                                        bias(TENON_DT_FLOAT, {row}, 4),
                                                        out(TENON_DT_FLOAT, {rows, row}, 4);
              Fill(&table, 1), Fill(&bias, 2);
              RunIt(*made, {&table, &indices, &bias}, {&out}, in_threads);
              for (int64_t r = 0; r < rows; ++r) {
                const auto sum = [&](int64_t j) {
                  return At(table, numbers[static_cast<size_t>(r)] * row + j) + At(bias, j);
                };
                float most = sum(0);
                for (int64_t j = 0; j < row; ++j) most = std::max(most, sum(j));
                for (int64_t j = 0; j < row; ++j)
                  ASSERT_EQ(At(out, r * row + j), sum(j) - (has_reductions ? most : 0)) << row << " " << r << " " << j;
              }
            }
}

std::string FailureOf(const Executable& executable, const std::vector<Value*>& inputs, Value* out) {
  try {
    RunIt(executable, inputs, {out}, false);
  } catch (sdk::KernelError& error) {
    tenon_status* const status = error.release();
    std::string text(sdk::ToText(tenon_plugin_host->status_message(status)));
    tenon_plugin_host->status_release(status);
    return text;
  }
  return "";
}

TEST(Edges, IndicesOfNoRowFailBeforeAnythingIsWritten) {
  for (const Level level : Levels())
    for (const bool has_reductions : {false, true})
      for (const uint32_t dtype : {TENON_DT_INT32, TENON_DT_INT64})
        for (const int64_t bad : {int64_t{-1}, int64_t{7}, int64_t{INT32_MIN}, int64_t{INT32_MAX},
                                  dtype == TENON_DT_INT32 ? -2 : INT64_MIN, dtype == TENON_DT_INT32 ? 8 : INT64_MAX}) {
          const auto made = Make(GatherRegion(level, 3, 40, has_reductions));
          Value table(TENON_DT_FLOAT, {7, 40}, 0), indices = IndicesOf(dtype, {0, 6, bad}),
                                                   bias(TENON_DT_FLOAT, {40}, 0), out(TENON_DT_FLOAT, {3, 40}, 0);
          std::memset(out.data, 0x55, out.bytes());
          EXPECT_EQ(FailureOf(*made, {&table, &indices, &bias}, &out),
                    "node 'g' (GatherV2): indices[2] = " + std::to_string(bad) + " is not in [0, 7)");
          EXPECT_TRUE(std::all_of(out.data, out.data + out.bytes(), [](char each) { return each == 0x55; }));
          // A table of other rows than were expected.
          Value other(TENON_DT_FLOAT, {7, 41}, 0);
          EXPECT_NE(FailureOf(*made, {&other, &indices, &bias}, &out).find("do not give the output's shape"),
                    std::string::npos);
        }
}

// ---- Where parts lie ----

TEST(Edges, RowsOfConcatenations) {
  const std::vector<int64_t> own = {3, 4, 5}, last = {3, 4, 10}, middle = {3, 8, 5}, first = {6, 4, 5},
                             unknown = {-1, 4, 5}, unknown_last = {-1, 4, 10};
  EXPECT_EQ(RowOfConcatenated(own, last), 5);
  EXPECT_EQ(RowOfConcatenated(own, middle), 20);
  EXPECT_EQ(RowOfConcatenated(own, first), 60);
  EXPECT_EQ(RowOfConcatenated(own, own), -1);
  EXPECT_EQ(RowOfConcatenated(unknown, unknown_last), 5);
  EXPECT_EQ(RowOfConcatenated(unknown, own), -1);
  const std::vector<int64_t> huge = {2, INT64_MAX / 2, 8}, more = {4, INT64_MAX / 2, 8};
  EXPECT_EQ(RowOfConcatenated(huge, more), -1);
}

TEST(Edges, DimsOfRowsAreTheLastOnes) {
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(DimsOfRow({3, 4, 5}, 5), Dims({5}));
  EXPECT_EQ(DimsOfRow({3, 4, 5}, 20), Dims({4, 5}));
  EXPECT_EQ(DimsOfRow({3, 1, 5}, 5), Dims({5}));
  EXPECT_EQ(DimsOfRow({3, 4, 5}, 60), Dims({3, 4, 5}));
}

}  // namespace
}  // namespace tenon::cpu_codegen::edge_moves_test
