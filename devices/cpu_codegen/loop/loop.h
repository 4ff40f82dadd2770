// SPDX-License-Identifier: Apache-2.0
// A whole while loop as machine code: its turns stay in registers.
#ifndef TENON_DEVICES_CPU_CODEGEN_LOOP_LOOP_H_
#define TENON_DEVICES_CPU_CODEGEN_LOOP_LOOP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "code/code.h"
#include "tenon/sdk/device/loop_compiler.h"

namespace tenon::cpu_codegen {

// A loop (tenon_compile_loop) of element-wise nodes, whose values have one element or all the same shape. Its condition
// hangs on single elements alone, so elements never meet: a register's worth of them after the other goes through all
// turns. Immutable; any thread.
struct LoopExecutable : sdk::Compiled {
  // Fails with UNIMPLEMENTED where turn by turn is what is left.
  static std::unique_ptr<LoopExecutable> Make(const tenon_compile_args& args, const tenon_compile_loop& loop,
                                              Level level);
  // Fails with CANCELLED when the step was given up, which it asks every few thousand turns.
  void Run(tenon_frame& frame) const;

 private:
  friend class LoopMaker;
  struct Value {
    uint32_t dtype = 0;
    bool is_single = false;
  };
  void RunElements(tenon_frame& frame, int64_t begin, int64_t count) const;
  void Load(const Value& value, const void* from, int64_t begin, int64_t count, uint8_t* state) const;
  static void Store(const Value& value, const uint8_t* state, int64_t count, void* to);

  std::shared_ptr<const Code> code_;
  std::vector<Value> inputs_;     // of the frame
  std::vector<int32_t> results_;  // of each output: the input that it is the last value of
  int64_t total_ = 1;             // elements of what is not single
  int64_t lanes_ = 0;
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_LOOP_LOOP_H_
