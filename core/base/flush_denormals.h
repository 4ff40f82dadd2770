// SPDX-License-Identifier: Apache-2.0
// FlushDenormals: while one lives, arithmetic of this thread gives 0 instead of numbers below the smallest normal one
// (1.2e-38 of float32). Then its modes and flags are as they were. It takes some 3 ns.
//
// Such numbers take processors some hundred cycles each, and training makes them: what an optimizer remembers of a
// gradient that has become 0 decays to them, and stays there. TensorFlow's threads do so too, and take them for 0 where
// they come in; here, on x86, they do not change what is compared or chosen.
#ifndef TENON_CORE_BASE_FLUSH_DENORMALS_H_
#define TENON_CORE_BASE_FLUSH_DENORMALS_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tenon {

class FlushDenormals {
 public:
  FlushDenormals() : before_(Read()) {
    if ((before_ & kBits) != kBits) Write(before_ | kBits);
  }
  ~FlushDenormals() {
    if ((before_ & kBits) != kBits) Write(before_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  using Word = uint32_t;
  static constexpr Word kBits = 0x8000;  // MXCSR: flush to zero
  static Word Read() { return _mm_getcsr(); }
  static void Write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)
  using Word = uint64_t;
  static constexpr Word kBits = Word{1} << 24;  // FPCR.FZ, which is of what comes in too
  static Word Read() {
    Word word = 0;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void Write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = uint32_t;  // nothing is known of this processor
  static constexpr Word kBits = 0;
  static Word Read() { return 0; }
  static void Write(Word) {}
#endif
  const Word before_;
};

}  // namespace tenon

#endif  // TENON_CORE_BASE_FLUSH_DENORMALS_H_
