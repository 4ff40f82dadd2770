// SPDX-License-Identifier: Apache-2.0
#include "emit/row_plan.h"

#include <algorithm>

#include "tenon/sdk/kernel/element.h"

namespace tenon::cpu_codegen {
namespace {

class Planner {
 public:
  explicit Planner(const Program& program)
      : program_(program), inputs_(program.inputs.size()), users_(inputs_ + program.nodes.size()) {
    plan_.of_row = program.OfRows();
    for (size_t n = 0; n < program.nodes.size(); ++n)
      for (const int operand : program.nodes[n].operands) users_[static_cast<size_t>(operand)].push_back(n);
  }

  RowPlan Make() {
    PlacePasses();
    Delay();
    FindHomes();
    return std::move(plan_);
  }

 private:
  bool IsElements(size_t value) const { return value >= inputs_ && !plan_.of_row[value]; }
  bool IsOutput(size_t value) const {
    return std::find(program_.outputs.begin(), program_.outputs.end(), static_cast<int>(value)) !=
           program_.outputs.end();
  }

  void PlacePasses() {
    for (size_t n = 0; n < program_.nodes.size(); ++n) {
      int pass = 0;
      for (const int operand : program_.nodes[n].operands) {
        const auto value = static_cast<size_t>(operand);
        if (value < inputs_) continue;
        const bool is_reduced = IsReduction(program_.nodes[value - inputs_].function);
        pass = std::max(pass, plan_.pass[value - inputs_] + (is_reduced ? 1 : 0));
      }
      plan_.pass.push_back(pass);
      const bool reads_row = !plan_.of_row[inputs_ + n] || IsReduction(program_.nodes[n].function);
      plan_.passes = std::max(plan_.passes, pass + (reads_row ? 1 : 0));
    }
  }

  // What only later passes read is computed there, where that keeps no more values than it saves.
  void Delay() {
    for (size_t n = program_.nodes.size(); n-- > 0;) {
      const size_t value = inputs_ + n;
      if (!IsElements(value) || IsOutput(value) || users_[value].empty()) continue;
      int first = plan_.passes;
      for (const size_t user : users_[value]) first = std::min(first, plan_.pass[user]);
      if (first <= plan_.pass[n]) continue;
      int more = 0;
      for (const int operand : program_.nodes[n].operands) {
        const auto from = static_cast<size_t>(operand);
        const auto is_late = [&](size_t user) { return user != n && plan_.pass[user] > plan_.pass[from - inputs_]; };
        if (IsElements(from) && !IsOutput(from) && std::none_of(users_[from].begin(), users_[from].end(), is_late))
          ++more;
      }
      if (more <= 1) plan_.pass[n] = first;
    }
  }

  struct Written {
    size_t value, first;  // the node that writes, and the first node of the last pass that reads
    int begin, end;       // passes
  };
  // Of a value that is kept: from the pass that makes it to the last that reads it.
  Written LifeOf(size_t value) const {
    Written life{value - inputs_, 0, plan_.pass[value - inputs_], plan_.pass[value - inputs_]};
    for (const size_t user : users_[value])
      if (plan_.pass[user] > life.end) life.end = plan_.pass[user], life.first = user;
    return life;
  }
  // Whether the first is read for the last time before the second is written.
  static bool IsBefore(const Written& a, const Written& b) {
    return a.end < b.begin || (a.end == b.begin && a.first <= b.value);
  }

  void FindHomes() {
    plan_.homes.resize(users_.size());
    std::vector<std::vector<Written>> taken(program_.outputs.size());
    for (size_t value = inputs_; value < users_.size(); ++value) {
      if (!IsElements(value)) continue;
      const Written life = LifeOf(value);
      if (life.end == life.begin) continue;
      RowPlan::Home& home = plan_.homes[value];
      const auto output = std::find(program_.outputs.begin(), program_.outputs.end(), static_cast<int>(value));
      home.output = output != program_.outputs.end() ? static_cast<int>(output - program_.outputs.begin())
                                                     : MemoryFor(value, life, taken);
      if (home.output >= 0) continue;
      home.scratch = plan_.scratch_bytes;
      plan_.scratch_bytes +=
          (program_.row * static_cast<int64_t>(sdk::ElementSize(program_.DtypeOf(static_cast<int>(value)))) + 63) / 64 *
          64;
    }
  }
  // A result's memory that is free as long as the value lives.
  int MemoryFor(size_t value, const Written& life, std::vector<std::vector<Written>>& taken) const {
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const auto output = static_cast<size_t>(program_.outputs[k]);
      if (!IsElements(output) || program_.IsSum(static_cast<int>(output)) ||
          sdk::ElementSize(program_.DtypeOf(static_cast<int>(output))) !=
              sdk::ElementSize(program_.DtypeOf(static_cast<int>(value))))
        continue;
      const Written result{output - inputs_, 0, plan_.pass[output - inputs_], plan_.passes};
      const auto is_apart = [&](const Written& other) { return IsBefore(other, life) || IsBefore(life, other); };
      if (!IsBefore(life, result) || !std::all_of(taken[k].begin(), taken[k].end(), is_apart)) continue;
      taken[k].push_back(life);
      return static_cast<int>(k);
    }
    return -1;
  }

  const Program& program_;
  const size_t inputs_;
  std::vector<std::vector<size_t>> users_;  // of values: nodes, rising
  RowPlan plan_;
};

}  // namespace

RowPlan PlanRows(const Program& program) { return Planner(program).Make(); }

bool MayLieInPlace(const Program& program, const RowPlan& plan, int input, int output) {
  const auto inputs = static_cast<int>(program.inputs.size());
  // The first who writes.
  const auto own = static_cast<size_t>(program.outputs[static_cast<size_t>(output)] - inputs);
  if (plan.of_row[own + static_cast<size_t>(inputs)]) return false;
  int first_pass = plan.pass[own];
  size_t writer = own;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    const RowPlan::Home& home = plan.homes[static_cast<size_t>(inputs) + n];
    if (home.output == output && (plan.pass[n] < first_pass || (plan.pass[n] == first_pass && n < writer)))
      first_pass = plan.pass[n], writer = n;
  }
  // In the pass that writes, the input is read once, where it is first needed.
  bool reads_then = false, is_first_before = false;
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    if (std::find(program.nodes[n].operands.begin(), program.nodes[n].operands.end(), input) ==
        program.nodes[n].operands.end())
      continue;
    if (plan.pass[n] > first_pass) return false;
    if (plan.pass[n] < first_pass || reads_then) continue;
    reads_then = true;
    is_first_before = n <= writer;
  }
  return !reads_then || is_first_before;
}

}  // namespace tenon::cpu_codegen
