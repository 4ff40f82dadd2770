/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin without fault: one op, two options, a load() that says what it got and can be told to fail. */
#include <string.h>

#include "tenon/plugin.h"

static const tenon_op_definition kGood = {TENON_HEAD(tenon_op_definition), .name = TENON_SPAN("Good"),
                                          .inputs = TENON_SPAN("x: T"), .outputs = TENON_SPAN("y: T"),
                                          .attrs = TENON_SPAN("T: {float, double}")};
static const tenon_op_definition* const kOps[] = {&kGood};
static const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};

static const uint32_t kTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE};
static const tenon_type_constraint kConstraints[] = {{TENON_SPAN("T"), kTypes, 2}};
static const tenon_kernel_registration kKernel = {TENON_HEAD(tenon_kernel_registration), .op = TENON_SPAN("Good"),
                                                  .device_type = TENON_SPAN("CPU"), .label = TENON_SPAN(""),
                                                  .priority = -3, .constraints = kConstraints, .constraint_count = 1};
static const tenon_kernel_registration* const kRegistrations[] = {&kKernel};
static const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations, 1};

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kPackage),
                                                 {TENON_SPAN("vendor.future/3"), &kPackage, 0},
                                                 TENON_PROVIDES(KERNELS, &kKernels)};

static const tenon_option_declaration kOptions[] = {
    {TENON_SPAN("greeting"), TENON_SPAN("hello"), TENON_SPAN("What load() logs; \"fail\" makes it fail."),
     TENON_OPTION_STRING, 0},
    {TENON_SPAN("count"), TENON_SPAN(""), TENON_SPAN("Without default."), TENON_OPTION_INT, 0},
    {TENON_SPAN("ratio"), TENON_SPAN("0.5"), TENON_SPAN("A float."), TENON_OPTION_FLOAT, 0},
    {TENON_SPAN("loud"), TENON_SPAN("false"), TENON_SPAN("A bool."), TENON_OPTION_BOOL, 0}};

static int load_count = 0;

static tenon_status* on_load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  for (uint64_t i = 0; i < args->option_count; ++i) {
    if (args->options[i].value.size == 4 && memcmp(args->options[i].value.data, "fail", 4) == 0) {
      return tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "told to fail");
    }
    tenon_plugin_host->log(TENON_LOG_DEBUG, args->options[i].key);
    tenon_plugin_host->log(TENON_LOG_INFO, args->options[i].value);
  }
  ++load_count;
  *out_self = (tenon_plugin_self*)&load_count;
  return NULL;
}

static void on_unload(tenon_plugin_self* self) {
  const tenon_span good = TENON_SPAN("unloaded");
  const tenon_span bad = TENON_SPAN("unloaded with another self");
  tenon_plugin_host->log(TENON_LOG_INFO, self == (tenon_plugin_self*)&load_count ? good : bad);
}

TENON_PLUGIN_WITH("test.good", "1.2.3", "A plugin \"without\" fault.", kCapabilities, kOptions, 4, on_load, on_unload)
