// SPDX-License-Identifier: Apache-2.0
#include "run/chain_stages.h"

#include <algorithm>
#include <map>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int64_t kMostTurn = 1024, kMostTurnOfSums = 2048, kStageGrain = 64;  // elements that stages take turns over
constexpr int64_t kTurnBytes = 24 << 10;          // of a thread's stack, for values between stages
constexpr int kLongChain = 30;                    // instructions or so, from which on it is two stages

int WeightOf(Function function) {
  return IsApproximate(function) ? 20 : function >= Function::kTanhGrad && function <= Function::kSoftsignGrad ? 4 : 2;
}

bool Reads(const Node& node, int value) {
  return std::find(node.operands.begin(), node.operands.end(), value) != node.operands.end();
}

// Sums of columns, and the casts before them, which stand behind all others.
size_t FirstSum(const Program& program) {
  const auto inputs = static_cast<int>(program.inputs.size());
  const auto is_sum = [&](size_t node) { return program.IsSum(inputs + static_cast<int>(node)); };
  size_t first = program.nodes.size();
  while (first > 0 &&
         (is_sum(first - 1) || (first < program.nodes.size() && program.nodes[first - 1].function == Function::kCast &&
                                is_sum(first) && Reads(program.nodes[first], inputs + static_cast<int>(first) - 1))))
    --first;
  return first;
}
// Whether sums are a stage of their own: results that leave for outer caches hold up what stays in the nearest one.
// Results that go past all of them do not.
bool AreSumsApart(const Program& program) {
  const auto is_sum = [&](int output) { return program.IsSum(output); };
  return !program.streams && std::any_of(program.outputs.begin(), program.outputs.end(), is_sum) &&
         !std::all_of(program.outputs.begin(), program.outputs.end(), is_sum);
}

// Where the nodes are cut: each stage has a function or two that take long, and as few values as can be go from one to
// the next. The last cut is behind all.
std::vector<size_t> Cuts(const Program& program) {
  const size_t count = program.nodes.size(), inputs = program.inputs.size();
  std::vector<size_t> last_use(count, 0);
  for (size_t n = 0; n < count; ++n)
    for (const int operand : program.nodes[n].operands)
      if (static_cast<size_t>(operand) >= inputs) last_use[static_cast<size_t>(operand) - inputs] = n;
  const auto carried = [&](size_t cut) {
    int values = 0;
    for (size_t n = 0; n < cut; ++n) values += last_use[n] >= cut ? 1 : 0;
    return values;
  };
  std::vector<size_t> cuts;
  int weight = 0;
  size_t after = 0;  // the last function that takes long
  for (size_t n = 0; n < count; ++n) {
    if (IsApproximate(program.nodes[n].function)) {
      if (weight + WeightOf(program.nodes[n].function) > kLongChain && after > (cuts.empty() ? 0 : cuts.back())) {
        size_t best = after;
        for (size_t cut = after; cut <= n; ++cut)
          if (carried(cut) < carried(best)) best = cut;
        cuts.push_back(best);
        weight = 0;
        for (size_t k = best; k < n; ++k) weight += WeightOf(program.nodes[k].function);
      }
      after = n + 1;
    }
    weight += WeightOf(program.nodes[n].function);
  }
  if (const size_t first = FirstSum(program); AreSumsApart(program) && first > (cuts.empty() ? 0 : cuts.back()))
    cuts.push_back(first);
  if (cuts.empty() || cuts.back() < count) cuts.push_back(count);
  return cuts;
}

}  // namespace

double Stages::CostOf(const Program& program) {
  double cost = 0.05 * static_cast<double>(program.inputs.size() + program.outputs.size());
  for (const Node& node : program.nodes) cost += IsApproximate(node.function) ? 0.2 : 0.04;
  return cost;
}

// A stage that reads the input behind the node has read it by then: it is loaded once.
bool Stages::MayLieInPlace(const Program& program, int32_t input, int32_t output) {
  const size_t writer = static_cast<size_t>(program.outputs[static_cast<size_t>(output)]) - program.inputs.size();
  bool is_behind = false, is_read = false;
  size_t begin = 0;
  for (const size_t end : Cuts(program)) {
    const auto at = program.nodes.begin();
    const auto first =
        static_cast<size_t>(std::find_if(at + static_cast<int64_t>(begin), at + static_cast<int64_t>(end),
                                         [input](const Node& node) { return Reads(node, input); }) -
                            at);
    if (first < end) {
      is_read = true;
      is_behind = is_behind || first > writer;
    }
    begin = end;
  }
  return is_read && !is_behind;
}

Stages::Stages(const Program& program) : first_between_(program.inputs.size() + program.outputs.size()) {
  for (const Input& input : program.inputs)
    steps_.push_back(input.is_single || input.is_listed ? 0 : static_cast<int64_t>(sdk::ElementSize(input.dtype)));
  for (const int output : program.outputs)
    steps_.push_back(static_cast<int64_t>(sdk::ElementSize(program.DtypeOf(output))));
  // -1: within a stage alone.
  std::vector<int32_t> place(program.inputs.size() + program.nodes.size(), -1);
  for (size_t i = 0; i < program.inputs.size(); ++i) place[i] = static_cast<int32_t>(i);
  for (size_t k = 0; k < program.outputs.size(); ++k)
    place[static_cast<size_t>(program.outputs[k])] = static_cast<int32_t>(program.inputs.size() + k);
  size_t begin = 0;
  for (const size_t end : Cuts(program)) {
    stages_.push_back(MakeStage(program, begin, end, &place));
    begin = end;
  }
  const auto between = static_cast<int64_t>(steps_.size() - first_between_);
  for (size_t own = first_between_; own < steps_.size(); ++own)
    largest_between_ = std::max(largest_between_, steps_[own]);
  const int64_t most = AreSumsApart(program) ? kMostTurnOfSums : kMostTurn;
  turn_ = between == 0 ? most : std::min(most, kTurnBytes / (between * largest_between_)) / kStageGrain * kStageGrain;
  if (turn_ < kStageGrain) sdk::Fail(TENON_UNIMPLEMENTED, "so many values from one stage to the next");
}

// Of the nodes from begin to end. place: of the program's values.
Stages::Stage Stages::MakeStage(const Program& program, size_t begin, size_t end, std::vector<int32_t>* place) {
  const auto value_of = [&](size_t node) { return static_cast<int>(program.inputs.size() + node); };
  const auto is_ours = [&](int value) { return value >= value_of(begin) && value < value_of(end); };
  Program part{program.level, false, {}, {}, {}};
  Stage stage;
  std::map<int, int> number;  // of values in the part
  for (size_t n = begin; n < end; ++n)
    for (const int operand : program.nodes[n].operands)
      if (!is_ours(operand) && !number.contains(operand)) {
        number[operand] = static_cast<int>(part.inputs.size());
        part.inputs.push_back(operand < value_of(0) ? program.inputs[static_cast<size_t>(operand)]
                                                    : Input{program.DtypeOf(operand), false});
        stage.inputs.push_back((*place)[static_cast<size_t>(operand)]);
      }
  for (size_t n = begin; n < end; ++n) number[value_of(n)] = static_cast<int>(part.inputs.size() + n - begin);
  for (size_t n = begin; n < end; ++n) {
    Node node = program.nodes[n];
    for (int& operand : node.operands) operand = number.at(operand);
    part.nodes.push_back(std::move(node));
    int32_t& own = (*place)[static_cast<size_t>(value_of(n))];
    if (own < 0 && std::any_of(program.nodes.begin() + static_cast<int64_t>(end), program.nodes.end(),
                               [&](const Node& later) { return Reads(later, value_of(n)); })) {
      own = static_cast<int32_t>(steps_.size());
      steps_.push_back(static_cast<int64_t>(sdk::ElementSize(program.nodes[n].dtype)));
    }
    if (own < 0) continue;
    part.outputs.push_back(number.at(value_of(n)));
    stage.outputs.push_back(own);
  }
  if (part.inputs.size() > kMostInputs || part.outputs.size() > kMostOutputs)
    sdk::Fail(TENON_UNIMPLEMENTED, "so many values from one stage to the next");
  stage.code = CodeOf(part);
  if (stage.code == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "no code can be had");
  const bool is_between = std::any_of(stage.outputs.begin(), stage.outputs.end(),
                                      [&](int32_t own) { return static_cast<size_t>(own) >= first_between_; });
  if (program.streams && !stage.outputs.empty() && !is_between) {
    part.streams = true;
    stage.streaming = CodeOf(part);
  }
  return stage;
}

void Stages::Run(const Operands& operands, int64_t rows, int64_t count, bool may_stream) const {
  if (stages_.size() == 1) return CallStage(stages_[0], operands, nullptr, 0, 0, rows, count, may_stream);
  alignas(64) char values[kTurnBytes];
  const int64_t most_rows = std::max<int64_t>(1, turn_ / count);
  for (int64_t row = 0; row < rows; row += most_rows)
    for (int64_t done = 0; done < count; done += turn_)
      for (const Stage& stage : stages_)
        CallStage(stage, operands, values, row, done, std::min(most_rows, rows - row), std::min(turn_, count - done),
                  may_stream);
}

// values: of this turn, between stages.
void Stages::CallStage(const Stage& stage, const Operands& operands, char* values, int64_t row, int64_t first,
                       int64_t rows, int64_t count, bool may_stream) const {
  Call call;
  call.count = count;
  call.rows = rows;
  const auto place = [&](int32_t place, int64_t* step) {
    const auto own = static_cast<size_t>(place);
    if (own >= first_between_) {
      *step = count * steps_[own];
      return values + static_cast<int64_t>(own - first_between_) * turn_ * largest_between_;
    }
    *step = operands.row[own];
    return operands.at[own] + row * operands.row[own] + first * steps_[own];
  };
  bool is_aligned = may_stream;
  for (size_t i = 0; i < stage.inputs.size(); ++i) call.inputs[i] = place(stage.inputs[i], &call.input_steps[i]);
  for (size_t k = 0; k < stage.outputs.size(); ++k) {
    call.outputs[k] = place(stage.outputs[k], &call.output_steps[k]);
    is_aligned = is_aligned && reinterpret_cast<uintptr_t>(call.outputs[k]) % 64 == 0 &&
                 (rows == 1 || call.output_steps[k] % 64 == 0);
  }
  (stage.streaming != nullptr && is_aligned ? *stage.streaming : *stage.code).Run(call);
}

}  // namespace tenon::cpu_codegen
