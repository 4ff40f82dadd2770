// SPDX-License-Identifier: Apache-2.0
// What each node computes.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_NODES_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_NODES_H_

#include "emit/frame.h"

namespace tenon::cpu_codegen {

class Nodes : public Frame {
 protected:
  using Frame::Frame;

  // The node's value in a register.
  void Emit(const Node& node, int result) {
    next_mask_ = 2;
    EmitNode(node, result);
    FreeTemporaries(0);
  }
  void EmitNode(const Node& node, int result) {
    std::vector<int> regs;
    for (const int operand : node.operands) regs.push_back(Use(operand));
    const uint32_t type = values_[Index(node.operands[0])].dtype;
    Value& value = values_[Index(result)];
    value.reg = Take(result);
    const auto operand = [&](size_t i) { return R(regs[i], SizeOf(values_[Index(node.operands[i])].dtype)); };
    const Xmm d = R(value.reg, SizeOf(node.dtype));
    size_ = SizeOf(type);
    if (node.function == Function::kCast) return Convert(d, operand(0), type, node.dtype);
    if (node.function == Function::kNumber) {
      size_ = SizeOf(node.dtype);
      return Fill(d, IsInteger(node.dtype) ? I(static_cast<int64_t>(node.number)) : C(node.number));
    }
    if (node.function == Function::kSelect) {
      size_ = SizeOf(node.dtype);
      const Mask mask = FromTruths(operand(0));
      Move(d, operand(2));
      return Choose(d, mask, operand(1));
    }
    if (type == TENON_DT_BOOL) return EmitTruths(node.function, d, operand);
    if (IsInteger(type)) {
      IsQuestion(node.function) ? Ask(node.function, d, operand(0), operand(1), true) : EmitIntegers(node, d, operand);
      return;
    }
    if (IsQuestion(node.function)) return Ask(node.function, d, operand(0), operand(node.operands.size() - 1), false);
    EmitReals(node, d, operand);
    if (IsHalf(node.dtype) && !IsExact(node.function)) RoundTo(node.dtype, d);
  }
  static bool IsQuestion(Function f) {
    using enum Function;
    return (f >= kEqual && f <= kGreaterEqual) || f == kIsNan || f == kIsInf || f == kIsFinite;
  }
  // Of halves the result is one.
  static bool IsExact(Function f) {
    using enum Function;
    return f == kNeg || f == kAbs || f == kSign || f == kMaximum || f == kMinimum || f == kRelu || f == kClip ||
           f == kAddN;
  }

  void Ask(Function f, const Xmm& d, const Xmm& x, const Xmm& y, bool is_integer) {
    using enum Function;
    if (is_integer) {
      const bool swapped = f == kLess || f == kGreaterEqual,
                 negated = f == kNotEqual || f == kLessEqual || f == kGreaterEqual;
      ToTruths(d, f == kEqual || f == kNotEqual ? IsEqualI(x, y) : swapped ? IsGreaterI(y, x) : IsGreaterI(x, y));
      size_ = 4;
      if (negated) vxorps(d, d, I(-1));
      return;
    }
    if (f == kIsInf || f == kIsFinite) {
      const Xmm t = T();
      Magnitude(t, x);
      return ToTruths(d, Compare(t, C(std::numeric_limits<double>::infinity()), f == kIsInf ? kIsEqual : kIsLess));
    }
    const Predicate predicate = f == kEqual     ? kIsEqual
                                : f == kNotEqual  ? kIsNotEqual
                                : f == kLess      ? kIsLess
                                : f == kLessEqual ? kIsLessEqual
                                : f == kGreater   ? kIsGreater
                                : f == kIsNan     ? kIsUnordered
                                                  : kIsGreaterEqual;
    ToTruths(d, Compare(x, y, predicate));
  }
  template <class Operands>
  void EmitTruths(Function f, const Xmm& d, const Operands& x) {
    using enum Function;
    size_ = 4;
    if (f == kNot) return vxorps(d, x(0), I(-1));
    if (f == kAnd) return vandps(d, x(0), x(1));
    if (f == kOr) return vorps(d, x(0), x(1));
    vxorps(d, x(0), x(1));  // whether they differ
    if (f == kEqual) vxorps(d, d, I(-1));
  }

  template <class Operands>
  void EmitIntegers(const Node& node, const Xmm& d, const Operands& x) {
    using enum Function;
    const auto zero = [&] {
      const Xmm t = T();
      Zero(t);
      return t;
    };
    switch (node.function) {
      case kNeg: return MinusI(d, zero(), x(0));
      case kAbs: {
        const Xmm t = zero();
        if (size_ == 4) return vpabsd(d, x(0));
        if (wide_) return vpabsq(d, x(0));
        vpsubq(d, t, x(0));
        return vblendvpd(d, x(0), d, x(0));  // by its sign
      }
      case kSign: {
        const Xmm t = zero(), one = Filled(I(1)), less = Filled(I(-1));
        Zero(d);
        Choose(d, IsGreaterI(x(0), t), one);
        return Choose(d, IsGreaterI(t, x(0)), less);
      }
      case kSquare: return TimesI(d, x(0), x(0));
      case kAdd: return PlusI(d, x(0), x(1));
      case kSub: return MinusI(d, x(0), x(1));
      case kMul: return TimesI(d, x(0), x(1));
      case kMaximum: return MaxI(d, x(0), x(1));
      case kMinimum: return MinI(d, x(0), x(1));
      case kSquaredDifference:
        MinusI(d, x(0), x(1));
        return TimesI(d, d, d);
      case kRelu: return MaxI(d, x(0), zero());
      case kRelu6: {
        const Xmm t = T();
        MaxI(t, x(0), zero());
        return MinI(d, t, Filled(I(6)));
      }
      case kReluGrad: {
        const Xmm one = Filled(I(1));
        Pass(d, IsGreaterI(x(1), zero()), one);
        return TimesI(d, d, x(0));
      }
      case kRelu6Grad: {
        const Xmm one = Filled(I(1)), six = Filled(I(6));
        Pass(d, IsGreaterI(x(1), zero()), one);
        Pass(d, IsGreaterI(six, x(1)), d);
        return TimesI(d, d, x(0));
      }
      case kClip: {
        const Xmm t = T();
        MinI(t, x(0), x(2));
        return MaxI(d, t, x(1));
      }
      case kAddN:
        PlusI(d, x(0), x(1));
        for (size_t i = 2; i < node.operands.size(); ++i) PlusI(d, d, x(i));
        return;
      default: throw Xbyak::Error(Xbyak::ERR_INTERNAL);
    }
  }

  template <class Operands>
  void EmitReals(const Node& node, const Xmm& d, const Operands& x) {
    using enum Function;
    const auto zero = [&] {
      const Xmm t = T();
      Zero(t);
      return t;
    };
    const auto one = [&] { return Filled(C(1)); };
    const auto not_where_zero = [&](const Xmm& of) { Pass(d, Compare(of, zero(), kIsNotEqual), d); };
    switch (node.function) {
      case kNeg: return Xor(d, x(0), SignBit());
      case kAbs: return Magnitude(d, x(0));
      case kSign: {
        const Xmm none = zero();
        Choose(Moved(d, x(0)), Compare(x(0), none, kIsEqual), none);
        Choose(d, Compare(x(0), none, kIsGreater), C(1));
        return Choose(d, Compare(x(0), none, kIsLess), C(-1));
      }
      case kSquare: return Times(d, x(0), x(0));
      case kReciprocal: return Over(d, one(), x(0));
      case kSqrt: return Root(d, x(0));
      case kRsqrt: {
        const Xmm t = T();
        Root(t, x(0));
        return Over(d, one(), t);
      }
      case kFloor: return Whole(d, x(0), kDown);
      case kCeil: return Whole(d, x(0), kUp);
      case kRound: return Whole(d, x(0), kNearest);
      case kExp: return Exponential(d, x(0));
      case kExpm1: return ExponentialLessOne(d, x(0));
      case kLog: return Logarithm(d, x(0));
      case kLog1p: return LogarithmOfMore(d, x(0));
      case kTanh: return HyperbolicTangent(d, x(0));
      case kSigmoid: return Logistic(d, x(0));
      case kErf: return ErrorFunction(d, x(0));
      case kRelu: return Pass(d, Compare(x(0), zero(), kIsNotLessEqual), x(0));
      case kRelu6: {
        const Xmm t = zero();
        Max(t, t, x(0));
        return Min(d, Filled(C(6)), t);
      }
      case kLeakyRelu:
        Times(d, x(0), C(node.number));
        return Choose(d, Compare(x(0), zero(), kIsGreater), x(0));
      case kElu: case kSelu: {
        const Xmm t = T(), none = zero();
        Min(t, x(0), none);
        ExponentialLessOne(d, t);
        if (node.function == kElu) {
          Move(t, x(0));
        } else {
          Times(d, d, C(1.7580993408473768599402175208123));
          Times(t, x(0), C(1.0507009873554804934193349852946));
        }
        Choose(t, Compare(x(0), none, kIsLess), d);
        return Move(d, t);
      }
      case kSoftplus: {
        const Xmm small = T();
        Exponential(small, x(0));
        LogarithmOfMore(d, small);
        Choose(d, Compare(x(0), C(static_cast<float>(-13.942385)), kIsLess), small);
        return Choose(d, Compare(x(0), C(-static_cast<float>(-13.942385)), kIsGreater), x(0));
      }
      case kSoftsign: {
        const Xmm t = T();
        Magnitude(t, x(0));
        Plus(t, t, C(1));
        return Over(d, x(0), t);
      }
      case kAdd: return Plus(d, x(0), x(1));
      case kSub: return Minus(d, x(0), x(1));
      case kMul: return Times(d, x(0), x(1));
      case kDiv: return Over(d, x(0), x(1));
      case kMaximum: case kMinimum:
        node.function == kMaximum ? Max(d, x(0), x(1)) : Min(d, x(0), x(1));  // y where one is NaN
        return Choose(d, Compare(x(0), x(0), kIsUnordered), x(0));
      case kSquaredDifference:
        Minus(d, x(0), x(1));
        return Times(d, d, d);
      case kFloorDiv: case kTruncateDiv:
        Over(d, x(0), x(1));
        if (IsHalf(node.dtype)) RoundTo(node.dtype, d);
        return Whole(d, d, node.function == kFloorDiv ? kDown : kToZero);
      case kDivNoNan:
        Over(d, x(0), x(1));
        return not_where_zero(x(1));
      case kMulNoNan:
        Times(d, x(0), x(1));
        return not_where_zero(x(1));
      case kXdivy:
        Over(d, x(0), x(1));
        return not_where_zero(x(0));
      case kXlogy:
        Logarithm(d, x(1));
        Times(d, d, x(0));
        return not_where_zero(x(0));
      case kTanhGrad: {  // dy (1 - y^2)
        const Xmm t = Copied(C(1));
        MinusProduct(t, x(0), x(0));  // rounded once, as compilers do it
        return Times(d, x(1), t);
      }
      case kSigmoidGrad: {  // dy y (1 - y)
        const Xmm t = T();
        Minus(t, one(), x(0));
        Times(d, x(1), x(0));
        return Times(d, d, t);
      }
      case kSqrtGrad:  // dy / 2 / y
        Times(d, x(1), C(0.5));
        Over(d, d, x(0));
        return not_where_zero(x(1));
      case kRsqrtGrad: {  // -dy / 2 y (y^2)
        const Xmm t = T();
        Times(d, x(1), C(-0.5));
        Times(d, d, x(0));
        Times(t, x(0), x(0));
        Times(d, d, t);
        return not_where_zero(x(1));
      }
      case kReciprocalGrad: {  // -y y dy
        const Xmm t = T();
        Xor(t, x(0), SignBit());
        Times(d, t, x(0));
        Times(d, d, x(1));
        return not_where_zero(x(1));
      }
      case kReluGrad:
      case kRelu6Grad: {  // a product with 0, or what came: of that a product with 1 would be 0 below the smallest
                          // normal number
        const Xmm t = Copied(C(1));
        Pass(t, Compare(x(1), zero(), kIsGreater), t);
        if (node.function == kRelu6Grad) Pass(t, Compare(x(1), C(6), kIsLess), t);
        Times(d, x(0), t);
        return Choose(d, Compare(t, zero(), kIsGreater), x(0));
      }
      case kLeakyReluGrad:
        Times(d, x(0), C(node.number));
        return Choose(d, Compare(x(1), zero(), kIsGreater), x(0));
      case kEluGrad: {
        const Xmm t = T();
        Plus(t, x(1), C(1));
        Times(t, x(0), t);
        return Choose(Moved(d, x(0)), Compare(x(1), zero(), kIsLess), t);
      }
      case kSeluGrad: {
        const Xmm t = T();
        Plus(t, x(1), C(1.7580993408473768599402175208123));
        Times(t, x(0), t);
        Times(d, x(0), C(1.0507009873554804934193349852946));
        return Choose(d, Compare(x(1), zero(), kIsLess), t);
      }
      case kSoftplusGrad: {  // dy / (e^-x + 1)
        const Xmm t = T();
        OneAndExponentialOfLess(t, x(1));
        Over(d, x(0), t);
        return Choose(d, Compare(x(1), C(105), kIsGreater), x(0));  // as the kernel has it
      }
      case kSoftsignGrad: {  // dy / (1 + |x|)^2
        const Xmm t = T();
        Magnitude(t, x(1));
        Plus(t, t, C(1));
        Times(t, t, t);
        return Over(d, x(0), t);
      }
      case kClip: {
        const Xmm t = T();
        Min(t, x(2), x(0));  // of a bound that is NaN the value
        return Max(d, x(1), t);
      }
      case kPlusProduct:
        Move(d, x(2));
        return PlusProduct(d, x(0), x(1));
      case kProductMinus:
        Move(d, x(2));
        return ProductMinus(d, x(0), x(1));
      case kMinusProduct:
        Move(d, x(2));
        return MinusProduct(d, x(0), x(1));
      case kAddN:
        Plus(d, x(0), x(1));
        if (IsHalf(node.dtype)) RoundTo(node.dtype, d);
        for (size_t i = 2; i < node.operands.size(); ++i) {
          Plus(d, d, x(i));
          if (IsHalf(node.dtype)) RoundTo(node.dtype, d);
        }
        return;
      default: throw Xbyak::Error(Xbyak::ERR_INTERNAL);
    }
  }
  const Xmm& Moved(const Xmm& d, const Xmm& x) {
    Move(d, x);
    return d;
  }

  void Convert(const Xmm& d, const Xmm& x, uint32_t from, uint32_t to) {
    if (to == TENON_DT_BOOL) return ConvertToTruths(d, x, from);
    if (from == TENON_DT_BOOL) {
      size_ = SizeOf(to);
      if (size_ == 8) {
        vpmovsxdq(d, x);
        return And(d, d, to == TENON_DT_INT64 ? I(1) : C(1));
      }
      return And(d, x, to == TENON_DT_INT32 ? I(1) : C(1));
    }
    const bool to_integer = IsInteger(to), from_integer = IsInteger(from);
    const int wide_from = SizeOf(from), wide_to = SizeOf(to);
    if (from_integer && to_integer) {
      if (wide_from == wide_to) return Move(d, x);
      if (wide_to == 8) return vpmovsxdq(d, x);
      if (wide_) return vpmovqd(d, x);
      vextractf128(d, Xbyak::Ymm(x.getIdx()), 1);
      return vshufps(d, Xmm(x.getIdx()), d, 0x88);
    }
    if (to_integer) {
      if (wide_from == 4) return wide_to == 4 ? vcvttps2dq(d, x) : vcvttps2qq(d, x);
      return wide_to == 4 ? vcvttpd2dq(d, x) : vcvttpd2qq(d, x);
    }
    if (from_integer) {
      if (wide_from == 4) {
        wide_to == 4 ? vcvtdq2ps(d, x) : vcvtdq2pd(d, x);
      } else {
        wide_to == 4 ? vcvtqq2ps(d, x) : vcvtqq2pd(d, x);
      }
    } else if (wide_from == wide_to) {
      Move(d, x);
    } else {
      wide_to == 8 ? vcvtps2pd(d, x) : vcvtpd2ps(d, x);
    }
    size_ = 4;
    if (IsHalf(to) && to != from) RoundTo(to, d);
  }
  void ConvertToTruths(const Xmm& d, const Xmm& x, uint32_t from) {
    if (from == TENON_DT_BOOL) return Move(d, x);
    const Xmm none = T();
    Zero(none);
    if (!IsInteger(from)) return ToTruths(d, Compare(x, none, kIsNotEqual));
    ToTruths(d, IsEqualI(x, none));
    size_ = 4;
    vxorps(d, d, I(-1));
  }
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_NODES_H_
