/* SPDX-License-Identifier: Apache-2.0 */
/* One of several libraries of the package test.variant. FIXTURE_TRAPS: its constructor ends in SIGILL, as one does that
 * was compiled for another processor. */
#include "tenon/plugin.h"

#ifdef FIXTURE_TRAPS
__attribute__((constructor)) static void trap(void) { __builtin_trap(); }
#endif

static const tenon_op_definition kVaried = {TENON_HEAD(tenon_op_definition), .name = TENON_SPAN("Varied")};
static const tenon_op_definition* const kOps[] = {&kVaried};
static const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), kOps, 1, 0};
static const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kPackage)};
TENON_PLUGIN("test.variant", FIXTURE_VERSION, "A variant.", kCapabilities)
