// SPDX-License-Identifier: Apache-2.0
// A program of somebody who has a wheel and no other Tenon: prints the version of the library that it runs with, and
// how many devices it finds.
#include <cstdio>

#include "tenon/model.h"
#include "tenon/tenon.h"

int main() {
  const tenon::host::Result<tenon::host::Runtime> runtime = tenon::host::Runtime::Create();
  if (!runtime.ok()) return 1;
  std::printf("%s %zu\n", std::string(tenon::host::Version()).c_str(), runtime->Devices().size());
  return 0;
}
