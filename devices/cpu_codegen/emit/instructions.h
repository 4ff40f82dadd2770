// SPDX-License-Identifier: Apache-2.0
// Instructions of either level, of the size that the values at hand have.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_INSTRUCTIONS_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_INSTRUCTIONS_H_

#include "emit/registers.h"

namespace tenon::cpu_codegen {

// Comparisons, as the instructions number them. Of NaN: false, but for the two that say "not".
enum Predicate : uint8_t {
  kIsEqual = 0,
  kIsLess = 17,
  kIsLessEqual = 18,
  kIsUnordered = 3,
  kIsNotEqual = 4,
  kIsNotLessEqual = 22,
  kIsOrdered = 7,
  kIsGreaterEqual = 29,
  kIsGreater = 30
};
inline constexpr uint8_t kNearest = 0, kDown = 1, kUp = 2,
                         kToZero = 3;  // of roundings; without a report of what was lost
inline constexpr uint8_t kQuiet = 8;

class Instructions : public Registers {
 protected:
  using Registers::Registers;

#define TENON_OF_REALS(Name, instruction)                             \
  void Name(const Xmm& d, const Xmm& a, const Operand& b) {           \
    size_ == 8 ? instruction##pd(d, a, b) : instruction##ps(d, a, b); \
  }
  TENON_OF_REALS(Plus, vadd)
  TENON_OF_REALS(Minus, vsub)
  TENON_OF_REALS(Times, vmul)
  TENON_OF_REALS(Over, vdiv)
  TENON_OF_REALS(Max, vmax)  // a > b ? a : b
  TENON_OF_REALS(Min, vmin)  // a < b ? a : b
  TENON_OF_REALS(And, vand)
  TENON_OF_REALS(AndNot, vandn)
  TENON_OF_REALS(Or, vor)
  TENON_OF_REALS(Xor, vxor)
  TENON_OF_REALS(ProductPlus, vfmadd213)  // d * a + b
  TENON_OF_REALS(PlusProduct, vfmadd231)   // d + a * b
  TENON_OF_REALS(MinusProduct, vfnmadd231)  // d - a * b
  TENON_OF_REALS(ProductMinus, vfmsub231)   // a * b - d
#undef TENON_OF_REALS
  void Root(const Xmm& d, const Xmm& x) { size_ == 8 ? vsqrtpd(d, x) : vsqrtps(d, x); }
  void Move(const Xmm& d, const Xmm& x) { vmovaps(d, x); }
  void Zero(const Xmm& d) { vxorps(d, d, d); }
  void Whole(const Xmm& d, const Xmm& x, uint8_t way) {
    if (wide_) return size_ == 8 ? vrndscalepd(d, x, way | kQuiet) : vrndscaleps(d, x, way | kQuiet);
    size_ == 8 ? vroundpd(d, x, way | kQuiet) : vroundps(d, x, way | kQuiet);
  }
  void Magnitude(const Xmm& d, const Xmm& x) {
    And(d, x, I(std::numeric_limits<int64_t>::max() >> (size_ == 8 ? 0 : 32)));
  }
  Lanes SignBit() { return I(size_ == 8 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min()); }

#define TENON_OF_INTEGERS(Name, instruction)                        \
  void Name(const Xmm& d, const Xmm& a, const Operand& b) {         \
    size_ == 8 ? instruction##q(d, a, b) : instruction##d(d, a, b); \
  }
  TENON_OF_INTEGERS(PlusI, vpadd)
  TENON_OF_INTEGERS(MinusI, vpsub)
#undef TENON_OF_INTEGERS
  void TimesI(const Xmm& d, const Xmm& a, const Operand& b) {
    size_ == 8 ? vpmullq(d, a, b) : vpmulld(d, a, b);
  }  // of 8 bytes: AVX-512
  // vpmaxsq and its like are of AVX-512 alone.
  void MaxI(const Xmm& d, const Xmm& a, const Xmm& b) {
    if (size_ == 4) return vpmaxsd(d, a, b);
    if (wide_) return vpmaxsq(d, a, b);
    const Mask is = IsGreaterI(a, b);
    Move(d, b);
    Choose(d, is, a);
  }
  void MinI(const Xmm& d, const Xmm& a, const Xmm& b) {
    if (size_ == 4) return vpminsd(d, a, b);
    if (wide_) return vpminsq(d, a, b);
    const Mask is = IsGreaterI(b, a);
    Move(d, b);
    Choose(d, is, a);
  }

  // Which lanes: a mask register, or lanes of ones in one like the others.
  struct Mask {
    Xbyak::Opmask k;
    Xmm lanes;
  };
  Mask NewMask() {
    if (next_mask_ > 7) throw Xbyak::Error(Xbyak::ERR_INTERNAL);
    return wide_ ? Mask{Xbyak::Opmask(next_mask_++), Xmm(0)} : Mask{Xbyak::Opmask(0), T()};
  }
  Mask Compare(const Xmm& a, const Operand& b, Predicate predicate) {
    const Mask mask = NewMask();
    if (wide_) {
      size_ == 8 ? vcmppd(mask.k, a, b, predicate) : vcmpps(mask.k, a, b, predicate);
    } else {
      size_ == 8 ? vcmppd(mask.lanes, a, b, predicate) : vcmpps(mask.lanes, a, b, predicate);
    }
    return mask;
  }
  Mask IsGreaterI(const Xmm& a, const Xmm& b) {
    const Mask mask = NewMask();
    if (wide_) {
      size_ == 8 ? vpcmpgtq(mask.k, a, b) : vpcmpgtd(mask.k, a, b);
    } else {
      size_ == 8 ? vpcmpgtq(mask.lanes, a, b) : vpcmpgtd(mask.lanes, a, b);
    }
    return mask;
  }
  Mask IsEqualI(const Xmm& a, const Xmm& b) {
    const Mask mask = NewMask();
    if (wide_) {
      size_ == 8 ? vpcmpeqq(mask.k, a, b) : vpcmpeqd(mask.k, a, b);
    } else {
      size_ == 8 ? vpcmpeqq(mask.lanes, a, b) : vpcmpeqd(mask.lanes, a, b);
    }
    return mask;
  }
  // d = mask ? yes : d.
  void Choose(const Xmm& d, const Mask& mask, const Operand& yes) {
    if (wide_) return size_ == 8 ? vblendmpd(d | mask.k, d, yes) : vblendmps(d | mask.k, d, yes);
    size_ == 8 ? vblendvpd(d, d, yes, mask.lanes) : vblendvps(d, d, yes, mask.lanes);
  }
  // d = mask ? x : 0.
  void Pass(const Xmm& d, const Mask& mask, const Xmm& x) {
    if (wide_) return size_ == 8 ? vmovapd(d | mask.k | T_z, x) : vmovaps(d | mask.k | T_z, x);
    And(d, mask.lanes, x);
  }
  // As a value: of 4 bytes.
  void ToTruths(const Xmm& d, const Mask& mask) {
    if (wide_) return vpmovm2d(d, mask.k);
    if (size_ == 4) return vmovaps(d, mask.lanes);
    vextractf128(d, Xbyak::Ymm(mask.lanes.getIdx()), 1);
    vshufps(d, Xmm(mask.lanes.getIdx()), d, 0x88);
  }
  Mask FromTruths(const Xmm& x) {
    const Mask mask = NewMask();
    if (wide_) {
      vpmovd2m(mask.k, x);
    } else if (size_ == 4) {
      vmovaps(mask.lanes, x);
    } else {
      vpmovsxdq(mask.lanes, x);
    }
    return mask;
  }
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_INSTRUCTIONS_H_
