/* SPDX-License-Identifier: Apache-2.0 */
/* Ops: what a node means. Signature, traits, roles, constraints, shape function, gradient, cost, decomposition.
 *
 * The signature language is TensorFlow's, as text that the host parses when the package is loaded:
 *   inputs, outputs   "x: T, values: N * T, ref: Ref(T), indices: int32, rest: Tlist"
 *   attrs             "T: {float, double}; N: int >= 1; axis: int = 0; format: {'NHWC', 'NCHW'} = 'NHWC';
 *                      strides: list(int); shape: shape = unknown; value: tensor; f: func"
 *                     types: string int float bool type shape tensor func list(...); type groups: numbertype,
 *                     realnumbertype, quantizedtype, or {names}. Defaults of lists: [1, 2]; of types: float; of
 *                     tensors: uint8 [1, 2].
 * Names: TensorFlow's ops have plain ones. A package of anybody else's writes "Vendor>Op", so that no two vendors'
 * meet. Constraints are checked by the host at the earliest moment, so that no kernel repeats them:
 *   "rank(x) >= 2; dim(bias, 0) == dim(value, -1); rank(axis) <= 1; value(axis) >= -rank(x); numel(y) == 1"
 *   terms: integers, an int attribute's name, rank(x), dim(x, k), numel(x), value(x) (holds for every element of a
 *   small host-memory input), joined by + - *; compared by == != < <= > >=. A term of unknown value defers the check.
 *   "element(indices) < dim(params, 0)" is listed for tests; the kernel checks it. "path(x)": x's strings name files
 *   (see TENON_OP_IO).
 * Properties say what an op does to elements. Passes and compilers go by them and by no op's name, so that an op of
 * anybody's gets what theirs gets; an op that says nothing is left as it is. Terms, joined by commas; inputs are named
 * as in `inputs`, a list for all of it:
 *   elementwise, elementwise(x, y)
 *                 each element of each output is a function of the elements of x and y at its place, whose shape is the
 *                 outputs', and of the other inputs as wholes; without names: of all inputs
 *   broadcasts    beside it: the shapes of x and y broadcast to the outputs', whatever the attributes say
 *   moves(x, y)   each element of each output is one of an element of x or y, or a constant; the other inputs say where
 *   view(x)       output 0 has x's elements in their order, perhaps in another shape
 *   product(x, y) each element is a sum of products of elements of x with elements of y; product(x): of a list's two
 *   reduces(x), reduces(x, axes), reduces(x, axes, keep_dims)
 *                 one element for all of x along the axes of an input or an attribute; a bool attribute keeps their
 *                 dims as 1
 *   normalizes(x), normalizes(x, y)
 *                 of x's shape: elements of x and y by sums over parts of them
 *   rows(x, y)    cut along dim 0, all at the same places, x and y give the outputs' rows, cut there
 *   exact         rounds nothing: a maximum, a sign, a comparison. What moves and views is exact without it
 *   computes(f)   of an op with one output and without state or effects, whose element f is (tenon/formula.h), wherever
 *                 the inputs' shapes broadcast to its shape; beside elementwise without broadcasts, where those that it
 *                 names are of its shape and others of it or of no dims. Within f is rounded as the type allows
 *   curve         beside elementwise: an exponential or the like, whose time is not memory's
 *   fits_half     computed in bfloat16 or float16 it loses no more than by its inputs and outputs being stored so: a
 *                 sum, a hyperbolic tangent; no exponential, no sum of many. Steps of these precisions may compute it
 *                 so, where a device has a kernel; of normalizes the inputs that it does not name stay in float32
 *   draws         random numbers, of a state that no input holds
 *   reads_state, updates_state
 *                 a variable's value, or what else a resource holds (TENON_OP_WRITES_STATE says the second, too)
 *   keeps_nan, keeps_zero_sign
 *                 of elementwise: of a NaN it makes NaN, of -0 it makes -0
 * At most one of the first six kinds. TENON_PROPERTY_* (tenon/graph.h) are what the host makes of them for a node.
 * A property that a kernel does not keep is an error of the definition: what relies on it computes something else.
 */
#ifndef TENON_OP_H_
#define TENON_OP_H_

#include "tenon/abi.h"
#include "tenon/graph.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Traits: what the engine must know of an op. */
#define TENON_OP_STATEFUL (UINT64_C(1) << 0)     /* never merged, folded or pruned from a function body */
#define TENON_OP_COMMUTATIVE (UINT64_C(1) << 1)
#define TENON_OP_AGGREGATE (UINT64_C(1) << 2)
#define TENON_OP_UNINITIALIZED (UINT64_C(1) << 3) /* takes a reference to a variable without a value */
#define TENON_OP_EXPENSIVE (UINT64_C(1) << 4)
#define TENON_OP_SWITCH (UINT64_C(1) << 5)         /* (data, bool) -> (false side, true side) */
#define TENON_OP_MERGE (UINT64_C(1) << 6)          /* N * data -> (data, int32 index) */
#define TENON_OP_ENTER (UINT64_C(1) << 7)          /* attrs frame_name, is_constant, parallel_iterations */
#define TENON_OP_EXIT (UINT64_C(1) << 8)
#define TENON_OP_NEXT_ITERATION (UINT64_C(1) << 9)
#define TENON_OP_LOOP_CONDITION (UINT64_C(1) << 10)
#define TENON_OP_CONTROL_TRIGGER (UINT64_C(1) << 11) /* never dead */
#define TENON_OP_SEND (UINT64_C(1) << 12)
#define TENON_OP_RECV (UINT64_C(1) << 13)
#define TENON_OP_FEED (UINT64_C(1) << 14)     /* a value that the caller must feed (Placeholder) */
#define TENON_OP_CALL (UINT64_C(1) << 15)     /* attr f: inputs are the function's arguments; inlined by the host */
#define TENON_OP_BRANCH (UINT64_C(1) << 16)   /* attrs then_branch, else_branch, or branches */
#define TENON_OP_WHILE (UINT64_C(1) << 17)    /* attrs cond, body */
#define TENON_OP_IDENTITY (UINT64_C(1) << 18) /* outputs equal inputs: forwarded, no kernel needed */
#define TENON_OP_NO_GRADIENT (UINT64_C(1) << 19) /* a path through it carries no gradient (not an error) */
#define TENON_OP_ARGUMENT (UINT64_C(1) << 20)    /* attr index: a function's argument */
#define TENON_OP_RESULT (UINT64_C(1) << 21)      /* attr index: a function's result */
#define TENON_OP_NO_FOLD (UINT64_C(1) << 22)     /* never evaluated before the step (PlaceholderWithDefault) */
#define TENON_OP_CONSTANT (UINT64_C(1) << 23)    /* no input; attr value is the output */
#define TENON_OP_NO_OP (UINT64_C(1) << 24)       /* does nothing; exists for its control edges */
#define TENON_OP_WRITES_STATE (UINT64_C(1) << 25) /* writes variables; ordered late among what is ready */
#define TENON_OP_IO (UINT64_C(1) << 26)           /* files (which: "path(x)" of its constraints), network or clock */
#define TENON_OP_METADATA (UINT64_C(1) << 27)     /* looks at its inputs' shapes, never at their elements */
#define TENON_OP_GRADIENT (UINT64_C(1) << 28)     /* attr f: inputs are f's arguments, then gradients of its results;
                                                   * outputs: of its arguments */
#define TENON_OP_REMOTE (UINT64_C(1) << 29)       /* of a CALL: input 0, a constant, names the device; f's arguments
                                                   * follow it */

/* ---- Shape functions ---- */
typedef struct tenon_shape_context tenon_shape_context; /* opaque */

typedef struct tenon_shape_services {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_node_services* node_services;
  TENON_THREAD(any) TENON_OWN(borrow) const tenon_node* (*node)(tenon_shape_context* context);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_shape (*input_shape)(tenon_shape_context* context, int32_t index);
  /* The input's value when it is already known and small; else out_value->dl.data is NULL. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input_value)(tenon_shape_context* context, int32_t index, tenon_tensor_view* out_value);
  /* The input's value read as a shape (a vector of int32 or int64), perhaps partly known: -1 where it is not. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input_value_as_shape)(tenon_shape_context* context, int32_t index, tenon_shape* out_shape);
  /* Copies the dims. Outputs that are never set have unknown rank. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*set_output_shape)(tenon_shape_context* context, int32_t index, tenon_shape shape);
  /* Says the output's value, when the shapes alone determine it (Shape, Rank, Size, BroadcastGradientArgs). Copied. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*set_output_value)(tenon_shape_context* context, int32_t index, const tenon_tensor_view* value);
  /* Shape and dtype of what a resource or reference input refers to; dtype 0 when unknown. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input_handle)(tenon_shape_context* context, int32_t index, tenon_shape* out_shape,
                                uint32_t* out_dtype);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*set_output_handle)(tenon_shape_context* context, int32_t index, tenon_shape shape, uint32_t dtype);
  /* The sizes that an int32 or int64 scalar or vector input holds, as far as they are known before the step: one dim an
   * element, -1 where nothing or no size is known of it; rank -1: nothing is known, or it has more than 32. For
   * set_output_elements: of a shape that hangs on them input_value_as_shape says more. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input_elements)(tenon_shape_context* context, int32_t index, tenon_shape* out_elements);
  /* The same of an output: for ops that compute sizes (Shape, Pack). Copied; what set_output_value says goes before. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*set_output_elements)(tenon_shape_context* context, int32_t index, tenon_shape elements);
  /* Of dims, names among them: the sum, the product, the quotient where it is whole whatever the names stand for and
   * has none of b's left. -1: of one of them nothing is known, or no size is the result. */
  TENON_THREAD(any) TENON_OWN(borrow) int64_t (*dim_sum)(tenon_shape_context* context, int64_t a, int64_t b);
  TENON_THREAD(any) TENON_OWN(borrow) int64_t (*dim_product)(tenon_shape_context* context, int64_t a, int64_t b);
  TENON_THREAD(any) TENON_OWN(borrow) int64_t (*dim_quotient)(tenon_shape_context* context, int64_t a, int64_t b);
} tenon_shape_services;

/* self: the instance of the plugin that brought the op (what its load() made), here and in all functions of an op. */
typedef TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* (*tenon_shape_function)(tenon_plugin_self* self, const tenon_shape_services* services,
                                      tenon_shape_context* context);

/* ---- Gradients ---- */

#define TENON_GRADIENT_NONE 0u  /* no gradient flows here */
#define TENON_GRADIENT_ZERO 1u  /* known to be zero */
#define TENON_GRADIENT_DENSE 2u
#define TENON_GRADIENT_SLICES 3u /* indexed slices: rows `indices` of a tensor of shape `dense_shape` get `values` */
#define TENON_GRADIENT_NOT_DIFFERENTIABLE 4u /* for dx: asking for it is an error that names the op */

/* Frozen value: an incoming (dy) or outgoing (dx) gradient. */
typedef struct tenon_gradient {
  uint32_t kind; /* TENON_GRADIENT_* */
  uint32_t reserved;
  tenon_output dense;       /* DENSE: the gradient; SLICES: its values */
  tenon_output indices;     /* SLICES: int32 or int64 vector */
  tenon_output dense_shape; /* SLICES: vector, the shape of the whole */
} tenon_gradient;

/* What a gradient function gets. dy[i] belongs to output i; the function fills dx[j] for input j (NONE on entry).
 * The host sums all paths, writes zeros for outputs that do not matter where dy is asked for dense, and differentiates
 * loops, branches and calls itself. New nodes go through the builder, so that higher orders compose. */
typedef struct tenon_gradient_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_graph_builder* builder;
  const tenon_node_services* node_services;
  const tenon_node* node;
  const tenon_output* inputs;  /* [input_count] the node's inputs as edges */
  const tenon_output* outputs; /* [output_count] its outputs */
  const tenon_gradient* dy;    /* [output_count] */
  tenon_gradient* dx;          /* [input_count] */
  int32_t input_count;
  int32_t output_count;
  /* dy[index] as a dense tensor: adds zeros or densifies slices where need be. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*dense_dy)(const struct tenon_gradient_args* args, int32_t index, tenon_output* out_output);
  void* host; /* the host's own */
  tenon_span scope; /* the new nodes' names begin with it; no other gradients of the graph have it */
  tenon_plugin_self* self; /* of the plugin that brought the gradient */
} tenon_gradient_args;

typedef TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*tenon_gradient_function)(const tenon_gradient_args* args);

/* ---- Cost ---- */

typedef struct tenon_cost {
  uint32_t struct_size;
  uint32_t must_understand;
  double flops;         /* arithmetic operations */
  double bytes_read;    /* from memory */
  double bytes_written; /* to memory */
} tenon_cost;

/* Input shapes are fully known; shapes[i].rank -1 for inputs whose shape does not matter. */
typedef TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* (*tenon_cost_function)(tenon_plugin_self* self, const tenon_node_services* services,
                                     const tenon_node* node, const tenon_shape* input_shapes,
                                     const tenon_shape* output_shapes, tenon_cost* out_cost);

/* ---- Decomposition ---- */

/* The nodes that compute the same as `node`, of inputs [input_count]; out_outputs [output_count] are theirs. */
typedef TENON_THREAD(any) TENON_OWN(borrow)
tenon_status* (*tenon_decompose_function)(tenon_plugin_self* self, const tenon_graph_builder* builder,
                                          const tenon_node_services* services, const tenon_node* node,
                                          const tenon_output* inputs, tenon_output* out_outputs);

/* ---- Definition ---- */

typedef struct tenon_op_definition {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;
  tenon_span inputs;      /* signature language, above */
  tenon_span outputs;
  tenon_span attrs;
  tenon_span constraints; /* may be empty */
  /* Comma-separated roles that the op plays for the engine, such as "constant", "sum", "switch";
   * plugin_api/docs/roles.md lists them with the signature of each. */
  tenon_span roles;
  tenon_span doc;
  uint64_t traits; /* TENON_OP_* */
  tenon_shape_function shape;       /* NULL: outputs are unknown */
  tenon_gradient_function gradient; /* NULL: missing, unless TENON_OP_NO_GRADIENT */
  tenon_cost_function cost;         /* NULL: bytes of inputs and outputs */
  int32_t deprecated_at;            /* GraphDef producer version from which the op is an error; 0: not deprecated */
  /* The op's own version, from 1 on; 0: it has none. New nodes get it as the attribute "_op_version"; a node of a later
   * version than the definition's is an error, one of an earlier version runs, and functions of the op may look at the
   * attribute. */
  int32_t version;
  tenon_span deprecation; /* what to use instead */
  /* Other ops that compute the same, built instead of running a kernel where none fits; NULL: none. */
  tenon_decompose_function decompose;
  tenon_span properties; /* above; may be empty */
} tenon_op_definition;

/* A gradient for an op that another package defines, without one: the op's own goes before it. */
typedef struct tenon_gradient_registration {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span op;
  tenon_gradient_function gradient;
} tenon_gradient_registration;

/* Capability "tenon.gradients/1". */
typedef struct tenon_gradient_package {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_gradient_registration* const* registrations; /* [count] */
  uint64_t count;
} tenon_gradient_package;

/* Of a package: its shape functions know names of dims (tenon_shape). They take any negative dim for an unknown one,
 * copy it where it goes, compute with it by dim_sum and its like alone, and make none of their own. */
#define TENON_OPS_NAMED_DIMS (UINT64_C(1) << 0)

/* Capability "tenon.ops/1". */
typedef struct tenon_op_package {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_op_definition* const* definitions; /* [count] */
  uint64_t count;
  uint64_t flags; /* TENON_OPS_*; 0: none */
} tenon_op_package;

#ifdef __cplusplus
}
#endif
#endif /* TENON_OP_H_ */
