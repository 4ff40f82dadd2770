// SPDX-License-Identifier: Apache-2.0
#include "run/elements.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <ranges>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kMostTile = 2048, kLeastTile = 256, kGrain = 64;
constexpr int64_t kSlotBytes = 48 << 10;     // of a thread's stack, for what is laid out
constexpr int64_t kLeastRow = 16;            // shorter ones are laid out where functions take long
constexpr int64_t kMostListed = 4096;        // elements of a row: less than a piece
constexpr int64_t kLeastCalledRow = 256;     // that is worth a call of its own
constexpr int64_t kPiece = 8192;             // elements of a unit, where nothing else says it

}  // namespace

// ---- Making ----

class ElementMaker {
 public:
  explicit ElementMaker(Region region)
      : program_(std::move(region.program)),
        shapes_(std::move(region.shapes)),
        out_(std::move(region.shape)),
        made_(std::make_unique<ElementExecutable>()) {
    made_->sources_ = std::move(region.sources);
    made_->update_ = std::move(region.update);
    made_->shape_ = out_;
    made_->parts_ = std::move(region.parts);
    made_->targets_ = std::move(region.targets);
    made_->copies_ = std::move(region.copies);
  }

  std::unique_ptr<Executable> Make() {
    made_->total_ = sdk::Count(out_);
    Arrange();
    MakeStages();
    AddInPlace();
    if (made_->update_.has_value()) CheckUpdate();
    return std::move(made_);
  }

 private:
  // How inputs of any shape walk beside the elements of the result; dims over which all walk on evenly are one.
  void Arrange() {
    const size_t count = program_.inputs.size();
    ElementExecutable& made = *made_;
    std::vector<SpreadSteps> steps;
    // Rows of parts and of targets are not gone across.
    std::vector<std::vector<int64_t>> shapes = shapes_;
    std::vector<const Part*> part_of(count, nullptr);
    for (Part& part : made.parts_) {
      if (part.gather) part.gather->workspace = AddWorkspace(part.gather->rows);
      if (part.gather || !part.is_one_row)
        shapes.push_back(DimsOfRow(shapes_[static_cast<size_t>(part.input)], part.row));
      part_of[static_cast<size_t>(part.input)] = &part;
    }
    for (const Target& target : made.targets_)
      if (target.stride != 0) shapes.push_back(DimsOfRow(out_, target.row));
    made.dims_ = DimsOfSpreads(shapes, out_, &steps);
    for (size_t i = 0; i < count; ++i) {
      const int64_t size = static_cast<int64_t>(sdk::ElementSize(program_.inputs[i].dtype)),
                    own = sdk::Count(shapes_[i]);
      program_.inputs[i].is_single = own == 1;
      made.sizes_.push_back(size);
      made.steps_.push_back(own == 1 ? 0 : size);
      const bool is_part = part_of[i] != nullptr;
      made.is_even_.push_back(own != 1 && own == made.total_ && !is_part);
      if (own == 1 || made.is_even_.back()) continue;
      made.spreads_.push_back({static_cast<int32_t>(i), size, std::move(steps[i]), false});
      made.part_of_.push_back(is_part ? static_cast<int32_t>(part_of[i] - made.parts_.data()) : -1);
    }
    for (const int output : program_.outputs)
      made.sizes_.push_back(static_cast<int64_t>(sdk::ElementSize(program_.DtypeOf(output))));
    made.cost_ = Stages::CostOf(program_);
    const bool has_targets = std::any_of(made.targets_.begin(), made.targets_.end(),
                                         [](const Target& target) { return target.stride != 0; });
    if (made.spreads_.empty() && !has_targets) {
      made.dims_ = {{}, made.total_};
      made.piece_ = std::min(kPiece, made.total_);
      return;
    }
    const bool takes_long = std::any_of(program_.nodes.begin(), program_.nodes.end(),
                                        [](const Node& node) { return IsApproximate(node.function); });
    ListRows();
    if (made.by_row_ && made.dims_.inner < kLeastCalledRow)
      sdk::Fail(TENON_UNIMPLEMENTED, "gathers whose rows are cut into short ones");
    made.lays_out_ = made.dims_.inner < (takes_long ? kLeastRow : 2);
    if (made.lays_out_ && (has_targets || !made.parts_.empty()))
      sdk::Fail(TENON_UNIMPLEMENTED, "parts beside what is broadcast in short rows");
    if (made.lays_out_) return ChooseTile();
    made.piece_ = made.dims_.inner >= kPiece ? kPiece : kPiece / made.dims_.inner * made.dims_.inner;
    made.cost_ += (made.by_row_ ? 20.0 : 4.0) / static_cast<double>(made.dims_.inner);
    for (const Spread& spread : made.spreads_) {
      program_.inputs[static_cast<size_t>(spread.input)].is_single = spread.steps.inner == 0;
      if (spread.steps.inner == 0) made.steps_[static_cast<size_t>(spread.input)] = 0;
    }
  }

  // Rows of gathers that are computed at once are a list; of longer ones each is a call.
  void ListRows() {
    for (const Part& part : made_->parts_) {
      if (!part.gather) continue;
      program_.inputs[static_cast<size_t>(part.input)].is_listed =
          part.row == made_->dims_.inner && part.row <= kMostListed;
      made_->by_row_ = made_->by_row_ || !program_.inputs[static_cast<size_t>(part.input)].is_listed;
    }
  }
  int64_t AddWorkspace(int64_t rows) const {
    const auto at = static_cast<int64_t>(made_->workspace_bytes);
    made_->workspace_bytes += static_cast<uint64_t>(sdk::Multiply(rows, kPointer) + 63) / 64 * 64;
    return at;
  }

  // A multiple of the periods, where that is not too many.
  void ChooseTile() {
    ElementExecutable& made = *made_;
    int64_t grain = kGrain, largest = 1;
    for (const Spread& spread : made.spreads_) {
      largest = std::max(largest, spread.size);
      if (const int64_t with = std::lcm(grain, PeriodOf(made.dims_, spread.steps)); with <= kMostTile) grain = with;
    }
    const int64_t most = std::min(kMostTile, kSlotBytes / (largest * static_cast<int64_t>(made.spreads_.size())));
    if (most < kLeastTile) sdk::Fail(TENON_UNIMPLEMENTED, "so many inputs that are broadcast");
    if (grain > most) grain = kGrain;
    made.piece_ = most / grain * grain;
    for (Spread& spread : made.spreads_) spread.is_same_in_all = made.piece_ % PeriodOf(made.dims_, spread.steps) == 0;
    made.cost_ += 0.1 * static_cast<double>(made.spreads_.size());
  }

  void MakeStages() {
    int64_t bytes = 0;
    for (const int64_t size : made_->sizes_) bytes += size * made_->total_;
    if (made_->update_.has_value())
      bytes -= static_cast<int64_t>(made_->update_->scalar_count()) *
               static_cast<int64_t>(sdk::ElementSize(made_->update_->wide())) * made_->total_;
    program_.streams = bytes >= kStreamedBytes && std::all_of(made_->part_of_.begin(), made_->part_of_.end(),
                                                              [](int32_t part) { return part >= 0; });
    made_->stages_ = Stages(program_);
    const bool is_listed = std::any_of(program_.inputs.begin(), program_.inputs.end(), std::mem_fn(&Input::is_listed));
    if (is_listed && made_->stages_.most_in_turn() < made_->dims_.inner) {
      for (Input& input : program_.inputs) input.is_listed = false;
      made_->by_row_ = true;
      if (made_->dims_.inner < kLeastCalledRow)
        sdk::Fail(TENON_UNIMPLEMENTED, "gathers whose rows are called one by one");
      made_->stages_ = Stages(program_);
    }
    for (Part& part : made_->parts_) part.is_listed = program_.inputs[static_cast<size_t>(part.input)].is_listed;
  }

  // Results that may lie where an input lies.
  void AddInPlace() const {
    const auto inputs = static_cast<int32_t>(program_.inputs.size());
    const size_t updated = made_->update_.has_value() ? made_->update_->op().variables : 0;
    for (int32_t i = 0; i < static_cast<int32_t>(made_->sources_.size()); ++i) {
      if (!made_->is_even_[static_cast<size_t>(i)] || IsMovedFrom(made_->sources_[static_cast<size_t>(i)])) continue;
      for (size_t k = 0; k < program_.outputs.size() - updated; ++k)
        if (made_->targets_[k].stride == 0 &&
            made_->sizes_[static_cast<size_t>(inputs) + k] == made_->sizes_[static_cast<size_t>(i)] &&
            Stages::MayLieInPlace(program_, i, static_cast<int32_t>(k)))
          made_->in_place.push_back({made_->sources_[static_cast<size_t>(i)], made_->targets_[k].output});
    }
  }
  // Whether a part is taken from the frame's input too, whose elements are then read anywhere.
  bool IsMovedFrom(int32_t source) const {
    return std::any_of(made_->parts_.begin(), made_->parts_.end(),
                       [&](const Part& part) { return made_->sources_[static_cast<size_t>(part.input)] == source; });
  }
  // New values may lie where the old ones do.
  void CheckUpdate() const {
    const size_t count = made_->update_->op().variables;
    for (size_t k = 0; k < count; ++k)
      if (!Stages::MayLieInPlace(program_, static_cast<int32_t>(program_.inputs.size() - count + k),
                                 static_cast<int32_t>(program_.outputs.size() - count + k)))
        sdk::Fail(TENON_UNIMPLEMENTED, "an update whose old values are read behind it");
    if (MayWriteOverInputs(count)) made_->update_flags_ = TENON_UPDATE_OVER_INPUTS;
  }
  // Whether an input may be a variable's memory: each of its elements lies where the variable's does, or it is one
  // element, which RunUpdate() reads before.
  bool MayWriteOverInputs(size_t variables) const {
    const auto size = static_cast<int64_t>(sdk::ElementSize(made_->update_->dtype()));
    for (size_t i = 0; i < made_->sources_.size(); ++i) {
      if (program_.inputs[i].is_single && sdk::Count(shapes_[i]) == 1) continue;
      if (!made_->is_even_[i] || made_->sizes_[i] != size) return false;
      for (size_t k = program_.outputs.size() - variables; k < program_.outputs.size(); ++k)
        if (!Stages::MayLieInPlace(program_, static_cast<int32_t>(i), static_cast<int32_t>(k))) return false;
    }
    return true;
  }

  Program program_;
  std::vector<std::vector<int64_t>> shapes_;  // of inputs
  std::vector<int64_t> out_;
  std::unique_ptr<ElementExecutable> made_;
};

std::unique_ptr<Executable> ElementExecutable::Make(Region region) { return ElementMaker(std::move(region)).Make(); }

// ---- Running ----

void ElementExecutable::Run(tenon_frame& frame) const {
  const sdk::RunContext c(&frame);
  if (total_ == 0) return;
  const auto parts = [](int64_t all, int64_t part) { return (all + part - 1) / part; };
  // Pieces of rows, or of all elements; a piece of several rows is whole rows.
  const int64_t units =
      lays_out_ || piece_ >= dims_.inner ? parts(total_, piece_) : parts(dims_.inner, piece_) * (total_ / dims_.inner);
  const double cost = cost_ * static_cast<double>(std::min(piece_, total_));
  Bases bases;
  for (size_t i = 0; i < sources_.size(); ++i)
    bases.at[i] = const_cast<char*>(sdk::Data<const char>(*frame.inputs[sources_[i]]));
  for (const Part& part : parts_) {
    char*& base = bases.at[static_cast<size_t>(part.input)];
    if (part.gather) part.gather->ListRows(c);
    base = part.gather ? c.workspace<char>(part.gather->workspace) : base + part.offset;
  }
  for (size_t k = 0; k < targets_.size(); ++k)
    bases.at[steps_.size() + k] = sdk::Data<char>(*frame.outputs[targets_[k].output]) + targets_[k].offset;
  for (const auto& [part, output] : copies_)
    CopyPart(c, parts_[static_cast<size_t>(part)],
             bases.at[static_cast<size_t>(parts_[static_cast<size_t>(part)].input)], sdk::Count(*frame.outputs[output]),
             sdk::Data<char>(*frame.outputs[output]));
  if (update_.has_value()) return RunUpdate(c, bases, units, cost);
  c.ParallelFor(units, cost, [&](int64_t begin, int64_t end) {
    lays_out_ ? RunTiles(bases, begin, end) : RunRows(bases, begin, end);
  });
}

void ElementExecutable::RunUpdate(const sdk::RunContext& c, Bases& bases, int64_t units, double cost) const {
  const size_t scalars = update_->scalar_count(), variables = update_->op().variables, news = sizes_.size() - variables;
  alignas(16) std::array<std::array<char, 16>, kMostInputs> singles;
  if (update_flags_ != 0)
    for (size_t i = 0; i < sources_.size(); ++i)
      if (!is_even_[i])
        bases.at[i] = static_cast<char*>(std::memcpy(singles[i].data(), bases.at[i], static_cast<size_t>(sizes_[i])));
  update_->Run(c, shape_, update_flags_, [&](const RegionUpdate::Places& places) {
    for (size_t i = 0; i < scalars; ++i) bases.at[sources_.size() + i] = const_cast<char*>(places.scalars[i]);
    // What was just read is in the caches, and is written there.
    bases.may_stream = !std::ranges::any_of(std::views::iota(size_t{0}, variables),
                                            [&](size_t k) { return places.olds[k] == places.news[k]; });
    for (size_t k = 0; k < variables; ++k) {
      bases.at[sources_.size() + scalars + k] = const_cast<char*>(places.olds[k]);
      bases.at[news + k] = places.news[k];
    }
    c.UninterruptedFor(units, cost, [&](int64_t begin, int64_t end) {
      lays_out_ ? RunTiles(bases, begin, end) : RunRows(bases, begin, end);
    });
  });
}

Operands ElementExecutable::OperandsAt(const Bases& bases, int64_t element) const {
  Operands operands;
  const size_t inputs = steps_.size();
  for (size_t i = 0; i < inputs; ++i) {
    operands.at[i] = bases.at[i] + (is_even_[i] ? element * steps_[i] : 0);
    operands.row[i] = is_even_[i] ? dims_.inner * steps_[i] : 0;
  }
  for (size_t k = inputs; k < sizes_.size(); ++k) {
    const Target* const target =
        k - inputs < targets_.size() && targets_[k - inputs].stride != 0 ? &targets_[k - inputs] : nullptr;
    operands.at[k] =
        bases.at[k] + (target == nullptr ? element * sizes_[k]
                                         : element / target->row * target->stride + element % target->row * sizes_[k]);
    operands.row[k] = target == nullptr || dims_.inner < target->row ? dims_.inner * sizes_[k] : target->stride;
  }
  return operands;
}

void ElementExecutable::PlaceSpread(const Bases& bases, size_t index, int64_t row, int64_t at,
                                    Operands* operands) const {
  const Spread& spread = spreads_[index];
  const auto own = static_cast<size_t>(spread.input);
  const int64_t element = spread.steps.OfRow(dims_, row) + spread.steps.inner * at,
                step = spread.steps.outer.empty() ? 0 : spread.steps.outer.back();
  if (part_of_[index] < 0) {
    operands->at[own] += element * spread.size;
    operands->row[own] = step * spread.size;
    return;
  }
  const Part& part = parts_[static_cast<size_t>(part_of_[index])];
  operands->at[own] = part.is_listed ? bases.at[own] + element / part.row * kPointer : part.At(bases.at[own], element);
  operands->row[own] = part.is_listed ? step / part.row * kPointer : part.BytesTo(step);
}

void ElementExecutable::RunRows(const Bases& bases, int64_t begin, int64_t end) const {
  const bool is_of_rows = piece_ < dims_.inner;  // a unit is a piece of one row
  const int64_t in_row = (dims_.inner + piece_ - 1) / piece_, last_dim = dims_.outer.empty() ? 1 : dims_.outer.back();
  int64_t row = is_of_rows ? begin / in_row : begin * (piece_ / dims_.inner), unit = begin;
  const int64_t last_row = is_of_rows ? 0 : std::min(total_ / dims_.inner, end * (piece_ / dims_.inner));
  while (is_of_rows ? unit < end : row < last_row) {
    int64_t at = 0, count = dims_.inner, rows = 1;
    if (is_of_rows) {
      const int64_t first = unit % in_row, last = std::min(in_row, first + end - unit);
      row = unit / in_row;
      at = first * piece_;
      count = std::min(dims_.inner, last * piece_) - at;
      unit += last - first;
    } else {
      rows = by_row_ ? 1 : std::min(last_row - row, last_dim - row % last_dim);  // as far as inputs walk on evenly
    }
    Operands operands = OperandsAt(bases, row * dims_.inner + at);
    for (size_t s = 0; s < spreads_.size(); ++s) PlaceSpread(bases, s, row, at, &operands);
    stages_.Run(operands, rows, count, bases.may_stream);
    row += rows;
  }
}

void ElementExecutable::RunTiles(const Bases& bases, int64_t begin, int64_t end) const {
  alignas(64) char slots[kSlotBytes];
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t at = tile * piece_, count = std::min(piece_, total_ - at);
    Operands operands = OperandsAt(bases, at);
    char* slot = slots;
    for (const Spread& spread : spreads_) {
      if (tile == begin || !spread.is_same_in_all)
        LayOut(dims_, spread, bases.at[static_cast<size_t>(spread.input)], at, count, slot);
      operands.at[static_cast<size_t>(spread.input)] = slot;
      slot += piece_ * spread.size;
    }
    stages_.Run(operands, 1, count, bases.may_stream);
  }
}

}  // namespace tenon::cpu_codegen
