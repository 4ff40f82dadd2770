/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.placer/1": another way to choose a device for each node.
 *
 * The host finds which devices can run a node, what that costs, and which nodes must stay together; a placer chooses.
 * The host checks the answer: one feasible device for every group. */
#ifndef TENON_EXT_DRAFT_PLACE_H_
#define TENON_EXT_DRAFT_PLACE_H_

#include "tenon/abi.h"
#include "tenon/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_PLACER "tenon.placer/1"

/* Frozen value: a device to choose. */
typedef struct tenon_place_device {
  tenon_span name; /* "/job:localhost/replica:0/task:0/device:CPU:0" */
  tenon_span type;
  double memory_bytes; /* for values; 0: no limit */
} tenon_place_device;

/* Frozen value: data from output `index` of node `from` to node `to`; index -1: no data, order alone. */
typedef struct tenon_place_edge {
  int64_t from;
  int64_t to;
  double bytes;
  int32_t index;
  uint32_t reserved;
} tenon_place_edge;

typedef struct tenon_place_args {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_graph_cursor* cursor;
  const tenon_place_device* devices; /* [device_count] */
  uint64_t device_count;
  uint64_t node_count;
  uint64_t group_count;
  const int64_t* groups;         /* [node_count] nodes of one number go to one device */
  const double* seconds;         /* [node_count * device_count] of a node on a device; negative: not feasible */
  const double* memory_bytes;    /* [node_count] that a node's values and state take */
  const tenon_place_edge* edges; /* [edge_count], by `to`; back edges of loops are left out */
  uint64_t edge_count;
  const double* latency;          /* [device_count * device_count] seconds of a transfer from row to column */
  const double* bytes_per_second; /* [device_count * device_count] */
  int32_t* out_devices;           /* [group_count], to fill in */
} tenon_place_args;

/* Capability "tenon.placer/1". Chosen by the package's id. */
typedef struct tenon_placer {
  uint32_t struct_size;
  uint32_t must_understand;
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*place)(tenon_plugin_self* self, const tenon_place_args* args);
} tenon_placer;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_PLACE_H_ */
