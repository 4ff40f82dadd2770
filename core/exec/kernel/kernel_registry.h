// SPDX-License-Identifier: Apache-2.0
// Which kernels are known: by op, device type, label, type constraints and priority. Thread-safe.
#ifndef TENON_CORE_EXEC_KERNEL_KERNEL_REGISTRY_H_
#define TENON_CORE_EXEC_KERNEL_KERNEL_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/plugin_instance.h"
#include "core/graph/node.h"
#include "tenon/kernel.h"

namespace tenon::exec {

struct KernelEntry {
  const tenon_kernel_registration* registration = nullptr;
  std::shared_ptr<PluginInstance> instance;  // of the plugin, which its functions are called in

  const std::string& plugin() const { return instance->id(); }
};

// Whether the kernel allocates output k.
inline bool IsDynamicOutput(const tenon_kernel_registration& kernel, size_t k) {
  return ((kernel.dynamic_outputs >> (k < 63 ? k : 63)) & 1u) != 0;
}

class KernelRegistry {
 public:
  // Opens the packages with kernels of an op (empty: all) when they are first asked for. Set before first use.
  using Opener = std::function<void(std::string_view op)>;
  void SetOpener(Opener opener) { opener_ = std::move(opener); }

  // Registers all kernels of a package, or none where one is wrong; without those of the ops `left_out`.
  // op_of: the op of that name, where it is known by now; nullptr: it is not. What an op is not known for yet is
  // checked by Find.
  using OpOf = std::function<const graph::OpDef*(std::string_view name)>;
  Status Register(const tenon_kernel_package& package, const std::shared_ptr<PluginInstance>& plugin,
                  const std::map<std::string, std::string>& left_out = {}, const OpOf& op_of = {});
  void Unregister(std::string_view plugin);

  // The kernels that fit the node on a device type (those for any device too), highest priority first.
  std::vector<KernelEntry> Find(const graph::Node& node, std::string_view device_type) const;
  // Why none fits: device types and dtypes that there are for the op.
  Status NoKernel(const graph::Node& node, std::string_view device_type) const;
  // All, by op.
  std::vector<KernelEntry> All() const;
  // A package that is installed but not loaded has a kernel for this op.
  void NoteElsewhere(std::string_view op, std::string_view text);

 private:
  bool FitsItsOp(const graph::Node& node, const KernelEntry& entry) const;

  Opener opener_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<KernelEntry>, std::less<>> kernels_;
  std::multimap<std::string, std::string, std::less<>> elsewhere_;
  mutable std::set<const tenon_kernel_registration*> named_;  // that do not fit their op, of which the log speaks
};

// That what the kernel says of inputs, outputs and attributes is there in the op; counts of lists are the node's, not
// the op's.
Status CheckAgainst(const graph::OpDef& op, const tenon_kernel_registration& kernel);

// "T: float, double; Index: int32".
std::string DescribeConstraints(const tenon_kernel_registration& registration);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_KERNEL_REGISTRY_H_
