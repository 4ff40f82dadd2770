// SPDX-License-Identifier: Apache-2.0
// Loader: finds plugin packages, opens them when they are first needed, and unloads them.
//
//   Loader loader(&host, options);
//   loader.Scan();                              // reads manifests; opens nothing
//   for (auto& package : loader.packages()) ... // what each provides
//   OpenResult opened = loader.Open("tenon.cpu");
//
// Rules. One bad library never stops the others: every attempt is a LoadReport. Of several variants of one package the
// best that this machine runs is taken. Nothing is opened that the checks before opening refuse. Unloading is logical:
// the library stays mapped, and opening it again reuses it. Threads: any, at the same time; but not from within a
// plugin's load() or unload(). The host table outlives the process's last use of any plugin, because libraries keep a
// pointer to it.
#ifndef TENON_PLUGINS_LOADER_H_
#define TENON_PLUGINS_LOADER_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "plugins/manifest.h"
#include "plugins/negotiate.h"
#include "plugins/report.h"
#include "plugins/search.h"
#include "plugins/trust.h"
#include "tenon/abi.h"

namespace tenon::plugins {

struct LoaderOptions {
  SearchOptions search;
  std::vector<std::string> disabled;  // package ids that are never opened
  // Two libraries with the same .proto end the process inside dlopen when they share the full libprotobuf.
  bool allow_protobuf = false;
  // Libraries that others than this user and root may write, or replace (trust.h).
  bool allow_untrusted = false;
};

// The system's plugin folder of this build.
std::string DefaultSystemFolder();

// A library that may be opened.
struct Package {
  std::string path;
  FileIdentity identity;
  FileStamp stamp;
  std::vector<std::string> needed, wanted;  // as in ElfSummary
  bool has_entry = false;
  std::optional<Manifest> manifest;  // nullopt only for a file that the caller named: open it with OpenFile()
  bool named = false;
  int rank = 0;
};

// A plugin between load() and unload().
class LoadedPlugin {
 public:
  LoadedPlugin(const tenon_plugin& descriptor, LoadReport report, FileIdentity identity)
      : descriptor_(descriptor), report_(std::move(report)), identity_(identity) {}
  const std::string& id() const { return report_.id; }
  const std::string& path() const { return report_.path; }
  const LoadReport& report() const { return report_; }
  const tenon_plugin* descriptor() const { return &descriptor_; }
  tenon_plugin_self* self() const { return self_; }
  // The table of a capability, or NULL. Some ids (ops, kernels) may occur several times: see descriptor().
  const void* Capability(std::string_view id) const;

 private:
  friend class Loader;
  tenon_plugin descriptor_;
  tenon_plugin_self* self_ = nullptr;
  LoadReport report_;
  FileIdentity identity_;
};

struct OpenResult {
  const LoadedPlugin* plugin = nullptr;  // NULL unless loaded or already loaded; lives until Unload()
  LoadReport report;
};

// Names of the objects of a plugin that still live; empty: none.
using LiveObjects = std::function<std::vector<std::string>()>;

class Loader {
 public:
  Loader(const tenon_host* host, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  // Unloads what is still loaded, the last loaded first. Nothing of it may live any more.
  ~Loader();

  void Scan();
  // What the last Scan() found usable: one for each package id, in search order.
  std::vector<std::shared_ptr<const Package>> packages() const;
  // Those that have a manifest but cannot be opened here, or of which another variant was chosen; their reports say
  // why.
  std::vector<std::shared_ptr<const Package>> refused() const;
  // The last thing that happened to each path, sorted by path.
  std::vector<LoadReport> reports() const;
  std::vector<const LoadedPlugin*> loaded() const;
  // The same one by one, without memory for a list. visit may not come back here.
  template <typename Visit>
  void ForEachLoaded(const Visit& visit) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& plugin : loaded_) visit(*plugin);
  }

  OpenResult Open(std::string_view id, const OptionList& options = {});
  // Opens a library by its path, which must hold a slash; whatever variant it is.
  OpenResult OpenFile(const std::string& path, const OptionList& options = {});
  // The same, where the options are known by the package's id, which the library itself may be the first to say.
  using OptionsOf = std::function<OptionList(std::string_view id)>;
  OpenResult OpenFileWith(const std::string& path, const OptionsOf& options_of);

  // A plugin without a library: the application's own, in whose memory it stands. Its path in the reports is
  // "application:" and its id.
  OpenResult Add(const tenon_plugin& plugin, const OptionsOf& options_of);

  // FAILED_PRECONDITION with the list while objects live.
  Status Unload(std::string_view id, const LiveObjects& live);

  // For the error of an op that nobody knows: which package would have it, and why it is not there. Empty: none.
  std::string ExplainMissingOp(std::string_view op) const;

 private:
  using PackagePointer = std::shared_ptr<const Package>;

  std::optional<Package> Examine(const Candidate& candidate, Trust* trust, LoadReport* report) const;
  bool CheckBeforeOpening(const Package& package, LoadReport* report) const;
  void Choose(std::vector<PackagePointer> usable);
  OpenResult OpenPackage(const Package& package, const OptionsOf& options_of);
  OpenResult OpenUnopened(const Package& package, const OptionsOf& options_of);
  // The last step of both: load() of a descriptor that was checked, whose report is begun.
  OpenResult LoadChecked(const tenon_plugin& descriptor, FileIdentity identity, const OptionsOf& options_of,
                         LoadReport report);
  bool IsLoadedElsewhere(const std::string& id, const std::string& path, LoadReport* report) const;
  const LoadedPlugin* FindSame(FileIdentity identity) const;
  const LoadedPlugin* FindLoaded(std::string_view id) const;
  bool IsDisabled(const std::string& id) const;
  void Record(const LoadReport& report) { reports_[report.path] = report; }
  void CallUnload(LoadedPlugin& plugin);

  const tenon_host* const host_;
  const LoaderOptions options_;
  mutable std::mutex mutex_;
  std::vector<PackagePointer> packages_;
  std::vector<PackagePointer> refused_;  // with a manifest, but not usable or not chosen
  std::vector<std::unique_ptr<LoadedPlugin>> loaded_;
  std::map<std::string, LoadReport> reports_;
};

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_LOADER_H_
