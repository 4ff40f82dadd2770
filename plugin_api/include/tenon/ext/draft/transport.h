/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.transport/1": moves bytes between processes. Not frozen until a real user has passed.
 *
 * Two planes. Control: unary and streaming byte messages with deadline, metadata and cancellation. Data: registered
 * buffers sent and received by rendezvous key, with scatter-gather spans and a completion, without another copy. A key is
 * opaque, at most 64 bytes. The protocol (framing, meaning) belongs to the host; a transport moves bytes. Every call
 * that may wait takes a deadline in nanoseconds of the host's monotonic clock. */
#ifndef TENON_EXT_DRAFT_TRANSPORT_H_
#define TENON_EXT_DRAFT_TRANSPORT_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_TRANSPORT_MAX_KEY 64

typedef struct tenon_endpoint tenon_endpoint; /* opaque: listens, accepts, calls */
typedef struct tenon_peer tenon_peer;         /* opaque: the other side of a connection */
typedef struct tenon_memory_registration tenon_memory_registration; /* opaque */

/* Frozen value: a piece of writable memory. */
typedef struct tenon_bytes {
  void* data;
  uint64_t size;
} tenon_bytes;

/* Frozen value: one pair of metadata. */
typedef struct tenon_metadata {
  tenon_span key;
  tenon_span value;
} tenon_metadata;

/* States of a peer. */
#define TENON_PEER_CONNECTING 0u
#define TENON_PEER_READY 1u
#define TENON_PEER_LOST 2u

typedef struct tenon_call_args {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span method;
  tenon_span request;
  const tenon_metadata* metadata; /* [metadata_count] */
  uint64_t metadata_count;
  uint64_t deadline_ns;
  /* Called once; the response is valid inside the call only. */
  TENON_THREAD(callback) TENON_OWN(take(status))
  void (*done)(void* argument, tenon_status* status, tenon_span response);
  void* argument;
} tenon_call_args;

typedef struct tenon_listen_args {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span address;     /* scheme://rest */
  tenon_span credentials; /* opaque configuration of the transport, JSON */
  /* A unary call came in: answer through respond(reply, status, response), once, from any thread. */
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*on_call)(void* argument, tenon_peer* peer, tenon_span method, tenon_span request, void* reply);
  TENON_THREAD(any) TENON_OWN(borrow)
  void (*on_stream)(void* argument, tenon_peer* peer, uint64_t stream, tenon_span message, uint32_t end);
  TENON_THREAD(any) TENON_OWN(take(status))
  void (*on_peer_state)(void* argument, tenon_peer* peer, uint32_t state, tenon_status* status);
  void* argument;
} tenon_listen_args;

typedef struct tenon_transport {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span scheme; /* "grpc", "shm", "loopback" */
  TENON_THREAD(any) TENON_OWN(give(out_endpoint))
  tenon_status* (*listen)(tenon_plugin_self* self, const tenon_listen_args* args, tenon_endpoint** out_endpoint);
  TENON_THREAD(any) TENON_OWN(give(out_peer))
  tenon_status* (*connect)(tenon_endpoint* endpoint, tenon_span address, uint64_t deadline_ns, tenon_peer** out_peer);
  TENON_THREAD(any) TENON_OWN(take(peer)) void (*disconnect)(tenon_peer* peer);
  /* out_call is a token for cancel(). */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*call)(tenon_peer* peer, const tenon_call_args* args, uint64_t* out_call);
  TENON_THREAD(any) TENON_OWN(borrow) void (*cancel)(tenon_peer* peer, uint64_t call);
  TENON_THREAD(any) TENON_OWN(take(status))
  void (*respond)(tenon_endpoint* endpoint, void* reply, tenon_status* status, tenon_span response);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*stream_open)(tenon_peer* peer, tenon_span method, uint64_t deadline_ns, uint64_t* out_stream);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*stream_write)(tenon_peer* peer, uint64_t stream, tenon_span message, uint32_t end);
  TENON_THREAD(any) TENON_OWN(give(out_registration))
  tenon_status* (*memory_register)(tenon_endpoint* endpoint, tenon_bytes memory,
                                   tenon_memory_registration** out_registration);
  TENON_THREAD(any) TENON_OWN(take(registration)) void (*memory_unregister)(tenon_memory_registration* registration);
  /* Sends header and pieces under the key; they stay untouched until done. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*send)(tenon_peer* peer, tenon_span key, tenon_span header, const tenon_span* pieces,
                        uint64_t piece_count, uint64_t deadline_ns,
                        void (*done)(void* argument, tenon_status* status), void* argument);
  /* Asks for what was sent under the key. place() gives the memory when the header is known. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*receive)(tenon_peer* peer, tenon_span key, uint64_t deadline_ns,
                           tenon_status* (*place)(void* argument, tenon_span header, uint64_t bytes,
                                                  tenon_bytes* out_memory),
                           void (*done)(void* argument, tenon_status* status, tenon_span header), void* argument);
  /* Refuses new work, finishes what runs until the deadline, then stops. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*drain)(tenon_endpoint* endpoint, uint64_t deadline_ns);
  TENON_THREAD(any) TENON_OWN(take(endpoint)) void (*stop)(tenon_endpoint* endpoint);
} tenon_transport;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_TRANSPORT_H_ */
