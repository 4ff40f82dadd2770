// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include <algorithm>

#include "row_plan.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kScratchBytes = 48 << 10;  // of a thread's stack

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// The elements that an input has for a row: the row's, or one.
int64_t OwnRow(const std::vector<int64_t>& all, size_t reduced, const std::vector<int64_t>& shape) {
  if (shape.size() > all.size()) sdk::Fail(TENON_UNIMPLEMENTED, "a region with shapes ", sdk::Dims(shape), " and ", sdk::Dims(all));
  int64_t own = 1;
  for (size_t back = 1; back <= std::min(reduced, shape.size()); ++back) {
    const int64_t dim = shape[shape.size() - back];
    if (dim != 1 && dim != all[all.size() - back]) sdk::Fail(TENON_UNIMPLEMENTED, "a region with shapes ", sdk::Dims(shape), " and ", sdk::Dims(all));
    own *= dim;
  }
  if (own != 1 && own != sdk::Count(sdk::Dims(all).last(reduced))) sdk::Fail(TENON_UNIMPLEMENTED, "an input that is broadcast within a row");
  return own;
}

}  // namespace

std::vector<RowInput> RowInputs(const Region& region, size_t reduced, SpreadDims* out_dims) {
  const auto kept = [&](const std::vector<int64_t>& shape) { return std::vector<int64_t>(shape.begin(), shape.end() - static_cast<int64_t>(std::min(reduced, shape.size()))); };
  std::vector<std::vector<int64_t>> shapes;
  std::vector<SpreadSteps> steps;
  for (const auto& shape : region.shapes) shapes.push_back(kept(shape));
  *out_dims = DimsOfSpreads(shapes, kept(region.shape), &steps);
  std::vector<RowInput> inputs;
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    const int64_t own = OwnRow(region.shape, reduced, region.shapes[i]);
    inputs.push_back({region.sources[i], own * BytesOf(region.program.inputs[i].dtype), own == 1, std::move(steps[i])});
  }
  return inputs;
}

std::unique_ptr<Executable> RowExecutable::Make(Region region) {
  auto made = std::make_unique<RowExecutable>();
  Program& program = region.program;
  made->inputs_ = RowInputs(region, region.reduced, &made->dims_);
  made->row_ = program.row = region.row();
  made->rows_ = region.total() / made->row_;
  for (size_t i = 0; i < program.inputs.size(); ++i) program.inputs[i].is_single = made->inputs_[i].is_single;
  const RowPlan plan = PlanRows(program);
  if (!std::equal(region.of_row.begin(), region.of_row.end(), plan.of_row.begin() + static_cast<int64_t>(region.shapes.size()))) sdk::Fail(TENON_UNIMPLEMENTED, "values of a row that are not read row by row");
  if (plan.scratch_bytes > kScratchBytes) sdk::Fail(TENON_UNIMPLEMENTED, "rows of ", made->row_, " elements, of which too much is kept");
  for (const int output : program.outputs) made->output_bytes_.push_back(BytesOf(program.DtypeOf(output)) * (plan.of_row[static_cast<size_t>(output)] ? 1 : made->row_));
  for (const Node& node : program.nodes) made->cost_ += IsApproximate(node.function) ? 0.2 : 0.04;
  made->cost_ = (made->cost_ + 0.05 * static_cast<double>(program.inputs.size() + program.outputs.size())) * static_cast<double>(made->row_) + 20;
  made->code_ = CodeOf(program);
  if (made->code_ == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    if (region.shapes[i] != region.shape) continue;
    for (size_t k = 0; k < program.outputs.size(); ++k)
      if (BytesOf(program.inputs[i].dtype) == BytesOf(program.DtypeOf(program.outputs[k])) && MayLieInPlace(program, plan, static_cast<int>(i), static_cast<int>(k)))
        made->in_place.push_back({region.sources[i], static_cast<int32_t>(k)});
  }
  return made;
}

void RowExecutable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  c.ParallelFor(rows_, cost_, [&](int64_t begin, int64_t end) { RunRows(frame, begin, end); });
}

void RowExecutable::RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const {
  alignas(64) char scratch[kScratchBytes];
  Call call;
  call.count = row_;
  call.scratch = scratch;
  while (begin < end) {
    // As far as inputs walk on evenly.
    const int64_t at = begin % dims_.inner;
    call.rows = std::min(end - begin, dims_.inner - at);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const RowInput& input = inputs_[i];
      call.inputs[i] = sdk::Data<const char>(*frame.inputs[input.source]) + (input.steps.OfRow(dims_, begin / dims_.inner) + at * input.steps.inner) * input.row_bytes;
      call.input_steps[i] = input.steps.inner * input.row_bytes;
    }
    for (size_t k = 0; k < output_bytes_.size(); ++k) {
      call.outputs[k] = sdk::Data<char>(*frame.outputs[k]) + begin * output_bytes_[k];
      call.output_steps[k] = output_bytes_[k];
    }
    begin += call.rows;
    code_->Run(call);
  }
}

}  // namespace tenon::cpu_codegen
