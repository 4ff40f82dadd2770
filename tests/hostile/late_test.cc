// SPDX-License-Identifier: Apache-2.0
// Ops that last end with their deadline: before they could have been done.
#include <gtest/gtest.h>

#include <thread>

#include "tests/engine/engine.h"
#include "tests/hostile/lasting.h"

namespace tenon::hostile {

void PrintTo(const Lasting& lasting, std::ostream* out) { *out << lasting.op << " " << lasting.size; }

namespace {

class Late : public ::testing::TestWithParam<Lasting> {};

// Each would take ten seconds of a core. The bound is of the threads' own time, so that a machine that is busy does not
// count.
TEST_P(Late, EndsWithItsDeadline) {
  constexpr std::chrono::milliseconds kDeadline(100), kPatience(4000);
  const Ended ended = RunLasting(engine::TheRuntime(), GetParam(), kDeadline);
  EXPECT_EQ(ended.status.code(), host::Code::kDeadlineExceeded) << ended.status.message();
  EXPECT_LT(ended.cpu, kDeadline * std::thread::hardware_concurrency() + kPatience);
}

INSTANTIATE_TEST_SUITE_P(Ops, Late, ::testing::ValuesIn(AllLasting()),
                         [](const auto& info) { return info.param.op + std::to_string(info.index); });

}  // namespace
}  // namespace tenon::hostile
