// SPDX-License-Identifier: Apache-2.0
// Values in registers: which has one, which is on the stack, and the constants that the code reads. The lowest of the
// layers of which a generator is made; instructions.h, functions.h, frame.h and nodes.h stand on it, each on the one
// before.
//
// Every value has one register, whatever its type: where there is a type of 8 bytes, those of 4 fill half of theirs.
// Halves are floats that were rounded to their type, truths are 32 bits of ones or zeros.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_REGISTERS_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_REGISTERS_H_

#include <xbyak/xbyak.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "code/program.h"
#include "tenon/dtype.h"

namespace tenon::cpu_codegen {

using Xbyak::Address;
using Xbyak::Operand;
using Xbyak::Reg64;
using Xbyak::Xmm;

inline constexpr int kNever = 1 << 30;

inline int SizeOf(uint32_t dtype) { return dtype == TENON_DT_DOUBLE || dtype == TENON_DT_INT64 ? 8 : 4; }
inline int BytesOf(uint32_t dtype) {
  return dtype == TENON_DT_BOOL ? 1 : dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16 ? 2 : SizeOf(dtype);
}
inline bool IsInteger(uint32_t dtype) { return dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64; }

class Registers : public Xbyak::CodeGenerator {
 public:
  // The buffer is ordinary memory: what is executed is a copy of it.
  using ConstantKey = std::pair<uint64_t, int>;  // bits and their number of bytes
  // What has registers of its own for all of the loop: some single inputs, the first of them, and some constants.
  struct Held {
    size_t singles = 0;
    std::vector<ConstantKey> constants;
  };
  Registers(const Program& program, uint8_t* buffer, size_t size, const Held& held)
      : CodeGenerator(size, buffer),
        program_(program),
        wide_(program.level == Level::kAvx512),
        lanes_(program.Lanes()),
        values_(program.inputs.size() + program.nodes.size()) {
    for (size_t v = 0; v < values_.size(); ++v) values_[v].dtype = program.DtypeOf(static_cast<int>(v));
    for (size_t n = 0; n < program.nodes.size(); ++n)
      for (const int operand : program.nodes[n].operands) values_[Index(operand)].uses.push_back(static_cast<int>(n));
    const std::array<Reg64, 9> all = {rsi, rdx, r8, r9, r10, r11, r12, r13, r14};
    pointers_.assign(all.begin(), all.end() - (wide_ ? 0 : 1));  // AVX2 needs the last one for bytes
    owner_.assign(wide_ ? 32 : kMask4, kFree);
    may_keep_ = held.singles;
    for (const ConstantKey& key : held.constants) {
      held_.emplace(key, static_cast<int>(owner_.size()) - 1);
      owner_.pop_back();  // out of everybody's sight
    }
  }

  // What is best held in the registers that the code did not need.
  Held Best() const {
    size_t left = owner_.size() - most_taken_;
    Held held;
    for (const Input& input : program_.inputs)
      if (input.is_single && left > 0) ++held.singles, --left;
    held.constants = BestConstants(left);
    return held;
  }
  // So many constants that are read most.
  std::vector<ConstantKey> BestConstants(size_t left) const {
    std::vector<ConstantKey> best;
    std::vector<std::pair<int, ConstantKey>> all;
    for (const auto& [key, uses] : uses_of_constants_) all.emplace_back(-uses, key);
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size() && left > 0; ++i, --left) best.push_back(all[i].second);
    return best;
  }

 protected:
  static constexpr int kFree = -1, kTemporary = -2, kKept = -3;
  static constexpr int kMask4 = 14, kMask8 = 15;  // AVX2: registers with the masks of the last elements

  struct Value {
    uint32_t dtype = 0;
    std::vector<int> uses;  // nodes, rising
    int reg = -1;
    bool has_slot = false;  // its place on the stack holds it
    bool lasts = false;     // and does so from turn to turn
    int tail = -1;          // where on the stack a row's last elements are kept between passes
    bool is_kept = false;   // the register is its own for all of the loop
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  Xmm R(int reg, int size) const {
    const int bytes = lanes_ * size;
    if (bytes == 64) return Xbyak::Zmm(reg);
    if (bytes == 32) return Xbyak::Ymm(reg);
    return Xmm(reg);
  }
  Address Slot(int value) const { return ptr[rsp + 64 * value]; }
  Address Scratch() const { return ptr[rsp + 64 * static_cast<int>(values_.size())]; }
  Address Rest() const { return ptr[rsp + 64 * static_cast<int>(values_.size()) + 64]; }
  int StackOfValues() const { return 64 * (static_cast<int>(values_.size()) + 2); }

  // Where elements lie in memory: behind a pointer of the call's.
  struct Place {
    size_t offset = 0;   // of the pointer in the call
    int pointer = -1;    // in pointers_; -1: it is read each time
    int32_t beyond = 0;  // bytes
    bool is_listed = false;  // the call's pointer is of a list of them
  };

  // ---- Registers ----

  int NextUse(const Value& value) const {
    const auto next = std::lower_bound(value.uses.begin(), value.uses.end(), node_);
    return next == value.uses.end() ? kNever : *next;
  }
  // A register for a value, or kTemporary; others make room for it.
  int Take(int owner) {
    const auto found = std::find(owner_.begin(), owner_.end(), kFree);
    int reg = static_cast<int>(found - owner_.begin());
    if (found == owner_.end()) {
      reg = -1;
      int furthest = -1;
      for (size_t r = 0; r < owner_.size(); ++r) {
        if (owner_[r] < 0 || locked_[r]) continue;
        const int next = NextUse(values_[Index(owner_[r])]);
        if (next > furthest) furthest = next, reg = static_cast<int>(r);
      }
      if (reg < 0) throw Xbyak::Error(Xbyak::ERR_INTERNAL);
      const int old = owner_[Index(reg)];
      Value& value = values_[Index(old)];
      if (!value.has_slot) vmovups(Slot(old), R(reg, SizeOf(value.dtype)));
      value.has_slot = true;
      value.reg = -1;
    }
    owner_[Index(reg)] = owner;
    locked_[Index(reg)] = true;
    most_taken_ =
        std::max(most_taken_, owner_.size() - static_cast<size_t>(std::count(owner_.begin(), owner_.end(), kFree)));
    if (owner == kTemporary) temporaries_.push_back(reg);
    return reg;
  }
  void Release(int v) {
    Value& value = values_[Index(v)];
    if (value.reg < 0 || value.is_kept) return;
    owner_[Index(value.reg)] = kFree;
    locked_[Index(value.reg)] = false;
    value.reg = -1;
  }
  Xmm T(int size = 0) { return R(Take(kTemporary), size == 0 ? size_ : size); }
  void FreeTemporaries(size_t but) {
    while (temporaries_.size() > but) {
      owner_[Index(temporaries_.back())] = kFree;
      locked_[Index(temporaries_.back())] = false;
      temporaries_.pop_back();
    }
  }
  // Temporaries that are taken while it lives are free afterwards.
  class Scope {
   public:
    explicit Scope(Registers* registers) : registers_(*registers), before_(registers->temporaries_.size()) {}
    ~Scope() { registers_.FreeTemporaries(before_); }
    Scope(const Scope&) = delete;

   private:
    Registers& registers_;
    const size_t before_;
  };

  // As before the first node: no value has a register, but for those that are kept.
  void Forget() {
    temporaries_.clear();
    for (Value& value : values_) {
      if (value.is_kept) continue;
      value.reg = -1;
      value.has_slot = value.lasts;
    }
    for (size_t r = 0; r < owner_.size(); ++r) {
      if (owner_[r] != kKept) owner_[r] = kFree;
      locked_[r] = false;
    }
  }
  // Behind a node: registers of values that nobody reads any more are free.
  void ReleaseUnused() {
    FreeTemporaries(0);
    for (size_t r = 0; r < owner_.size(); ++r) {
      locked_[r] = false;
      if (owner_[r] >= 0 && (values_[Index(owner_[r])].uses.empty() || values_[Index(owner_[r])].uses.back() <= node_))
        Release(owner_[r]);
    }
  }

  // ---- Constants ----

  size_t Reserve(size_t bytes, size_t alignment) {
    const size_t at = (constants_.size() + alignment - 1) / alignment * alignment;
    constants_.resize(at + bytes);
    return at;
  }
  // Every lane is the number: a register of its own, or memory.
  class Lanes {
   public:
    explicit Lanes(const Address& memory) : memory_(memory) {}
    Lanes(const Address& memory, const Xmm& reg) : memory_(memory), reg_(reg), is_held_(true) {}
    operator const Operand&() const {
      return is_held_ ? static_cast<const Operand&>(reg_) : memory_;
    }  // NOLINT(google-explicit-constructor)
    const Address& memory() const { return memory_; }
    const Xmm& reg() const { return reg_; }
    bool is_held() const { return is_held_; }

   private:
    Address memory_;
    Xmm reg_;
    bool is_held_ = false;
  };
  Lanes Constant(uint64_t bits, int size) {
    const ConstantKey key(bits, size);
    ++uses_of_constants_[key];
    const auto [found, is_new] = constant_at_.emplace(key, 0);
    if (is_new) {
      const auto own = Index(size);
      const size_t count = wide_ ? 1 : 32 / own, at = Reserve(own * count, wide_ ? own : 32);
      for (size_t i = 0; i < count * own; ++i) constants_[at + i] = static_cast<uint8_t>(bits >> (8 * (i % own)));
      found->second = static_cast<int>(at);
    }
    const Address memory = wide_ ? ptr_b[rbx + found->second] : ptr[rbx + found->second];
    const auto held = held_.find(key);
    return held == held_.end() ? Lanes(memory) : Lanes(memory, R(held->second, size));
  }
  // A real number of the node's size.
  Lanes C(double number) {
    if (size_ == 8) return Constant(std::bit_cast<uint64_t>(number), 8);
    return Constant(std::bit_cast<uint32_t>(static_cast<float>(number)), 4);
  }
  Lanes I(int64_t number) {
    return Constant(size_ == 8 ? static_cast<uint64_t>(number) : static_cast<uint32_t>(number), size_);
  }
  void Fill(const Xmm& to, const Lanes& constant) {
    if (constant.is_held()) return vmovaps(to, constant.reg());
    if (!wide_) return vmovups(to, constant.memory());
    const Address element = ptr[constant.memory().getRegExp()];
    size_ == 4 ? vbroadcastss(to, element) : Spread8(to, element);
  }
  // Not to be written.
  Xmm Filled(const Lanes& constant) {
    if (constant.is_held()) return constant.reg();
    const Xmm to = T();
    Fill(to, constant);
    return to;
  }
  Xmm Copied(const Lanes& constant) {
    const Xmm to = T();
    Fill(to, constant);
    return to;
  }
  // 8 bytes, of which there are four at least.
  void Spread8(const Xmm& to, const Address& element) {
    to.isZMM() ? vbroadcastsd(Xbyak::Zmm(to.getIdx()), element) : vbroadcastsd(Xbyak::Ymm(to.getIdx()), element);
  }

  const Program& program_;
  const bool wide_;
  const int lanes_;
  std::vector<Value> values_;
  std::vector<int> owner_;             // of registers
  std::array<bool, 32> locked_ = {};
  std::vector<int> temporaries_;       // registers
  std::vector<Reg64> pointers_;
  std::vector<Place> places_, results_;  // of values that are loaded, and of outputs
  std::vector<uint8_t> constants_;
  std::map<ConstantKey, int> constant_at_, uses_of_constants_, held_;  // held_: registers
  size_t most_taken_ = 0;  // registers at once
  size_t may_keep_ = 0;    // single inputs
  Xbyak::Label constants_label_;
  bool masked_ = false;
  int node_ = 0, size_ = 4, next_mask_ = 2;
  int at_ = 0;            // elements beyond those that the code walks by
  int stack_bytes_ = 0;   // beyond those of the values
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_REGISTERS_H_
