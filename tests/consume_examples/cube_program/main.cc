// SPDX-License-Identifier: Apache-2.0
// Cubes two numbers and prints the cubes, then their derivatives. The argument is the plugin's path.
#include <cstdio>

#include "cube_ops.h"
#include "tenon/data/npz.h"
#include "tenon/data/number_text.h"
#include "tenon/ops.h"

using namespace tenon::host;

Status Run(const char* plugin) {
  RuntimeOptions options;
  options.plugins = {plugin};
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create(options));
  Graph graph(runtime);
  Output x = graph.Const({2.0f, -3.0f});
  Output y = tenon::ops::Cube(graph, x);
  Output same = tenon::ops::Identity(graph, y);  // of tenon/ops.h: both headers go together
  const std::vector<Gradient> gradients = graph.Gradients({y}, {x});
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run({}, {same, gradients[0].dense}));
  for (const Tensor& value : values) std::printf("%g %g\n", value.data<float>()[0], value.data<float>()[1]);
  std::printf("%s\n",
              tenon::data::FormatCount(1234567).c_str());  // of the data library, which the training library brings
  if (!tenon::data::ParseNpz("").ok()) std::printf("no archive\n");  // which needs zlib
  return Status();
}

int main(int argc, char** argv) {
  const Status status = Run(argc > 1 ? argv[1] : "");
  if (!status.ok()) std::fprintf(stderr, "cube_program: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
