// SPDX-License-Identifier: Apache-2.0
// The runtime of app.h: packages are found at once and opened when something of theirs is first needed.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/crash.h"
#include "core/base/log.h"
#include "core/base/plugin_call.h"
#include "core/base/table_check.h"
#include "core/exec/device/device.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/exec/kernel/tuning_cache.h"
#include "core/files/file_grants.h"
#include "core/files/files.h"
#include "core/files/mounts.h"
#include "core/graph/op_registry.h"
#include "core/place/device_name.h"
#include "core/tensor/variant_types.h"
#include "sdk/app/host/objects.h"
#include "tenon/ext/draft/graph_pass.h"
#include "tenon/ext/draft/variant.h"
#include "tenon/bytes/near_miss.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace

namespace {

constexpr char kNameCrashes[] = "TENON_NAME_CRASHES";
std::vector<std::string> OpsOf(const tenon_plugin& plugin);

std::map<std::string, plugins::LoadReport> ReportsByPath(const plugins::Loader& loader) {
  std::map<std::string, plugins::LoadReport> by_path;
  for (plugins::LoadReport& report : loader.reports()) by_path.emplace(report.path, std::move(report));
  return by_path;
}

}  // namespace

struct tenon_runtime::Lists {
  std::vector<plugins::LoadReport> reports;
  std::vector<const graph::OpDef*> ops;
  std::vector<exec::KernelEntry> kernels;
  std::vector<std::string> kernel_types;
  std::vector<exec::Device> devices;
};

tenon_runtime::tenon_runtime(const tenon_host* host, plugins::LoaderOptions loader_options, uint32_t threads)
    : loader(host, std::move(loader_options)), runtime(threads), lists(std::make_unique<Lists>()) {}

tenon_runtime::~tenon_runtime() {
  files::Mounts::The().RemoveOpener(this);
  files::FileGrants::Lift(this);
}

plugins::OptionList tenon_runtime::OptionsFor(std::string_view id) const {
  plugins::OptionList out;
  for (const auto& option : options)
    if (option[0] == id) out.emplace_back(option[1], option[2]);
  return out;
}

Status tenon_runtime::Register(const plugins::OpenResult& result) {
  if (result.plugin == nullptr)
    return FailedPrecondition(StrCat("plugin '", result.report.path, "': ", result.report.text,
                                     result.report.hint.empty() ? "" : "; ", result.report.hint));
  if (result.report.outcome == plugins::Outcome::kAlreadyLoaded) {
    const auto failure = failures.find(result.report.path);
    return failure == failures.end() ? Status::Ok()
                                     : FailedPrecondition(StrCat(DescribePlugin(result.plugin->id()), " ('",
                                                                 failure->first, "'): ", failure->second.text));
  }
  opened.insert(result.plugin->id());
  auto counts = runtime.RegisterPlugin(*result.plugin->descriptor(), result.plugin->self());
  failures.erase(result.report.path);
  if (counts.ok()) {
    for (const std::string& why : counts->refused_ops) Warn(StrCat(why, ". The plugin is loaded without it"));
    return Status::Ok();
  }
  plugins::LoadReport report = result.report;
  report.outcome = plugins::Outcome::kRejected;
  report.reason = plugins::Reason::kLoadFailed;
  report.text = counts.status().message();
  report.hint = "what it registers is wrong or not for this host; correct or update it";
  failures[report.path] = report;
  Warn(StrCat(DescribePlugin(result.plugin->id()), " ('", report.path, "') was refused: ", report.text));
  return Status(counts.status().code(),
                StrCat(DescribePlugin(result.plugin->id()), " ('", report.path, "'): ", report.text));
}

void tenon_runtime::Warn(const std::string& text) const {
  const LogScope scope({runtime.task()});
  Log(TENON_LOG_WARNING, text);
}

// A package that something needs, and that was refused: what runs instead, if anything does, is not what its user
// meant.
void tenon_runtime::WarnRefused(const plugins::LoadReport& report) {
  if (!warned.insert(report.path).second) return;
  Warn(StrCat("plugin '", report.path, "' was refused: ", report.text, report.hint.empty() ? "" : "; ", report.hint));
}

template <typename Needs>
void tenon_runtime::WarnOfRefused(Needs needs) {
  std::map<std::string, plugins::LoadReport> by_path;
  for (const auto& package : loader.refused()) {
    if (!needs(*package->manifest) || warned.contains(package->path)) continue;
    if (by_path.empty()) by_path = ReportsByPath(loader);
    const auto report = by_path.find(package->path);
    if (report != by_path.end() && report->second.outcome == plugins::Outcome::kRejected &&
        report->second.reason != plugins::Reason::kDisabled)
      WarnRefused(report->second);
  }
}

void tenon_runtime::OpenPackage(const std::string& id) {
  if (!opened.insert(id).second) return;
  const plugins::OpenResult result = loader.Open(id, OptionsFor(id));
  const Status registered = Register(result);
  if (registered.ok()) return;
  if (result.plugin == nullptr) WarnRefused(result.report);
  for (const auto& package : loader.packages())
    if (package->manifest && package->manifest->id == id) NoteOps(*package->manifest, registered.message());
}

// So that the error of a missing op names the package that has it, and why it is of no use.
void tenon_runtime::NoteOps(const plugins::Manifest& manifest, std::string_view why) {
  for (const std::string& op : manifest.ops) runtime.ops().NoteElsewhere(op, manifest.id, why);
}

void tenon_runtime::NoteRefused() {
  const std::map<std::string, plugins::LoadReport> by_path = ReportsByPath(loader);
  for (const auto& package : loader.refused()) {
    const auto report = by_path.find(package->path);
    if (report == by_path.end()) continue;
    const plugins::LoadReport& found = report->second;
    NoteOps(*package->manifest,
            StrCat("plugin '", found.path, "': ", found.text, found.hint.empty() ? "" : "; ", found.hint));
  }
}

Status tenon_runtime::OpenFile(const std::string& path) {
  std::lock_guard lock(mutex);
  return RegisterNamed(loader.OpenFileWith(path, [this](std::string_view id) { return OptionsFor(id); }));
}

Status tenon_runtime::AddPlugin(const tenon_plugin& plugin) {
  std::lock_guard lock(mutex);
  return RegisterNamed(loader.Add(plugin, [this](std::string_view id) { return OptionsFor(id); }));
}

Status tenon_runtime::RegisterNamed(const plugins::OpenResult& result) {
  // Ops that the installed packages have too mean what those say: they come first, and what differs of the file's is
  // refused.
  if (result.plugin != nullptr && result.report.outcome == plugins::Outcome::kLoaded)
    for (const std::string& op : OpsOf(*result.plugin->descriptor())) OpenForOp(op);
  return Register(result);
}

Status tenon_runtime::OpenNamed(const std::string& id) {
  std::lock_guard lock(mutex);
  if (opened.contains(id)) return Status::Ok();
  opened.insert(id);
  return Register(loader.Open(id, OptionsFor(id)));
}

void tenon_runtime::OpenForOp(std::string_view op) {
  std::lock_guard lock(mutex);
  if (opened_ops.contains(op)) return;
  const auto has = [op](const plugins::Manifest& manifest) {
    return std::find(manifest.ops.begin(), manifest.ops.end(), op) != manifest.ops.end();
  };
  const auto differentiates = [op](const plugins::Manifest& manifest) {
    return !op.empty() &&
           std::find(manifest.gradients.begin(), manifest.gradients.end(), op) != manifest.gradients.end();
  };
  bool there = false;
  for (const auto& package : loader.packages()) {
    if (!package->manifest) continue;
    const plugins::Manifest& manifest = *package->manifest;
    const bool brings = !manifest.ops.empty() && (op.empty() || has(manifest));
    if (!brings && !differentiates(manifest)) continue;
    opened_ops.emplace(op);  // names that nobody has are not kept: graphs of strangers bring any number of them
    OpenPackage(manifest.id);
    there = there || brings;
  }
  // Where nobody else has the op, the error says who was refused (NoteRefused).
  if (!op.empty() && there) WarnOfRefused(has);
}

bool tenon_runtime::IsIdle(const plugins::Manifest& manifest) const {
  const auto is_none = [](const plugins::ManifestOption& option) {
    return option.key == "devices" && option.default_value == "0";
  };
  const auto is_set = [&](const auto& option) { return option[0] == manifest.id && option[1] == "devices"; };
  return !manifest.devices.empty() && std::any_of(manifest.options.begin(), manifest.options.end(), is_none) &&
         std::none_of(options.begin(), options.end(), is_set);
}

void tenon_runtime::OpenForKernels(std::string_view op) {
  std::lock_guard lock(mutex);
  if (!opened_kernels.insert(std::string(op)).second) return;
  if (!op.empty())
    WarnOfRefused([op](const plugins::Manifest& manifest) {
      return std::find(manifest.kernels.begin(), manifest.kernels.end(), op) != manifest.kernels.end();
    });
  for (const auto& package : loader.packages()) {
    if (!package->manifest || IsIdle(*package->manifest)) continue;
    const std::vector<std::string>& kernels = package->manifest->kernels;
    if (op.empty() ? !kernels.empty() : std::find(kernels.begin(), kernels.end(), op) != kernels.end())
      OpenPackage(package->manifest->id);
  }
}

void tenon_runtime::OpenDevices() {
  std::lock_guard lock(mutex);
  WarnOfRefused([](const plugins::Manifest& manifest) { return !manifest.devices.empty(); });
  // A compiler comes with its package's device or kernels; one without any is for what other packages bring. A pass
  // comes with the graphs that it is for (OpenForPasses), if its package says which.
  const auto only_compiles = [](const plugins::Manifest& manifest) {
    const auto is_for_others = [&](const plugins::ManifestCapability& each) {
      return each.id == TENON_CAPABILITY_COMPILER ||
             (each.id == TENON_CAPABILITY_GRAPH_PASS && manifest.ops.empty() && !manifest.pass_ops);
    };
    return manifest.kernels.empty() &&
           std::any_of(manifest.capabilities.begin(), manifest.capabilities.end(), is_for_others);
  };
  for (const auto& package : loader.packages())
    if (package->manifest && !IsIdle(*package->manifest) &&
        (!package->manifest->devices.empty() || only_compiles(*package->manifest)))
      OpenPackage(package->manifest->id);
}

void tenon_runtime::OpenForPasses(const std::set<std::string_view>& ops) {
  std::lock_guard lock(mutex);
  const auto is_there = [&](const std::string& op) { return op == "*" || ops.contains(op); };
  for (const auto& package : loader.packages())
    if (package->manifest && package->manifest->pass_ops && !opened.contains(package->manifest->id) &&
        std::any_of(package->manifest->pass_ops->begin(), package->manifest->pass_ops->end(), is_there))
      OpenPackage(package->manifest->id);
}

std::string tenon_runtime::RefusedDevices() const {
  std::lock_guard lock(mutex);
  const std::map<std::string, plugins::LoadReport> by_path = ReportsByPath(loader);
  std::string text;
  for (const auto& package : loader.refused()) {
    const auto report = by_path.find(package->path);
    if (package->manifest->devices.empty() || report == by_path.end() ||
        report->second.outcome != plugins::Outcome::kRejected)
      continue;
    text += StrCat(text.empty() ? "" : "; ", package->path.substr(package->path.rfind('/') + 1), ": ",
                   report->second.text, ", ", report->second.hint);
  }
  return text.empty() ? text : StrCat(" (refused: ", text, ")");
}

void tenon_runtime::OpenById(const std::string& id) {
  std::lock_guard lock(mutex);
  for (const auto& package : loader.packages())
    if (package->manifest && package->manifest->id == id) return OpenPackage(id);
}

Result<session::Runtime::Transport> tenon_runtime::FindTransport(const std::string& scheme) {
  if (auto found = runtime.FindTransport(scheme); found.ok()) return found;
  OpenById("tenon.net." + scheme);
  if (auto found = runtime.FindTransport(scheme); found.ok()) return found;
  OpenThoseWith(TENON_CAPABILITY_TRANSPORT);  // strangers', and all that the error names
  return runtime.FindTransport(scheme);
}

void tenon_runtime::OpenForFilesystem(std::string_view scheme) {
  std::lock_guard lock(mutex);
  const std::string named = StrCat("tenon.files.", scheme);
  OpenById(named);
  if (!opened.contains(named)) OpenThoseWith(TENON_CAPABILITY_FILESYSTEM);
}

void tenon_runtime::OpenThoseWith(std::string_view capability) {
  std::lock_guard lock(mutex);
  for (const auto& package : loader.packages()) {
    if (!package->manifest) continue;
    const auto& brings = package->manifest->capabilities;
    const auto is_it = [&](const plugins::ManifestCapability& each) { return each.id == capability; };
    if (std::any_of(brings.begin(), brings.end(), is_it)) OpenPackage(package->manifest->id);
  }
}

std::vector<plugins::LoadReport> tenon_runtime::Reports() const {
  std::lock_guard lock(mutex);
  std::vector<plugins::LoadReport> out = loader.reports();
  for (plugins::LoadReport& report : out)
    if (const auto it = failures.find(report.path); it != failures.end()) report = it->second;
  return out;
}

namespace {

// Options of no plugin but of the engine itself: {"tenon", "files", "PATH"} is what file_grants.h understands, and may
// be given several times; "" grants nothing. Where there is none of it, all files are granted.
// {"tenon", "untrusted_plugins", "load"}: libraries that others may write too (plugins/trust.h).
// {"tenon", "plugin_path", "FOLDER:..."}: is searched after TENON_PLUGIN_PATH, and has its form.
constexpr std::string_view kEngine = "tenon", kFiles = "files", kUntrusted = "untrusted_plugins", kLoad = "load",
                           kPluginPath = "plugin_path";

Status RestrictFiles(const tenon_runtime& runtime) {
  std::vector<files::FileGrant> grants;
  bool restricted = false;
  for (const auto& [plugin, key, value] : runtime.options) {
    if (plugin != kEngine) continue;
    if (key == kUntrusted && value != kLoad)
      return InvalidArgument(StrCat("option '", plugin, ".", key, "' is '", value, "'; it can be: ", kLoad));
    if (key == kUntrusted || key == kPluginPath) continue;
    if (key != kFiles)
      return NotFound(StrCat("option '", plugin, ".", key, "': the engine's own options are: ", kFiles, ", ",
                             kPluginPath, ", ", kUntrusted));
    restricted = true;
    if (value.empty()) continue;
    TENON_ASSIGN_OR_RETURN(files::FileGrant grant, files::FileGrant::Parse(value));
    grants.push_back(std::move(grant));
  }
  if (restricted) files::FileGrants::Restrict(&runtime, runtime.runtime.task(), std::move(grants));
  return Status::Ok();
}

// Opens the packages that options were given for, so that a mistake shows: what is no package, no option, or no value
// of it.
Status OpenForOptions(tenon_runtime* runtime) {
  for (const auto& option : runtime->options) {
    if (option[0] == kEngine || runtime->opened.contains(option[0])) continue;
    bool known = false;
    std::string ids;
    sdk::NearMiss near(option[0]);
    for (const auto& package : runtime->loader.packages()) {
      if (!package->manifest) continue;
      known = known || package->manifest->id == option[0];
      near.Try(package->manifest->id);
      ids += (ids.empty() ? "" : ", ") + package->manifest->id;
    }
    if (!known)
      return NotFound(StrCat("option '", option[0], ".", option[1], "': there is no package '", option[0], "'",
                             near.Hint(), " (found: ", ids, ")"));
    if (Status status = runtime->OpenNamed(option[0]); !status.ok())
      return std::move(status).Annotate(StrCat("option '", option[0], ".", option[1], "=", option[2], "'"));
  }
  return Status::Ok();
}

// The names of its ops, of definitions that can be read.
std::vector<std::string> OpsOf(const tenon_plugin& plugin) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < plugin.capability_count; ++i) {
    const auto* package = static_cast<const tenon_op_package*>(plugin.capabilities[i].table);
    if (View(plugin.capabilities[i].id) != TENON_CAPABILITY_OPS || package == nullptr ||
        package->struct_size < sizeof *package)
      continue;
    if (!CheckArray(package->definitions, package->count, "").ok()) continue;
    for (uint64_t k = 0; k < package->count; ++k) {
      const tenon_op_definition* op = package->definitions[k];
      if (op != nullptr && op->struct_size >= TENON_SIZE_UP_TO(tenon_op_definition, name) &&
          CheckName(op->name, "").ok())
        out.emplace_back(View(op->name));
    }
  }
  return out;
}

Status CreateRuntime(const tenon_runtime_options* given, tenon_runtime** out_runtime) {
  tenon_runtime_options options;
  TENON_RETURN_IF_ERROR(host::ReadOptions(given, &options));
  if (options.log_level != 0) SetLogLevel(options.log_level - 1);
  // An application owns its signals: it says in its environment when they may name plugins.
  if (const char* asked = std::getenv(kNameCrashes); asked != nullptr && std::string_view(asked) == "1") NameCrashes();
  plugins::LoaderOptions loader;
  for (uint64_t i = 0; i < options.plugin_count; ++i) loader.search.paths.emplace_back(View(options.plugins[i]));
  loader.search.explicit_only = options.no_search != 0;
  loader.search.anchor = reinterpret_cast<const void*>(&tenon_runtime_create);
  loader.search.system_folder = plugins::DefaultSystemFolder();
  for (uint64_t i = 0; i < options.plugin_option_count; ++i) {
    const tenon_plugin_option& option = options.plugin_options[i];
    if (View(option.plugin) != kEngine) continue;
    if (View(option.key) == kUntrusted) loader.allow_untrusted = View(option.value) == kLoad;
    if (View(option.key) == kPluginPath)
      loader.search.more += StrCat(loader.search.more.empty() ? "" : ":", View(option.value));
  }
  auto runtime = std::make_unique<tenon_runtime>(session::HostTable(), std::move(loader), options.threads);
  for (uint64_t i = 0; i < options.plugin_option_count; ++i) {
    const tenon_plugin_option& option = options.plugin_options[i];
    runtime->options.push_back(
        {std::string(View(option.plugin)), std::string(View(option.key)), std::string(View(option.value))});
  }
  if (options.task.size > 0) {
    TENON_ASSIGN_OR_RETURN(std::string task, place::TaskName(View(options.task)));
    runtime->runtime.set_task(std::move(task));
  }
  if (options.tuning_folder.size > 0)
    TENON_RETURN_IF_ERROR(runtime->runtime.tuning().UseFolder(std::string(View(options.tuning_folder))));
  TENON_RETURN_IF_ERROR(RestrictFiles(*runtime));
  runtime->loader.Scan();
  runtime->NoteRefused();
  tenon_runtime* raw = runtime.get();
  runtime->runtime.ops().SetOpener([raw](std::string_view op) { raw->OpenForOp(op); });
  runtime->runtime.kernels().SetOpener([raw](std::string_view op) { raw->OpenForKernels(op); });
  runtime->runtime.SetPassOpener([raw](const std::set<std::string_view>& ops) { raw->OpenForPasses(ops); });
  runtime->runtime.variant_types().SetOpener([raw] { raw->OpenThoseWith(TENON_CAPABILITY_VARIANTS); });
  files::Mounts::The().AddOpener(raw, [raw](std::string_view scheme) { raw->OpenForFilesystem(scheme); });
  // What the caller names is opened at once, so that a mistake shows.
  for (uint64_t i = 0; i < options.plugin_count; ++i) {
    const std::string path(View(options.plugins[i]));
    if (path.ends_with(".so")) TENON_RETURN_IF_ERROR(raw->OpenFile(path));
  }
  TENON_RETURN_IF_ERROR(OpenForOptions(raw));
  *out_runtime = runtime.release();
  return Status::Ok();
}

uint32_t OutcomeCode(plugins::Outcome outcome) {
  switch (outcome) {
    case plugins::Outcome::kLoaded: return TENON_LOAD_LOADED;
    case plugins::Outcome::kRejected: return TENON_LOAD_REJECTED;
    case plugins::Outcome::kNotChosen: return TENON_LOAD_NOT_CHOSEN;
    case plugins::Outcome::kAlreadyLoaded: return TENON_LOAD_ALREADY;
    case plugins::Outcome::kUnloaded: return TENON_LOAD_UNLOADED;
  }
  return TENON_LOAD_REJECTED;
}

// The text of a definition, from the plugin itself.
tenon_op_info InfoOf(const graph::OpDef& op) {
  return {TENON_HEAD(tenon_op_info),
          Span(op.name),
          Span(op.package),
          op.c->inputs,
          op.c->outputs,
          op.c->attrs,
          Span(op.doc),
          op.traits,
          op.c->gradient != nullptr ? 1u : 0u,
          0u,
          Span(op.paths),
          op.c->properties};
}

// Whether a plugin may still use what is the runtime's: a kernel that has not ended, a device that does not answer.
bool KeptForEver(const tenon_runtime& runtime) {
  static std::atomic<const tenon_runtime*> latest{nullptr};  // so that it counts as kept, not as lost
  if (!runtime.runtime.keeps_for_ever()) return false;
  latest.store(&runtime);
  const LogScope scope({runtime.runtime.task()});
  Log(TENON_LOG_WARNING,
      "the runtime is kept until the process ends: a plugin has not come to an end with what it was given");
  return true;
}

Status OutOfList(const char* what, uint64_t index, size_t size) {
  return OutOfRange(StrCat("there is no ", what, " ", index, "; there are ", size));
}

}  // namespace

extern "C" {

tenon_status* tenon_runtime_create(const tenon_runtime_options* options, tenon_runtime** out_runtime) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(out_runtime);
    return CreateRuntime(options, out_runtime);
  });
}

void tenon_runtime_release(tenon_runtime* runtime) {
  if (runtime == nullptr) return;
  files::Mounts::The().RemoveOpener(runtime);
  if (KeptForEver(*runtime)) return;
  // Devices are closed and registries emptied before the loader unloads; what named containers hold in their memory
  // goes first.
  runtime->runtime.DropResources();
  runtime->loader.ForEachLoaded(
      [runtime](const plugins::LoadedPlugin& plugin) { runtime->runtime.UnregisterPlugin(plugin.id()); });
  if (!KeptForEver(*runtime)) delete runtime;
}

tenon_status* tenon_runtime_load_plugin(tenon_runtime* runtime, tenon_span path) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, path);
    return runtime->OpenFile(std::string(View(path)));
  });
}

tenon_status* tenon_runtime_add_plugin(tenon_runtime* runtime, const tenon_plugin* plugin) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime);
    if (plugin == nullptr)
      return InvalidArgument("'plugin' is NULL; give its descriptor, as tenon_plugin_query of a library does");
    return runtime->AddPlugin(*plugin);
  });
}

const tenon_files* tenon_runtime_files(void) { return files::Files(); }

void tenon_runtime_open_all(tenon_runtime* runtime) {
  if (runtime == nullptr) return;
  std::lock_guard lock(runtime->mutex);
  for (const auto& package : runtime->loader.packages())
    if (package->manifest) runtime->OpenPackage(package->manifest->id);
}

tenon_status* tenon_runtime_unload_plugin(tenon_runtime* runtime, tenon_span id) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, id);
    std::lock_guard lock(runtime->mutex);
    const std::string name(View(id));
    const auto live = [&]() -> std::vector<std::string> {
      const int64_t objects = runtime->runtime.LiveObjects(name);
      if (objects == 0) return {};
      return {StrCat(
          objects,
          " kernels of sessions, open files or named variables; release the callables and sessions that use them, "
          "close the files, and destroy the variables (DestroyResourceOp)")};
    };
    // Nothing of it begins from here on, so that nothing is in use that was not a moment ago.
    if (!runtime->runtime.Retire(name)) {
      const std::vector<std::string> used = live();
      return FailedPrecondition(
          StrCat("plugin '", name, "' is in use: ", used.empty() ? "one of its functions is being called" : used[0]));
    }
    std::string path;
    for (const plugins::LoadedPlugin* plugin : runtime->loader.loaded()) {
      if (plugin->id() != name) continue;
      runtime->runtime.UnregisterPlugin(name);
      path = plugin->path();
    }
    TENON_RETURN_IF_ERROR(runtime->loader.Unload(name, live));
    runtime->failures.erase(path);
    runtime->opened.erase(name);
    runtime->opened_ops.clear();
    runtime->opened_kernels.clear();
    return Status::Ok();
  });
}

uint64_t tenon_runtime_report_count(const tenon_runtime* runtime) {
  if (runtime == nullptr) return 0;
  std::lock_guard lock(runtime->mutex);
  runtime->lists->reports = runtime->Reports();
  return runtime->lists->reports.size();
}

tenon_status* tenon_runtime_report(const tenon_runtime* runtime, uint64_t index, tenon_load_report* out_report) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_report);
    std::lock_guard lock(runtime->mutex);
    if (runtime->lists->reports.empty()) runtime->lists->reports = runtime->Reports();
    if (index >= runtime->lists->reports.size()) return OutOfList("report", index, runtime->lists->reports.size());
    const plugins::LoadReport& report = runtime->lists->reports[index];
    const tenon_load_report value = {TENON_HEAD(tenon_load_report),
                                     Span(report.path),
                                     Span(report.id),
                                     Span(report.version),
                                     Span(plugins::ReasonName(report.reason)),
                                     Span(report.text),
                                     Span(report.missing),
                                     Span(report.hint),
                                     OutcomeCode(report.outcome),
                                     report.op_count,
                                     report.kernel_count,
                                     report.device_count};
    return Status(host::WriteOut(value, out_report));
  });
}

uint64_t tenon_runtime_op_count(const tenon_runtime* runtime) {
  if (runtime == nullptr) return 0;
  std::lock_guard lock(runtime->mutex);
  runtime->lists->ops = runtime->runtime.ops().All();
  return runtime->lists->ops.size();
}

tenon_status* tenon_runtime_op(const tenon_runtime* runtime, uint64_t index, tenon_op_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_info);
    std::lock_guard lock(runtime->mutex);
    if (runtime->lists->ops.empty()) runtime->lists->ops = runtime->runtime.ops().All();
    if (index >= runtime->lists->ops.size()) return OutOfList("op", index, runtime->lists->ops.size());
    return Status(host::WriteOut(InfoOf(*runtime->lists->ops[index]), out_info));
  });
}

tenon_status* tenon_runtime_find_op(const tenon_runtime* runtime, tenon_span name, tenon_op_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, name, out_info);
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* op, runtime->runtime.ops().Find(View(name)));
    return Status(host::WriteOut(InfoOf(*op), out_info));
  });
}

uint64_t tenon_runtime_kernel_count(const tenon_runtime* runtime) {
  if (runtime == nullptr) return 0;
  std::lock_guard lock(runtime->mutex);
  runtime->lists->kernels = runtime->runtime.kernels().All();
  runtime->lists->kernel_types.clear();
  for (const auto& entry : runtime->lists->kernels)
    runtime->lists->kernel_types.push_back(exec::DescribeConstraints(*entry.registration));
  return runtime->lists->kernels.size();
}

tenon_status* tenon_runtime_kernel(const tenon_runtime* runtime, uint64_t index, tenon_kernel_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_info);
    std::lock_guard lock(runtime->mutex);
    if (runtime->lists->kernels.empty()) tenon_runtime_kernel_count(runtime);
    if (index >= runtime->lists->kernels.size()) return OutOfList("kernel", index, runtime->lists->kernels.size());
    const exec::KernelEntry& entry = runtime->lists->kernels[index];
    const tenon_kernel_info value = {TENON_HEAD(tenon_kernel_info),
                                     entry.registration->op,
                                     entry.registration->device_type,
                                     Span(entry.plugin()),
                                     Span(runtime->lists->kernel_types[index]),
                                     entry.registration->priority,
                                     entry.registration->traits};
    return Status(host::WriteOut(value, out_info));
  });
}

uint64_t tenon_runtime_device_count(const tenon_runtime* runtime) {
  if (runtime == nullptr) return 0;
  const_cast<tenon_runtime*>(runtime)->OpenDevices();
  std::lock_guard lock(runtime->mutex);
  runtime->lists->devices = runtime->runtime.devices();
  return runtime->lists->devices.size();
}

tenon_status* tenon_runtime_device(const tenon_runtime* runtime, uint64_t index, tenon_device_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(runtime, out_info);
    std::lock_guard lock(runtime->mutex);
    if (runtime->lists->devices.empty()) tenon_runtime_device_count(runtime);
    if (index >= runtime->lists->devices.size()) return OutOfList("device", index, runtime->lists->devices.size());
    const exec::Device& device = runtime->lists->devices[index];
    const tenon_device_info value = {
        TENON_HEAD(tenon_device_info),
        Span(device.name),
        Span(device.type),
        Span(device.plugin),
        Span(device.model),
        Span(device.problem),
        device.memory_bytes,
        Span(device.memory_kinds),
        device.queues == nullptr ? 0 : static_cast<uint32_t>(device.queues->compute_count()),
        device.queues == nullptr ? 0u : 2u,
        static_cast<uint32_t>(device.properties.dl_device_type),
        device.properties.dl_device_id};
    return Status(host::WriteOut(value, out_info));
  });
}

}  // extern "C"
