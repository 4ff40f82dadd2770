// SPDX-License-Identifier: Apache-2.0
// A loop in registers: what is carried stays in registers of its own, as far as there are any, or in places on the
// stack; a turn is the nodes in order, with the condition's question between.
#include <memory>

#include "emit/generator.h"
#include "emit/nodes.h"

namespace tenon::cpu_codegen {
namespace {

class LoopGenerator : public Nodes {
 public:
  LoopGenerator(const Loop& loop, uint8_t* buffer, const Held& held)
      : Nodes(loop.body, buffer, kMostCode, held), loop_(loop) {}

  size_t Make() {
    const auto end = static_cast<int>(program_.nodes.size());
    IsReadAt(loop_.condition, loop_.condition_nodes);
    for (const int next : loop_.next) IsReadAt(next, end);
    Begin();
    LoadStates();
    mov(r15, ptr[rdi + offsetof(Call, count)]);
    Xbyak::Label turn, done;
    align(32);
    L(turn);
    Forget();
    EmitNodes(0, loop_.condition_nodes);
    vmovd(eax, Xmm(Use(loop_.condition)));
    Unlock();
    test(eax, eax);
    jz(done, T_NEAR);
    EmitNodes(loop_.condition_nodes, end);
    for (size_t i = 0; i < loop_.next.size(); ++i)
      if (loop_.next[i] != static_cast<int>(i)) Become(static_cast<int>(i), loop_.next[i]);
    dec(r15);
    jnz(turn, T_NEAR);
    L(done);
    StoreStates();
    mov(ptr[rdi + offsetof(Call, count)], r15);
    End();
    return getSize();
  }

 private:
  void IsReadAt(int v, int node) {
    std::vector<int>& uses = values_[Index(v)].uses;
    uses.insert(std::upper_bound(uses.begin(), uses.end(), node), node);
  }
  Address StateOf(size_t input) {
    mov(rax, ptr[rdi + offsetof(Call, inputs) + 8 * input]);
    return ptr[rax];
  }

  void LoadStates() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const auto v = static_cast<int>(i);
      Value& value = values_[i];
      value.reg = Take(v);
      const Address state = StateOf(i);
      vmovups(R(value.reg, SizeOf(value.dtype)), state);
      if (may_keep_ > 0) {
        --may_keep_;
        value.is_kept = true;
        owner_[Index(value.reg)] = kKept;
      } else {
        vmovups(Slot(v), R(value.reg, SizeOf(value.dtype)));
        value.has_slot = value.lasts = true;
        Release(v);
      }
      Unlock();
    }
  }
  // Those in registers come first: then any register will do.
  void StoreStates() {
    for (size_t i = 0; i < loop_.next.size(); ++i) {
      const Value& value = values_[i];
      const Xmm reg = R(value.is_kept ? value.reg : 0, SizeOf(value.dtype));
      if (!value.is_kept) vmovups(reg, Slot(static_cast<int>(i)));
      const Address state = StateOf(i);
      vmovups(state, reg);
    }
  }

  // Afterwards node_ is `end`.
  void EmitNodes(int begin, int end) {
    const auto inputs = static_cast<int>(program_.inputs.size());
    for (node_ = begin; node_ < end; ++node_) {
      Emit(program_.nodes[Index(node_)], inputs + node_);
      ReleaseUnused();
    }
  }
  // Values stay where they are, and may give way to others.
  void Unlock() {
    FreeTemporaries(0);
    locked_.fill(false);
  }
  // v, which is carried, is what a node made from now on.
  void Become(int v, int next) {
    const Value& value = values_[Index(v)];
    const Xmm from = R(Use(next), SizeOf(value.dtype));
    value.is_kept ? vmovaps(R(value.reg, SizeOf(value.dtype)), from) : vmovups(Slot(v), from);
    Unlock();
  }

  const Loop& loop_;
};

}  // namespace

std::vector<uint8_t> Generate(const Loop& loop) {
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kMostCode);
  try {
    LoopGenerator first(loop, buffer.get(), {});
    first.Make();
    LoopGenerator second(loop, buffer.get(), first.Best());
    const size_t size = second.Make();
    return {buffer.get(), buffer.get() + size};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace tenon::cpu_codegen
