/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.loop_compiler/1": a device without queues takes whole while loops. Not frozen until a real
 * user has passed.
 *
 * A loop is offered when its step's shapes are known, to the compilers of its device in the order of their priority,
 * whatever was claimed in it (compile.h): one whose nodes are all such as a compiler of that priority may claim, at
 * most 4,096 with those that only steer, without a loop or a conditional in it, with shapes that are known and stay.
 * The host has found out what it means: no node that only steers (Enter, Merge, Switch, NextIteration, Exit, LoopCond,
 * and identities) is among its nodes. UNIMPLEMENTED from all of them: the host runs it turn by turn, with the claims in
 * it.
 *
 * A loop may last for ever: run() asks now and then whether the step was given up (the frame's is_cancelled), and ends
 * with CANCELLED then. */
#ifndef TENON_EXT_DRAFT_COMPILE_LOOP_H_
#define TENON_EXT_DRAFT_COMPILE_LOOP_H_

#include "tenon/ext/draft/compile.h"
#include "tenon/ext/draft/layout_hash.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_LOOP_COMPILER "tenon.loop_compiler/1"

/* Frozen value: what a loop carries from turn to turn. All four have one dtype and one shape. */
typedef struct tenon_loop_variable {
  tenon_output initial; /* made outside: what it is in the first turn */
  tenon_output current; /* as nodes of the loop read it */
  tenon_output next;  /* what it is in the next turn: a node's of the loop, some variable's current, or made outside */
  tenon_output result;  /* what it is when the condition fails; node -1: nobody reads it */
} tenon_loop_variable;

/* while (condition) { body; every variable at once becomes its next } */
typedef struct tenon_compile_loop {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_loop_variable* variables; /* [variable_count] */
  uint64_t variable_count;
  tenon_output condition;        /* a bool: a node's of the first ones, a variable's current, or made outside */
  uint64_t condition_node_count; /* the first of the nodes, which compute the condition; the others run in turns
                                  * alone */
  /* What a node of the loop reads: the output of a node of the loop, a variable's current, or an edge from outside. The
   * graph's own edges lead to nodes that only steer. Of the compile arguments' context. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*source)(tenon_compile_context* context, int64_t node, int32_t input, tenon_output* out_source);
} tenon_compile_loop;

/* Capability "tenon.loop_compiler/1". */
typedef struct tenon_loop_compiler {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span device_type;
  /* beside those of kernels: a loop with a node whose best kernel has a higher one is not offered; and beside those of
   * other compilers of loops */
  int32_t priority;
  uint32_t reserved;
  /* Of args: `nodes` are those that compute the condition, then those of the body, each after those that it reads;
   * `inputs` are all variables' initial values, then what else comes from outside (each edge once); `outputs` are the
   * results that somebody reads, in the order of the variables. */
  TENON_THREAD(any) TENON_OWN(give(out_executable))
  tenon_status* (*compile)(tenon_plugin_self* self, tenon_compile_args* args, const tenon_compile_loop* loop,
                           tenon_executable** out_executable);
  TENON_THREAD(any) TENON_OWN(take(executable)) void (*destroy)(tenon_executable* executable);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*run)(tenon_executable* executable, tenon_frame* frame);
} tenon_loop_compiler;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_COMPILE_LOOP_H_ */
