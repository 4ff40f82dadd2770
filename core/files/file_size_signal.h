// SPDX-License-Identifier: Apache-2.0
// FileSizeSignal: while it lives, a write of this thread beyond the process's limit of file sizes fails with EFBIG and
// no more.
//
// The system also sends the thread SIGXFSZ, which would end the application, and whose handling is the application's:
// so it is held back in this thread, and one that came meanwhile is taken away. Two calls of the system, where no write
// fails.
#ifndef TENON_CORE_FILES_FILE_SIZE_SIGNAL_H_
#define TENON_CORE_FILES_FILE_SIZE_SIGNAL_H_

#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace tenon::files {

class FileSizeSignal {
 public:
  FileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    held_ = pthread_sigmask(SIG_BLOCK, &signal_, &before_) == 0;
    was_pending_ = held_ && sigismember(&before_, SIGXFSZ) == 1 && IsPending();
  }
  FileSizeSignal(const FileSizeSignal&) = delete;
  FileSizeSignal& operator=(const FileSizeSignal&) = delete;
  ~FileSizeSignal() {
    if (held_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  // After a write that failed with EFBIG.
  void TakeAway() const {
    const timespec now = {};
    if (held_ && !was_pending_ && IsPending()) sigtimedwait(&signal_, nullptr, &now);
  }

 private:
  static bool IsPending() {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
  }
  sigset_t signal_, before_;
  bool held_ = false, was_pending_ = false;
};

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_FILE_SIZE_SIGNAL_H_
