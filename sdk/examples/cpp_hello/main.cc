// SPDX-License-Identifier: Apache-2.0
// The smallest C++ program: loads the plugins, multiplies two matrices, says who did it.
#include <cstdio>
#include <vector>

#include "tenon/tenon.h"

using namespace tenon::host;

Status Hello() {
  TENON_TRY_ASSIGN(Runtime runtime, Runtime::Create());
  Graph graph(runtime);
  Output x = graph.Placeholder("x", DType::kFloat, {-1, 2});
  Output w = graph.Const(std::vector<float>{1, 2, 3, 4}, {2, 2});
  Output y = graph.Op("Relu", {graph.Op("MatMul", {x, w})}, {}, "y");
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph));

  const std::vector<float> batch = {1, 1, -1, 0};
  TENON_TRY_ASSIGN(const Callable step, session.Prepare({x}, {y}));
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, step.Run({View(batch, {2, 2})}));
  for (float value : values[0].data<float>()) std::printf("%g ", value);
  TENON_TRY_ASSIGN(const std::string how, step.Explain());
  std::printf("\nTenon %s\n%s\n", std::string(Version()).c_str(), how.c_str());
  return Status();
}

int main() {
  const Status status = Hello();
  if (!status.ok()) std::fprintf(stderr, "cpp_hello: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
