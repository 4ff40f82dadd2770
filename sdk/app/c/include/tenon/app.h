/* SPDX-License-Identifier: Apache-2.0 */
/* The API for applications: libtenon.so exports these functions and nothing else.
 *
 * A runtime holds loaded plugins. A graph is built node by node or read from GraphDef bytes. A session runs parts of a
 * graph: any edge may be fed, any edge fetched. A callable is a (feeds, fetches, targets) prepared once and run often.
 *
 * Rules. Every function may be called from any thread unless it says otherwise. Objects are released by their _release
 * function, which takes NULL; a runtime must outlive its graphs and sessions, a session its callables. Strings are
 * (pointer, size) spans; spans given out live as long as the object they came from. A tenon_status* of NULL is success;
 * others are released with tenon_status_release. Structs begin with struct_size; zeroed options are the defaults, and
 * with a struct_size of 0 what is not all zero is an error. Names of tensors: "node:k", and "node" for "node:0". Names
 * of targets: "node".
 *
 * Arguments are checked before they are read, and nothing is allocated by a count before it is known to be possible. A
 * pointer may be NULL where TENON_NULLABLE names it, or the struct that holds it says so. Another that is NULL, a span
 * or a list that is NULL with a size or a count, a rank below 0 or above TENON_MAX_RANK (of shapes that may be unknown:
 * below -1), a size, a count or a struct_size that cannot be, alone or within a struct or a list, is INVALID_ARGUMENT,
 * which names the argument: "'spec.inputs' is NULL, with a count of 3". What returns no status does nothing then, and
 * gives 0, an empty span or NULL; so it does of an object that is NULL. A pointer that leads elsewhere is nobody's to
 * find.
 */
#ifndef TENON_APP_H_
#define TENON_APP_H_

#include "tenon/abi.h"
#include "tenon/dlpack.h"
#include "tenon/dtype.h"
#include "tenon/ext/files.h"
#include "tenon/graph.h"
#include "tenon/status.h"
#include "tenon/tensor.h"

/* A tag as those of abi.h: these arguments, or what is returned, may be NULL. Every other pointer may not. */
#define TENON_NULLABLE(...)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_runtime tenon_runtime;
typedef struct tenon_app_graph tenon_app_graph;
typedef struct tenon_session tenon_session;
typedef struct tenon_callable tenon_callable;
typedef struct tenon_partial_run tenon_partial_run;
typedef struct tenon_tensor tenon_tensor;
typedef struct tenon_cancellation tenon_cancellation;
typedef struct tenon_text tenon_text;

/* ---- Statuses and texts ---- */

TENON_EXPORT tenon_span tenon_version(void);
TENON_EXPORT uint32_t tenon_status_code(const tenon_status* status); /* TENON_OK for NULL */
TENON_EXPORT tenon_span tenon_status_message(const tenon_status* status);
TENON_EXPORT tenon_span tenon_status_code_name(uint32_t code); /* "INVALID_ARGUMENT" */
TENON_EXPORT void tenon_status_release(tenon_status* status);
/* For who gives statuses on, as a library above this one: NULL for TENON_OK. An unknown code is taken for
 * TENON_UNKNOWN; without memory for it the status says so. */
TENON_EXPORT tenon_status* tenon_status_create(uint32_t code, tenon_span message);

/* A string that a function made. tenon_text_create copies; NULL: there is no memory for it. */
TENON_EXPORT tenon_text* tenon_text_create(tenon_span text);
TENON_EXPORT tenon_span tenon_text_span(const tenon_text* text);
TENON_EXPORT void tenon_text_release(tenon_text* text);

/* ---- Tensors: reference counted, immutable once shared ----
 *
 * In host memory, or in a device's: those that a callable leaves there, or that a session copied or took there. Of
 * these the view's address is the device's own (the flag TENON_VIEW_HOST_VISIBLE is not set), no work is under way on
 * them, and they must be released before their runtime is. */

/* A tensor of plain elements; data is copied (NULL: zeros). */
TENON_EXPORT TENON_NULLABLE(data)
tenon_status* tenon_tensor_create(uint32_t dtype, tenon_shape shape, const void* data, uint64_t bytes,
                                  tenon_tensor** out_tensor);
/* A string tensor; strings: one span an element, copied. */
TENON_EXPORT tenon_status* tenon_tensor_create_strings(tenon_shape shape, const tenon_span* strings, uint64_t count,
                                                       tenon_tensor** out_tensor);
/* The view lives as long as the tensor. */
TENON_EXPORT const tenon_tensor_view* tenon_tensor_get_view(const tenon_tensor* tensor);
/* Element `index` of a string tensor; an empty span when out of range or not a string tensor. */
TENON_EXPORT tenon_span tenon_tensor_string(const tenon_tensor* tensor, uint64_t index);
TENON_EXPORT void tenon_tensor_retain(tenon_tensor* tensor);
TENON_EXPORT void tenon_tensor_release(tenon_tensor* tensor);
/* Takes host memory that another library shares, without a copy; its deleter is called when the last view of it is
 * gone. Only when its elements have strides are they copied. On failure the managed tensor stays the caller's. A
 * device's memory is taken by tenon_session_tensor_from_dlpack. */
TENON_EXPORT tenon_status* tenon_tensor_from_dlpack(tenon_dl_managed_tensor* managed, tenon_tensor** out_tensor);
TENON_EXPORT tenon_status* tenon_tensor_from_dlpack_versioned(tenon_dl_managed_tensor_versioned* managed,
                                                              tenon_tensor** out_tensor);
/* Shares the tensor's memory, read-only; it stays while the receiver has not called the deleter. Plain elements
 * only. */
TENON_EXPORT tenon_status* tenon_tensor_to_dlpack(tenon_tensor* tensor, tenon_dl_managed_tensor** out_managed);
TENON_EXPORT tenon_status* tenon_tensor_to_dlpack_versioned(tenon_tensor* tensor,
                                                            tenon_dl_managed_tensor_versioned** out_managed);
/* "float", "int32", ...; and back (TENON_DT_INVALID when unknown). Bytes of one element; 0 when unknown. */
TENON_EXPORT tenon_span tenon_dtype_name(uint32_t dtype);
TENON_EXPORT uint32_t tenon_dtype_from_name(tenon_span name);
TENON_EXPORT uint64_t tenon_dtype_size(uint32_t dtype);

/* ---- Runtime ---- */

/* Frozen value: an option "plugin.key" = "value". */
typedef struct tenon_plugin_option {
  tenon_span plugin; /* package id, "tenon.cpu" */
  tenon_span key;
  tenon_span value;
} tenon_plugin_option;

typedef struct tenon_runtime_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_span* plugins; /* [plugin_count] files to load besides those found */
  uint64_t plugin_count;
  const tenon_plugin_option* plugin_options; /* [plugin_option_count] */
  uint64_t plugin_option_count;
  uint32_t no_search; /* 1: load nothing but `plugins` */
  uint32_t threads;   /* of a step, the caller's included; 0: as many as cores */
  uint32_t log_level; /* TENON_LOG_* + 1; 0: warnings */
  uint32_t reserved;
  /* that this process is in a cluster, "/job:worker/task:1", by which its devices are named; empty: none */
  tenon_span task;
  /* Where kernels keep what they find out while they are prepared (algorithms that are fast here), for later processes;
   * made if it is not there. It must be this user's alone: FAILED_PRECONDITION. Empty: each process finds out for
   * itself. */
  tenon_span tuning_folder;
} tenon_runtime_options;

TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_runtime_create(const tenon_runtime_options* options, tenon_runtime** out_runtime);
TENON_EXPORT void tenon_runtime_release(tenon_runtime* runtime);
/* Loads one more plugin by path (with a slash). The report says what happened; an error status when it was rejected. */
TENON_EXPORT tenon_status* tenon_runtime_load_plugin(tenon_runtime* runtime, tenon_span path);
/* Adds a plugin that has no file: ops, kernels, devices of the application itself, of a language's runtime, or of a
 * library that is linked in. It is checked and loaded as one from a file; in reports its path is "application:" and its
 * id. The plugin, and all that it points to, lives as long as the runtime. The same one may be added to several
 * runtimes, and after it was unloaded again. */
TENON_EXPORT tenon_status* tenon_runtime_add_plugin(tenon_runtime* runtime, const tenon_plugin* plugin);
/* Opens every package that was found, as a list of all wants it; otherwise a package is opened when something of it is
 * asked for. What cannot be opened is in the reports. */
TENON_EXPORT void tenon_runtime_open_all(tenon_runtime* runtime);
/* Takes a plugin out of every registry; FAILED_PRECONDITION while its objects live. The library stays mapped. */
TENON_EXPORT tenon_status* tenon_runtime_unload_plugin(tenon_runtime* runtime, tenon_span id);

/* Outcomes of a load. */
#define TENON_LOAD_LOADED 0u
#define TENON_LOAD_REJECTED 1u
#define TENON_LOAD_NOT_CHOSEN 2u /* another variant of the package fits better */
#define TENON_LOAD_ALREADY 3u
#define TENON_LOAD_UNLOADED 4u

typedef struct tenon_load_report {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span path;
  tenon_span id;
  tenon_span version;
  tenon_span reason;  /* "OK", "MISSING_SYMBOL", "CPU_FEATURE", "LAYOUT", ... */
  tenon_span text;    /* what was found */
  tenon_span missing; /* the symbol, feature or library, when one is missing */
  tenon_span hint;    /* what to do */
  uint32_t outcome;   /* TENON_LOAD_* */
  uint32_t op_count;
  uint32_t kernel_count;
  uint32_t device_count;
} tenon_load_report;

TENON_EXPORT uint64_t tenon_runtime_report_count(const tenon_runtime* runtime);
TENON_EXPORT tenon_status* tenon_runtime_report(const tenon_runtime* runtime, uint64_t index,
                                                tenon_load_report* out_report);

typedef struct tenon_op_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span plugin;
  tenon_span inputs; /* signature language of op.h */
  tenon_span outputs;
  tenon_span attrs;
  tenon_span doc;
  uint64_t traits;
  uint32_t has_gradient;
  uint32_t reserved;
  tenon_span paths; /* inputs whose strings name files, "prefix, filename" */
  tenon_span properties; /* what it does to elements, as op.h has it; empty: nothing is known */
} tenon_op_info;

/* Ops sorted by name. */
TENON_EXPORT uint64_t tenon_runtime_op_count(const tenon_runtime* runtime);
TENON_EXPORT tenon_status* tenon_runtime_op(const tenon_runtime* runtime, uint64_t index, tenon_op_info* out_info);
TENON_EXPORT tenon_status* tenon_runtime_find_op(const tenon_runtime* runtime, tenon_span name,
                                                 tenon_op_info* out_info);

typedef struct tenon_kernel_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span op;
  tenon_span device_type;
  tenon_span plugin;
  tenon_span types; /* "T: float, double; Index: int32" */
  int32_t priority;
  uint32_t traits;
} tenon_kernel_info;

TENON_EXPORT uint64_t tenon_runtime_kernel_count(const tenon_runtime* runtime);
TENON_EXPORT tenon_status* tenon_runtime_kernel(const tenon_runtime* runtime, uint64_t index,
                                                tenon_kernel_info* out_info);

typedef struct tenon_device_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name; /* "/job:localhost/replica:0/task:0/device:CPU:0" */
  tenon_span type;
  tenon_span plugin;
  tenon_span model;
  tenon_span problem; /* why there is no device, when a driver found none; else empty */
  uint64_t memory_bytes;
  tenon_span memory_kinds; /* "device, staging" */
  uint32_t compute_queues; /* 0: the device is synchronous */
  uint32_t copy_queues;
  uint32_t dl_device_type; /* DLPack's */
  int32_t dl_device_id;
} tenon_device_info;

TENON_EXPORT uint64_t tenon_runtime_device_count(const tenon_runtime* runtime);
TENON_EXPORT tenon_status* tenon_runtime_device(const tenon_runtime* runtime, uint64_t index,
                                                tenon_device_info* out_info);

/* The files of this process, as its plugins get them (ext/files.h): a path "NAME://..." leads to the file system of a
 * plugin that a runtime of the process has found, any other path to the operating system's. There is one table, which
 * lives as long as the process; a file that a runtime's plugin opened must be closed before that runtime is released,
 * else its calls fail. */
TENON_EXPORT const tenon_files* tenon_runtime_files(void);

/* ---- Graphs. One thread at a time per graph. ---- */

TENON_EXPORT tenon_status* tenon_graph_create(tenon_runtime* runtime, tenon_app_graph** out_graph);
TENON_EXPORT void tenon_graph_release(tenon_app_graph* graph);
/* Adds the nodes of a serialized GraphDef. Nothing is added when one of them is wrong. */
TENON_EXPORT tenon_status* tenon_graph_import(tenon_app_graph* graph, tenon_span graph_def);
TENON_EXPORT tenon_status* tenon_graph_export(const tenon_app_graph* graph, tenon_text** out_graph_def);
/* Adds a node; attributes that the inputs determine may be left out, defaults are filled in. spec->inputs name
 * (node id, output). Device "" or a device name. */
TENON_EXPORT tenon_status* tenon_graph_add_node(tenon_app_graph* graph, const tenon_node_spec* spec, tenon_span device,
                                                int64_t* out_node);
/* Replaces input `index` of a node: closes a loop, whose merge was made before its next-iteration. */
TENON_EXPORT tenon_status* tenon_graph_set_input(tenon_app_graph* graph, int64_t node, int32_t index,
                                                 tenon_output source);
TENON_EXPORT tenon_status* tenon_graph_add_constant(tenon_app_graph* graph, tenon_span name,
                                                    const tenon_tensor_view* value, tenon_output* out_output);
/* The id of a node by name; NOT_FOUND names near misses. */
TENON_EXPORT tenon_status* tenon_graph_find(const tenon_app_graph* graph, tenon_span name, int64_t* out_node);
TENON_EXPORT int64_t tenon_graph_node_count(const tenon_app_graph* graph);
TENON_EXPORT tenon_span tenon_graph_node_name(const tenon_app_graph* graph, int64_t node);
TENON_EXPORT tenon_span tenon_graph_node_op(const tenon_app_graph* graph, int64_t node);
TENON_EXPORT tenon_span tenon_graph_node_device(const tenon_app_graph* graph, int64_t node);
TENON_EXPORT int32_t tenon_graph_node_output_count(const tenon_app_graph* graph, int64_t node);
TENON_EXPORT int32_t tenon_graph_node_input_count(const tenon_app_graph* graph, int64_t node);
TENON_EXPORT tenon_status* tenon_graph_node_input(const tenon_app_graph* graph, int64_t node, int32_t index,
                                                  tenon_output* out_source);
/* How many nodes `node` waits for beyond those whose outputs it takes; the first `capacity` of them are written. */
TENON_EXPORT uint64_t tenon_graph_node_control_inputs(const tenon_app_graph* graph, int64_t node, int64_t* out_nodes,
                                                      uint64_t capacity);
/* Borrowed until the graph changes. */
TENON_EXPORT tenon_status* tenon_graph_node_attr(const tenon_app_graph* graph, int64_t node, tenon_span name,
                                                 tenon_attr_value* out_value);
TENON_EXPORT uint32_t tenon_graph_output_dtype(const tenon_app_graph* graph, tenon_output output);
/* Inferred shape; dims are borrowed until the graph changes. */
TENON_EXPORT tenon_status* tenon_graph_output_shape(const tenon_app_graph* graph, tenon_output output,
                                                    tenon_shape* out_shape);
/* Extends the graph with nodes that compute d(sum of ys)/d(xs). Calls on the way become their functions' nodes, unless
 * the function names its gradient. grads[i] kind: NONE (does not depend), DENSE or SLICES
 * (op.h). initial: [y_count] gradients to begin with, or NULL for ones. */
struct tenon_gradient;
TENON_EXPORT TENON_NULLABLE(initial)
tenon_status* tenon_graph_add_gradients(tenon_app_graph* graph, const tenon_output* ys, uint64_t y_count,
                                        const tenon_output* xs, uint64_t x_count,
                                        const tenon_output* initial, struct tenon_gradient* out_gradients);
/* Nodes added from now on get the prefix "scope/" (nested names with slashes; "" is none), unless their name has
 * one. */
TENON_EXPORT void tenon_graph_set_scope(tenon_app_graph* graph, tenon_span scope);
/* Borrowed until it is set again. */
TENON_EXPORT tenon_span tenon_graph_get_scope(const tenon_app_graph* graph);
/* Nodes added from now on ask for this device, whole or in part ("GPU:0"), unless they are given one of their own; ""
 * is none. What tenon_graph_add_gradients adds for a node that asks for a device asks for that one. */
TENON_EXPORT void tenon_graph_set_device(tenon_app_graph* graph, tenon_span device);
/* Borrowed until it is set again. */
TENON_EXPORT tenon_span tenon_graph_get_device(const tenon_app_graph* graph);
/* Nodes added from now on wait for these nodes; replaces the earlier list. */
TENON_EXPORT tenon_status* tenon_graph_set_control_inputs(tenon_app_graph* graph, const int64_t* nodes, uint64_t count);
/* How many they are; the first `capacity` of them are written. */
TENON_EXPORT uint64_t tenon_graph_get_control_inputs(const tenon_app_graph* graph, int64_t* out_nodes,
                                                     uint64_t capacity);

/* ---- Functions: a graph's library ----
 *
 * A function is defined once and called by name: by a node whose op is the function, by PartitionedCall (attribute f),
 * as a branch of If or Case, as condition or body of While, as f of SymbolicGradient. Calls become the function's nodes
 * before a step, so a function costs nothing and cannot call itself: it is defined after all that it calls. Gradients
 * go through calls, and through branches and loops of functions. GraphDef carries the library, and what was read is
 * written as it was. A function is never changed or removed. */

/* A graph in which the body of a function of `graph` is built: functions of `graph` are known in it, and become
 * functions of it as nodes call them. Release it before `graph`; while a thread builds it, none may change `graph`. Any
 * other graph of the runtime is as good a body as long as it has the functions that its nodes call. */
TENON_EXPORT tenon_status* tenon_graph_create_body(const tenon_app_graph* graph, tenon_app_graph** out_body);

/* Frozen value: an edge, and the name that it has as an argument: letters, digits and '_', no digit first. */
typedef struct tenon_named_output {
  tenon_span name;
  tenon_output output;
} tenon_named_output;

/* Frozen value: a node, and the name that it has as a control output. */
typedef struct tenon_named_node {
  tenon_span name;
  int64_t node;
} tenon_named_node;

typedef struct tenon_function_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span description;      /* for people; may be empty */
  const tenon_app_graph* body; /* only read. What outputs and control outputs need of it is the function, up to the
                                * inputs */
  const tenon_named_output* inputs; /* [input_count] any edges, each once: mostly placeholders' */
  uint64_t input_count;
  const tenon_named_output* outputs; /* [output_count] any edges, inputs too */
  uint64_t output_count;
  const tenon_named_node* control_outputs; /* [control_output_count] nodes that each call runs, whatever is read of it:
                                            * assignments */
  uint64_t control_output_count;
  const tenon_attr* attrs; /* [attr_count] said of the function itself, as "_noinline"; kept, and without effect here */
  uint64_t attr_count;
  tenon_span gradient; /* as of tenon_graph_set_function_gradient; empty: it is made of the body */
} tenon_function_spec;

/* Defines a function, and those of the body's graph that it calls. Where there is one of that name: fine when it is the
 * same, ALREADY_EXISTS when not, or when it is an op's. INVALID_ARGUMENT names what cannot stand in a function: a
 * placeholder that is no input (what a body needs from outside must be given to it as an input), a reference, an output
 * that does not exist, the body of another runtime. NOT_FOUND: it calls a function that is not there, such as itself.
 * On failure nothing is defined. */
TENON_EXPORT tenon_status* tenon_graph_add_function(tenon_app_graph* graph, const tenon_function_spec* spec);
/* Copies a function, with those that it calls and its gradient, from another graph; names as above. */
TENON_EXPORT tenon_status* tenon_graph_copy_function(tenon_app_graph* graph, const tenon_app_graph* from,
                                                     tenon_span name);
/* Names the function that computes the gradient of another, where it is not to be made of the body: it takes the
 * function's inputs, then a gradient of each output, and gives a gradient of each input. tenon_graph_add_gradients
 * through a call, and SymbolicGradient, then call it. ALREADY_EXISTS: the function has another. */
TENON_EXPORT tenon_status* tenon_graph_set_function_gradient(tenon_app_graph* graph, tenon_span function,
                                                             tenon_span gradient);
/* Names the function that is in this graph the gradient of the op op_type; or, where op_type is any other name, of the
 * nodes that ask for it in their string attribute "_gradient_op_type", which goes before their op's. It takes the
 * node's inputs, then a gradient of each output (or these alone), and gives a gradient of each input. A GraphDef has it
 * as a RegisteredGradient. NOT_FOUND: there is no such function; ALREADY_EXISTS: they have another gradient. */
TENON_EXPORT tenon_status* tenon_graph_register_gradient(tenon_app_graph* graph, tenon_span op_type,
                                                         tenon_span function);

/* Spans are borrowed until the graph changes. */
typedef struct tenon_function_info {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span description;
  tenon_span gradient; /* the function that is its gradient; empty: it is made of the body */
  uint64_t input_count; /* arguments; one may stand for several values */
  uint64_t output_count;
  uint64_t control_output_count;
  uint64_t node_count; /* of the body */
  uint32_t stateful;   /* 1: a call may do more than compute its results */
  uint32_t reserved;
} tenon_function_info;

/* Which arguments. */
#define TENON_FUNCTION_INPUT 0u
#define TENON_FUNCTION_OUTPUT 1u
#define TENON_FUNCTION_CONTROL_OUTPUT 2u /* names alone */

typedef struct tenon_function_argument {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  /* TENON_DT_*. TENON_DT_INVALID where an attribute that the caller binds says it: functions that were read may have
   * such. */
  uint32_t dtype;
  uint32_t reserved;
  tenon_span type_attr;
  tenon_span number_attr;    /* not empty: so many values of the type */
  tenon_span type_list_attr; /* not empty: a value of each of these types */
} tenon_function_argument;

/* Sorted by name; index: 0 .. count-1. All of them take time in proportion to how many there are. */
TENON_EXPORT uint64_t tenon_graph_function_count(const tenon_app_graph* graph);
TENON_EXPORT tenon_status* tenon_graph_function(const tenon_app_graph* graph, uint64_t index,
                                                tenon_function_info* out_info);
/* NOT_FOUND names near misses. In a function's body this one and the next two know the functions of the graph around
 * too. */
TENON_EXPORT tenon_status* tenon_graph_find_function(const tenon_app_graph* graph, tenon_span name,
                                                     tenon_function_info* out_info);
/* which: TENON_FUNCTION_*. */
TENON_EXPORT tenon_status* tenon_graph_function_argument(const tenon_app_graph* graph, tenon_span function,
                                                         uint32_t which, uint64_t index,
                                                         tenon_function_argument* out_argument);
/* An attribute of the function itself (tenon_function_spec.attrs); borrowed until the graph changes. */
TENON_EXPORT tenon_status* tenon_graph_function_attr(const tenon_app_graph* graph, tenon_span function, tenon_span name,
                                                     tenon_attr_value* out_value);

/* TENON_ATTR_FUNCTION has the function's name alone. What a node's attribute `attr` (of a list: element `index`) binds
 * of the function's own attributes, as the type of a function for any type, is set and asked for by these. Setting
 * replaces all of them. */
TENON_EXPORT tenon_status* tenon_graph_bind_function(tenon_app_graph* graph, int64_t node, tenon_span attr,
                                                     uint64_t index, const tenon_attr* bound, uint64_t bound_count);
TENON_EXPORT tenon_status* tenon_graph_bound_attr(const tenon_app_graph* graph, int64_t node, tenon_span attr,
                                                  uint64_t index, tenon_span name, tenon_attr_value* out_value);

/* ---- Workers: this process as a task of a cluster ---- */

typedef struct tenon_worker tenon_worker;

/* Frozen value: one task of a cluster. */
typedef struct tenon_task {
  tenon_span name;    /* "/job:ps/task:0" */
  tenon_span address; /* with the transport's scheme; plain "host:port" is gRPC's */
} tenon_task;

typedef struct tenon_worker_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_task* tasks; /* [task_count] of the whole cluster; the runtime's own among them */
  uint64_t task_count;
  tenon_span listen;      /* where this task listens; empty: at its address in `tasks` */
  tenon_span credentials; /* of the transport, JSON */
  /* What is more is RESOURCE_EXHAUSTED to whoever asks for it; others go on. */
  uint64_t max_sessions;      /* open at once; 0: 64 */
  uint64_t memory_limit;      /* bytes of all sessions' values, variables and steps, in the host's memory and in each
                               * device's; 0: none */
  uint64_t max_message_bytes; /* of one message; 0: 4 GiB */
} tenon_worker_options;

/* Serves masters until it is released. The runtime was made with a task, and outlives the worker. */
TENON_EXPORT tenon_status* tenon_worker_start(tenon_runtime* runtime, const tenon_worker_options* options,
                                              tenon_worker** out_worker);
/* Where it listens; lives as long as the worker. */
TENON_EXPORT tenon_span tenon_worker_address(const tenon_worker* worker);
/* Takes no new steps, and lets those that run end for so long; then cancels them. */
TENON_EXPORT tenon_status* tenon_worker_stop(tenon_worker* worker, uint64_t timeout_ns);
TENON_EXPORT void tenon_worker_release(tenon_worker* worker);
/* What the worker has done, and has now: counters and gauges in families, named as Prometheus wants it. JSON: a list of
 * {"name": "tenon_worker_steps_total", "type": "counter" or "gauge", "help": TEXT, "samples": [{"labels": {"outcome":
 * "ok"}, "value": 12}]}. */
TENON_EXPORT tenon_status* tenon_worker_metrics(const tenon_worker* worker, tenon_text** out_json);

/* ---- Sessions ---- */

/* Executors. */
#define TENON_EXECUTOR_AUTO 0u    /* straight code wherever the graph allows */
#define TENON_EXECUTOR_DYNAMIC 1u /* the dynamic executor for everything */

/* Of float32 values that go from one part to another (partition). */
#define TENON_TRANSFER_FULL 0u     /* as they are */
#define TENON_TRANSFER_TRUNCATED 1u /* in 16 bits: sign, exponent and 7 bits of mantissa, the others cut off */
#define TENON_TRANSFER_NEAREST 2u   /* the same, rounded to the nearest, halves to even */

/* A choice with a default: 0 asks for the default. */
#define TENON_DEFAULT 0u
#define TENON_ON 1u
#define TENON_OFF 2u

/* For tests and measurements. Switches are TENON_DEFAULT (off here), TENON_ON or TENON_OFF. */
typedef struct tenon_debug_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t schedule_seed;   /* dynamic executor: 0 is construction order; else a random order */
  uint32_t one_queue;       /* on: all work of a device goes to one queue, to see what the others bring */
  uint32_t early_transfers; /* on: values go to devices as soon as they are there; off: when they are needed, which
                             * takes less memory */
  uint32_t partition;       /* on: one part for each device, on a thread of its own, which exchange values; off: one
                             * program. Not on a cluster */
  uint32_t transfer_precision; /* TENON_TRANSFER_*: of float32 values that go from part to part */
} tenon_debug_options;

/* Zero is the default of each. What is not honoured by sessions of a kind (on a cluster: `master` is not empty) is an
 * error that names the option. session_options.h has all of them as a list, with the flags of the command. */
typedef struct tenon_session_options {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Where nodes go. */
  tenon_span device;           /* of nodes without one */
  tenon_span placement;        /* text of a placement file, which goes before the nodes' own devices; empty: none */
  tenon_span placement_source; /* the name of `placement` in errors; empty: "the placement" */
  tenon_span costs;            /* text of measured costs, as tenon_session_costs gave it; empty: costs are estimated */
  tenon_span costs_source;     /* the name of `costs` in errors; empty: "the costs" */
  tenon_span placer;           /* id of the package whose placer chooses; empty: the engine's own */
  uint32_t soft_placement;     /* on (the default): a device name that cannot hold is dropped; off: it is an error */
  uint32_t record_costs;       /* on: traced steps are measured, for tenon_session_costs. Not with debug->partition */
  /* The cluster that steps run on. */
  tenon_span master;           /* address of any of its tasks, "grpc://host:port"; empty: steps run in this process */
  tenon_span credentials;      /* of the transport, JSON (ext/draft/transport.h) */
  uint64_t connect_timeout_ns; /* until all tasks of the cluster have answered; 0: ten seconds */
  /* Whose session this is, of any process. One that begins ends those of the same owner everywhere and waits for their
   * steps, so that nothing that an earlier attempt sent is done after what this one restores. Empty: nobody's. */
  tenon_span owner;
  /* Whose the unnamed container is: of variables, queues and the like whose nodes name none. On a cluster each
   * worker's, which outlives the session and which others see, unless `isolate` is on: then it is the session's own and
   * ends with it. In this process it is the session's own, as in TensorFlow's direct sessions (a queue that one has
   * closed is no other's), unless `share_state` is on: then it is the runtime's. Named containers are the runtime's,
   * the workers'. */
  uint32_t isolate;
  uint32_t share_state;
  /* How steps run; on a cluster, at its workers. */
  uint32_t executor;     /* TENON_EXECUTOR_* */
  uint32_t reserved;     /* 0 */
  uint64_t memory_limit; /* bytes; 0: none */
  uint64_t seed;         /* of random ops that have none; 0: from the system */
  uint32_t precision;    /* TENON_PRECISION_* (kernel.h), or TENON_PRECISION_INT8 (session_options.h) */
  uint32_t optimize;     /* off: no common subexpressions, no folding */
  uint32_t compile;      /* off: devices run nodes one by one, whatever their compilers would take */
  uint32_t capture;      /* off: work of a device's queue is submitted kernel by kernel in every step, never as one
                          * captured piece */
  /* On: what each kernel makes is looked at, and the first NaN or infinity fails its step as INVALID_ARGUMENT, which
   * names the node, the output, how many there are and what came in. Every node runs by itself then, on a device's
   * queue too, and the host waits for each. */
  uint32_t check_numerics;
  /* on: steps may have a watcher (tenon_run_options.watch); every node runs by itself then. Not on a cluster */
  uint32_t watch;
  const tenon_debug_options* debug; /* NULL: none */
  /* text of a calibration, which precision int8 is by: ranges of the graph's values; empty: none */
  tenon_span calibration;
  /* On a cluster, bytes: how much of large values (outside of loops, of a size that the graph tells) from other tasks
   * is asked for ahead of the nodes that read it. A task that gets more than that in a step asks for each when it is
   * soon needed, and it stays with who made it until then. 0: 8 MiB; UINT64_MAX: all come at once. */
  uint64_t receive_window;
  /* On a cluster: the tasks and devices that the session uses, names separated by commas, each whole or partial
   * ("/job:ps,/job:worker/task:0"); others are neither greeted nor used, so that what becomes of them is nothing to the
   * session. Empty: all. */
  tenon_span device_filters;
  /* On a cluster: how long a task may say nothing before it is taken for lost, which fails the steps that run at it,
   * and later ones that would. 0: three seconds. */
  uint64_t silence_timeout_ns;
  /* Graph passes that are left out (ext/draft/graph_pass.h), by name, separated by commas. NOT_FOUND where no package
   * that is loaded has one of that name tells which there are, when a step is planned. Empty: all run. */
  tenon_span no_pass;
} tenon_session_options;

TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_session_create(tenon_runtime* runtime, const tenon_session_options* options,
                                   tenon_session** out_session);
/* Cancels what runs, waits for it, drops the session's own resources. */
TENON_EXPORT void tenon_session_release(tenon_session* session);
/* Adds nodes, at any time; a name that exists is ALREADY_EXISTS and nothing is added. Nodes with an op or an attribute
 * that nobody here knows, and all that read them, are left out; whoever asks for one is told why it is not there. */
TENON_EXPORT tenon_status* tenon_session_extend(tenon_session* session, tenon_span graph_def);
/* Adds what the graph has more than at the last extend_graph of this session with it. */
TENON_EXPORT tenon_status* tenon_session_extend_graph(tenon_session* session, const tenon_app_graph* graph);

TENON_EXPORT tenon_status* tenon_cancellation_create(tenon_cancellation** out_cancellation);
TENON_EXPORT void tenon_cancellation_cancel(tenon_cancellation* cancellation);
TENON_EXPORT void tenon_cancellation_release(tenon_cancellation* cancellation);

/* What a kernel has made. */
typedef struct tenon_watched {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span node;   /* its name */
  tenon_span op;
  tenon_span device; /* that it was placed on; empty: the default one */
  const tenon_tensor_view* value;
  int32_t output; /* of the node */
  int32_t reserved;
} tenon_watched;

typedef struct tenon_run_options {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t timeout_ns; /* 0: none */
  tenon_cancellation* cancellation; /* NULL: none */
  tenon_text** out_trace; /* not NULL: gets the step's trace, Chrome's JSON format; slows the step */
  /* Shown each value that a kernel of the step makes, as it is made: FAILED_PRECONDITION unless the session has the
   * option `watch`. Not NULL: called from any thread, several at once, with a view of host memory that is good for the
   * call; it may not touch the session. A status that it returns fails the step, which takes it over. What nodes only
   * pass on, what was folded, and handles and variants are not shown; nodes of functions are, by the names that they
   * have where they were inlined, but not those of functions that kernels call. */
  tenon_status* (*watch)(void* argument, const tenon_watched* made);
  void* watch_argument;
} tenon_run_options;

/* As tenon_session_extend, until the options' timeout passes or their cancellation is cancelled: DEADLINE_EXCEEDED,
 * CANCELLED, and nothing is added. Options may be NULL; what they say of steps alone (out_trace, watch) is left
 * alone. */
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_session_extend_within(tenon_session* session, const tenon_run_options* options,
                                          tenon_span graph_def);

/* Feeds and fetches are names. Fetches are given to the caller. */
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_session_run(tenon_session* session, const tenon_run_options* options,
                                const tenon_span* feed_names, const tenon_tensor_view* const* feeds,
                                uint64_t feed_count, const tenon_span* fetch_names, uint64_t fetch_count,
                                const tenon_span* target_names, uint64_t target_count,
                                tenon_tensor** out_fetches);

/* Where feeds lie and fetches stay: names of devices, whole or in part ("TPU:0"), "" for host memory. What is fed from
 * and left in a device's memory crosses to the host only where a node wants it there. A fetch that stays is a fresh
 * tensor each step. */
typedef struct tenon_callable_options {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_span* feed_devices;  /* [feed_count]; NULL: all in host memory */
  const tenon_span* fetch_devices; /* [fetch_count]; NULL: all in host memory */
  uint64_t timeout_ns;              /* for the preparing; 0: none. A step has its own */
  tenon_cancellation* cancellation; /* ends the preparing; NULL: none */
} tenon_callable_options;

/* options: NULL for the defaults. */
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_session_prepare(tenon_session* session, const tenon_span* feed_names,
                                    uint64_t feed_count, const tenon_span* fetch_names,
                                    uint64_t fetch_count, const tenon_span* target_names,
                                    uint64_t target_count, const tenon_callable_options* options,
                                    tenon_callable** out_callable);
/* A copy in the memory of a device, or in host memory (""). The tensor may lie in either. Waits until it is there. */
TENON_EXPORT tenon_status* tenon_session_copy_tensor(tenon_session* session, const tenon_tensor* tensor,
                                                     tenon_span device, tenon_tensor** out_tensor);
/* A tensor of plain elements, uninitialised, in host memory that transfers to and from that device go by best: its
 * first kind of host-visible memory, which copies of CUDA and ROCm reach without a stop (pinned memory). Of a device
 * that computes in memory which the host reads, or has no such kind, and of "", it is ordinary memory. Aligned to 64
 * bytes.
 *
 * It is the caller's to write, through the view's dl.data, also between steps: fed, it is borrowed for the step (nobody
 * else keeps its memory: its view has no buffer), and tenon_callable_run_into takes it for a fetch. Nothing may write
 * it while a step, a copy or another library reads it, nor read it while one writes it; when the call returns they have
 * done with it (run_async: when done is called). A step has a fetch of a device brought there straight where it runs as
 * straight code (executor) and nothing of it reads that value on the host. Any part of the memory is as good as the
 * whole, under another view. Where steps run in other processes (master) the devices are this one's, and messages carry
 * what lies there as any host memory.
 *
 * Counted to the session's memory_limit, with its host memory, until it is released, which may be after the session,
 * and must be before the runtime. The device's plugin is not unloaded before. NOT_FOUND: no such device;
 * INVALID_ARGUMENT: strings, handles, variants, a shape that is not fully known, has a negative size or more elements
 * than can be; RESOURCE_EXHAUSTED names what has no more memory: the session's limit, the driver, the system. A lost
 * device gives its own error. */
TENON_EXPORT tenon_status* tenon_session_create_pinned_tensor(tenon_session* session, tenon_span device, uint32_t dtype,
                                                              tenon_shape shape, tenon_tensor** out_tensor);
/* As tenon_tensor_from_dlpack, of memory of that device: INVALID_ARGUMENT when the managed tensor names another. What
 * its library still does to it must have ended, or be on a stream that tenon_session_wait_for_stream was told of.
 * Elements with strides are refused. */
TENON_EXPORT tenon_status* tenon_session_tensor_from_dlpack(tenon_session* session, tenon_span device,
                                                            tenon_dl_managed_tensor* managed,
                                                            tenon_tensor** out_tensor);
TENON_EXPORT tenon_status* tenon_session_tensor_from_dlpack_versioned(tenon_session* session, tenon_span device,
                                                                      tenon_dl_managed_tensor_versioned* managed,
                                                                      tenon_tensor** out_tensor);
/* Steps that begin from now on use the device when what its vendor's native stream (cudaStream_t, hipStream_t; of
 * another library) was given so far has ended; the host does not wait. UNIMPLEMENTED where the device has no native
 * streams. What a step leaves on a device is done when the step returns, so that another library may read it on any
 * stream. */
TENON_EXPORT TENON_NULLABLE(stream)
tenon_status* tenon_session_wait_for_stream(tenon_session* session, tenon_span device, void* stream);
TENON_EXPORT void tenon_callable_release(tenon_callable* callable);
/* Runs on the caller's thread. feeds: [feed_count] views in the order of preparing; borrowed for the call. */
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_callable_run(tenon_callable* callable, const tenon_run_options* options,
                                 const tenon_tensor_view* const* feeds, tenon_tensor** out_fetches);
/* The same into the caller's memory: fetches[i].dl.data holds byte_size bytes; shape and dtype must be right (plain
 * dtypes only). No allocation in a steady step. The step may compute there from its beginning on: what it holds after
 * an error is undefined. It may be a feed's memory too. UNIMPLEMENTED when a fetch stays on a device. */
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_callable_run_into(tenon_callable* callable, const tenon_run_options* options,
                                      const tenon_tensor_view* const* feeds,
                                      const tenon_tensor_view* fetches);
/* Returns at once; done is called once from another thread. Feeds must live until then. */
TENON_EXPORT TENON_NULLABLE(options, argument)
tenon_status* tenon_callable_run_async(tenon_callable* callable, const tenon_run_options* options,
                                       const tenon_tensor_view* const* feeds,
                                       void (*done)(void* argument, tenon_status* status,
                                                    tenon_tensor* const* fetches, uint64_t fetch_count),
                                       void* argument);

/* Empties containers: variables lose their values, queues, tables and iterators go; their nodes stay, and may be
 * initialised again. In this process those of the runtime (without the option `share_state` the unnamed one is the
 * session's own), on a cluster those of all its workers. containers: names; "" or none at all: the unnamed one. A step
 * that runs keeps the objects that it has begun to use, and finds the variables without values. out_count: of what was
 * dropped; may be NULL. On a cluster the first task that cannot be reached is the error, and the others are emptied all
 * the same. */
TENON_EXPORT TENON_NULLABLE(out_count)
tenon_status* tenon_session_reset_containers(tenon_session* session, const tenon_span* containers, uint64_t count,
                                             uint64_t* out_count);

/* For serving: from now on variables are constants to the steps that are prepared, of the values that they have when a
 * step first asks for them; what is made of them (casts, weights in 8 bits or in a kernel's layout) is made once, as of
 * a graph whose variables were replaced by constants. A step that writes to a variable is then FAILED_PRECONDITION; one
 * that was prepared before is as it was, and what it or another session writes is not seen here. Kernels that take a
 * variable's handle (ResourceGather), and what is fed as one, use the variable itself. It is for good, and once if it
 * is asked for twice. UNIMPLEMENTED: the steps run in other processes. */
TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) tenon_status* tenon_session_freeze(tenon_session* session);

/* Where the nodes of a step would run and why, without running it. Each text may be NULL.
 * out_json: why each node is where it is, what else was possible, the predicted time line, notes, what compilers
 * refuse. out_svg: a picture of the time line. out_placement: a placement file that says the same again. */
TENON_EXPORT TENON_NULLABLE(out_json, out_svg, out_placement)
tenon_status* tenon_session_place(tenon_session* session, const tenon_span* feed_names, uint64_t feed_count,
                                  const tenon_span* fetch_names, uint64_t fetch_count,
                                  const tenon_span* target_names, uint64_t target_count,
                                  tenon_text** out_json, tenon_text** out_svg, tenon_text** out_placement);
/* What nodes took in the traced steps of this session, with the costs that it was given; for later sessions. */
TENON_EXPORT tenon_status* tenon_session_costs(const tenon_session* session, tenon_text** out_costs);

/* Partial runs: feeds arrive in several calls; each call gives the fetches that it asks for. */
TENON_EXPORT tenon_status* tenon_session_partial_setup(tenon_session* session, const tenon_span* feed_names,
                                                       uint64_t feed_count, const tenon_span* fetch_names,
                                                       uint64_t fetch_count, const tenon_span* target_names,
                                                       uint64_t target_count, tenon_partial_run** out_partial);
TENON_EXPORT TENON_NULLABLE(options)
tenon_status* tenon_partial_run_step(tenon_partial_run* partial, const tenon_run_options* options,
                                     const tenon_span* feed_names, const tenon_tensor_view* const* feeds,
                                     uint64_t feed_count, const tenon_span* fetch_names,
                                     uint64_t fetch_count, tenon_tensor** out_fetches);
TENON_EXPORT void tenon_partial_run_release(tenon_partial_run* partial);

typedef struct tenon_session_metrics {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t steps;          /* finished, with or without success */
  uint64_t plans_built;
  uint64_t plans_reused;
  uint64_t bindings_built; /* (plan, feed shapes) pairs resolved */
  uint64_t bytes_in_use;   /* of the session's tensors, variables and arenas */
  uint64_t peak_bytes;
  uint64_t nodes_folded;   /* evaluated before the step */
  uint64_t nodes_merged;   /* common subexpressions */
  uint64_t host_waits;     /* times that a step waited for a device, of all steps */
  uint64_t device_bytes_in_use; /* of devices with memory of their own, all together */
  uint64_t device_peak_bytes;
  uint64_t captured_launches; /* times that a stretch of kernels was launched as one piece of work */
} tenon_session_metrics;

TENON_EXPORT tenon_status* tenon_session_get_metrics(const tenon_session* session, tenon_session_metrics* out_metrics);

/* A task of the cluster that a session runs on, by what it said when it was last heard of: since its start, for all
 * masters. */
typedef struct tenon_task_state {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span address;
  uint64_t silent_ns; /* since it was heard of; it is asked twice a second */
  uint64_t steps;     /* ended, with or without success */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t bytes_in_use; /* of values, variables and steps, in all its memories */
  uint64_t sessions;
} tenon_task_state;

/* 0: the session's steps run in this process. */
TENON_EXPORT uint64_t tenon_session_task_count(const tenon_session* session);
TENON_EXPORT tenon_status* tenon_session_get_task(const tenon_session* session, uint64_t index,
                                                  tenon_task_state* out_state);
/* JSON: for each node that the callable runs, its device, its kernel's plugin and priority, and how it runs (straight,
 * loop, dynamic, folded, view). */
TENON_EXPORT tenon_status* tenon_callable_explain(tenon_callable* callable, tenon_text** out_json);

#ifdef __cplusplus
}
#endif
#endif /* TENON_APP_H_ */
