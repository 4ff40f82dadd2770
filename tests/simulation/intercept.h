// SPDX-License-Identifier: Apache-2.0
// The C library's own functions, behind those that intercept.cc puts before them.
#ifndef TENON_TESTS_SIMULATION_INTERCEPT_H_
#define TENON_TESTS_SIMULATION_INTERCEPT_H_

#include <pthread.h>

namespace tenon::simulation {

int RealCreate(pthread_t* out, const pthread_attr_t* attributes, void* (*body)(void*), void* argument);
int RealJoin(pthread_t thread, void** out_result);

}  // namespace tenon::simulation

#endif  // TENON_TESTS_SIMULATION_INTERCEPT_H_
