/* SPDX-License-Identifier: Apache-2.0 */
/* One op, TWIN_OP, whose output is what the plugin's own copy of the library answers. */
#include "tenon/plugin.h"

extern int twin_calls;
int twin_answer(void);

static tenon_status* scalar_shape(tenon_plugin_self* self, const tenon_shape_services* services,
                                  tenon_shape_context* context) {
  (void)self;
  const tenon_shape scalar = {NULL, 0, 0};
  return services->set_output_shape(context, 0, scalar);
}

static const tenon_op_definition kTwin = {
    .struct_size = sizeof(tenon_op_definition), .name = TENON_SPAN(TWIN_OP), .outputs = TENON_SPAN("y: int32"),
    .doc = TENON_SPAN("What the plugin's library answers."), .traits = TENON_OP_STATEFUL, .shape = scalar_shape};
static const tenon_op_definition* const kOps[] = {&kTwin};
static const tenon_op_package kOpPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};

static tenon_status* run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  (void)kernel;
  (void)prepared;
  const int before = twin_calls;
  const int answer = twin_answer();
  *(int32_t*)frame->outputs[0]->dl.data = twin_calls == before + 1 ? answer : -1;
  return NULL;
}
static const tenon_kernel_registration kTwinKernel = {
    .struct_size = sizeof(tenon_kernel_registration), .op = TENON_SPAN(TWIN_OP), .run = run};
static const tenon_kernel_registration* const kKernels[] = {&kTwinKernel};
static const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, 1};

static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
TENON_PLUGIN(TWIN_ID, "0.1.0", "Brings its own copy of a library.", kCapabilities)
