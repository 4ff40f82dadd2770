/* SPDX-License-Identifier: Apache-2.0 */
/* Host extension "tenon.files/1": files, so that a simulator or a test that fails the n-th write can stand in.
 *
 * Found through tenon_host.get_extension. Paths are bytes without NUL. A path with a scheme ("NAME://...") leads to the
 * file system that a plugin brings (ext/draft/filesystem.h), and to an error that says which plugin is needed where
 * none does; any other path is the operating system's. Every error names the path and the reason; a full disk is
 * RESOURCE_EXHAUSTED, a missing file NOT_FOUND, no permission PERMISSION_DENIED. */
#ifndef TENON_EXT_FILES_H_
#define TENON_EXT_FILES_H_

#include "tenon/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_EXTENSION_FILES "tenon.files/1" TENON_TEXT_FILES

typedef struct tenon_file tenon_file; /* opaque */

/* Gets the names in a folder, one a call, on the caller's thread. */
typedef TENON_THREAD(callback) TENON_OWN(borrow) void (*tenon_file_names)(void* argument, tenon_span name);

typedef struct tenon_files {
  uint32_t struct_size;
  uint32_t must_understand;
  TENON_THREAD(any) TENON_OWN(give(out_file)) tenon_status* (*open_read)(tenon_span path, tenon_file** out_file);
  /* Creates or truncates. */
  TENON_THREAD(any) TENON_OWN(give(out_file)) tenon_status* (*open_write)(tenon_span path, tenon_file** out_file);
  /* Creates, or continues at the end. */
  TENON_THREAD(any) TENON_OWN(give(out_file)) tenon_status* (*open_append)(tenon_span path, tenon_file** out_file);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*size)(tenon_file* file, uint64_t* out_size);
  /* Reads exactly `bytes` at `offset`; OUT_OF_RANGE when the file is shorter. */
  TENON_THREAD(any) TENON_OWN(borrow)
  tenon_status* (*read_at)(tenon_file* file, uint64_t offset, void* target, uint64_t bytes);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*write)(tenon_file* file, const void* source, uint64_t bytes);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*sync)(tenon_file* file);
  TENON_THREAD(any) TENON_OWN(take(file)) tenon_status* (*close)(tenon_file* file);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*rename)(tenon_span from, tenon_span to);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*remove)(tenon_span path);
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*make_directory)(tenon_span path);
  /* Makes renames in the folder durable. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*sync_directory)(tenon_span path);
  /* 1 when it exists. */
  TENON_THREAD(any) TENON_OWN(borrow) uint32_t (*exists)(tenon_span path);
  /* The names in a folder, in any order, without "." and "..". NULL in a host that is older than this member. */
  TENON_THREAD(any) TENON_OWN(borrow) tenon_status* (*list)(tenon_span path, tenon_file_names names, void* argument);
} tenon_files;

#ifdef __cplusplus
}
#endif
#endif /* TENON_EXT_FILES_H_ */
