// SPDX-License-Identifier: Apache-2.0
// This process as a task of a cluster.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>

#include "interrupt.h"
#include "runtime.h"

namespace tenon::python {
namespace {

struct WorkerBox {
  std::shared_ptr<const host::Runtime> runtime;
  std::shared_ptr<host::Worker> worker;  // let go of before the runtime
};

std::shared_ptr<host::Worker> Live(const WorkerBox& self) {
  if (self.worker == nullptr) Fail(Code::kFailedPrecondition, "the worker has stopped");
  return self.worker;
}

}  // namespace

void BindWorkers(nb::module_& module) {
  using Tasks = std::vector<std::pair<std::string, std::string>>;
  nb::class_<WorkerBox>(module, "WorkerBase")
      .def(
          "__init__",
          [](WorkerBox* self, const RuntimeBox& runtime, const Tasks& given, const std::string& listen,
             const std::string& credentials, uint64_t sessions, uint64_t memory, uint64_t message_bytes) {
            std::vector<host::ClusterTask> tasks;
            for (const auto& [name, address] : given) tasks.push_back({name, address});
            const host::WorkerLimits limits{sessions, memory, message_bytes};
            const WithoutLock unlocked;
            new (self) WorkerBox{
                runtime.runtime,
                ReleasedWithoutLock(Take(host::Worker::Start(*runtime.runtime, tasks, listen, credentials, limits)))};
          },
          nb::arg("runtime"), nb::arg("tasks"), nb::arg("listen"), nb::arg("credentials"), nb::arg("max_sessions"),
          nb::arg("memory_limit"), nb::arg("max_message_bytes"))
      .def_prop_ro(
          "address", [](const WorkerBox& self) { return Live(self)->address(); },
          "Where it listens, with the port that the system chose.")
      .def("_metrics",
           [](const WorkerBox& self) {
             const auto worker = Live(self);
             const WithoutLock unlocked;
             return Take(worker->Metrics());
           })
      .def(
          "_stop",
          [](WorkerBox& self, double seconds) {
            const auto worker = std::move(self.worker);
            self.worker = nullptr;
            if (worker == nullptr) return;
            CallHistory history;
            Check(RunInterruptibly(history, [&](const host::Cancellation&) {
              return worker->Stop(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
            }));
          },
          nb::arg("seconds"));
}

}  // namespace tenon::python
