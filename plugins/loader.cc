// SPDX-License-Identifier: Apache-2.0
#include "plugins/loader.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "core/base/plugin_call.h"
#include "plugins/cpu.h"
#include "plugins/library.h"

namespace tenon::plugins {
namespace {

constexpr size_t kMostListed = 8;
constexpr char kManifestEnding[] = ".json";
constexpr char kApplication[] = "application:";

// "1.10.0" is newer than "1.9.0"; what is no number counts as 0.
std::vector<int> VersionParts(const std::string& version) {
  std::vector<int> parts;
  const char* at = version.data();
  const char* end = at + version.size();
  while (at < end) {
    int part = 0;
    const auto read = std::from_chars(at, end, part);
    parts.push_back(read.ec == std::errc() ? part : 0);
    at = std::find(read.ptr, end, '.');
    if (at < end) ++at;
  }
  return parts;
}

// Whether `a` is the better library of one package.
bool Better(const Package& a, const Package& b) {
  const auto key = [](const Package& p) {
    return std::tuple(-p.rank, FeatureRank(p.manifest->cpu_features), VersionParts(p.manifest->version));
  };
  return key(a) != key(b) ? key(a) > key(b) : a.path < b.path;
}

// A library of another framework that is needed directly: its ops are not ours, and it brings libraries of its own that
// meet those of this process.
std::string Framework(const std::vector<std::string>& needed) {
  for (const std::string& library : needed) {
    for (const std::string_view framework :
         {"libtensorflow", "libtorch", "libc10", "libonnxruntime", "libjax", "libxla", "libmxnet", "libpaddle"}) {
      if (library.starts_with(framework)) return library;
    }
  }
  return {};
}

// Direct dependencies on the full libprotobuf; the lite one is harmless.
std::string FullProtobuf(const std::vector<std::string>& needed) {
  for (const std::string& library : needed) {
    if (library == "libprotobuf.so" || library.starts_with("libprotobuf.so.")) return library;
  }
  return {};
}

LoadReport NotChosen(const Package& package, Reason reason, std::string text, std::string hint) {
  LoadReport report = Reject(package.path, reason, std::move(text), std::move(hint));
  report.outcome = Outcome::kNotChosen;
  report.id = package.manifest->id;
  report.version = package.manifest->version;
  return report;
}

LoadReport NotChosen(const Package& package, const Package& chosen) {
  if (package.rank == chosen.rank &&
      FeatureRank(package.manifest->cpu_features) != FeatureRank(chosen.manifest->cpu_features)) {
    return NotChosen(package, Reason::kBetterVariant, StrCat("this machine runs a better variant: ", chosen.path),
                     "nothing to do; name the file to open this one");
  }
  return NotChosen(package, Reason::kShadowed,
                   StrCat("version ", chosen.manifest->version, " of the package is taken from ", chosen.path),
                   "nothing to do; remove or disable one, or name the file");
}

std::string Join(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostListed) text += StrCat(" and ", names.size() - kMostListed, " more");
  return text;
}

OpenResult Already(const LoadedPlugin& plugin, const OptionList& options) {
  OpenResult result{&plugin, plugin.report()};
  result.report.outcome = Outcome::kAlreadyLoaded;
  result.report.text = options.empty() ? "it was loaded before" : "it was loaded before; the options were not applied";
  return result;
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string DefaultSystemFolder() { return TENON_SYSTEM_PLUGIN_FOLDER; }

const void* LoadedPlugin::Capability(std::string_view id) const {
  for (uint64_t i = 0; i < descriptor_.capability_count; ++i) {
    if (View(descriptor_.capabilities[i].id) == id) return descriptor_.capabilities[i].table;
  }
  return nullptr;
}

Loader::Loader(const tenon_host* host, LoaderOptions options) : host_(host), options_(std::move(options)) {}

Loader::~Loader() {
  while (!loaded_.empty()) {
    CallUnload(*loaded_.back());
    loaded_.pop_back();
  }
}

bool Loader::IsDisabled(const std::string& id) const { return Has(options_.disabled, id); }

std::optional<Package> Loader::Examine(const Candidate& candidate, Trust* trust, LoadReport* report) const {
  const std::string beside = candidate.path + kManifestEnding;
  if (!options_.allow_untrusted && !trust->Check(candidate.path, report)) return std::nullopt;
  if (!options_.allow_untrusted && !trust->Check(beside, report)) {
    report->path = candidate.path;
    report->text = StrCat("its manifest ", beside, ": ", report->text);
    return std::nullopt;
  }
  std::optional<Inspection> inspection = Inspect(candidate.path, report);
  if (!inspection) return std::nullopt;
  Package package;
  package.path = candidate.path;
  package.identity = inspection->elf.identity;
  package.stamp = inspection->elf.stamp;
  package.needed = std::move(inspection->elf.needed);
  package.wanted = std::move(inspection->elf.wanted);
  package.has_entry = inspection->elf.has_entry;
  package.manifest = std::move(inspection->manifest);
  package.named = candidate.named;
  package.rank = candidate.rank;
  if (!package.manifest && !package.named) {
    *report = Reject(package.path, Reason::kNoManifest, "it has no manifest, so it is not opened on a guess",
                     "name the file to open it, or build it with tenon_add_plugin");
    return std::nullopt;
  }
  return package;
}

bool Loader::CheckBeforeOpening(const Package& package, LoadReport* report) const {
  const auto refuse = [&](Reason reason, std::string text, std::string hint, std::string missing) {
    *report = Reject(package.path, reason, std::move(text), std::move(hint), std::move(missing));
  };
  *report = LoadReport();
  report->path = package.path;
  bool good = true;
  if (const std::string library = Framework(package.needed); !library.empty()) {
    refuse(Reason::kForbiddenLibrary,
           StrCat("it needs ", library, ", so it is a part of that framework",
                  package.has_entry ? "" : " and no plugin of Tenon"),
           "write its ops and kernels against tenon/plugin.h (sdk/author/templates/op_plugin), without that library; "
           "or run graphs that need it in the framework itself",
           library);
    good = false;
  } else if (const std::string library = FullProtobuf(package.needed); !library.empty() && !options_.allow_protobuf) {
    refuse(Reason::kForbiddenLibrary,
           StrCat("it needs ", library, "; two libraries with the same .proto end the process when they share it"),
           "link libprotobuf-lite or a static, hidden protobuf; or allow protobuf in the load options", library);
    good = false;
  }
  if (package.manifest && good) {
    const std::string feature = FirstMissingFeature(package.manifest->cpu_features);
    if (IsDisabled(package.manifest->id)) {
      refuse(Reason::kDisabled, "the package is disabled in the load options", "take it off the list of disabled ids",
             "");
      good = false;
    } else if (!CheckManifestAbi(*host_, *package.manifest, package.path, report)) {
      good = false;
    } else if (!feature.empty()) {
      refuse(Reason::kCpuFeature, StrCat("it needs the CPU feature ", feature, ", which this machine lacks"),
             "use a variant of the package for this machine", feature);
      good = false;
    }
  }
  if (good && !package.has_entry) {
    refuse(Reason::kNoEntryPoint, StrCat("it does not export ", TENON_QUERY_SYMBOL),
           "use TENON_PLUGIN of tenon/plugin.h once, and build with tenon_add_plugin", TENON_QUERY_SYMBOL);
    good = false;
  }
  if (package.manifest) {
    report->id = package.manifest->id;
    report->version = package.manifest->version;
  }
  return good;
}

void Loader::Scan() {
  SearchResult found = Search(options_.search);
  const std::lock_guard<std::mutex> lock(mutex_);
  packages_.clear();
  refused_.clear();
  std::erase_if(reports_, [](const auto& entry) {  // what was wrong may have been put right
    return entry.second.outcome == Outcome::kRejected || entry.second.outcome == Outcome::kNotChosen;
  });
  for (const LoadReport& report : found.reports) Record(report);
  std::vector<PackagePointer> usable;
  Trust trust;
  for (const Candidate& candidate : found.candidates) {
    LoadReport report;
    std::optional<Package> examined = Examine(candidate, &trust, &report);
    if (!examined) {
      Record(report);
      continue;
    }
    auto package = std::make_shared<const Package>(*std::move(examined));
    if (CheckBeforeOpening(*package, &report)) {
      usable.push_back(std::move(package));
    } else {
      Record(report);
      if (package->manifest) refused_.push_back(std::move(package));
    }
  }
  Choose(std::move(usable));
}

void Loader::Choose(std::vector<PackagePointer> usable) {
  std::map<std::string, PackagePointer> best;
  for (const PackagePointer& package : usable) {
    if (!package->manifest) continue;
    PackagePointer& slot = best[package->manifest->id];
    if (slot == nullptr || Better(*package, *slot)) slot = package;
  }
  // A variant for another machine is no failure where a sibling serves.
  for (const PackagePointer& package : refused_) {
    LoadReport& report = reports_[package->path];
    if (report.reason == Reason::kCpuFeature && best.contains(package->manifest->id))
      report.outcome = Outcome::kNotChosen;
  }
  for (PackagePointer& package : usable) {
    const PackagePointer chosen = package->manifest ? best[package->manifest->id] : package;
    if (chosen == package) {
      packages_.push_back(std::move(package));
    } else {
      Record(NotChosen(*package, *chosen));
      refused_.push_back(std::move(package));
    }
  }
}

std::vector<std::shared_ptr<const Package>> Loader::packages() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return packages_;
}

std::vector<std::shared_ptr<const Package>> Loader::refused() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refused_;
}

std::vector<LoadReport> Loader::reports() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<LoadReport> reports;
  for (const auto& [path, report] : reports_) reports.push_back(report);
  return reports;
}

std::vector<const LoadedPlugin*> Loader::loaded() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const LoadedPlugin*> plugins;
  for (const auto& plugin : loaded_) plugins.push_back(plugin.get());
  return plugins;
}

const LoadedPlugin* Loader::FindLoaded(std::string_view id) const {
  for (const auto& plugin : loaded_) {
    if (plugin->id() == id) return plugin.get();
  }
  return nullptr;
}

OpenResult Loader::Open(std::string_view id, const OptionList& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(packages_.begin(), packages_.end(), [&](const PackagePointer& package) {
    return package->manifest && package->manifest->id == id;
  });
  if (found != packages_.end()) return OpenPackage(**found, [&options](std::string_view) { return options; });
  OpenResult result;
  for (const PackagePointer& package : refused_) {
    if (package->manifest->id == id) result.report = reports_[package->path];
  }
  if (result.report.path.empty()) {
    std::vector<std::string> known;
    for (const PackagePointer& package : packages_) {
      if (package->manifest) known.push_back(package->manifest->id);
    }
    result.report =
        Reject("", Reason::kNotFound, "no package of that id was found",
               known.empty() ? std::string("no package was found at all") : "known packages: " + Join(known));
    result.report.id = std::string(id);
  }
  return result;
}

OpenResult Loader::OpenFile(const std::string& path, const OptionList& options) {
  return OpenFileWith(path, [&options](std::string_view) { return options; });
}

OpenResult Loader::OpenFileWith(const std::string& path, const OptionsOf& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  OpenResult result;
  Candidate candidate;
  candidate.named = true;
  Trust trust;
  std::optional<Package> package;
  if (ResolveNamed(path, &candidate.path, &result.report)) package = Examine(candidate, &trust, &result.report);
  if (package && CheckBeforeOpening(*package, &result.report)) return OpenPackage(*package, options);
  Record(result.report);
  return result;
}

const LoadedPlugin* Loader::FindSame(FileIdentity identity) const {
  const auto found =
      std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& plugin) { return plugin->identity_ == identity; });
  return found == loaded_.end() ? nullptr : found->get();
}

OpenResult Loader::OpenPackage(const Package& package, const OptionsOf& options_of) {
  if (const LoadedPlugin* const plugin = FindSame(package.identity)) return Already(*plugin, options_of(plugin->id()));
  OpenResult result = OpenUnopened(package, options_of);
  Record(result.report);
  return result;
}

OpenResult Loader::Add(const tenon_plugin& plugin, const OptionsOf& options_of) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const FileIdentity identity{0, reinterpret_cast<uintptr_t>(&plugin)};  // of no file: those have a device
  if (const LoadedPlugin* const same = FindSame(identity)) return Already(*same, options_of(same->id()));
  OpenResult result;
  tenon_plugin descriptor;
  if (CheckPlugin(*host_, plugin, kApplication, &descriptor, &result.report)) {
    result.report.path += result.report.id;
    result = LoadChecked(descriptor, identity, options_of, result.report);
  }
  Record(result.report);
  return result;
}

bool Loader::IsLoadedElsewhere(const std::string& id, const std::string& path, LoadReport* report) const {
  const LoadedPlugin* other = FindLoaded(id);
  if (other == nullptr) return false;
  report->path = path;
  report->id = id;
  report->outcome = Outcome::kNotChosen;
  report->reason = Reason::kDuplicateId;
  report->text = StrCat("the package is loaded from ", other->path());
  report->hint = "unload that one first";
  return true;
}

OpenResult Loader::OpenUnopened(const Package& package, const OptionsOf& options_of) {
  OpenResult result;
  LoadReport& report = result.report;
  if (package.manifest && IsLoadedElsewhere(package.manifest->id, package.path, &report)) return result;
  const Library* library = nullptr;
  {
    const PluginCall mark(package.path, "its library's constructors");
    library = Library::Open(package.path, package.stamp, package.wanted, &report);
  }
  if (library == nullptr) {
    if (package.manifest)
      std::tie(report.id, report.version) = std::tie(package.manifest->id, package.manifest->version);
    return result;
  }
  tenon_plugin descriptor;
  {
    const PluginCall mark(package.path, "tenon_plugin_query");
    if (!Negotiate(*host_, library->query(), package.path, &descriptor, &report)) return result;
  }
  if (package.manifest && package.manifest->id != report.id) {
    report.reason = Reason::kManifestMismatch;
    report.text = StrCat("its manifest says '", package.manifest->id, "', the library says '", report.id, "'");
    report.hint = "build the library again, or correct the manifest beside it";
    return result;
  }
  return LoadChecked(descriptor, package.identity, options_of, std::move(report));
}

OpenResult Loader::LoadChecked(const tenon_plugin& descriptor, FileIdentity identity, const OptionsOf& options_of,
                               LoadReport begun) {
  OpenResult result;
  LoadReport& report = result.report;
  report = std::move(begun);
  const auto refuse = [&](Reason reason, std::string text, std::string hint) {
    report.reason = reason;
    report.text = std::move(text);
    report.hint = std::move(hint);
    return std::move(result);
  };
  if (IsDisabled(report.id)) {
    return refuse(Reason::kDisabled, "the package is disabled in the load options",
                  "take it off the list of disabled ids");
  }
  if (IsLoadedElsewhere(report.id, report.path, &report)) return result;
  const OptionList options = options_of(report.id);
  std::vector<tenon_option> checked;
  if (!CheckOptions(descriptor, options, &checked, &report)) return result;

  auto plugin = std::make_unique<LoadedPlugin>(descriptor, report, identity);
  const tenon_load_args args = {TENON_HEAD(tenon_load_args), host_, checked.data(), checked.size()};
  tenon_status* status = nullptr;
  NotePluginVersion(report.id, report.version);
  try {
    const std::lock_guard<std::mutex> lock(PluginCallMutex());
    const PluginCall mark(report.id, "load");
    status = descriptor.load(&args, &plugin->self_);
  } catch (const std::exception& error) {
    return refuse(Reason::kLoadFailed, StrCat("its load() threw an exception (", error.what(), ")"),
                  "nothing may be thrown across the C ABI");
  } catch (...) {
    return refuse(Reason::kLoadFailed, "its load() threw an exception", "nothing may be thrown across the C ABI");
  }
  if (status != nullptr) {
    const std::string text(View(host_->status_message(status)));
    host_->status_release(status);
    return refuse(Reason::kLoadFailed, StrCat("its load() failed: ", text), "the text is the plugin's own");
  }
  report.outcome = Outcome::kLoaded;
  plugin->report_ = report;
  result.plugin = plugin.get();
  loaded_.push_back(std::move(plugin));
  return result;
}

void Loader::CallUnload(LoadedPlugin& plugin) {
  const std::lock_guard<std::mutex> lock(PluginCallMutex());
  const PluginCall mark(plugin.id(), "unload");
  try {
    plugin.descriptor_.unload(plugin.self_);
  } catch (...) {
    const Status thrown = Thrown(plugin.id(), "unload");
    host_->log(TENON_LOG_ERROR, Span(thrown.message()));
  }
}

Status Loader::Unload(std::string_view id, const LiveObjects& live) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& plugin) { return plugin->id() == id; });
  if (found == loaded_.end()) {
    LoadReport report = Reject("", Reason::kNotLoaded, "it is not loaded", "");
    report.id = std::string(id);
    return ToStatus(report);
  }
  LoadReport report = (*found)->report();
  if (const std::vector<std::string> names = live ? live() : std::vector<std::string>(); !names.empty()) {
    report.reason = Reason::kInUse;
    report.text = StrCat("it cannot be unloaded while ", names.size(), " of its objects live: ", Join(names));
    report.hint = "release them first";
    return ToStatus(report);
  }
  CallUnload(**found);
  loaded_.erase(found);
  report.outcome = Outcome::kUnloaded;
  report.text = "the library stays mapped";
  Record(report);
  return Status::Ok();
}

std::string Loader::ExplainMissingOp(std::string_view op) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const PackagePointer& package : packages_) {
    if (package->manifest && Has(package->manifest->ops, op)) {
      text += StrCat(text.empty() ? "" : "; ", "package '", package->manifest->id, "' has it (", package->path, ")");
      if (const auto report = reports_.find(package->path);
          report != reports_.end() && report->second.reason != Reason::kOk) {
        text += StrCat(", but was ", OutcomeName(report->second.outcome), ": ", report->second.text);
      }
    }
  }
  for (const PackagePointer& package : refused_) {
    if (!Has(package->manifest->ops, op)) continue;
    const LoadReport& report = reports_.at(package->path);
    text += StrCat(text.empty() ? "" : "; ", "package '", package->manifest->id, "' (", package->path,
                   ") has it, but was ", OutcomeName(report.outcome), ": ", report.text);
  }
  return text;
}

}  // namespace tenon::plugins
