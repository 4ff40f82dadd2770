// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.files.memory: "memory://PATH", files in this process's memory, shared by all runtimes of it.
#include "tree.h"

namespace tenon::memory_files {
namespace {

struct Memory : Tree {
  static constexpr tenon_span kScheme = TENON_SPAN("memory");
  static Memory& Of(tenon_plugin_self*) {
    static Memory* const memory = new Memory;  // stays for threads that outlive the static objects
    return *memory;
  }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(FILESYSTEM, &sdk::kFilesystemTable<Memory>)};

}  // namespace
}  // namespace tenon::memory_files

TENON_PLUGIN("tenon.files.memory", "0.1.0", "Files in the memory of the process, memory://PATH.",
             tenon::memory_files::kCapabilities)
