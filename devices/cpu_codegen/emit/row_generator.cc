// SPDX-License-Identifier: Apache-2.0
// Passes over a row, one for each reduction that waits for another (row_plan.h). Its length is part of the code, so
// that loops, masks and the order of additions are fixed.
//
// Lanes of reductions (reductions.h) stand in registers where the loop can be unrolled as often as they are registers,
// else on the stack. Values of a row fill a register with what each lane would be, and are computed by the same code as
// elements.
#include <memory>
#include <utility>

#include "emit/generator.h"
#include "emit/reductions.h"
#include "emit/row_plan.h"

namespace tenon::cpu_codegen {
namespace {

constexpr int kMostUnrolled = 40;  // nodes of a loop's turn
class RowGenerator : public Reductions {
 public:
  // What a pass needs, as the code without any of it tells.
  struct Pass {
    size_t taken = 0;         // registers at once
    bool unrolls = false;     // lanes stand in registers
    size_t kept = 0;          // values of the row that do
  };
  struct Chosen {
    Held held;
    std::vector<Pass> passes;
  };
  RowGenerator(const Program& program, const RowPlan& plan, uint8_t* buffer, Chosen chosen)
      : Reductions(program, buffer, kMostCode, chosen.held), plan_(plan), chosen_(std::move(chosen)) {
    chosen_.passes.resize(static_cast<size_t>(plan.passes));
    for (size_t v = 0; v < values_.size(); ++v) {
      if (!plan.homes[v].is_kept()) continue;
      values_[v].tail = StackOfValues() + stack_bytes_;
      stack_bytes_ += 64;
    }
  }

  size_t Make() {
    Begin();
    for (size_t v = 0; v < plan_.homes.size(); ++v) {
      const RowPlan::Home& home = plan_.homes[v];
      if (home.output >= 0) places_[v] = results_[Index(home.output)];
      else if (home.scratch >= 0) places_[v] = {offsetof(Call, scratch), -1, static_cast<int32_t>(home.scratch)};
    }
    if (const auto tail = static_cast<uint32_t>(program_.row % lanes_)) {
      mov(ecx, tail);
      MakeMasks();
    }
    Xbyak::Label row, end;
    L(row);
    for (size_t v = 0; v < values_.size(); ++v) values_[v].lasts = false;
    LoadSingles();
    RowNodes(0);
    for (int pass = 0; pass < plan_.passes; ++pass) {
      MakePass(pass);
      RowNodes(pass + 1);
    }
    dec(qword[rdi + offsetof(Call, rows)]);
    jle(end, T_NEAR);
    Advance();
    jmp(row, T_NEAR);
    L(end);
    End();
    return getSize();
  }

  // What the registers that were not needed are used for: lanes, then values of the row, then constants.
  Chosen Best() const {
    Chosen best = chosen_;
    size_t left = owner_.size() - taken_by_rows_;
    for (int p = 0; p < plan_.passes; ++p) {
      Pass& pass = best.passes[Index(p)];
      size_t free = owner_.size() - std::min(owner_.size(), pass.taken);
      int lanes = 0, most = 1, nodes = 0;
      for (const Reduction& reduction : reductions_)
        if (plan_.pass[Index(reduction.node)] == p)
          lanes += CountOf(reduction, FirstBlock()), most = std::max(most, CountOf(reduction, FirstBlock()));
      for (size_t n = 0; n < program_.nodes.size(); ++n) nodes += IsOfPass(static_cast<int>(n), p) ? 1 : 0;
      pass.unrolls = lanes > 0 && static_cast<size_t>(lanes) <= free && (most == 1 || most * nodes <= kMostUnrolled);
      if (pass.unrolls) free -= static_cast<size_t>(lanes);
      pass.kept = std::min(free, LastingOf(p).size());
      left = std::min(left, free - pass.kept);
    }
    best.held.constants = BestConstants(left);
    return best;
  }

 private:
  bool IsOfPass(int node, int pass) const {
    return plan_.pass[Index(node)] == pass &&
           (!plan_.of_row[Index(ValueOf(node))] || IsReduction(program_.nodes[Index(node)].function));
  }
  bool IsRowNode(int node, int pass) const {
    return plan_.pass[Index(node)] == pass && plan_.of_row[Index(ValueOf(node))] &&
           !IsReduction(program_.nodes[Index(node)].function);
  }
  // Values of the row that the pass reads.
  std::vector<int> LastingOf(int pass) const {
    std::vector<int> found;
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n) {
      if (!IsOfPass(n, pass)) continue;
      for (const int operand : program_.nodes[Index(n)].operands)
        if (plan_.of_row[Index(operand)] && std::find(found.begin(), found.end(), operand) == found.end())
          found.push_back(operand);
    }
    return found;
  }
  // From here on values are read by these nodes alone.
  template <class Is>
  void Reads(const Is& is) {
    for (Value& value : values_) value.uses.clear();
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n)
      if (is(n))
        for (const int operand : program_.nodes[Index(n)].operands) values_[Index(operand)].uses.push_back(n);
  }

  // ---- Values of the row ----

  void RowNodes(int pass) {
    const auto is = [&](int node) { return IsRowNode(node, pass); };
    Reads(is);
    Forget();
    const size_t before = std::exchange(most_taken_, 0);
    for (node_ = 0; node_ < static_cast<int>(program_.nodes.size()); ++node_) {
      if (!is(node_)) continue;
      Emit(program_.nodes[Index(node_)], ValueOf(node_));
      Keep(ValueOf(node_));
      ReleaseUnused();
    }
    taken_by_rows_ = std::max(taken_by_rows_, most_taken_);
    most_taken_ = std::max(before, most_taken_);
  }
  // The value, which is in its register, lasts for the row; a result has its one element.
  void Keep(int v) {
    Value& value = values_[Index(v)];
    vmovups(Slot(v), R(value.reg, SizeOf(value.dtype)));
    value.has_slot = value.lasts = true;
    const auto output = std::find(program_.outputs.begin(), program_.outputs.end(), v);
    if (output == program_.outputs.end()) return;
    StoreTo(Scratch(), R(value.reg, SizeOf(value.dtype)), value.dtype);
    mov(rcx, Scratch());
    mov(rax, ptr[rdi + results_[Index(static_cast<int>(output - program_.outputs.begin()))].offset]);
    switch (BytesOf(value.dtype)) {
      case 1: mov(ptr[rax], cl); break;
      case 2: mov(ptr[rax], cx); break;
      case 4: mov(ptr[rax], ecx); break;
      default: mov(ptr[rax], rcx);
    }
  }

  // ---- Passes ----

  void MakePass(int pass) {
    pass_ = pass;
    Reads([&](int node) { return IsOfPass(node, pass); });
    Forget();
    Pass& own = chosen_.passes[Index(pass)];
    const size_t before = std::exchange(most_taken_, 0);
    std::vector<int> kept = LastingOf(pass);
    kept.resize(std::min(kept.size(), own.kept));
    for (const int v : kept) {
      Value& value = values_[Index(v)];
      value.reg = Take(v);
      vmovups(R(value.reg, SizeOf(value.dtype)), Slot(v));
      owner_[Index(value.reg)] = kKept;
      value.is_kept = true;
    }
    const bool reduces = std::any_of(reductions_.begin(), reductions_.end(), [&](const Reduction& reduction) {
      return plan_.pass[Index(reduction.node)] == pass;
    });
    xor_(r15d, r15d);
    if (reduces) {
      Blocks();
    } else {
      Elements(program_.row, 1);
    }
    own.taken = std::max(own.taken, most_taken_);
    most_taken_ = std::max(before, most_taken_);
    for (const int v : kept) {
      values_[Index(v)].is_kept = false;
      owner_[Index(values_[Index(v)].reg)] = kFree;
    }
    Forget();
  }

  // `count` elements from r15 on, of which it is behind them afterwards; so many registers of them a turn.
  void Elements(int64_t count, int unrolled) {
    const int64_t vectors = count / lanes_, turns = vectors / unrolled, walked = turns * unrolled * lanes_;
    const auto turn = [&] {
      for (int i = 0; i < unrolled; ++i) Body(i, false);
      add(r15, unrolled * lanes_);
    };
    if (turns > 1) {
      Xbyak::Label loop;
      lea(rcx, ptr[r15 + static_cast<int>(walked)]);
      align(32);
      L(loop);
      turn();
      cmp(r15, rcx);
      jl(loop, T_NEAR);
    } else if (turns == 1) {
      turn();
    }
    for (int i = 0; i < vectors % unrolled; ++i) Body(i, false);
    if (count % lanes_ != 0) Body(static_cast<int>(vectors % unrolled), true);
    at_ = 0;
    if (count > walked) add(r15, static_cast<int>(count - walked));
  }

  // i: of the turn's registers.
  void Body(int i, bool masked) {
    masked_ = masked;
    at_ = i * lanes_;
    Forget();
    for (node_ = 0; node_ < static_cast<int>(program_.nodes.size()); ++node_) {
      if (!IsOfPass(node_, pass_)) continue;
      const Node& node = program_.nodes[Index(node_)];
      const int result = ValueOf(node_);
      if (IsReduction(node.function)) {
        Accumulate(*std::find_if(reductions_.begin(), reductions_.end(),
                                 [&](const Reduction& each) { return each.node == node_; }),
                   i);
      } else {
        Emit(node, result);
        StoreElements(result);
      }
      ReleaseUnused();
    }
  }
  // Where it is a result, and where later passes find it. The last elements wait on the stack: what was written with a
  // mask a processor cannot read again before it has left for the cache.
  void StoreElements(int v) {
    const Value& value = values_[Index(v)];
    if (masked_ && value.tail >= 0) vmovups(ptr[rsp + value.tail], R(value.reg, SizeOf(value.dtype)));
    const auto output = std::find(program_.outputs.begin(), program_.outputs.end(), v);
    if (output != program_.outputs.end())
      Store(v, results_[Index(static_cast<int>(output - program_.outputs.begin()))]);
    else if (value.tail >= 0 && !masked_) Store(v, places_[Index(v)]);
  }

  // ---- Reductions ----

  // Those of the pass.
  template <class Do>
  void EachReduction(const Do& act) {
    for (Reduction& reduction : reductions_)
      if (plan_.pass[Index(reduction.node)] == pass_) act(reduction);
  }

  void Blocks() {
    const int64_t whole = program_.row / kReducedBlock, rest = program_.row % kReducedBlock;
    const bool are_many = program_.row > kReducedBlock;
    if (are_many) EachReduction([&](Reduction& reduction) { BeginTotal(reduction); });
    const auto block = [&](int64_t count) {
      Block(count);
      EachReduction([&](Reduction& reduction) {
        const Scope scope(this);
        are_many ? AddToTotal(reduction) : Finish(reduction, Folded(reduction), SizeOf(OperandType(reduction)));
      });
      EachReduction([&](Reduction& reduction) { FreeLanes(reduction); });
      Forget();
    };
    if (whole > 1) {
      Xbyak::Label next;
      L(next);
      block(kReducedBlock);
      cmp(r15, static_cast<int>(whole * kReducedBlock));
      jl(next, T_NEAR);
    } else if (whole == 1) {
      block(kReducedBlock);
    }
    if (rest > 0) block(rest);
    if (are_many) EachReduction([&](Reduction& reduction) { FinishTotal(reduction); });
  }

  void Block(int64_t count) {
    const bool in_registers = chosen_.passes[Index(pass_)].unrolls;
    int most = 1;
    EachReduction([&](Reduction& reduction) {
      BeginLanes(reduction, count, in_registers);
      most = std::max(most, reduction.count);
    });
    Elements(count, in_registers ? most : 1);
    Forget();
  }
  void FinishTotal(Reduction& reduction) {
    const Scope scope(this);
    const Xmm x = Scalar();
    LoadTotal(reduction, x);
    Finish(reduction, x, SizeOfTotal(reduction));
  }
  // x is a number of `size` bytes, which becomes the value of the row.
  void Finish(Reduction& reduction, const Xmm& x, int size) {
    const Scope scope(this);
    SpreadValue(reduction, x, size);
    Keep(ValueOf(reduction.node));
    Release(ValueOf(reduction.node));
  }

  const RowPlan& plan_;
  Chosen chosen_;
  int pass_ = 0;
  size_t taken_by_rows_ = 0;
};

}  // namespace

std::vector<uint8_t> GenerateRows(const Program& program) {
  const RowPlan plan = PlanRows(program);
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kMostCode);
  try {
    RowGenerator first(program, plan, buffer.get(), {});
    first.Make();
    RowGenerator second(program, plan, buffer.get(), first.Best());
    const size_t size = second.Make();
    return {buffer.get(), buffer.get() + size};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace tenon::cpu_codegen
