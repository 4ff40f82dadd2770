// SPDX-License-Identifier: Apache-2.0
#include "plugins/manifest.h"

#include <limits>
#include <utility>

#include "plugins/json_value.h"

namespace tenon::plugins {
namespace {

using FieldKind = JsonValue::Kind;

constexpr int64_t kFormat = 1;

// Reads members of one object; the first that has a wrong type is remembered.
class Reader {
 public:
  Reader(const JsonValue& object, std::string where, std::string* error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (object.kind != FieldKind::kObject) Wrong("", "an object");
  }

  std::string Text(const char* key, bool required = false) const {
    const JsonValue* value = Find(key, required);
    if (value == nullptr) return {};
    if (value->kind != FieldKind::kText) return Wrong(key, "a string"), std::string();
    return value->text;
  }

  int64_t Number(const char* key, int64_t lowest, int64_t highest, bool required = false) const {
    const JsonValue* value = Find(key, required);
    if (value == nullptr) return 0;
    if (value->kind != FieldKind::kInteger || value->integer < lowest || value->integer > highest)
      return Wrong(key, StrCat("a whole number from ", lowest, " to ", highest)), 0;
    return value->integer;
  }

  std::vector<std::string> Texts(const char* key) const {
    std::vector<std::string> texts;
    for (const JsonValue& item : Items(key)) {
      if (item.kind != FieldKind::kText) return Wrong(key, "a list of strings"), texts;
      texts.push_back(item.text);
    }
    return texts;
  }

  bool Has(const char* key) const { return object_.Find(key) != nullptr; }
  const std::vector<JsonValue>& Items(const char* key) const { return Child(key, FieldKind::kList, "a list").items; }
  const JsonValue& Object(const char* key) const { return Child(key, FieldKind::kObject, "an object"); }

  void Wrong(std::string_view key, std::string_view expected) const {
    if (!error_->empty()) return;
    const char* dot = where_.empty() || key.empty() ? "" : ".";
    *error_ = StrCat("'", where_, dot, key, "' must be ", expected);
  }

 private:
  const JsonValue* Find(const char* key, bool required) const {
    const JsonValue* found = object_.Find(key);
    if (found == nullptr && required && object_.kind == FieldKind::kObject) Wrong(key, "given");
    return found;
  }

  const JsonValue& Child(const char* key, FieldKind kind, const char* expected) const {
    static const JsonValue list{FieldKind::kList, 0, {}, {}, {}}, object{FieldKind::kObject, 0, {}, {}, {}};
    const JsonValue& empty = kind == FieldKind::kList ? list : object;
    const JsonValue* value = Find(key, false);
    if (value == nullptr) return empty;
    if (value->kind != kind) return Wrong(key, expected), empty;
    return *value;
  }

  const JsonValue& object_;
  std::string where_;
  std::string* error_;
};

uint64_t ParseHash(const Reader& reader) {
  const std::string text = reader.Text("layout_hash", true);
  uint64_t hash = 0;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    if (digit < 0 || text.size() > 16) return reader.Wrong("layout_hash", "at most 16 hexadecimal digits"), 0;
    hash = hash << 4 | static_cast<uint64_t>(digit);
  }
  return hash;
}

ManifestOption ReadOption(const JsonValue& json, std::string* error) {
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

}  // namespace

Result<Manifest> ParseManifest(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::Parse(text));
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
  for (const JsonValue& option : reader.Items("options")) manifest.options.push_back(ReadOption(option, &error));
  const Reader provides(reader.Object("provides"), "provides", &error);
  manifest.ops = provides.Texts("ops");
  manifest.kernels = provides.Texts("kernels");
  if (provides.Has("pass_ops")) manifest.pass_ops = provides.Texts("pass_ops");
  manifest.devices = provides.Texts("devices");
  manifest.gradients = provides.Texts("gradients");
  for (const JsonValue& each : provides.Items("capabilities")) {
    const Reader capability(each, "provides.capabilities", &error);
    manifest.capabilities.push_back({capability.Text("id", true), ParseHash(capability)});
  }
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
  // A file may correct what a library says of itself; it cannot make another package of it, which would then stand for
  // the real one.
  if (exists && note)
    if (const Result<Manifest> own = ParseManifest(*note); own.ok() && own->id != manifest->id) {
      *out_report = Reject(
          path, Reason::kManifestMismatch,
          StrCat("the manifest in ", source, " says '", manifest->id, "', the library's own says '", own->id, "'"),
          "correct or remove that file");
      return std::nullopt;
    }
  inspection.manifest = *std::move(manifest);
  return inspection;
}

}  // namespace tenon::plugins
