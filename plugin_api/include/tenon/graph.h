/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as plugins see them: attributes, one node, a read-only cursor over a graph, and a builder.
 *
 * All are tables of functions that take the context they came with. A node id is valid for the call in which it was
 * given. Nothing here reads protobuf: the GraphDef stays with the host. */
#ifndef TENON_GRAPH_H_
#define TENON_GRAPH_H_

#include "tenon/abi.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of attributes; a list has TENON_ATTR_LIST added. */
#define TENON_ATTR_NONE 0u
#define TENON_ATTR_STRING 1u   /* tenon_span */
#define TENON_ATTR_INT 2u      /* int64_t */
#define TENON_ATTR_FLOAT 3u    /* float */
#define TENON_ATTR_BOOL 4u     /* uint8_t */
#define TENON_ATTR_TYPE 5u     /* uint32_t, TENON_DT_* */
#define TENON_ATTR_SHAPE 6u    /* tenon_shape */
#define TENON_ATTR_TENSOR 7u   /* tenon_tensor_view */
#define TENON_ATTR_FUNCTION 8u /* tenon_span: the function's name in the graph's library */
#define TENON_ATTR_LIST 0x100u

/* Frozen value: an attribute's value. */
typedef struct tenon_attr_value {
  uint32_t kind; /* TENON_ATTR_*, perhaps with TENON_ATTR_LIST */
  uint32_t reserved;
  uint64_t count;   /* 1, or the list's length */
  const void* data; /* [count] elements of the kind's type */
} tenon_attr_value;

/* Frozen value: a named attribute. */
typedef struct tenon_attr {
  tenon_span name;
  tenon_attr_value value;
} tenon_attr;

/* Frozen value: one end of an edge: output `index` of node `node`. node -1: no edge. */
typedef struct tenon_output {
  int64_t node;
  int32_t index;
  uint32_t reserved;
} tenon_output;

typedef struct tenon_node tenon_node; /* opaque */

/* What ops do to elements, as their definitions say it ("Properties" in tenon/op.h); none: nothing is known. At most
 * one of the first six. */
#define TENON_PROPERTY_ELEMENTWISE (UINT64_C(1) << 0) /* an output's element is made of the elements at its place */
#define TENON_PROPERTY_MOVES (UINT64_C(1) << 1) /* an output's elements are elements of the inputs, or constants */
#define TENON_PROPERTY_VIEW (UINT64_C(1) << 2)        /* output 0 has the input's elements, in their order */
#define TENON_PROPERTY_PRODUCT (UINT64_C(1) << 3)     /* sums of products of elements of two inputs */
#define TENON_PROPERTY_REDUCES (UINT64_C(1) << 4)     /* one element for all along some axes */
#define TENON_PROPERTY_NORMALIZES (UINT64_C(1) << 5)  /* of the input's shape, by sums over parts of it */
#define TENON_PROPERTY_BROADCASTS (UINT64_C(1) << 6)  /* of ELEMENTWISE: the inputs' shapes broadcast to the outputs' */
#define TENON_PROPERTY_EXACT (UINT64_C(1) << 7)       /* rounds nothing: a maximum, a sign, a comparison */
#define TENON_PROPERTY_CURVE (UINT64_C(1) << 8)       /* of ELEMENTWISE: an exponential or the like */
#define TENON_PROPERTY_DRAWS (UINT64_C(1) << 9)       /* random numbers, of a state that no input holds */
#define TENON_PROPERTY_READS_STATE (UINT64_C(1) << 10) /* a variable's value, or what else a resource holds */
#define TENON_PROPERTY_UPDATES_STATE (UINT64_C(1) << 11)
#define TENON_PROPERTY_KEEPS_NAN (UINT64_C(1) << 12)       /* of ELEMENTWISE: of a NaN it makes NaN */
#define TENON_PROPERTY_KEEPS_ZERO_SIGN (UINT64_C(1) << 13) /* of ELEMENTWISE: of -0 it makes -0 */
#define TENON_PROPERTY_FITS_HALF (UINT64_C(1) << 14)       /* may be computed in bfloat16 or float16 */
#define TENON_PROPERTY_STEERS (UINT64_C(1) << 15) /* control flow: outputs are missing in some steps, or come more than
                                                   * once; follows from the traits */

typedef struct tenon_node_properties {
  uint32_t struct_size;
  uint32_t must_understand;
  uint64_t flags;    /* TENON_PROPERTY_* */
  /* Bit i: input i of the node is one whose elements the outputs' are made of; the others say how. Bit 63: all from
   * input 63 on. */
  uint64_t elements;
  /* Bit i: cut along dim 0 together with the other inputs that have a bit, it gives the outputs' rows, cut in the same
   * places. */
  uint64_t rows;
  /* Of REDUCES: the input that has the axes (int32 or int64), or else, -1, the attribute (int, list(int)); neither:
   * all of them are reduced. */
  int32_t axes_input;
  uint32_t reserved;
  tenon_span axes_attr;
  /* Of REDUCES: the bool attribute by which reduced dims stay as 1; empty: they go. */
  tenon_span keep_dims_attr;
  /* What an element of the output is ("computes" in tenon/op.h), as words (tenon/formula.h); empty: the op does not
   * say. */
  tenon_span formula;
} tenon_node_properties;

/* Questions about one node. Spans and pointers live as long as the call in which the node was given. */
typedef struct tenon_node_services {
  uint32_t struct_size;
  uint32_t must_understand;
  TENON_THREAD(any) TENON_OWN(borrow) tenon_span (*name)(const tenon_node* node);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_span (*op)(const tenon_node* node);
  /* Declared attributes (defaults filled in) and "_" ones. NOT_FOUND names the attribute and the node. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*attr)(const tenon_node* node, tenon_span name, tenon_attr_value* out_value);
  TENON_THREAD(any) TENON_OWN(borrow) int32_t (*input_count)(const tenon_node* node);
  TENON_THREAD(any) TENON_OWN(borrow) int32_t (*output_count)(const tenon_node* node);
  /* TENON_DT_*, with TENON_DT_REF for reference inputs; TENON_DT_INVALID when out of range. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*input_dtype)(const tenon_node* node, int32_t index);
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*output_dtype)(const tenon_node* node, int32_t index);
  /* Where the named argument of the op's definition begins, and how many tensors it holds. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input_range)(const tenon_node* node, tenon_span argument, int32_t* out_begin, int32_t* out_count);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*output_range)(const tenon_node* node, tenon_span argument, int32_t* out_begin, int32_t* out_count);
  /* The device that the node asks for ("" when none). */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_span (*device)(const tenon_node* node);
  /* What the node's op says of itself, of this node's inputs: fills what out_properties has room for (its struct_size).
   */
  TENON_THREAD(any) TENON_OWN(borrow) void (*properties)(const tenon_node* node, tenon_node_properties* out_properties);
} tenon_node_services;

typedef struct tenon_graph tenon_graph; /* opaque, immutable while the call lasts */

/* Read-only cursor. Nodes are numbered 0 .. node_count-1 in topological order (back edges of loops excepted). */
typedef struct tenon_graph_cursor {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_graph* graph;
  const tenon_node_services* node_services;
  TENON_THREAD(any) TENON_OWN(borrow) int64_t (*node_count)(const tenon_graph* graph);
  TENON_THREAD(any) TENON_OWN(borrow) const tenon_node* (*node)(const tenon_graph* graph, int64_t id);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*input)(const tenon_graph* graph, int64_t id, int32_t index, tenon_output* out_source);
  TENON_THREAD(any) TENON_OWN(borrow) int32_t (*control_input_count)(const tenon_graph* graph, int64_t id);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*control_input)(const tenon_graph* graph, int64_t id, int32_t index, int64_t* out_source);
  /* The shape of an output as far as it follows from the graph alone; rank -1, dims -1: unknown. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*output_shape)(const tenon_graph* graph, tenon_output output, tenon_shape* out_shape);
  /* The graph (or function, by name; "" is the graph) as serialized GraphDef; borrowed for the call. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*graph_def)(const tenon_graph* graph, tenon_span function, tenon_span* out_bytes);
  /* As output_shape, with names for unknown dims (tenon_shape), of this graph alone. An output that is fed has names of
   * its own. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*named_shape)(const tenon_graph* graph, tenon_output output, tenon_shape* out_shape);
  /* The sizes that an int32 or int64 scalar or vector output holds (tenon_shape_services.input_elements). */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*output_elements)(const tenon_graph* graph, tenon_output output, tenon_shape* out_elements);
} tenon_graph_cursor;

/* A node to add. Attributes that the inputs' types determine (T, N, type lists) may be left out. */
typedef struct tenon_node_spec {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span op;
  tenon_span name; /* a wish; made unique. Empty: the op's name below the current scope */
  const tenon_output* inputs; /* [input_count] */
  uint64_t input_count;
  const tenon_attr* attrs; /* [attr_count] */
  uint64_t attr_count;
  const int64_t* control_inputs; /* [control_input_count] */
  uint64_t control_input_count;
} tenon_node_spec;

typedef struct tenon_graph_builder_context tenon_graph_builder_context; /* opaque */

typedef struct tenon_graph_builder {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_graph_builder_context* context;
  /* Adds a node and gives its id. INVALID_ARGUMENT says which input or attribute does not fit the op. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*add_node)(tenon_graph_builder_context* context, const tenon_node_spec* spec, int64_t* out_node);
  /* Adds a constant (a node of role "constant"); the value is copied. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*add_constant)(tenon_graph_builder_context* context, const tenon_tensor_view* value,
                                tenon_output* out_output);
  TENON_THREAD(any) TENON_OWN(borrow)
  uint32_t (*output_dtype)(tenon_graph_builder_context* context, tenon_output output);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*output_shape)(tenon_graph_builder_context* context, tenon_output output, tenon_shape* out_shape);
  /* The output's value when it is already known and small (an axis); else out_value->dl.data is NULL. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*output_value)(tenon_graph_builder_context* context, tenon_output output,
                                tenon_tensor_view* out_value);
} tenon_graph_builder;

#ifdef __cplusplus
}
#endif
#endif /* TENON_GRAPH_H_ */
