// SPDX-License-Identifier: Apache-2.0
// Asks for the gradient of the op of the plugin that is named, and prints how it went: "OK", or the error, with
// status 1.
#include <cstdio>

#include "tenon/tenon.h"

int main(int argc, char** argv) {
  using namespace tenon::host;  // NOLINT: a program
  if (argc != 2) return 2;
  RuntimeOptions options;
  options.plugins.emplace_back(argv[1]);
  const Result<Runtime> runtime = Runtime::Create(options);
  if (!runtime.ok()) {
    std::printf("%s\n", runtime.status().ToString().c_str());
    return 1;
  }
  Graph graph(*runtime);
  const Output x = graph.Placeholder("x", DType::kFloat);
  const Output y = graph.Op("Wrong", {x}, {}, "y");
  graph.Gradients({y}, {x});
  std::printf("%s\n", graph.status().ToString().c_str());
  return graph.status().ok() ? 0 : 1;
}
