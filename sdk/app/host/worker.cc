// SPDX-License-Identifier: Apache-2.0
// The workers of app.h.
#include "net/cluster/worker.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/place/device_name.h"
#include "sdk/app/host/objects.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace

namespace {
constexpr uint64_t kUsualMessageBytes = uint64_t{4} << 30;  // what a transport takes for 0
}

struct tenon_worker {
  std::unique_ptr<cluster::Worker> worker;
};

extern "C" {

tenon_status* tenon_worker_start(tenon_runtime* runtime, const tenon_worker_options* options,
                                 tenon_worker** out_worker) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, options, out_worker);
    tenon_worker_options known;
    TENON_RETURN_IF_ERROR(host::ReadOptions(options, &known));
    cluster::WorkerOptions core;
    core.task = runtime->runtime.task();
    for (uint64_t i = 0; i < known.task_count; ++i) {
      cluster::Task& task = core.tasks.emplace_back();
      TENON_ASSIGN_OR_RETURN(*task.mutable_name(), place::TaskName(View(known.tasks[i].name)));
      task.set_address(cluster::WithScheme(View(known.tasks[i].address)));
    }
    core.listen = View(known.listen);
    core.credentials = View(known.credentials);
    if (known.max_sessions != 0) core.max_sessions = known.max_sessions;
    core.memory_limit = known.memory_limit;
    core.max_message_bytes = known.max_message_bytes;
    // What comes lies in the transport's memory, where a limit of the worker's does not see it: no message has more
    // than all may have.
    if (core.max_message_bytes == 0 && core.memory_limit != 0)
      core.max_message_bytes = std::min(core.memory_limit, kUsualMessageBytes);
    runtime->OpenDevices();
    auto started = cluster::Worker::Start(
        &runtime->runtime, [runtime](const std::string& scheme) { return runtime->FindTransport(scheme); },
        std::move(core));
    if (started.status().code() == Code::kNotFound)
      return NotFound(StrCat(started.status().message(), runtime->RefusedDevices()));
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<cluster::Worker> worker, std::move(started));
    *out_worker = new tenon_worker{std::move(worker)};
    return Status::Ok();
  });
}

tenon_span tenon_worker_address(const tenon_worker* worker) {
  return worker == nullptr ? tenon_span{"", 0} : Span(worker->worker->address());
}

tenon_status* tenon_worker_stop(tenon_worker* worker, uint64_t timeout_ns) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(worker);
    const uint64_t now = NowNs();
    return worker->worker->Stop(now + std::min(timeout_ns, UINT64_MAX - now));
  });
}

tenon_status* tenon_worker_metrics(const tenon_worker* worker, tenon_text** out_json) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(worker, out_json);
    *out_json = new tenon_text{worker->worker->Metrics()};
    return Status::Ok();
  });
}

void tenon_worker_release(tenon_worker* worker) { delete worker; }

}  // extern "C"
