// SPDX-License-Identifier: Apache-2.0
// Which ops are known, who brought each, and which op plays which role.
//
// Definitions are never freed once registered (graphs point at them); unregistering a package hides them.
// Thread-safe. Registering the same definition twice is accepted; a different one is refused naming both plugins; one
// that only adds attributes with defaults is compatible, and the larger wins.
#ifndef TENON_CORE_GRAPH_OP_REGISTRY_H_
#define TENON_CORE_GRAPH_OP_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/graph/op_def.h"

namespace tenon::graph {

class OpRegistry {
 public:
  // Opens the package that has an op (empty: all packages with ops) when it is first asked for; may be called from any
  // thread that looks something up. Set before first use.
  using Opener = std::function<void(std::string_view op)>;
  void SetOpener(Opener opener) { opener_ = std::move(opener); }

  // Registers the ops of a package, or none where one is wrong. out_refused: those that differ from another package's
  // of the same name, which are left out, with what to say of them. A plugin that comes back is the same instance,
  // opened again.
  Status Register(const tenon_op_package& package, const std::shared_ptr<PluginInstance>& plugin,
                  std::map<std::string, std::string>* out_refused);
  // Registers gradients of ops that other packages define, or none where one is wrong or there already.
  Status RegisterGradients(const tenon_gradient_package& package, const std::shared_ptr<PluginInstance>& plugin);
  void Unregister(std::string_view plugin);

  // NOT_FOUND names near misses, and packages that are known to have the op.
  Result<const OpDef*> Find(std::string_view name) const;
  // nullptr when it is not there.
  const OpDef* FindOrNull(std::string_view name) const;
  // As FindOrNull, of packages that are open.
  const OpDef* FindOpened(std::string_view name) const;
  // The op that plays a role; the error names the role.
  Result<const OpDef*> FindRole(std::string_view role) const;
  // A gradient that another package than the op's brings; no function: there is none.
  struct GradientEntry {
    tenon_gradient_function gradient = nullptr;
    std::shared_ptr<PluginInstance> plugin;
  };
  GradientEntry FindGradient(std::string_view op) const;
  // Sorted by name.
  std::vector<const OpDef*> All() const;
  // A package that was found but is not loaded has this op (from its manifest), and what would help; used in errors.
  void NoteElsewhere(std::string_view op, std::string_view package, std::string_view help = "load that plugin");

 private:
  struct Entry {
    const OpDef* op = nullptr;
    std::vector<std::string> plugins;  // all that brought it
  };
  const OpDef* Lookup(std::string_view name) const;
  const OpDef* Keep(std::unique_ptr<OpDef> op);

  Opener opener_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> ops_;
  mutable std::map<std::string, const OpDef*, std::less<>> roles_;  // that were found; empty after each change of ops_
  std::map<std::string, std::string, std::less<>> elsewhere_;  // "package 'id' has it: help"
  std::multimap<std::string, std::unique_ptr<OpDef>, std::less<>> storage_;
  std::map<std::string, GradientEntry, std::less<>> gradients_;  // by op
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_OP_REGISTRY_H_
