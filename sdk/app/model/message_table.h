// SPDX-License-Identifier: Apache-2.0
// MessageTable: which fields the messages of a model have, by name.
//
// It is read from the text of the engine's own .proto files, which the build puts into this library, so there is no
// second list. Of the language of .proto files it knows what those files use: messages, enums, oneofs and maps.
// Immutable; any thread.
#ifndef TENON_MODEL_MESSAGE_TABLE_H_
#define TENON_MODEL_MESSAGE_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tenon/model/base.h"

namespace tenon::model {

enum class FieldKind {
  kInt32,
  kInt64,
  kUint32,
  kUint64,
  kBool,
  kFloat,
  kDouble,
  kFixed32,
  kFixed64,
  kBytes,
  kEnum,
  kMessage
};

struct FieldEntry {
  uint32_t number = 0;
  FieldKind kind = FieldKind::kInt32;
  std::string type;  // of an enum or a message: its full name, "TensorShapeProto.Dim"
};

using MessageEntry = std::map<std::string, FieldEntry, std::less<>>;
using EnumEntry = std::map<std::string, int64_t, std::less<>>;

class MessageTable {
 public:
  // Of the messages of GraphDef, MetaGraphDef and SavedModel.
  static const MessageTable& The();
  static Result<MessageTable> Parse(std::string_view proto);

  const MessageEntry* FindMessage(std::string_view name) const;
  const EnumEntry* FindEnum(std::string_view name) const;

 private:
  friend class ProtoReader;
  std::map<std::string, MessageEntry, std::less<>> messages_;
  std::map<std::string, EnumEntry, std::less<>> enums_;
};

}  // namespace tenon::model

#endif  // TENON_MODEL_MESSAGE_TABLE_H_
