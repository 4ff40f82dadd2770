// SPDX-License-Identifier: Apache-2.0
#include "plugins/negotiate.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "core/base/table_check.h"
#include "tenon/device.h"
#include "tenon/ext/draft/compile_loop.h"
#include "tenon/ext/draft/device_copy.h"
#include "tenon/ext/draft/filesystem.h"
#include "tenon/ext/draft/graph_pass.h"
#include "tenon/ext/draft/place.h"
#include "tenon/ext/draft/variant.h"
#include "tenon/kernel.h"
#include "tenon/op.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::plugins {
namespace {

// The shortest descriptor: all members of ABI 0.1.
constexpr uint32_t kLeastBytes = offsetof(tenon_plugin, capability_count) + sizeof(uint64_t);
constexpr uint32_t kMostBytes = 64 * 1024;
constexpr uint64_t kMostEntries = 1u << 20;
constexpr uint64_t kMostText = 4096;
constexpr uint32_t kUnderstood = 0;  // bits of tenon_plugin.must_understand; none is defined yet

// The capabilities of this host, each with the hash of its layout.
struct Known {
  std::string_view id;
  uint64_t layout_hash;
};
#define TENON_KNOWN(name) {TENON_CAPABILITY_##name, TENON_HASH_##name}
constexpr Known kCapabilities[] = {TENON_KNOWN(OPS),        TENON_KNOWN(GRADIENTS),   TENON_KNOWN(KERNELS),
                                   TENON_KNOWN(DEVICE),     TENON_KNOWN(COMPILER),    TENON_KNOWN(TRANSPORT),
                                   TENON_KNOWN(COLLECTIVE), TENON_KNOWN(PLACER),      TENON_KNOWN(FILESYSTEM),
                                   TENON_KNOWN(GRAPH_PASS), TENON_KNOWN(DEVICE_COPY), TENON_KNOWN(LOOP_COMPILER),
                                   TENON_KNOWN(VARIANTS)};
#undef TENON_KNOWN

// nullptr: this host does not know it.
const Known* FindKnown(std::string_view id) {
  const auto found = std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                                  [id](const Known& known) { return known.id == id; });
  return found == std::end(kCapabilities) ? nullptr : found;
}

std::string Text(tenon_span span) {
  if (span.data == nullptr) return {};
  return std::string(span.data, std::min(span.size, kMostText));
}

std::string Hex(uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16).ptr;
  return "0x" + std::string(digits, end);
}

bool Fail(LoadReport* report, Reason reason, std::string text, std::string hint, std::string missing = {}) {
  report->outcome = Outcome::kRejected;
  report->reason = reason;
  report->text = std::move(text);
  report->hint = std::move(hint);
  report->missing = std::move(missing);
  return false;
}

constexpr const char* kBuildAgain =
    "until ABI 1.0 both must be built from headers that agree on what the plugin brings; build the plugin again";

bool CheckAbi(const tenon_host& host, uint32_t major, uint32_t minor, uint64_t hash, LoadReport* report) {
  if (major != host.abi_major) {
    return Fail(
        report, Reason::kAbiMajor,
        StrCat("it was built for ABI ", major, ".", minor, ", this host has ", host.abi_major, ".", host.abi_minor),
        StrCat("build it with the headers of ABI ", host.abi_major));
  }
  if (host.abi_major == 0 && hash != host.layout_hash) {
    return Fail(report, Reason::kLayout,
                StrCat("its layout hash is ", Hex(hash), ", this host's is ", Hex(host.layout_hash)), kBuildAgain);
  }
  return true;
}

// The capability's own layout, of which another capability's users need not know.
bool CheckLayout(const tenon_host& host, std::string_view id, uint64_t hash, LoadReport* report) {
  const Known* const known = FindKnown(id);
  if (known == nullptr || host.abi_major != 0 || known->layout_hash == hash) return true;
  return Fail(report, Reason::kLayout,
              StrCat("the layout hash of its ", id, " is ", Hex(hash), ", this host's is ", Hex(known->layout_hash)),
              kBuildAgain, std::string(id));
}

bool CheckRefusal(const tenon_query_args& args, LoadReport* report) {
  const std::string text = Text(args.out_reject_text);
  const std::string said = text.empty() ? std::string("it refuses this host and does not say why") : text;
  switch (args.out_reject_code) {
    case TENON_REJECT_ABI_MAJOR:
      return Fail(report, Reason::kAbiMajor,
                  StrCat(said, ", this host has ", args.host_abi_major, ".", args.host_abi_minor),
                  StrCat("build it with the headers of ABI ", args.host_abi_major));
    case TENON_REJECT_LAYOUT:
      return Fail(report, Reason::kLayout, said, "build it with the headers of this host");
    default:
      return Fail(report, Reason::kQueryRejected, said, "the text is the plugin's own; ask its vendor");
  }
}

void CountTables(const tenon_capability& capability, LoadReport* report) {
  const std::string_view id = View(capability.id);
  if (id == TENON_CAPABILITY_OPS) {
    report->op_count += static_cast<uint32_t>(static_cast<const tenon_op_package*>(capability.table)->count);
  } else if (id == TENON_CAPABILITY_KERNELS) {
    report->kernel_count += static_cast<uint32_t>(static_cast<const tenon_kernel_package*>(capability.table)->count);
  } else if (id == TENON_CAPABILITY_DEVICE) {
    ++report->device_count;
  }
}

bool CheckCapabilities(const tenon_host& host, const tenon_plugin& plugin, LoadReport* report) {
  const std::string hint = StrCat("known ids are ", kCapabilities[0].id, " and its like in tenon/abi.h");
  if (plugin.capability_count == 0) return Fail(report, Reason::kNoCapability, "it provides nothing", hint);
  if (plugin.capabilities == nullptr || plugin.capability_count > kMostEntries) {
    return Fail(report, Reason::kBadDescriptor, "its table of capabilities is NULL or absurdly long",
                "use TENON_PLUGIN");
  }
  uint64_t known = 0;
  for (uint64_t i = 0; i < plugin.capability_count; ++i) {
    const tenon_capability& capability = plugin.capabilities[i];
    const std::string id = Text(capability.id);
    if (FindKnown(id) == nullptr) {
      report->ignored_capabilities.push_back(id);
      continue;
    }
    if (capability.table == nullptr) {
      return Fail(report, Reason::kBadDescriptor, StrCat("the table of capability ", id, " is NULL"), "give the table",
                  id);
    }
    if (!CheckLayout(host, id, capability.layout_hash, report)) return false;
    ++known;
    CountTables(capability, report);
  }
  if (known > 0) return true;
  std::string ids;
  for (const std::string& id : report->ignored_capabilities) ids += (ids.empty() ? "" : ", ") + id;
  return Fail(report, Reason::kNoCapability, "it provides nothing that this host knows, only " + ids, hint, ids);
}

template <typename Number>
bool IsNumber(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The type's name when the value does not fit it; NULL when it does.
const char* Misfit(uint32_t type, std::string_view value) {
  switch (type) {
    case TENON_OPTION_INT: return IsNumber<int64_t>(value) ? nullptr : "a whole number";
    case TENON_OPTION_FLOAT: return IsNumber<double>(value) ? nullptr : "a number";
    case TENON_OPTION_BOOL: return value == "true" || value == "false" ? nullptr : "true or false";
    default: return nullptr;
  }
}

Status CheckSpans(const tenon_plugin& plugin) {
  if (plugin.id.size > 0) TENON_RETURN_IF_ERROR(CheckName(plugin.id, "its id"));
  TENON_RETURN_IF_ERROR(CheckText(plugin.version, "its version"));
  TENON_RETURN_IF_ERROR(CheckText(plugin.vendor, "its vendor"));
  return CheckText(plugin.doc, "its doc");
}

// That an option can be given at all: its name, its type, and its default, which is of that type.
Status CheckDeclaration(const tenon_option_declaration& option) {
  TENON_RETURN_IF_ERROR(CheckName(option.key, "the name of an option"));
  const std::string what = StrCat("option '", View(option.key), "'");
  TENON_RETURN_IF_ERROR(CheckText(option.default_value, what + ": its default"));
  TENON_RETURN_IF_ERROR(CheckText(option.text, what + ": its text"));
  if (option.type < TENON_OPTION_STRING || option.type > TENON_OPTION_BOOL)
    return InvalidArgument(StrCat(what, " has the type ", option.type, ", which this host does not know"));
  if (option.reserved != 0)
    return InvalidArgument(
        StrCat(what, " has ", option.reserved, " in its reserved member, which this host knows as 0 alone"));
  const char* expected = option.default_value.size == 0 ? nullptr : Misfit(option.type, View(option.default_value));
  if (expected != nullptr)
    return InvalidArgument(
        StrCat(what, " has the default '", View(option.default_value), "', which is not ", expected));
  return Status::Ok();
}

bool CheckDescriptor(const tenon_host& host, const tenon_plugin* answer, tenon_plugin* out, LoadReport* report) {
  // The first members are the same in every version, so that a foreign one can be recognised.
  report->id = report->version = {};
  if (!CheckAbi(host, answer->abi_major, answer->abi_minor, answer->layout_hash, report)) return false;
  if (answer->struct_size < kLeastBytes || answer->struct_size > kMostBytes) {
    return Fail(report, Reason::kBadDescriptor,
                StrCat("its descriptor claims ", answer->struct_size, " bytes; the least is ", kLeastBytes),
                "use TENON_PLUGIN");
  }
  if ((answer->must_understand & ~kUnderstood) != 0) {
    const std::string bits = Hex(answer->must_understand & ~kUnderstood);
    return Fail(report, Reason::kMustUnderstand,
                StrCat("it asks the host to understand bits ", bits, ", which are unknown here"),
                "use a newer host, or an older version of the plugin", bits);
  }
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, answer, std::min<size_t>(answer->struct_size, sizeof(*out)));
  if (Status status = CheckSpans(*out); !status.ok())
    return Fail(report, Reason::kBadDescriptor, std::string(status.message()), "use TENON_PLUGIN");
  report->id = Text(out->id);
  report->version = Text(out->version);
  if (report->id.empty())
    return Fail(report, Reason::kBadDescriptor, "its id is empty", "give it a reverse domain name");
  if (out->load == nullptr || out->unload == nullptr) {
    return Fail(report, Reason::kBadDescriptor, "its load or unload is NULL", "use TENON_PLUGIN");
  }
  if (out->option_count > kMostEntries || (out->option_count > 0 && out->options == nullptr)) {
    return Fail(report, Reason::kBadDescriptor, "its table of options is NULL or absurdly long",
                "use TENON_PLUGIN_WITH");
  }
  if (out->understood_count > kMostEntries || (out->understood_count > 0 && out->understood == nullptr)) {
    return Fail(report, Reason::kBadDescriptor, "its table of what it understands is NULL or absurdly long",
                "leave it out, or give it");
  }
  for (uint64_t i = 0; i < out->option_count; ++i) {
    if (Status status = CheckDeclaration(out->options[i]); !status.ok())
      return Fail(report, Reason::kBadDescriptor, std::string(status.message()),
                  "the option types are TENON_OPTION_* of tenon/abi.h");
  }
  return true;
}

}  // namespace

bool CheckManifestAbi(const tenon_host& host, const Manifest& manifest, const std::string& path,
                      LoadReport* out_report) {
  out_report->path = path;
  return CheckAbi(host, manifest.abi_major, manifest.abi_minor, manifest.layout_hash, out_report) &&
         std::all_of(manifest.capabilities.begin(), manifest.capabilities.end(),
                     [&](const ManifestCapability& capability) {
                       return CheckLayout(host, capability.id, capability.layout_hash, out_report);
                     });
}

bool Negotiate(const tenon_host& host, tenon_plugin_query_function query, const std::string& path,
               tenon_plugin* out_plugin, LoadReport* out_report) {
  out_report->path = path;
  tenon_query_args args = {TENON_HEAD(tenon_query_args), host.abi_major, host.abi_minor, host.layout_hash,
                           host.version, TENON_REJECT_NONE, 0, {nullptr, 0}};
  const tenon_plugin* answer = nullptr;
  try {
    answer = query(&args);
  } catch (...) {
    return Fail(out_report, Reason::kQueryRejected, StrCat(TENON_QUERY_SYMBOL, " threw an exception"),
                "nothing may be thrown across the C ABI; correct the plugin");
  }
  if (answer == nullptr) return CheckRefusal(args, out_report);
  return CheckPlugin(host, *answer, path, out_plugin, out_report);
}

bool CheckPlugin(const tenon_host& host, const tenon_plugin& answer, const std::string& path, tenon_plugin* out_plugin,
                 LoadReport* out_report) {
  out_report->path = path;
  return CheckDescriptor(host, &answer, out_plugin, out_report) && CheckCapabilities(host, *out_plugin, out_report);
}

bool CheckOptions(const tenon_plugin& plugin, const OptionList& given, std::vector<tenon_option>* out_options,
                  LoadReport* out_report) {
  std::string known;
  for (uint64_t i = 0; i < plugin.option_count; ++i) known += (i == 0 ? "" : ", ") + Text(plugin.options[i].key);
  const auto declared = [&](const std::string& key) {
    return std::any_of(plugin.options, plugin.options + plugin.option_count,
                       [&](const tenon_option_declaration& option) { return Text(option.key) == key; });
  };
  for (const auto& [key, value] : given) {
    if (!declared(key)) {
      sdk::NearMiss near(key);
      for (uint64_t k = 0; k < plugin.option_count; ++k) near.Try(View(plugin.options[k].key));
      return Fail(out_report, Reason::kUnknownOption, StrCat("it has no option '", key, "'"),
                  known.empty() ? std::string("it has no options at all") : "known options: " + known + near.Hint(),
                  key);
    }
  }
  for (uint64_t i = 0; i < plugin.option_count; ++i) {
    const tenon_option_declaration& option = plugin.options[i];
    const std::string key = Text(option.key);
    const auto is_key = [&](const auto& pair) { return pair.first == key; };
    const auto found = std::find_if(given.begin(), given.end(), is_key);
    if (std::count_if(given.begin(), given.end(), is_key) > 1) {
      return Fail(out_report, Reason::kBadOption, StrCat("option '", key, "' is given twice"), "give it once", key);
    }
    if (found == given.end()) {
      if (option.default_value.size > 0) out_options->push_back({option.key, option.default_value});
      continue;
    }
    if (const char* expected = Misfit(option.type, found->second)) {
      return Fail(out_report, Reason::kBadOption, StrCat("option '", key, "' is '", found->second, "', not ", expected),
                  StrCat("give ", expected, "; its default is '", Text(option.default_value), "'"), key);
    }
    out_options->push_back({option.key, Span(found->second)});
  }
  return true;
}

}  // namespace tenon::plugins
