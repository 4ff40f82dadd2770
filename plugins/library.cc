// SPDX-License-Identifier: Apache-2.0
#include "plugins/library.h"

#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <exception>
#include <map>
#include <memory>
#include <utility>

namespace tenon::plugins {
namespace {

namespace dll = boost::dll;

class OpenedLibrary final : public Library {
 public:
  OpenedLibrary(dll::shared_library library, tenon_plugin_query_function query)
      : library_(std::move(library)), query_(query) {}
  tenon_plugin_query_function query() const override { return query_; }

 private:
  dll::shared_library library_;
  tenon_plugin_query_function query_;
};

// Never destroyed, as its libraries are never closed.
struct Opened {
  std::mutex mutex;
  std::map<FileIdentity, std::unique_ptr<Library>> libraries;
};
Opened& AllOpened() {
  static Opened* const opened = new Opened;
  return *opened;
}

// RTLD_NOW, so that a missing symbol is an error here and not an abort in the first step; RTLD_LOCAL, so that two
// plugins do not see each other; RTLD_NODELETE, also where the library was linked without -z nodelete.
constexpr auto kMode = dll::load_mode::rtld_now | dll::load_mode::rtld_local |
                       static_cast<dll::load_mode::type>(RTLD_NODELETE);

// Boost wraps what the system said: "... (dlerror system message: TEXT): Bad file descriptor".
std::string SystemText(const std::string& what) {
  static constexpr std::string_view kBefore = "dlerror system message: ";
  const size_t begin = what.find(kBefore);
  if (begin == std::string::npos) return what;
  const size_t text = begin + kBefore.size();
  const size_t end = what.rfind("): ");
  return what.substr(text, end == std::string::npos || end < text ? std::string::npos : end - text);
}

// The word after a phrase, up to a space, comma or the end; empty when the phrase does not occur.
std::string WordAfter(const std::string& text, std::string_view phrase) {
  const size_t found = text.find(phrase);
  if (found == std::string::npos) return {};
  const size_t begin = found + phrase.size();
  return text.substr(begin, text.find_first_of(" ,'", begin) - begin);
}

}  // namespace

std::mutex& PluginCallMutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

LoadReport ExplainOpenError(const std::string& path, const std::string& error) {
  if (std::string symbol = WordAfter(error, "undefined symbol: "); !symbol.empty()) {
    return Reject(
        path, Reason::kMissingSymbol, error,
        StrCat("link the library that defines ", symbol, ", or build with -Wl,--no-undefined to find out why"), symbol);
  }
  if (std::string version = WordAfter(error, "version `");
      !version.empty() && error.find("not found") != std::string::npos) {
    return Reject(
        path, Reason::kMissingSymbol, error,
        StrCat("it was built against a newer library; build it on this system, or install one that has ", version),
        version);
  }
  const size_t missing = error.find(": cannot open shared object file");
  if (missing != std::string::npos) {
    const std::string library = error.substr(0, missing);
    if (library != path) {
      return Reject(path, Reason::kMissingLibrary, error,
                    StrCat("install ", library, ", or put it where the system looks for libraries"), library);
    }
  }
  return Reject(path, Reason::kOpenFailed, error, "the text is what the system's loader said");
}

const Library* Library::Open(const std::string& path, FileIdentity identity, const std::vector<std::string>& wanted,
                             LoadReport* out_report) {
  Opened& opened = AllOpened();
  const std::lock_guard<std::mutex> lock(opened.mutex);
  std::unique_ptr<Library>& slot = opened.libraries[identity];
  if (slot != nullptr) return slot.get();
  try {
    dll::shared_library library(path, kMode);
    if (!library.has(TENON_QUERY_SYMBOL)) {
      *out_report =
          Reject(path, Reason::kNoEntryPoint, StrCat("it does not export ", TENON_QUERY_SYMBOL),
                 "use TENON_PLUGIN of tenon/plugin.h once, and build with tenon_add_plugin", TENON_QUERY_SYMBOL);
      return nullptr;
    }
    // Looked for in the library and in those that it needs, as every host sees them.
    for (const std::string& name : wanted) {
      if (dlsym(library.native(), name.c_str()) != nullptr) continue;
      *out_report =
          Reject(path, Reason::kMissingSymbol,
                 StrCat("it takes ", name,
                        " from the process, since no library that it names defines it: another host will not have it"),
                 StrCat("link the library that defines ", name,
                        ", or build with -Wl,--no-undefined to find out which; the engine is called through the table "
                        "that load() gets"),
                 name);
      return nullptr;
    }
    auto query = &library.get<const tenon_plugin*(tenon_query_args*)>(TENON_QUERY_SYMBOL);
    slot = std::make_unique<OpenedLibrary>(std::move(library), query);
    return slot.get();
  } catch (const std::exception& error) {
    *out_report = ExplainOpenError(path, SystemText(error.what()));
  } catch (...) {
    *out_report = Reject(path, Reason::kOpenFailed, "a constructor of the library threw", "correct the library");
  }
  return nullptr;
}

const Library* Library::Open(const std::string& path, const FileStamp& seen, const std::vector<std::string>& wanted,
                             LoadReport* out_report) {
  const auto changed = [&] {
    if (StampOf(path) == seen) return false;
    *out_report = Reject(path, Reason::kChanged, "it was written or replaced after it was looked at",
                         "let what installs it end, and try again");
    return true;
  };
  if (changed()) return nullptr;
  const Library* opened = Open(path, seen.identity, wanted, out_report);
  return opened != nullptr && changed() ? nullptr : opened;
}

}  // namespace tenon::plugins
