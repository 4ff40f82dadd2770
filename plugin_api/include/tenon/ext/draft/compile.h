/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.compiler/1": a device takes whole subgraphs. Not frozen until a real user has passed.
 *
 * The compiler reads the graph through the cursor, claims sets of nodes, and says for each node that it refuses why.
 * The host checks that each claim is convex, and that claims do not depend on each other in a circle. compile() is
 * called when shapes are known and gives an executable, which is run like a kernel of the claim's device: one call a
 * step, however many nodes it stands for. A device without queues is the host's: its executables run on the step's
 * thread and may use the frame's parallel_for.
 *
 * A device may have several compilers: the one of the highest priority is asked first, the others for what it left.
 * What compile() of a device without queues refuses runs piece by piece where its kernels can (tile.h), else node by
 * node.
 *
 * Inputs that the claimed nodes' kernels take in the host's memory (host_memory_args) lie there in the executable's
 * frame too; an edge that is taken in both memories is two inputs. The executable and the workspace stay until the work
 * of a run is done. An executable may not change its inputs, but for one that lies where an output lies: where it says
 * that it can take that (out_in_place), and nobody reads the input afterwards, the host may do so, and need not. */
#ifndef TENON_EXT_DRAFT_COMPILE_H_
#define TENON_EXT_DRAFT_COMPILE_H_

#include "tenon/abi.h"
#include "tenon/graph.h"
#include "tenon/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_executable tenon_executable;       /* opaque, the compiler's */
typedef struct tenon_claim_context tenon_claim_context; /* opaque, the host's */
typedef struct tenon_compile_context tenon_compile_context; /* opaque, the host's */

/* Why a node was refused. */
#define TENON_REFUSE_OP 1u
#define TENON_REFUSE_DTYPE 2u
#define TENON_REFUSE_SHAPE 3u
#define TENON_REFUSE_COST 4u
#define TENON_REFUSE_OTHER 5u

typedef struct tenon_claim_sink {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_claim_context* context;
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*claim)(tenon_claim_context* context, const int64_t* nodes, uint64_t node_count);
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*refuse)(tenon_claim_context* context, int64_t node, uint32_t reason, tenon_span text);
} tenon_claim_sink;

typedef struct tenon_compile_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_graph_cursor* cursor; /* the whole graph */
  const int64_t* nodes;             /* [node_count] one claim */
  uint64_t node_count;
  const tenon_output* inputs; /* [input_count] edges that enter the claim, in the order of the frame's inputs */
  uint64_t input_count;
  const tenon_output* outputs; /* [output_count] edges that leave it */
  uint64_t output_count;
  tenon_device* device;
  uint32_t precision; /* TENON_PRECISION_* */
  uint32_t threads;   /* that parallel_for may use; at least 1 */
  tenon_compile_context* context;
  /* Shape, dtype and size of any edge of a claimed node; dl.data is NULL unless the value is constant in this plan
   * (host memory). Valid until compile() returns. UNIMPLEMENTED from compile(): the nodes run one by one. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*edge)(tenon_compile_context* context, tenon_output output, const tenon_tensor_view** out_view);
  /* Filled by compile(). */
  uint64_t out_workspace_bytes; /* of the device, given to every run */
  const tenon_in_place* out_in_place; /* [out_in_place_count] inputs and outputs of the frame; live as long as the
                                       * executable */
  uint64_t out_in_place_count;
} tenon_compile_args;

typedef struct tenon_compiler {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span device_type;
  /* beside those of kernels: nodes whose best kernel has a higher one are not offered; and beside those of other
   * compilers */
  int32_t priority;
  uint32_t reserved;
  /* nodes: those placed on the device that it may claim. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*claim)(tenon_plugin_self* self, const tenon_graph_cursor* cursor, const int64_t* nodes,
                         uint64_t node_count, tenon_device* device, const tenon_claim_sink* sink);
  TENON_THREAD(any) TENON_OWN(give(out_executable))
  tenon_status* (*compile)(tenon_plugin_self* self, tenon_compile_args* args, tenon_executable** out_executable);
  TENON_THREAD(any) TENON_OWN(take(executable)) void (*destroy)(tenon_executable* executable);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*run)(tenon_executable* executable, tenon_frame* frame);
} tenon_compiler;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_COMPILE_H_ */
