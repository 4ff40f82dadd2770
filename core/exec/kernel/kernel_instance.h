// SPDX-License-Identifier: Apache-2.0
// KernelInstance: a kernel of one node. KernelStore: those of a session that are stateful, which its plans share.
#ifndef TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_
#define TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/exec/kernel/kernel_registry.h"
#include "core/base/live_objects.h"

namespace tenon::exec {

struct Environment;
struct SessionDevice;

class KernelInstance {
 public:
  // device: that the node is placed on; nullptr: none.
  // UNIMPLEMENTED: the kernel does not take the node.
  static Result<std::shared_ptr<KernelInstance>> Create(const graph::Node& node, KernelEntry entry,
                                                        const Environment& env, const SessionDevice* device);
  ~KernelInstance();
  KernelInstance(const KernelInstance&) = delete;
  KernelInstance& operator=(const KernelInstance&) = delete;

  const tenon_kernel_registration& registration() const { return *entry_.registration; }
  const std::string& plugin() const { return entry_.plugin(); }
  tenon_kernel* state() const { return state_; }
  bool has(uint32_t trait) const { return (entry_.registration->traits & trait) != 0; }
  // Whether the kernel allocates output k.
  bool dynamic_output(size_t k) const { return IsDynamicOutput(registration(), k); }

 private:
  explicit KernelInstance(KernelEntry entry) : entry_(std::move(entry)), live_(entry_.plugin()) {}
  // What every run reads stands first, together.
  const KernelEntry entry_;
  tenon_kernel* state_ = nullptr;
  bool made_ = false;  // state_ is the kernel's to destroy
  const LiveObject live_;
  std::vector<std::unique_ptr<LiveObject>> used_;  // other plugins, whose tables it was given
};

// Any thread.
class KernelStore {
 public:
  Result<std::shared_ptr<KernelInstance>> Get(const graph::Node& node, const KernelEntry& entry, const Environment& env,
                                              const SessionDevice* device);
  void Clear();

 private:
  std::mutex mutex_;
  struct Key {
    std::string node;  // its StateName
    const tenon_kernel_registration* registration;
    tenon_device* device;
    auto operator<=>(const Key&) const = default;
  };
  // A kernel was made for what its node says: one that says something else, whatever its name, has one of its own.
  struct Kept {
    const graph::OpDef* op;
    graph::AttrMap attrs;
    std::vector<DType> input_types, output_types;
    std::shared_ptr<KernelInstance> kernel;
  };
  std::map<Key, std::vector<Kept>> kernels_;
};

// Runs the kernel. What it throws becomes a status, and updates of variables that it had begun end.
tenon_status* CallRun(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_KERNEL_INSTANCE_H_
