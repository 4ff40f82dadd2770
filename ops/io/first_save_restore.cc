// SPDX-License-Identifier: Apache-2.0
// Save, SaveSlices, Restore and RestoreSlice: tensors to and from checkpoints of TensorFlow's first format.
#include <algorithm>

#include "first_format.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

std::string_view OneString(const RunContext& c, int32_t input, const char* what) {
  if (Count(c.input_view(input)) != 1)
    Fail(TENON_INVALID_ARGUMENT, what, " must be one string; its shape is ", DimsOf(c.input_view(input)));
  return StringAt(c.input_view(input), 0);
}

// kSlices: input 2 says which slice of a tensor each is.
template <bool kSlices>
struct FirstSave {
  static constexpr int32_t kFirst = kSlices ? 3 : 2;
  void Run(RunContext c) const {
    const std::string_view path = OneString(c, 0, "filename");
    const auto count = static_cast<size_t>(c.input_count() - kFirst);
    const std::vector<std::string_view> names = StringsOf(c.input_view(1));
    if (names.size() != count)
      Fail(TENON_INVALID_ARGUMENT, "there are ", count, " tensors, but ", names.size(), " names");
    std::vector<std::string_view> specs(count);
    if constexpr (kSlices) specs = StringsOf(c.input_view(2));
    if (specs.size() != count)
      Fail(TENON_INVALID_ARGUMENT, "there are ", count, " tensors, but ", specs.size(), " shapes_and_slices");
    std::vector<io::FirstPiece> pieces;
    for (size_t i = 0; i < count; ++i) {
      const tenon_tensor_view& tensor = c.input_view(kFirst + static_cast<int32_t>(i));
      io::SliceSpec spec = io::SliceSpec::Parse(specs[i], names[i]);
      if (!spec.whole && !std::ranges::equal(DimsOf(tensor), spec.slice.length))
        Fail(TENON_INVALID_ARGUMENT, "shapes_and_slices '", specs[i], "' of tensor '", names[i],
             "' names another shape than ", DimsOf(tensor));
      pieces.push_back({names[i], std::move(spec), &tensor});
    }
    StepMemory memory(c);
    io::WriteFirstFormat(HostFiles(), path, pieces, io::BudgetOf(c, memory, "saved", path));
  }
};

template <bool kSlice>
struct FirstRestore {
  explicit FirstRestore(CreateContext& c) : dtype(c.Type("dt")) {}
  void Run(RunContext c) const {
    const std::string_view pattern = OneString(c, 0, "file_pattern"), name = OneString(c, 1, "tensor_name");
    StepMemory memory(c);
    io::FirstReader reader(HostFiles(), pattern, io::BudgetOf(c, memory, "restored", pattern));
    reader.Restore(c, name, kSlice ? OneString(c, 2, "shape_and_slice") : std::string_view(), dtype, 0);
  }
  uint32_t dtype;
};

constexpr Traits kWrites = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};
constexpr Traits kReads = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE, .dynamic_outputs = 1};
constexpr uint64_t kTraits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE;

void FirstSaveShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.Merge(c.WithRank(1, 1)[0], c.input_count() - 2, "the number of tensor_names and of tensors");
}
void SaveSlicesShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.Merge(c.WithRank(1, 1)[0], c.input_count() - 3, "the number of tensor_names and of tensors");
  c.Merge(c.WithRank(2, 1)[0], c.input_count() - 3, "the number of shapes_and_slices and of tensors");
}
void FirstRestoreShape(ShapeContext& c) {
  for (int i = 0; i < c.input_count(); ++i) c.WithRank(i, 0);
  c.SetOutput(0, Shape());
}

}  // namespace

TENON_KERNEL(kSaveKernel) = Registration<FirstSave<false>>("Save", kWrites);
TENON_KERNEL(kSaveSlicesKernel) = Registration<FirstSave<true>>("SaveSlices", kWrites);
TENON_KERNEL(kRestoreKernel) = Registration<FirstRestore<false>>("Restore", kReads);
TENON_KERNEL(kRestoreSliceKernel) = Registration<FirstRestore<true>>("RestoreSlice", kReads);

TENON_OP(kSave) = DefineOp({
    .name = "Save",
    .inputs = "filename: string, tensor_names: string, data: T",
    .attrs = "T: list(type) >= 1",
    .constraints = "path(filename); rank(filename) == 0; rank(tensor_names) == 1",
    .doc = "Writes tensors into one file, a checkpoint of the first format, all or nothing. SaveV2 is what to use for "
           "new ones.",
    .traits = kTraits,
    .shape = ShapeFunction<FirstSaveShape>,
});

TENON_OP(kSaveSlices) = DefineOp({
    .name = "SaveSlices",
    .inputs = "filename: string, tensor_names: string, shapes_and_slices: string, data: T",
    .attrs = "T: list(type) >= 1",
    .constraints = "path(filename); rank(filename) == 0; rank(tensor_names) == 1; rank(shapes_and_slices) == 1",
    .doc = "Save of slices of tensors: shapes_and_slices has for each the whole tensor's shape and the slice, \"4 5 "
           "0,2:-\", or nothing for a whole one.",
    .traits = kTraits,
    .shape = ShapeFunction<SaveSlicesShape>,
});

TENON_OP(kRestore) = DefineOp({
    .name = "Restore",
    .inputs = "file_pattern: string, tensor_name: string",
    .outputs = "tensor: dt",
    .attrs = "dt: type; preferred_shard: int = -1",
    .constraints = "path(file_pattern); rank(file_pattern) == 0; rank(tensor_name) == 0",
    .doc = "Reads a tensor from the files, checkpoints of the first format, that file_pattern matches. preferred_shard "
           "is of no consequence: all indices are read.",
    .traits = kTraits,
    .shape = ShapeFunction<FirstRestoreShape>,
});

TENON_OP(kRestoreSlice) = DefineOp({
    .name = "RestoreSlice",
    .inputs = "file_pattern: string, tensor_name: string, shape_and_slice: string",
    .outputs = "tensor: dt",
    .attrs = "dt: type; preferred_shard: int = -1",
    .constraints = "path(file_pattern); rank(file_pattern) == 0; rank(tensor_name) == 0; rank(shape_and_slice) == 0",
    .doc = "Restore of a slice of a tensor: shape_and_slice has the whole tensor's shape and the slice, \"4 5 0,2:-\", "
           "or nothing for the whole.",
    .traits = kTraits,
    .shape = ShapeFunction<FirstRestoreShape>,
});

}  // namespace tenon::ops
