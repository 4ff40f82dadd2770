// SPDX-License-Identifier: Apache-2.0
// KernelInstance: a kernel of one node. KernelStore: those of a session that are stateful, which its plans share.
#ifndef TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_
#define TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/exec/kernel/kernel_registry.h"
#include "core/base/live_objects.h"

namespace tenon::exec {

struct Environment;

class KernelInstance {
 public:
  // device: that it will run on; NULL: none.
  static Result<std::shared_ptr<KernelInstance>> Create(const graph::Node& node, KernelEntry entry, const Environment& env,
                                                        tenon_device* device);
  ~KernelInstance();
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;

  const tenon_kernel_registration& registration() const { return *entry_.registration; }
  const std::string& plugin() const { return entry_.plugin; }
  tenon_kernel* state() const { return state_; }
  bool has(uint32_t trait) const { return (entry_.registration->traits & trait) != 0; }
  // Whether the kernel allocates output k.
  bool dynamic_output(size_t k) const { return IsDynamicOutput(registration(), k); }

 private:
  KernelInstance(KernelEntry entry, tenon_kernel* state) : live_(entry.plugin), entry_(std::move(entry)), state_(state) {}
  const LiveObject live_;
  KernelEntry entry_;
  tenon_kernel* state_;
};

// Any thread.
class KernelStore {
 public:
  Result<std::shared_ptr<KernelInstance>> Get(const graph::Node& node, const KernelEntry& entry, const Environment& env,
                                              tenon_device* device);
  void Clear();

 private:
  std::mutex mutex_;
  struct Key {
    std::string node;
    const tenon_kernel_registration* registration;
    tenon_device* device;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::shared_ptr<KernelInstance>> kernels_;
};

// Runs the kernel. What it throws becomes a status, and updates of variables that it had begun end.
tenon_status* CallRun(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_
