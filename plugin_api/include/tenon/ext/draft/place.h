/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.placer/1": another way to choose a device for each node.
 *
 * The host finds which devices can run a node, what that costs, and which nodes must stay together; it simulates the
 * step and makes a first choice. A placer chooses again. The host checks the answer: a feasible device for every group,
 * and memory that suffices. A placer may search blindly: evaluate() says how long the step would take. */
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

/* Frozen value: data from output `index` of node `from` to node `to`; index -1: no data, order alone. from -1: a fed
 * value, from the host's device. to -1: a fetched one, to the host's device. */
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
  const tenon_node_services* node_services;
  const tenon_node* const* nodes; /* [node_count] in an order in which nodes come after their inputs */
  uint64_t node_count;
  const tenon_place_device* devices; /* [device_count] */
  uint64_t device_count;
  int64_t host_device; /* the device whose memory is the host's; -1: none */
  uint64_t group_count;
  const int64_t* groups;         /* [node_count] nodes of one number go to one device */
  const double* seconds;  /* [node_count * device_count] of a node on a device; negative: its group cannot go there */
  const double* memory_bytes;    /* [node_count] that a node's outputs and state take */
  const tenon_place_edge* edges; /* [edge_count], by `to`, fetched ones last; back edges of loops are left out */
  uint64_t edge_count;
  const double* latency;          /* [device_count * device_count] seconds of a transfer from row to column */
  const double* bytes_per_second; /* [device_count * device_count]; 0: bytes take no time */
  int32_t* out_devices;           /* [group_count] the host's choice on entry, the placer's when it returns */
  /* The seconds of a step with devices [group_count]; infinite when memory does not suffice. INVALID_ARGUMENT for a
   * device where a group cannot go. */
  TENON_THREAD(step) TENON_OWN(borrow)
  tenon_status* (*evaluate)(const struct tenon_place_args* args, const int32_t* devices, double* out_seconds);
  void* host; /* the host's own */
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
