// SPDX-License-Identifier: Apache-2.0
#include "compiler.h"

#include <atomic>
#include <charconv>
#include <iterator>

#include "code/code.h"
#include "loop/loop.h"
#include "region/claiming.h"
#include "run/executable.h"
#include "tenon/sdk/kernel/kernel.h"

// What the options say.
struct tenon_plugin_self {
  tenon::cpu_codegen::Level level = tenon::cpu_codegen::BestLevel();
  int64_t least = 256, least_columns = 128 << 10;
};

namespace tenon::cpu_codegen {

constinit const tenon_option_declaration kOptions[] = {
    {TENON_SPAN("level"), TENON_SPAN("best"),
     TENON_SPAN("instructions of the code: best (that this machine has), avx512, avx2, or none: nothing is generated"),
     TENON_OPTION_STRING, 0},
    {TENON_SPAN("least"), TENON_SPAN("256"), TENON_SPAN("elements of a value, from which on code is generated"),
     TENON_OPTION_INT, 0},
    {TENON_SPAN("least_columns"), TENON_SPAN("131072"),
     TENON_SPAN("elements of a value, from which on reductions of its first dims are in the code"), TENON_OPTION_INT,
     0}};

static_assert(std::size(kOptions) == kOptionCount);

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return sdk::Guard([&]() -> tenon_status* {
    auto self = std::make_unique<tenon_plugin_self>();
    for (uint64_t i = 0; i < args->option_count; ++i) {
      const std::string_view key = sdk::ToText(args->options[i].key), value = sdk::ToText(args->options[i].value);
      if (key == "level") {
        if (value == "none") {
          self->level = Level::kNone;
        } else if (value == "avx2" || value == "avx512") {
          self->level = value == "avx2" ? Level::kAvx2 : Level::kAvx512;
          if (BestLevel() < self->level)
            return sdk::Failure(TENON_INVALID_ARGUMENT, "option level is '", value,
                                "', which this machine does not have");
        } else if (value != "best") {
          return sdk::Failure(TENON_INVALID_ARGUMENT, "option level is '", value,
                              "'; it may be best, avx512, avx2 or none");
        }
      } else if (key == "least" || key == "least_columns") {
        int64_t& least = key == "least" ? self->least : self->least_columns;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), least);
        if (error != std::errc() || end != value.data() + value.size() || least < 1)
          return sdk::Failure(TENON_INVALID_ARGUMENT, "option ", key, " is '", value, "'; expected a number from 1 on");
      } else {
        return sdk::Failure(TENON_INVALID_ARGUMENT, "unknown option '", key,
                            "'; there are level, least and least_columns");
      }
    }
    *out_self = self.release();
    return nullptr;
  });
}

void OnUnload(tenon_plugin_self* self) { delete self; }

namespace {

// Said once: the step's answers are the same without.
bool MayGenerate(const tenon_plugin_self& self) {
  if (self.level == Level::kNone) return false;
  if (MayExecute()) return true;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    tenon_plugin_host->log(TENON_LOG_INFO, TENON_SPAN("tenon.cpu_codegen: this system lets no process execute what it "
                                                      "wrote; chains of element-wise nodes run by their kernels"));
  return false;
}

struct Compiler {
  static constexpr tenon_span kDeviceType = TENON_SPAN("CPU");
  static constexpr int32_t kPriority = 0;
  using Executable = cpu_codegen::Executable;

  static void Claim(const tenon_plugin_self* self, const tenon_graph_cursor& cursor, std::span<const int64_t> nodes,
                    const tenon_device*, const sdk::Claims& claims) {
    if (MayGenerate(*self)) ClaimRegions(cursor, nodes, self->level, {self->least, self->least_columns}, claims);
  }
  static std::unique_ptr<Executable> Compile(const tenon_plugin_self* self, const tenon_compile_args& args) {
    return Executable::Make(args, self->level, self->least);
  }
};

struct LoopCompiler {
  static constexpr tenon_span kDeviceType = TENON_SPAN("CPU");
  static constexpr int32_t kPriority = 0;
  using Executable = LoopExecutable;

  static std::unique_ptr<Executable> Compile(const tenon_plugin_self* self, const tenon_compile_args& args,
                                             const tenon_compile_loop& loop) {
    if (!MayGenerate(*self)) sdk::Fail(TENON_UNIMPLEMENTED, "no code may be generated");
    return LoopExecutable::Make(args, loop, self->level);
  }
};

}  // namespace

constinit const tenon_compiler kCompiler = sdk::kCompilerTable<Compiler>;
constinit const tenon_loop_compiler kLoopCompiler = sdk::kLoopCompilerTable<LoopCompiler>;

}  // namespace tenon::cpu_codegen
