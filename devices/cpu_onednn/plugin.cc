// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.cpu_onednn, or tenon.cpu_onednn3 with oneDNN 3: faster kernels for the device type "CPU", of a
// higher priority than tenon.cpu's.
#include <charconv>
#include <string>

#include "bfloat16.h"
#include "chain.h"
#include "package.h"
#include "program.h"

namespace {

template <bool kWithPass>
constexpr tenon_capability kProvided[] = {TENON_PROVIDES(KERNELS, &tenon::cpu_onednn::kKernelPackage),
                                          TENON_PROVIDES(COMPILER, &tenon::cpu_onednn::kCompiler),
                                          TENON_PROVIDES(GRAPH_PASS, &tenon::cpu_onednn::kBfloat16Pass)};
template <>
constexpr tenon_capability kProvided<false>[] = {TENON_PROVIDES(KERNELS, &tenon::cpu_onednn::kKernelPackage),
                                                 TENON_PROVIDES(COMPILER, &tenon::cpu_onednn::kCompiler)};
constexpr const auto& kCapabilities = kProvided<tenon::cpu_onednn::library::kHasPass>;

const tenon_option_declaration kOptions[] = {
    {TENON_SPAN("threads"), TENON_SPAN("0"),
     TENON_SPAN("shares of one kernel at most; 0: as many as the host has threads"), TENON_OPTION_INT, 0},
    {TENON_SPAN("always"), TENON_SPAN("false"), TENON_SPAN("use oneDNN also where the plain kernels are faster"),
     TENON_OPTION_BOOL, 0},
    {TENON_SPAN("winograd"), TENON_SPAN("true"),
     TENON_SPAN("convolutions of 3 x 3 and their gradients by Winograd's transforms where that is faster; the last "
                "digits are others"),
     TENON_OPTION_BOOL, 0}};

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self**) {
  return tenon::sdk::Guard([&]() -> tenon_status* {
    for (uint64_t i = 0; i < args->option_count; ++i) {
      const auto key = tenon::sdk::ToText(args->options[i].key), value = tenon::sdk::ToText(args->options[i].value);
      if (key == "always" || key == "winograd") {
        (key == "always" ? tenon::cpu_onednn::use_always : tenon::cpu_onednn::winograd)
            .store(value == "true" || value == "1");
        continue;
      }
      if (key != "threads") {
        return tenon::sdk::Failure(TENON_INVALID_ARGUMENT, "unknown option '", key,
                                   "'; there are threads, always and winograd");
      }
      int64_t threads = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), threads);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || threads < 0) {
        return tenon::sdk::Failure(TENON_INVALID_ARGUMENT, "option threads is '", value,
                                   "'; expected a number from 0 on");
      }
      tenon::cpu_onednn::thread_limit.store(threads);
    }
    return nullptr;
  });
}

}  // namespace

TENON_PLUGIN_WITH(tenon::cpu_onednn::library::kPlugin, "0.1.0", tenon::cpu_onednn::library::kAbout, kCapabilities,
                  kOptions, TENON_PLUGIN_COUNT(kOptions), OnLoad, NULL)
