/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a line in C, writes it as a SavedModel, loads it again and calls it by its signature, with nothing but
 * tenon/train.h and tenon/model.h.
 *
 *   cc main.c -ltenon_model_c -ltenon && ./a.out FOLDER [PLUGIN.so]...
 *
 * y = w x + b is fitted to y = 3 x - 1 by Adam. FOLDER must not be there; TensorFlow can load it afterwards. */
#include <stdio.h>
#include <string.h>

#include "tenon/model.h"
#include "tenon/train.h"

#define STEPS 400

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

static tenon_output node(tenon_app_graph* graph, const char* op, const char* name, const tenon_output* inputs,
                         uint64_t count, const tenon_attr* attr) {
  tenon_node_spec spec = {TENON_HEAD(tenon_node_spec), .op = span(op), .name = span(name),        .inputs = inputs,
                          .input_count = count,        .attrs = attr,  .attr_count = attr != NULL};
  tenon_output output = {-1, 0, 0};
  if (failure == NULL) check(tenon_graph_add_node(graph, &spec, span(""), &output.node));
  return output;
}

static tenon_output two(tenon_app_graph* graph, const char* op, const char* name, tenon_output a, tenon_output b) {
  const tenon_output inputs[2] = {a, b};
  return node(graph, op, name, inputs, 2, NULL);
}

static tenon_output constant(tenon_app_graph* graph, uint32_t dtype, const void* values, uint64_t bytes, int32_t rank,
                             int64_t size) {
  const tenon_shape shape = {&size, rank, 0};
  tenon_tensor* tensor = NULL;
  tenon_output output = {-1, 0, 0};
  if (failure == NULL) check(tenon_tensor_create(dtype, shape, values, bytes, &tensor));
  if (failure == NULL) check(tenon_graph_add_constant(graph, span(""), tenon_tensor_get_view(tensor), &output));
  tenon_tensor_release(tensor);
  return output;
}

static tenon_output variable(tenon_variables* variables, const char* name) {
  tenon_variable_spec spec = {TENON_HEAD(tenon_variable_spec), .name = span(name)};
  tenon_variable_info info = {TENON_HEAD(tenon_variable_info), .value = {-1, 0, 0}};
  if (failure == NULL) check(tenon_variables_add(variables, &spec, &info));
  return info.value;
}

static void run(tenon_session* session, const tenon_app_graph* graph, int64_t target, int times) {
  const tenon_span name = tenon_graph_node_name(graph, target);
  for (int i = 0; i < times && failure == NULL; ++i)
    check(tenon_session_run(session, NULL, NULL, NULL, 0, NULL, 0, &name, 1, NULL));
}

/* The line in a graph, trained, and written to the folder. */
static void train_and_write(tenon_runtime* runtime, tenon_span folder) {
  static const float kX[4] = {-1, 0, 1, 2}, kY[4] = {-4, -1, 2, 5}, kRate = 0.1f;
  static const int32_t kAxis = 0;
  const uint32_t dtype = TENON_DT_FLOAT;
  const tenon_attr of_type = {TENON_SPAN("dtype"), {TENON_ATTR_TYPE, 0, 1, &dtype}};
  tenon_app_graph* graph = NULL;
  tenon_variables* variables = NULL;
  tenon_session* session = NULL;
  tenon_text* graph_def = NULL;
  int64_t init = -1, update = -1;
  if (failure == NULL) check(tenon_graph_create(runtime, &graph));
  if (failure == NULL) check(tenon_variables_create(graph, NULL, &variables));
  const tenon_output w = variable(variables, "w"), b = variable(variables, "b");
  const tenon_output given = node(graph, "Placeholder", "x", NULL, 0, &of_type);
  two(graph, "AddV2", "y", two(graph, "Mul", "", w, given), b);

  const tenon_output x = constant(graph, TENON_DT_FLOAT, kX, sizeof(kX), 1, 4),
                     y = constant(graph, TENON_DT_FLOAT, kY, sizeof(kY), 1, 4);
  const tenon_output error = two(graph, "Sub", "", two(graph, "AddV2", "", two(graph, "Mul", "", w, x), b), y);
  const tenon_output loss = two(graph, "Mean", "loss", node(graph, "Square", "", &error, 1, NULL),
                                constant(graph, TENON_DT_INT32, &kAxis, sizeof(kAxis), 1, 1));
  const tenon_output rate = constant(graph, TENON_DT_FLOAT, &kRate, sizeof(kRate), 0, 0);
  if (failure == NULL) check(tenon_variables_minimize(variables, loss, rate, NULL, &update)); /* Adam */
  if (failure == NULL) check(tenon_variables_initializer(variables, &init));

  if (failure == NULL) check(tenon_session_create(runtime, NULL, &session));
  if (failure == NULL) check(tenon_session_extend_graph(session, graph));
  if (failure == NULL) run(session, graph, init, 1);
  if (failure == NULL) run(session, graph, update, STEPS);

  const tenon_signature_entry in = {TENON_SPAN("x"), TENON_SPAN("x")}, out = {TENON_SPAN("y"), TENON_SPAN("y")};
  const tenon_signature_spec serving = {TENON_HEAD(tenon_signature_spec), .inputs = &in, .input_count = 1,
                                        .outputs = &out, .output_count = 1};
  const tenon_signature_spec* const signatures[] = {&serving};
  const tenon_model_write_options options = {TENON_HEAD(tenon_model_write_options), .signatures = signatures,
                                             .signature_count = 1};
  if (failure == NULL) check(tenon_graph_export(graph, &graph_def));
  if (failure == NULL) check(tenon_model_write(runtime, session, tenon_text_span(graph_def), folder, &options));
  tenon_text_release(graph_def);
  tenon_session_release(session);
  tenon_variables_release(variables);
  tenon_graph_release(graph);
}

static void load_and_call(tenon_runtime* runtime, tenon_span folder) {
  static const float kTen = 10;
  const tenon_shape scalar = {NULL, 0, 0};
  const tenon_span name = TENON_SPAN("x");
  tenon_model_file* file = NULL;
  tenon_model* model = NULL;
  tenon_tensor *input = NULL, *output = NULL;
  if (failure == NULL) check(tenon_model_file_open(folder, NULL, &file));
  if (failure == NULL) check(tenon_model_load(runtime, file, NULL, &model));
  if (failure == NULL) check(tenon_tensor_create(TENON_DT_FLOAT, scalar, &kTen, sizeof(kTen), &input));
  if (failure == NULL) {
    const tenon_tensor_view* const view = tenon_tensor_get_view(input);
    check(tenon_model_run(model, span("serving_default"), NULL, &name, &view, 1, &output, 1));
  }
  if (failure == NULL) printf("y(10) = %.2f\n", *(const float*)tenon_tensor_get_view(output)->dl.data);
  tenon_tensor_release(output);
  tenon_tensor_release(input);
  tenon_model_release(model);
  tenon_model_file_release(file);
}

int main(int argc, char** argv) {
  tenon_runtime* runtime = NULL;
  if (argc < 2) {
    fprintf(stderr, "usage: %s FOLDER [PLUGIN.so]...\n", argv[0]);
    return 2;
  }
  check(tenon_runtime_create(NULL, &runtime));
  for (int i = 2; i < argc && failure == NULL; ++i) check(tenon_runtime_load_plugin(runtime, span(argv[i])));
  train_and_write(runtime, span(argv[1]));
  load_and_call(runtime, span(argv[1]));
  tenon_runtime_release(runtime);
  if (failure == NULL) return 0;
  const tenon_span message = tenon_status_message(failure);
  fprintf(stderr, "%.*s\n", (int)message.size, message.data);
  tenon_status_release(failure);
  return 1;
}
