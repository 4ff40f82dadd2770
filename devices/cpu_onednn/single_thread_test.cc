// SPDX-License-Identifier: Apache-2.0
// With a oneDNN that has threads of its own: the caller's setting is left as it was.
#include <gtest/gtest.h>
#include <omp.h>

#include "program.h"

namespace tenon::cpu_onednn::single_thread_test {
namespace {

TEST(Onednn, LeavesTheCallersThreadCountAlone) {
  omp_set_num_threads(3);
  {
    const SingleThread single;
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
}

}  // namespace
}  // namespace tenon::cpu_onednn::single_thread_test
