// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/text_format.h"

#include <algorithm>
#include <cstring>

#include "sdk/app/model/message_table.h"
#include "sdk/app/model/text_scanner.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using Kind = TextScanner::Kind;

constexpr int kMostDepth = 100;  // of messages in messages, as protobuf has it
// A message's size is written into this many bytes before it is known: what was written need not be moved.
constexpr size_t kSizeBytes = 5;
constexpr size_t kMostNotes = 20;

class Converter {
 public:
  explicit Converter(std::string_view text) : scanner_(text) {}

  Result<WireMessage> Run(std::string_view message) {
    const MessageEntry* entry = MessageTable::The().FindMessage(message);
    if (entry == nullptr) return Status(Code::kInternal, "there is no message '" + std::string(message) + "'");
    while (scanner_.kind() != Kind::kEnd) TENON_TRY(Field(*entry, message));
    return WireMessage{std::move(out_), std::move(notes_)};
  }

 private:
  Status Field(const MessageEntry& entry, std::string_view message) {
    if (scanner_.Is('[')) return Any(entry);
    if (scanner_.kind() != Kind::kName) return scanner_.Expected("a field of " + std::string(message));
    const std::string_view name = scanner_.word();
    scanner_.Next();
    const auto found = entry.find(name);
    if (found == entry.end() || (found->second.kind == FieldKind::kBytes && AtMessage())) {
      Note("field '" + std::string(name) + "' of " + std::string(message) + " is passed over");
      TENON_TRY(SkipValue());
    } else {
      TENON_TRY(Values(found->second, name));
    }
    (void)(scanner_.Take(',') || scanner_.Take(';'));
    return Status();
  }

  // "{", "<" or ": {" stands here.
  bool AtMessage() const {
    if (scanner_.Is('{') || scanner_.Is('<')) return true;
    if (!scanner_.Is(':')) return false;
    TextScanner ahead = scanner_;
    ahead.Next();
    return ahead.Is('{') || ahead.Is('<');
  }

  // One value, or a list of them.
  Status Values(const FieldEntry& field, std::string_view name) {
    const bool colon = scanner_.Take(':');
    if (!colon && field.kind != FieldKind::kMessage) return scanner_.Expected("':' after '" + std::string(name) + "'");
    if (!scanner_.Take('[')) return Value(field);
    if (scanner_.Take(']')) return Status();
    do {
      TENON_TRY(Value(field));
    } while (scanner_.Take(','));
    return scanner_.Take(']') ? Status() : scanner_.Expected("',' or ']'");
  }

  Status Value(const FieldEntry& field) {
    switch (field.kind) {
      case FieldKind::kMessage:
        return Message(field);
      case FieldKind::kBytes:
        return Bytes(field.number);
      case FieldKind::kEnum:
        return Enum(field);
      case FieldKind::kBool:
        return Bool(field.number);
      case FieldKind::kFloat:
        return Real<float>(field.number, 5);
      case FieldKind::kDouble:
        return Real<double>(field.number, 1);
      default:
        return Integer(field);
    }
  }

  Status Message(const FieldEntry& field) {
    const char close = scanner_.Is('{') ? '}' : '>';
    if (!scanner_.Take('{') && !scanner_.Take('<')) return scanner_.Expected("'{'");
    if (++depth_ > kMostDepth)
      return scanner_.Error("messages stand in messages more than " + std::to_string(kMostDepth) + " deep");
    const size_t begin = Begin(field.number);
    const MessageEntry& entry = *MessageTable::The().FindMessage(field.type);
    while (!scanner_.Is(close)) TENON_TRY(Field(entry, field.type));
    scanner_.Next();
    --depth_;
    return End(begin);
  }

  // "[type.googleapis.com/tensorflow.AssetFileDef] { ... }": a message of any type, inside an Any.
  Status Any(const MessageEntry& entry) {
    const auto url_field = entry.find("type_url"), value_field = entry.find("value");
    if (url_field == entry.end() || value_field == entry.end()) return scanner_.Expected("a field's name");
    scanner_.Next();
    std::string url;
    while (scanner_.kind() == Kind::kName || scanner_.kind() == Kind::kNumber || scanner_.Is('.') || scanner_.Is('/') ||
           scanner_.Is('-')) {
      url += scanner_.word();
      scanner_.Next();
    }
    if (!scanner_.Take(']')) return scanner_.Expected("']'");
    const std::string type = url.substr(url.find_last_of("./") + 1);
    if (MessageTable::The().FindMessage(type) == nullptr) {
      Note("a message of type '" + url + "' is passed over");
      return SkipValue();
    }
    Tag(url_field->second.number, 2);
    Varint(url.size());
    out_ += url;
    (void)scanner_.Take(':');
    TENON_TRY(Message({value_field->second.number, FieldKind::kMessage, type}));
    (void)(scanner_.Take(',') || scanner_.Take(';'));
    return Status();
  }

  Status Bytes(uint32_t number) {
    if (scanner_.kind() != Kind::kString) return scanner_.Expected("a string");
    const size_t begin = Begin(number);
    for (; scanner_.kind() == Kind::kString; scanner_.Next()) {
      if (!scanner_.AppendString(&out_)) return scanner_.Error("the string has an escape that is none");
    }
    return End(begin);
  }

  Status Enum(const FieldEntry& field) {
    if (scanner_.kind() != Kind::kName) return Integer(field);
    const EnumEntry& values = *MessageTable::The().FindEnum(field.type);
    const auto found = values.find(scanner_.word());
    if (found == values.end()) return scanner_.Expected("a value of " + field.type);
    Tag(field.number, 0);
    Varint(static_cast<uint64_t>(found->second));
    scanner_.Next();
    return Status();
  }

  Status Bool(uint32_t number) {
    const std::string_view word = scanner_.word();
    const bool yes = word == "true" || word == "True" || word == "t" || word == "1";
    if (!yes && word != "false" && word != "False" && word != "f" && word != "0")
      return scanner_.Expected("true or false");
    Tag(number, 0);
    Varint(yes ? 1 : 0);
    scanner_.Next();
    return Status();
  }

  // How far numbers go below 0 and above it. Enums are int32.
  struct Bounds {
    uint64_t below, above;
  };
  static Bounds BoundsOf(FieldKind kind) {
    constexpr auto kHalf32 = uint64_t{1} << 31, kHalf64 = uint64_t{1} << 63;
    switch (kind) {
      case FieldKind::kInt64: return {kHalf64, kHalf64 - 1};
      case FieldKind::kUint32: case FieldKind::kFixed32: return {0, 2 * kHalf32 - 1};
      case FieldKind::kUint64: case FieldKind::kFixed64: return {0, ~uint64_t{0}};
      default: return {kHalf32, kHalf32 - 1};
    }
  }

  Status Integer(const FieldEntry& field) {
    const Bounds bounds = BoundsOf(field.kind);
    const bool negative = scanner_.Take('-');
    uint64_t value = 0;
    if (!scanner_.Integer(&value)) return scanner_.Expected("a whole number");
    if (value > (negative ? bounds.below : bounds.above)) {
      const std::string least = bounds.below == 0 ? "0" : "-" + std::to_string(bounds.below);
      return scanner_.Error("the number " + std::string(negative ? "-" : "") + std::string(scanner_.word()) +
                            " does not fit its field, which holds " + least + " to " + std::to_string(bounds.above));
    }
    if (negative) value = ~value + 1;
    const bool fixed32 = field.kind == FieldKind::kFixed32, fixed64 = field.kind == FieldKind::kFixed64;
    Tag(field.number, fixed32 ? 5 : fixed64 ? 1 : 0);
    if (fixed32) Raw(static_cast<uint32_t>(value));
    else if (fixed64) Raw(value);
    else Varint(value);
    scanner_.Next();
    return Status();
  }

  template <typename T>
  Status Real(uint32_t number, uint32_t wire_type) {
    const bool negative = scanner_.Take('-');
    T value = 0;
    if (!scanner_.Real(&value)) return scanner_.Expected("a number");
    Tag(number, wire_type);
    Raw(negative ? -value : value);
    scanner_.Next();
    return Status();
  }

  // Whatever follows an unknown field's name. Without recursion: what is open stands in a list.
  Status SkipValue() {
    (void)scanner_.Take(':');
    std::string open;
    do {
      if (scanner_.kind() == Kind::kEnd || scanner_.kind() == Kind::kBad) return scanner_.Expected("a value");
      const char c = scanner_.word()[0];
      if (scanner_.kind() == Kind::kSign && (c == '{' || c == '<' || c == '[')) {
        open.push_back(c == '{' ? '}' : c == '<' ? '>' : ']');
      } else if (scanner_.kind() == Kind::kSign && (c == '}' || c == '>' || c == ']')) {
        if (open.empty() || open.back() != c)
          return scanner_.Expected(open.empty() ? "a value" : "'" + open.substr(open.size() - 1) + "'");
        open.pop_back();
      }
      const bool more = scanner_.kind() == Kind::kString || scanner_.Is('-');
      scanner_.Next();
      if (open.empty() && more && (scanner_.kind() == Kind::kString || c == '-')) continue;
      if (open.empty()) return Status();
    } while (true);
  }

  void Note(std::string note) {
    if (notes_.size() < kMostNotes && std::find(notes_.begin(), notes_.end(), note) == notes_.end())
      notes_.push_back(std::move(note));
  }

  void Varint(uint64_t value) { sdk::PutVarint(out_, value); }
  void Tag(uint32_t number, uint32_t wire_type) { Varint(uint64_t{number} << 3 | wire_type); }
  template <typename T>
  void Raw(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  size_t Begin(uint32_t number) {
    Tag(number, 2);
    out_.append(kSizeBytes, '\0');
    return out_.size();
  }
  Status End(size_t begin) {
    uint64_t size = out_.size() - begin;
    if (size >> (7 * kSizeBytes) != 0) return scanner_.Error("a message is too large");
    for (size_t i = 0; i < kSizeBytes; ++i, size >>= 7) {
      out_[begin - kSizeBytes + i] = static_cast<char>((size & 0x7f) | (i + 1 < kSizeBytes ? 0x80 : 0));
    }
    return Status();
  }

  TextScanner scanner_;
  std::string out_;
  std::vector<std::string> notes_;
  int depth_ = 0;
};

}  // namespace

Result<WireMessage> TextToWire(std::string_view text, std::string_view message) { return Converter(text).Run(message); }

std::string_view FirstField(std::string_view text) {
  const TextScanner scanner(text);
  return scanner.kind() == Kind::kName ? scanner.word() : std::string_view();
}

bool LooksLikeText(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 4096);
  const bool printable = std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\r' || c == '\t';
  });
  if (!printable) return false;
  TextScanner scanner(bytes);
  if (scanner.kind() != Kind::kName) return false;
  scanner.Next();
  return scanner.Is(':') || scanner.Is('{') || scanner.Is('<');
}

}  // namespace tenon::model
