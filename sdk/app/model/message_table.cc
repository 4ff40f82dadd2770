// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/message_table.h"

#include <cstdlib>
#include <vector>

namespace tenon::model {

// Written by the build from the .proto files.
extern const char* const kModelProtos[];
extern const size_t kModelProtoCount;

namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Words and single signs; comments are left out.
std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (IsWord(text[at])) {
      const size_t begin = at;
      while (at < text.size() && IsWord(text[at])) ++at;
      words.push_back(text.substr(begin, at - begin));
    } else {
      if (text[at] != ' ' && text[at] != '\n') words.push_back(text.substr(at, 1));
      ++at;
    }
  }
  return words;
}

const std::map<std::string, FieldKind, std::less<>>& ScalarKinds() {
  static const auto* const kinds = new std::map<std::string, FieldKind, std::less<>>{
      {"int32", FieldKind::kInt32},    {"int64", FieldKind::kInt64},     {"uint32", FieldKind::kUint32},
      {"uint64", FieldKind::kUint64},  {"bool", FieldKind::kBool},       {"float", FieldKind::kFloat},
      {"double", FieldKind::kDouble},  {"fixed32", FieldKind::kFixed32}, {"fixed64", FieldKind::kFixed64},
      {"string", FieldKind::kBytes},   {"bytes", FieldKind::kBytes}};
  return *kinds;
}

}  // namespace

class ProtoReader {
 public:
  ProtoReader(std::string_view text, MessageTable* table) : words_(SplitWords(text)), table_(*table) {}

  Status Run() {
    while (!AtEnd()) {
      if (!(Peek() == "message" ? Message("") : Peek() == "enum" ? Enum("") : SkipStatement())) return Bad();
    }
    return Resolve() ? Status() : Bad();
  }

 private:
  bool AtEnd() const { return at_ >= words_.size(); }
  std::string_view Peek() const { return AtEnd() ? std::string_view() : words_[at_]; }
  std::string_view Take() { return AtEnd() ? std::string_view() : words_[at_++]; }
  bool Take(std::string_view word) {
    if (Peek() != word) return false;
    ++at_;
    return true;
  }
  Status Bad() const {
    return Status(Code::kInternal, "a .proto file cannot be understood near its word " + std::to_string(at_) + ", '" +
                                       std::string(Peek()) + "'");
  }

  bool SkipStatement() {
    while (!AtEnd() && Take() != ";") {
    }
    return true;
  }
  bool Enum(const std::string& scope) {
    (void)Take();
    EnumEntry& entry = table_.enums_[scope + std::string(Take())];
    if (!Take("{")) return false;
    while (!Take("}")) {
      const std::string name(Take());
      if (name == "option" || name == "reserved") {
        (void)SkipStatement();
        continue;
      }
      if (!Take("=")) return false;
      const bool negative = Take("-");
      const int64_t value = std::strtoll(std::string(Take()).c_str(), nullptr, 0);
      entry[name] = negative ? -value : value;
      if (!SkipStatement() || AtEnd()) return false;
    }
    return true;
  }
  // Its depth is that of our own files.
  bool Message(const std::string& scope) {
    (void)Take();
    const std::string name = scope + std::string(Take());
    table_.messages_[name];
    return Take("{") && Fields(name);
  }
  bool Fields(const std::string& message) {
    while (!Take("}")) {
      if (AtEnd()) return false;
      const std::string_view word = Peek();
      bool understood = true;
      if (word == "message") understood = Message(message + ".");
      else if (word == "enum") understood = Enum(message + ".");
      else if (word == "reserved" || word == "option") understood = SkipStatement();
      else if (word == "oneof") understood = Take("oneof") && !Take().empty() && Take("{") && Fields(message);
      else understood = Field(message);
      if (!understood) return false;
    }
    return true;
  }
  bool Field(const std::string& message) {
    (void)(Take("repeated") || Take("optional"));
    std::string type(Take());
    if (type == "map") type = MapType(message);
    const std::string name(Take());
    if (type.empty() || !Take("=")) return false;
    table_.messages_[message][name] = {static_cast<uint32_t>(std::strtoul(std::string(Take()).c_str(), nullptr, 10)),
                                       FieldKind::kMessage, type};
    return SkipStatement();
  }
  // A map is a repeated message of a key and a value.
  std::string MapType(const std::string& message) {
    if (!Take("<")) return "";
    const std::string key(Take());
    if (!Take(",")) return "";
    const std::string value(Take());
    if (!Take(">")) return "";
    const std::string entry = message + ".map<" + key + "," + value + ">";
    table_.messages_[entry] = {{"key", {1, FieldKind::kMessage, key}}, {"value", {2, FieldKind::kMessage, value}}};
    return entry;
  }

  // Names of types become full names, looked for from the inside out.
  bool Resolve() {
    for (auto& [message, fields] : table_.messages_) {
      for (auto& [name, field] : fields) {
        if (const auto scalar = ScalarKinds().find(field.type); scalar != ScalarKinds().end())
          field = {field.number, scalar->second, ""};
        else if (!ResolveName(message, field)) return false;
      }
    }
    return true;
  }
  bool ResolveName(std::string scope, FieldEntry& field) const {
    for (;;) {
      const std::string full = scope.empty() ? field.type : scope + "." + field.type;
      if (table_.messages_.contains(full) || table_.enums_.contains(full)) {
        field.kind = table_.enums_.contains(full) ? FieldKind::kEnum : FieldKind::kMessage;
        field.type = full;
        return true;
      }
      if (scope.empty()) return false;
      const size_t dot = scope.rfind('.');
      scope = dot == std::string::npos ? "" : scope.substr(0, dot);
    }
  }

  std::vector<std::string_view> words_;
  size_t at_ = 0;
  MessageTable& table_;
};

Result<MessageTable> MessageTable::Parse(std::string_view proto) {
  MessageTable table;
  TENON_TRY(ProtoReader(proto, &table).Run());
  return table;
}

const MessageTable& MessageTable::The() {
  static const MessageTable* const table = [] {
    std::string all;
    for (size_t i = 0; i < kModelProtoCount; ++i) all += kModelProtos[i];
    Result<MessageTable> parsed = Parse(all);
    return new MessageTable(parsed.ok() ? *std::move(parsed) : MessageTable());
  }();
  return *table;
}

const MessageEntry* MessageTable::FindMessage(std::string_view name) const {
  const auto found = messages_.find(name);
  return found == messages_.end() ? nullptr : &found->second;
}

const EnumEntry* MessageTable::FindEnum(std::string_view name) const {
  const auto found = enums_.find(name);
  return found == enums_.end() ? nullptr : &found->second;
}

}  // namespace tenon::model
