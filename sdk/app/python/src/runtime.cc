// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "interrupt.h"
#include "text.h"

namespace tenon::python {
namespace {

nb::dict FromOp(const tenon_op_info& info) {
  nb::dict op;
  op["name"] = ToStr(info.name);
  op["plugin"] = ToStr(info.plugin);
  op["inputs"] = ToStr(info.inputs);
  op["outputs"] = ToStr(info.outputs);
  op["attrs"] = ToStr(info.attrs);
  op["doc"] = ToStr(info.doc);
  op["properties"] = ToStr(info.properties);
  op["stateful"] = (info.traits & TENON_OP_STATEFUL) != 0;
  op["has_gradient"] = info.has_gradient != 0;
  return op;
}

nb::dict FromDevice(const tenon_device_info& info) {
  nb::dict device;
  device["name"] = ToStr(info.name);
  device["type"] = ToStr(info.type);
  device["plugin"] = ToStr(info.plugin);
  device["model"] = ToStr(info.model);
  device["problem"] = ToStr(info.problem);
  device["memory_bytes"] = info.memory_bytes;
  device["memory_kinds"] = ToStr(info.memory_kinds);
  device["dlpack"] = nb::make_tuple(info.dl_device_type, info.dl_device_id);
  return device;
}

nb::dict FromReport(const tenon_load_report& info) {
  constexpr const char* kOutcomes[] = {"loaded", "rejected", "not chosen", "already", "unloaded"};
  nb::dict report;
  report["path"] = ToStr(info.path);
  report["id"] = ToStr(info.id);
  report["version"] = ToStr(info.version);
  report["outcome"] = info.outcome < std::size(kOutcomes) ? kOutcomes[info.outcome] : "unknown";
  report["reason"] = ToStr(info.reason);
  report["text"] = ToStr(info.text);
  report["missing"] = ToStr(info.missing);
  report["hint"] = ToStr(info.hint);
  report["ops"] = info.op_count;
  report["kernels"] = info.kernel_count;
  report["devices"] = info.device_count;
  return report;
}

template <typename Info>
nb::list ListOf(const std::vector<Info>& infos, nb::dict (*from)(const Info&)) {
  nb::list list;
  for (const Info& info : infos) list.append(from(info));
  return list;
}

RuntimeBox MakeRuntime(const std::vector<std::string>& plugins,
                       const std::map<std::string, std::map<std::string, std::string>>& options, bool search,
                       uint32_t threads, uint32_t log_level, const std::string& task,
                       const std::string& tuning_folder) {
  host::RuntimeOptions c_options;
  c_options.plugins = plugins;
  for (const auto& [plugin, pairs] : options)
    for (const auto& [key, value] : pairs) c_options.plugin_options.push_back({plugin, key, value});
  c_options.search = search;
  c_options.threads = threads;
  c_options.log_level = log_level;
  c_options.task = task;
  c_options.tuning_folder = tuning_folder;
  const WithoutLock unlocked;
  return {ReleasedWithoutLock(Take(host::Runtime::Create(c_options)))};
}

host::Runtime& Mutable(const RuntimeBox& box) {
  return const_cast<host::Runtime&>(*box.runtime);
}  // whose calls lock for themselves

}  // namespace

void BindRuntimes(nb::module_& module) {
  nb::class_<RuntimeBox>(module, "RuntimeBase", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](RuntimeBox* self, const std::vector<std::string>& plugins, nb::dict options, bool search, uint32_t threads,
             uint32_t log_level, const std::string& task, const std::string& tuning_folder) {
            std::map<std::string, std::map<std::string, std::string>> pairs;
            for (const auto& [plugin, given] : options)
              for (const auto& [key, value] : nb::cast<nb::dict>(given))
                pairs[nb::cast<std::string>(plugin)][nb::cast<std::string>(key)] =
                    nb::cast<std::string>(nb::str(value));
            new (self) RuntimeBox(MakeRuntime(plugins, pairs, search, threads, log_level, task, tuning_folder));
          },
          nb::arg("plugins"), nb::arg("options"), nb::arg("search"), nb::arg("threads"), nb::arg("log_level"),
          nb::arg("task"), nb::arg("tuning_folder"))
      .def(
          "load_plugin",
          [](const RuntimeBox& self, const std::string& path) {
            const WithoutLock unlocked;
            Check(Mutable(self).LoadPlugin(path));
          },
          nb::arg("path"), "Loads one more plugin, by a path with a slash.")
      .def(
          "unload_plugin",
          [](const RuntimeBox& self, const std::string& id) {
            const WithoutLock unlocked;
            Check(Mutable(self).UnloadPlugin(id));
          },
          nb::arg("id"), "Takes out what the plugin brought; an error says what of it is still in use.")
      .def("_open_all",
           [](const RuntimeBox& self) {
             const WithoutLock unlocked;
             Mutable(self).OpenAll();
           })
      .def("_devices",
           [](const RuntimeBox& self) {
             std::vector<tenon_device_info> devices;
             {
               const WithoutLock unlocked;
               devices = self.runtime->Devices();
             }
             return ListOf(devices, &FromDevice);
           })
      .def("_ops", [](const RuntimeBox& self) { return ListOf(self.runtime->Ops(), &FromOp); })
      .def("_reports", [](const RuntimeBox& self) { return ListOf(self.runtime->Reports(), &FromReport); })
      .def(
          "_find_op",
          [](const RuntimeBox& self, const std::string& name) {
            tenon_op_info info;
            {
              const WithoutLock unlocked;
              info = Take(self.runtime->FindOp(name));
            }
            return FromOp(info);
          },
          nb::arg("name"));
  module.def("version", [] { return std::string(host::Version()); }, "The version of libtenon.");
  module.def("_after_fork", &AfterFork);
}

}  // namespace tenon::python
