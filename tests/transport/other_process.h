// SPDX-License-Identifier: Apache-2.0
// A server in another process, which a test may kill or freeze.
#ifndef TENON_TESTS_TRANSPORT_OTHER_PROCESS_H_
#define TENON_TESTS_TRANSPORT_OTHER_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/transport/tested.h"

namespace tenon::transport_testing {

class OtherProcess {
 public:
  OtherProcess(const std::string& transport, const std::string& address) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    std::string program = "/proc/self/exe", serve = "--serve", name = transport, where = address;
    char* arguments[] = {program.data(), serve.data(), name.data(), where.data(), nullptr};
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    char byte = 0;
    while (read(output[0], &byte, 1) == 1 && byte != '\n') address_ += byte;  // ends with the process
    close(output[0]);
  }
  ~OtherProcess() {
    if (process_ <= 0) return;
    kill(process_, SIGCONT);
    close(input_);
    if (!killed_) {
      int status = 0;
      waitpid(process_, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process ended with " << status;
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const std::string& address() const { return address_; }
  void Kill() {
    killed_ = true;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  // When it returns the process stands still.
  void Freeze() {
    kill(process_, SIGSTOP);
    int status = 0;
    waitpid(process_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void Thaw() { kill(process_, SIGCONT); }

 private:
  pid_t process_ = -1;
  int input_ = -1;
  bool killed_ = false;
  std::string address_;
};

}  // namespace tenon::transport_testing

#endif  // TENON_TESTS_TRANSPORT_OTHER_PROCESS_H_
