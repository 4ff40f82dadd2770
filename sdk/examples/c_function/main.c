/* SPDX-License-Identifier: Apache-2.0 */
/* Defines a function, calls it twice and differentiates through the calls, in C.
 *
 *   cc main.c -ltenon && ./a.out [PLUGIN.so]...
 *
 * bump(x) = x * exp(-x^2), whose derivative is (1 - 2 x^2) exp(-x^2); y = bump(bump(0.5)), and dy/dx by the chain rule.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tenon/app.h"
#include "tenon/op.h" /* struct tenon_gradient */

/* The first failure; what comes after it is skipped. */
static tenon_status* failure = NULL;

static void check(tenon_status* status) {
  if (status == NULL) return;
  if (failure == NULL) {
    failure = status;
  } else {
    tenon_status_release(status);
  }
}

static tenon_span span(const char* text) {
  tenon_span result = {text, strlen(text)};
  return result;
}

/* A node with `count` inputs of the two and perhaps an attribute; its first output. An op may be a function of the
 * graph. */
static tenon_output node(tenon_app_graph* graph, const char* op, const char* name, uint64_t count, tenon_output a,
                         tenon_output b, const tenon_attr* attr) {
  const tenon_output inputs[2] = {a, b};
  tenon_node_spec spec = {TENON_HEAD(tenon_node_spec), .op = span(op), .name = span(name),        .inputs = inputs,
                          .input_count = count,        .attrs = attr,  .attr_count = attr != NULL};
  tenon_output output = {-1, 0, 0};
  if (failure == NULL) check(tenon_graph_add_node(graph, &spec, span(""), &output.node));
  return output;
}

static const tenon_output kNone = {-1, 0, 0};

/* The body is a graph of its own; a placeholder in it becomes the argument. */
static void define_bump(tenon_app_graph* graph) {
  const uint32_t dtype = TENON_DT_DOUBLE;
  const tenon_attr type = {TENON_SPAN("dtype"), {TENON_ATTR_TYPE, 0, 1, &dtype}};
  tenon_app_graph* body = NULL;
  check(tenon_graph_create_body(graph, &body));
  const tenon_output x = node(body, "Placeholder", "x", 0, kNone, kNone, &type);
  const tenon_output square = node(body, "Square", "", 1, x, kNone, NULL);
  const tenon_output decay = node(body, "Exp", "", 1, node(body, "Neg", "", 1, square, kNone, NULL), kNone, NULL);
  const tenon_output y = node(body, "Mul", "", 2, x, decay, NULL);
  const tenon_named_output input = {TENON_SPAN("x"), x}, output = {TENON_SPAN("y"), y};
  const tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                                    .name = span("bump"),
                                    .description = span("x exp(-x^2)"),
                                    .body = body,
                                    .inputs = &input,
                                    .input_count = 1,
                                    .outputs = &output,
                                    .output_count = 1};
  if (failure == NULL) check(tenon_graph_add_function(graph, &spec));
  tenon_graph_release(body);
}

static double bump(double x) { return x * exp(-x * x); }
static double slope(double x) { return (1 - 2 * x * x) * exp(-x * x); }

static void build_and_run(tenon_runtime* runtime) {
  const double at = 0.5;
  const tenon_shape scalar = {NULL, 0, 0};
  tenon_app_graph* graph = NULL;
  tenon_session* session = NULL;
  tenon_tensor *value = NULL, *results[2] = {NULL, NULL};
  tenon_output x = kNone;
  struct tenon_gradient gradient;
  check(tenon_graph_create(runtime, &graph));
  if (failure == NULL) define_bump(graph);
  if (failure == NULL) check(tenon_tensor_create(TENON_DT_DOUBLE, scalar, &at, sizeof(at), &value));
  if (failure == NULL) check(tenon_graph_add_constant(graph, span("x"), tenon_tensor_get_view(value), &x));
  tenon_tensor_release(value);
  const tenon_output y = node(graph, "bump", "y", 1, node(graph, "bump", "", 1, x, kNone, NULL), kNone, NULL);
  if (failure == NULL) check(tenon_graph_add_gradients(graph, &y, 1, &x, 1, NULL, &gradient));
  if (failure == NULL) check(tenon_session_create(runtime, NULL, &session));
  if (failure == NULL) check(tenon_session_extend_graph(session, graph));
  if (failure == NULL) {
    const tenon_span fetches[2] = {span("y"), tenon_graph_node_name(graph, gradient.dense.node)};
    check(tenon_session_run(session, NULL, NULL, NULL, 0, fetches, 2, NULL, 0, results));
  }
  if (failure == NULL) {
    printf("bump(bump(0.5)) = %.6f (by hand %.6f)\n", *(const double*)tenon_tensor_get_view(results[0])->dl.data,
           bump(bump(at)));
    printf("its derivative  = %.6f (by hand %.6f)\n", *(const double*)tenon_tensor_get_view(results[1])->dl.data,
           slope(bump(at)) * slope(at));
  }
  for (int i = 0; i < 2; ++i) tenon_tensor_release(results[i]);
  tenon_session_release(session);
  tenon_graph_release(graph);
}

int main(int argc, char** argv) {
  const tenon_runtime_options options = {TENON_HEAD(tenon_runtime_options), .no_search = 0};
  tenon_runtime* runtime = NULL;
  check(tenon_runtime_create(&options, &runtime));
  for (int i = 1; i < argc && failure == NULL; ++i) check(tenon_runtime_load_plugin(runtime, span(argv[i])));
  if (failure == NULL) build_and_run(runtime);
  if (failure != NULL) {
    const tenon_span message = tenon_status_message(failure);
    fprintf(stderr, "c_function: %.*s\n", (int)message.size, message.data);
    tenon_status_release(failure);
  }
  tenon_runtime_release(runtime);
  return failure != NULL;
}
