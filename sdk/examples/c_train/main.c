/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a network of two layers on exclusive-or, in C, with nothing but tenon/app.h.
 *
 *   cc main.c -ltenon && ./a.out [PLUGIN.so]...
 *
 * h = tanh(x W1 + b1), y = h W2 + b2, loss = mean((y - t)^2), and plain gradient descent on the four variables. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tenon/app.h"
#include "tenon/op.h" /* struct tenon_gradient */

#define HIDDEN 8
#define STEPS 2000

/* The first failure; what comes after it is skipped, so that the model below reads without a check on each line. */
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

static const tenon_output kNone = {-1, 0, 0};

/* A node with up to three inputs (kNone: fewer) and two attributes (NULL: fewer); its first output. */
static tenon_output node3(tenon_app_graph* graph, const char* op, const char* name, tenon_output a, tenon_output b,
                          tenon_output c, const tenon_attr* attr1, const tenon_attr* attr2) {
  const tenon_output inputs[3] = {a, b, c};
  tenon_attr attrs[2];
  tenon_node_spec spec = {TENON_HEAD(tenon_node_spec), .op = span(op), .name = span(name), .inputs = inputs,
                          .attrs = attrs};
  tenon_output output = kNone;
  if (failure != NULL) return kNone;
  while (spec.input_count < 3 && inputs[spec.input_count].node >= 0) ++spec.input_count;
  if (attr1 != NULL) attrs[spec.attr_count++] = *attr1;
  if (attr2 != NULL) attrs[spec.attr_count++] = *attr2;
  check(tenon_graph_add_node(graph, &spec, span(""), &output.node));
  return output;
}

static tenon_output node(tenon_app_graph* graph, const char* op, tenon_output a, tenon_output b) {
  return node3(graph, op, "", a, b, kNone, NULL, NULL);
}

/* A constant of floats; rank 0, 1 or 2. */
static tenon_output constant(tenon_app_graph* graph, const float* values, int32_t rank, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows, columns};
  const uint64_t count = (uint64_t)((rank > 0 ? rows : 1) * (rank > 1 ? columns : 1));
  const tenon_shape shape = {dims, rank, 0};
  tenon_tensor* tensor = NULL;
  tenon_output output = kNone;
  if (failure == NULL) check(tenon_tensor_create(TENON_DT_FLOAT, shape, values, count * sizeof(float), &tensor));
  if (failure == NULL) check(tenon_graph_add_constant(graph, span(""), tenon_tensor_get_view(tensor), &output));
  tenon_tensor_release(tensor);
  return output;
}

typedef struct variable {
  tenon_output handle;
  tenon_output value;
  int64_t initial; /* the node that gives it its first value */
} variable;

static variable make_variable(tenon_app_graph* graph, const char* name, tenon_output first, int32_t rank, int64_t rows,
                              int64_t columns) {
  const int64_t dims[2] = {rows, columns};
  const tenon_shape shape = {dims, rank, 0};
  const uint32_t dtype = TENON_DT_FLOAT;
  const tenon_attr type = {TENON_SPAN("dtype"), {TENON_ATTR_TYPE, 0, 1, &dtype}};
  const tenon_attr of_shape = {TENON_SPAN("shape"), {TENON_ATTR_SHAPE, 0, 1, &shape}};
  variable made;
  made.handle = node3(graph, "VarHandleOp", name, kNone, kNone, kNone, &type, &of_shape);
  made.initial = node3(graph, "AssignVariableOp", "", made.handle, first, kNone, &type, NULL).node;
  made.value = node3(graph, "ReadVariableOp", "", made.handle, kNone, kNone, &type, NULL);
  return made;
}

/* Small numbers of both signs, the same in each run. */
static void fill(float* values, int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
}

/* Runs the nodes for their effect. */
static void run_nodes(tenon_session* session, const tenon_app_graph* graph, const int64_t* nodes, int count) {
  tenon_span names[8];
  if (failure != NULL) return;
  for (int i = 0; i < count; ++i) names[i] = tenon_graph_node_name(graph, nodes[i]);
  check(tenon_session_run(session, NULL, NULL, NULL, 0, NULL, 0, names, (uint64_t)count, NULL));
}

/* Trains; prints the loss and what the network makes of the four cases. */
static void train(tenon_session* session, const tenon_app_graph* graph, tenon_output loss, tenon_output y,
                  const int64_t* updates, int update_count) {
  tenon_span fetches[2], targets[8];
  tenon_callable* step = NULL;
  tenon_tensor* values[2] = {NULL, NULL};
  if (failure != NULL) return;
  fetches[0] = tenon_graph_node_name(graph, loss.node);
  fetches[1] = tenon_graph_node_name(graph, y.node);
  for (int i = 0; i < update_count; ++i) targets[i] = tenon_graph_node_name(graph, updates[i]);
  check(tenon_session_prepare(session, NULL, 0, fetches, 2, targets, (uint64_t)update_count, NULL, &step));
  for (int i = 0; i <= STEPS && failure == NULL; ++i) {
    check(tenon_callable_run(step, NULL, NULL, values));
    if (failure != NULL) break;
    const float* result = tenon_tensor_get_view(values[1])->dl.data;
    if (i % 400 == 0) printf("step %4d  loss %.6f\n", i, *(const float*)tenon_tensor_get_view(values[0])->dl.data);
    if (i == STEPS) {
      printf("0^0 = %.3f, 0^1 = %.3f, 1^0 = %.3f, 1^1 = %.3f\n", result[0], result[1], result[2], result[3]);
    }
    tenon_tensor_release(values[0]);
    tenon_tensor_release(values[1]);
  }
  tenon_callable_release(step);
}

static void build_and_train(tenon_runtime* runtime) {
  static const float kX[8] = {0, 0, 0, 1, 1, 0, 1, 1}, kT[4] = {0, 1, 1, 0}, kRate = 0.1f, kQuarter = 0.25f;
  float w1[2 * HIDDEN], w2[HIDDEN], zeros[HIDDEN] = {0};
  int64_t initial[4], updates[4];
  tenon_app_graph* graph = NULL;
  tenon_session* session = NULL;
  fill(w1, 2 * HIDDEN, 1);
  fill(w2, HIDDEN, 2);
  check(tenon_graph_create(runtime, &graph));

  const tenon_output x = constant(graph, kX, 2, 4, 2);
  const tenon_output t = constant(graph, kT, 2, 4, 1);
  variable variables[4];
  variables[0] = make_variable(graph, "W1", constant(graph, w1, 2, 2, HIDDEN), 2, 2, HIDDEN);
  variables[1] = make_variable(graph, "b1", constant(graph, zeros, 1, HIDDEN, 0), 1, HIDDEN, 0);
  variables[2] = make_variable(graph, "W2", constant(graph, w2, 2, HIDDEN, 1), 2, HIDDEN, 1);
  variables[3] = make_variable(graph, "b2", constant(graph, zeros, 1, 1, 0), 1, 1, 0);
  const tenon_output h = node(
      graph, "Tanh", node(graph, "AddV2", node(graph, "MatMul", x, variables[0].value), variables[1].value), kNone);
  const tenon_output y = node(graph, "AddV2", node(graph, "MatMul", h, variables[2].value), variables[3].value);
  const tenon_output errors = node(graph, "SquaredDifference", y, t);
  static const int32_t kAxes[2] = {0, 1};
  const int64_t two = 2;
  tenon_tensor* axes = NULL;
  tenon_output axes_node = kNone;
  const tenon_shape vector = {&two, 1, 0};
  if (failure == NULL) check(tenon_tensor_create(TENON_DT_INT32, vector, kAxes, sizeof(kAxes), &axes));
  if (failure == NULL) check(tenon_graph_add_constant(graph, span(""), tenon_tensor_get_view(axes), &axes_node));
  tenon_tensor_release(axes);
  const tenon_output loss =
      node(graph, "Mul", node(graph, "Sum", errors, axes_node), constant(graph, &kQuarter, 0, 0, 0));

  tenon_output xs[4];
  struct tenon_gradient gradients[4];
  for (int i = 0; i < 4; ++i) xs[i] = variables[i].value;
  if (failure == NULL) check(tenon_graph_add_gradients(graph, &loss, 1, xs, 4, NULL, gradients));
  const tenon_output rate = constant(graph, &kRate, 0, 0, 0);
  for (int i = 0; i < 4 && failure == NULL; ++i) {
    initial[i] = variables[i].initial;
    updates[i] =
        node3(graph, "ResourceApplyGradientDescent", "", variables[i].handle, rate, gradients[i].dense, NULL, NULL)
            .node;
  }

  if (failure == NULL) check(tenon_session_create(runtime, NULL, &session));
  if (failure == NULL) check(tenon_session_extend_graph(session, graph));
  run_nodes(session, graph, initial, 4);
  train(session, graph, loss, y, updates, 4);
  tenon_session_release(session);
  tenon_graph_release(graph);
}

int main(int argc, char** argv) {
  const tenon_runtime_options options = {TENON_HEAD(tenon_runtime_options), .no_search = 0};
  tenon_runtime* runtime = NULL;
  check(tenon_runtime_create(&options, &runtime));
  for (int i = 1; i < argc && failure == NULL; ++i) check(tenon_runtime_load_plugin(runtime, span(argv[i])));
  if (failure == NULL) {
    const tenon_span version = tenon_version();
    printf("Tenon %.*s, %" PRIu64 " ops loaded\n", (int)version.size, version.data, tenon_runtime_op_count(runtime));
    build_and_train(runtime);
  }
  if (failure != NULL) {
    const tenon_span message = tenon_status_message(failure);
    fprintf(stderr, "c_train: %.*s\n", (int)message.size, message.data);
    tenon_status_release(failure);
  }
  tenon_runtime_release(runtime);
  return failure != NULL;
}
