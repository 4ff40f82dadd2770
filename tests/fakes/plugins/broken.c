/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins with one fault each, chosen by FIXTURE_*. */
#include "tenon/plugin.h"

#ifdef FIXTURE_LAYOUT /* built with other headers */
#undef TENON_LAYOUT_HASH
#define TENON_LAYOUT_HASH UINT64_C(0x1234)
#endif
#ifdef FIXTURE_MAJOR /* its query refuses this host */
#undef TENON_ABI_MAJOR
#define TENON_ABI_MAJOR 7u
#undef TENON_ABI_TEXT
#define TENON_ABI_TEXT "7.3"
#endif

#ifdef FIXTURE_MISSING_SYMBOL
extern uint32_t tenon_test_defined_nowhere(void);
__attribute__((used)) static uint32_t call(void) { return tenon_test_defined_nowhere(); }
#endif
#ifdef FIXTURE_MISSING_LIBRARY
extern uint32_t tenon_test_absent(void);
__attribute__((used)) static uint32_t call(void) { return tenon_test_absent(); }
#endif
#ifdef FIXTURE_OF_THE_PROCESS /* which the test's program happens to have */
extern double cos(double x);
__attribute__((used)) static double call(double x) { return cos(x); }
#endif
#if defined(FIXTURE_FRAMEWORK) || defined(FIXTURE_NO_ENTRY_TRAPS) /* opening it would end the process */
__attribute__((constructor)) static void trap(void) { __builtin_trap(); }
#endif
#if defined(FIXTURE_NO_ENTRY) || defined(FIXTURE_NO_ENTRY_TRAPS)
#define tenon_plugin_query tenon_plugin_query_by_another_name
#endif

__attribute__((unused)) static const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), NULL, 0, 0};
static const tenon_capability kCapabilities[] = {
#ifdef FIXTURE_UNKNOWN_CAPABILITY
    {TENON_SPAN("vendor.future/3"), &kPackage, 0}, {TENON_SPAN("tenon.ops/2"), &kPackage, 0}
#elif defined(FIXTURE_NULL_TABLE)
    TENON_PROVIDES(OPS, NULL)
#else
    TENON_PROVIDES(OPS, &kPackage)
#endif
};

#if defined(FIXTURE_RAW_MAJOR) || defined(FIXTURE_MUST_UNDERSTAND) || defined(FIXTURE_SHORT) || \
    defined(FIXTURE_NOTHING) || defined(FIXTURE_REFUSES) || defined(FIXTURE_NO_LOAD)

__attribute__((unused)) static tenon_status* load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  (void)args;
  *out_self = NULL;
  return NULL;
}
static void unload(tenon_plugin_self* self) { (void)self; }

#ifdef FIXTURE_RAW_MAJOR /* its query does not look at the host's version */
#define MAJOR 9u
#else
#define MAJOR TENON_ABI_MAJOR
#endif
#ifdef FIXTURE_MUST_UNDERSTAND
#define BITS 0x12u
#else
#define BITS 0u
#endif
#ifdef FIXTURE_SHORT
#define SIZE 64u
#else
#define SIZE sizeof(tenon_plugin)
#endif
#ifdef FIXTURE_NO_LOAD
#define LOAD NULL
#else
#define LOAD load
#endif
#ifdef FIXTURE_NOTHING
#define COUNT 0u
#else
#define COUNT 1u
#endif

__attribute__((unused)) static const tenon_plugin kPlugin = {
    .struct_size = SIZE,
    .must_understand = BITS,
    .abi_major = MAJOR,
    .abi_minor = TENON_ABI_MINOR,
    .layout_hash = TENON_LAYOUT_HASH,
    .id = TENON_SPAN("test.broken"),
    .version = TENON_SPAN("1.0.0"),
    .load = LOAD,
    .unload = unload,
    .capabilities = kCapabilities,
    .capability_count = COUNT,
};

TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args* args);
TENON_EXPORT const tenon_plugin* tenon_plugin_query(tenon_query_args* args) {
#ifdef FIXTURE_REFUSES
  const tenon_span text = TENON_SPAN("not on a Friday");
  args->out_reject_code = TENON_REJECT_OTHER;
  args->out_reject_text = text;
  return NULL;
#else
  (void)args;
  return &kPlugin;
#endif
}

#else
TENON_PLUGIN("test.broken", "1.0.0", "A plugin with a fault.", kCapabilities)
#endif
