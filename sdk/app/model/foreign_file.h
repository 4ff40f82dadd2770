// SPDX-License-Identifier: Apache-2.0
// Files that people take for graphs: told by their first bytes, their last, or their names.
#ifndef TENON_MODEL_FOREIGN_FILE_H_
#define TENON_MODEL_FOREIGN_FILE_H_

#include <string>
#include <string_view>

namespace tenon::model {

// "an ONNX model"; what to give instead stands with it. "": nothing that is known.
std::string_view ForeignKind(std::string_view bytes);
// Of a path alone: "the prefix of a checkpoint, ...", or "".
std::string_view NamedKind(const std::string& path);

}  // namespace tenon::model

#endif  // TENON_MODEL_FOREIGN_FILE_H_
