// SPDX-License-Identifier: Apache-2.0
// Machine code in memory of its own. Its pages are written first and executed then, and never both at once.
#ifndef TENON_DEVICES_CPU_CODEGEN_CODE_CODE_H_
#define TENON_DEVICES_CPU_CODEGEN_CODE_CODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "code/program.h"

namespace tenon::cpu_codegen {

// What generated code is called with: rows of elements. Pointers of inputs and outputs at the first element of the
// first row; those of single inputs at the one that they have for the row; those of listed ones at the first row's
// pointer. The code moves them from row to row: a call is used up.
struct Call {
  const void* inputs[kMostInputs];
  void* outputs[kMostOutputs];
  int64_t count;     // elements of a row; may be 0. Programs with reductions know it
  int64_t rows = 1;  // at least 1
  int64_t input_steps[kMostInputs], output_steps[kMostOutputs];  // bytes from row to row; of one row they are not read
  void* scratch = nullptr;  // where a program of rows keeps a row's values (RowPlan)
};
using EntryPoint = void (*)(Call*);

// Immutable; any thread.
class Code {
 public:
  // nullptr: the system gives no memory for it, or no leave to execute it.
  static std::unique_ptr<const Code> Load(std::span<const uint8_t> bytes);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  void Run(Call& call) const { entry_(&call); }
  size_t bytes() const { return bytes_; }

 private:
  Code(void* memory, size_t bytes);
  void* const memory_;
  const size_t bytes_;  // whole pages
  const EntryPoint entry_;
};

// Whether this process may execute what it wrote. Tries it once.
bool MayExecute();

// The program's code, which programs with the same key share. nullptr: it cannot be had: the system refuses, or there
// is as much of it in the process as there may be.
std::shared_ptr<const Code> CodeOf(const Program& program);
std::shared_ptr<const Code> CodeOfLoop(const Loop& loop);

// Of all programs in this process.
struct CodeStatistics {
  int64_t programs = 0, bytes = 0;  // that are kept
  int64_t compilations = 0;
};
CodeStatistics StatisticsOfCode();

inline constexpr int64_t kMostPrograms = 4096, kMostBytes = 64 << 20;

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_CODE_CODE_H_
