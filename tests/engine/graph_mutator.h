// SPDX-License-Identifier: Apache-2.0
// Damages GraphDefs where it hurts: field by field, knowing what is a node, an attribute, a shape, a tensor, a
// function.
//
// A GraphDef becomes a tree of messages and fields by protobuf's wire format and the few field numbers below; an edit
// changes the tree (or, rarely, the bytes), and the tree is written out again. The same seed makes the same damage.
#ifndef TENON_TESTS_ENGINE_GRAPH_MUTATOR_H_
#define TENON_TESTS_ENGINE_GRAPH_MUTATOR_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::engine {

enum class Kind {
  kBytes,
  kGraph,
  kNode,
  kAttrEntry,
  kAttr,
  kList,
  kShape,
  kDim,
  kTensor,
  kCall,
  kLibrary,
  kFunction,
  kSignature,
  kArgument,
  kAttrDef,
  kTextEntry,
  kVersions,
};

// The kind of field `number` of a message; kBytes when it is no message.
inline Kind KindOf(Kind parent, uint32_t number) {
  struct Row {
    Kind parent;
    uint32_t number;
    Kind kind;
  };
  static constexpr Row rows[] = {
      {Kind::kGraph, 1, Kind::kNode},         {Kind::kGraph, 2, Kind::kLibrary},
      {Kind::kGraph, 4, Kind::kVersions},     {Kind::kNode, 5, Kind::kAttrEntry},
      {Kind::kAttrEntry, 2, Kind::kAttr},     {Kind::kAttr, 1, Kind::kList},
      {Kind::kAttr, 7, Kind::kShape},         {Kind::kAttr, 8, Kind::kTensor},
      {Kind::kAttr, 10, Kind::kCall},         {Kind::kList, 7, Kind::kShape},
      {Kind::kList, 8, Kind::kTensor},        {Kind::kList, 9, Kind::kCall},
      {Kind::kShape, 2, Kind::kDim},          {Kind::kTensor, 2, Kind::kShape},
      {Kind::kCall, 2, Kind::kAttrEntry},     {Kind::kLibrary, 1, Kind::kFunction},
      {Kind::kFunction, 1, Kind::kSignature}, {Kind::kFunction, 3, Kind::kNode},
      {Kind::kFunction, 4, Kind::kTextEntry}, {Kind::kFunction, 5, Kind::kAttrEntry},
      {Kind::kSignature, 2, Kind::kArgument}, {Kind::kSignature, 3, Kind::kArgument},
      {Kind::kSignature, 4, Kind::kAttrDef},  {Kind::kAttrDef, 3, Kind::kAttr},
  };
  for (const Row& row : rows)
    if (row.parent == parent && row.number == number) return row.kind;
  return Kind::kBytes;
}

struct Message;
struct Field {
  uint32_t number = 0;
  uint32_t wire = 2;
  uint64_t value = 0;            // of a varint or a fixed number
  std::string bytes;             // of a string
  std::vector<Message> message;  // one, when it is one
};
struct Message {
  Kind kind = Kind::kGraph;
  std::vector<Field> fields;
};

namespace wire {

inline void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
inline std::string Write(const Message& message) {
  std::string out;
  for (const Field& field : message.fields) {
    PutVarint(out, uint64_t{field.number} << 3 | field.wire);
    if (field.wire == 0) PutVarint(out, field.value);
    for (int i = 0; (field.wire == 1 && i < 8) || (field.wire == 5 && i < 4); ++i)
      out.push_back(static_cast<char>(field.value >> (8 * i)));
    if (field.wire != 2) continue;
    const std::string bytes = field.message.empty() ? field.bytes : Write(field.message[0]);
    PutVarint(out, bytes.size());
    out += bytes;
  }
  return out;
}
inline uint64_t TakeVarint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0; !in.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(in[0]);
    in.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}
// Of a good message.
inline Message Read(Kind kind, std::string_view in) {
  Message message{kind, {}};
  while (!in.empty()) {
    const uint64_t tag = TakeVarint(in);
    Field& field = message.fields.emplace_back();
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<uint32_t>(tag & 7);
    if (field.wire == 0) field.value = TakeVarint(in);
    const size_t fixed = field.wire == 1 ? 8 : field.wire == 5 ? 4 : 0;
    for (size_t i = 0; i < fixed; ++i) field.value |= uint64_t{static_cast<unsigned char>(in[i])} << (8 * i);
    in.remove_prefix(fixed);
    if (field.wire != 2) continue;
    const auto size = static_cast<size_t>(TakeVarint(in));
    const Kind child = KindOf(kind, field.number);
    if (child == Kind::kBytes) field.bytes = std::string(in.substr(0, size));
    else field.message.push_back(Read(child, in.substr(0, size)));
    in.remove_prefix(size);
  }
  return message;
}

inline Field Text(uint32_t number, std::string bytes) { return {number, 2, 0, std::move(bytes), {}}; }
inline Field Number(uint32_t number, uint64_t value) { return {number, 0, value, {}, {}}; }

}  // namespace wire

class GraphMutator {
 public:
  // ops: names that nodes may get instead of their own.
  GraphMutator(Message good, std::vector<std::string> ops) : good_(std::move(good)), ops_(std::move(ops)) {
    ForEach(good_, [&](Message& message) {
      if (message.kind != Kind::kNode && message.kind != Kind::kSignature) return;
      for (const Field& field : message.fields)
        if (field.number == 1) names_.push_back(field.bytes);
    });
  }

  // The damaged bytes. what gets the names of some nodes that are there.
  std::string Make(uint32_t seed, std::vector<std::string>* nodes) {
    random_.seed(seed);
    tree_ = good_;
    const size_t edits = Under(3) == 0 ? 1 + Under(4) : 1;  // one alone goes further in than four together
    for (size_t i = 0; i < edits; ++i) Edit();
    nodes->clear();
    for (const Field& field : tree_.fields)
      for (const Message& node : field.message)
        for (const Field& part : node.fields)
          if (node.kind == Kind::kNode && part.number == 1 && Under(8) == 0) nodes->push_back(part.bytes);
    std::string bytes = wire::Write(tree_);
    if (Under(12) == 0) Flip(bytes);
    return bytes;
  }

 private:
  size_t Under(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  static void ForEach(Message& message, const std::function<void(Message&)>& function) {
    function(message);
    for (Field& field : message.fields)
      for (Message& child : field.message) ForEach(child, function);
  }
  Message* Any(const std::function<bool(const Message&)>& fits) {
    std::vector<Message*> found;
    ForEach(tree_, [&](Message& message) {
      if (fits(message)) found.push_back(&message);
    });
    return found.empty() ? nullptr : found[Under(found.size())];
  }
  Message* AnyOf(Kind kind) {
    return Any([kind](const Message& message) { return message.kind == kind; });
  }
  Field* AnyField(Message* message, uint32_t number) {
    std::vector<Field*> found;
    if (message != nullptr)
      for (Field& field : message->fields)
        if (field.number == number) found.push_back(&field);
    return found.empty() ? nullptr : found[Under(found.size())];
  }

  uint64_t OddNumber() {
    static constexpr uint64_t numbers[] = {0, 1, 2, 3, 7, 64, 255, 256, 1000000, 0x7fffffff, 0x80000000, 0xffffffff,
                                           uint64_t{1} << 40, std::numeric_limits<int64_t>::max(),
                                           uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{1}, ~uint64_t{999}};
    return Under(3) == 0 ? Under(40) : numbers[Under(std::size(numbers))];
  }
  std::string OddText() {
    static const std::string texts[] = {
        "",    "^",        ":",  "x:999999999999",       "x:-1", "^x:0", "/",    "a//b", "_",
        "a b", "\xff\xfe", "\n", std::string("a\0b", 3), "ключ", "{}",   "%s%n", "../x", "-",
        "0"};
    const size_t which = Under(std::size(texts) + 2);
    if (which == std::size(texts)) return std::string(70000, 'n');
    return which > std::size(texts) ? AnyName() : texts[which];
  }
  std::string AnyName() { return names_.empty() ? "x" : names_[Under(names_.size())]; }
  std::string AnyInput() {
    switch (Under(8)) {
      case 0: return "^" + AnyName();
      case 1: return AnyName() + ":" + std::to_string(Under(4));
      case 2: return AnyName() + ":output:" + std::to_string(Under(3));
      case 3: return OddText();
      default: return AnyName();
    }
  }

  void Edit() {
    switch (Under(20)) {
      case 0: case 1: case 2: case 3: return EditAnyField();
      case 4: case 5: return Set(AnyField(AnyOf(Kind::kNode), 3), AnyInput());
      case 6: {  // one more input
        if (Message* node = AnyOf(Kind::kNode)) node->fields.push_back(wire::Text(3, AnyInput()));
        return;
      }
      case 7: return Set(AnyField(AnyOf(Kind::kNode), 2), ops_[Under(ops_.size())]);
      case 8: return Set(AnyField(AnyOf(Kind::kNode), 1), Under(2) == 0 ? AnyName() : OddText());
      case 9:
        return Set(AnyField(WithField(Kind::kAttr, 6), 6), Under(3) == 0 ? OddNumber() : Under(25) + 100 * Under(2));
      case 10: return Set(AnyField(WithField(Kind::kAttr, 3), 3), OddNumber());
      case 11: return Set(AnyField(AnyOf(Kind::kDim), 1), OddNumber());
      case 12: return Set(AnyField(WithField(Kind::kAttr, 2), 2), Under(2) == 0 ? OddText() : AnyName());
      case 13: return EditTensor();
      case 14: return EditCall();
      case 15: return OtherKindOfAttr();
      case 16: return Splice();
      case 17: return Under(4) == 0 ? Nest() : EditAnyField();
      case 18: return Under(8) == 0 ? Multiply() : EditAnyField();
      default: return EditShape();
    }
  }
  Message* WithField(Kind kind, uint32_t number) {
    return Any([=](const Message& message) {
      return message.kind == kind && std::any_of(message.fields.begin(), message.fields.end(),
                                                 [=](const Field& field) { return field.number == number; });
    });
  }
  static void Set(Field* field, std::string bytes) {
    if (field == nullptr) return;
    field->wire = 2;
    field->message.clear();
    field->bytes = std::move(bytes);
  }
  static void Set(Field* field, uint64_t value) {
    if (field == nullptr) return;
    field->wire = 0;
    field->message.clear();
    field->value = value;
  }

  // Drops, doubles, swaps, renumbers, retypes.
  void EditAnyField() {
    Message* message = Any([](const Message& m) { return !m.fields.empty(); });
    if (message == nullptr) return;
    std::vector<Field>& fields = message->fields;
    const size_t at = Under(fields.size());
    switch (Under(7)) {
      case 0: fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: fields.push_back(Field(fields[at])); break;
      case 2: std::swap(fields[at], fields[Under(fields.size())]); break;
      case 3: fields[at].number = static_cast<uint32_t>(1 + Under(12)); break;
      case 4: Set(&fields[at], OddNumber()); break;
      case 5: Set(&fields[at], OddText()); break;
      default:
        if (fields[at].message.empty()) Set(&fields[at], OddText());
        else fields[at].message[0].fields.clear();
    }
  }
  void EditTensor() {
    Message* tensor = AnyOf(Kind::kTensor);
    if (tensor == nullptr) return;
    switch (Under(4)) {
      case 0: Set(AnyField(tensor, 1), Under(2) == 0 ? Under(25) : OddNumber()); break;
      case 1: {
        Field* content = AnyField(tensor, 4);
        if (content != nullptr) content->bytes.resize(Under(content->bytes.size() + 9));
        break;
      }
      case 2: tensor->fields.push_back(wire::Number(static_cast<uint32_t>(5 + Under(13)), OddNumber())); break;
      default:
        tensor->fields.push_back(wire::Text(static_cast<uint32_t>(4 + Under(15)), std::string(Under(40), '\x7f')));
    }
  }
  void EditShape() {
    Message* shape = AnyOf(Kind::kShape);
    if (shape == nullptr) return;
    if (Under(4) == 0) return shape->fields.push_back(wire::Number(3, OddNumber()));
    const size_t count = Under(16) == 0 ? 300 : 1;
    for (size_t i = 0; i < count; ++i) {
      Field& field = shape->fields.emplace_back(wire::Text(2, ""));
      field.message.push_back({Kind::kDim, {wire::Number(1, OddNumber())}});
    }
  }
  // A function calls another, itself, or nothing that is there.
  void EditCall() {
    Message* call = AnyOf(Kind::kCall);
    if (call == nullptr) return EditAnyField();
    Set(AnyField(call, 1), Under(3) == 0 ? OddText() : AnyName());
  }
  void OtherKindOfAttr() {
    Message* attr = AnyOf(Kind::kAttr);
    if (attr == nullptr) return;
    const auto number = static_cast<uint32_t>(1 + Under(10));
    attr->fields.clear();
    if (number >= 3 && number <= 6) attr->fields.push_back(wire::Number(number, OddNumber()));
    else attr->fields.push_back(wire::Text(number, Under(2) == 0 ? "" : OddText()));
  }
  // What stands in one message also stands in another of its kind.
  void Splice() {
    Message* from = Any([](const Message& m) { return !m.fields.empty(); });
    if (from == nullptr) return;
    const std::vector<Field> fields = from->fields;
    Message* to = AnyOf(from->kind);
    if (Under(3) == 0) to->fields = fields;
    else to->fields.push_back(fields[Under(fields.size())]);
  }
  // An attribute in an attribute in an attribute.
  void Nest() {
    Message* attr = AnyOf(Kind::kAttr);
    if (attr == nullptr) return;
    static constexpr size_t depths[] = {5, 30, 90, 101, 400, 1500};
    std::string inner;
    for (size_t depth = depths[Under(std::size(depths))]; depth > 0; --depth) {
      // AttrValue{list{func{attr{key, AttrValue}}}}
      for (const uint32_t number : {2u, 2u, 9u, 1u}) {
        std::string outer;
        wire::PutVarint(outer, uint64_t{number} << 3 | 2);
        wire::PutVarint(outer, inner.size());
        inner = outer + inner;
      }
    }
    *attr = {Kind::kAttr, {}};
    attr->fields.push_back(wire::Text(1, inner));
  }
  // One field a thousand times.
  void Multiply() {
    Message* message = Any([](const Message& m) { return !m.fields.empty(); });
    if (message == nullptr) return;
    const Field field = message->fields[Under(message->fields.size())];
    if (wire::Write({message->kind, {field}}).size() > 400) return;
    message->fields.insert(message->fields.end(), 200 + Under(2000), field);
  }
  void Flip(std::string& bytes) {
    for (size_t edits = 1 + Under(4); edits > 0 && !bytes.empty(); --edits) {
      const size_t at = Under(bytes.size());
      if (Under(4) == 0) bytes.resize(at);
      else
        bytes[at] =
            static_cast<char>(Under(2) == 0 ? random_() : static_cast<unsigned char>(bytes[at]) ^ (1u << Under(8)));
    }
  }

  Message good_, tree_;
  std::vector<std::string> ops_, names_;
  std::mt19937 random_;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_GRAPH_MUTATOR_H_
