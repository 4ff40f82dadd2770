// SPDX-License-Identifier: Apache-2.0
// For a test program that has a plugin's sources linked in: they find the testing host without a load(). The plugin's
// own definition of tenon_plugin_host (TENON_PLUGIN) must not be in the program.
#ifndef TENON_TESTING_LINKED_H_
#define TENON_TESTING_LINKED_H_

#include "tenon/plugin.h"
#include "tenon/testing/host.h"

// Weak: several files of a program may include this one.
__attribute__((weak)) const tenon_host* tenon_plugin_host = tenon::testing::Host();

#endif  // TENON_TESTING_LINKED_H_
