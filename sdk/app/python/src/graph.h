// SPDX-License-Identifier: Apache-2.0
// Python's graphs, with the ends of their edges and their nodes.
//
// A graph of Tenon's is one thread's at a time: each call here has the graph's lock, and whoever waits for it lets go
// of the interpreter's first. A failure is an exception, and the graph stays as it was. While the body of a function is
// built, the graph around it may not change.
#ifndef TENON_PYTHON_GRAPH_H_
#define TENON_PYTHON_GRAPH_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "errors.h"
#include "runtime.h"

namespace tenon::python {

struct GraphBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<GraphBox> around;  // of a body: its graph
  int bodies = 0;                    // that are built inside it now
  host::Graph graph;
  std::recursive_mutex mutex;

  GraphBox(std::shared_ptr<const host::Runtime> its_runtime, host::Graph its_graph)
      : runtime(std::move(its_runtime)), graph(std::move(its_graph)) {}
};

// Python's object, which its outputs and operations keep.
struct GraphHandle {
  std::shared_ptr<GraphBox> box;
};

// The graph's lock.
class Locked {
 public:
  explicit Locked(GraphBox& box) : lock_(box.mutex, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    const WithoutLock unlocked;
    lock_.lock();
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

// How many shape functions of Python's ops run in this thread: in the middle of a change to a graph, into which none
// may come.
inline thread_local int shape_functions = 0;

// Does something to a graph; what it says has failed is thrown, and forgotten by the graph.
template <typename Change>
auto Changed(GraphBox& box, const Change& change) {
  const Locked locked(box);
  if (shape_functions > 0)
    Fail(Code::kFailedPrecondition, "a shape function computes with shapes alone: while it runs no graph can change");
  if (box.bodies > 0)
    Fail(Code::kFailedPrecondition,
         "the graph cannot change while the body of one of its functions is built; a body gets values as arguments");
  auto made = change(box.graph);
  Check(box.graph.TakeStatus());
  return made;
}

struct OutputBox {
  nb::object graph;  // a GraphHandle's
  host::Output output;
  void VisitKept(const auto& visit) const { visit(graph); }
};
struct OperationBox {
  nb::object graph;
  host::Operation operation;
  void VisitKept(const auto& visit) const { visit(graph); }
};

GraphBox& BoxOf(nb::handle graph);
std::vector<host::Output> ToOutputs(nb::handle outputs);
// The name of a tensor, or of a node: of an Output, an Operation, or text.
std::string NameOfTensor(nb::handle value);

}  // namespace tenon::python

#endif  // TENON_PYTHON_GRAPH_H_
