// SPDX-License-Identifier: Apache-2.0
// What stands behind the opaque objects of app.h.
#ifndef TENON_SDK_HOST_OBJECTS_H_
#define TENON_SDK_HOST_OBJECTS_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/plugin_call.h"
#include "core/graph/graph.h"
#include "core/session/partial_run.h"
#include "core/session/runtime.h"
#include "core/session/session.h"
#include "plugins/loader.h"
#include "sdk/app/host/read_options.h"
#include "tenon/app.h"

namespace tenon {
namespace cluster {
class Master;
}
namespace exec {
struct Device;
}
namespace graph {
class Builder;
}
}  // namespace tenon

struct tenon_text {
  std::string text;
};

struct tenon_tensor {
  explicit tenon_tensor(tenon::Tensor value, const tenon::exec::Device* in = nullptr);
  std::atomic<int64_t> references{1};
  const tenon::Tensor tensor;
  const tenon::exec::Device* const device;  // whose memory it lies in; nullptr: the host's
  tenon_tensor_view view;
};

struct tenon_cancellation {
  std::shared_ptr<tenon::Cancellation> cancellation = std::make_shared<tenon::Cancellation>();
};

struct tenon_runtime {
  tenon_runtime(const tenon_host* host, tenon::plugins::LoaderOptions loader_options, uint32_t threads);
  ~tenon_runtime();
  // Opens the packages that provide an op (or kernels of it, or a device) and registers them.
  void OpenForOp(std::string_view op);
  void OpenForKernels(std::string_view op);
  void OpenDevices();
  // Whether the package has devices, and kernels of them, only if its option "devices" says so, which nobody set.
  bool IsIdle(const tenon::plugins::Manifest& manifest) const;
  // Packages of passes that are about one of these ops.
  void OpenForPasses(const std::set<std::string_view>& ops);
  // What a device that is not there may be missing for: " (refused: ...)" of packages that bring devices; empty: none
  // was.
  std::string RefusedDevices() const;
  // The package of that id, if there is one.
  void OpenById(const std::string& id);
  // The transport of a scheme, its package opened: "tenon.net.SCHEME", or else every one that brings transports.
  tenon::Result<tenon::session::Runtime::Transport> FindTransport(const std::string& scheme);
  // The package named for the scheme ("tenon.files.SCHEME"), or else every one that brings file systems.
  void OpenForFilesystem(std::string_view scheme);
  void OpenThoseWith(std::string_view capability);
  void OpenPackage(const std::string& id);
  void NoteOps(const tenon::plugins::Manifest& manifest, std::string_view why);
  void NoteRefused();
  tenon::Status OpenFile(const std::string& path);
  tenon::Status AddPlugin(const tenon_plugin& plugin);
  // The package of that id, which somebody asked for by its name; why it cannot be had is an error.
  tenon::Status OpenNamed(const std::string& id);
  void Warn(const std::string& text) const;
  void WarnRefused(const tenon::plugins::LoadReport& report);
  // Of refused packages whose manifests `needs` says something is needed of.
  template <typename Needs>
  void WarnOfRefused(Needs needs);
  // Registers what the loader opened; a failure becomes the package's report.
  tenon::Status Register(const tenon::plugins::OpenResult& opened);
  // what the caller asked for, which no package need know
  tenon::Status RegisterNamed(const tenon::plugins::OpenResult& opened);
  tenon::plugins::OptionList OptionsFor(std::string_view id) const;
  std::vector<tenon::plugins::LoadReport> Reports() const;

  tenon::plugins::Loader loader;
  tenon::session::Runtime runtime;
  std::vector<std::array<std::string, 3>> options;  // plugin, key, value
  mutable std::recursive_mutex mutex;
  std::set<std::string, std::less<>> opened;         // package ids that were tried
  std::set<std::string, std::less<>> opened_ops, opened_kernels;
  std::set<std::string, std::less<>> warned;         // paths of refused packages
  std::map<std::string, tenon::plugins::LoadReport> failures;  // of registering, by path
  // What spans given out point into.
  struct Lists;
  const std::unique_ptr<Lists> lists;
};

struct tenon_app_graph {
  explicit tenon_app_graph(tenon_runtime* owner);
  ~tenon_app_graph();
  tenon_runtime* runtime;
  tenon::graph::Graph graph;
  const std::unique_ptr<tenon::graph::Builder> builder;
  const tenon_app_graph* outer = nullptr;  // of a function's body: the graph whose functions it knows too
  // The library as a list, made when it is asked for; empty: not made since the library changed.
  mutable std::vector<std::shared_ptr<const tenon::graph::FunctionDef>> functions;
  // Lives as long as the graph.
  tenon_shape Lend(tenon::Shape shape) {
    const auto known = std::find(lent.begin(), lent.end(), shape);
    return (known == lent.end() ? lent.emplace_back(std::move(shape)) : *known).c();
  }
  std::list<tenon::Shape> lent;
};

struct tenon_session {
  tenon_runtime* runtime;
  std::shared_ptr<tenon::cluster::Master> master;  // nullptr: the steps run in this process
  std::shared_ptr<tenon::session::Session> session;
};

struct tenon_callable {
  std::shared_ptr<tenon::session::Callable> callable;
  std::shared_ptr<tenon::session::Session> session;
};

struct tenon_partial_run {
  std::unique_ptr<tenon::session::PartialRun> partial;
};

namespace tenon::host {

// Fills a caller's struct as far as it knows it.
template <typename T>
tenon_status* WriteOut(const T& value, T* out) {
  const size_t size = out->struct_size == 0 ? sizeof(T) : std::min<size_t>(out->struct_size, sizeof(T));
  std::memcpy(static_cast<void*>(out), &value, size);
  out->struct_size = static_cast<uint32_t>(size);
  return nullptr;
}

inline std::vector<std::string_view> Names(const tenon_span* names, uint64_t count) {
  std::vector<std::string_view> out;
  for (uint64_t i = 0; i < count; ++i) out.push_back(View(names[i]));
  return out;
}

// Of a body's graph: takes the functions that the node names from the graphs around it.
Status TakeFunctions(tenon_app_graph* graph, const tenon_node_spec& spec);

// Runs a function of ours; what it throws (memory) becomes a status.
template <typename Function>
tenon_status* Guard(Function function) {
  try {
    return function().release();
  } catch (const std::system_error& error) {  // of threads
    return ResourceExhausted(StrCat("the system refused: ", error.what())).release();
  } catch (...) {
    return EngineThrew().release();
  }
}

}  // namespace tenon::host

#endif  // TENON_SDK_HOST_OBJECTS_H_
