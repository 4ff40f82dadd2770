// SPDX-License-Identifier: Apache-2.0
// LoadReport: what became of one library, as data.
//
// Every attempt to find, check or open a library gives one report; a rejection is not an error of the whole. The
// reason's name is stable and meant for programs, text and hint are meant for people.
#ifndef TENON_PLUGINS_REPORT_H_
#define TENON_PLUGINS_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace tenon::plugins {

enum class Outcome { kLoaded, kRejected, kNotChosen, kAlreadyLoaded, kUnloaded };

enum class Reason {
  kOk,
  // The file.
  kBarePath,           // a name without a slash, which would mean a search
  kRelativeFolder,     // a folder of the environment that is not absolute
  kNotFound,
  kUnreadable,
  kNotALibrary,        // no ELF shared library
  kWrongArchitecture,
  kDamaged,            // cut off, or its tables point outside the file
  kSameFile,           // another name of a file that was seen before
  kNotTrusted,         // others may write it, or put another in its place
  kChanged,            // it was written, or replaced, after it was looked at
  // The manifest.
  kNoManifest,
  kBadManifest,
  kDisabled,
  kCpuFeature,
  kBetterVariant,      // another variant of the package fits this machine better
  kShadowed,           // the package stands in a folder that comes earlier, or in a newer version
  // Opening.
  kForbiddenLibrary,
  kMissingLibrary,
  kMissingSymbol,
  kOpenFailed,
  kNoEntryPoint,
  kQueryRejected,
  kAbiMajor,
  kLayout,
  kMustUnderstand,
  kBadDescriptor,
  kManifestMismatch,
  kNoCapability,
  kDuplicateId,        // the package is loaded from another file
  // load().
  kUnknownOption,
  kBadOption,
  kLoadFailed,
  // Unloading.
  kInUse,
  kNotLoaded,
};

std::string_view ReasonName(Reason reason);    // "MISSING_SYMBOL"
std::string_view OutcomeName(Outcome outcome);  // "loaded"

struct LoadReport {
  std::string path;
  std::string id;       // empty when it was not learnt
  std::string version;
  Outcome outcome = Outcome::kRejected;
  Reason reason = Reason::kOk;
  std::string text;     // what was found
  std::string missing;  // the symbol, feature, library or option
  std::string hint;     // what would help
  std::vector<std::string> ignored_capabilities;  // ids that this host does not know
  uint32_t op_count = 0;
  uint32_t kernel_count = 0;
  uint32_t device_count = 0;
};

// A rejection with its words.
LoadReport Reject(std::string path, Reason reason, std::string text, std::string hint, std::string missing = {});

// Ok when the plugin is loaded (or was); else a status with the report's path, text and hint.
Status ToStatus(const LoadReport& report);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_REPORT_H_
