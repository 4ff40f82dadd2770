/* SPDX-License-Identifier: Apache-2.0 */
/* A whole op package in one file: Cube, y = x^3, with its shape function, gradient and CPU kernel.
 *
 * Copy this folder, rename, and build:
 *   cmake -S . -B build -DCMAKE_PREFIX_PATH=/where/tenon/is && cmake --build build
 * which makes build/lib/tenon/plugins/tenon_cube.so. */
#include "tenon/plugin.h"

/* ---- What the op means ---- */

/* y has x's shape, whatever is known of it. */
static tenon_status* cube_shape(tenon_plugin_self* self, const tenon_shape_services* services,
                                tenon_shape_context* context) {
  (void)self;
  return services->set_output_shape(context, 0, services->input_shape(context, 0));
}

/* Adds Mul(a, b) to the graph. */
static tenon_status* multiply(const tenon_gradient_args* args, tenon_output a, tenon_output b,
                              tenon_output* out_product) {
  const tenon_output inputs[2] = {a, b};
  const tenon_node_spec spec = {TENON_HEAD(tenon_node_spec), .op = TENON_SPAN("Mul"), .inputs = inputs,
                                .input_count = 2};
  int64_t node = -1;
  tenon_status* status = args->builder->add_node(args->builder->context, &spec, &node);
  out_product->node = node;
  out_product->index = 0;
  return status;
}

/* Adds the scalar 3 of dtype float or double to the graph. */
static tenon_status* three(const tenon_gradient_args* args, uint32_t dtype, tenon_output* out_three) {
  float single = 3.0f;
  double twice = 3.0;
  const int is_float = dtype == TENON_DT_FLOAT;
  const tenon_tensor_view value = {
      .dl = {.data = is_float ? (void*)&single : (void*)&twice,
             .device_type = 1, /* DLPack's CPU */
             .dtype = {.code = 2, .bits = is_float ? 32 : 64, .lanes = 1}}, /* 2: DLPack's float */
      .dtype = dtype,
      .byte_size = is_float ? sizeof(single) : sizeof(twice),
      .flags = TENON_VIEW_READ_ONLY | TENON_VIEW_HOST_VISIBLE};
  return args->builder->add_constant(args->builder->context, &value, out_three);
}

/* dx = 3 * x * x * dy, built of nodes, so that it has a gradient of its own. */
static tenon_status* cube_gradient(const tenon_gradient_args* args) {
  const tenon_output x = args->inputs[0];
  tenon_output dy, factor;
  tenon_output product = x;
  tenon_status* status = args->dense_dy(args, 0, &dy);
  if (status == NULL) status = three(args, args->node_services->input_dtype(args->node, 0), &factor);
  if (status == NULL) status = multiply(args, x, x, &product);
  if (status == NULL) status = multiply(args, product, factor, &product);
  if (status == NULL) status = multiply(args, product, dy, &product);
  if (status != NULL) return status;
  args->dx[0].kind = TENON_GRADIENT_DENSE;
  args->dx[0].dense = product;
  return NULL;
}

static const tenon_op_definition kCube = {TENON_HEAD(tenon_op_definition),
                                          .name = TENON_SPAN("Cube"),
                                          .inputs = TENON_SPAN("x: T"),
                                          .outputs = TENON_SPAN("y: T"),
                                          .attrs = TENON_SPAN("T: {float, double}"),
                                          .doc = TENON_SPAN("y = x * x * x, element by element."),
                                          .shape = cube_shape,
                                          .gradient = cube_gradient,
                                          .properties = TENON_SPAN("elementwise, computes(mul(square(x), x))")};

/* ---- How the CPU runs it ---- */

/* Cubes the elements [begin, end); the host shares them out among its threads. */
static void cube_floats(void* argument, int64_t begin, int64_t end) {
  const tenon_frame* frame = argument;
  const float* x = (const float*)((const char*)frame->inputs[0]->dl.data + frame->inputs[0]->dl.byte_offset);
  float* y = (float*)((char*)frame->outputs[0]->dl.data + frame->outputs[0]->dl.byte_offset);
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * x[i] * x[i];
}

static void cube_doubles(void* argument, int64_t begin, int64_t end) {
  const tenon_frame* frame = argument;
  const double* x = (const double*)((const char*)frame->inputs[0]->dl.data + frame->inputs[0]->dl.byte_offset);
  double* y = (double*)((char*)frame->outputs[0]->dl.data + frame->outputs[0]->dl.byte_offset);
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * x[i] * x[i];
}

/* The host has checked dtypes and shapes, and has allocated y. Half a nanosecond an element is a rough guess. */
static tenon_status* cube_run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  (void)kernel, (void)prepared;
  const int is_float = frame->inputs[0]->dtype == TENON_DT_FLOAT;
  const int64_t count = (int64_t)(frame->inputs[0]->byte_size / (is_float ? sizeof(float) : sizeof(double)));
  frame->services->parallel_for(frame, count, 0.5, is_float ? cube_floats : cube_doubles, frame);
  return NULL;
}

static const uint32_t kTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE};
static const tenon_type_constraint kConstraints[] = {{TENON_SPAN("T"), kTypes, TENON_PLUGIN_COUNT(kTypes)}};
static const tenon_in_place kInPlace[] = {{0, 0}}; /* y may take x's memory when nobody else reads x */
static const tenon_kernel_registration kCubeOnCpu = {TENON_HEAD(tenon_kernel_registration),
                                                     .op = TENON_SPAN("Cube"),
                                                     .device_type = TENON_SPAN("CPU"),
                                                     .traits = TENON_KERNEL_DETERMINISTIC,
                                                     .constraints = kConstraints,
                                                     .constraint_count = 1,
                                                     .in_place = kInPlace,
                                                     .in_place_count = 1,
                                                     .run = cube_run};

/* ---- The package ---- */

static const tenon_op_definition* const kOps[] = {&kCube};
static const tenon_op_package kOpPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};
static const tenon_kernel_registration* const kKernels[] = {&kCubeOnCpu};
static const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kKernels, 1};
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kOpPackage),
                                                 TENON_PROVIDES(KERNELS, &kKernelPackage)};
TENON_PLUGIN("example.cube", "1.0.0", "The op Cube.", kCapabilities)
