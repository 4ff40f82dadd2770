/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.transport/1": moves bytes between processes. Not frozen until a real user has passed.
 *
 * An endpoint is one process's door: it may listen at an address, and connects to others. Over a connection, whichever
 * side made it, both sides call each other (a request and one reply), open streams of messages, and send data under a
 * key into memory that the receiver chooses when it sees the header. What the bytes mean is the host's business.
 *
 * Rules. Addresses are "scheme://rest"; a transport gets its own scheme's alone. Deadlines are nanoseconds of the
 * host's monotonic clock (CLOCK_MONOTONIC), 0: none; who gives one passes it to the other side as what is left of it.
 * Every callback runs on a thread of the transport and returns soon; those of one connection may run at the same time,
 * but a stream's messages come in order. Calls, streams and sends of one connection do not wait for each other to be
 * answered; data sends arrive in the order of sending. A lost connection ends all that is open on it with UNAVAILABLE
 * and the reason; it is not made again: the host connects anew. Pieces are gathered: one message, in order.
 *
 * A callback may call any function but stop() and disconnect() of what it was called for. */
#ifndef TENON_EXT_DRAFT_TRANSPORT_H_
#define TENON_EXT_DRAFT_TRANSPORT_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_TRANSPORT_MAX_KEY 64
#define TENON_TRANSPORT_ALIGNMENT 64 /* of the requests and responses that callbacks see */

typedef struct tenon_endpoint tenon_endpoint; /* opaque */
typedef struct tenon_peer tenon_peer;         /* opaque: a connection, seen from this side */
typedef struct tenon_reply tenon_reply;       /* opaque: a call that came in and is not answered yet */
typedef struct tenon_stream tenon_stream;     /* opaque: one side of a stream */

/* Frozen value: writable memory. */
typedef struct tenon_bytes {
  void* data;
  uint64_t size;
} tenon_bytes;

/* Frozen value: one pair of metadata. */
typedef struct tenon_metadata {
  tenon_span key;
  tenon_span value;
} tenon_metadata;

/* What the other side asks for. Valid in the callback; request and what it points to until the reply is given. */
typedef struct tenon_incoming {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span method;
  tenon_span request; /* of a call; aligned */
  const tenon_metadata* metadata; /* [metadata_count] */
  uint64_t metadata_count;
  uint64_t deadline_ns;
} tenon_incoming;

/* What happens on a stream. end: the other side writes no more, or the stream has failed with `status` (NULL: it has
 * ended well); called once, last; afterwards the stream may be closed. */
typedef struct tenon_stream_events {
  uint32_t struct_size;
  uint32_t must_understand;
  TENON_THREAD(callback) TENON_OWN(borrow) void (*message)(void* argument, tenon_span message);
  TENON_THREAD(callback) TENON_OWN(take(status)) void (*end)(void* argument, tenon_status* status);
  void* argument;
} tenon_stream_events;

/* What happens at an endpoint. A NULL function refuses what it is for with UNIMPLEMENTED. */
typedef struct tenon_endpoint_events {
  uint32_t struct_size;
  uint32_t must_understand;
  /* A connection that another side made is there, before anything comes from it. It belongs to the endpoint until it is
   * lost. */
  TENON_THREAD(callback) TENON_OWN(borrow) void (*connected)(void* argument, tenon_peer* peer);
  /* A connection, whoever made it, is lost; not called for one that disconnect() ended. Of one that another side made:
   * `peer` means nothing when this returns. */
  TENON_THREAD(callback) TENON_OWN(take(why)) void (*lost)(void* argument, tenon_peer* peer, tenon_status* why);
  /* Answer once, from any thread, now or later, with respond(reply). */
  TENON_THREAD(callback) TENON_OWN(borrow)
  void (*call)(void* argument, tenon_peer* peer, const tenon_incoming* call, tenon_reply* reply);
  /* Nobody waits for the answer any more: cancelled, late, or the connection is lost. It must be given nevertheless. */
  TENON_THREAD(callback) TENON_OWN(borrow) void (*cancelled)(void* argument, tenon_reply* reply);
  /* The other side opens a stream: fill in what happens on it. An error refuses it. */
  TENON_THREAD(callback) TENON_OWN(give(return))
  tenon_status* (*stream)(void* argument, tenon_peer* peer, const tenon_incoming* call, tenon_stream* stream,
                          tenon_stream_events* out_events);
  /* Data comes: give it memory of `bytes` bytes, aligned as it likes, and a token. An error drops it, and the sender is
   * told. */
  TENON_THREAD(callback) TENON_OWN(give(return))
  tenon_status* (*place)(void* argument, tenon_peer* peer, tenon_span key, tenon_span header, uint64_t bytes,
                         tenon_bytes* out_memory, void** out_token);
  /* It is there, or (status not NULL) never will be. Once for each successful place. */
  TENON_THREAD(callback) TENON_OWN(take(status))
  void (*placed)(void* argument, tenon_peer* peer, void* token, tenon_status* status);
  void* argument;
} tenon_endpoint_events;

typedef struct tenon_endpoint_options {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span address; /* to listen at; empty: connects only. A port or name of 0 or "" is chosen by the system */
  /* JSON of the transport's own making, for both sides: for gRPC {"tls": {"certificate": FILE, "key": FILE,
   * "authority": FILE, "mutual": true}}; {} or empty: plaintext, which a transport refuses off this host unless
   * {"plaintext": true} asks for it. */
  tenon_span credentials;
  /* of a request, response, stream message or data; 0: 4 GiB. What is larger is RESOURCE_EXHAUSTED */
  uint64_t max_message_bytes;
  /* How long another side may say nothing, not even that it is there, before its connection is lost, where a transport
   * asks for that; 0: its own patience. */
  uint64_t silence_ns;
} tenon_endpoint_options;

typedef struct tenon_call_args {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span method;
  const tenon_span* pieces; /* [piece_count] the request; untouched by the caller until done */
  uint64_t piece_count;
  const tenon_metadata* metadata; /* [metadata_count]; copied */
  uint64_t metadata_count;
  uint64_t deadline_ns;
  /* Called once. The response is valid inside the call, and aligned. */
  TENON_THREAD(callback) TENON_OWN(take(status))
  void (*done)(void* argument, tenon_status* status, tenon_span response);
  void* argument;
} tenon_call_args;

typedef struct tenon_send_args {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span key;    /* at most TENON_TRANSPORT_MAX_KEY bytes; copied */
  tenon_span header; /* copied; at most 64 KiB */
  const tenon_span* pieces; /* [piece_count] untouched by the caller until done */
  uint64_t piece_count;
  uint64_t deadline_ns;
  /* Called once: the pieces are the caller's again. Success does not say that the other side has placed them. */
  TENON_THREAD(callback) TENON_OWN(take(status)) void (*done)(void* argument, tenon_status* status);
  void* argument;
} tenon_send_args;

typedef struct tenon_transport {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span scheme; /* "grpc", "shm", "loopback" */
  /* events and what it points to stay until stop() returns. */
  TENON_THREAD(any) TENON_OWN(give(out_endpoint))
  tenon_status* (*open)(tenon_plugin_self* self, const tenon_endpoint_options* options,
                        const tenon_endpoint_events* events, tenon_endpoint** out_endpoint);
  /* Where it listens, with what the system chose; empty when it does not. Lives as long as the endpoint. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_span (*address)(const tenon_endpoint* endpoint);
  /* Waits until the connection stands. DEADLINE_EXCEEDED or UNAVAILABLE name the address. */
  TENON_THREAD(any) TENON_OWN(give(out_peer))
  tenon_status* (*connect)(tenon_endpoint* endpoint, tenon_span address, uint64_t deadline_ns, tenon_peer** out_peer);
  /* Ends a connection that connect() made, lost or not; what is open on it ends with CANCELLED before this returns. */
  TENON_THREAD(any) TENON_OWN(take(peer)) void (*disconnect)(tenon_peer* peer);
  /* Who the other side is: its address, or what its credentials prove. Lives as long as the peer. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_span (*peer_name)(const tenon_peer* peer);
  /* An error: done is not called. out_call (may be NULL) is for cancel(). */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*call)(tenon_peer* peer, const tenon_call_args* args, uint64_t* out_call);
  /* done gets CANCELLED, soon, unless it was called before. */
  TENON_THREAD(any) TENON_OWN(borrow) void (*cancel)(tenon_peer* peer, uint64_t call);
  /* pieces stay untouched until sent(argument), which is called once (also when nobody waits any more); NULL: they are
   * copied now. */
  TENON_THREAD(any) TENON_OWN(take(status))
  void (*respond)(tenon_reply* reply, tenon_status* status, const tenon_span* pieces, uint64_t piece_count,
                  void (*sent)(void* argument), void* argument);
  TENON_THREAD(any) TENON_OWN(give(out_stream))
  tenon_status* (*stream_open)(tenon_peer* peer, tenon_span method, const tenon_metadata* metadata,
                               uint64_t metadata_count, uint64_t deadline_ns, const tenon_stream_events* events,
                               tenon_stream** out_stream);
  /* Copies the message. Waits while the other side is too slow, until the stream's deadline. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*stream_write)(tenon_stream* stream, tenon_span message);
  /* This side writes no more; status not NULL: and the stream has failed. The stream is the transport's again when this
   * was called and its end() too. */
  TENON_THREAD(any) TENON_OWN(take(status)) void (*stream_close)(tenon_stream* stream, tenon_status* status);
  /* An error: done is not called. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*send)(tenon_peer* peer, const tenon_send_args* args);
  /* Takes no new connections, calls and streams (UNAVAILABLE), and waits for those that are open; DEADLINE_EXCEEDED
   * when some are open still. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*drain)(tenon_endpoint* endpoint, uint64_t deadline_ns);
  /* Ends all connections. When it returns no callback runs or will. Peers of connect() must be gone, replies given. */
  TENON_THREAD(any) TENON_OWN(take(endpoint)) void (*stop)(tenon_endpoint* endpoint);
} tenon_transport;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_TRANSPORT_H_ */
