// SPDX-License-Identifier: Apache-2.0
// The order is that of devices/cpu's kernels: blocks of 1,024 elements, 64 of which are a share; sums of floats are
// added in double.
#include "reduce/reduce_all.h"

#include <algorithm>

#include "emit/row_plan.h"
#include "reduce/combine_blocks.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kWholeShareBlocks = 64;
constexpr int64_t kWholeSlotBytes = 48 << 10;  // of a thread's stack, for inputs that are laid out

// Shares from first to last, where there is more than one.
template <Function kFunction, class Total, class Block>
Total Reduced(const Block* blocks, int64_t count) {
  Total all = Neutral<kFunction, Total>();
  for (int64_t share = 0; share < count; share += kWholeShareBlocks) {
    Total own = Neutral<kFunction, Total>();
    for (int64_t i = share; i < std::min(count, share + kWholeShareBlocks); ++i)
      own = Combined<kFunction>(own, static_cast<Total>(blocks[i]));
    if (count <= kWholeShareBlocks) return own;
    all = Combined<kFunction>(all, own);
  }
  return all;
}

void Finish(uint32_t dtype, Function function, const void* blocks, int64_t count, int64_t elements, void* out) {
  ForReduction(function, dtype, [&]<Function kFunction, class T, class Block>() {
    const auto total = Reduced<kFunction, TotalOf<kFunction, Block>>(static_cast<const Block*>(blocks), count);
    *static_cast<T*>(out) = Finished<T>(total, function == Function::kMean ? elements : 0);
  });
}

}  // namespace

int64_t WholeExecutable::Blocks() const { return (total_ + kReducedBlock - 1) / kReducedBlock; }

std::unique_ptr<Executable> WholeExecutable::Make(Region region) {
  auto made = std::make_unique<WholeExecutable>();
  Program& program = region.program;
  made->total_ = region.total();
  std::vector<SpreadSteps> steps;
  made->dims_ = DimsOfSpreads(region.shapes, region.shape, &steps);
  int64_t slot_bytes = 0;
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    const int64_t own = sdk::Count(region.shapes[i]), size = ElementBytes(program.inputs[i].dtype);
    program.inputs[i].is_single = own == 1;
    made->inputs_.push_back({region.sources[i], own == 1 ? 0 : size});
    if (own == 1 || own == made->total_) continue;
    made->spreads_.push_back({static_cast<int32_t>(i), size, std::move(steps[i]), false});
    slot_bytes += size * kReducedBlock;
  }
  if (slot_bytes > kWholeSlotBytes) sdk::Fail(TENON_UNIMPLEMENTED, "so many inputs that are broadcast");
  for (const int output : program.outputs) {
    Node& node = program.nodes[static_cast<size_t>(output) - program.inputs.size()];
    Output own{ElementBytes(node.dtype), IsReduction(node.function) ? node.function : Function::kUnknown, node.dtype,
               node.dtype, 0};
    if (own.function != Function::kUnknown) {
      // The code gives a block's sum as it is.
      if (node.function == Function::kMean) node.function = Function::kSum;
      node.dtype = own.sum = BlockType(node.dtype);
      own.workspace = static_cast<int64_t>(made->workspace_bytes);
      made->workspace_bytes += static_cast<uint64_t>((made->Blocks() * ElementBytes(own.sum) + 63) / 64 * 64);
    }
    made->outputs_.push_back(own);
  }
  for (const Node& node : program.nodes) made->cost_ += IsApproximate(node.function) ? 0.2 : 0.04;
  made->cost_ = (made->cost_ + 0.05 * static_cast<double>(program.inputs.size() + program.outputs.size())) *
                static_cast<double>(kReducedBlock);
  const auto code = [&](int64_t row) -> std::shared_ptr<const Code> {
    if (row == 0) return nullptr;
    program.row = row;
    std::shared_ptr<const Code> found = CodeOf(program);
    if (found == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
    return found;
  };
  made->code_ = code(made->total_ >= kReducedBlock ? kReducedBlock : 0);
  made->last_ = code(made->total_ % kReducedBlock);
  const RowPlan plan = PlanRows(program);
  if (!std::equal(region.of_row.begin(), region.of_row.end(),
                  plan.of_row.begin() + static_cast<int64_t>(region.shapes.size())))
    sdk::Fail(TENON_UNIMPLEMENTED, "values that are not read element by element");
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    if (region.shapes[i] != region.shape || program.inputs[i].is_single) continue;
    for (size_t k = 0; k < program.outputs.size(); ++k)
      if (made->outputs_[k].function == Function::kUnknown && made->outputs_[k].size == made->inputs_[i].step &&
          MayLieInPlace(program, plan, static_cast<int>(i), static_cast<int>(k)))
        made->in_place.push_back({region.sources[i], static_cast<int32_t>(k)});
  }
  return made;
}

void WholeExecutable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  c.ParallelFor(Blocks(), cost_, [&](int64_t begin, int64_t end) { RunBlocks(frame, begin, end); });
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Output& output = outputs_[k];
    if (output.function != Function::kUnknown)
      Finish(output.dtype, output.function, static_cast<const char*>(frame.workspace) + output.workspace, Blocks(),
             total_, sdk::Data<char>(*frame.outputs[k]));
  }
}

void WholeExecutable::RunBlocks(const tenon_frame& frame, int64_t begin, int64_t end) const {
  alignas(64) char slots[kWholeSlotBytes];
  const int64_t whole = std::min(end, total_ / kReducedBlock), most = spreads_.empty() ? end : 1;
  for (int64_t block = begin; block < whole;) {
    const int64_t count = std::min(most, whole - block);
    CallBlocks(frame, block, count, slots);
    block += count;
  }
  if (end > whole) CallBlocks(frame, whole, 0, slots);
}

// So many whole blocks; 0: the elements behind them.
void WholeExecutable::CallBlocks(const tenon_frame& frame, int64_t block, int64_t count, char* slots) const {
  const int64_t at = block * kReducedBlock, elements = count == 0 ? total_ - at : kReducedBlock;
  Call call;
  call.count = elements;
  call.rows = std::max<int64_t>(1, count);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    call.inputs[i] = sdk::Data<const char>(*frame.inputs[inputs_[i].source]) + at * inputs_[i].step;
    call.input_steps[i] = elements * inputs_[i].step;
  }
  for (const Spread& spread : spreads_) {
    const auto own = static_cast<size_t>(spread.input);
    LayOut(dims_, spread, sdk::Data<const char>(*frame.inputs[inputs_[own].source]), at, elements, slots);
    call.inputs[own] = slots;
    slots += kReducedBlock * spread.size;
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Output& output = outputs_[k];
    const bool is_reduced = output.function != Function::kUnknown;
    call.outputs[k] = is_reduced
                          ? static_cast<char*>(frame.workspace) + output.workspace + block * ElementBytes(output.sum)
                          : sdk::Data<char>(*frame.outputs[k]) + at * output.size;
    call.output_steps[k] = is_reduced ? ElementBytes(output.sum) : elements * output.size;
  }
  (count == 0 ? last_ : code_)->Run(call);
}

}  // namespace tenon::cpu_codegen
