// SPDX-License-Identifier: Apache-2.0
// Cube's kernel, run from the built library without an engine. Any test framework will do; this one needs none.
//   cube_test build/lib/tenon/plugins/tenon_cube.so
#include "tenon/testing/kernel_case.h"
#include "tenon/testing/library.h"
#include "tenon/testing/property_trial.h"

using namespace tenon::testing;  // NOLINT(google-build-using-namespace): a program of its own

template <class T>
static void Cubes(const tenon_kernel_package& kernels, bool in_place) {
  KernelCase cube(kernels, "Cube", tenon::sdk::DtypeOf<T>::value);
  if (in_place) cube.InPlace(0);
  const Result y = cube.Run({Make<T>({2, 2}, {1, 2, -3, 0.5})}, {Out<T>({2, 2})});
  if (ExpectEq(y.text(), "")) ExpectEq(Values<T>(y[0]), (std::vector<T>{1, 8, -27, 0.125}));
}

// What the definition says of the op, which passes and compilers rely on, is what the kernel does.
static void SaysWhatIsSo(const tenon_op_definition& cube, const tenon_kernel_package& kernels) {
  const auto run = [&](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
    Result y = KernelCase(kernels, "Cube", TENON_DT_FLOAT).Run(in, {Out<float>(in[0].dims)});
    return y.text().empty() ? std::optional(y.outputs) : std::nullopt;
  };
  PropertyTrial trial({.inputs = View(cube.inputs), .properties = View(cube.properties)},
                      {Make<float>({2, 3}, {1, 2, -3, 0.5f, 7, -11})}, run);
  Expect(trial.ok(), "it runs");
  ExpectEq(trial.Try(), "");
}

int main(int argument_count, char** arguments) {
  const std::vector<Failure> failures = FailuresOf([&] {
    if (!Expect(argument_count == 2, "usage: cube_test LIBRARY")) return;
    const Library library(arguments[1]);
    const Loaded loaded(library);
    const auto* kernels = library.Capability<tenon_kernel_package>(TENON_CAPABILITY_KERNELS);
    if (!Expect(kernels != nullptr, "the library has kernels")) return;
    const auto* ops = library.Capability<tenon_op_package>(TENON_CAPABILITY_OPS);
    if (!Expect(ops != nullptr && ops->count == 1, "the library has one op")) return;
    SaysWhatIsSo(*ops->definitions[0], *kernels);
    for (bool in_place : {false, true}) {
      Cubes<float>(*kernels, in_place);
      Cubes<double>(*kernels, in_place);
    }
  });
  for (const Failure& f : failures) std::fprintf(stderr, "%s:%d: %s\n", f.file.c_str(), f.line, f.text.c_str());
  return failures.empty() ? 0 : 1;
}
