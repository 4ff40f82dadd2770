// SPDX-License-Identifier: Apache-2.0
// One pass over the elements, a register's worth at a time: inputs are loaded where they are first read, values stay in registers (or on the stack, where there are too many),
// results are stored where they are made. The last elements are the same code again with masks.
//
// Every value has one register, whatever its type: where there is a type of 8 bytes, those of 4 fill half of theirs. Halves are floats that were rounded to their type, truths are
// 32 bits of ones or zeros.
#include "generator.h"

#include <xbyak/xbyak.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "code.h"
#include "tenon/dtype.h"

namespace tenon::cpu_codegen {
namespace {

using Xbyak::Address;
using Xbyak::Operand;
using Xbyak::Reg64;
using Xbyak::Xmm;

constexpr size_t kMostCode = 256 << 10;
constexpr int kNever = 1 << 30;

// Comparisons, as the instructions number them. Of NaN: false, but for the two that say "not".
enum Predicate : uint8_t { kIsEqual = 0, kIsLess = 17, kIsLessEqual = 18, kIsUnordered = 3, kIsNotEqual = 4, kIsNotLessEqual = 22, kIsOrdered = 7, kIsGreaterEqual = 29, kIsGreater = 30 };
constexpr uint8_t kNearest = 0, kDown = 1, kUp = 2, kToZero = 3;  // of roundings; without a report of what was lost
constexpr uint8_t kQuiet = 8;

int SizeOf(uint32_t dtype) { return dtype == TENON_DT_DOUBLE || dtype == TENON_DT_INT64 ? 8 : 4; }
int BytesOf(uint32_t dtype) { return dtype == TENON_DT_BOOL ? 1 : dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16 ? 2 : SizeOf(dtype); }
bool IsInteger(uint32_t dtype) { return dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64; }
bool IsHalf(uint32_t dtype) { return dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16; }

class Generator : public Xbyak::CodeGenerator {
 public:
  // The buffer is ordinary memory: what is executed is a copy of it.
  using ConstantKey = std::pair<uint64_t, int>;  // bits and their number of bytes
  // What has registers of its own for all of the loop: some single inputs, the first of them, and some constants.
  struct Held {
    size_t singles = 0;
    std::vector<ConstantKey> constants;
  };
  Generator(const Program& program, int lanes, uint8_t* buffer, size_t size, const Held& held)
      : CodeGenerator(size, buffer), program_(program), wide_(program.level == Level::kAvx512), lanes_(lanes), values_(program.inputs.size() + program.nodes.size()) {
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
    std::vector<std::pair<int, ConstantKey>> all;
    for (const auto& [key, uses] : uses_of_constants_) all.emplace_back(-uses, key);
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size() && left > 0; ++i, --left) held.constants.push_back(all[i].second);
    return held;
  }

  size_t Make() {
    Begin();
    Xbyak::Label row, tail, done, loop, end;
    L(row);
    LoadSingles();
    mov(rcx, ptr[rdi + offsetof(Call, count)]);
    xor_(r15d, r15d);
    and_(rcx, -lanes_);
    jz(tail, T_NEAR);
    align(32);
    L(loop);
    Body(false);
    add(r15, lanes_);
    cmp(r15, rcx);
    jl(loop, T_NEAR);
    L(tail);
    mov(rcx, ptr[rdi + offsetof(Call, count)]);
    sub(rcx, r15);
    jz(done, T_NEAR);
    MakeMasks();
    Body(true);
    L(done);
    dec(qword[rdi + offsetof(Call, rows)]);
    jle(end, T_NEAR);
    Advance();
    jmp(row, T_NEAR);
    L(end);
    End();
    return getSize();
  }

  // What is carried stays in its registers, or places on the stack, from turn to turn.
  size_t MakeLoop(const Loop& loop) {
    const auto end = static_cast<int>(program_.nodes.size());
    const auto is_read_at = [this](int value, int node) {
      std::vector<int>& uses = values_[Index(value)].uses;
      uses.insert(std::upper_bound(uses.begin(), uses.end(), node), node);
    };
    is_read_at(loop.condition, loop.condition_nodes);
    for (const int next : loop.next) is_read_at(next, end);
    Begin();
    LoadStates();
    mov(r15, ptr[rdi + offsetof(Call, count)]);
    Xbyak::Label turn, done;
    align(32);
    L(turn);
    BeginValues();
    EmitNodes(0, loop.condition_nodes);
    vmovd(eax, Xmm(Use(loop.condition)));
    Unlock();
    test(eax, eax);
    jz(done, T_NEAR);
    EmitNodes(loop.condition_nodes, end);
    for (size_t i = 0; i < loop.next.size(); ++i)
      if (loop.next[i] != static_cast<int>(i)) Become(values_[i], static_cast<int>(i), loop.next[i]);
    dec(r15);
    jnz(turn, T_NEAR);
    L(done);
    for (size_t i = 0; i < loop.next.size(); ++i) {
      const Value& value = values_[i];
      const Xmm state = R(value.is_kept ? value.reg : 0, SizeOf(value.dtype));
      if (!value.is_kept) vmovups(state, Slot(static_cast<int>(i)));
      mov(rax, ptr[rdi + offsetof(Call, inputs) + 8 * i]);
      vmovups(ptr[rax], state);
    }
    mov(ptr[rdi + offsetof(Call, count)], r15);
    End();
    return getSize();
  }

 private:
  static constexpr int kFree = -1, kTemporary = -2, kKept = -3;
  static constexpr int kMask4 = 14, kMask8 = 15;  // AVX2: registers with the masks of the last elements

  struct Value {
    uint32_t dtype = 0;
    std::vector<int> uses;  // nodes, rising
    int reg = -1;
    bool has_slot = false;  // its place on the stack holds it
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

  // ---- Frame ----

  void Begin() {
    endbr64();
    for (const Reg64& reg : {rbp, rbx, r12, r13, r14, r15}) push(reg);
    mov(rbp, rsp);
    sub(rsp, static_cast<uint32_t>(64 * (values_.size() + 2)));
    and_(rsp, -64);
    lea(rbx, ptr[rip + constants_label_]);
    // Pointers of the first that are walked over stand in registers.
    size_t next = 0;
    const auto hold = [&](int* place, size_t offset) {
      if (next == pointers_.size()) return;
      *place = static_cast<int>(next);
      mov(pointers_[next++], ptr[rdi + offset]);
    };
    input_pointer_.assign(program_.inputs.size(), -1);
    output_pointer_.assign(program_.outputs.size(), -1);
    for (size_t k = 0; k < program_.outputs.size(); ++k) hold(&output_pointer_[k], offsetof(Call, outputs) + 8 * k);
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (!program_.inputs[i].is_single) hold(&input_pointer_[i], offsetof(Call, inputs) + 8 * i);
    for (const auto& [key, reg] : held_) {
      size_ = key.second;
      const auto reading = Constant(key.first, key.second);
      wide_ ? (size_ == 4 ? vbroadcastss(reading.reg(), ptr[reading.memory().getRegExp()]) : Spread8(reading.reg(), ptr[reading.memory().getRegExp()])) : vmovups(reading.reg(), reading.memory());
    }
  }

  // To the next row.
  void Advance() {
    const auto step = [&](int place, size_t pointer, size_t by) {
      mov(rax, ptr[rdi + by]);
      if (place >= 0) return add(pointers_[Index(place)], rax);
      add(ptr[rdi + pointer], rax);
    };
    for (size_t i = 0; i < program_.inputs.size(); ++i) step(input_pointer_[i], offsetof(Call, inputs) + 8 * i, offsetof(Call, input_steps) + 8 * i);
    for (size_t k = 0; k < program_.outputs.size(); ++k) step(output_pointer_[k], offsetof(Call, outputs) + 8 * k, offsetof(Call, output_steps) + 8 * k);
  }

  void LoadSingles() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!program_.inputs[i].is_single) continue;
      Value& value = values_[i];
      const int reg = Take(static_cast<int>(i));
      value.reg = reg;
      LoadSingle(i, reg);
      KeepOrStore(static_cast<int>(i));
    }
  }
  void LoadStates() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      Value& value = values_[i];
      value.reg = Take(static_cast<int>(i));
      mov(rax, ptr[rdi + offsetof(Call, inputs) + 8 * i]);
      vmovups(R(value.reg, SizeOf(value.dtype)), ptr[rax]);
      KeepOrStore(static_cast<int>(i));
    }
  }
  void KeepOrStore(int v) {
    Value& value = values_[Index(v)];
    if (may_keep_ > 0) {
      --may_keep_;
      value.is_kept = true;
      owner_[Index(value.reg)] = kKept;
    } else {
      vmovups(Slot(v), R(value.reg, SizeOf(value.dtype)));
      value.has_slot = true;
      Release(v);
    }
    FreeTemporaries(0);
  }
  // v, which is carried, is another value from now on.
  void Become(const Value& value, int v, int next) {
    const Xmm from = R(Use(next), SizeOf(value.dtype));
    value.is_kept ? vmovaps(R(value.reg, SizeOf(value.dtype)), from) : vmovups(Slot(v), from);
    Unlock();
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
    most_taken_ = std::max(most_taken_, owner_.size() - static_cast<size_t>(std::count(owner_.begin(), owner_.end(), kFree)));
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
    explicit Scope(Generator* generator) : generator_(*generator), before_(generator->temporaries_.size()) {}
    ~Scope() { generator_.FreeTemporaries(before_); }
    Scope(const Scope&) = delete;

   private:
    Generator& generator_;
    const size_t before_;
  };

  void Body(bool masked) {
    masked_ = masked;
    BeginValues();
    EmitNodes(0, static_cast<int>(program_.nodes.size()));
  }
  // Nothing is in registers but what is kept there.
  void BeginValues() {
    for (Value& value : values_) {
      if (value.is_kept) continue;
      const bool is_single = &value < values_.data() + program_.inputs.size() && program_.inputs[Index(static_cast<int>(&value - values_.data()))].is_single;
      value.reg = -1;
      value.has_slot = is_single;
    }
    for (size_t r = 0; r < owner_.size(); ++r) {
      if (owner_[r] != kKept) owner_[r] = kFree;
      locked_[r] = false;
    }
  }
  // Values stay where they are, and may give way to others.
  void Unlock() {
    FreeTemporaries(0);
    locked_.fill(false);
  }
  // Afterwards node_ is `end`.
  void EmitNodes(int begin, int end) {
    const auto inputs = static_cast<int>(program_.inputs.size());
    for (node_ = begin; node_ < end; ++node_) {
      const Node& node = program_.nodes[Index(node_)];
      next_mask_ = 2;
      const int result = inputs + node_;
      Emit(node, result);
      FreeTemporaries(0);
      const auto output = std::find(program_.outputs.begin(), program_.outputs.end(), result);
      if (output != program_.outputs.end()) Store(result, static_cast<size_t>(output - program_.outputs.begin()));
      FreeTemporaries(0);
      for (size_t r = 0; r < owner_.size(); ++r) {
        locked_[r] = false;
        if (owner_[r] >= 0 && (values_[Index(owner_[r])].uses.empty() || values_[Index(owner_[r])].uses.back() <= node_)) Release(owner_[r]);
      }
    }
  }

  // ---- Memory ----

  Reg64 Pointer(int place, size_t offset) {
    if (place >= 0) return pointers_[Index(place)];
    mov(rax, ptr[rdi + offset]);
    return rax;
  }
  void Load(int v, int reg) {
    const uint32_t dtype = values_[Index(v)].dtype;
    const int bytes = BytesOf(dtype);
    const Reg64 base = Pointer(input_pointer_[Index(v)], offsetof(Call, inputs) + 8 * Index(v));
    const Address from = ptr[base + r15 * bytes];
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

  void Store(int v, size_t k) {
    const Value& value = values_[Index(v)];
    const uint32_t dtype = value.dtype;
    const int bytes = BytesOf(dtype);
    const Reg64 base = Pointer(output_pointer_[k], offsetof(Call, outputs) + 8 * k);
    const Address to = ptr[base + r15 * bytes];
    const Xmm from = R(value.reg, SizeOf(dtype));
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
    operator const Operand&() const { return is_held_ ? static_cast<const Operand&>(reg_) : memory_; }  // NOLINT(google-explicit-constructor)
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
  Lanes I(int64_t number) { return Constant(size_ == 8 ? static_cast<uint64_t>(number) : static_cast<uint32_t>(number), size_); }
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

  // ---- Instructions of the node's size ----

#define TENON_OF_REALS(Name, instruction) \
  void Name(const Xmm& d, const Xmm& a, const Operand& b) { size_ == 8 ? instruction##pd(d, a, b) : instruction##ps(d, a, b); }
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
#undef TENON_OF_REALS
  void Root(const Xmm& d, const Xmm& x) { size_ == 8 ? vsqrtpd(d, x) : vsqrtps(d, x); }
  void Move(const Xmm& d, const Xmm& x) { vmovaps(d, x); }
  void Zero(const Xmm& d) { vxorps(d, d, d); }
  void Whole(const Xmm& d, const Xmm& x, uint8_t way) {
    if (wide_) return size_ == 8 ? vrndscalepd(d, x, way | kQuiet) : vrndscaleps(d, x, way | kQuiet);
    size_ == 8 ? vroundpd(d, x, way | kQuiet) : vroundps(d, x, way | kQuiet);
  }
  void Magnitude(const Xmm& d, const Xmm& x) { And(d, x, I(std::numeric_limits<int64_t>::max() >> (size_ == 8 ? 0 : 32))); }
  Lanes SignBit() { return I(size_ == 8 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min()); }

#define TENON_OF_INTEGERS(Name, instruction) \
  void Name(const Xmm& d, const Xmm& a, const Operand& b) { size_ == 8 ? instruction##q(d, a, b) : instruction##d(d, a, b); }
  TENON_OF_INTEGERS(PlusI, vpadd)
  TENON_OF_INTEGERS(MinusI, vpsub)
#undef TENON_OF_INTEGERS
  void TimesI(const Xmm& d, const Xmm& a, const Operand& b) { size_ == 8 ? vpmullq(d, a, b) : vpmulld(d, a, b); }  // of 8 bytes: AVX-512
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

  // ---- Functions ----

  // Value to the nearest of its type.
  void RoundTo(uint32_t dtype, const Xmm& x) {
    const Scope scope(this);
    if (dtype == TENON_DT_HALF) {
      const int t = T(4).getIdx();
      const Xmm narrow = x.isZMM() ? static_cast<Xmm>(Xbyak::Ymm(t)) : Xmm(t);
      vcvtps2ph(narrow, x, 0);
      vcvtph2ps(x, narrow);
    }
    if (dtype != TENON_DT_BFLOAT16) return;
    const Xmm t = T();
    const Mask nan = Compare(x, x, kIsUnordered);
    vpsrld(t, x, 16);
    And(t, t, I(1));
    PlusI(t, t, I(0x7fff));
    PlusI(x, x, t);
    And(x, x, I(0xffff0000));
    Choose(x, nan, I(0x7fc00000));
  }

  template <size_t kCount>
  void Polynomial(const Xmm& d, const Xmm& x, const std::array<double, kCount>& highest_first) {
    Fill(d, C(highest_first[0]));
    for (size_t i = 1; i < kCount; ++i) ProductPlus(d, x, C(highest_first[i]));
  }
  // The same with fewer steps that wait for each other, of four coefficients or five.
  template <size_t kCount>
  void PolynomialOf(const Xmm& d, const Xmm& x, const Xmm& square, const std::array<double, kCount>& highest_first) {
    static_assert(kCount == 4 || kCount == 5);
    const Scope scope(this);
    const Xmm low = T();
    constexpr size_t kFirst = kCount - 4;
    Fill(d, C(highest_first[kFirst]));
    ProductPlus(d, x, C(highest_first[kFirst + 1]));
    if constexpr (kCount == 5) PlusProduct(d, square, C(highest_first[0]));
    Fill(low, C(highest_first[kFirst + 2]));
    ProductPlus(low, x, C(highest_first[kFirst + 3]));
    ProductPlus(d, square, low);
  }
  static constexpr double kLog2E = 1.44269504, kMagic = 0x1.8p23;
  // ln 2 in two parts, of which products with the first are exact; both positive, so that infinity times them is no NaN.
  static constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 1.42860677e-6;
  // (e^r - 1 - r) / r^2 for r at most half of ln 2.
  static constexpr std::array<double, 5> kExponential = {0.0013814318, 0.0083688516, 0.0416684002, 0.1666651964, 0.49999994};

  // The same for e^r within 2 ulp.
  static constexpr std::array<double, 4> kShortExponential = {0.008312520325825872, 0.04189015709376832, 0.16667114648881054, 0.49999231492720864};

  // 2^n of whole n within [-252, 254] as two factors, by which d is multiplied.
  void TimesPower(const Xmm& d, const Xmm& n) {
    if (wide_) return vscalefps(d, d, n);
    const Scope scope(this);
    const Xmm whole = T(), half = T();
    vcvtps2dq(whole, n);
    vpsrad(half, whole, 1);
    vpsubd(whole, whole, half);
    vpaddd(half, half, I(127));
    vpaddd(whole, whole, I(127));
    vpslld(half, half, 23);
    vpslld(whole, whole, 23);
    vmulps(d, d, half);
    vmulps(d, d, whole);
  }
  // e^x of floats within 1 ulp.
  void Exponential(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T();
    // A NaN is the second operand, which stays.
    vmaxps(r, Filled(C(-105)), x);
    vminps(r, Filled(C(90)), r);
    vmulps(n, r, C(kLog2E));
    Whole(n, n, kNearest);
    vfnmadd231ps(r, n, C(kLn2High));
    vfnmadd231ps(r, n, C(kLn2Low));
    const Xmm square = T();
    vmulps(square, r, r);
    PolynomialOf(d, r, square, kExponential);
    vfmadd213ps(d, square, r);
    vaddps(d, d, C(1));
    TimesPower(d, n);
  }
  // 1 + e^-x of floats; e^-x within 2 ulp.
  void OneAndExponentialOfLess(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T();
    vminps(r, Filled(C(105)), x);
    vmaxps(r, Filled(C(-90)), r);
    vmulps(n, r, C(-kLog2E));
    Whole(n, n, kNearest);
    vfnmsub231ps(r, n, C(kLn2High));  // -r - n ln 2
    vfnmadd231ps(r, n, C(kLn2Low));
    const Xmm square = T();
    vmulps(square, r, r);
    PolynomialOf(d, r, square, kShortExponential);
    vaddps(r, r, C(1));
    vfmadd213ps(d, square, r);
    TimesPower(d, n);
    vaddps(d, d, C(1));
  }

  // e^x - 1 of floats, with x at most about 88.
  void ExponentialLessOne(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm r = T(), n = T(), power = T();
    vmaxps(r, Filled(C(-20)), x);  // from where on it is -1
    vminps(r, Filled(C(90)), r);
    vmulps(n, r, C(kLog2E));
    Whole(n, n, kNearest);
    vfnmadd231ps(r, n, C(kLn2High));
    vfnmadd231ps(r, n, C(kLn2Low));
    // d = r + r^2 q
    Polynomial(d, r, kExponential);
    vmulps(d, d, r);
    vfmadd213ps(d, r, r);
    // (d + (1 - 2^-n)) 2^n
    if (wide_) {
      const Xmm less = T();
      vxorps(less, n, SignBit());
      Fill(power, C(1));
      vscalefps(power, power, less);
    } else {
      const Xmm zero = T();
      vcvtps2dq(power, n);
      Fill(zero, I(127));
      vpsubd(power, zero, power);
      vpxor(zero, zero, zero);
      vpmaxsd(power, power, zero);
      vpslld(power, power, 23);
    }
    const Xmm one = Filled(C(1));
    vsubps(power, one, power);
    vaddps(d, d, power);
    TimesPower(d, n);
    // The sign is x's, of 0 too.
    vandps(power, x, SignBit());
    vorps(d, d, power);
  }

  // (log(1 + f) - f + f^2 / 2) / f^3 for f within [-1/4, 1/2].
  static constexpr std::array<double, 8> kLogarithm = {-4.507478261e-02, 1.046302071e-01, -1.316119371e-01, 1.447839529e-01, -1.664731219e-01, 1.999086121e-01, -2.500009584e-01, 3.333344911e-01};
  void Logarithm(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm exponent = T(), f = T(), square = T();
    if (wide_) {
      // Of what is less than 0 the mantissa is NaN, of 0 and infinity 1.
      vgetmantps(f, x, 0xb);
      vgetexpps(exponent, x);
      vgetexpps(square, f);
      vsubps(exponent, exponent, square);
    } else {
      const Scope inside(this);
      const Xmm scaled = T(), less = T();
      vmulps(scaled, x, C(0x1p23));
      const Mask tiny = Compare(x, C(0x1p-126), kIsLess);
      vmovaps(f, x);
      Choose(f, tiny, scaled);
      vandps(less, tiny.lanes, C(23));
      vpsubd(exponent, f, I(0x3f400000));
      vpsrad(exponent, exponent, 23);
      vpslld(scaled, exponent, 23);
      vpsubd(f, f, scaled);
      vcvtdq2ps(exponent, exponent);
      vsubps(exponent, exponent, less);
    }
    vsubps(f, f, C(1));
    vmulps(square, f, f);
    Polynomial(d, f, kLogarithm);
    vmulps(d, d, f);
    vmulps(d, d, square);
    vfmadd231ps(d, exponent, C(kLn2Low));
    vfnmadd231ps(d, square, C(0.5));
    vaddps(d, d, f);
    vfmadd231ps(d, exponent, C(kLn2High));
    if (wide_) return;
    Choose(d, Compare(x, C(std::numeric_limits<double>::infinity()), kIsEqual), x);
    const Xmm zero = T();
    Zero(zero);
    Choose(d, Compare(x, zero, kIsEqual), C(-std::numeric_limits<double>::infinity()));
    const Mask none = Compare(x, zero, kIsGreaterEqual);
    vandnps(none.lanes, none.lanes, I(-1));
    Choose(d, none, I(0x7fc00000));
  }
  void LogarithmOfMore(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm sum = T(), rest = T();
    vaddps(sum, x, C(1));
    vsubps(rest, sum, C(1));
    vsubps(rest, x, rest);
    vdivps(rest, rest, sum);
    Pass(rest, Compare(rest, rest, kIsOrdered), rest);  // of infinity and -1 nothing was lost
    Logarithm(d, sum);
    vaddps(d, d, rest);
    const Xmm zero = T();
    Zero(zero);
    Choose(d, Compare(x, zero, kIsEqual), x);
  }

  // x P(x^2) / Q(x^2).
  void HyperbolicTangent(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm clamped = T(), square = T(), below = T();
    vmaxps(clamped, Filled(C(-9.02)), x);
    vminps(clamped, Filled(C(9.02)), clamped);
    vmulps(square, clamped, clamped);
    Polynomial(d, square, std::array<double, 5>{1.3383116236438739e-08, 2.063496884589155e-05, 3.497406183544345e-03, 1.3382644263726284e-01, 1});
    Polynomial(below, square, std::array<double, 5>{7.789765713107819e-07, 3.2884327309603146e-04, 2.5884166004685936e-02, 4.671596553971251e-01, 1});
    vmulps(d, d, clamped);
    vdivps(d, d, below);
  }
  void Logistic(const Xmm& d, const Xmm& x) {
    const Scope scope(this);
    const Xmm e = T();
    OneAndExponentialOfLess(e, x);
    vdivps(d, Filled(C(1)), e);
  }

  // ---- Nodes ----

  void Emit(const Node& node, int result) {
    std::vector<int> regs;
    for (const int operand : node.operands) regs.push_back(Use(operand));
    const uint32_t type = values_[Index(node.operands[0])].dtype;
    Value& value = values_[Index(result)];
    value.reg = Take(result);
    const auto operand = [&](size_t i) { return R(regs[i], SizeOf(values_[Index(node.operands[i])].dtype)); };
    const Xmm d = R(value.reg, SizeOf(node.dtype));
    size_ = SizeOf(type);
    if (node.function == Function::kCast) return Convert(d, operand(0), type, node.dtype);
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
    return f == kNeg || f == kAbs || f == kSign || f == kMaximum || f == kMinimum || f == kRelu || f == kClip || f == kAddN;
  }

  void Ask(Function f, const Xmm& d, const Xmm& x, const Xmm& y, bool is_integer) {
    using enum Function;
    if (is_integer) {
      const bool swapped = f == kLess || f == kGreaterEqual, negated = f == kNotEqual || f == kLessEqual || f == kGreaterEqual;
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
      case kRelu: return Pass(d, Compare(x(0), zero(), kIsNotLessEqual), x(0));
      case kRelu6: {
        const Xmm t = zero();
        Max(t, t, x(0));
        return Min(d, Filled(C(6)), t);
      }
      case kLeakyRelu:
        Times(d, x(0), C(node.alpha));
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
      case kReluGrad: case kRelu6Grad: {  // a product with 0 or 1
        const Xmm t = Copied(C(1));
        Pass(t, Compare(x(1), zero(), kIsGreater), t);
        if (node.function == kRelu6Grad) Pass(t, Compare(x(1), C(6), kIsLess), t);
        return Times(d, x(0), t);
      }
      case kLeakyReluGrad:
        Times(d, x(0), C(node.alpha));
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
        return Over(d, x(0), t);
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

  const Program& program_;
  const bool wide_;
  const int lanes_;
  std::vector<Value> values_;
  std::vector<int> owner_;             // of registers
  std::array<bool, 32> locked_ = {};
  std::vector<int> temporaries_;       // registers
  std::vector<Reg64> pointers_;
  std::vector<int> input_pointer_, output_pointer_;  // in pointers_; -1: it is read each time
  std::vector<uint8_t> constants_;
  std::map<ConstantKey, int> constant_at_, uses_of_constants_, held_;  // held_: registers
  size_t most_taken_ = 0;  // registers at once
  size_t may_keep_ = 0;    // single inputs
  Xbyak::Label constants_label_;
  bool masked_ = false;
  int node_ = 0, size_ = 4, next_mask_ = 2;
};

}  // namespace

namespace {

// Twice: the first time says how many registers are left.
template <class Make>
std::vector<uint8_t> MakeTwice(const Program& program, int lanes, const Make& make) {
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kMostCode);
  try {
    Generator first(program, lanes, buffer.get(), kMostCode, {});
    make(first);
    Generator second(program, lanes, buffer.get(), kMostCode, first.Best());
    const size_t size = make(second);
    return {buffer.get(), buffer.get() + size};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace

std::vector<uint8_t> Generate(const Program& program) {
  return MakeTwice(program, program.Lanes(), [](Generator& generator) { return generator.Make(); });
}
std::vector<uint8_t> Generate(const Loop& loop) {
  return MakeTwice(loop.body, loop.Lanes(), [&](Generator& generator) { return generator.MakeLoop(loop); });
}

}  // namespace tenon::cpu_codegen
