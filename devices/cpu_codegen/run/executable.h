// SPDX-License-Identifier: Apache-2.0
// A claim that was compiled: elements of one shape (elements.h), rows (reduce/reduce_rows.h), columns
// (reduce/reduce_columns.h), or elements that are reduced to one (reduce/reduce_all.h).
#ifndef TENON_DEVICES_CPU_CODEGEN_RUN_EXECUTABLE_H_
#define TENON_DEVICES_CPU_CODEGEN_RUN_EXECUTABLE_H_

#include <cstdint>
#include <memory>

#include "code/program.h"
#include "tenon/sdk/device/compiler.h"

namespace tenon::cpu_codegen {

struct Executable : sdk::Compiled {
  virtual ~Executable() = default;
  // Fails with UNIMPLEMENTED where it is better run otherwise, and the host's tiles or the kernels do it.
  static std::unique_ptr<Executable> Make(const tenon_compile_args& args, Level level, int64_t least);
  virtual void Run(tenon_frame& frame) const = 0;
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_RUN_EXECUTABLE_H_
