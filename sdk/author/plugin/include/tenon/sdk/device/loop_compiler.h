// SPDX-License-Identifier: Apache-2.0
// The table of a compiler of loops (tenon/ext/draft/compile_loop.h) from a small class of its own.
//
//   struct LoopCompiler {
//     static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
//     static constexpr int32_t kPriority = 0;
//     struct Executable : sdk::Compiled {
//       // asks now and then whether the step was given up (RunContext::CheckCancelled)
//       Outcome Run(tenon_frame& frame);
//     };
//     static std::unique_ptr<Executable> Compile(tenon_plugin_self* self, const tenon_compile_args& args,
//         const tenon_compile_loop& loop);
//   };
//   const tenon_capability kCapabilities[] = {TENON_PROVIDES(LOOP_COMPILER,
//       &tenon::sdk::kLoopCompilerTable<LoopCompiler>)};
//
// Ends, owners and threads are as compiler.h says.
#ifndef TENON_SDK_DEVICE_LOOP_COMPILER_H_
#define TENON_SDK_DEVICE_LOOP_COMPILER_H_

#include <memory>
#include <utility>

#include "tenon/ext/draft/compile_loop.h"
#include "tenon/sdk/device/compiler.h"

namespace tenon::sdk {
namespace internal {

template <class Compiler>
struct LoopCompilerFunctions {
  using Executable = typename Compiler::Executable;

  static tenon_status* Compile(tenon_plugin_self* self, tenon_compile_args* args, const tenon_compile_loop* loop,
                               tenon_executable** out_executable) noexcept {
    if (out_executable == nullptr) return IsNull("out_executable");
    *out_executable = nullptr;
    return Answer([&]() -> tenon_status* {
      tenon_compile_args whole = {};
      tenon_graph_cursor cursor_room;
      tenon_compile_loop loop_room;
      TENON_SDK_RETURN_IF_ERROR(TakeArgs(args, &whole, &cursor_room));
      TENON_SDK_RETURN_IF_ERROR(TakeStruct("a loop", &loop, &loop_room));
      if (loop->variables == nullptr && loop->variable_count != 0) return IsNull("the list of a loop's variables");
      if (loop->source == nullptr) return IsNull("what tells the sources of a loop's nodes");
      if (loop->variable_count > whole.input_count)
        return Failure(TENON_INVALID_ARGUMENT, "a loop has ", loop->variable_count, " variables and ",
                       whole.input_count, " inputs");
      std::unique_ptr<Executable> made = Compiler::Compile(self, whole, *loop);
      if (made == nullptr) return Failure(TENON_INTERNAL, "the compiler has made nothing");
      Give(std::move(made), args, out_executable);
      return nullptr;
    });
  }
};

}  // namespace internal

template <class Compiler>
inline constexpr tenon_loop_compiler kLoopCompilerTable = {
    TENON_HEAD(tenon_loop_compiler),
    Compiler::kDeviceType,
    Compiler::kPriority,
    0,
    internal::LoopCompilerFunctions<Compiler>::Compile,
    internal::ExecutableFunctions<typename Compiler::Executable>::Destroy,
    internal::ExecutableFunctions<typename Compiler::Executable>::Run};

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_LOOP_COMPILER_H_
