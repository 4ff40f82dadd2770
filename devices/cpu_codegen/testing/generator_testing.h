// SPDX-License-Identifier: Apache-2.0
// What tests of generated code share: the levels of this machine, threads, types, and memory between pages that nobody
// may touch.
#ifndef TENON_DEVICES_CPU_CODEGEN_TESTING_GENERATOR_TESTING_H_
#define TENON_DEVICES_CPU_CODEGEN_TESTING_GENERATOR_TESTING_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "code/program.h"
#include "tenon/dtype.h"
#include "tenon/kernel.h"

namespace tenon::cpu_codegen {

inline std::vector<Level> Levels() {
  std::vector<Level> levels;
  for (const Level level : {Level::kAvx2, Level::kAvx512})
    if (level <= BestLevel()) levels.push_back(level);
  return levels;
}

// A frame's parallel_for: shares of one unit, by two threads and the caller.
inline void InThreads(tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
  const auto share = [=](int64_t first) {
    for (int64_t unit = first; unit < total; unit += 3) function(argument, unit, unit + 1);
  };
  std::thread one([&] { share(1); }), two([&] { share(2); });
  share(0);
  one.join();
  two.join();
}
inline tenon_frame_services ServicesOf(decltype(tenon_frame_services::parallel_for) parallel_for) {
  tenon_frame_services services = {};
  services.struct_size = sizeof services;
  services.parallel_for = parallel_for;
  services.is_cancelled = [](tenon_frame*) -> uint32_t { return 0; };
  return services;
}

// Memory that ends, or begins, at a page that nobody may touch.
class Guarded {
 public:
  Guarded()
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        memory_(static_cast<char*>(mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(memory_ + page_, page_, PROT_READ | PROT_WRITE), 0);
  }
  ~Guarded() { munmap(memory_, 3 * page_); }
  Guarded(const Guarded&) = delete;
  char* begin() const { return memory_ + page_; }
  char* end() const { return memory_ + 2 * page_; }
  size_t size() const { return page_; }

 private:
  const size_t page_;
  char* const memory_;
};

struct Kind {
  uint32_t dtype;
  size_t size;
};
inline constexpr Kind kKinds[] = {{TENON_DT_FLOAT, 4}, {TENON_DT_DOUBLE, 8},   {TENON_DT_INT32, 4}, {TENON_DT_INT64, 8},
                                  {TENON_DT_HALF, 2},  {TENON_DT_BFLOAT16, 2}, {TENON_DT_BOOL, 1}};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_TESTING_GENERATOR_TESTING_H_
