// SPDX-License-Identifier: Apache-2.0
// Protobuf's text format, of the messages that models are made of, turned into the bytes of the binary form.
//
// A table of names, numbers and kinds drives it (message_table.h); nothing of protobuf is linked. Understood: comments,
// `field { }` and `field: { }`, angle brackets, lists `[a, b]`, enums by name or number, all string escapes, strings in
// pieces, the separators `,` and `;`, nan and inf, hexadecimal and octal numbers. Fields that the table does not have
// are passed over with a note. Errors name line and column. The depth of messages is bounded, and so is what a text can
// ask for: the bytes are hardly more than the text.
#ifndef TENON_MODEL_TEXT_FORMAT_H_
#define TENON_MODEL_TEXT_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"

namespace tenon::model {

struct WireMessage {
  std::string bytes;
  std::vector<std::string> notes;  // unknown fields, each name once
};

// message: "GraphDef", "MetaGraphDef", "SavedModel", ...
Result<WireMessage> TextToWire(std::string_view text, std::string_view message);

// Whether bytes look like text of this format: printable, and beginning with a field.
bool LooksLikeText(std::string_view bytes);

// The name of the first field; "" when there is none.
std::string_view FirstField(std::string_view text);

}  // namespace tenon::model

#endif  // TENON_MODEL_TEXT_FORMAT_H_
