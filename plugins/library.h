// SPDX-License-Identifier: Apache-2.0
// Library: one opened shared library. The only place that knows Boost.DLL.
//
// A library stays mapped until the process ends: gRPC, protobuf and OpenMP code crashes after a real unmapping, because
// threads and exit handlers live on. So opening a file again gives the same Library.
#ifndef TENON_PLUGINS_LIBRARY_H_
#define TENON_PLUGINS_LIBRARY_H_

#include <mutex>
#include <string>

#include "plugins/elf.h"
#include "plugins/report.h"
#include "tenon/abi.h"

namespace tenon::plugins {

class Library {
 public:
  virtual ~Library() = default;
  // The entry point; never NULL.
  virtual tenon_plugin_query_function query() const = 0;

  // Opens the file, or finds it opened. NULL: *out_report says why (path, reason, text, missing, hint). The path must
  // be absolute. Runs the library's constructors: check its CPU features before. wanted: names (ElfSummary) that the
  // library itself, or one that it names, must define; that this process happens to define one is of no use to the next
  // host (MISSING_SYMBOL).
  static const Library* Open(const std::string& path, FileIdentity identity, const std::vector<std::string>& wanted,
                             LoadReport* out_report);
  // The same for a file that was looked at before: CHANGED when it is not what it was then, before it is opened or
  // afterwards. It is opened by its path, and not by a descriptor, as its own name is what run paths with $ORIGIN,
  // debuggers and dladdr() go by.
  static const Library* Open(const std::string& path, const FileStamp& seen, const std::vector<std::string>& wanted,
                             LoadReport* out_report);
};

// What the system's loader said about a file, put into words: "x.so: undefined symbol: f" is MISSING_SYMBOL f.
LoadReport ExplainOpenError(const std::string& path, const std::string& error);

// Held while a plugin's load() or unload() runs: the ABI promises that they are never called at the same time.
std::mutex& PluginCallMutex();

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_LIBRARY_H_
