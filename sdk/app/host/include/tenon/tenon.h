// SPDX-License-Identifier: Apache-2.0
// Tenon for C++ applications: a thin, header-only face over the C API of app.h.
//
// The idea: objects own what the C API gives them, and a failure is a value. No function throws, aborts or blocks
// longer than the C function that it calls; a program compiled without exceptions can use everything here.
//
//   using namespace tenon::host;
//   Result<Runtime> runtime = Runtime::Create();          // finds and loads the plugins
//   if (!runtime.ok()) return Fail(runtime.status());
//   Graph graph(*runtime);
//   Output x = graph.Placeholder("x", DType::kFloat, {-1, 3});
//   Output y = graph.Op("Relu", {graph.Op("MatMul", {x, w}, {{"transpose_b", true}})});
//   Result<Session> session = Session::Create(*runtime, graph);
//   Result<std::vector<Tensor>> values = session->Run({{x, batch}}, {y});
//
// Rules. Building a graph has no error at each line: the first failure sticks to the graph (Graph::status()), later
// nodes are not added, and a session refuses the graph with that status. Everything else returns Status or Result<T>.
// Objects are movable handles. A runtime must outlive its graphs and sessions, a session its callables.
// Threads: as app.h says; different objects may be used from different threads, one graph from one thread at a time.
#ifndef TENON_TENON_H_
#define TENON_TENON_H_

#include "tenon/host/attr.h"     // IWYU pragma: export
#include "tenon/host/calibration.h"  // IWYU pragma: export
#include "tenon/host/control_flow.h"  // IWYU pragma: export
#include "tenon/host/dtype.h"    // IWYU pragma: export
#include "tenon/host/element_functions.h"  // IWYU pragma: export
#include "tenon/host/files.h"    // IWYU pragma: export
#include "tenon/host/function.h"  // IWYU pragma: export
#include "tenon/host/graph.h"    // IWYU pragma: export
#include "tenon/host/map_function.h"  // IWYU pragma: export
#include "tenon/host/partial_run.h"  // IWYU pragma: export
#include "tenon/host/runtime.h"  // IWYU pragma: export
#include "tenon/host/session.h"  // IWYU pragma: export
#include "tenon/host/status.h"   // IWYU pragma: export
#include "tenon/host/tensor.h"   // IWYU pragma: export
#include "tenon/host/worker.h"   // IWYU pragma: export

#endif  // TENON_TENON_H_
