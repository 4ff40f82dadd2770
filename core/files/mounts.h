// SPDX-License-Identifier: Apache-2.0
// Mounts: the file systems that plugins brought, by scheme.
//
// The table of files that plugins get belongs to the process, and so do the mounts: a scheme leads to the first file
// system of it that a runtime registered; when that one goes, to the next. A scheme that nobody has registered is
// looked for by the openers of the runtimes, which open the packages that may bring it.
//
// Rules. Any thread. A mount outlives its plugin, as long as files of it are open, but then only says so: taking it
// away waits for the calls in progress and closes the files that are open, so that nothing of a plugin is called once
// it may be unloaded. Openers run under no lock of ours, because they take their runtime's; taking one away waits until
// it has returned.
#ifndef TENON_CORE_FILES_MOUNTS_H_
#define TENON_CORE_FILES_MOUNTS_H_

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/plugin_call.h"
#include "tenon/ext/draft/filesystem.h"

namespace tenon::files {

// Stands after a scheme, before what it names.
inline constexpr std::string_view kEndOfScheme = "://";

// "memory" of "memory://a/b"; empty for a path of the operating system.
std::string_view SchemeOf(std::string_view path);

class Mount {
 public:
  Mount(const void* owner, std::string plugin, const tenon_filesystem* table, tenon_plugin_self* self)
      : owner_(owner), plugin_(std::move(plugin)), scheme_(View(table->scheme)), table_(table), self_(self) {}

  const std::string& scheme() const { return scheme_; }
  bool Is(const void* owner, std::string_view plugin) const { return owner == owner_ && plugin == plugin_; }
  bool Is(const void* owner) const { return owner == owner_; }

  // function(table, self), as long as it is mounted; else FAILED_PRECONDITION.
  template <typename Function>
  tenon_status* Call(Function function) {
    const std::shared_lock lock(mutex_);
    return mounted_ ? CallPlugin(plugin_, "a function of tenon.filesystem/1", [&] { return function(*table_, self_); })
                          .release()
                    : Gone();
  }
  tenon_status* Open(decltype(tenon_filesystem::open_read) tenon_filesystem::*how, tenon_span path,
                     tenon_file** out_file);
  // Once for each file; one that was closed by Unmount is no error any more.
  tenon_status* Close(tenon_file* file);
  void Unmount();
  int64_t open_files() const;

 private:
  tenon_status* Gone() const;

  const void* const owner_;
  const std::string plugin_, scheme_;
  const tenon_filesystem* const table_;
  tenon_plugin_self* const self_;
  std::shared_mutex mutex_;  // shared: in a call
  bool mounted_ = true;
  mutable std::mutex open_mutex_;
  std::set<tenon_file*> open_;
};

class Mounts {
 public:
  static Mounts& The();

  // owner: the runtime. INVALID_ARGUMENT for a scheme that can be none, or a missing function.
  Status Add(const void* owner, std::string_view plugin, const tenon_filesystem* table, tenon_plugin_self* self);
  void Remove(const void* owner, std::string_view plugin);
  void RemoveAll(const void* owner);
  int64_t OpenFiles(const void* owner, std::string_view plugin) const;

  // Opens what may bring a scheme.
  using Opener = std::function<void(std::string_view scheme)>;
  void AddOpener(const void* owner, Opener opener);
  void RemoveOpener(const void* owner);

  // NOT_FOUND says which plugin would bring it.
  Result<std::shared_ptr<Mount>> Find(std::string_view scheme);

 private:
  struct OpenerEntry {
    const void* owner;
    Opener open;
    std::shared_mutex running;
  };
  std::shared_ptr<Mount> Known(std::string_view scheme) const;
  std::shared_ptr<Mount> AskOpeners(std::string_view scheme);
  template <typename Which>
  void RemoveIf(Which which);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Mount>> mounts_;
  std::vector<std::shared_ptr<OpenerEntry>> openers_;
};

}  // namespace tenon::files

#endif  // TENON_CORE_FILES_MOUNTS_H_
