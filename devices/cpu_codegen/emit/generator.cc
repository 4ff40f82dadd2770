// SPDX-License-Identifier: Apache-2.0
// One pass over the elements, a register's worth at a time: inputs are loaded where they are first read, values stay in
// registers (or on the stack, where there are too many), results are stored where they are made. The last elements are
// the same code again with masks.
#include "emit/generator.h"

#include <memory>

#include "emit/nodes.h"

namespace tenon::cpu_codegen {
namespace {

class Generator : public Nodes {
 public:
  using Nodes::Nodes;

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

 private:
  void Body(bool masked) {
    masked_ = masked;
    Forget();
    const auto inputs = static_cast<int>(program_.inputs.size());
    for (node_ = 0; node_ < static_cast<int>(program_.nodes.size()); ++node_) {
      const int result = inputs + node_;
      Emit(program_.nodes[Index(node_)], result);
      const auto output = std::find(program_.outputs.begin(), program_.outputs.end(), result);
      if (output != program_.outputs.end())
        Store(result, results_[Index(static_cast<int>(output - program_.outputs.begin()))]);
      ReleaseUnused();
    }
  }
};

}  // namespace

std::vector<uint8_t> Generate(const Program& program) {
  if (program.row > 0) return GenerateRows(program);
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kMostCode);
  try {
    Generator first(program, buffer.get(), kMostCode, {});
    first.Make();
    Generator second(program, buffer.get(), kMostCode, first.Best());
    const size_t size = second.Make();
    return {buffer.get(), buffer.get() + size};
  } catch (const Xbyak::Error&) {
    return {};
  }
}

}  // namespace tenon::cpu_codegen
