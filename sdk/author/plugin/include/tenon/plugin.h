/* SPDX-License-Identifier: Apache-2.0 */
/* What every plugin includes, in C or C++: the handshake as one macro, and short forms for statuses.
 *
 *   static const tenon_op_definition* const kOps[] = {&kSquare};
 *   static const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};
 *   static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kPackage)};
 *   TENON_PLUGIN("example.square", "1.0.0", "An op that squares.", kCapabilities)
 *
 * Use the macro once, in one source of the library. The host table is tenon_plugin_host from load() on. */
#ifndef TENON_PLUGIN_H_
#define TENON_PLUGIN_H_

#include <string.h>

#include "tenon/abi.h"
#include "tenon/device.h"
#include "tenon/dtype.h"
#include "tenon/graph.h"
#include "tenon/kernel.h"
#include "tenon/op.h"
#include "tenon/status.h"
#include "tenon/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The host's table; NULL before load(). One host serves all runtimes of a process. Whole, as these headers know it:
 * what an older host does not have is NULL in it. */
extern __attribute__((visibility("hidden"))) const tenon_host* tenon_plugin_host;

/* Copies into `target` [target_size], a struct of these headers, what a struct that the host gave has of it; the rest
 * is 0. Both begin with struct_size. */
static inline void tenon_plugin_take(void* target, uint32_t target_size, const void* given) {
  uint32_t size = 0;
  memcpy(&size, given, sizeof(size));
  memset(target, 0, target_size);
  memcpy(target, given, size < target_size ? size : target_size);
}

/* A failure, which who gets it releases: code is a TENON_* of status.h, text a NUL-terminated string, which is copied.
 * After load() only. */
static inline tenon_status* tenon_plugin_error(uint32_t code, const char* text) {
  tenon_span message = {text, 0};
  while (text[message.size] != '\0') ++message.size;
  return tenon_plugin_host->status_new(code, message);
}

#define TENON_PLUGIN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The entry point. The literals are strings: the id is the package's name for ever ("vendor.what"), the version is for
 * people. capability_table is an array of tenon_capability, complete before load(): tenon-manifest reads it without a
 * host. */
#define TENON_PLUGIN(id_literal, version_literal, doc_literal, capability_table) \
  TENON_PLUGIN_WITH(id_literal, version_literal, doc_literal, capability_table, NULL, 0, NULL, NULL)

/* The same with options [option_count] and hooks, or NULL: on_load(args, &self), once for each runtime, whose self the
 * plugin's other functions then get; a status other than NULL rejects the plugin, and on_unload(self) is not called for
 * it. */
#define TENON_PLUGIN_WITH(id_literal, version_literal, doc_literal, capability_table, option_table, option_count_, \
                          on_load, on_unload)                                                                     \
  const tenon_host* tenon_plugin_host = NULL;                                                                     \
  static tenon_status* tenon_plugin_load_(const tenon_load_args* args, tenon_plugin_self** out_self) {            \
    static const tenon_host* given = NULL;                                                                        \
    static tenon_host whole;                                                                                      \
    tenon_status* (*hook)(const tenon_load_args*, tenon_plugin_self**) = on_load;                                 \
    if (given != args->host) { /* the table is read by others from the first load on, and then stays as it is */   \
      tenon_plugin_take(&whole, (uint32_t)sizeof(whole), args->host);                                             \
      given = args->host;                                                                                         \
      tenon_plugin_host = &whole;                                                                                 \
    }                                                                                                             \
    *out_self = NULL;                                                                                             \
    if (args->must_understand != 0) {                                                                             \
      return tenon_plugin_error(TENON_UNIMPLEMENTED, "load() got a feature that this plugin does not know");      \
    }                                                                                                             \
    return hook ? hook(args, out_self) : NULL;                                                                    \
  }                                                                                                               \
  static void tenon_plugin_unload_(tenon_plugin_self* self) {                                                     \
    void (*hook)(tenon_plugin_self*) = on_unload;                                                                 \
    if (hook) hook(self);                                                                                         \
  }                                                                                                               \
  static const tenon_plugin tenon_plugin_descriptor_ = {                                                          \
      TENON_HEAD(tenon_plugin),                                                                                   \
      TENON_ABI_MAJOR,                                                                                            \
      TENON_ABI_MINOR,                                                                                            \
      TENON_LAYOUT_HASH,                                                                                          \
      TENON_SPAN(id_literal),                                                                                     \
      TENON_SPAN(version_literal),                                                                                \
      TENON_SPAN(""),                                                                                             \
      TENON_SPAN(doc_literal),                                                                                    \
      option_table,                                                                                               \
      option_count_,                                                                                              \
      tenon_plugin_load_,                                                                                         \
      tenon_plugin_unload_,                                                                                       \
      capability_table,                                                                                           \
      TENON_PLUGIN_COUNT(capability_table),                                                                       \
      NULL, /* nothing but what every plugin understands */                                                       \
      0};                                                                                                         \
  TENON_PLUGIN_EXTERN_C TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args* args);              \
  TENON_PLUGIN_EXTERN_C TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args* args) {             \
    if (args->host_abi_major != TENON_ABI_MAJOR) {                                                                \
      const tenon_span text = TENON_SPAN("it was built for ABI " TENON_ABI_TEXT);                                 \
      args->out_reject_code = TENON_REJECT_ABI_MAJOR;                                                             \
      args->out_reject_text = text;                                                                               \
      return NULL;                                                                                                \
    }                                                                                                             \
    return &tenon_plugin_descriptor_;                                                                             \
  }

#ifdef __cplusplus
#define TENON_PLUGIN_EXTERN_C extern "C"
}
#else
#define TENON_PLUGIN_EXTERN_C
#endif
#endif /* TENON_PLUGIN_H_ */
