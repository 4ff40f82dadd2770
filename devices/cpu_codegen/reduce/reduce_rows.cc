// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduce_rows.h"

#include <algorithm>

#include "emit/row_plan.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kScratchBytes = 48 << 10;  // of a thread's stack

// The elements that an input has for a row: the row's, or one.
int64_t OwnRow(const std::vector<int64_t>& all, size_t reduced, const std::vector<int64_t>& shape) {
  if (shape.size() > all.size())
    sdk::Fail(TENON_UNIMPLEMENTED, "a region with shapes ", sdk::Dims(shape), " and ", sdk::Dims(all));
  int64_t own = 1;
  for (size_t back = 1; back <= std::min(reduced, shape.size()); ++back) {
    const int64_t dim = shape[shape.size() - back];
    if (dim != 1 && dim != all[all.size() - back])
      sdk::Fail(TENON_UNIMPLEMENTED, "a region with shapes ", sdk::Dims(shape), " and ", sdk::Dims(all));
    own *= dim;
  }
  if (own != 1 && own != sdk::Count(sdk::Dims(all).last(reduced)))
    sdk::Fail(TENON_UNIMPLEMENTED, "an input that is broadcast within a row");
  return own;
}

}  // namespace

std::vector<RowInput> RowInputs(const Region& region, size_t reduced, SpreadDims* out_dims) {
  const auto kept = [&](const std::vector<int64_t>& shape) {
    return std::vector<int64_t>(shape.begin(), shape.end() - static_cast<int64_t>(std::min(reduced, shape.size())));
  };
  std::vector<std::vector<int64_t>> shapes;
  std::vector<SpreadSteps> steps;
  for (const auto& shape : region.shapes) shapes.push_back(kept(shape));
  *out_dims = DimsOfSpreads(shapes, kept(region.shape), &steps);
  std::vector<RowInput> inputs;
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    const int64_t own = OwnRow(region.shape, reduced, region.shapes[i]);
    inputs.push_back(
        {region.sources[i], own * ElementBytes(region.program.inputs[i].dtype), own == 1, std::move(steps[i]), -1});
  }
  return inputs;
}

// Rows of slices are rows of the region; those of gathers whole ones of it.
void RowExecutable::AddParts(const Region& region) {
  parts_ = region.parts;
  copies_ = region.copies;
  for (const Target& target : region.targets) outputs_.push_back(target.output);
  for (size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    RowInput& input = inputs_[static_cast<size_t>(part.input)];
    const bool fits = !input.is_single && (part.gather ? part.row % row_ == 0 : part.row == row_ || part.is_one_row);
    if (!fits) sdk::Fail(TENON_UNIMPLEMENTED, "parts of other rows than are reduced");
    input.part = static_cast<int32_t>(p);
    if (!part.gather) continue;
    part.is_listed = part.row == row_;
    by_row_ = by_row_ || !part.is_listed;
    part.gather->workspace = static_cast<int64_t>(workspace_bytes);
    workspace_bytes += static_cast<uint64_t>(sdk::Multiply(part.gather->rows, kPointer) + 63) / 64 * 64;
  }
}

std::unique_ptr<Executable> RowExecutable::Make(Region region) {
  auto made = std::make_unique<RowExecutable>();
  Program& program = region.program;
  made->inputs_ = RowInputs(region, region.reduced, &made->dims_);
  made->row_ = program.row = region.row();
  made->rows_ = region.total() / made->row_;
  if (region.has_targets()) sdk::Fail(TENON_UNIMPLEMENTED, "a concatenation beside reductions");
  made->AddParts(region);
  for (size_t i = 0; i < program.inputs.size(); ++i) program.inputs[i].is_single = made->inputs_[i].is_single;
  for (const Part& part : made->parts_) program.inputs[static_cast<size_t>(part.input)].is_listed = part.is_listed;
  const RowPlan plan = PlanRows(program);
  if (!std::equal(region.of_row.begin(), region.of_row.end(),
                  plan.of_row.begin() + static_cast<int64_t>(region.shapes.size())))
    sdk::Fail(TENON_UNIMPLEMENTED, "values of a row that are not read row by row");
  if (plan.scratch_bytes > kScratchBytes)
    sdk::Fail(TENON_UNIMPLEMENTED, "rows of ", made->row_, " elements, of which too much is kept");
  for (const int output : program.outputs)
    made->output_bytes_.push_back(ElementBytes(program.DtypeOf(output)) *
                                  (plan.of_row[static_cast<size_t>(output)] ? 1 : made->row_));
  for (const Node& node : program.nodes) made->cost_ += IsApproximate(node.function) ? 0.2 : 0.04;
  made->cost_ = (made->cost_ + 0.05 * static_cast<double>(program.inputs.size() + program.outputs.size())) *
                    static_cast<double>(made->row_) +
                20;
  made->code_ = CodeOf(program);
  if (made->code_ == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
  for (size_t i = 0; i < region.shapes.size(); ++i) {
    const auto is_source = [&](const Part& part) {
      return region.sources[static_cast<size_t>(part.input)] == region.sources[i];
    };
    if (region.shapes[i] != region.shape || std::any_of(made->parts_.begin(), made->parts_.end(), is_source))
      continue;  // parts are read anywhere
    for (size_t k = 0; k < program.outputs.size(); ++k)
      if (ElementBytes(program.inputs[i].dtype) == ElementBytes(program.DtypeOf(program.outputs[k])) &&
          MayLieInPlace(program, plan, static_cast<int>(i), static_cast<int>(k)))
        made->in_place.push_back({region.sources[i], made->outputs_[k]});
  }
  return made;
}

void RowExecutable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  for (const Part& part : parts_)
    if (part.gather) part.gather->ListRows(c);
  for (const auto& [part, output] : copies_) {
    const Part& from = parts_[static_cast<size_t>(part)];
    CopyPart(c, from, BaseOf(frame, inputs_[static_cast<size_t>(from.input)]), sdk::Count(*frame.outputs[output]),
             sdk::Data<char>(*frame.outputs[output]));
  }
  c.ParallelFor(rows_, cost_, [&](int64_t begin, int64_t end) { RunRows(frame, begin, end); });
}

// The first element, or the pointers of rows.
char* RowExecutable::BaseOf(const tenon_frame& frame, const RowInput& input) const {
  const Part* const part = input.part < 0 ? nullptr : &parts_[static_cast<size_t>(input.part)];
  if (part != nullptr && part->gather)
    return sdk::RunContext(const_cast<tenon_frame*>(&frame)).workspace<char>(part->gather->workspace);
  return const_cast<char*>(sdk::Data<const char>(*frame.inputs[input.source])) + (part == nullptr ? 0 : part->offset);
}

void RowExecutable::RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const {
  alignas(64) char scratch[kScratchBytes];
  Call call;
  call.count = row_;
  call.scratch = scratch;
  while (begin < end) {
    // As far as inputs walk on evenly.
    const int64_t at = begin % dims_.inner;
    call.rows = by_row_ ? 1 : std::min(end - begin, dims_.inner - at);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const RowInput& input = inputs_[i];
      const int64_t own = input.steps.OfRow(dims_, begin / dims_.inner) + at * input.steps.inner;
      char* const base = BaseOf(frame, input);
      const Part* const part = input.part < 0 ? nullptr : &parts_[static_cast<size_t>(input.part)];
      call.inputs[i] = part == nullptr   ? base + own * input.row_bytes
                       : part->is_listed ? base + own * kPointer
                                         : part->At(base, own * row_);
      call.input_steps[i] = input.steps.inner * (part == nullptr   ? input.row_bytes
                                                 : part->is_listed ? kPointer
                                                                   : part->BytesTo(row_));
    }
    for (size_t k = 0; k < output_bytes_.size(); ++k) {
      call.outputs[k] = sdk::Data<char>(*frame.outputs[outputs_[k]]) + begin * output_bytes_[k];
      call.output_steps[k] = output_bytes_[k];
    }
    begin += call.rows;
    code_->Run(call);
  }
}

}  // namespace tenon::cpu_codegen
