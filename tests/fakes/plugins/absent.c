/* SPDX-License-Identifier: Apache-2.0 */
/* A library that a fixture is linked with, and that is not there when the fixture is opened. */
#include <stdint.h>

uint32_t tenon_test_absent(void);
__attribute__((visibility("default"))) uint32_t tenon_test_absent(void) { return 1; }
