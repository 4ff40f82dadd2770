// SPDX-License-Identifier: Apache-2.0
// Prints what the search takes from the environment; a test runs it with raised privileges. Exit code 3: they are not.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>

#include "plugins/search.h"

int main(int count, char**) {
  if (count > 1 && getauxval(AT_SECURE) == 0) return 3;
  std::printf("[%s]", tenon::plugins::PathFromEnvironment().c_str());
  std::fflush(stdout);
  _exit(0);  // without what runs at exit: a leak check may not look into a process with raised privileges
}
