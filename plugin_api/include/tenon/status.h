/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes. They are gRPC's canonical codes, so that they cross the wire unchanged.
 *
 * Every function that can fail returns tenon_status*: NULL is success, anything else is owned by the receiver and was
 * made by the host (tenon_host.status_new). A message says what was tried, what was found, and what would help; the
 * host adds the node, its op and the plugin on the way up. */
#ifndef TENON_STATUS_H_
#define TENON_STATUS_H_

#define TENON_OK 0u
#define TENON_CANCELLED 1u
#define TENON_UNKNOWN 2u
#define TENON_INVALID_ARGUMENT 3u
#define TENON_DEADLINE_EXCEEDED 4u
#define TENON_NOT_FOUND 5u
#define TENON_ALREADY_EXISTS 6u
#define TENON_PERMISSION_DENIED 7u
#define TENON_RESOURCE_EXHAUSTED 8u
#define TENON_FAILED_PRECONDITION 9u
#define TENON_ABORTED 10u
#define TENON_OUT_OF_RANGE 11u
#define TENON_UNIMPLEMENTED 12u
#define TENON_INTERNAL 13u
#define TENON_UNAVAILABLE 14u
#define TENON_DATA_LOSS 15u
#define TENON_UNAUTHENTICATED 16u

#endif /* TENON_STATUS_H_ */
