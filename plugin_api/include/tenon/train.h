/* SPDX-License-Identifier: Apache-2.0 */
/* Training, for applications: variables, optimizers, savers and event files, in libtenon_model_c.so above libtenon.so (app.h).
 *
 * Variables know what a graph's variables are called. An optimizer adds the nodes that change them; a saver writes them to checkpoints that survive a
 * kill at any instruction; an event writer keeps what TensorBoard shows. All of it is nodes of the graph, and files:
 *
 *   tenon_variables_create(graph, NULL, &variables);
 *   tenon_variables_add(variables, &kernel, &info);              // info.value: an edge to compute with
 *   tenon_variables_minimize(variables, loss, rate, &adam, &update);
 *   tenon_saver_create(variables, folder, NULL, &saver);         // after all variables, slots of optimizers too
 *   tenon_variables_initializer(variables, &init);               // then a session of the graph: run init once, and update again and again
 *   tenon_saver_save(saver, session, step, NULL, NULL);
 *
 * Rules, beside those of app.h. Variables and their savers are used by one thread at a time, and are released before their graph; variables outlive
 * their savers. Nodes are added in the graph's scope and behind its control inputs, which stay as they are. A call that fails may leave nodes
 * that nothing needs. A pointer may be NULL where TENON_NULLABLE names it; another that is NULL is INVALID_ARGUMENT.
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

/* ---- Variables ---- */

typedef struct tenon_variables_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t seed; /* of random initial values; 0: 1 */
  const tenon_span* devices; /* [device_count] on which variables stand by turns ("/job:ps/task:0"); none: wherever they are put */
  uint64_t device_count;
} tenon_variables_options;

TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_variables)) TENON_NULLABLE(options)
tenon_status* tenon_variables_create(tenon_app_graph* graph, const tenon_variables_options* options, tenon_variables** out_variables);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(variables)) TENON_NULLABLE(variables)
void tenon_variables_release(tenon_variables* variables);

/* What a variable is for. */
#define TENON_VARIABLE_WEIGHT 0u  /* float, and trained */
#define TENON_VARIABLE_STATE 1u   /* float; training does not change it by itself */
#define TENON_VARIABLE_COUNTER 2u /* a scalar int64 that begins at 0: steps */
#define TENON_VARIABLE_ROWS 3u    /* float; training changes the rows alone that a step gathered at its handle (ResourceGather) */

/* How it begins. */
#define TENON_INITIAL_CONSTANT 0u         /* `initial` everywhere */
#define TENON_INITIAL_TRUNCATED_NORMAL 1u /* a normal distribution of the standard deviation `initial`, cut at two of them */

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

/* Makes a variable; where there is one of that name, shape and kind, gives that. INVALID_ARGUMENT: there is one of another shape or kind. out_info borrows from
 * the variables. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_add(tenon_variables* variables, const tenon_variable_spec* spec, tenon_variable_info* out_info);
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
  tenon_span name; /* "sgd", "momentum", "adam", "adagrad", "rmsprop", "adadelta"; empty: "adam". INVALID_ARGUMENT lists those that there are */
  uint32_t given;  /* TENON_OPTIMIZER_* */
  float momentum;  /* 0.9 */
  float beta1;     /* 0.9 */
  float beta2;     /* 0.999 */
  float epsilon;   /* 1e-8 */
  float initial_accumulator; /* 0.1 */
  float loss_scale; /* for networks that compute in float16: what the loss is multiplied with, a power of two. Not given: nothing */
  uint32_t dynamic_loss_scale; /* 1: loss_scale (32768 when not given) is the first; it follows what the gradients can bear */
  uint32_t nesterov;  /* 1: of momentum */
  uint32_t primitive; /* 1: of primitive ops in place of one op for each variable */
  float rho;          /* how much of an average stays in a step: 0.9 of rmsprop, 0.95 of adadelta */
  float rms_momentum; /* of rmsprop */
  uint32_t centered;  /* 1: rmsprop by the gradients' variance */
  uint32_t clip;      /* TENON_CLIP_* */
  float clip_limit;   /* positive, where something is clipped */
  uint32_t reserved;
  uint64_t accumulate; /* so many steps' gradients are applied at once, their mean, by the last of them; of tenon_variables_minimize. 0: 1 */
} tenon_optimizer_options;

/* Adds the gradients of the loss (a float scalar) with respect to the trainable variables, and nodes that apply them; out_node has run when all
 * variables have changed. learning_rate: a float scalar. FAILED_PRECONDITION or INVALID_ARGUMENT: the loss depends on no trainable variable. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_variables_minimize(tenon_variables* variables, tenon_output loss, tenon_output learning_rate,
                                       const tenon_optimizer_options* options, int64_t* out_node);
/* The halves of it, for what is done to gradients in between. The gradient of each trainable variable, whole, in the order of the variables;
 * out_gradients: [count], which must be the number of trainable variables. node -1: the loss does not depend on that one. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_variables_gradients(tenon_variables* variables, tenon_output loss, tenon_output* out_gradients, uint64_t count);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(options)
tenon_status* tenon_variables_apply(tenon_variables* variables, const tenon_output* gradients, uint64_t count, tenon_output learning_rate,
                                    const tenon_optimizer_options* options, int64_t* out_node);

/* ---- Savers ----
 *
 * Checkpoints in a folder of any file system, in TensorFlow's format, named by its `checkpoint` file. One that is named is whole, whenever this process
 * dies. One saver at a time saves into a folder: FAILED_PRECONDITION says who has it. */

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
  tenon_span step_variable; /* an int64 scalar whose value must be the checkpoint's step; empty: "global_step", if it is there */
} tenon_saver_options;

/* Adds the nodes that save and restore the variables made so far. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_saver)) TENON_NULLABLE(options)
tenon_status* tenon_saver_create(tenon_variables* variables, tenon_span folder, const tenon_saver_options* options, tenon_saver** out_saver);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(saver)) TENON_NULLABLE(saver)
void tenon_saver_release(tenon_saver* saver);
/* The folder is this saver's from now on, made where it is not there. Saving claims it by itself. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_claim(tenon_saver* saver);
/* Writes FOLDER/model.ckpt-STEP from the session, unless it is there, and removes what need not be kept. metric: for keep_best. out_prefix: of what was
 * written. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_prefix)) TENON_NULLABLE(metric, out_prefix)
tenon_status* tenon_saver_save(tenon_saver* saver, tenon_session* session, int64_t step, const double* metric, tenon_text** out_prefix);

typedef struct tenon_restored {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span prefix; /* empty: the folder holds no checkpoint. Both spans are borrowed until the saver restores again */
  tenon_span warnings; /* what was passed over and why, a line each */
  int64_t step;
} tenon_restored;

/* The newest checkpoint that can be read; what is damaged is passed over. DATA_LOSS and the like: there are some, and none can be read. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_saver_restore_newest(tenon_saver* saver, tenon_session* session, tenon_restored* out_restored);
/* These variables from any checkpoint: a warm start, perhaps of a part of another model. When it fails, the variables are as they were. */
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
tenon_status* tenon_event_writer_add_scalars(tenon_event_writer* writer, int64_t step, const tenon_span* tags, const float* values, uint64_t count);
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
