/* SPDX-License-Identifier: Apache-2.0 */
/* Draft host extension "tenon.keeping/1": memory of a plugin's own that counts against the session it is for. Found
 * through tenon_host.get_extension. Not frozen until a real user has passed; another number when a function of it
 * changes.
 *
 * What a kernel keeps beyond its call, in a queue, a table, a buffer of elements, is more than tensors: each is kept in
 * a record, and a stranger's graph may make so many records of one shared tensor as it likes. Whoever keeps a buffer
 * says with keep() how many bytes its record takes; what has no buffer is charged to an account. Both count against the
 * limits that the buffer counts against, and are refused with RESOURCE_EXHAUSTED, which names the limit, before the
 * memory is taken. */
#ifndef TENON_EXT_DRAFT_KEEPING_H_
#define TENON_EXT_DRAFT_KEEPING_H_

#include "tenon/abi.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXTENSION_KEEPING "tenon.keeping/1"

/* opaque, counted; the host's: the memory of a session. It may outlive that */
typedef struct tenon_account tenon_account;

typedef struct tenon_keeping {
  uint32_t struct_size;
  uint32_t must_understand;
  /* Charges `bytes` of a record that is kept with a reference to the buffer. A failure charges nothing. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*keep)(tenon_buffer* buffer, uint64_t bytes);
  /* The end of that: the record's bytes, and the reference. */
  TENON_THREAD(any) TENON_OWN(take(buffer)) void (*drop)(tenon_buffer* buffer, uint64_t bytes);
  /* The account that the buffer counts against. */
  TENON_THREAD(any) TENON_OWN(give(return)) tenon_account* (*account)(tenon_buffer* buffer);
  TENON_THREAD(any) TENON_OWN(borrow) void (*account_retain)(tenon_account* account);
  TENON_THREAD(any) TENON_OWN(take(account)) void (*account_release)(tenon_account* account);
  /* A failure charges nothing. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*charge)(tenon_account* account, uint64_t bytes);
  /* No more than was charged. */
  TENON_THREAD(any) TENON_OWN(borrow) void (*refund)(tenon_account* account, uint64_t bytes);
} tenon_keeping;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_KEEPING_H_ */
