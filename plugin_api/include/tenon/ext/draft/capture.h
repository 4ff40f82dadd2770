/* SPDX-License-Identifier: Apache-2.0 */
/* Draft device extension "tenon.graph_capture/1": work of a queue that is kept once and launched again and again, at
 * the cost of one submission. Found through tenon_device_driver.get_extension. Not frozen until a real user has passed.
 *
 * A capture is a queue that keeps the work that kernels give it. The host runs kernels with the trait
 * TENON_KERNEL_CAPTURE_SAFE, and executables of the device's compilers, whose frames name it as their queue and have no
 * timeline; nothing is computed. What was kept is launched on the queue that it was begun for, as work of the timeline
 * of each launch, with the addresses that the frames had. Prepared objects, executables and that memory stay as long as
 * the graph.
 *
 * A list is a queue too, for kernels with the trait TENON_KERNEL_CAPTURE_UPDATES: their host's half runs in every step,
 * and what it says of addresses decides whether a graph will do. A list notes what they give it; that is thrown away,
 * or given to a queue or a capture. */
#ifndef TENON_EXT_DRAFT_CAPTURE_H_
#define TENON_EXT_DRAFT_CAPTURE_H_

#include "tenon/abi.h"
#include "tenon/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXTENSION_GRAPH_CAPTURE "tenon.graph_capture/1" TENON_TEXT_GRAPH_CAPTURE

typedef struct tenon_captured_graph tenon_captured_graph; /* opaque, the driver's */

typedef struct tenon_graph_capture {
  uint32_t struct_size;
  uint32_t must_understand;
  /* What is kept will be launched on `queue`, which goes on meanwhile. */
  TENON_THREAD(any) TENON_OWN(give(out_capture))
  tenon_status* (*begin)(tenon_queue* queue, tenon_queue** out_capture);
  /* Ends the capture. A status: something in it could not be kept; there is no graph then. out_nodes: pieces of
   * work. */
  TENON_THREAD(any) TENON_OWN(take(capture))
  tenon_status* (*end)(tenon_queue* capture, tenon_captured_graph** out_graph, uint64_t* out_nodes);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*launch)(tenon_queue* queue, tenon_captured_graph* graph, const tenon_submission* submission);
  /* Launches that were submitted still come to their end. */
  TENON_THREAD(any) TENON_OWN(take(graph)) void (*destroy)(tenon_captured_graph* graph);
  /* A list beside `queue`, which queue_destroy destroys. NULL: kernels that update variables are not captured. */
  TENON_THREAD(any) TENON_OWN(give(out_list)) tenon_status* (*make_list)(tenon_queue* queue, tenon_queue** out_list);
  /* How many pieces of work it holds. */
  TENON_THREAD(any) TENON_OWN(borrow) uint64_t (*list_size)(tenon_queue* list);
  /* Gives `count` pieces from `first` on to a queue or a capture, in their order. timeline: that they belong to; NULL:
   * none. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*give)(tenon_queue* list, uint64_t first, uint64_t count, tenon_queue* queue,
                        tenon_semaphore* timeline);
  TENON_THREAD(any) TENON_OWN(borrow) void (*clear_list)(tenon_queue* list);
} tenon_graph_capture;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_CAPTURE_H_ */
