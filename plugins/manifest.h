// SPDX-License-Identifier: Apache-2.0
// Manifest: what a plugin library is, needs and provides, read without opening it.
//
// It is JSON, in the library's ELF note or in a file `<library>.json` beside it, which wins, but must be of the same
// package. The format is what sdk/author/plugin/tools/manifest.c writes; members that are not known are ignored,
// members of a wrong type are an error.
#ifndef TENON_PLUGINS_MANIFEST_H_
#define TENON_PLUGINS_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "plugins/elf.h"
#include "plugins/report.h"

namespace tenon::plugins {

struct ManifestOption {
  std::string key;
  std::string type;  // "string", "int", "float" or "bool"
  std::string default_value;
  std::string text;
};

struct ManifestCapability {
  std::string id;  // "tenon.ops/1"
  uint64_t layout_hash = 0;
};

struct Manifest {
  std::string id;
  std::string version;
  std::string vendor;
  std::string doc;
  uint32_t abi_major = 0;
  uint32_t abi_minor = 0;
  uint64_t layout_hash = 0;
  std::vector<std::string> cpu_features;
  std::vector<std::string> libraries;
  std::vector<ManifestOption> options;
  std::vector<std::string> ops;
  std::vector<std::string> gradients;  // ops of others that it brings gradients for
  std::vector<std::string> kernels;  // the ops that it has kernels of
  std::vector<std::string> devices;
  // The ops whose graphs want a pass of it, "*" for all graphs; nullopt: it has no pass, or does not say.
  std::optional<std::vector<std::string>> pass_ops;
  std::vector<ManifestCapability> capabilities;
};

Result<Manifest> ParseManifest(std::string_view json);

// What can be known of a library before it is opened.
struct Inspection {
  ElfSummary elf;
  std::optional<Manifest> manifest;  // nullopt: it has none
};

// nullopt: *out_report says why the file is of no use.
std::optional<Inspection> Inspect(const std::string& path, LoadReport* out_report);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_MANIFEST_H_
