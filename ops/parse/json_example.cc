// SPDX-License-Identifier: Apache-2.0
#include "json_example.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "tenon/extras/text/number_text.h"
#include "tenon/sdk/span.h"
#include "tenon/bytes/wire.h"

namespace tenon::ops::parse {
using namespace sdk;

namespace {

using Json = nlohmann::json;

// What an object is, from the outside in.
enum class Level { kNone, kExample, kFeatures, kMap, kFeature, kList };
enum class Kind { kBytes = 1, kFloats = 2, kInts = 3 };  // numbers of the fields of a Feature

int DigitOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

// Base 64, of either alphabet, with its "=" or without.
bool Decode64(std::string_view text, std::string* out) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return false;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int digit = DigitOf(c);
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    have += 6;
    if (have >= 8) out->push_back(static_cast<char>(bits >> (have -= 8)));
  }
  return true;
}

void PutField(std::string& out, int field, std::string_view bytes) {
  PutVarint(out, static_cast<uint64_t>(field) << 3 | 2);
  PutVarint(out, bytes.size());
  out += bytes;
}

// Events of the text, which become bytes as they come. Each is false once something is wrong.
class Builder {
 public:
  Builder(std::string* message, std::string* problem) : message_(message), problem_(problem) {}

  bool null() {
    if (arrays_ > 0 && level_ == Level::kList) return Zero();
    return level_ != Level::kNone && Close(true);
  }
  bool boolean(bool) { return Wrong("true or false is no value of a feature"); }
  bool number_integer(int64_t number) { return Integer(number); }
  bool number_unsigned(uint64_t number) {
    return number <= INT64_MAX ? Integer(static_cast<int64_t>(number)) : Real(static_cast<double>(number));
  }
  bool number_float(double number, const std::string&) { return Real(number); }
  bool string(std::string& text) { return Text(text); }
  bool binary(Json::binary_t&) { return Wrong("binary"); }

  bool start_object(size_t) {
    if (arrays_ > 0) return Wrong("an object in a list");
    if (level_ == Level::kList) return Wrong("an object where values are expected");
    level_ = static_cast<Level>(static_cast<int>(level_) + 1);
    parts_.emplace_back();
    seen_.emplace_back();
    return true;
  }
  bool key(std::string& name) {
    if (!seen_.back().insert(level_ == Level::kFeature ? "a list" : name).second)
      return Wrong(Concat("'", name, "' comes again"));
    if (level_ == Level::kExample) return name == "features" || Unknown(name);
    if (level_ == Level::kFeatures) return name == "feature" || Unknown(name);
    if (level_ == Level::kMap) key_ = name;
    if (level_ == Level::kFeature) return List(name);
    return level_ == Level::kMap || name == "value" || Unknown(name);
  }
  bool end_object() {
    const std::string done = std::move(parts_.back());
    parts_.pop_back();
    seen_.pop_back();
    const Level ended = std::exchange(level_, static_cast<Level>(static_cast<int>(level_) - 1));
    if (ended == Level::kExample) *message_ += done;
    else if (ended == Level::kFeatures) PutField(parts_.back(), 1, done);
    else if (ended == Level::kMap) parts_.back() += done;
    else if (ended == Level::kList) PutField(parts_.back(), static_cast<int>(kind_), done);
    else Entry(&done);
    return true;
  }
  bool start_array(size_t) {
    if (level_ != Level::kList) return Wrong("a list where none is expected");
    return ++arrays_ < kMostArrays || Wrong("lists in lists, too deep");
  }
  bool end_array() {
    --arrays_;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const Json::exception& error) {
    *problem_ = Concat("byte ", at, ": ", error.what());
    return false;
  }

 private:
  static constexpr int kMostArrays = 100;

  bool Wrong(std::string_view what) {
    if (problem_->empty())
      *problem_ = Concat(key_.empty() ? "" : Concat("feature '", key_.substr(0, 100), "': "), what);
    return false;
  }
  bool Unknown(const std::string& name) { return Wrong(Concat("there is no field '", name.substr(0, 100), "' there")); }
  bool List(const std::string& name) {
    if (name == "bytesList" || name == "bytes_list") kind_ = Kind::kBytes;
    else if (name == "floatList" || name == "float_list") kind_ = Kind::kFloats;
    else if (name == "int64List" || name == "int64_list") kind_ = Kind::kInts;
    else return Unknown(name);
    return true;
  }
  // A feature's entry in the map; without its bytes: null.
  void Entry(const std::string* feature) {
    std::string entry;
    PutField(entry, 1, key_);
    if (feature != nullptr) PutField(entry, 2, *feature);
    PutField(parts_.back(), 1, entry);
  }
  // null in place of an object or a list.
  bool Close(bool) {
    if (level_ == Level::kMap) Entry(nullptr);
    if (level_ == Level::kFeature) seen_.back().erase("a list");
    return true;
  }

  bool IsValue() { return level_ == Level::kList || Wrong("a value where an object is expected"); }
  bool Zero() {
    if (kind_ == Kind::kBytes) return Bytes("");
    return kind_ == Kind::kInts ? Put(int64_t{0}) : Put(0.0F);
  }
  bool Put(int64_t number) {
    PutVarint(parts_.back(), 1 << 3);
    PutVarint(parts_.back(), static_cast<uint64_t>(number));
    return true;
  }
  bool Put(float number) {
    PutVarint(parts_.back(), 1 << 3 | 5);
    PutFixed32(parts_.back(), std::bit_cast<uint32_t>(number));
    return true;
  }
  bool Bytes(std::string_view bytes) {
    PutField(parts_.back(), 1, bytes);
    return true;
  }
  bool Integer(int64_t number) {
    if (!IsValue()) return false;
    if (kind_ == Kind::kBytes) return Wrong("a number in a bytesList, whose values are texts in base 64");
    return kind_ == Kind::kInts ? Put(number) : Put(static_cast<float>(number));
  }
  bool Real(double number) {
    if (!IsValue()) return false;
    if (kind_ == Kind::kBytes) return Wrong("a number in a bytesList, whose values are texts in base 64");
    if (kind_ == Kind::kFloats) {
      if (std::isfinite(number) && std::abs(number) > static_cast<double>(std::numeric_limits<float>::max()))
        return Wrong("a number that a float does not hold");
      return Put(static_cast<float>(number));
    }
    if (number != std::floor(number) || number < -0x1p63 || number >= 0x1p63)
      return Wrong("a number in an int64List that is not whole, or that int64 does not hold");
    return Put(static_cast<int64_t>(number));
  }
  // A number in quotes, or bytes in base 64.
  bool Text(const std::string& text) {
    if (!IsValue()) return false;
    if (kind_ == Kind::kBytes) {
      std::string bytes;
      return Decode64(text, &bytes) ? Bytes(bytes) : Wrong("a value of the bytesList is not in base 64");
    }
    if (kind_ == Kind::kFloats && (text == "NaN" || text == "Infinity" || text == "-Infinity")) {
      if (text == "NaN") return Put(std::numeric_limits<float>::quiet_NaN());
      return Put(text[0] == '-' ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
    }
    int64_t whole = 0;
    double real = 0;
    const bool plain = text.find_first_not_of("+-.0123456789eE") == std::string::npos;
    if (plain && kind_ == Kind::kInts && ReadNumber(text, &whole)) return Put(whole);
    if (plain && ReadNumber(text, &real)) return Real(real);
    return Wrong(Concat("'", text.substr(0, 100), "' is no number"));
  }

  std::string* const message_;
  std::string* const problem_;
  Level level_ = Level::kNone;
  int arrays_ = 0;  // that are open; those in one are as if they were not there
  Kind kind_ = Kind::kBytes;
  std::string key_;
  std::vector<std::string> parts_;             // what each object that is open has so far
  std::vector<std::set<std::string>> seen_;    // its keys
};

}  // namespace

bool ExampleOfJson(std::string_view text, std::string* message, std::string* problem) {
  Builder builder(message, problem);
  const bool ok = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok && problem->empty()) *problem = "it is no object with the fields of an Example";
  return ok;
}

}  // namespace tenon::ops::parse
