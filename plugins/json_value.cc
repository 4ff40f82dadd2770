// SPDX-License-Identifier: Apache-2.0
#include "plugins/json_value.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace tenon::plugins {
namespace {

using Json = nlohmann::json;

// Told of the pieces of a text as they come; false ends the parsing.
class Tree : public nlohmann::json_sax<Json> {
 public:
  JsonValue Take() { return std::move(root_); }
  bool too_deep() const { return too_deep_; }

  bool null() override { return Put({}); }
  bool boolean(bool) override { return Put({}); }
  bool number_float(double, const std::string&) override { return Put({}); }
  bool binary(binary_t&) override { return Put({}); }
  bool number_integer(int64_t number) override { return PutInteger(number); }
  bool number_unsigned(uint64_t number) override {
    return number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
               ? Put({})
               : PutInteger(static_cast<int64_t>(number));
  }
  bool string(std::string& text) override {
    JsonValue value;
    value.kind = JsonValue::Kind::kText;
    value.text = std::move(text);
    return Put(std::move(value));
  }
  bool key(std::string& name) override {
    open_.back()->names.push_back(std::move(name));
    return true;
  }
  bool start_object(size_t) override { return Open(JsonValue::Kind::kObject); }
  bool start_array(size_t) override { return Open(JsonValue::Kind::kList); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  // Nothing is added to what holds an open value before it is closed, so that it stays where it is.
  JsonValue* Add(JsonValue value) {
    if (open_.empty()) return &(root_ = std::move(value));
    return &open_.back()->items.emplace_back(std::move(value));
  }
  bool Put(JsonValue value) { return Add(std::move(value)), true; }
  bool PutInteger(int64_t number) {
    JsonValue value;
    value.kind = JsonValue::Kind::kInteger;
    value.integer = number;
    return Put(std::move(value));
  }
  bool Open(JsonValue::Kind kind) {
    if (open_.size() == JsonValue::kDeepest) return too_deep_ = true, false;
    JsonValue value;
    value.kind = kind;
    open_.push_back(Add(std::move(value)));
    return true;
  }
  bool Close() { return open_.pop_back(), true; }

  JsonValue root_;
  std::vector<JsonValue*> open_;
  bool too_deep_ = false;
};

}  // namespace

Result<JsonValue> JsonValue::Parse(std::string_view text) {
  Tree tree;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &tree);
  if (tree.too_deep()) return InvalidArgument(StrCat("it is nested more than ", kDeepest, " levels deep"));
  if (!parsed) return InvalidArgument("it is not JSON");
  return tree.Take();
}

const JsonValue* JsonValue::Find(std::string_view name) const {
  for (size_t i = names.size(); i-- > 0;)
    if (names[i] == name) return &items[i];
  return nullptr;
}

}  // namespace tenon::plugins
