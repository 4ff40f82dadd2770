/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the GraphDef of the graph of same_graph.cc, built through C alone. */
#include <stdio.h>
#include <string.h>

#include "tenon/app.h"
#include "tenon/op.h" /* struct tenon_gradient */

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

typedef struct Node {
  const char* op;
  const char* name;
  const char* device;
  tenon_output inputs[2];
  uint64_t input_count;
  tenon_attr attrs[2];
  uint64_t attr_count;
} Node;

static tenon_output add(tenon_app_graph* graph, const Node* node) {
  tenon_node_spec spec = {
      TENON_HEAD(tenon_node_spec),      .op = span(node->op), .name = span(node->name),      .inputs = node->inputs,
      .input_count = node->input_count, .attrs = node->attrs, .attr_count = node->attr_count};
  tenon_output output = {-1, 0, 0};
  if (failure == NULL) check(tenon_graph_add_node(graph, &spec, span(node->device), &output.node));
  return output;
}

static tenon_output constant(tenon_app_graph* graph, uint32_t dtype, int64_t count, int32_t rank, const void* data) {
  const tenon_shape shape = {&count, rank, 0};
  tenon_tensor* tensor = NULL;
  tenon_output output = {-1, 0, 0};
  check(tenon_tensor_create(dtype, shape, data, 4 * (rank == 0 ? 1 : (uint64_t)count), &tensor));
  if (failure == NULL) check(tenon_graph_add_constant(graph, span(""), tenon_tensor_get_view(tensor), &output));
  tenon_tensor_release(tensor);
  return output;
}

static tenon_attr attr(const char* name, uint32_t kind, const void* data) {
  tenon_attr made = {span(name), {kind, 0, 1, data}};
  return made;
}

static void define_twice(tenon_app_graph* graph) {
  static const uint32_t dtype = TENON_DT_FLOAT;
  static const tenon_shape unknown = {NULL, -1, 0};
  tenon_app_graph* body = NULL;
  check(tenon_graph_create_body(graph, &body));
  const Node argument = {"Placeholder",
                         "x0",
                         "",
                         {{0}},
                         0,
                         {attr("dtype", TENON_ATTR_TYPE, &dtype), attr("shape", TENON_ATTR_SHAPE, &unknown)},
                         2};
  const tenon_output x = add(body, &argument);
  const Node sum = {.op = "AddV2", .name = "", .device = "", .inputs = {x, x}, .input_count = 2};
  const tenon_output y = add(body, &sum);
  const tenon_named_output input = {TENON_SPAN("x0"), x}, output = {TENON_SPAN("y0"), y};
  const tenon_function_spec spec = {TENON_HEAD(tenon_function_spec),
                                    .name = span("twice"),
                                    .body = body,
                                    .inputs = &input,
                                    .input_count = 1,
                                    .outputs = &output,
                                    .output_count = 1};
  if (failure == NULL) check(tenon_graph_add_function(graph, &spec));
  tenon_graph_release(body);
}

int main(void) {
  static const uint32_t dtype = TENON_DT_FLOAT;
  static const int64_t dims[] = {-1, 3};
  static const tenon_shape shape = {dims, 2, 0};
  static const float numbers[] = {1, 2, 3, 4, 5, 6};
  static const int32_t sizes[] = {3, 2}, axis = 0;
  static const uint8_t no = 0, yes = 1;
  const tenon_runtime_options options = {TENON_HEAD(tenon_runtime_options), .threads = 1};
  tenon_runtime* runtime = NULL;
  tenon_app_graph* graph = NULL;
  check(tenon_runtime_create(&options, &runtime));
  if (failure == NULL) check(tenon_graph_create(runtime, &graph));
  if (failure == NULL) {
    const Node placeholder = {"Placeholder",
                              "x",
                              "",
                              {{0}},
                              0,
                              {attr("dtype", TENON_ATTR_TYPE, &dtype), attr("shape", TENON_ATTR_SHAPE, &shape)},
                              2};
    const tenon_output x = add(graph, &placeholder);
    tenon_graph_set_scope(graph, span("layer"));
    tenon_graph_set_device(graph, span("CPU:0"));
    const tenon_output w = constant(graph, TENON_DT_FLOAT, 6, 1, numbers);
    const Node reshape = {.op = "Reshape",
                          .name = "",
                          .device = "",
                          .inputs = {w, constant(graph, TENON_DT_INT32, 2, 1, sizes)},
                          .input_count = 2};
    const Node product = {
        "MatMul", "product", "", {x, add(graph, &reshape)}, 2, {attr("transpose_b", TENON_ATTR_BOOL, &no)}, 1};
    const tenon_output y = add(graph, &product);
    tenon_graph_set_scope(graph, span(""));
    tenon_graph_set_device(graph, span(""));
    check(tenon_graph_set_control_inputs(graph, &y.node, 1));
    const Node sum = {
        "Sum", "", "", {y, constant(graph, TENON_DT_INT32, 0, 0, &axis)}, 2, {attr("keep_dims", TENON_ATTR_BOOL, &yes)},
        1};
    add(graph, &sum);
    check(tenon_graph_set_control_inputs(graph, NULL, 0));
    struct tenon_gradient dx;
    if (failure == NULL) check(tenon_graph_add_gradients(graph, &y, 1, &x, 1, NULL, &dx));
    define_twice(graph);
    const Node call = {.op = "twice", .name = "", .device = "", .inputs = {y}, .input_count = 1};
    add(graph, &call);
  }
  tenon_text* bytes = NULL;
  if (failure == NULL) check(tenon_graph_export(graph, &bytes));
  if (failure == NULL) fwrite(tenon_text_span(bytes).data, 1, (size_t)tenon_text_span(bytes).size, stdout);
  if (failure != NULL)
    fprintf(stderr, "%.*s\n", (int)tenon_status_message(failure).size, tenon_status_message(failure).data);
  const int failed = failure != NULL;
  tenon_status_release(failure);
  tenon_text_release(bytes);
  tenon_graph_release(graph);
  tenon_runtime_release(runtime);
  return failed;
}
