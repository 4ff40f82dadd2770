// SPDX-License-Identifier: Apache-2.0
// ReadFile, WriteFile, MatchingFiles: whole files, and names of files.
#include <algorithm>

#include "tenon/extras/file/glob.h"
#include "tenon/extras/file/stream.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct ReadFile {
  // Straight into the output, which the session is charged for before a byte is read.
  void Run(RunContext c) const {
    FileSource file(File::ForReading(HostFiles(), std::string(StringAt(c.input_view(0), 0))));
    const uint64_t size = *file.left();
    c.AllocOutput(0, {}, size);
    char* base = c.output<char>(0);
    *reinterpret_cast<tenon_string_cell*>(base) = {sizeof(tenon_string_cell), size};
    for (uint64_t at = 0; at < size;) {
      c.CheckCancelled();
      at += file.Read(base + sizeof(tenon_string_cell) + at,
                      static_cast<size_t>(std::min(kPiece, size - at)));  // as many as there were, or it fails
    }
  }
  static constexpr uint64_t kPiece = 16 << 20;
};

struct WriteFile {
  void Run(RunContext c) const {
    const std::string path(StringAt(c.input_view(0), 0));
    const std::string_view contents = StringAt(c.input_view(1), 0);
    MakeFolders(HostFiles(), FolderOf(path));
    File file = File::ForWriting(HostFiles(), path);
    file.Write(contents.data(), contents.size());
    file.SyncAndClose();
  }
};

struct MatchingFiles {
  void Run(RunContext c) const {
    std::vector<std::string> names;
    CancelPoll poll(c);
    uint64_t held = 0, asked = kSmall;
    const auto look = [&](size_t bytes) {
      poll(1000);
      held += bytes + sizeof(std::string);
      if (held <= asked) return;
      const auto room = static_cast<int64_t>(asked *= 2);
      NewTensor(c, TENON_DT_UINT8, {&room, 1});  // which goes at once: where it fits, so do the names
    };
    for (const std::string_view pattern : StringsOf(c.input_view(0)))
      AppendMatching(HostFiles(), pattern, look, &names);
    std::sort(names.begin(), names.end());
    const auto count = static_cast<int64_t>(names.size());
    SetStrings(c, 0, {&count, 1}, names);
  }
  static constexpr uint64_t kSmall = 1 << 20;
};

}  // namespace

TENON_KERNEL(kReadFileKernel) = Registration<ReadFile>("ReadFile", {.flags = TENON_KERNEL_EXPENSIVE,
                                                                    .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_KERNEL(kWriteFileKernel) = Registration<WriteFile>("WriteFile", {.flags = TENON_KERNEL_EXPENSIVE});
TENON_KERNEL(kMatchingFilesKernel) = Registration<MatchingFiles>("MatchingFiles",
                                                                 {.flags = TENON_KERNEL_EXPENSIVE,
                                                                  .dynamic_outputs = TENON_DYNAMIC_ALL});

// A file may change between two steps: nothing of these is computed before one.
constexpr uint64_t kFileTraits = TENON_OP_IO | TENON_OP_NO_FOLD | TENON_OP_EXPENSIVE | TENON_OP_NO_GRADIENT;

TENON_OP(kReadFile) = DefineOp({
    .name = "ReadFile",
    .inputs = "filename: string",
    .outputs = "contents: string",
    .constraints = "path(filename); rank(filename) == 0",
    .doc = "The bytes of a file.",
    .traits = kFileTraits,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kWriteFile) = DefineOp({
    .name = "WriteFile",
    .inputs = "filename: string, contents: string",
    .constraints = "path(filename); rank(filename) == 0; rank(contents) == 0",
    .doc = "Writes a file anew, and the folders above it where they are not there.",
    .traits = kFileTraits | TENON_OP_STATEFUL,
});

static void MatchingShape(ShapeContext& c) {
  c.WithRankAtMost(0, 1);
  c.SetOutput(0, Shape::OfRank(1));
}

TENON_OP(kMatchingFiles) = DefineOp({
    .name = "MatchingFiles",
    .inputs = "pattern: string",
    .outputs = "filenames: string",
    .constraints = "path(pattern); rank(pattern) <= 1",
    .doc = "The files and folders whose names are of a pattern, or of one of several, sorted: * and ? stand for parts "
           "of one name.",
    .traits = kFileTraits,
    .shape = ShapeFunction<MatchingShape>,
});

}  // namespace tenon::ops
