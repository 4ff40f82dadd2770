/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that do nothing, so that what the engine itself costs can be measured: PerfNull (x -> y), PerfNull2 (x, y -> z).
 */
#include "tenon/plugin.h"

static tenon_status* scalar_shape(tenon_plugin_self* self, const tenon_shape_services* services,
                                  tenon_shape_context* context) {
  (void)self;
  return services->set_output_shape(context, 0, services->input_shape(context, 0));
}

/* Stateful, so that equal nodes are not merged and none is folded. */
static const tenon_op_definition kNull = {.struct_size = sizeof(tenon_op_definition),
                                          .name = TENON_SPAN("PerfNull"),
                                          .inputs = TENON_SPAN("x: float"),
                                          .outputs = TENON_SPAN("y: float"),
                                          .doc = TENON_SPAN("Does nothing."),
                                          .traits = TENON_OP_STATEFUL,
                                          .shape = scalar_shape};
static const tenon_op_definition kNull2 = {.struct_size = sizeof(tenon_op_definition),
                                           .name = TENON_SPAN("PerfNull2"),
                                           .inputs = TENON_SPAN("x: float, y: float"),
                                           .outputs = TENON_SPAN("z: float"),
                                           .doc = TENON_SPAN("Does nothing."),
                                           .traits = TENON_OP_STATEFUL,
                                           .shape = scalar_shape};
static const tenon_op_definition* const kOps[] = {&kNull, &kNull2};
static const tenon_op_package kOpPackage = {TENON_HEAD(tenon_op_package), kOps, 2, 0};

static tenon_status* run_null(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  (void)kernel;
  (void)prepared;
  (void)frame;
  return NULL;
}

static const tenon_kernel_registration kNullKernel = {
    .struct_size = sizeof(tenon_kernel_registration), .op = TENON_SPAN("PerfNull"), .run = run_null};
static const tenon_kernel_registration kNull2Kernel = {
    .struct_size = sizeof(tenon_kernel_registration), .op = TENON_SPAN("PerfNull2"), .run = run_null};
static const tenon_kernel_registration* const kKernels[] = {&kNullKernel, &kNull2Kernel};
static const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, 2};

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
TENON_PLUGIN("tenon.perf.null", "0.1.0", "Ops that do nothing, for benchmarks.", kCapabilities)
