// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduce_columns.h"

#include <algorithm>

#include "emit/row_plan.h"
#include "reduce/combine_blocks.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kBlockRows = 64, kShareBlocks = 16;
constexpr int64_t kWide = 128;           // elements of a wide row, at most
constexpr int64_t kLeastWide = 16;       // wide rows that are worth it
constexpr int64_t kMostSums = kWide / 2 * kSumGrain;  // of a wide row
constexpr int64_t kColumnsPiece = 1024;         // columns of a unit, or so: their sums stay in the nearest cache
constexpr int64_t kColumnScratchBytes = 48 << 10;  // of a thread's stack

Function StepOf(Function reduction) {
  using enum Function;
  return reduction == kProd ? kMul : reduction == kMax ? kMaximum : reduction == kMin ? kMinimum : kAdd;
}

// The program with sums as inputs behind the others, and their nodes behind the others. numbers: of the region's values
// in it.
Program WithSums(const Region& region, std::vector<int>* numbers) {
  const Program& old = region.program;
  Program made{old.level, false, old.inputs, {}, {}};
  for (const size_t node : region.columns) made.inputs.push_back({BlockType(old.nodes[node].dtype), false, true});
  if (made.inputs.size() > kMostInputs)
    sdk::Fail(TENON_UNIMPLEMENTED, "a region of ", made.inputs.size(), " inputs and sums");
  for (size_t i = 0; i < old.inputs.size(); ++i) numbers->push_back(static_cast<int>(i));
  const auto add = [&](Node node) {
    made.nodes.push_back(std::move(node));
    return static_cast<int>(made.inputs.size() + made.nodes.size()) - 1;
  };
  numbers->resize(old.inputs.size() + old.nodes.size());
  const auto number = [&](size_t node) -> int& { return (*numbers)[old.inputs.size() + node]; };
  for (size_t n = 0; n < old.nodes.size(); ++n) {
    if (std::find(region.columns.begin(), region.columns.end(), n) != region.columns.end()) continue;
    Node node = old.nodes[n];
    for (int& operand : node.operands) operand = (*numbers)[static_cast<size_t>(operand)];
    number(n) = add(std::move(node));
  }
  auto sum = static_cast<int>(old.inputs.size());
  for (const size_t n : region.columns) {
    const int from = (*numbers)[static_cast<size_t>(old.nodes[n].operands[0])];
    const uint32_t dtype = old.nodes[n].dtype, wide = BlockType(dtype);
    const int value = wide == dtype ? from : add({Function::kCast, wide, {from}});
    number(n) = add({StepOf(old.nodes[n].function), wide, {sum++, value}});
  }
  for (const int output : old.outputs) made.outputs.push_back((*numbers)[static_cast<size_t>(output)]);
  return made;
}

}  // namespace

std::unique_ptr<Executable> ColumnExecutable::Make(Region region) {
  auto made = std::make_unique<ColumnExecutable>();
  made->columns_ = region.column_count();
  made->rows_ = made->columns_ == 0 ? 0 : region.total() / made->columns_;
  if (made->rows_ < 2 || made->columns_ < 2)
    sdk::Fail(TENON_UNIMPLEMENTED, "columns of ", made->rows_, " elements, ", made->columns_, " of them");
  if (made->columns_ <= kWide / 2 && made->rows_ / (kWide / made->columns_) >= kLeastWide)
    made->together_ = kWide / made->columns_;
  made->wide_rows_ = made->rows_ / made->together_;
  made->wide_blocks_ = (made->wide_rows_ + kBlockRows - 1) / kBlockRows;
  made->inputs_ = RowInputs(region, region.shape.size() - region.leading, &made->dims_);
  made->MakeCode(region);
  made->MakeSums(region);
  return made;
}

void ColumnExecutable::MakeCode(const Region& region) {
  std::vector<int> numbers;
  Program program = WithSums(region, &numbers);
  is_flat_ = region.reduced == 0 && std::all_of(region.shapes.begin(), region.shapes.end(), [&](const auto& shape) {
               return sdk::Count(shape) == 1 || shape == region.shape;
             });
  for (size_t i = 0; i < inputs_.size(); ++i) {
    program.inputs[i].is_single = inputs_[i].is_single;
    element_bytes_.push_back(inputs_[i].is_single ? 0 : ElementBytes(program.inputs[i].dtype));
  }
  cost_ = Stages::CostOf(program) + 5.0 / static_cast<double>(is_flat_ ? width() : columns_);
  const int64_t pieces = region.reduced > 0 ? 1 : std::max<int64_t>(1, width() / kColumnsPiece);
  piece_ = pieces == 1 ? width() : ((width() + pieces - 1) / pieces + 63) / 64 * 64;
  if (region.reduced == 0) {
    int64_t bytes = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) bytes += region.shapes[i] == region.shape ? element_bytes_[i] : 0;
    for (const int output : program.outputs) bytes += program.IsSum(output) ? 0 : ElementBytes(program.DtypeOf(output));
    program.streams = sdk::Multiply(bytes, region.total()) >= kStreamedBytes;
    stages_ = Stages(program);
    return AddInPlace(region,
                      [&](int32_t input, int32_t output) { return Stages::MayLieInPlace(program, input, output); });
  }
  program.row = columns_;
  const RowPlan plan = PlanRows(program);
  for (size_t n = 0; n < region.of_row.size(); ++n)
    if (region.of_row[n] != plan.of_row[static_cast<size_t>(numbers[region.shapes.size() + n])])
      sdk::Fail(TENON_UNIMPLEMENTED, "values of a row that are not read row by row");
  if (plan.scratch_bytes > kColumnScratchBytes)
    sdk::Fail(TENON_UNIMPLEMENTED, "rows of ", columns_, " elements, of which too much is kept");
  code_ = CodeOf(program);
  if (code_ == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
  AddInPlace(region, [&](int32_t input, int32_t output) { return MayLieInPlace(program, plan, input, output); });
}

// may: of an input and an output of the program.
template <class May>
void ColumnExecutable::AddInPlace(const Region& region, const May& may) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (region.shapes[i] != region.shape) continue;
    for (size_t k = 0; k < region.program.outputs.size(); ++k) {
      const size_t node = static_cast<size_t>(region.program.outputs[k]) - region.shapes.size();
      const bool is_elements =
          !region.of_row[node] && std::find(region.columns.begin(), region.columns.end(), node) == region.columns.end();
      if (is_elements && ElementBytes(region.program.nodes[node].dtype) == element_bytes_[i] &&
          may(static_cast<int32_t>(i), static_cast<int32_t>(k)))
        in_place.push_back({region.sources[i], static_cast<int32_t>(k)});
    }
  }
}

void ColumnExecutable::MakeSums(const Region& region) {
  for (const int output : region.program.outputs) {
    const size_t node = static_cast<size_t>(output) - region.shapes.size();
    // Of columns AddSums says it.
    const bool is_sum = std::find(region.columns.begin(), region.columns.end(), node) != region.columns.end();
    const int64_t size = is_sum ? 0 : ElementBytes(region.program.nodes[node].dtype);
    element_bytes_.push_back(region.of_row[node] ? 0 : size);
    output_bytes_.push_back(region.of_row[node] ? size : size * columns_);
  }
  for (const size_t node : region.columns) {
    const auto& outputs = region.program.outputs;
    const auto output =
        std::find(outputs.begin(), outputs.end(), static_cast<int>(region.shapes.size() + node)) - outputs.begin();
    const uint32_t dtype = region.program.nodes[node].dtype;
    sums_.push_back({region.program.nodes[node].function, dtype, ElementBytes(BlockType(dtype)),
                     static_cast<int32_t>(output), static_cast<int64_t>(workspace_bytes)});
    workspace_bytes += static_cast<uint64_t>(Blocks() * SumBytes(sums_.back()));
  }
}

// ---- Running ----

void ColumnExecutable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  const int64_t pieces = (width() + piece_ - 1) / piece_;
  c.ParallelFor(Blocks() * pieces, cost_ * static_cast<double>(std::min(kBlockRows, wide_rows_) * piece_),
                [&](int64_t begin, int64_t end) {
                  for (int64_t u = begin; u < end; ++u) {
                    const int64_t first = u % pieces * piece_;
                    RunUnit(frame, {u / pieces, first, std::min(piece_, width() - first)});
                  }
                });
  const int64_t parts = (columns_ + kWide - 1) / kWide;
  for (const Column& column : sums_)
    c.ParallelFor(parts, static_cast<double>(Blocks() * kWide) * 0.5, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part)
        Finish(frame, column, part * kWide, std::min(columns_, (part + 1) * kWide));
    });
}

void ColumnExecutable::RunUnit(const tenon_frame& frame, const Unit& unit) const {
  for (const Column& column : sums_) {
    ForReduction(column.function, column.dtype, [&]<Function kFunction, class T, class Block>() {
      auto* const sums = reinterpret_cast<Block*>(SumsOf(frame, column, unit.block));
      const int64_t all = SumBytes(column) / column.size,
                    last = unit.first + unit.count == width() ? all : unit.first + unit.count;
      std::fill(sums + unit.first, sums + last, Neutral<kFunction, Block>());
    });
  }
  const int64_t begin = unit.block * kBlockRows, end = std::min(wide_rows_, begin + kBlockRows);
  if (unit.block == wide_blocks_) return RunRows(frame, {unit.block, 0, columns_}, wide_rows_ * together_, rows_, 0);
  if (together_ == 1) return RunRows(frame, unit, begin, end, 0);
  if (is_flat_) return RunWide(frame, unit, begin, end);
  for (int64_t wide = begin; wide < end; ++wide)
    RunRows(frame, {unit.block, 0, columns_}, wide * together_, (wide + 1) * together_, step());
}

// Wide rows.
void ColumnExecutable::RunWide(const tenon_frame& frame, const Unit& unit, int64_t begin, int64_t end) const {
  Operands operands;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    operands.row[i] = width() * element_bytes_[i];
    operands.at[i] =
        const_cast<char*>(sdk::Data<const char>(*frame.inputs[inputs_[i].source])) + begin * operands.row[i];
  }
  for (size_t k = 0, own = inputs_.size(); k < output_bytes_.size(); ++k, ++own) {
    operands.row[own + sums_.size()] = together_ * output_bytes_[k];
    operands.at[own + sums_.size()] = sdk::Data<char>(*frame.outputs[k]) + begin * together_ * output_bytes_[k];
  }
  AddSums(frame, unit, 0, &operands);
  Call(operands, end - begin, unit.count);
}

// Rows [begin, end), the unit's columns; the sums go `step` elements further with each.
void ColumnExecutable::RunRows(const tenon_frame& frame, const Unit& unit, int64_t begin, int64_t end,
                               int64_t step) const {
  int64_t done = 0;
  for (int64_t row = begin; row < end; row += done) {
    // As far as inputs walk on evenly.
    const int64_t at = row % dims_.inner;
    done = std::min(end - row, dims_.inner - at);
    Operands operands;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const RowInput& input = inputs_[i];
      const int64_t own = input.steps.OfRow(dims_, row / dims_.inner) + at * input.steps.inner;
      operands.at[i] = const_cast<char*>(sdk::Data<const char>(*frame.inputs[input.source])) + own * input.row_bytes +
                       unit.first * element_bytes_[i];
      operands.row[i] = input.steps.inner * input.row_bytes;
    }
    for (size_t k = 0; k < output_bytes_.size(); ++k) {
      const size_t own = inputs_.size() + sums_.size() + k;
      operands.at[own] =
          sdk::Data<char>(*frame.outputs[k]) + row * output_bytes_[k] + unit.first * element_bytes_[inputs_.size() + k];
      operands.row[own] = output_bytes_[k];
    }
    AddSums(frame, {unit.block, unit.first + (row - begin) * step, unit.count}, step, &operands);
    Call(operands, done, unit.count);
  }
}

void ColumnExecutable::AddSums(const tenon_frame& frame, const Unit& unit, int64_t step, Operands* operands) const {
  for (size_t s = 0; s < sums_.size(); ++s)
    for (const size_t own :
         {inputs_.size() + s, inputs_.size() + sums_.size() + static_cast<size_t>(sums_[s].output)}) {
      operands->at[own] = SumsOf(frame, sums_[s], unit.block) + unit.first * sums_[s].size;
      operands->row[own] = step * sums_[s].size;
    }
}

void ColumnExecutable::Call(const Operands& operands, int64_t rows, int64_t count) const {
  if (code_ == nullptr) return stages_.Run(operands, rows, count);
  alignas(64) char scratch[kColumnScratchBytes];
  const size_t inputs = inputs_.size() + sums_.size();
  cpu_codegen::Call call;
  call.count = count;
  call.rows = rows;
  call.scratch = scratch;
  std::copy_n(operands.at.begin(), inputs, call.inputs);
  std::copy_n(operands.row.begin(), inputs, call.input_steps);
  std::copy_n(operands.at.begin() + static_cast<int64_t>(inputs), output_bytes_.size(), call.outputs);
  std::copy_n(operands.row.begin() + static_cast<int64_t>(inputs), output_bytes_.size(), call.output_steps);
  code_->Run(call);
}

namespace {

template <Function kFunction, class Total, class Block>
void AddUp(const Block* from, int64_t count, Total* total) {
  for (int64_t j = 0; j < count; ++j) total[j] = Combined<kFunction>(total[j], static_cast<Total>(from[j]));
}

}  // namespace

// Columns [begin, end), at most kWide.
void ColumnExecutable::Finish(const tenon_frame& frame, const Column& column, int64_t begin, int64_t end) const {
  ForReduction(column.function, column.dtype, [&]<Function kFunction, class T, class Block>() {
    using Total = TotalOf<kFunction, Block>;
    const auto sums = [&](int64_t block) {
      return reinterpret_cast<const Block*>(SumsOf(frame, column, block)) + begin;
    };
    Total total[kWide];
    std::fill_n(total, kWide, Neutral<kFunction, Total>());
    if (together_ == 1) {
      for (int64_t block = 0; block < wide_blocks_; ++block) AddUp<kFunction>(sums(block), end - begin, total);
    } else {
      for (int64_t share = 0; share < wide_blocks_; share += kShareBlocks) {
        Total own[kMostSums];
        std::fill_n(own, kMostSums, Neutral<kFunction, Total>());
        for (int64_t block = share; block < std::min(wide_blocks_, share + kShareBlocks); ++block)
          AddUp<kFunction>(sums(block), width_of_sums(), own);
        for (int64_t r = 0; r < together_; ++r)
          for (int64_t j = 0; j < columns_; ++j) total[j] = Combined<kFunction>(total[j], own[r * step() + j]);
      }
      if (Blocks() > wide_blocks_) AddUp<kFunction>(sums(wide_blocks_), columns_, total);
    }
    T* const out = sdk::Data<T>(*frame.outputs[column.output]) + begin;
    for (int64_t j = 0; j < end - begin; ++j)
      out[j] = Finished<T>(total[j], column.function == Function::kMean ? rows_ : 0);
  });
}

}  // namespace tenon::cpu_codegen
