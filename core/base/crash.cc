// SPDX-License-Identifier: Apache-2.0
#include "core/base/crash.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>

#include "core/base/plugin_call.h"

namespace tenon {
namespace {

struct Fatal {
  int number;
  const char* name;
  struct sigaction before;
};
std::array<Fatal, 5> g_fatal = {{{SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}}, {SIGILL, "SIGILL", {}},
                                 {SIGFPE, "SIGFPE", {}}, {SIGABRT, "SIGABRT", {}}}};

// One line, put together without memory of the heap.
class Line {
 public:
  void Add(std::string_view text) {
    const size_t taken = std::min(text.size(), bytes_.size() - 1 - size_);
    for (size_t i = 0; i < taken; ++i) bytes_[size_++] = text[i] >= 0 && text[i] < ' ' ? '?' : text[i];
  }
  void Add(int number) {
    char digits[12];
    int at = sizeof digits;
    const bool negative = number < 0;
    unsigned rest = negative ? 0u - static_cast<unsigned>(number) : static_cast<unsigned>(number);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (negative) digits[--at] = '-';
    Add(std::string_view(digits + at, sizeof digits - static_cast<size_t>(at)));
  }
  void Write() {
    bytes_[size_++] = '\n';
    for (size_t done = 0; done < size_;) {
      const ssize_t wrote = write(STDERR_FILENO, bytes_.data() + done, size_ - done);
      if (wrote <= 0) return;
      done += static_cast<size_t>(wrote);
    }
  }

 private:
  std::array<char, 1024> bytes_;
  size_t size_ = 0;
};

void AddPlace(const PluginPlace& place, Line* line) {
  line->Add(place.function);
  if (!place.node.empty()) {
    line->Add(" of node '");
    line->Add(place.node);
    line->Add("'");
  }
  if (place.op.empty()) return;
  line->Add(place.node.empty() ? " of op " : " (");
  line->Add(place.op);
  if (!place.node.empty()) line->Add(")");
}

void AddPlugin(const PluginPlace& place, Line* line) {
  line->Add("tenon: plugin '");
  line->Add(place.plugin);
  line->Add("'");
  const std::string_view version = VersionOfPlugin(place.plugin);
  if (version.empty()) return;
  line->Add(" ");
  line->Add(version);
}

std::atomic<pid_t> g_teller{0};  // the thread that tells of its crash; 0: none does

// False: another thread does, or this one crashed while it told. Who crashes meanwhile waits, for two seconds at most:
// the first to go on would end the process before it is told why.
bool BeginToTell() {
  const pid_t self = gettid();
  pid_t teller = 0;
  if (g_teller.compare_exchange_strong(teller, self)) return true;
  constexpr timespec kMoment{0, 5'000'000};
  constexpr int kMoments = 400;
  for (int i = 0; i < kMoments && teller != self && g_teller.load() == teller; ++i) nanosleep(&kMoment, nullptr);
  return false;
}

void OnSignal(int number, siginfo_t* info, void*) {
  const int error = errno;
  const auto fatal =
      std::find_if(g_fatal.begin(), g_fatal.end(), [number](const Fatal& each) { return each.number == number; });
  PluginPlace place;
  const bool tells = BeginToTell();
  if (tells && ReadTrail(ThisThreadsTrail(), &place)) {
    Line line;
    AddPlugin(place, &line);
    line.Add(" crashed (");
    line.Add(fatal->name);
    line.Add(") in ");
    AddPlace(place, &line);
    line.Write();
  }
  // From here on a fault does what it did before.
  sigaction(number, &fatal->before, nullptr);
  if (tells) g_teller.store(0);
  errno = error;
  // A fault happens again when this returns, and a debugger sees it where it was; what somebody sent must be sent
  // again.
  if (info == nullptr || info->si_code <= 0) raise(number);
}

void OnExit(int status, void*) {
  PluginPlace place;
  if (!ReadTrail(ThisThreadsTrail(), &place)) return;
  Line line;
  AddPlugin(place, &line);
  line.Add(" called exit(");
  line.Add(status);
  line.Add(") in ");
  AddPlace(place, &line);
  line.Write();
  // What the process was asked for was not done.
  std::fflush(nullptr);
  if (status == 0) _exit(1);
}

// A thread whose stack has no room left needs another for the handler.
void GiveSignalStack() {
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  constexpr size_t kBytes = 64 * 1024;
  static char* const memory = new char[kBytes];  // as long as the thread
  const stack_t stack{memory, 0, kBytes};
  sigaltstack(&stack, nullptr);
}

}  // namespace

void NameCrashes() {
  static std::once_flag once;
  std::call_once(once, [] {
    GiveSignalStack();
    for (Fatal& each : g_fatal) {
      struct sigaction action {};
      action.sa_sigaction = &OnSignal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      sigaction(each.number, &action, &each.before);
    }
    on_exit(&OnExit, nullptr);
  });
}

}  // namespace tenon
