// SPDX-License-Identifier: Apache-2.0
// Cube's kernel, run from the built library without an engine. Any test framework will do; this one needs none.
//   cube_test build/lib/tenon/plugins/tenon_cube.so
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/library.h"

using namespace tenon::testing;  // NOLINT(google-build-using-namespace): a program of its own

template <class T>
static void Cubes(const tenon_kernel_package& kernels, bool in_place) {
  KernelCase cube(kernels, "Cube", tenon::sdk::DtypeOf<T>::value);
  if (in_place) cube.InPlace(0);
  const Result y = cube.Run({Make<T>({2, 2}, {1, 2, -3, 0.5})}, {Out<T>({2, 2})});
  if (ExpectEq(y.text(), "")) ExpectEq(Values<T>(y[0]), (std::vector<T>{1, 8, -27, 0.125}));
}

int main(int argument_count, char** arguments) {
  const std::vector<Failure> failures = FailuresOf([&] {
    if (!Expect(argument_count == 2, "usage: cube_test LIBRARY")) return;
    const Library library(arguments[1]);
    const Loaded loaded(library);
    const auto* kernels = library.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS);
    if (!Expect(kernels != nullptr, "the library has kernels")) return;
    for (bool in_place : {false, true}) {
      Cubes<float>(*kernels, in_place);
      Cubes<double>(*kernels, in_place);
    }
  });
  for (const Failure& f : failures) std::fprintf(stderr, "%s:%d: %s\n", f.file.c_str(), f.line, f.text.c_str());
  return failures.empty() ? 0 : 1;
}
