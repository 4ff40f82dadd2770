// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/repeat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <optional>

namespace tenon::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> stop_repeating{false};

// The first SIGINT is noted while this lives; the second one ends the process as usual.
class Interrupts {
 public:
  Interrupts() {
    struct sigaction action = {};
    action.sa_handler = [](int) { stop_repeating.store(true); };
    action.sa_flags = SA_RESETHAND;
    stop_repeating.store(false);
    sigaction(SIGINT, &action, &before_);
  }
  ~Interrupts() { sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction before_ = {};
};

// A line that says how far it is, drawn again and again; gone when it ends.
class SignOfLife {
 public:
  explicit SignOfLife(uint64_t steps) : steps_(steps), terminal_(steps > 1 && isatty(STDERR_FILENO) != 0) {}
  ~SignOfLife() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
  }
  SignOfLife(const SignOfLife&) = delete;
  SignOfLife& operator=(const SignOfLife&) = delete;

  void Show(uint64_t done, Clock::time_point now, double microseconds) {
    constexpr auto kBetween = std::chrono::milliseconds(200);
    if (!terminal_ || now - last_ < kBetween) return;
    fmt::print(stderr, "\r\x1b[Kstep {}/{}  {:.1f} us", done, steps_, microseconds);
    std::fflush(stderr);
    last_ = now;
    drawn_ = true;
  }

 private:
  const uint64_t steps_;
  const bool terminal_;
  bool drawn_ = false;
  Clock::time_point last_ = Clock::now();
};

}  // namespace

host::Status Repeat::Run(const std::function<host::Status(bool)>& step) {
  constexpr uint64_t kMostReserved = 1 << 20;
  times_.reserve(std::min(steps_, kMostReserved));
  std::optional<Interrupts> interrupts;
  if (steps_ > 1) interrupts.emplace();  // a single step is ended as any program is
  SignOfLife life(steps_);
  while (times_.size() < steps_ && (times_.empty() || !stop_repeating)) {
    const auto began = Clock::now();
    const host::Status status = step(times_.size() + 1 == steps_);
    const auto ended = Clock::now();
    if (!status.ok()) return steps_ == 1 ? status : status.Annotate(fmt::format("step {}", times_.size() + 1));
    times_.push_back(std::chrono::duration<double, std::micro>(ended - began).count());
    life.Show(times_.size(), ended, times_.back());
  }
  return host::Status();
}

std::pair<double, double> Repeat::LeastAndMedian() const {
  std::vector<double> sorted = times_;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return {sorted.front(), sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2};
}

std::string Repeat::Text() const {
  const auto [least, median] = LeastAndMedian();
  return fmt::format("step: min {:.1f} us, median {:.1f} us, {} steps", least, median, times_.size());
}

}  // namespace tenon::cli
