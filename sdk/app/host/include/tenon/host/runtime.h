// SPDX-License-Identifier: Apache-2.0
// A runtime: the loaded plugins, and what they brought.
//
// Creating one finds the installed plugins. One that was found and cannot be used is no failure of the runtime: the
// load reports say what was rejected, why, and what to do.
//
// Texts in reports and infos are borrowed from the runtime: those of Reports(), Kernels() and Devices() until the same
// is asked again, by whatever thread; those of ops until their plugin is unloaded. All else may be called from several
// threads at once. A runtime outlives its graphs, sessions, workers and files.
#ifndef TENON_HOST_RUNTIME_H_
#define TENON_HOST_RUNTIME_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/host/status.h"

namespace tenon::host {

// An option of a plugin: {"tenon.cpu", "key", "value"}.
struct PluginOption {
  std::string plugin;
  std::string key;
  std::string value;
};

struct RuntimeOptions {
  std::vector<std::string> plugins;  // files to load besides those found
  std::vector<PluginOption> plugin_options;
  bool search = true;      // false: load nothing but `plugins`
  uint32_t threads = 0;    // of a step, the caller's included; 0: as many as cores
  uint32_t log_level = 0;  // TENON_LOG_* + 1, what is below is not written; 0: warnings
  std::string task;        // that this process is in a cluster, "/job:worker/task:1"
  // where kernels keep what they find out, for later processes; this user's alone, 4,096 files at most, of which the
  // oldest go. Empty: nowhere
  std::string tuning_folder;
};

// Whether the op says a property of itself ("Properties" in tenon/op.h), whatever it names beside: Says(op,
// "elementwise").
inline bool Says(const tenon_op_info& op, std::string_view property) {
  std::string_view rest = Text(op.properties);
  while (!rest.empty()) {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" ,")));
    const std::string_view term = rest.substr(0, rest.find_first_of(" ,("));
    if (term == property) return true;
    const bool has_names = term.size() < rest.size() && rest[term.size()] == '(';
    rest.remove_prefix(std::min(rest.size(), has_names ? rest.find(')') : term.size()));
    rest.remove_prefix(std::min<size_t>(rest.size(), has_names ? 1 : 0));
  }
  return false;
}

class Runtime {
 public:
  // Of the packages found only manifests are read: each is opened when something of it is first asked for. What
  // RuntimeOptions::plugins names is opened at once, and so is a package that has options; what is wrong with one of
  // them is the failure of this.
  static Result<Runtime> Create(const RuntimeOptions& options = {}) {
    std::vector<tenon_span> plugins;
    for (const std::string& path : options.plugins) plugins.push_back(Span(path));
    std::vector<tenon_plugin_option> plugin_options;
    for (const PluginOption& option : options.plugin_options) {
      plugin_options.push_back({Span(option.plugin), Span(option.key), Span(option.value)});
    }
    tenon_runtime_options c_options = {};
    c_options.struct_size = sizeof(c_options);
    c_options.plugins = plugins.data();
    c_options.plugin_count = plugins.size();
    c_options.plugin_options = plugin_options.data();
    c_options.plugin_option_count = plugin_options.size();
    c_options.no_search = options.search ? 0 : 1;
    c_options.threads = options.threads;
    c_options.log_level = options.log_level;
    c_options.task = Span(options.task);
    c_options.tuning_folder = Span(options.tuning_folder);
    tenon_runtime* runtime = nullptr;
    TENON_TRY(Status::Take(tenon_runtime_create(&c_options, &runtime)));
    return Runtime(runtime);
  }

  // One that was made through C, and stays its owner's, who outlives this.
  static Runtime Borrow(tenon_runtime* runtime) { return Runtime(runtime, false); }

  tenon_runtime* get() const { return runtime_.get(); }

  // A path with a slash. Failing, it says why the plugin was rejected; the load report says more.
  Status LoadPlugin(std::string_view path) { return Status::Take(tenon_runtime_load_plugin(get(), Span(path))); }
  // One of the application itself, without a file (tenon_runtime_add_plugin); it lives as long as the runtime.
  Status AddPlugin(const tenon_plugin& plugin) { return Status::Take(tenon_runtime_add_plugin(get(), &plugin)); }
  // Every package that was found; what cannot be opened is in the reports.
  void OpenAll() { tenon_runtime_open_all(get()); }
  // Takes its ops, kernels and devices out; id: "tenon.cpu". FAILED_PRECONDITION says what of it is still in use:
  // kernels of sessions, open files, variables. The library stays mapped.
  Status UnloadPlugin(std::string_view id) { return Status::Take(tenon_runtime_unload_plugin(get(), Span(id))); }

  // One for each file that was looked at, usable or not.
  std::vector<tenon_load_report> Reports() const {
    return All<tenon_load_report>(tenon_runtime_report_count, tenon_runtime_report);
  }
  // Of the packages that are open: OpenAll() first for a whole list. Sorted by name.
  std::vector<tenon_op_info> Ops() const { return All<tenon_op_info>(tenon_runtime_op_count, tenon_runtime_op); }
  std::vector<tenon_kernel_info> Kernels() const {
    return All<tenon_kernel_info>(tenon_runtime_kernel_count, tenon_runtime_kernel);
  }
  // Opens the packages that bring devices.
  std::vector<tenon_device_info> Devices() const {
    return All<tenon_device_info>(tenon_runtime_device_count, tenon_runtime_device);
  }
  // NOT_FOUND names near misses.
  Result<tenon_op_info> FindOp(std::string_view name) const {
    tenon_op_info info = {};
    info.struct_size = sizeof(info);
    TENON_TRY(Status::Take(tenon_runtime_find_op(get(), Span(name), &info)));
    return info;
  }

 private:
  struct Releaser {
    void operator()(tenon_runtime* runtime) const {
      if (owned) tenon_runtime_release(runtime);
    }
    bool owned = true;
  };
  explicit Runtime(tenon_runtime* runtime, bool owned = true) : runtime_(runtime, Releaser{owned}) {}

  template <typename Info>
  std::vector<Info> All(uint64_t (*count)(const tenon_runtime*),
                        tenon_status* (*get_one)(const tenon_runtime*, uint64_t, Info*)) const {
    std::vector<Info> infos;
    const uint64_t number = count(get());
    for (uint64_t i = 0; i < number; ++i) {
      Info info = {};
      info.struct_size = sizeof(info);
      if (Status::Take(get_one(get(), i, &info)).ok()) infos.push_back(info);
    }
    return infos;
  }

  std::unique_ptr<tenon_runtime, Releaser> runtime_;
};

// The version of libtenon, "0.1.0".
inline std::string_view Version() { return Text(tenon_version()); }

}  // namespace tenon::host

#endif  // TENON_HOST_RUNTIME_H_
