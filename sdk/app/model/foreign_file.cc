// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/model/foreign_file.h"

#include "tenon/bytes/table.h"
#include "tenon/model/checkpoint.h"
#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

struct Magic {
  size_t at;
  std::string_view bytes;
  std::string_view kind;
};
#define TENON_HOLDS_VALUES                                                                                      \
  "which holds values and no graph; `tenon inspect` shows them, and to run a model give the graph's file or a " \
  "SavedModel's folder"
constexpr std::string_view kCheckpoint = "part of a checkpoint, " TENON_HOLDS_VALUES,
                           kPrefix = "the prefix of a checkpoint, " TENON_HOLDS_VALUES;
#undef TENON_HOLDS_VALUES
constexpr Magic kMagics[] = {
    {0, "PK\x03\x04",
     "a ZIP archive, as .keras, .npz and .pt files are; export the model as a SavedModel: model.export('folder') in "
     "Keras"},
    {0, "\x89HDF\r\n\x1a\n",
     "an HDF5 file, as Keras saves weights; export the model as a SavedModel: model.export('folder') in Keras"},
    {4, "TFL3", "a TensorFlow Lite model; give the model that it was made of"},
    {0, "\x93NUMPY", "a NumPy array, which is given with --feed"},
    {0,
     "\x7f"
     "ELF",
     "a program or a library; plugins are given with --plugin"},
    {0, "model_checkpoint_path:", kCheckpoint},
};

// Its version, a number, then texts, and the graph under 7. A GraphDef has messages first, a SavedModel no 7.
bool LooksLikeOnnx(std::string_view bytes) {
  constexpr uint32_t kVersion = 1, kProducerName = 2, kGraph = 7, kLast = 25;
  sdk::WireReader reader(bytes);
  bool version = false, graph = false;
  while (reader.Next()) {
    if (reader.field() > kLast) return false;
    if (reader.field() == kVersion && !reader.is_varint()) return false;
    if (reader.field() == kProducerName && !reader.is_bytes()) return false;
    version = version || reader.field() == kVersion;
    graph = graph || (reader.field() == kGraph && reader.is_bytes());
  }
  return reader.ok() && version && graph;
}

}  // namespace

std::string_view ForeignKind(std::string_view bytes) {
  if (bytes.empty()) return "empty; was it cut off?";
  for (const Magic& magic : kMagics) {
    if (bytes.size() >= magic.at && bytes.substr(magic.at).starts_with(magic.bytes)) return magic.kind;
  }
  if (bytes.size() >= sdk::kTableFooter && bytes.ends_with(sdk::kTableEnd)) return kCheckpoint;
  if (LooksLikeOnnx(bytes)) return "an ONNX model; convert it to a SavedModel, with onnx2tf for example";
  return "";
}

std::string_view NamedKind(const std::string& path) {
  if (!IsCheckpoint(path)) return "";
  return CheckpointPrefix(path) == path ? kPrefix : kCheckpoint;
}

}  // namespace tenon::model
