/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: how an op runs on one device type. Three stages:
 *
 *   create(node)     parses attributes, once per (session, node, device) for stateful kernels.
 *   prepare(shapes)  anything slow: choose an algorithm, pack constant weights, ask for a workspace, compile.
 *                    Gives an immutable object; many may be alive at once.
 *   run(frame)       the hot path, reentrant. Reads frame->inputs, writes frame->outputs. It allocates nothing, infers
 *                    no shape, counts no reference and starts no thread, except through the frame's services.
 *
 * Before run() the host has checked dtypes, the op's constraints and shapes, and has allocated the outputs at the
 * shapes of the op's shape function, except for outputs named in dynamic_outputs: those the kernel allocates with
 * alloc_output() or sets with set_output().
 *
 * On a device with queues run() submits its work to frame->queue, as work of frame->timeline, and returns; the work
 * reads and writes device memory, which the host reuses in queue order. The host itself makes the queue wait and
 * signal. Arguments in host_memory_args lie in the host's memory and are there when run() is called; the others are
 * addresses of the device (TENON_VIEW_HOST_VISIBLE is off). Views end with run(): the work keeps addresses, not views.
 * Outputs named in dynamic_outputs are device memory; a kernel whose sizes depend on data must wait for that data
 * itself. String, resource, variant and reference arguments are the host's always.
 */
#ifndef TENON_KERNEL_H_
#define TENON_KERNEL_H_

#include "tenon/abi.h"
#include "tenon/graph.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_kernel tenon_kernel;             /* opaque; the plugin's state of one node */
typedef struct tenon_prepared tenon_prepared;         /* opaque; the plugin's, immutable */
typedef struct tenon_frame_context tenon_frame_context; /* opaque; the host's */
typedef struct tenon_create_context tenon_create_context; /* opaque; the host's */
typedef struct tenon_prepare_context tenon_prepare_context; /* opaque; the host's */
typedef struct tenon_work tenon_work;         /* opaque; the host's: a step, or work in the background, in which things
                                               * are done later */
typedef struct tenon_function tenon_function; /* opaque; the host's: a function of the graph's library with its
                                               * attributes bound; counted */

/* Traits of a kernel. */
#define TENON_KERNEL_ASYNC 1u         /* runs on the host and ends later: run_async is given */
#define TENON_KERNEL_STATEFUL 2u      /* created once per session and node, shared by all plans */
#define TENON_KERNEL_DETERMINISTIC 4u /* the same bits for the same inputs, whatever the threads */
#define TENON_KERNEL_EXPENSIVE 8u     /* worth a thread of its own */
#define TENON_KERNEL_CAPTURE_SAFE 16u /* run() gives its queue the same work every time (ext/draft/capture.h) and uses
                                       * no service */
#define TENON_KERNEL_VIEW 32u         /* output 0 is input 0's memory with the inferred shape; run is never called */
#define TENON_KERNEL_BLOCKING 64u     /* may wait for other steps; never run on a thread that others need */
#define TENON_KERNEL_PASSIVE 128u     /* on a device with queues: run() gives its queue no work and reads no data */
/* As TENON_KERNEL_CAPTURE_SAFE, for the same addresses, and it updates variables: the only services it uses are
 * variable_begin_update, without TENON_UPDATE_PRESERVE, and variable_end_update. The host may end the updates later
 * than it is told. */
#define TENON_KERNEL_CAPTURE_UPDATES 256u

/* Frozen value: attribute `attr` (of type `type`) must be one of dtypes. */
typedef struct tenon_type_constraint {
  tenon_span attr;
  const uint32_t* dtypes; /* [count] TENON_DT_* */
  uint64_t count;
} tenon_type_constraint;

/* Frozen value: output may use the memory of input, when that input has no other reader left and equal size. */
typedef struct tenon_in_place {
  int32_t input;
  int32_t output;
} tenon_in_place;

struct tenon_work_services;
struct tenon_tile; /* ext/draft/tile.h */

/* ---- Services of create() ---- */

typedef struct tenon_create_services {
  uint32_t struct_size;
  uint32_t must_understand;
  /* The handle of a named resource; lives as long as the session. container "" is the session's own.
   * type: who may use it ("variable", "queue", ...). step_local != 0: a fresh one in every step. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*resource_handle)(tenon_create_context* context, tenon_span container, tenon_span name,
                                   tenon_span type, uint32_t step_local, tenon_resource** out_handle);
  /* A seed for an op whose own seeds are 0: fixed by the session's seed and the node's name when the session has
   * one. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*random_seed)(tenon_create_context* context, uint64_t out_seed[2]);
  /* What the driver of the node's device offers under this id (tenon_device_driver.get_extension):
   * "tenon.native_handle/1", or a table of the vendor's own, so that a package may bring kernels for somebody else's
   * device. NULL when it offers none. Lives as long as the device, for the kernel's create(), prepare() and run(). */
  TENON_THREAD(any) TENON_OWN(static) const void* (*device_extension)(tenon_create_context* context, tenon_span id);
  /* A table that a loaded plugin brings for the type of the node's device under this capability id
   * ("tenon.collective/1"), and the instance that its functions get. NOT_FOUND says which there are. Both live as long
   * as the kernel. */
  TENON_THREAD(any) TENON_OWN(static)
  tenon_status* (*device_capability)(tenon_create_context* context, tenon_span id, const void** out_table,
                                     tenon_plugin_self** out_self);
  /* The function that the node's attribute `attr` names (element `index` of a list of functions), for
   * tenon_work_services.call. It is looked up in the graph's library now, and made ready when it is first called.
   * NOT_FOUND: no such attribute or function; UNIMPLEMENTED where nothing can call functions. function_release() gives
   * it back. */
  TENON_THREAD(any) TENON_OWN(give(out_function))
  tenon_status* (*function)(tenon_create_context* context, tenon_span attr, uint64_t index,
                            tenon_function** out_function);
  /* The table of works and functions, which lives as long as the host: a kernel gives its functions back with it. */
  const struct tenon_work_services* work_services;
} tenon_create_services;

typedef struct tenon_create_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_node_services* node_services;
  const tenon_node* node;
  const tenon_create_services* services;
  tenon_create_context* context;
  tenon_device* device; /* NULL for host kernels */
  tenon_plugin_self* self; /* of the kernel's plugin: what its load() made */
} tenon_create_args;

/* ---- prepare() ---- */

/* Precision policies. */
#define TENON_PRECISION_STRICT 0u        /* float32 is float32 */
#define TENON_PRECISION_ALLOW_TF32 1u
#define TENON_PRECISION_ALLOW_BFLOAT16 2u
/* operands may be rounded to float16, sums are float32; what exceeds 65504 overflows */
#define TENON_PRECISION_ALLOW_FLOAT16 3u

/* What prepare() may ask for while it tries what is fastest. */
typedef struct tenon_prepare_services {
  uint32_t struct_size;
  uint32_t must_understand;
  /* What an earlier prepare() kept under this key with cache_put(), for the same package, version of it and model of
   * device; also in another process where the runtime has a folder for it. A hint: it may be gone, and somebody may
   * have written it who is wrong. NOT_FOUND: nothing. The value lives until prepare() returns. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*cache_get)(tenon_prepare_context* context, tenon_span key, tenon_span* out_value);
  /* At most 64 KiB, of a key of at most 4 KiB. Copied. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*cache_put)(tenon_prepare_context* context, tenon_span key, tenon_span value);
  /* Memory of the device that the kernel will run on, uninitialised and 64-byte aligned, until prepare() returns: no
   * work may use it after that. Charged to the session: RESOURCE_EXHAUSTED is a reason to try less, not to fail. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*scratch)(tenon_prepare_context* context, uint64_t bytes, void** out_address);
  /* 1 when nobody waits for the answer any more; who tries long asks now and then. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*is_cancelled)(tenon_prepare_context* context);
} tenon_prepare_services;

typedef struct tenon_prepare_args {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Views with shapes; dl.data is NULL unless the value is constant in this plan. dl.ndim -1: shape unknown. */
  const tenon_tensor_view* const* inputs;  /* [input_count] */
  const tenon_tensor_view* const* outputs; /* [output_count], never with data */
  int32_t input_count;
  int32_t output_count;
  uint32_t precision; /* TENON_PRECISION_* */
  uint32_t threads;   /* that parallel_for may use; at least 1 */
  tenon_device* device; /* that it will run on */
  /* Filled by prepare(). */
  tenon_prepared* out_prepared;
  uint64_t out_workspace_bytes; /* 64-byte aligned, given to every run */
  tenon_plugin_self* self; /* of the kernel's plugin */
  const tenon_prepare_services* services; /* with `context`; both until prepare() returns */
  tenon_prepare_context* context;
} tenon_prepare_args;

/* ---- run() ---- */

struct tenon_frame;

/* begin and end of one share of a parallel_for. */
typedef TENON_THREAD(any) TENON_OWN(borrow) void (*tenon_range_function)(void* argument, int64_t begin, int64_t end);

typedef TENON_THREAD(callback) TENON_OWN(take(status)) void (*tenon_done_function)(void* argument,
                                                                                   tenon_status* status);

/* Flags of variable_begin_update. */
#define TENON_UPDATE_PRESERVE 1u   /* out_new begins with the old value (updates of some rows) */
#define TENON_UPDATE_LOCK 2u       /* use_locking: holds the variable's lock until variable_end_update */
#define TENON_UPDATE_INITIALIZE 4u /* the variable may be without a value, or of another shape (Assign) */
/* out_new may be memory of the frame's inputs that nobody else has and nobody reads afterwards: a value of the variable
 * that was read before. The kernel has read what it wants of an input's element when it writes the element at the same
 * place. */
#define TENON_UPDATE_OVER_INPUTS 8u
/* How an update ended. */
#define TENON_UPDATE_FAILED 0u    /* half-way; the old value stays if it is intact, else the variable reads as
                                   * DATA_LOSS */
#define TENON_UPDATE_COMMIT 1u    /* out_new is the value now */
#define TENON_UPDATE_UNTOUCHED 2u /* nothing was written: the old value stays */

/* ---- Work that comes back later ----
 *
 * A kernel starts no thread. What it must wait for (a moment, a descriptor, another function) it asks the host for,
 * through a tenon_work: that of its frame's step (tenon_frame_services.work), which ends when the kernel has run or
 * called done, or one in the background (background_begin), which lives between steps, in the hands of a resource's
 * object. Everything that is asked for comes back exactly once, as function(argument, status), on a thread of the
 * host's: with NULL when it is time, with CANCELLED when the step was cancelled, the session was closed or
 * background_end() was called, with DEADLINE_EXCEEDED when await_descriptor()'s time is over. It takes the status. What
 * the plugin took back with forget() does not come any more.
 *
 * A session bounds what it has under way: 65,536 things that are to come back, 256 threads that may wait. What is more
 * is RESOURCE_EXHAUSTED at once, and nothing was taken. */

/* How schedule() and call() run what they are given. */
/* it may wait, for a file, a lock, another step: it gets a thread that nobody else needs */
#define TENON_WORK_MAY_WAIT 1u

/* What await_descriptor() waits for. An error or a hang-up of the other side counts as both. */
#define TENON_WORK_READABLE 1u
#define TENON_WORK_WRITABLE 2u

/* Frozen value: what a function takes and gives; valid as long as the function. */
typedef struct tenon_function_signature {
  tenon_span name;
  const uint32_t* argument_dtypes; /* [argument_count] TENON_DT_* */
  const uint32_t* result_dtypes;   /* [result_count] */
  uint64_t argument_count;
  uint64_t result_count;
} tenon_function_signature;

typedef struct tenon_work_services {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Calls function(argument, status) after `after_ns` nanoseconds or more. flags: 0, or TENON_WORK_MAY_WAIT. out_token:
   * for forget(); may be NULL. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*schedule)(tenon_work* work, uint64_t after_ns, uint32_t flags, tenon_done_function function,
                            void* argument, uint64_t* out_token);
  /* Calls it when the descriptor is ready, or after timeout_ns (0: no such bound). events: TENON_WORK_READABLE,
   * WRITABLE or both. The descriptor stays open, and the plugin's, until then. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*await_descriptor)(tenon_work* work, int32_t descriptor, uint32_t events, uint64_t timeout_ns,
                                    tenon_done_function function, void* argument, uint64_t* out_token);
  /* 1: the function was not called and will not be. 0: it was, or is about to be. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*forget)(tenon_work* work, uint64_t token);
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*is_cancelled)(tenon_work* work);

  /* As tenon_frame_services.alloc_tensor, charged to the session. */
  TENON_THREAD(any) TENON_OWN(give(out_view->buffer))
  tenon_status* (*alloc_tensor)(tenon_work* work, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                tenon_tensor_view* out_view);

  /* Runs a function, as a step of its session with variables, devices and limits of that, on this thread. arguments:
   * [its argument_count], in host memory. out_results: [its result_count] views, each with a buffer that the caller
   * releases. Errors name the function's nodes. Functions that call functions so nest 32 deep at most. */
  TENON_THREAD(any) TENON_OWN(give(out_results))
  tenon_status* (*call)(tenon_work* work, tenon_function* function, const tenon_tensor_view* const* arguments,
                        uint64_t argument_count, tenon_tensor_view* out_results, uint64_t result_count);
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*function_signature)(const tenon_function* function, tenon_function_signature* out_info);
  TENON_THREAD(any) TENON_OWN(borrow) void (*function_retain)(tenon_function* function);
  TENON_THREAD(any) TENON_OWN(take(function)) void (*function_release)(tenon_function* function);

  /* Work of the session's that goes on when the step has ended. It ends with the session; nothing can be asked for in
   * it then, and whoever finds it so (is_cancelled) begins another from a step of the session that it serves. name: for
   * messages. */
  TENON_THREAD(step) TENON_OWN(give(out_work))
  tenon_status* (*background_begin)(struct tenon_frame* frame, tenon_span name, tenon_work** out_work);
  /* Cancels what is under way, waits until all has come back (except on a thread on which the work itself is being
   * called), and frees it. */
  TENON_THREAD(any) TENON_OWN(take(work)) void (*background_end)(tenon_work* work);

  /* A variant (tensor.h) that holds an object of the plugin's instead of elements, for what is neither bytes nor
   * tensors: a dataset with its functions. destroy(object) is called once, on any thread, when the last reference has
   * gone, which may be after the session; it may release other variants, however deeply they lie in one another. When
   * this fails nothing is taken. Such a value does not leave its process. type: of what kind the object is, for all
   * libraries that know how to use it, as of resource_object; metadata: for people. */
  TENON_THREAD(any) TENON_OWN(give(out_variant))
  tenon_status* (*variant_hold)(tenon_span type, tenon_span metadata, void* object, void (*destroy)(void* object),
                                tenon_variant** out_variant);
  /* The object, valid as long as the variant; NULL: it holds none, or one of another type. */
  TENON_THREAD(any) TENON_OWN(borrow) void* (*variant_held)(const tenon_variant* variant, tenon_span type);
  /* As in tenon_frame_services, for who puts a variant into a tensor of alloc_tensor(). */
  TENON_THREAD(any) TENON_OWN(borrow) void (*variant_retain)(tenon_variant* variant);

  /* As call(), with memory for results. places: [result_count], each NULL or a view of host memory of the caller's, of
   * elements of a fixed size. A result of that dtype and shape is made there, or copied: then out_results[i] is that
   * view, without a buffer. Any other result comes as from call(). The memory is nobody else's until the call returns,
   * and what was in it is lost, whatever the status. 64-byte aligned memory saves the copy. */
  TENON_THREAD(any) TENON_OWN(give(out_results))
  tenon_status* (*call_into)(tenon_work* work, tenon_function* function, const tenon_tensor_view* const* arguments,
                             uint64_t argument_count, const tenon_tensor_view* const* places,
                             tenon_tensor_view* out_results, uint64_t result_count);
} tenon_work_services;

typedef struct tenon_frame_services {
  uint32_t struct_size;
  uint32_t must_understand;

  /* Allocates output `index`, whose shape is known only now. extra_bytes: for strings, the bytes after the cells. The
   * view frame->outputs[index] is filled; its memory is uninitialised. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*alloc_output)(struct tenon_frame* frame, int32_t index, tenon_shape shape, uint64_t extra_bytes);
  /* Makes output `index` share the view's buffer, which must not be NULL. The shape is copied. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*set_output)(struct tenon_frame* frame, int32_t index, const tenon_tensor_view* view);
  /* Input `index` as a value that may be kept: copied unless it already lives in a buffer. Release its buffer. */
  TENON_THREAD(step) TENON_OWN(give(out_view->buffer))
  tenon_status* (*retain_input)(struct tenon_frame* frame, int32_t index, tenon_tensor_view* out_view);

  /* Calls function(argument, begin, end) over [0, total) in shares, on this and the host's helper threads; returns when
   * all are done. cost: rough nanoseconds of one unit, so that small work stays on this thread. */
  TENON_THREAD(step) TENON_OWN(borrow)
  void (*parallel_for)(struct tenon_frame* frame, int64_t total, double cost, tenon_range_function function,
                       void* argument);

  /* 1 when the step was cancelled or its deadline passed; long loops ask now and then. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*is_cancelled)(struct tenon_frame* frame);
  /* For asynchronous kernels: callback(argument, CANCELLED) at most once. 0 is "no token: already cancelled". */
  TENON_THREAD(any) TENON_OWN(borrow)
  uint64_t (*cancel_subscribe)(struct tenon_frame* frame, tenon_done_function callback, void* argument);
  /* Returns 1 when the callback will not run any more; 0 when it did or is about to finish. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*cancel_unsubscribe)(struct tenon_frame* frame, uint64_t token);

  /* ---- Resources. `handle` is a cell of a resource tensor, or what a reference input's data points to. ---- */

  /* The resource of input `index` (resource or reference). */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*input_resource)(struct tenon_frame* frame, int32_t index, tenon_resource** out_handle);
  /* The object of a resource; made by create(argument, &object) when absent (create NULL: NOT_FOUND), never gone while
   * a step that asked for it runs; destroy(object) ends it. type says of what kind it is, for all libraries that know
   * how to use it ("tenon.Queue"; yours: "Vendor.Thing/1", with another number when its layout changes): an object that
   * was made with another type is INVALID_ARGUMENT. Not empty. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*resource_object)(struct tenon_frame* frame, tenon_resource* handle, tenon_span type,
                                   tenon_status* (*create)(void* argument, void** out_object), void* argument,
                                   void (*destroy)(void* object), void** out_object);
  /* Removes the resource's object or the variable's value. NOT_FOUND when there is none. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*resource_destroy)(struct tenon_frame* frame, tenon_resource* handle);

  /* A variable's value: pinned until the kernel is done (set_output keeps it longer), never changed by writers of
   * resource variables meanwhile.
   * FAILED_PRECONDITION without a value; DATA_LOSS when its last write failed. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*variable_read)(struct tenon_frame* frame, tenon_resource* handle, tenon_tensor_view* out_view);
  /* 1 when it has a value. */
  TENON_THREAD(step) TENON_OWN(borrow)
  uint32_t (*variable_is_initialized)(struct tenon_frame* frame, tenon_resource* handle);
  /* Begins an update: out_old is the value (data NULL without one), out_new the memory to write, which may be the same
   * memory. With INITIALIZE dtype and shape say what the new value is; else they must equal the variable's, and a shape
   * of rank -1 stands for the variable's own. A reference variable is updated in place. A resource variable has one
   * update at a time: a second one waits, until the step is cancelled or 30 s have passed (ABORTED). Every successful
   * begin needs one end, from the same frame. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*variable_begin_update)(struct tenon_frame* frame, tenon_resource* handle, uint32_t flags,
                                         uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                         tenon_tensor_view* out_old, tenon_tensor_view* out_new);
  /* outcome: TENON_UPDATE_FAILED, COMMIT or UNTOUCHED. */
  TENON_THREAD(step) TENON_OWN(borrow)
  void (*variable_end_update)(struct tenon_frame* frame, tenon_resource* handle, uint32_t outcome);

  /* ---- The rest ---- */

  TENON_THREAD(any) TENON_OWN(borrow) void (*trace)(struct tenon_frame* frame, tenon_span name, uint64_t begin_ns,
                                                     uint64_t end_ns);
  /* Monotonic nanoseconds; the host's clock, which a simulator may stand in for. */
  TENON_THREAD(any) TENON_OWN(borrow) uint64_t (*now_ns)(struct tenon_frame* frame);
  /* A fresh resource at every call, which lives until the step's end (the stacks of nested loops). */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*step_resource)(struct tenon_frame* frame, tenon_span type, tenon_resource** out_handle);
  /* Number of the step, unlike that of every other step of its session. */
  TENON_THREAD(any) TENON_OWN(borrow) uint64_t (*step_id)(struct tenon_frame* frame);

  /* A tensor in a buffer of its own, uninitialised (variants: NULL cells), charged to the step's memory limit;
   * extra_bytes as for alloc_output. Release its buffer. */
  TENON_THREAD(step) TENON_OWN(give(out_view->buffer))
  tenon_status* (*alloc_tensor)(struct tenon_frame* frame, uint32_t dtype, tenon_shape shape, uint64_t extra_bytes,
                                tenon_tensor_view* out_view);

  /* ---- Variants (tensor.h). alloc_output() makes a variant tensor of NULL cells; a reference that the kernel puts
   * into a cell is the tensor's from then on. Only outputs named in dynamic_outputs may be variants. ---- */

  /* A new value. elements: [element_count], each in a buffer (retain_input), of which a reference is kept, or with
   * dtype TENON_DT_INVALID for an empty place; NULL: all places are empty. The step's memory limit holds for the
   * places. */
  TENON_THREAD(step) TENON_OWN(give(out_variant))
  tenon_status* (*variant_new)(struct tenon_frame* frame, tenon_span type, tenon_span metadata,
                               const tenon_tensor_view* elements, uint64_t element_count, tenon_variant** out_variant);
  /* What `base` is, with element_count elements (those beyond are left out, new places are empty) and, unless `element`
   * is NULL, with that tensor, which lives in a buffer, at `index`. metadata: of the result; data NULL: base's. */
  TENON_THREAD(step) TENON_OWN(give(out_variant))
  tenon_status* (*variant_derive)(struct tenon_frame* frame, const tenon_variant* base, tenon_span metadata,
                                  uint64_t element_count, uint64_t index, const tenon_tensor_view* element,
                                  tenon_variant** out_variant);
  TENON_THREAD(any) TENON_OWN(borrow) void (*variant_info)(const tenon_variant* variant, tenon_variant_info* out_info);
  /* Element `index`, valid as long as the variant; dtype TENON_DT_INVALID when the place is empty or there is none. */
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*variant_element)(const tenon_variant* variant, uint64_t index, tenon_tensor_view* out_element);
  TENON_THREAD(any) TENON_OWN(borrow) void (*variant_retain)(tenon_variant* variant);
  TENON_THREAD(any) TENON_OWN(take(variant)) void (*variant_release)(tenon_variant* variant);

  /* As tenon_create_services.device_extension, of the device that the kernel runs on. */
  TENON_THREAD(any) TENON_OWN(static) const void* (*device_extension)(struct tenon_frame* frame, tenon_span id);

  /* ---- Work that comes back later, and functions ---- */

  const tenon_work_services* work_services; /* never NULL, but in a host without this member */
  /* The work of the frame's step. It ends when the kernel has run, or has called done: what is to come back must have
   * come, or been forgotten, before. NULL without memory for it, and for a kernel that is neither asynchronous nor of a
   * node with state or functions. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_work* (*work)(struct tenon_frame* frame);
} tenon_frame_services;

/* Everything that one run needs, resolved. */
typedef struct tenon_frame {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_tensor_view* const* inputs; /* [input_count] */
  tenon_tensor_view* const* outputs;      /* [output_count] */
  int32_t input_count;
  int32_t output_count;
  void* workspace; /* workspace_bytes of the device, 64-byte aligned; contents are undefined at the start of each run */
  uint64_t workspace_bytes;
  tenon_device* device;
  tenon_queue* queue; /* of the device; NULL on synchronous devices */
  tenon_semaphore* timeline; /* that work belongs to; NULL on synchronous devices */
  tenon_span label;          /* the node's name */
  const tenon_frame_services* services;
  tenon_frame_context* context;
} tenon_frame;

/* ---- Before a kernel is made ---- */

/* What a kernel is asked about: a node, with its shapes where they are known. Views as prepare() gets them: dl.ndim -1
 * is an unknown shape, a dim of -1 an unknown dim, dl.data NULL unless the value is constant. */
typedef struct tenon_kernel_query {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_plugin_self* self; /* of the kernel's plugin */
  const tenon_node_services* node_services;
  const tenon_node* node;
  const tenon_tensor_view* const* inputs;  /* [input_count] */
  const tenon_tensor_view* const* outputs; /* [output_count] */
  int32_t input_count;
  int32_t output_count;
  uint32_t precision; /* TENON_PRECISION_* */
  uint32_t threads;   /* that parallel_for may use; at least 1 */
  tenon_device* device; /* that it would run on; NULL: the host's */
} tenon_kernel_query;

/* All outputs are dynamic. */
#define TENON_DYNAMIC_ALL UINT64_MAX

typedef struct tenon_kernel_registration {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span op;
  tenon_span device_type; /* empty: runs on the host, whatever the device (queues, files, tables) */
  tenon_span label;       /* matched with the node's attribute "_kernel"; empty for ordinary kernels */
  int32_t priority;       /* the highest that fits wins */
  uint32_t traits;        /* TENON_KERNEL_* */
  const tenon_type_constraint* constraints; /* [constraint_count] */
  uint64_t constraint_count;
  const tenon_span* host_memory_args; /* [host_memory_count] inputs and outputs that stay in host memory */
  uint64_t host_memory_count;
  const tenon_in_place* in_place; /* [in_place_count] */
  uint64_t in_place_count;
  uint64_t dynamic_outputs; /* bit k: output k is allocated by the kernel; bit 63 stands for all from 63 on */
  uint64_t retained_inputs; /* bit k: the kernel keeps input k */

  /* NULL: the kernel has no state; run gets kernel NULL. */
  TENON_THREAD(any) TENON_OWN(give(out_kernel))
  tenon_status* (*create)(const tenon_create_args* args, tenon_kernel** out_kernel);
  TENON_THREAD(any) TENON_OWN(take(kernel)) void (*destroy)(tenon_kernel* kernel);
  /* NULL: nothing to prepare; run gets prepared NULL. */
  TENON_THREAD(any) TENON_OWN(give(args->out_prepared))
  tenon_status* (*prepare)(tenon_kernel* kernel, tenon_prepare_args* args);
  TENON_THREAD(any) TENON_OWN(take(prepared)) void (*destroy_prepared)(tenon_prepared* prepared);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*run)(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  /* Instead of run, with TENON_KERNEL_ASYNC: done(argument, status) exactly once, from any thread; the
   * frame lives until then. An error returned means that done will not be called. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*run_async)(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame,
                             tenon_done_function done, void* argument);

  /* Whether the kernel takes the node: NULL, or UNIMPLEMENTED, whose text says why not ("NHWC only"); then the next
   * kernel by priority is asked. Another status is a failure. Asked when a plan is made, where shapes may be unknown,
   * which is no reason to refuse, and again once they are known; and when nodes are placed. Quick, and without effect.
   * NULL: it takes what its constraints allow. UNIMPLEMENTED from create() or prepare() means the same, but is not
   * known when nodes are placed. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*supports)(const tenon_kernel_query* query);
  /* Seconds that one run takes on query->device, with shapes that are known, for placing: goes before what the op's
   * cost function says, and after what was measured. 0: the kernel does not know, as when this is NULL. Quick, and
   * without effect. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*cost)(const tenon_kernel_query* query, double* out_seconds);
  /* How an element-wise kernel is computed a piece at a time (ext/draft/tile.h), so that the host may run several nodes
   * in one pass over memory. NULL: it is not. */
  const struct tenon_tile* tile;
} tenon_kernel_registration;

/* Capability "tenon.kernels/1". */
typedef struct tenon_kernel_package {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_kernel_registration* const* registrations; /* [count] */
  uint64_t count;
} tenon_kernel_package;

#ifdef __cplusplus
}
#endif
#endif /* TENON_KERNEL_H_ */
