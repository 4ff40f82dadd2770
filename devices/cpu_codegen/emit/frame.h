// SPDX-License-Identifier: Apache-2.0
// The code's frame, and elements between memory and registers: whole registers of them, or, with masks, the last ones.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_FRAME_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_FRAME_H_

#include "code/code.h"
#include "emit/functions.h"

namespace tenon::cpu_codegen {

class Frame : public Functions {
 protected:
  using Functions::Functions;

  void Begin() {
    endbr64();
    for (const Reg64& reg : {rbp, rbx, r12, r13, r14, r15}) push(reg);
    mov(rbp, rsp);
    sub(rsp, static_cast<uint32_t>(StackOfValues() + stack_bytes_));
    and_(rsp, -64);
    lea(rbx, ptr[rip + constants_label_]);
    // Pointers of the first that are walked over stand in registers.
    const std::vector<bool> of_row = program_.OfRows();
    size_t next = 0;
    const auto place = [&](size_t offset, bool is_walked, bool is_listed = false) {
      if (!is_walked || next == pointers_.size()) return Place{offset, -1, 0, is_listed};
      mov(pointers_[next], ptr[rdi + offset]);
      if (is_listed) mov(pointers_[next], ptr[pointers_[next]]);
      return Place{offset, static_cast<int>(next++), 0, is_listed};
    };
    places_.assign(values_.size(), Place());
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      results_.push_back(place(offsetof(Call, outputs) + 8 * k, !of_row[Index(program_.outputs[k])]));
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      places_[i] = place(offsetof(Call, inputs) + 8 * i, !program_.inputs[i].is_single, program_.inputs[i].is_listed);
    for (const auto& [key, reg] : held_) {
      size_ = key.second;
      const auto reading = Constant(key.first, key.second);
      wide_ ? (size_ == 4 ? vbroadcastss(reading.reg(), ptr[reading.memory().getRegExp()])
                          : Spread8(reading.reg(), ptr[reading.memory().getRegExp()]))
            : vmovups(reading.reg(), reading.memory());
    }
  }

  // To the next row.
  void Advance() {
    const auto step = [&](const Place& place, size_t by) {
      mov(rax, ptr[rdi + by]);
      if (place.is_listed) {
        add(rax, ptr[rdi + place.offset]);
        mov(ptr[rdi + place.offset], rax);
        if (place.pointer >= 0) mov(pointers_[Index(place.pointer)], ptr[rax]);
        return;
      }
      if (place.pointer >= 0) return add(pointers_[Index(place.pointer)], rax);
      add(ptr[rdi + place.offset], rax);
    };
    for (size_t i = 0; i < program_.inputs.size(); ++i) step(places_[i], offsetof(Call, input_steps) + 8 * i);
    for (size_t k = 0; k < program_.outputs.size(); ++k) step(results_[k], offsetof(Call, output_steps) + 8 * k);
  }

  void LoadSingles() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!program_.inputs[i].is_single) continue;
      Value& value = values_[i];
      const int reg = Take(static_cast<int>(i));
      value.reg = reg;
      LoadSingle(i, reg);
      if (may_keep_ > 0) {
        --may_keep_;
        value.is_kept = true;
        owner_[Index(reg)] = kKept;
      } else {
        vmovups(Slot(static_cast<int>(i)), R(reg, SizeOf(value.dtype)));
        value.has_slot = value.lasts = true;
        Release(static_cast<int>(i));
      }
      FreeTemporaries(0);
    }
  }

  void End() {
    vzeroupper();
    mov(rsp, rbp);
    for (const Reg64& reg : {r15, r14, r13, r12, rbx, rbp}) pop(reg);
    ret();
    align(64);
    L(constants_label_);
    for (const uint8_t byte : constants_) db(byte);
  }

  // rcx: the elements that are left.
  void MakeMasks() {
    if (wide_) {
      mov(eax, -1);
      bzhi(eax, eax, ecx);
      kmovd(k1, eax);
      return;
    }
    mov(Rest(), rcx);
    // Ones before zeros, of which a part is read.
    const auto offset = static_cast<int>(Reserve(64, 32));
    for (int i = 0; i < 32; ++i) constants_[Index(offset + i)] = 0xff;
    const auto mask = [&](int reg, int size) {
      mov(rax, rcx);
      neg(rax);
      vmovups(R(reg, size), ptr[rbx + rax * size + offset + 32]);
    };
    mask(kMask4, 4);
    if (lanes_ == 4) mask(kMask8, 8);
  }

  // A register with the value in it, which stays until the node is done.
  int Use(int v) {
    Value& value = values_[Index(v)];
    if (value.reg < 0) {
      value.reg = Take(v);
      if (value.has_slot) {
        vmovups(R(value.reg, SizeOf(value.dtype)), Slot(v));
      } else {
        Load(v, value.reg);
      }
    }
    locked_[Index(value.reg)] = true;
    return value.reg;
  }

  // The elements at hand.
  Address At(const Place& place, int bytes) {
    const Reg64 base = place.pointer >= 0 ? pointers_[Index(place.pointer)] : rax;
    if (place.pointer < 0) mov(rax, ptr[rdi + place.offset]);
    if (place.pointer < 0 && place.is_listed) mov(rax, ptr[rax]);
    return ptr[base + r15 * bytes + place.beyond + at_ * bytes];
  }
  // Lanes behind the last element of a sum are nobody's: there is memory for them, and what is read with a mask from
  // what was written with one waits for the cache.
  bool IsSum(int v) const { return program_.IsSum(v); }
  void Load(int v, int reg) {
    const uint32_t dtype = values_[Index(v)].dtype;
    if (IsSum(v)) return LoadFrom(At(places_[Index(v)], BytesOf(dtype)), R(reg, SizeOf(dtype)), dtype);
    if (masked_ && values_[Index(v)].tail >= 0)
      return vmovups(R(reg, SizeOf(dtype)), ptr[rsp + values_[Index(v)].tail]);
    const int bytes = BytesOf(dtype);
    const Address from = At(places_[Index(v)], bytes);
    const Xmm to = R(reg, SizeOf(dtype));
    if (!masked_) return LoadFrom(from, to, dtype);
    if (wide_) return LoadFrom(from, to | k1 | T_z, dtype);
    if (bytes == 8) return vmaskmovpd(to, R(kMask8, 8), from);
    if (bytes == 4) return vmaskmovps(to, R(kMask4, 4), from);
    // Byte by byte: there is no mask for them.
    const Xmm zero = T(4);
    vxorps(zero, zero, zero);
    vmovups(Scratch(), zero);
    lea(rax, from);
    MoveBytes(bytes, [&] {
      mov(r14b, ptr[rax + rcx]);
      mov(ptr[rsp + rcx + 64 * static_cast<int>(values_.size())], r14b);
    });
    LoadFrom(Scratch(), to, dtype);
  }
  template <class Move>
  void MoveBytes(int size, const Move& move) {
    Xbyak::Label next;
    mov(rcx, Rest());
    if (size == 2) add(rcx, rcx);
    L(next);
    dec(rcx);
    move();
    test(rcx, rcx);
    jnz(next);
  }
  // `to` may have a mask. From then on it is as values are in registers.
  void LoadFrom(const Address& from, const Xmm& to, uint32_t dtype) {
    const Xmm plain = R(to.getIdx(), SizeOf(dtype));
    switch (dtype) {
      case TENON_DT_HALF: return vcvtph2ps(to, from);
      case TENON_DT_BFLOAT16:
        vpmovzxwd(to, from);
        return vpslld(plain, plain, 16);
      case TENON_DT_BOOL:
        vpmovzxbd(to, from);
        return MakeTruths(plain);
      case TENON_DT_DOUBLE: case TENON_DT_INT64: return vmovupd(to, from);
      default: return vmovups(to, from);
    }
  }
  // Of numbers that are not 0.
  void MakeTruths(const Xmm& x) {
    if (wide_) {
      vptestmd(k7, x, x);
      return vpmovm2d(x, k7);
    }
    const Xmm zero = T(4);
    vpxor(zero, zero, zero);
    vpcmpgtd(x, x, zero);
  }
  void LoadSingle(size_t i, int reg) {
    const uint32_t dtype = program_.inputs[i].dtype;
    const Xmm to = R(reg, SizeOf(dtype));
    mov(rax, ptr[rdi + offsetof(Call, inputs) + 8 * i]);
    switch (dtype) {
      case TENON_DT_DOUBLE: case TENON_DT_INT64:
        return Spread8(to, ptr[rax]);
      case TENON_DT_FLOAT: case TENON_DT_INT32: return vbroadcastss(to, ptr[rax]);
      case TENON_DT_BOOL: movzx(eax, byte[rax]); break;
      default: movzx(eax, word[rax]); break;
    }
    vmovd(Xmm(reg), eax);
    if (dtype == TENON_DT_HALF) vcvtph2ps(Xmm(reg), Xmm(reg));
    if (dtype == TENON_DT_BFLOAT16) vpslld(Xmm(reg), Xmm(reg), 16);
    vbroadcastss(to, Xmm(reg));
    if (dtype == TENON_DT_BOOL) MakeTruths(to);
  }

  void Store(int v, const Place& place) {
    const Value& value = values_[Index(v)];
    const uint32_t dtype = value.dtype;
    const int bytes = BytesOf(dtype);
    const Address to = At(place, bytes);
    const Xmm from = R(value.reg, SizeOf(dtype));
    if (IsSum(v)) return StoreTo(to, from, dtype);
    if (!masked_ && program_.streams && bytes >= 4) return vmovntps(to, from);
    if (wide_) return StoreTo(masked_ ? to | k1 : to, from, dtype);
    if (!masked_) return StoreTo(to, from, dtype);
    if (bytes == 8) return vmaskmovpd(to, R(kMask8, 8), from);
    if (bytes == 4) return vmaskmovps(to, R(kMask4, 4), from);
    lea(rax, to);
    StoreTo(Scratch(), from, dtype);
    MoveBytes(bytes, [&] {
      mov(r14b, ptr[rsp + rcx + 64 * static_cast<int>(values_.size())]);
      mov(ptr[rax + rcx], r14b);
    });
  }
  void StoreTo(const Address& to, const Xmm& from, uint32_t dtype) {
    switch (dtype) {
      case TENON_DT_HALF: return vcvtps2ph(to, from, 0);
      case TENON_DT_BFLOAT16: case TENON_DT_BOOL: break;
      case TENON_DT_DOUBLE: case TENON_DT_INT64: return vmovupd(to, from);
      default: return vmovups(to, from);
    }
    const Xmm narrow = T(4);
    const bool is_bool = dtype == TENON_DT_BOOL;
    vpsrld(narrow, from, is_bool ? 31 : 16);
    if (wide_) return is_bool ? vpmovdb(to, narrow) : vpmovdw(to, narrow);
    const Xmm low(narrow.getIdx());
    if (narrow.isYMM()) {
      const Xmm high(T(4).getIdx());
      vextracti128(high, Xbyak::Ymm(narrow.getIdx()), 1);
      vpackusdw(low, low, high);
    } else {
      vpackusdw(low, low, low);
    }
    if (is_bool) vpackuswb(low, low, low);
    const int all = lanes_ * (is_bool ? 1 : 2);
    if (all == 16) return vmovups(to, low);
    if (all == 8) return vmovq(to, low);
    vmovd(to, low);
  }
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_FRAME_H_
