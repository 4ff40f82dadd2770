/* SPDX-License-Identifier: Apache-2.0 */
/* Training, for applications: variables, optimizers, savers and event files, in libtenon_model_c.so above libtenon.so
 * (app.h).
 *
 * Variables know what a graph's variables are called. An optimizer adds the nodes that change them; a saver writes them
 * to checkpoints that survive a kill at any instruction; an event writer keeps what TensorBoard shows. All of it is
 * nodes of the graph, and files:
 *
 *   tenon_variables_create(graph, NULL, &variables);
 *   tenon_variables_add(variables, &kernel, &info);              // info.value: an edge to compute with
 *   tenon_variables_minimize(variables, loss, rate, &adam, &update);
 *   tenon_saver_create(variables, folder, NULL, &saver);         // after all variables, slots of optimizers too
 *   // then a session of the graph: run init once, and update again and again
 *   tenon_variables_initializer(variables, &init);
 *   tenon_saver_save(saver, session, step, NULL, NULL);
 *
 * Besides: learning rates that follow the step, clipping, loops over elements, recurrent cells, losses over many
 * classes, L-BFGS.
 *
 * Rules, beside those of app.h. Variables and what is made of them (savers, cells, shards of classes, L-BFGS) are used
 * by one thread at a time, and are released before their graph; variables outlive what is made of them. Nodes are added
 * in the graph's scope and behind its control inputs, which stay as they are. A call that fails may leave nodes that
 * nothing needs. A pointer may be NULL where TENON_NULLABLE names it; another that is NULL is INVALID_ARGUMENT, and so
 * is an output of a node that the graph does not have.
 */
#ifndef TENON_TRAIN_H_
#define TENON_TRAIN_H_

#include "tenon/app.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_variables tenon_variables;
typedef struct tenon_saver tenon_saver;
typedef struct tenon_event_writer tenon_event_writer;
typedef struct tenon_rnn_cell tenon_rnn_cell;
typedef struct tenon_class_shards tenon_class_shards;
typedef struct tenon_lbfgs tenon_lbfgs;

/* ---- Variables ---- */

typedef struct tenon_variables_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t seed; /* of random initial values; 0: 1 */
  const tenon_span* devices; /* [device_count] on which variables stand by turns ("/job:ps/task:0"); none: wherever they
                              * are put */
  uint64_t device_count;
} tenon_variables_options;

TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_variables)) TENON_NULLABLE(options)
tenon_status* tenon_variables_create(tenon_app_graph* graph, const tenon_variables_options* options,
                                     tenon_variables** out_variables);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(variables)) TENON_NULLABLE(variables)
void tenon_variables_release(tenon_variables* variables);

/* What a variable is for. */
#define TENON_VARIABLE_WEIGHT 0u  /* float, and trained */
#define TENON_VARIABLE_STATE 1u   /* float; training does not change it by itself */
#define TENON_VARIABLE_COUNTER 2u /* a scalar int64 that begins at 0: steps */
#define TENON_VARIABLE_ROWS 3u    /* float; training changes the rows alone that a step gathered at its handle
                                   * (ResourceGather) */

/* How it begins. */
#define TENON_INITIAL_CONSTANT 0u         /* `initial` everywhere */
#define TENON_INITIAL_TRUNCATED_NORMAL 1u /* a normal distribution of the standard deviation `initial`, cut at two of
                                           * them */

typedef struct tenon_variable_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;    /* of the graph's node and in checkpoints: "dense/kernel" */
  tenon_span device;  /* of state and rows; empty: as other variables */
  tenon_shape shape;  /* known in all dimensions; a counter's is empty */
  uint32_t kind;      /* TENON_VARIABLE_* */
  uint32_t initializer; /* TENON_INITIAL_*; state has a constant */
  float initial;
  uint32_t reserved;
} tenon_variable_spec;

typedef struct tenon_variable_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span device; /* that was asked for */
  tenon_shape shape;
  tenon_output handle; /* of VarHandleOp */
  tenon_output value;  /* a read of it */
  int64_t initial_node; /* gives it its first value */
  uint32_t dtype;
  uint32_t trainable;
} tenon_variable_info;

/* Makes a variable; where there is one of that name, shape and kind, gives that. INVALID_ARGUMENT: there is one of
 * another shape or kind. out_info borrows from the variables. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_add(tenon_variables* variables, const tenon_variable_spec* spec,
                                  tenon_variable_info* out_info);
/* Slots of optimizers too, in the order of their making; 0 of NULL. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(variables)
uint64_t tenon_variables_count(const tenon_variables* variables);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_get(const tenon_variables* variables, uint64_t index, tenon_variable_info* out_info);
/* A new node that gives all variables made so far their first values. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_initializer(tenon_variables* variables, int64_t* out_node);

/* ---- Optimizers ---- */

/* Which of an optimizer's numbers are given; the others have their defaults. */
#define TENON_OPTIMIZER_MOMENTUM (1u << 0)
#define TENON_OPTIMIZER_BETA1 (1u << 1)
#define TENON_OPTIMIZER_BETA2 (1u << 2)
#define TENON_OPTIMIZER_EPSILON (1u << 3)
#define TENON_OPTIMIZER_INITIAL_ACCUMULATOR (1u << 4)
#define TENON_OPTIMIZER_LOSS_SCALE (1u << 5)
#define TENON_OPTIMIZER_RHO (1u << 6)

/* How gradients are made smaller where they are too large, before they are applied. */
#define TENON_CLIP_NONE 0u
#define TENON_CLIP_VALUE 1u       /* each element to [-clip_limit, clip_limit] */
#define TENON_CLIP_NORM 2u        /* each variable's gradient to that norm */
#define TENON_CLIP_GLOBAL_NORM 3u /* all together to that norm */

typedef struct tenon_optimizer_options {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* "sgd", "momentum", "adam", "adagrad", "rmsprop", "adadelta"; empty: "adam". INVALID_ARGUMENT lists
                    * those that there are */
  uint32_t given;  /* TENON_OPTIMIZER_* */
  float momentum;  /* 0.9 */
  float beta1;     /* 0.9 */
  float beta2;     /* 0.999 */
  float epsilon;   /* 1e-8 */
  float initial_accumulator; /* 0.1 */
  /* for networks that compute in float16: what the loss is multiplied with, a power of two. Not given: nothing */
  float loss_scale;
  /* 1: loss_scale (32768 when not given) is the first; it follows what the gradients can bear */
  uint32_t dynamic_loss_scale;
  uint32_t nesterov;  /* 1: of momentum */
  uint32_t primitive; /* 1: of primitive ops in place of one op for each variable */
  float rho;          /* how much of an average stays in a step: 0.9 of rmsprop, 0.95 of adadelta */
  float rms_momentum; /* of rmsprop */
  uint32_t centered;  /* 1: rmsprop by the gradients' variance */
  uint32_t clip;      /* TENON_CLIP_* */
  float clip_limit;   /* positive, where something is clipped */
  uint32_t reserved;
  /* so many steps' gradients are applied at once, their mean, by the last of them; of tenon_variables_minimize. 0: 1 */
  uint64_t accumulate;
  uint64_t loss_scale_growth; /* so many good steps in a row double a dynamic loss scale; 0: 2000 */
} tenon_optimizer_options;

/* Adds the gradients of the loss (a float scalar) with respect to the trainable variables, and nodes that apply them;
 * out_node has run when all variables have changed. learning_rate: a float scalar. FAILED_PRECONDITION or
 * INVALID_ARGUMENT: the loss depends on no trainable variable. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_variables_minimize(tenon_variables* variables, tenon_output loss, tenon_output learning_rate,
                                       const tenon_optimizer_options* options, int64_t* out_node);
/* The halves of it, for what is done to gradients in between. The gradient of each trainable variable, whole, in the
 * order of the variables; out_gradients: [count], which must be the number of trainable variables. node -1: the loss
 * does not depend on that one. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_gradients(tenon_variables* variables, tenon_output loss, tenon_output* out_gradients,
                                        uint64_t count);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_variables_apply(tenon_variables* variables, const tenon_output* gradients, uint64_t count,
                                    tenon_output learning_rate, const tenon_optimizer_options* options,
                                    int64_t* out_node);

/* ---- Clipping ----
 *
 * TensorFlow's formulas (tf.clip_by_value, tf.clip_by_norm, tf.clip_by_global_norm), of gradients of any float type:
 * [count], as tenon_variables_gradients gives them; where the node is -1 there is none, and stays none. out_gradients:
 * [count], may be `gradients` itself. INVALID_ARGUMENT: a limit that is no positive finite number, low > high, and
 * where a norm of all is asked for, no gradient. */

/* Each element between low and high. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_clip_by_value(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count, float low,
                                  float high, tenon_output* out_gradients);
/* Each gradient to the norm `limit`, where it has a larger one. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_clip_by_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count, float limit,
                                 tenon_output* out_gradients);
/* All together to the norm `limit`, where theirs is larger; all elements become NaN where it is infinite or no number.
 * out_norm: theirs before, a scalar. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(out_norm)
tenon_status* tenon_clip_by_global_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count,
                                        float limit, tenon_output* out_gradients, tenon_output* out_norm);
/* The norm of all together, a scalar. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_global_norm(tenon_app_graph* graph, const tenon_output* gradients, uint64_t count,
                                tenon_output* out_norm);

/* ---- Learning rates that follow the step ----
 *
 * With t the step and T `steps`, the formulas are TensorFlow's (tf.compat.v1.train). Steps are computed with as floats:
 * beyond 2^24 neighbours may be the same. */
#define TENON_RATE_CONSTANT 0u    /* rate */
#define TENON_RATE_EXPONENTIAL 1u /* rate decay_rate^(t/T) */
#define TENON_RATE_NATURAL_EXP 2u /* rate e^(-decay_rate t/T) */
#define TENON_RATE_INVERSE_TIME 3u /* rate / (1 + decay_rate t/T) */
#define TENON_RATE_PIECEWISE 4u   /* values[i], where i boundaries are below t */
#define TENON_RATE_POLYNOMIAL 5u  /* (rate - end) (1 - min(t, T)/T)^power + end */
#define TENON_RATE_COSINE 6u      /* rate ((1 - alpha) (1 + cos(pi min(t, T)/T))/2 + alpha) */
/* the same over periods of T, T t_mul, T t_mul^2, ... steps, that begin at rate, rate m_mul, rate m_mul^2, ... */
#define TENON_RATE_COSINE_RESTARTS 7u

typedef struct tenon_rate_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  uint32_t kind; /* TENON_RATE_* */
  float rate;
  int64_t steps; /* of all that decay: T, positive */
  float decay_rate;
  uint32_t staircase; /* 1: by whole multiples of T, of the kinds with a decay_rate */
  float end;          /* of the polynomial */
  float power;        /* of it; 0: 1 */
  uint32_t cycle;     /* 1: T of the polynomial grows to the multiple of it that t has not passed */
  float alpha;        /* of the cosines: the share of the rate that is left at their end */
  float t_mul;        /* of the restarts, 1 at least; 0: 2 */
  float m_mul;        /* of the restarts; 0: 1 */
  const int64_t* boundaries; /* [boundary_count] of the pieces, which rise */
  const float* values;       /* [boundary_count + 1] of them */
  uint64_t boundary_count;
  /* so many steps go in a line from warm_up_from to what the rate begins with, and its steps are counted from there; 0:
   * none */
  int64_t warm_up_steps;
  float warm_up_from;
  uint32_t reserved;
} tenon_rate_spec;

/* Nodes that give the rate, a float scalar, of a step: a scalar int32 or int64, as the value of a
 * TENON_VARIABLE_COUNTER. INVALID_ARGUMENT: no steps to decay in, boundaries that do not rise, and what else makes no
 * sense. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_learning_rate(tenon_app_graph* graph, const tenon_rate_spec* spec, tenon_output step,
                                  tenon_output* out_rate);

/* ---- Loops over elements ----
 *
 * A function of the graph (tenon_graph_add_function) for one element after the other of the xs, along their first axis,
 * which is as long for all. It takes the states, an element of each x and the invariants, and gives the states' next
 * values and then its results. A state keeps its type and shape. Gradients go to the xs, the first states and the
 * invariants. The graph may itself be a function's body. INVALID_ARGUMENT: no x, a scalar among them, lengths that are
 * known and differ, a function that takes or gives something else; NOT_FOUND: no such function. */
typedef struct tenon_elements_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span function;
  tenon_span name; /* of the loop; empty: by what it does ("fold") */
  const tenon_output* states; /* [state_count] their first values */
  uint64_t state_count;
  const tenon_output* xs; /* [x_count] */
  uint64_t x_count;
  const tenon_output* invariants; /* [invariant_count] what each turn gets as it is: weights */
  uint64_t invariant_count;
  /* the first so many elements alone have a turn, an int32 scalar; results of the others are zeros. NULL: all */
  const tenon_output* turns;
  int64_t parallel_iterations; /* that may be under way at once where the loop runs as dataflow; 0: 10 */
  /* 1: from the last element to the first; stacked results stand at their elements' places all the same */
  uint32_t reverse;
  uint32_t reserved;
} tenon_elements_spec;

/* The last states, and each result stacked: out_results[k] has the function's result k for element i at i. Without
 * states it is a map. The counts must be those of the spec's states and of the function's other outputs. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_map_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                 uint64_t state_count, tenon_output* out_results, uint64_t result_count);
/* The last states alone (tf.foldl; reversed tf.foldr). Where the spec has no states they begin with the first element
 * of each x, of which there must be one, and `count` is that of the xs. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_fold_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                  uint64_t count);
/* The same; the states after each element, stacked (tf.scan). */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_scan_elements(tenon_app_graph* graph, const tenon_elements_spec* spec, tenon_output* out_states,
                                  uint64_t count);

/* ---- Recurrent networks ----
 *
 * A cell has weights, states [batch, size], and the nodes of one step: of x [batch, inputs] and the states, an output
 * and the next states. */
#define TENON_CELL_BASIC 0u /* h' = tanh(x K + h R + b): keras.layers.SimpleRNNCell */
#define TENON_CELL_LSTM 1u  /* states h and c: keras.layers.LSTMCell */
#define TENON_CELL_GRU 2u   /* keras.layers.GRUCell */
/* a function of the graph, of x, the states and the weights, that gives the output and the next states */
#define TENON_CELL_FUNCTION 3u

typedef struct tenon_rnn_cell_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* "lstm": of the weights, which are Keras's: "lstm/kernel", "lstm/recurrent_kernel", "lstm/bias" */
  int64_t inputs;  /* features of x */
  int64_t units;   /* of the first three kinds: the size of states and output */
  uint32_t kind;   /* TENON_CELL_* */
  float deviation; /* of both kernels' truncated normal; 0: sqrt(2 / (inputs + units)). Biases begin at 0 */
  float forget_bias;     /* of the LSTM: added to its forget gate. 1 helps a new network remember; for weights that
                          * Keras trained, 0 */
  uint32_t reset_before; /* 1: of the GRU, Cho's first form (keras: reset_after=False) */
  tenon_span function;   /* of TENON_CELL_FUNCTION; its graph is the variables' */
  const int64_t* state_sizes; /* [state_count] of it: one at least */
  uint64_t state_count;
  const tenon_output* weights; /* [weight_count] of it */
  uint64_t weight_count;
} tenon_rnn_cell_spec;

/* A name asked for again has the same weights. INVALID_ARGUMENT: inputs or units below 1, a variable of that name and
 * another shape. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_cell))
tenon_status* tenon_rnn_cell_create(tenon_variables* variables, const tenon_rnn_cell_spec* spec,
                                    tenon_rnn_cell** out_cell);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(cell)) TENON_NULLABLE(cell)
void tenon_rnn_cell_release(tenon_rnn_cell* cell);

typedef struct tenon_rnn_cell_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  int64_t inputs;
  const int64_t* state_sizes; /* [state_count] */
  uint64_t state_count;
  const tenon_output* weights; /* [weight_count] edges to compute with */
  uint64_t weight_count;
} tenon_rnn_cell_info;

/* out_info borrows from the cell. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_rnn_cell_get_info(const tenon_rnn_cell* cell, tenon_rnn_cell_info* out_info);
/* States of zeros for a batch, an int32 scalar. out_states: [count], as the cell has states. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_rnn_cell_zero_state(const tenon_rnn_cell* cell, tenon_output batch, tenon_output* out_states,
                                        uint64_t count);
/* One step. graph: the variables', or a function's body; then `weights` are [weight_count] the cell's as values of it,
 * and else NULL. states, out_states: [count], may be one array. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(weights)
tenon_status* tenon_rnn_cell_step(const tenon_rnn_cell* cell, tenon_app_graph* graph, tenon_output x,
                                  const tenon_output* states, uint64_t count, const tenon_output* weights,
                                  uint64_t weight_count, tenon_output* out_output, tenon_output* out_states);

typedef struct tenon_rnn_options {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* empty: "rnn" */
  const tenon_output* sequence_length; /* [batch], int32 or int64: the steps of each, 0 to time; others fail the step.
                                        * NULL: all */
  const tenon_output* initial_states;  /* [state_count] one for each of the cell's; NULL: zeros */
  uint64_t state_count;
  int64_t parallel_iterations; /* 0: 10 */
  uint32_t time_major; /* 1: inputs and outputs are [time, batch, ...]; else [batch, time, ...] */
  uint32_t reverse;    /* 1: from each sequence's last step to its first; outputs stand at their steps all the same */
} tenon_rnn_options;

/* The cell over sequences, as tf.compat.v1.nn.dynamic_rnn: a loop that ends with the longest. out_outputs: as the
 * inputs, with the output's size last, zeros from a sequence's length on. out_states: [count], after each sequence's
 * last step. INVALID_ARGUMENT: inputs without three dimensions, features or states that do not fit the cell. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_dynamic_rnn(const tenon_rnn_cell* cell, tenon_output inputs, const tenon_rnn_options* options,
                                tenon_output* out_outputs, tenon_output* out_states, uint64_t count);

/* ---- Losses over many classes ----
 *
 * Weights and biases of a layer over classes, parted by class into shards that stand on several devices. */
#define TENON_PARTITION_DIV 0u /* the classes stand in their order, the first n % k shards with one more than the
                                * others; one tensor in checkpoints, for any number of shards */
#define TENON_PARTITION_MOD 1u /* class c is row c / k of shard c % k; checkpoints restore into as many shards alone */

typedef struct tenon_class_shards_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  /* of the variables: "NAME/shard_0/weights" [classes of the shard, width], "NAME/shard_0/biases", which begin at 0 */
  tenon_span name;
  int64_t classes;
  int64_t width;
  const tenon_span* devices; /* [device_count] a shard for each; "" is anywhere. None: one shard anywhere */
  uint64_t device_count;
  uint32_t partition; /* TENON_PARTITION_* */
  uint32_t by_rows;   /* 1: training changes the rows alone that a step gathered, for sampled losses over so many
                       * classes that a dense gradient is too large */
  float deviation;    /* of the weights' truncated normal; 0: sqrt(2 / width) */
  uint32_t reserved;
} tenon_class_shards_spec;

/* INVALID_ARGUMENT: fewer classes than devices, or a width of none. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_shards))
tenon_status* tenon_class_shards_create(tenon_variables* variables, const tenon_class_shards_spec* spec,
                                        tenon_class_shards** out_shards);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(shards)) TENON_NULLABLE(shards)
void tenon_class_shards_release(tenon_class_shards* shards);
/* 0 of NULL. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(shards)
uint64_t tenon_class_shards_count(const tenon_class_shards* shards);
/* The variables of one shard; they borrow from the variables. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_class_shards_get(const tenon_class_shards* shards, uint64_t index, tenon_variable_info* out_weights,
                                     tenon_variable_info* out_biases);

/* Frozen value: sampled classes, and how often each label and each of them is to be expected. */
typedef struct tenon_candidates {
  tenon_output sampled;           /* [S], int64 */
  tenon_output true_expected;     /* of the labels' shape [batch, labels], float */
  tenon_output sampled_expected;  /* [S], float */
} tenon_candidates;

/* `sampled` different classes of `classes`, low ones more often (Zipf's law). labels: [batch, labels], int64. seed 0:
 * from the session's. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_log_uniform_candidates(tenon_app_graph* graph, tenon_output labels, int64_t sampled,
                                           int64_t classes, int64_t seed, tenon_candidates* out_candidates);

#define TENON_SAMPLED_SOFTMAX 0u /* the cross entropy of a softmax over the labels and the sample:
                                  * tf.nn.sampled_softmax_loss */
#define TENON_SAMPLED_NCE 1u     /* the sum of the logistic losses of labels and sample: tf.nn.nce_loss */

typedef struct tenon_sampled_loss_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint32_t kind; /* TENON_SAMPLED_* */
  /* whether samples that are an example's own labels are left out for it; TENON_DEFAULT: of the softmax yes, of NCE
   * no */
  uint32_t remove_accidental_hits;
  int64_t sampled; /* classes, where no candidates are given; 0: 64 */
  int64_t seed;
  const tenon_candidates* candidates; /* NULL: log-uniform ones */
} tenon_sampled_loss_options;

/* Both losses are of each example, [batch], of inputs [batch, width]; labels are int32 or int64, and one that is no
 * class fails the step. INVALID_ARGUMENT: inputs or labels that do not fit the shards. The sampled one is for training,
 * with labels [batch] or [batch, labels]. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_class_shards_sampled_loss(const tenon_class_shards* shards, tenon_output inputs,
                                              tenon_output labels, const tenon_sampled_loss_options* options,
                                              tenon_output* out_loss);
/* The cross entropy of the whole softmax, of which each shard computes its part beside its weights. labels: [batch]. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_class_shards_softmax_loss(const tenon_class_shards* shards, tenon_output inputs,
                                              tenon_output labels, tenon_output* out_loss);

/* ---- L-BFGS ----
 *
 * For losses of whole data sets, where each step sees the same examples: a function of the variables alone, without
 * dropout or batches drawn anew. The variables change by accepted steps alone: whatever ends a run, they are at the
 * last accepted point. */
typedef struct tenon_lbfgs_options {
  uint32_t struct_size;
  uint32_t must_understand;
  int64_t history;           /* pairs that are kept; 0: 10 */
  int64_t max_iterations;    /* 0: 100 */
  int64_t max_evaluations;   /* of one line search; 0: 20 */
  double gradient_tolerance; /* of the norm of the whole gradient; 0: 1e-5 */
  double sufficient_decrease; /* of the Wolfe conditions, 0 < sufficient_decrease < curvature < 1; 0: 1e-4 */
  double curvature;           /* 0: 0.9 */
} tenon_lbfgs_options;

/* Why a run ended. */
#define TENON_LBFGS_GRADIENT 0u   /* the gradient's norm is small enough */
#define TENON_LBFGS_ITERATIONS 1u /* there were as many as are allowed */
#define TENON_LBFGS_NO_STEP 2u    /* no step makes the loss lower: it is as low as its type can tell, or the gradient is
                                   * wrong */

typedef struct tenon_lbfgs_result {
  uint32_t struct_size;
  uint32_t must_understand;
  uint32_t end; /* TENON_LBFGS_*; while a run goes on it says nothing */
  uint32_t reserved;
  int64_t iterations;  /* accepted steps */
  int64_t evaluations; /* of loss and gradient */
  int64_t left_out;    /* pairs without positive curvature */
  double loss;         /* both at the variables' values */
  double gradient_norm;
} tenon_lbfgs_result;

/* Adds the gradients of the loss, a float scalar, with respect to the trainable variables that it depends on: before
 * the session's graph is extended. INVALID_ARGUMENT: options that make no sense, and what tenon_variables_minimize
 * refuses. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_lbfgs)) TENON_NULLABLE(options)
tenon_status* tenon_lbfgs_create(tenon_variables* variables, tenon_output loss, const tenon_lbfgs_options* options,
                                 tenon_lbfgs** out_lbfgs);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(lbfgs)) TENON_NULLABLE(lbfgs)
void tenon_lbfgs_release(tenon_lbfgs* lbfgs);
/* From the variables' values in the session; may be called again, and then begins without history. feeds: [feed_count]
 * what the loss needs besides. options: of each evaluation; it gives no trace. after_iteration: called in this thread
 * after each accepted step; it must not use `lbfgs`, and ends a run by the options' cancellation. INVALID_ARGUMENT
 * names the iteration where loss or gradient is no number. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options, feed_names, feeds, after_iteration, argument)
tenon_status* tenon_lbfgs_run(tenon_lbfgs* lbfgs, tenon_session* session, const tenon_run_options* options,
                              const tenon_span* feed_names, const tenon_tensor_view* const* feeds, uint64_t feed_count,
                              void (*after_iteration)(void* argument, const tenon_lbfgs_result* so_far), void* argument,
                              tenon_lbfgs_result* out_result);

/* ---- Savers ----
 *
 * Checkpoints in a folder of any file system, in TensorFlow's format, named by its `checkpoint` file. One that is named
 * is whole, whenever this process dies. One saver at a time saves into a folder: FAILED_PRECONDITION says who has
 * it. */

/* Frozen value: a variable, and what it is called in checkpoints. */
typedef struct tenon_saved_variable {
  tenon_span variable;
  tenon_span name; /* empty: its own */
} tenon_saved_variable;

typedef struct tenon_saver_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint32_t keep;      /* the last so many; 0: 5 */
  uint32_t keep_best; /* besides those, so many with the best metric */
  double keep_every_hours; /* besides those, for ever, one in so many hours; 0: none */
  uint32_t higher_is_better; /* 1: of metrics */
  uint32_t reserved;
  const tenon_saved_variable* variables; /* [variable_count]; NULL: all */
  uint64_t variable_count;
  /* an int64 scalar whose value must be the checkpoint's step; empty: "global_step", if it is there */
  tenon_span step_variable;
} tenon_saver_options;

/* Adds the nodes that save and restore the variables made so far. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_saver)) TENON_NULLABLE(options)
tenon_status* tenon_saver_create(tenon_variables* variables, tenon_span folder, const tenon_saver_options* options,
                                 tenon_saver** out_saver);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(saver)) TENON_NULLABLE(saver)
void tenon_saver_release(tenon_saver* saver);
/* The folder is this saver's from now on, made where it is not there. Saving claims it by itself. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_claim(tenon_saver* saver);
/* Writes FOLDER/model.ckpt-STEP from the session, unless it is there, and removes what need not be kept. metric: for
 * keep_best. out_prefix: of what was written. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_prefix)) TENON_NULLABLE(metric, out_prefix)
tenon_status* tenon_saver_save(tenon_saver* saver, tenon_session* session, int64_t step, const double* metric,
                               tenon_text** out_prefix);

typedef struct tenon_restored {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span prefix; /* empty: the folder holds no checkpoint. Both spans are borrowed until the saver restores again */
  tenon_span warnings; /* what was passed over and why, a line each */
  int64_t step;
} tenon_restored;

/* The newest checkpoint that can be read; what is damaged is passed over. DATA_LOSS and the like: there are some, and
 * none can be read. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_restore_newest(tenon_saver* saver, tenon_session* session, tenon_restored* out_restored);
/* These variables from any checkpoint: a warm start, perhaps of a part of another model. When it fails, the variables
 * are as they were. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_restore_from(tenon_saver* saver, tenon_session* session, tenon_span prefix);
/* Removes the folder's checkpoints. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_clear(tenon_saver* saver);

/* ---- Event files ---- */

/* Makes the folder when it is missing, and a new file in it. One thread at a time. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_writer))
tenon_status* tenon_event_writer_create(tenon_span folder, tenon_event_writer** out_writer);
/* Flushes; what fails then is lost: flush before. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(writer)) TENON_NULLABLE(writer)
void tenon_event_writer_release(tenon_event_writer* writer);
/* Of the file. Empty of NULL. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(writer)
tenon_span tenon_event_writer_path(const tenon_event_writer* writer);
/* A serialized GraphDef. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_event_writer_add_graph(tenon_event_writer* writer, tenon_span graph_def);
/* [count] tags and their values at a step. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_event_writer_add_scalars(tenon_event_writer* writer, int64_t step, const tenon_span* tags,
                                             const float* values, uint64_t count);
/* A serialized Summary, as ScalarSummary, HistogramSummary and MergeSummary give it. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_event_writer_add_summary(tenon_event_writer* writer, int64_t step, tenon_span summary);
/* A run begins again at this step: viewers drop what a killed run wrote at it and later. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_event_writer_add_start(tenon_event_writer* writer, int64_t step);
/* Gives what was added to the file system, as happens by itself every 64 KiB and at the end. A failure stays. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_event_writer_flush(tenon_event_writer* writer);

#ifdef __cplusplus
}
#endif
#endif /* TENON_TRAIN_H_ */
