/* SPDX-License-Identifier: Apache-2.0 */
/* Draft capability "tenon.filesystem/1": where the paths of one scheme lead. Not frozen until a real user has passed.
 *
 * A path "NAME://rest" belongs to the plugin whose table has the scheme NAME; paths without a scheme are the operating
 * system's. Everybody else (ops, the application) goes through tenon.files/1 (ext/files.h), which finds the table by
 * the path's scheme and opens the plugin when it is first asked for. A plugin that is to be found by name alone is
 * called "tenon.files.NAME"; others with this capability are asked afterwards.
 *
 * Rules. Paths are whole, with their scheme, so that errors can name them; "." and ".." are the file system's to
 * resolve, and never lead out of it. What each function does is what the function of the same name in tenon_files does,
 * with the same codes. Those that take a path may be called at the same time from any thread, and so may those of
 * different files; one file that is written is used by one thread at a time, one that is read by any number. Durable
 * means: it survives what a machine of this file system does not (for a disk: the loss of power). What a call may not
 * be able to do in good time has the file system's own limit, and then ends with UNAVAILABLE or DEADLINE_EXCEEDED: no
 * call waits for ever. */
#ifndef TENON_EXT_DRAFT_FILESYSTEM_H_
#define TENON_EXT_DRAFT_FILESYSTEM_H_

#include "tenon/ext/files.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_CAPABILITY_FILESYSTEM "tenon.filesystem/1" /* tenon_filesystem */

/* No function may be NULL. */
typedef struct tenon_filesystem {
  uint32_t struct_size;
  uint32_t must_understand;
  tenon_span scheme; /* "memory": lower case letters, digits, '+', '-', '.'; a letter first */
  TENON_THREAD(any) TENON_OWN(give(out_file))
  tenon_status* (*open_read)(tenon_plugin_self* self, tenon_span path, tenon_file** out_file);
  TENON_THREAD(any) TENON_OWN(give(out_file))
  tenon_status* (*open_write)(tenon_plugin_self* self, tenon_span path, tenon_file** out_file);
  TENON_THREAD(any) TENON_OWN(give(out_file))
  tenon_status* (*open_append)(tenon_plugin_self* self, tenon_span path, tenon_file** out_file);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*size)(tenon_file* file, uint64_t* out_size);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*read_at)(tenon_file* file, uint64_t offset, void* target, uint64_t bytes);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*write)(tenon_file* file, const void* source, uint64_t bytes);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*sync)(tenon_file* file);
  TENON_THREAD(any) TENON_OWN(take(file)) tenon_status* (*close)(tenon_file* file);
  /* Both paths are of this scheme; the host refuses others. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*rename)(tenon_plugin_self* self, tenon_span from, tenon_span to);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*remove)(tenon_plugin_self* self, tenon_span path);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*make_directory)(tenon_plugin_self* self, tenon_span path);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*sync_directory)(tenon_plugin_self* self, tenon_span path);
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*exists)(tenon_plugin_self* self, tenon_span path);
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*list)(tenon_plugin_self* self, tenon_span path, tenon_file_names names, void* argument);
} tenon_filesystem;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_DRAFT_FILESYSTEM_H_ */
