/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.graph_pass/1": a pass over the graph of a step, once each of its nodes has a device, before
 * anything of it is planned.
 *
 * For what one node cannot say of itself (tenon_decompose_function does): nodes that mean something together, wherever
 * they stand. A pass names the ops that it is about, or what they say of themselves, gets the nodes of those ops, adds
 * other nodes, and puts their outputs in the nodes' place. What has its nodes in other processes goes there with them:
 * transfers, failures, time lines and cancellation are those of any node.
 *
 * A package may provide several. A pass says which others it runs after; what these leave open, the order of the
 * packages' ids says, and of one package its own. Each runs once for every step that is planned. A pass is given what
 * those before it have added, never what it adds itself; what it adds is planned near the node that it was begun for.
 */
#ifndef TENON_EXT_DRAFT_GRAPH_PASS_H_
#define TENON_EXT_DRAFT_GRAPH_PASS_H_

#include "tenon/abi.h"
#include "tenon/ext/draft/layout_hash.h"
#include "tenon/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_GRAPH_PASS "tenon.graph_pass/1"

/* For one call. Node ids are those of the builder. */
typedef struct tenon_graph_pass_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_graph_builder* builder;
  const tenon_node_services* node_services;
  /* Those of the pass's ops that the step will run, ascending. A node whose output is fed is not among them. */
  const int64_t* nodes; /* [node_count] */
  uint64_t node_count;
  /* The whole graph: its ids are the builder's, so that they are in no order, and there are more as nodes are added. A
   * node's device is the whole name of the one that it will run on; a node is valid until the call adds or replaces
   * one. */
  const tenon_graph_cursor* cursor;
  /* Nodes that are added from here on have names below that of node `id`, wait for what it waits for, and run on
   * `device`, a whole name. id -1: they have names of their own, and wait for nothing but their inputs. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*begin)(const struct tenon_graph_pass_args* args, int64_t id, tenon_span device);
  /* Who reads output i of the node gets outputs[i] [count], which is of the same type; the node itself is not run.
   * INVALID_ARGUMENT says what does not fit. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*replace)(const struct tenon_graph_pass_args* args, int64_t id, const tenon_output* outputs,
                           uint64_t count);
  /* The step runs the node, also when nobody reads it. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*add_target)(const struct tenon_graph_pass_args* args, int64_t id);
  void* host; /* the host's own */
  /* What the session was asked for: TENON_PRECISION_*, whether compilers get what they claim (0: every kernel runs by
   * itself), and the text of its calibration; empty: none. */
  uint32_t precision;
  uint32_t compiles;
  tenon_span calibration;
  /* Says of the node what became of it and why, for the explanation of the step. A pass of a reduced precision begins
   * the note of a node that computes in it with "in " ("in bfloat16", "in 8-bit integers: ..."), and that of a product
   * which does not with "stays in float", and after a colon the reason: who counts them (`tenon run --accuracy`) goes
   * by that. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*explain)(const struct tenon_graph_pass_args* args, int64_t id, tenon_span text);
  /* Adds a node of node `id`'s op, of other inputs [input_count: as many as it has]: declared attributes that inputs'
   * types determine follow these, attrs [attr_count] are as given, and the others as the node has them; so is the
   * version of the op. Name, waits and device are those of begin. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*add_like)(const struct tenon_graph_pass_args* args, int64_t id, const tenon_output* inputs,
                            uint64_t input_count, const tenon_attr* attrs, uint64_t attr_count, int64_t* out_node);
  /* What add_like would add if its inputs were of those types [input_count] and it stood on `device`, a whole name: 1
   * and the types of its outputs [as many as node `id` has], or 0: its op does not take them, or no kernel there. */
  TENON_THREAD(step) TENON_OWN(borrow)
  int32_t (*runs_like)(const struct tenon_graph_pass_args* args, int64_t id, tenon_span device,
                       const uint32_t* input_dtypes, uint64_t input_count, const tenon_attr* attrs,
                       uint64_t attr_count, uint32_t* out_output_dtypes);
  /* 1: the step runs node `id`, of whatever op, and none of its outputs is fed: what its op says holds for them. */
  TENON_THREAD(step) TENON_OWN(borrow)
  int32_t (*runs)(const struct tenon_graph_pass_args* args, int64_t id);
} tenon_graph_pass_args;

/* Capability "tenon.graph_pass/1". */
typedef struct tenon_graph_pass {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span name;            /* for messages: "collectives between tasks" */
  const tenon_span* ops;      /* [op_count] it is called for graphs that have a node of one of them */
  uint64_t op_count;
  /* A failure is that of the step's planning. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*run)(tenon_plugin_self* self, const tenon_graph_pass_args* args);
  /* 0: it is called in every session. Else in those alone whose precision is this one. From TENON_PRECISION_INT8 on no
   * kernel honours it by itself: a session of a precision that no pass is for is refused. */
  uint32_t precision;
  uint32_t reserved;
  /* Nodes whose ops have one of these properties (TENON_PROPERTY_*) are among its nodes too. It is called for graphs
   * that have a node of `ops`; where that is empty, for graphs that have one of these. */
  uint64_t properties;
  /* Names of passes, with commas, that run before it where they are loaded; empty: none. */
  tenon_span after;
} tenon_graph_pass;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_GRAPH_PASS_H_ */
