/* SPDX-License-Identifier: Apache-2.0 */
/* A package with a kernel alone: Neg of floats for devices of type ASYNC, which somebody else's plugin drives, and an
 * op that a third one defines.
 *
 * create() asks the driver for what it offers to kernels of others, and leaves the node to another kernel where that is
 * not there; run() gives the frame's queue its work. For a GPU the table is tenon.native_handle/1
 * (tenon/ext/draft/native_handle.h), which has the stream. */
#include "launch.h"
#include "tenon/c_util.h"

static tenon_status* create(const tenon_create_args* args, tenon_kernel** out_kernel) {
  const tenon_span id = TENON_SPAN(EXAMPLE_LAUNCH_ID);
  const example_launch* table = NULL;
  if (TENON_CALLABLE(args->services, device_extension)) {
    table = (const example_launch*)args->services->device_extension(args->context, id);
  }
  if (table == NULL || !TENON_CALLABLE(table, launch)) {
    return tenon_c_error(TENON_UNIMPLEMENTED, "the driver of the device does not offer %s", EXAMPLE_LAUNCH_ID);
  }
  *out_kernel = (tenon_kernel*)table; /* all that the kernel must know; it lives as long as the kernel */
  return NULL;
}
static void destroy(tenon_kernel* kernel) { (void)kernel; }

struct piece {
  const float* x;
  float* y;
  uint64_t count;
};

static void negate(void* argument) {
  const struct piece* piece = (const struct piece*)argument;
  for (uint64_t i = 0; i < piece->count; ++i) piece->y[i] = -piece->x[i];
}

static tenon_status* run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  const example_launch* table = (const example_launch*)kernel;
  const struct piece piece = {(const float*)tenon_c_data(frame->inputs[0]), (float*)tenon_c_data(frame->outputs[0]),
                              frame->inputs[0]->byte_size / sizeof(float)};
  (void)prepared;
  return table->launch(frame, negate, &piece, sizeof(piece));
}

static const uint32_t kFloat[] = {TENON_DT_FLOAT};
static const tenon_type_constraint kFloats[] = {{TENON_SPAN("T"), kFloat, 1}};
static const tenon_kernel_registration kNeg = {TENON_HEAD(tenon_kernel_registration),
                                               .op = TENON_SPAN("Neg"),
                                               .device_type = TENON_SPAN("ASYNC"),
                                               .constraints = kFloats,
                                               .constraint_count = 1,
                                               .create = create,
                                               .destroy = destroy,
                                               .run = run};
static const tenon_kernel_registration* const kRegistrations[] = {&kNeg};
static const tenon_kernel_package kKernels = {TENON_HEAD(tenon_kernel_package), kRegistrations, 1};
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(KERNELS, &kKernels)};
TENON_PLUGIN("example.neg_on_async", "1.0.0", "Neg for the ASYNC device, from somebody else.", kCapabilities)
