// SPDX-License-Identifier: Apache-2.0
#include "elements.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kMostTile = 2048, kLeastTile = 256, kGrain = 64;
constexpr int64_t kSlotBytes = 48 << 10;     // of a thread's stack, for what is laid out
constexpr int64_t kLeastRow = 16;            // shorter ones are laid out where functions take long
constexpr int64_t kPiece = 8192;             // elements of a unit, where nothing else says it
constexpr int64_t kMostTurn = 1024;           // elements that stages take turns over
constexpr int64_t kTurnBytes = 24 << 10;     // of a thread's stack, for values between stages
constexpr int kLongChain = 30;               // instructions or so, from which on it is two stages
constexpr int64_t kStreamedBytes = 24 << 20; // of inputs and results, from which on results go past the caches

int WeightOf(Function function) { return IsApproximate(function) ? 20 : function >= Function::kTanhGrad && function <= Function::kSoftsignGrad ? 4 : 2; }

}  // namespace

struct ElementExecutable::Operands {
  std::array<char*, kMostInputs + kMostOutputs> at;
  std::array<int64_t, kMostInputs + kMostOutputs> row;  // bytes from row to row
};

// ---- Making ----

class ElementMaker {
 public:
  explicit ElementMaker(Region region) : program_(std::move(region.program)), shapes_(std::move(region.shapes)), out_(std::move(region.shape)) {}

  std::unique_ptr<Executable> Make() {
    made_ = std::make_unique<ElementExecutable>();
    made_->total_ = sdk::Count(out_);
    Arrange();
    MakeStages();
    AddInPlace();
    return std::move(made_);
  }

 private:
  bool IsInput(int value) const { return value < static_cast<int>(program_.inputs.size()); }

  // How inputs of any shape walk beside the elements of the result; dims over which all walk on evenly are one.
  void Arrange() {
    const size_t count = program_.inputs.size();
    ElementExecutable& made = *made_;
    std::vector<SpreadSteps> steps;
    made.dims_ = DimsOfSpreads(shapes_, out_, &steps);
    for (size_t i = 0; i < count; ++i) {
      const int64_t size = static_cast<int64_t>(sdk::ElementSize(program_.inputs[i].dtype)), own = sdk::Count(shapes_[i]);
      program_.inputs[i].is_single = own == 1;
      made.sizes_.push_back(size);
      made.steps_.push_back(own == 1 ? 0 : size);
      made.is_even_.push_back(own != 1 && own == made.total_);
      if (own != 1 && own != made.total_) made.spreads_.push_back({static_cast<int32_t>(i), size, std::move(steps[i]), false});
    }
    for (const int output : program_.outputs) made.sizes_.push_back(static_cast<int64_t>(sdk::ElementSize(program_.DtypeOf(output))));
    for (const Node& node : program_.nodes) made.cost_ += IsApproximate(node.function) ? 0.2 : 0.04;
    made.cost_ += 0.05 * static_cast<double>(count + program_.outputs.size());
    if (made.spreads_.empty()) {
      made.dims_ = {{}, made.total_};
      made.piece_ = std::min(kPiece, made.total_);
      return;
    }
    const bool takes_long = std::any_of(program_.nodes.begin(), program_.nodes.end(), [](const Node& node) { return IsApproximate(node.function); });
    made.lays_out_ = made.dims_.inner < (takes_long ? kLeastRow : 2);
    if (made.lays_out_) return ChooseTile();
    made.piece_ = made.dims_.inner >= kPiece ? kPiece : kPiece / made.dims_.inner * made.dims_.inner;
    made.cost_ += 4.0 / static_cast<double>(made.dims_.inner);
    for (const Spread& spread : made.spreads_) {
      program_.inputs[static_cast<size_t>(spread.input)].is_single = spread.steps.inner == 0;
      if (spread.steps.inner == 0) made.steps_[static_cast<size_t>(spread.input)] = 0;
    }
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

  int ValueOf(size_t node) const { return static_cast<int>(program_.inputs.size() + node); }
  // Where the nodes are cut: each stage has a function or two that take long, and as few values as can be go from one to the next.
  std::vector<size_t> Cuts() const {
    const size_t count = program_.nodes.size();
    std::vector<size_t> last_use(count, 0);
    for (size_t n = 0; n < count; ++n)
      for (const int operand : program_.nodes[n].operands)
        if (!IsInput(operand)) last_use[static_cast<size_t>(operand) - program_.inputs.size()] = n;
    const auto carried = [&](size_t cut) {
      int values = 0;
      for (size_t n = 0; n < cut; ++n) values += last_use[n] >= cut ? 1 : 0;
      return values;
    };
    std::vector<size_t> cuts;
    int weight = 0;
    size_t after = 0;  // the last function that takes long
    for (size_t n = 0; n < count; ++n) {
      if (IsApproximate(program_.nodes[n].function)) {
        if (weight + WeightOf(program_.nodes[n].function) > kLongChain && after > (cuts.empty() ? 0 : cuts.back())) {
          size_t best = after;
          for (size_t cut = after; cut <= n; ++cut)
            if (carried(cut) < carried(best)) best = cut;
          cuts.push_back(best);
          weight = 0;
          for (size_t k = best; k < n; ++k) weight += WeightOf(program_.nodes[k].function);
        }
        after = n + 1;
      }
      weight += WeightOf(program_.nodes[n].function);
    }
    return cuts;
  }

  void MakeStages() {
    ElementExecutable& made = *made_;
    std::vector<size_t> cuts = Cuts();
    cuts.push_back(program_.nodes.size());
    // Places of values among the operands; -1: within a stage alone.
    std::vector<int32_t> place(program_.inputs.size() + program_.nodes.size(), -1);
    for (size_t i = 0; i < program_.inputs.size(); ++i) place[i] = static_cast<int32_t>(i);
    for (size_t k = 0; k < program_.outputs.size(); ++k) place[static_cast<size_t>(program_.outputs[k])] = static_cast<int32_t>(program_.inputs.size() + k);
    int64_t bytes = 0;
    for (const int64_t size : made.sizes_) bytes += size * made.total_;
    const bool streams = bytes >= kStreamedBytes && made.spreads_.empty();
    int64_t largest = 0;
    size_t begin = 0;
    for (const size_t end : cuts) {
      const auto is_ours = [&](int value) { return !IsInput(value) && static_cast<size_t>(value) - program_.inputs.size() >= begin && static_cast<size_t>(value) - program_.inputs.size() < end; };
      Program part{program_.level, false, {}, {}, {}};
      ElementExecutable::Stage stage;
      std::map<int, int> number;  // of values in the part
      for (size_t n = begin; n < end; ++n)
        for (const int operand : program_.nodes[n].operands)
          if (!is_ours(operand) && !number.contains(operand)) {
            number[operand] = static_cast<int>(part.inputs.size());
            part.inputs.push_back(IsInput(operand) ? program_.inputs[static_cast<size_t>(operand)] : Input{program_.DtypeOf(operand), false});
            stage.inputs.push_back(place[static_cast<size_t>(operand)]);
          }
      for (size_t n = begin; n < end; ++n) number[ValueOf(n)] = static_cast<int>(part.inputs.size() + n - begin);
      for (size_t n = begin; n < end; ++n) {
        Node node = program_.nodes[n];
        for (int& operand : node.operands) operand = number.at(operand);
        part.nodes.push_back(std::move(node));
        const bool goes_on = std::any_of(program_.nodes.begin() + static_cast<int64_t>(end), program_.nodes.end(), [&](const Node& later) { return std::find(later.operands.begin(), later.operands.end(), ValueOf(n)) != later.operands.end(); });
        int32_t& own = place[static_cast<size_t>(ValueOf(n))];
        if (own < 0 && goes_on) {
          own = static_cast<int32_t>(made.sizes_.size());
          made.sizes_.push_back(static_cast<int64_t>(sdk::ElementSize(program_.nodes[n].dtype)));
          largest = std::max(largest, made.sizes_.back());
        }
        if (own < 0) continue;
        part.outputs.push_back(number.at(ValueOf(n)));
        stage.outputs.push_back(own);
      }
      if (part.inputs.size() > kMostInputs || part.outputs.size() > kMostOutputs) sdk::Fail(TENON_UNIMPLEMENTED, "so many values from one stage to the next");
      stage.code = CodeOf(part);
      if (stage.code == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
      const bool is_result = std::any_of(stage.outputs.begin(), stage.outputs.end(), [&](int32_t own) { return own < static_cast<int32_t>(program_.inputs.size() + program_.outputs.size()); });
      const bool is_between = std::any_of(stage.outputs.begin(), stage.outputs.end(), [&](int32_t own) { return own >= static_cast<int32_t>(program_.inputs.size() + program_.outputs.size()); });
      if (streams && is_result && !is_between) {
        part.streams = true;
        stage.streaming = CodeOf(part);
      }
      made.stages_.push_back(std::move(stage));
      begin = end;
    }
    const auto between = static_cast<int64_t>(made.sizes_.size() - program_.inputs.size() - program_.outputs.size());
    made.first_between_ = program_.inputs.size() + program_.outputs.size();
    made.largest_between_ = largest;
    made.turn_ = between == 0 ? made.total_ : std::min(kMostTurn, kTurnBytes / (between * largest)) / kGrain * kGrain;
    if (made.turn_ < kGrain) sdk::Fail(TENON_UNIMPLEMENTED, "so many values from one stage to the next");
  }

  // Results that may lie where an input lies: whoever reads it does so before they are written, element by element.
  void AddInPlace() const {
    const auto inputs = static_cast<int32_t>(program_.inputs.size());
    for (int32_t i = 0; i < inputs; ++i) {
      if (!made_->is_even_[static_cast<size_t>(i)]) continue;
      for (size_t k = 0; k < program_.outputs.size(); ++k) {
        const size_t writer = static_cast<size_t>(program_.outputs[k] - inputs);
        if (made_->sizes_[static_cast<size_t>(inputs) + k] == made_->sizes_[static_cast<size_t>(i)] && IsReadBefore(i, writer)) made_->in_place.push_back({i, static_cast<int32_t>(k)});
      }
    }
  }
  // Whether a stage that reads the input behind the node has read it by then: it is loaded once.
  bool IsReadBefore(int32_t input, size_t writer) const {
    const auto reads = [input](const Node& node) { return std::find(node.operands.begin(), node.operands.end(), input) != node.operands.end(); };
    std::vector<size_t> cuts = Cuts();
    cuts.push_back(program_.nodes.size());
    bool is_behind = false, is_read = false;
    size_t begin = 0;
    for (const size_t end : cuts) {
      const auto first = std::find_if(program_.nodes.begin() + static_cast<int64_t>(begin), program_.nodes.begin() + static_cast<int64_t>(end), reads) - program_.nodes.begin();
      if (static_cast<size_t>(first) < end) {
        is_read = true;
        is_behind = is_behind || static_cast<size_t>(first) > writer;
      }
      begin = end;
    }
    return is_read && !is_behind;
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
  const int64_t units = lays_out_ || piece_ >= dims_.inner ? parts(total_, piece_) : parts(dims_.inner, piece_) * (total_ / dims_.inner);
  c.ParallelFor(units, cost_ * static_cast<double>(std::min(piece_, total_)), [&](int64_t begin, int64_t end) { lays_out_ ? RunTiles(frame, begin, end) : RunRows(frame, begin, end); });
}

ElementExecutable::Operands ElementExecutable::OperandsAt(const tenon_frame& frame, int64_t element) const {
  Operands operands;
  const auto inputs = static_cast<size_t>(frame.input_count), outputs = static_cast<size_t>(frame.output_count);
  for (size_t i = 0; i < inputs; ++i) {
    operands.at[i] = const_cast<char*>(sdk::Data<const char>(*frame.inputs[i])) + (is_even_[i] ? element * steps_[i] : 0);
    operands.row[i] = is_even_[i] ? dims_.inner * steps_[i] : 0;
  }
  for (size_t k = 0; k < outputs; ++k) {
    operands.at[inputs + k] = sdk::Data<char>(*frame.outputs[k]) + element * sizes_[inputs + k];
    operands.row[inputs + k] = dims_.inner * sizes_[inputs + k];
  }
  return operands;
}

// `rows` rows of `count` elements from where the operands are on.
void ElementExecutable::RunStages(const Operands& operands, int64_t rows, int64_t count) const {
  if (stages_.size() == 1) return CallStage(stages_[0], operands, nullptr, 0, 0, rows, count);
  alignas(64) char values[kTurnBytes];
  const int64_t most_rows = std::max<int64_t>(1, turn_ / count);
  for (int64_t row = 0; row < rows; row += most_rows)
    for (int64_t done = 0; done < count; done += turn_)
      for (const Stage& stage : stages_) CallStage(stage, operands, values, row, done, std::min(most_rows, rows - row), std::min(turn_, count - done));
}

// values: of this turn, between stages.
void ElementExecutable::CallStage(const Stage& stage, const Operands& operands, char* values, int64_t row, int64_t first, int64_t rows, int64_t count) const {
  const size_t inputs = steps_.size();
  Call call;
  call.count = count;
  call.rows = rows;
  const auto place = [&](int32_t place, int64_t* step) {
    const auto own = static_cast<size_t>(place);
    if (own >= first_between_) {
      *step = count * sizes_[own];
      return values + static_cast<int64_t>(own - first_between_) * turn_ * largest_between_;
    }
    *step = operands.row[own];
    return operands.at[own] + row * operands.row[own] + first * (own < inputs ? steps_[own] : sizes_[own]);
  };
  bool is_aligned = rows == 1;
  for (size_t i = 0; i < stage.inputs.size(); ++i) call.inputs[i] = place(stage.inputs[i], &call.input_steps[i]);
  for (size_t k = 0; k < stage.outputs.size(); ++k) {
    call.outputs[k] = place(stage.outputs[k], &call.output_steps[k]);
    is_aligned = is_aligned && reinterpret_cast<uintptr_t>(call.outputs[k]) % 64 == 0;
  }
  (stage.streaming != nullptr && is_aligned ? *stage.streaming : *stage.code).Run(call);
}

void ElementExecutable::RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const {
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
      rows = std::min(last_row - row, last_dim - row % last_dim);  // as far as inputs walk on evenly
    }
    Operands operands = OperandsAt(frame, row * dims_.inner + at);
    for (const Spread& spread : spreads_) {
      const auto own = static_cast<size_t>(spread.input);
      operands.at[own] += (spread.steps.OfRow(dims_, row) + spread.steps.inner * at) * spread.size;
      operands.row[own] = spread.steps.outer.empty() ? 0 : spread.steps.outer.back() * spread.size;
    }
    RunStages(operands, rows, count);
    row += rows;
  }
}

void ElementExecutable::RunTiles(const tenon_frame& frame, int64_t begin, int64_t end) const {
  alignas(64) char slots[kSlotBytes];
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t at = tile * piece_, count = std::min(piece_, total_ - at);
    Operands operands = OperandsAt(frame, at);
    char* slot = slots;
    for (const Spread& spread : spreads_) {
      if (tile == begin || !spread.is_same_in_all) LayOut(dims_, spread, sdk::Data<const char>(*frame.inputs[spread.input]), at, count, slot);
      operands.at[static_cast<size_t>(spread.input)] = slot;
      slot += piece_ * spread.size;
    }
    RunStages(operands, 1, count);
  }
}

}  // namespace tenon::cpu_codegen
