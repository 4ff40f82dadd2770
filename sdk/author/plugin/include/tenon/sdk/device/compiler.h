// SPDX-License-Identifier: Apache-2.0
// A compiler's table (tenon/ext/draft/compile.h) from a small class of its own.
//
//   struct Compiler {
//     static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
//     // beside those of kernels: nodes whose best kernel has a higher one are not offered
//     static constexpr int32_t kPriority = 0;
//     struct Executable : sdk::Compiled {
//       Outcome Run(tenon_frame& frame);
//     };
//     static void Claim(tenon_plugin_self* self, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes,
//                       tenon_device* device, const sdk::Claims& claims);
//     static std::unique_ptr<Executable> Compile(tenon_plugin_self* self, const tenon_compile_args& args);
//   };
//   const tenon_capability kCapabilities[] = {TENON_PROVIDES(COMPILER, &tenon::sdk::kCompilerTable<Compiler>)};
//
// Ends. Claim and Run give an Outcome, a tenon_status* or nothing; what any of them throws becomes a status, Fail() and
// Check() of kernel.h with their own. UNIMPLEMENTED from Compile is no failure: the nodes run one by one.
//
// What comes over the ABI is checked here, before a member is called: objects and lists that are NULL, structs that are
// shorter than ours (they get zeros behind) or have bits of must_understand. The device is of kDeviceType, and may be
// another plugin's of that type; Claim's is NULL where somebody asks for no device in particular.
//
// Who owns what. The host owns the executable, which is destroyed when no run of it is under way; graph, nodes,
// arguments and views end with the call. The frame ends with Run: what a device's queue still does then takes
// addresses, not views.
//
// Threads. Claim and Compile may be called from any thread, for several graphs at once; a graph's cursor is used by the
// thread of the call alone. Run comes from the step's thread, and from several at once when several steps run: an
// Executable does not change in a run. On a device with queues Run gives its work to frame.queue and does not wait for
// it.
#ifndef TENON_SDK_DEVICE_COMPILER_H_
#define TENON_SDK_DEVICE_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/ext/draft/compile.h"
#include "tenon/sdk/answer.h"

namespace tenon::sdk {

// Where a compiler says what becomes of the nodes. Both throw what the host says against it.
class Claims {
 public:
  explicit Claims(const tenon_claim_sink& sink) : sink_(sink) {}
  // These nodes are to be compiled together. They must be convex: no way from one to another leads out of them.
  void Claim(std::span<const int64_t> nodes) const { Check(sink_.claim(sink_.context, nodes.data(), nodes.size())); }
  // The node runs by itself. reason: TENON_REFUSE_*; the text is for people, and copied.
  void Refuse(int64_t node, uint32_t reason, std::string_view text) const {
    Check(sink_.refuse(sink_.context, node, reason, ToSpan(text)));
  }

 private:
  const tenon_claim_sink& sink_;
};

// What the host is told of an executable when it has been compiled.
struct Compiled {
  uint64_t workspace_bytes = 0;          // of the device's memory, given to every run
  std::vector<tenon_in_place> in_place;  // inputs that may lie where an output does
};

namespace internal {

// The arguments with all that is known here, and nothing of what Compile fills.
inline tenon_status* TakeArgs(const tenon_compile_args* args, tenon_compile_args* whole,
                              tenon_graph_cursor* cursor_room) {
  TENON_SDK_RETURN_IF_ERROR(TakeStruct("a compilation", &args, whole));
  *whole = *args;
  TENON_SDK_RETURN_IF_ERROR(TakeStruct("a graph", &whole->cursor, cursor_room));
  if (whole->nodes == nullptr && whole->node_count != 0) return IsNull("the list of nodes");
  if (whole->inputs == nullptr && whole->input_count != 0) return IsNull("the list of inputs");
  if (whole->outputs == nullptr && whole->output_count != 0) return IsNull("the list of outputs");
  if (whole->device == nullptr) return IsNull("the device");
  whole->out_workspace_bytes = 0;
  whole->out_in_place = nullptr;
  whole->out_in_place_count = 0;
  return nullptr;
}
// Sets a member of the caller's that the caller knows.
template <class Value>
void Tell(tenon_compile_args* args, Value tenon_compile_args::*member, Value value) {
  const auto end = reinterpret_cast<const char*>(&(args->*member) + 1) - reinterpret_cast<const char*>(args);
  if (end <= static_cast<ptrdiff_t>(args->struct_size)) args->*member = value;
}
// What an executable says of itself, and itself.
template <class Executable>
void Give(std::unique_ptr<Executable> made, tenon_compile_args* args, tenon_executable** out_executable) {
  const Compiled& told = *made;
  Tell(args, &tenon_compile_args::out_workspace_bytes, told.workspace_bytes);
  Tell(args, &tenon_compile_args::out_in_place, told.in_place.data());
  Tell(args, &tenon_compile_args::out_in_place_count, static_cast<uint64_t>(told.in_place.size()));
  *out_executable = reinterpret_cast<tenon_executable*>(made.release());
}

// What all tables of compilers do with what they have made.
template <class Executable>
struct ExecutableFunctions {
  static Executable* Of(tenon_executable* executable) { return reinterpret_cast<Executable*>(executable); }
  static void Destroy(tenon_executable* executable) noexcept { delete Of(executable); }
  static tenon_status* Run(tenon_executable* executable, tenon_frame* frame) noexcept {
    if (executable == nullptr) [[unlikely]] return IsNull("the executable");
    if (frame == nullptr) [[unlikely]] return IsNull("the frame");
    return Answer([&] { return Of(executable)->Run(*frame); });
  }
};

template <class Compiler>
struct CompilerFunctions {
  using Executable = typename Compiler::Executable;

  static tenon_status* Claim(tenon_plugin_self* self, const tenon_graph_cursor* cursor, const int64_t* nodes,
                             uint64_t node_count, tenon_device* device, const tenon_claim_sink* sink) noexcept {
    return Answer([&]() -> tenon_status* {
      tenon_graph_cursor cursor_room;
      TENON_SDK_RETURN_IF_ERROR(TakeStruct("a graph", &cursor, &cursor_room));
      tenon_claim_sink sink_room;
      TENON_SDK_RETURN_IF_ERROR(TakeStruct("a claim", &sink, &sink_room));
      if (nodes == nullptr && node_count != 0) return IsNull("the list of nodes");
      return StatusOf([&] { return Compiler::Claim(self, *cursor, {nodes, node_count}, device, Claims(*sink)); });
    });
  }

  static tenon_status* Compile(tenon_plugin_self* self, tenon_compile_args* args,
                               tenon_executable** out_executable) noexcept {
    if (out_executable == nullptr) return IsNull("out_executable");
    *out_executable = nullptr;
    return Answer([&]() -> tenon_status* {
      tenon_compile_args whole = {};
      tenon_graph_cursor cursor_room;
      TENON_SDK_RETURN_IF_ERROR(TakeArgs(args, &whole, &cursor_room));
      std::unique_ptr<Executable> made = Compiler::Compile(self, whole);
      if (made == nullptr) return Failure(TENON_INTERNAL, "the compiler has made nothing");
      Give(std::move(made), args, out_executable);
      return nullptr;
    });
  }
};

}  // namespace internal

template <class Compiler>
inline constexpr tenon_compiler kCompilerTable = {
    TENON_HEAD(tenon_compiler),
    Compiler::kDeviceType,
    Compiler::kPriority,
    0,
    internal::CompilerFunctions<Compiler>::Claim,
    internal::CompilerFunctions<Compiler>::Compile,
    internal::ExecutableFunctions<typename Compiler::Executable>::Destroy,
    internal::ExecutableFunctions<typename Compiler::Executable>::Run};

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_COMPILER_H_
