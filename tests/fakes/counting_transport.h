// SPDX-License-Identifier: Apache-2.0
// What counting_transport_plugin.cc offers besides its transport: how many bytes of values went through it.
//
// The transport's scheme is "counted"; it is the loopback's, with counters. Get the table once a runtime has loaded the
// plugin.
#ifndef TENON_TESTS_FAKES_COUNTING_TRANSPORT_H_
#define TENON_TESTS_FAKES_COUNTING_TRANSPORT_H_

#include <cstdint>

// The capability; the engine passes over it.
#define TENON_TEST_COUNTED "tenon.test.counted/1"

struct tenon_test_counted {
  uint64_t (*sends)();
  uint64_t (*bytes)();  // of all sends
};

#endif  // TENON_TESTS_FAKES_COUNTING_TRANSPORT_H_
