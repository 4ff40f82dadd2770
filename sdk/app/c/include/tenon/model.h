/* SPDX-License-Identifier: Apache-2.0 */
/* Models as files, for applications: libtenon_model_c.so, above libtenon.so (app.h).
 *
 * A model file is a GraphDef, a MetaGraphDef or a SavedModel, binary or text, opened and understood. A model is such a
 * file in a session, its variables restored and its initialisation run, whose signatures are called by the names that
 * their author gave:
 *
 *   tenon_model_file_open(path, NULL, &file);
 *   tenon_model_load(runtime, file, NULL, &model);
 *   tenon_model_run(model, TENON_SPAN("serving_default"), NULL, &name, &input, 1, outputs, output_count);
 *
 * Rules, beside those of app.h. A model is a stranger's: nothing but its folder is read, no library is loaded for it,
 * and a signature that is run touches no file, unless the caller lets it (tenon_model_load_options.files). A pointer
 * may be NULL where TENON_NULLABLE names it; another that is NULL is INVALID_ARGUMENT, and so is an index beyond a
 * count. What an info borrows lives as long as the object that was asked. Objects are immutable: any thread may use
 * one, several at once.
 */
#ifndef TENON_MODEL_H_
#define TENON_MODEL_H_

#include "tenon/app.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_model_file tenon_model_file;
typedef struct tenon_model tenon_model;
typedef struct tenon_checkpoint tenon_checkpoint;

/* ---- Files ---- */

#define TENON_MODEL_GRAPH_DEF 0u
#define TENON_MODEL_META_GRAPH 1u
#define TENON_MODEL_SAVED_MODEL 2u

typedef struct tenon_model_open_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_span* tags; /* [tag_count] of a SavedModel: the graph that has these and no others. NULL: "serve"; not
                           * NULL and 0 of them: one without */
  uint64_t tag_count;
  uint64_t most_bytes;    /* of the file; a larger one is RESOURCE_EXHAUSTED before it is read. 0: no bound */
} tenon_model_open_options;

/* path: a file, or a SavedModel's folder. NOT_FOUND, also where there is no graph of the tags, which says which there
 * are; INVALID_ARGUMENT or DATA_LOSS: it is none, and what it is instead where that can be told. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_file)) TENON_NULLABLE(options)
tenon_status* tenon_model_file_open(tenon_span path, const tenon_model_open_options* options,
                                    tenon_model_file** out_file);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(file)) TENON_NULLABLE(file)
void tenon_model_file_release(tenon_model_file* file);

typedef struct tenon_model_file_info {
  uint32_t struct_size;
  uint32_t must_understand;
  uint32_t form;    /* TENON_MODEL_* */
  uint32_t is_text; /* 1: protobuf's text format */
  tenon_span graph_def;  /* serialized, uncopied: for tenon_graph_import or tenon_session_extend */
  tenon_span checkpoint; /* the prefix of the variables' values; empty: there are none */
  tenon_span folder;     /* of a SavedModel; else empty */
  tenon_span tensorflow_version; /* that wrote it, if it says so */
  uint64_t tag_count;
  uint64_t signature_count;
  uint64_t note_count; /* what was passed over, one sentence each */
} tenon_model_file_info;

TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_get_info(const tenon_model_file* file, tenon_model_file_info* out_info);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_tag(const tenon_model_file* file, uint64_t index, tenon_span* out_tag);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_note(const tenon_model_file* file, uint64_t index, tenon_span* out_note);

/* ---- Signatures: functions of the graph that the model's author named ---- */

typedef struct tenon_signature_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;   /* "serving_default" */
  tenon_span method; /* "tensorflow/serving/predict" */
  uint64_t input_count;
  uint64_t output_count;
} tenon_signature_info;

/* Sorted by name. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_signature(const tenon_model_file* file, uint64_t index, tenon_signature_info* out_info);
/* NOT_FOUND lists those that there are. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_find_signature(const tenon_model_file* file, tenon_span name, uint64_t* out_index);

#define TENON_SIGNATURE_INPUT 0u
#define TENON_SIGNATURE_OUTPUT 1u

#define TENON_SIGNATURE_DENSE 0u
#define TENON_SIGNATURE_SPARSE 1u    /* its parts are values, indices and the dense shape */
#define TENON_SIGNATURE_COMPOSITE 2u /* its parts are all its components */

typedef struct tenon_signature_tensor {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span key;    /* its name in the signature */
  tenon_span tensor; /* in the graph, "node:0"; empty where it has parts */
  tenon_shape shape; /* rank -1: of any; a dimension of -1: of any size */
  uint32_t dtype;    /* TENON_DT_* */
  uint32_t kind;     /* TENON_SIGNATURE_DENSE, ... */
  uint32_t has_default; /* 1: of an input, which may be left out */
  uint32_t reserved;
  uint64_t part_count;
} tenon_signature_tensor;

/* which: TENON_SIGNATURE_INPUT or TENON_SIGNATURE_OUTPUT; both are sorted by key. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_signature_tensor(const tenon_model_file* file, uint64_t signature, uint32_t which,
                                                uint64_t index, tenon_signature_tensor* out_tensor);
/* The name in the graph of one part of a sparse or composite tensor. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_file_signature_part(const tenon_model_file* file, uint64_t signature, uint32_t which,
                                              uint64_t index, uint64_t part, tenon_span* out_tensor);

/* ---- Models ---- */

#define TENON_MODEL_FILES_NONE 0u /* a signature that would touch a file is PERMISSION_DENIED */
#define TENON_MODEL_FILES_ANY 1u  /* of a model that is trusted */

typedef struct tenon_model_load_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_session_options* session; /* NULL: the defaults */
  uint32_t files;                       /* TENON_MODEL_FILES_* */
  uint32_t reserved;
} tenon_model_load_options;

/* A session with the graph in it, variables restored, assets fed, initialised. The runtime outlives the model, the file
 * need not. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_model)) TENON_NULLABLE(options)
tenon_status* tenon_model_load(tenon_runtime* runtime, const tenon_model_file* file,
                               const tenon_model_load_options* options, tenon_model** out_model);
/* Cancels what runs, and waits for it. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(model)) TENON_NULLABLE(model)
void tenon_model_release(tenon_model* model);
/* The file that it was loaded from, and its session, for what app.h has; both the model's. NULL of NULL. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(model, return)
const tenon_model_file* tenon_model_get_file(const tenon_model* model);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(model, return)
tenon_session* tenon_model_get_session(const tenon_model* model);

/* Calls a signature. Inputs by key, in any order: all but those that have a default. out_outputs: [output_count], which
 * must be the signature's, in its order; on failure it is not touched. INVALID_ARGUMENT says what is missing, unknown,
 * given twice or of another type, and which inputs there are. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_outputs)) TENON_NULLABLE(options, input_names, inputs, out_outputs)
tenon_status* tenon_model_run(const tenon_model* model, tenon_span signature, const tenon_run_options* options,
                              const tenon_span* input_names, const tenon_tensor_view* const* inputs,
                              uint64_t input_count, tenon_tensor** out_outputs, uint64_t output_count);
/* The same for many calls: a callable that takes every input in the signature's order, and gives every output. It is
 * released before the model. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_callable)) TENON_NULLABLE(options)
tenon_status* tenon_model_prepare(const tenon_model* model, tenon_span signature, const tenon_callable_options* options,
                                  tenon_callable** out_callable);

/* ---- Writing ---- */

/* Frozen value: what a tensor of a graph is called in a signature. */
typedef struct tenon_signature_entry {
  tenon_span key;
  tenon_span tensor; /* "x", "node:1" */
} tenon_signature_entry;

typedef struct tenon_signature_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;   /* empty: "serving_default" */
  tenon_span method; /* empty: "tensorflow/serving/predict" */
  const tenon_signature_entry* inputs; /* [input_count] */
  uint64_t input_count;
  const tenon_signature_entry* outputs; /* [output_count] */
  uint64_t output_count;
} tenon_signature_spec;

typedef struct tenon_model_write_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_signature_spec* const* signatures; /* [signature_count], one at least */
  uint64_t signature_count;
  const tenon_span* tags; /* [tag_count]; NULL: "serve" */
  uint64_t tag_count;
  uint32_t replace; /* 1: a model that the folder has; while it is replaced the folder has none */
  uint32_t reserved;
} tenon_model_write_options;

/* Writes a SavedModel that TensorFlow loads: what the signatures reach of the graph, with the values that its variables
 * have in the session, which has the graph's nodes; nodes that read variables are added to it. A folder that has its
 * saved_model.pb is whole. ALREADY_EXISTS: the folder has a model. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_model_write(tenon_runtime* runtime, tenon_session* session, tenon_span graph_def, tenon_span folder,
                                const tenon_model_write_options* options);

/* ---- Checkpoints: variables' values by name, as TensorFlow's savers and tenon/train.h write them ---- */

/* path: the prefix, or one of the files. Reads the index alone. NOT_FOUND; DATA_LOSS: it is damaged, or none. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_checkpoint))
tenon_status* tenon_checkpoint_open(tenon_span path, tenon_checkpoint** out_checkpoint);
TENON_EXPORT TENON_THREAD(any) TENON_OWN(take(checkpoint)) TENON_NULLABLE(checkpoint)
void tenon_checkpoint_release(tenon_checkpoint* checkpoint);
/* 0 of NULL. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE(checkpoint)
uint64_t tenon_checkpoint_count(const tenon_checkpoint* checkpoint);

typedef struct tenon_checkpoint_entry {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_shape shape;
  uint64_t bytes; /* in the data files */
  uint64_t parts; /* more than 1: it is stored in slices */
  uint32_t dtype; /* TENON_DT_* */
  uint32_t reserved;
} tenon_checkpoint_entry;

/* Sorted by name. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_checkpoint_get(const tenon_checkpoint* checkpoint, uint64_t index,
                                   tenon_checkpoint_entry* out_entry);
/* NOT_FOUND names near misses. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* tenon_checkpoint_find(const tenon_checkpoint* checkpoint, tenon_span name, uint64_t* out_index);
/* The value of one, its checksum verified: DATA_LOSS. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(give(out_tensor))
tenon_status* tenon_checkpoint_read(const tenon_checkpoint* checkpoint, tenon_runtime* runtime, uint64_t index,
                                    tenon_tensor** out_tensor);

#ifdef __cplusplus
}
#endif
#endif /* TENON_MODEL_H_ */
