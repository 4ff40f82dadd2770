// SPDX-License-Identifier: Apache-2.0
// Reductions of a row. Lanes are those of devices/cpu's kernels, whatever registers there are: 16 in short blocks, 64
// in long ones, element i in lane i % 64; halves of the lanes are combined until one is left; blocks are added in
// double. So results have the kernels' bits, and hang neither on threads nor on where a row lies.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_REDUCTIONS_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_REDUCTIONS_H_

#include "emit/nodes.h"
#include "emit/row_plan.h"

namespace tenon::cpu_codegen {

class Reductions : public Nodes {
 protected:
  static constexpr int kMostLanes = 64, kFewLanes = 16;

  // Elements of a block from which on it has many lanes.
  static int64_t ManyFrom(Function function) {
    switch (function) {
      case Function::kSum: case Function::kMean: return 512;
      case Function::kProd: return 128;
      default: return kMostLanes;
    }
  }

  Reductions(const Program& program, uint8_t* buffer, size_t size, const Held& held)
      : Nodes(program, buffer, size, held) {
    for (size_t n = 0; n < program.nodes.size(); ++n)
      if (IsReduction(program.nodes[n].function)) reductions_.push_back({static_cast<int>(n), 0, {}});
    lane_bytes_ = 64 * kMostLanes / lanes_;
    stack_bytes_ = static_cast<int>(reductions_.size()) * (lane_bytes_ + 64);
  }

  struct Reduction {
    int node;
    int count;              // registers of lanes in this block
    std::vector<int> regs;  // those, where they are not on the stack
  };
  const Node& NodeOf(const Reduction& reduction) const { return program_.nodes[Index(reduction.node)]; }
  uint32_t OperandType(const Reduction& reduction) const { return program_.DtypeOf(NodeOf(reduction).operands[0]); }
  int ValueOf(int node) const { return static_cast<int>(program_.inputs.size()) + node; }
  int64_t FirstBlock() const { return std::min(program_.row, kReducedBlock); }
  int CountOf(const Reduction& reduction, int64_t elements) const {
    return (elements < ManyFrom(NodeOf(reduction).function) ? kFewLanes : kMostLanes) / lanes_;
  }
  // Where a reduction's lanes and its sum of blocks are on the stack.
  int LanesAt(const Reduction& reduction) const {
    return StackOfValues() + static_cast<int>(&reduction - reductions_.data()) * (lane_bytes_ + 64);
  }
  Address Total(const Reduction& reduction) const { return ptr[rsp + LanesAt(reduction) + lane_bytes_]; }

  // ---- A block ----

  // Lanes that have taken nothing yet.
  void BeginLanes(Reduction& reduction, int64_t count, bool in_registers) {
    const Node& node = NodeOf(reduction);
    reduction.count = CountOf(reduction, count);
    size_ = SizeOf(OperandType(reduction));
    if (in_registers) {
      for (int i = 0; i < reduction.count; ++i) {
        reduction.regs.push_back(Take(kKept));
        Neutral(node.function, OperandType(reduction), R(reduction.regs.back(), size_));
      }
      return;
    }
    const Scope scope(this);
    const Xmm first = T();
    Neutral(node.function, OperandType(reduction), first);
    for (int i = 0; i < reduction.count; ++i) vmovups(ptr[rsp + LanesAt(reduction) + 64 * i], first);
  }
  void FreeLanes(Reduction& reduction) {
    for (const int reg : reduction.regs) owner_[Index(reg)] = kFree;
    reduction.regs.clear();
  }

  // What changes nothing, in all lanes.
  void Neutral(Function f, uint32_t dtype, const Xmm& d) {
    using enum Function;
    const auto fill = [&](const Lanes& constant) { Fill(d, constant); };
    if (f == kSum || f == kMean) return Zero(d);
    if (f == kProd) return fill(IsInteger(dtype) ? I(1) : C(1));
    const bool least = f == kMax || f == kLargest;
    if (!IsInteger(dtype))
      return fill(C(least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity()));
    if (size_ == 8) return fill(I(least ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max()));
    fill(I(least ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max()));
  }

  // d = a and then b. d may be either.
  void Combine(Function f, bool is_integer, const Xmm& d, const Xmm& a, const Xmm& b) {
    using enum Function;
    const Scope scope(this);
    next_mask_ = 2;
    if (f == kSum || f == kMean) return is_integer ? PlusI(d, a, b) : Plus(d, a, b);
    if (f == kProd) return is_integer ? TimesI(d, a, b) : Times(d, a, b);
    if (f == kLargest) return Max(d, b, a);  // a where b is NaN
    const Xmm t = T();
    if (is_integer) {
      f == kMax ? MaxI(t, a, b) : MinI(t, a, b);
      return Move(d, t);
    }
    // b where they are alike or either is NaN; a where that is.
    const Mask nan = Compare(a, a, kIsUnordered);
    f == kMax ? Max(t, a, b) : Min(t, a, b);
    Choose(t, nan, a);
    Move(d, t);
  }

  // The elements at hand into the lanes. i: of the turn's registers.
  void Accumulate(Reduction& reduction, int i) {
    const Node& node = NodeOf(reduction);
    const uint32_t dtype = OperandType(reduction);
    const int from = Use(node.operands[0]);
    size_ = SizeOf(dtype);
    const Xmm x = R(from, size_);
    const bool on_stack = reduction.regs.empty();
    const Xmm lanes = on_stack ? T() : R(reduction.regs[Index(i % reduction.count)], size_);
    Address memory = ptr[rsp + LanesAt(reduction)];
    if (on_stack) {
      if (reduction.count > 1) {
        mov(rax, r15);
        shl(rax, std::countr_zero(static_cast<uint32_t>(64 / lanes_)));
        and_(eax, 64 * (reduction.count - 1));
        memory = ptr[rsp + rax + LanesAt(reduction)];
      }
      vmovups(lanes, memory);
    }
    if (!masked_) {
      Combine(node.function, IsInteger(dtype), lanes, lanes, x);
    } else {
      const Xmm t = T();
      Combine(node.function, IsInteger(dtype), t, lanes, x);
      if (wide_) size_ == 8 ? vmovapd(lanes | k1, t) : vmovaps(lanes | k1, t);
      else if (size_ == 8) vblendvpd(lanes, lanes, t, R(kMask8, 8));
      else vblendvps(lanes, lanes, t, R(kMask4, 4));
    }
    if (on_stack) vmovups(memory, lanes);
  }

  // The lanes to one, which is the first of the register.
  Xmm Folded(Reduction& reduction) {
    const Function f = NodeOf(reduction).function;
    const uint32_t dtype = OperandType(reduction);
    const bool is_integer = IsInteger(dtype);
    size_ = SizeOf(dtype);
    std::vector<Xmm> all;
    if (reduction.regs.empty()) {
      // Half of them at a time: there may be more than registers.
      const auto at = [&](int i) { return ptr[rsp + LanesAt(reduction) + 64 * i]; };
      for (int half = reduction.count / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) {
          const Scope scope(this);
          const Xmm a = T(), b = T();
          vmovups(a, at(i));
          vmovups(b, at(i + half));
          Combine(f, is_integer, a, a, b);
          vmovups(at(i), a);
        }
      all.push_back(T());
      vmovups(all[0], at(0));
    } else {
      for (const int reg : reduction.regs) all.push_back(R(reg, size_));
      for (int half = reduction.count / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) Combine(f, is_integer, all[Index(i)], all[Index(i)], all[Index(i + half)]);
    }
    // What stands in the other lanes of either does not matter.
    const Xmm x = all[0], other = T();
    const Xmm low(x.getIdx()), high(other.getIdx());
    const auto combine = [&] { Combine(f, is_integer, x, x, other); };
    if (x.isZMM()) {
      vextractf64x4(Xbyak::Ymm(other.getIdx()), Xbyak::Zmm(x.getIdx()), 1);
      combine();
    }
    if (!x.isXMM()) {
      const Xbyak::Ymm both(x.getIdx());
      wide_ ? vextractf32x4(high, both, 1) : vextractf128(high, both, 1);
      combine();
    }
    if (size_ == 8) {
      vunpckhpd(high, low, low);
      combine();
      return low;
    }
    vmovhlps(high, low, low);
    combine();
    vmovshdup(high, low);
    combine();
    return low;
  }

  static bool IsSum(Function f) { return f == Function::kSum || f == Function::kMean; }
  // Sums of blocks of floats are added in double.
  bool IsTotalDouble(const Reduction& reduction) const {
    return IsSum(NodeOf(reduction).function) && !IsInteger(OperandType(reduction));
  }
  int SizeOfTotal(const Reduction& reduction) const {
    return IsTotalDouble(reduction) ? 8 : SizeOf(OperandType(reduction));
  }

  Xmm Scalar() { return Xmm(Take(kTemporary)); }
  void LoadTotal(const Reduction& reduction, const Xmm& x) {
    SizeOfTotal(reduction) == 8 ? vmovsd(x, Total(reduction)) : vmovss(x, Total(reduction));
  }
  void StoreTotal(const Reduction& reduction, const Xmm& x) {
    SizeOfTotal(reduction) == 8 ? vmovsd(Total(reduction), x) : vmovss(Total(reduction), x);
  }

  void BeginTotal(Reduction& reduction) {
    const Scope scope(this);
    size_ = SizeOf(OperandType(reduction));
    const Xmm x = T();
    Neutral(NodeOf(reduction).function, OperandType(reduction), x);
    StoreTotal(reduction, Xmm(x.getIdx()));
  }
  void AddToTotal(Reduction& reduction) {
    const Scope scope(this);
    const Xmm x = Folded(reduction);
    const Xmm total = Scalar();
    LoadTotal(reduction, total);
    if (IsTotalDouble(reduction)) {
      if (size_ == 4) vcvtss2sd(x, x, x);
      vaddsd(total, total, x);
    } else {
      Combine(NodeOf(reduction).function, IsInteger(OperandType(reduction)), R(total.getIdx(), size_),
              R(total.getIdx(), size_), R(x.getIdx(), size_));
    }
    StoreTotal(reduction, total);
  }

  // x is a number of `size` bytes, of a sum of floats perhaps a double; the value of the row is it in all lanes.
  void SpreadValue(const Reduction& reduction, const Xmm& x, int size) {
    const Node& node = NodeOf(reduction);
    next_mask_ = 2;
    if (node.function == Function::kMean) Divide(x, static_cast<double>(program_.row), size);
    if (SizeOf(node.dtype) < size) vcvtsd2ss(x, x, x);
    size_ = SizeOf(node.dtype);
    Value& value = values_[Index(ValueOf(reduction.node))];
    value.reg = Take(ValueOf(reduction.node));
    const Xmm all = R(value.reg, size_);
    if (size_ == 4) vbroadcastss(all, x);
    else all.isZMM() ? vbroadcastsd(Xbyak::Zmm(value.reg), x) : vbroadcastsd(Xbyak::Ymm(value.reg), x);
    if (IsHalf(node.dtype)) RoundTo(node.dtype, all);
  }
  // Of one block, whose number of elements is a float, the quotient of floats is the rounded one of doubles.
  void Divide(const Xmm& x, double count, int size) {
    const Xmm by = Scalar();
    if (size == 8) {
      mov(rax, std::bit_cast<uint64_t>(count));
      vmovq(by, rax);
      return vdivsd(x, x, by);
    }
    mov(eax, std::bit_cast<uint32_t>(static_cast<float>(count)));
    vmovd(by, eax);
    vdivss(x, x, by);
  }

  std::vector<Reduction> reductions_;
  int lane_bytes_ = 0;  // of a reduction's lanes on the stack
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_REDUCTIONS_H_
