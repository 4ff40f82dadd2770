/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's op, "Test>Tripled" of version OP_VERSION: y = scale * x, without a gradient; and, with BRINGS_GRADIENT
 * alone, a package with that. */
#include "tenon/c_util.h"
#include "tenon/ext/draft/tile.h"

#ifdef BRINGS_GRADIENT
static tenon_status* gradient(const tenon_gradient_args* args) {
  float scale = 0;
  tenon_status* status = tenon_c_attr_float(args->node_services, args->node, "scale", &scale);
  if (status != NULL) return status;
  tenon_output inputs[2];
  status = args->dense_dy(args, 0, &inputs[0]);
  if (status == NULL) status = tenon_c_scalar(args->builder, TENON_DT_FLOAT, scale, &inputs[1]);
  if (status != NULL) return status;
  tenon_node_spec spec = {TENON_HEAD(tenon_node_spec), .op = TENON_SPAN("Mul"), .inputs = inputs, .input_count = 2};
  int64_t node = -1;
  status = args->builder->add_node(args->builder->context, &spec, &node);
  if (status != NULL) return status;
  args->dx[0].kind = TENON_GRADIENT_DENSE;
  args->dx[0].dense.node = node;
  return NULL;
}
static const tenon_gradient_registration kTripled = {TENON_HEAD(tenon_gradient_registration),
                                                     TENON_SPAN("Test>Tripled"), gradient};
static const tenon_gradient_registration* const kGradients[] = {&kTripled};
static const tenon_gradient_package kPackage = {TENON_HEAD(tenon_gradient_package), kGradients, 1};
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(GRADIENTS, &kPackage)};
#else
static tenon_status* same_shape(tenon_plugin_self* self, const tenon_shape_services* services,
                                tenon_shape_context* context) {
  (void)self;
  return services->set_output_shape(context, 0, services->input_shape(context, 0));
}
static const tenon_op_definition kTripled = {TENON_HEAD(tenon_op_definition),
                                             .name = TENON_SPAN("Test>Tripled"),
                                             .inputs = TENON_SPAN("x: float"),
                                             .outputs = TENON_SPAN("y: float"),
                                             .attrs = TENON_SPAN("scale: float = 3"),
                                             .shape = same_shape,
                                             .version = OP_VERSION};
static const tenon_op_definition* const kOps[] = {&kTripled};
static const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};

struct tenon_kernel {
  float scale;
};
static struct tenon_kernel kernels[64]; /* more than the test makes */
static int32_t made = 0;

static tenon_status* create(const tenon_create_args* args, tenon_kernel** out_kernel) {
  struct tenon_kernel* kernel = &kernels[__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % 64];
  *out_kernel = kernel;
  return tenon_c_attr_float(args->node_services, args->node, "scale", &kernel->scale);
}
static void destroy(tenon_kernel* kernel) { (void)kernel; }
static tenon_status* run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  (void)prepared;
  const float* x = (const float*)tenon_c_data(frame->inputs[0]);
  float* y = (float*)tenon_c_data(frame->outputs[0]);
  for (int64_t i = 0; i < tenon_c_count(frame->inputs[0]); ++i) y[i] = kernel->scale * x[i];
  return NULL;
}
/* A piece of it, where the host runs it with its neighbours in the graph. A stride of 0 is never that of the only
 * input. */
static void piece(const void* argument, const void* const* inputs, const int64_t* strides, void* output,
                  int64_t count) {
  const struct tenon_kernel* kernel = (const struct tenon_kernel*)argument;
  const float* x = (const float*)inputs[0];
  float* y = (float*)output;
  (void)strides;
  for (int64_t i = 0; i < count; ++i) y[i] = kernel->scale * x[i];
}
static tenon_status* tile_of(tenon_tile_args* args) {
  args->out_function = piece;
  args->out_argument = args->kernel;
  return NULL;
}
/* Another id than the host's is for another host: in this one the kernel runs alone. */
#if OP_VERSION > 1
#define TILE_ID TENON_EXTENSION_TILE
#else
#define TILE_ID "tenon.tile/0"
#endif
static const tenon_tile kTile = {TENON_HEAD(tenon_tile), .id = TENON_SPAN(TILE_ID), .select = tile_of};
static const tenon_kernel_registration kOnCpu = {TENON_HEAD(tenon_kernel_registration),
                                                 .op = TENON_SPAN("Test>Tripled"),
                                                 .device_type = TENON_SPAN("CPU"),
                                                 .create = create,
                                                 .destroy = destroy,
                                                 .run = run,
                                                 .tile = &kTile};
static const tenon_kernel_registration* const kKernels[] = {&kOnCpu};
static const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, 1};
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
#endif

TENON_PLUGIN(PLUGIN_ID, "0.1.0", "A vendor's op.", kCapabilities)
