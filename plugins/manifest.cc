// SPDX-License-Identifier: Apache-2.0
#include "plugins/manifest.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace tenon::plugins {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr int kMaxDepth = 16;  // the format has five levels

// Reads members of one object; the first that has a wrong type is remembered.
class Reader {
 public:
  Reader(const Json& object, std::string where, std::string* error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object.is_object()) Wrong("", "an object");
  }

  std::string Text(const char* key, bool required = false) const {
    const Json* value = Find(key, required);
    if (value == nullptr) return {};
    if (!value->is_string()) return Wrong(key, "a string"), std::string();
    return value->get<std::string>();
  }

  int64_t Number(const char* key, int64_t lowest, int64_t highest, bool required = false) const {
    const Json* value = Find(key, required);
    if (value == nullptr) return 0;
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(highest)) ||
        value->get<int64_t>() < lowest || value->get<int64_t>() > highest) {
      return Wrong(key, StrCat("a whole number from ", lowest, " to ", highest)), 0;
    }
    return value->get<int64_t>();
  }

  std::vector<std::string> Texts(const char* key) const {
    std::vector<std::string> texts;
    for (const Json& item : Items(key)) {
      if (!item.is_string()) return Wrong(key, "a list of strings"), texts;
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

  const Json& Items(const char* key) const { return Child(key, Json::value_t::array, "a list"); }
  const Json& Object(const char* key) const { return Child(key, Json::value_t::object, "an object"); }

  void Wrong(std::string_view key, std::string_view expected) const {
    if (!error_->empty()) return;
    const char* dot = where_.empty() || key.empty() ? "" : ".";
    *error_ = StrCat("'", where_, dot, key, "' must be ", expected);
  }

 private:
  const Json* Find(const char* key, bool required) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (required) Wrong(key, "given");
    return nullptr;
  }

  const Json& Child(const char* key, Json::value_t type, const char* expected) const {
    static const Json list = Json::array();
    static const Json object = Json::object();
    const Json& empty = type == Json::value_t::array ? list : object;
    const Json* value = Find(key, false);
    if (value == nullptr) return empty;
    if (value->type() != type) return Wrong(key, expected), empty;
    return *value;
  }

  const Json& object_;
  std::string where_;
  std::string* error_;
};

uint64_t ParseHash(const Reader& abi) {
  const std::string text = abi.Text("layout_hash", true);
  uint64_t hash = 0;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    if (digit < 0 || text.size() > 16) return abi.Wrong("layout_hash", "at most 16 hexadecimal digits"), 0;
    hash = hash << 4 | static_cast<uint64_t>(digit);
  }
  return hash;
}

ManifestOption ReadOption(const Json& json, std::string* error) {
  const Reader reader(json, "options", error);
  ManifestOption option;
  option.key = reader.Text("key", true);
  option.type = reader.Text("type", true);
  option.default_value = reader.Text("default");
  option.text = reader.Text("text");
  if (option.type != "string" && option.type != "int" && option.type != "float" && option.type != "bool") {
    reader.Wrong("type", "string, int, float or bool");
  }
  return option;
}

ManifestKernel ReadKernel(const Json& json, std::string* error) {
  const Reader reader(json, "provides.kernels", error);
  ManifestKernel kernel;
  kernel.op = reader.Text("op", true);
  kernel.device_type = reader.Text("device_type");
  kernel.label = reader.Text("label");
  kernel.priority = reader.Number("priority", std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  const Json& constraints = reader.Object("constraints");
  const Reader types(constraints, "provides.kernels.constraints", error);
  for (const auto& [attr, dtypes] : constraints.items()) kernel.constraints[attr] = types.Texts(attr.c_str());
  return kernel;
}

}  // namespace

Result<Manifest> ParseManifest(std::string_view text) {
  bool too_deep = false;
  const Json json = Json::parse(
      text.begin(), text.end(),
      [&](int depth, Json::parse_event_t, Json&) {
        if (depth > kMaxDepth) too_deep = true;
        return depth <= kMaxDepth;  // deeper values are dropped, so the tree stays shallow
      },
      /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("it is not JSON");
  if (too_deep) return InvalidArgument(StrCat("it is nested more than ", kMaxDepth, " levels deep"));

  std::string error;
  const Reader reader(json, "", &error);
  Manifest manifest;
  const int64_t format = reader.Number("tenon_manifest", 0, std::numeric_limits<int32_t>::max(), true);
  if (error.empty() && format != kFormat) {
    return Unimplemented(StrCat("its format is ", format, "; this host reads ", kFormat));
  }
  manifest.id = reader.Text("id", true);
  manifest.version = reader.Text("version", true);
  manifest.vendor = reader.Text("vendor");
  manifest.doc = reader.Text("doc");
  const Reader abi(reader.Object("abi"), "abi", &error);
  manifest.abi_major = static_cast<uint32_t>(abi.Number("major", 0, UINT32_MAX, true));
  manifest.abi_minor = static_cast<uint32_t>(abi.Number("minor", 0, UINT32_MAX, true));
  manifest.layout_hash = ParseHash(abi);
  manifest.cpu_features = reader.Texts("cpu_features");
  manifest.libraries = reader.Texts("libraries");
  for (const Json& option : reader.Items("options")) manifest.options.push_back(ReadOption(option, &error));
  const Reader provides(reader.Object("provides"), "provides", &error);
  manifest.ops = provides.Texts("ops");
  for (const Json& kernel : provides.Items("kernels")) manifest.kernels.push_back(ReadKernel(kernel, &error));
  manifest.devices = provides.Texts("devices");
  manifest.capabilities = provides.Texts("capabilities");
  if (error.empty() && manifest.id.empty()) error = "'id' is empty";
  if (!error.empty()) return InvalidArgument(error);
  return manifest;
}

std::optional<Inspection> Inspect(const std::string& path, LoadReport* out_report) {
  std::optional<ElfSummary> elf = ReadElf(path, out_report);
  if (!elf) return std::nullopt;
  Inspection inspection;
  inspection.elf = *std::move(elf);

  const std::string beside = path + ".json";
  bool exists = false;
  std::string error;
  std::optional<std::string> text = ReadSmallFile(beside, &exists, &error);
  const std::string source = exists ? beside : std::string("its ELF note");
  if (exists && !text) {
    *out_report = Reject(path, Reason::kBadManifest, StrCat("the manifest in ", source, " cannot be read: ", error),
                         "correct or remove that file");
    return std::nullopt;
  }
  const std::optional<std::string> note = std::move(inspection.elf.note);
  inspection.elf.note.reset();
  if (!exists) text = note;
  if (!text) return inspection;

  Result<Manifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) {
    *out_report = Reject(path, Reason::kBadManifest,
                         StrCat("the manifest in ", source, " is not valid: ", manifest.status().message()),
                         exists ? "correct or remove that file" : "build the library again with tenon_add_plugin");
    return std::nullopt;
  }
  // A file may correct what a library says of itself; it cannot make another package of it, which would then stand for the real one.
  if (exists && note)
    if (const Result<Manifest> own = ParseManifest(*note); own.ok() && own->id != manifest->id) {
      *out_report = Reject(path, Reason::kManifestMismatch, StrCat("the manifest in ", source, " says '", manifest->id, "', the library's own says '", own->id, "'"),
                           "correct or remove that file");
      return std::nullopt;
    }
  inspection.manifest = *std::move(manifest);
  return inspection;
}

}  // namespace tenon::plugins
