// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.tpu_sim: simulated devices of type "TPU", their kernels and their compiler.
#include "compiler.h"
#include "driver.h"

namespace {

using tenon::tpu_sim::Options;
using tenon::tpu_sim::System;

const tenon_capability kCapabilities[] = {
    TENON_PROVIDES(DEVICE, &tenon::tpu_sim::kDeviceDriver),
    TENON_PROVIDES(KERNELS, &tenon::tpu_sim::kKernelPackage),
    TENON_PROVIDES(COMPILER, &tenon::tpu_sim::kCompiler),
};

tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self** out_self) {
  return tenon::sdk::Guard([&]() -> tenon_status* {
    Options options;
    if (tenon_status* status = ToStatus(ParseOptions(*args, &options))) return status;
    *out_self =
        reinterpret_cast<tenon_plugin_self*>(new std::shared_ptr<System>(std::make_shared<System>(std::move(options))));
    return nullptr;
  });
}

void OnUnload(tenon_plugin_self* self) { delete reinterpret_cast<std::shared_ptr<System>*>(self); }

}  // namespace

TENON_PLUGIN_WITH("tenon.tpu_sim", "0.1.0",
                  "A simulated TPU-style accelerator: numbers, and the cycles they would take.", kCapabilities,
                  tenon::tpu_sim::kOptionDeclarations, tenon::tpu_sim::kOptionCount, OnLoad, OnUnload)
