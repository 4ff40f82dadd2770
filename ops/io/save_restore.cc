// SPDX-License-Identifier: Apache-2.0
// SaveV2 and RestoreV2: tensors to and from a checkpoint.
#include <algorithm>

#include "bundle.h"
#include "first_format.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/kernel/variant.h"
#include "tenon/sdk/op/op.h"
#include "variant_bytes.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Request {
  std::string_view prefix;
  std::vector<std::string_view> names;
  std::vector<std::string_view> specs;
};

// Inputs 0 to 2 of both ops, for `count` tensors.
Request ReadRequest(const RunContext& c, size_t count) {
  Request request;
  if (Count(c.input_view(0)) != 1) Fail(TENON_INVALID_ARGUMENT, "prefix must be one string");
  request.prefix = StringAt(c.input_view(0), 0);
  request.names = StringsOf(c.input_view(1));
  request.specs = StringsOf(c.input_view(2));
  if (request.names.size() != count || request.specs.size() != count) {
    Fail(TENON_INVALID_ARGUMENT, "there are ", count, " tensors, but ", request.names.size(), " names and ",
         request.specs.size(), " shape_and_slices");
  }
  return request;
}

struct Save {
  void Run(RunContext c) const {
    const size_t count = static_cast<size_t>(c.input_count()) - 3;
    const Request request = ReadRequest(c, count);
    std::vector<io::SliceSpec> specs;
    for (size_t i = 0; i < count; ++i)
      specs.push_back(ReadSpec(request, i, DimsOf(c.input_view(static_cast<int32_t>(i) + 3))));
    sdk::StepMemory memory(c);
    const io::Budget budget = io::BudgetOf(c, memory, "saved", request.prefix);
    io::BundleWriter writer(HostFiles(), request.prefix, budget);
    for (size_t i = 0; i < count; ++i) {
      budget.poll();
      const tenon_tensor_view& tensor = c.input_view(static_cast<int32_t>(i) + 3);
      if (tensor.dtype == TENON_DT_VARIANT) SaveVariants(c, writer, request.names[i], specs[i], tensor, budget);
      else if (specs[i].whole) writer.Add(request.names[i], tensor);
      else writer.AddSlice(request.names[i], specs[i].dims, specs[i].slice, tensor);
    }
    writer.Finish();
  }
  static void SaveVariants(const RunContext& c, io::BundleWriter& writer, std::string_view name,
                           const io::SliceSpec& spec, const tenon_tensor_view& tensor, const io::Budget& budget) {
    if (!spec.whole) Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' is of variants, which are not saved in parts");
    std::pmr::vector<std::pmr::string> variants(budget.memory);
    for (int64_t i = 0; i < Count(tensor); ++i)
      variants.push_back(io::EncodeVariant(c, name, VariantOf(tensor, i), budget));
    writer.AddVariants(name, DimsOf(tensor), variants);
  }
  // A slice that leaves nothing out is the whole.
  static io::SliceSpec ReadSpec(const Request& request, size_t i, Dims dims) {
    io::SliceSpec spec = io::SliceSpec::Parse(request.specs[i], request.names[i]);
    if (spec.whole) return spec;
    if (!std::equal(dims.begin(), dims.end(), spec.slice.length.begin(), spec.slice.length.end())) {
      Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", request.specs[i], "' of tensor '", request.names[i],
           "' names another shape than ", dims);
    }
    spec.whole = spec.slice == io::Slice::Whole(spec.dims);
    return spec;
  }
};

struct Restore {
  explicit Restore(CreateContext& c) {
    for (int i = 0; i < c.output_count(); ++i) dtypes.push_back(c.output_type(i));
  }
  void Run(RunContext c) const {
    const Request request = ReadRequest(c, dtypes.size());
    sdk::StepMemory memory(c);
    const io::Budget budget = io::BudgetOf(c, memory, "restored", request.prefix);
    if (IsFirstFormat(request.prefix)) {
      io::FirstReader reader(HostFiles(), request.prefix, budget);
      for (size_t i = 0; i < dtypes.size(); ++i)
        reader.Restore(c, request.names[i], request.specs[i], dtypes[i], static_cast<int32_t>(i));
      return;
    }
    for (int more = kTriesMore; !RestoreAll(c, request, budget, more > 0); --more) {
    }
  }
  // A file of that name where there is no index: what Save wrote.
  static bool IsFirstFormat(std::string_view prefix) {
    const std::string index = io::IndexPath(prefix);
    const tenon_files& files = HostFiles();
    return files.exists(ToSpan(index)) == 0 && files.exists(ToSpan(io::TemporaryPath(index))) == 0 &&
           files.exists(ToSpan(prefix)) != 0;
  }
  // False: somebody wrote the checkpoint anew meanwhile, so that what was read is of the old one and of the new one.
  bool RestoreAll(const RunContext& c, const Request& request, const io::Budget& budget, bool may_try_again) const {
    io::BundleReader reader(HostFiles(), request.prefix, budget);
    try {
      for (size_t i = 0; i < dtypes.size(); ++i) {
        budget.poll();
        RestoreOne(c, reader, request, budget, i);
      }
    } catch (const KernelError&) {
      budget.poll();
      if (!may_try_again || !reader.Superseded()) throw;
      return false;
    }
    return true;
  }
  void RestoreOne(const RunContext& c, io::BundleReader& reader, const Request& request, const io::Budget& budget,
                  size_t i) const {
    const std::string_view name = request.names[i];
    const io::BundleEntry entry = reader.Find(name);
    if (entry.dtype != dtypes[i]) {
      Fail(TENON_INVALID_ARGUMENT, "tensor '", name, "' is of type ", TypeName(entry.dtype), " in ",
           reader.index_path(), ", but ", TypeName(dtypes[i]), " is asked for");
    }
    const io::SliceSpec spec = io::SliceSpec::Parse(request.specs[i], name);
    if (!spec.whole && spec.dims != entry.dims) {
      Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", request.specs[i], "' of tensor '", name,
           "' names another shape than ", Dims(entry.dims));
    }
    const io::Slice wanted = spec.whole ? io::Slice::Whole(entry.dims) : spec.slice;
    if (!entry.slices.empty() || wanted != io::Slice::Whole(entry.dims)) {
      return RestoreParts(c, reader, std::string(name), entry, wanted, budget, static_cast<int32_t>(i));
    }
    const auto index = static_cast<int32_t>(i);
    if (entry.dtype == TENON_DT_STRING) {
      std::pmr::string storage(budget.memory);
      const std::pmr::vector<std::string_view> strings = reader.ReadStrings(name, entry, &storage);
      return SetStrings(c, index, entry.dims, strings);
    }
    if (entry.dtype == TENON_DT_VARIANT) {
      std::pmr::string storage(budget.memory);
      const std::pmr::vector<std::string_view> variants = reader.ReadVariants(name, entry, &storage);
      c.AllocOutput(index, entry.dims);
      for (size_t k = 0; k < variants.size(); ++k)
        c.output<tenon_variant*>(index)[k] = io::DecodeVariant(c, name, variants[k], budget);
      return;
    }
    if (ElementSize(entry.dtype) == 0) {
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' of type ", TypeName(entry.dtype), " cannot be restored");
    }
    reader.CheckedCount(name, entry);
    reader.CheckBounds(name, entry);  // before memory is asked for
    c.AllocOutput(index, entry.dims);
    reader.Read(name, entry, c.output<char>(index));
  }

  // A box of the tensor, of what is stored of it.
  static void RestoreParts(const RunContext& c, io::BundleReader& reader, const std::string& name,
                           const io::BundleEntry& entry, const io::Slice& wanted, const io::Budget& budget,
                           int32_t index) {
    const uint64_t element = ElementSize(entry.dtype);
    if (element == 0 || entry.dtype == TENON_DT_STRING) {
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' of type ", TypeName(entry.dtype), " cannot be restored in parts");
    }
    const std::vector<io::StoredSlice> parts = reader.FindParts(name, entry, wanted);  // before memory is asked for
    c.AllocOutput(index, wanted.length);
    char* output = c.output<char>(index);
    std::pmr::vector<char> storage(budget.memory);
    for (const io::StoredSlice& part : parts) {
      budget.poll();
      if (part.slice == wanted) {
        reader.Read(part.key, part.entry, output);
        continue;
      }
      storage.resize(part.entry.size);
      reader.Read(part.key, part.entry, storage.data());
      io::CopyCommon(part.slice, storage.data(), wanted, output, element);
    }
  }
  static constexpr int kTriesMore = 3;
  std::vector<uint32_t> dtypes;
};

void CheckRequestShapes(ShapeContext& c, int64_t count) {
  c.WithRank(0, 0);
  c.Merge(c.WithRank(1, 1)[0], count, "the number of tensor_names and of tensors");
  c.Merge(c.WithRank(2, 1)[0], count, "the number of shape_and_slices and of tensors");
}

}  // namespace

TENON_KERNEL(kSaveV2Kernel) =
    Registration<Save>("SaveV2", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
TENON_KERNEL(kRestoreV2Kernel) = Registration<Restore>(
    "RestoreV2", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE, .dynamic_outputs = TENON_DYNAMIC_ALL});

static void SaveShape(ShapeContext& c) { CheckRequestShapes(c, c.input_count() - 3); }

TENON_OP(kSaveV2) = DefineOp({
    .name = "SaveV2",
    .inputs = "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes",
    .attrs = "dtypes: list(type) >= 1",
    .constraints = "path(prefix); rank(prefix) == 0; rank(tensor_names) == 1; rank(shape_and_slices) == 1",
    .doc = "Writes tensors into the checkpoint <prefix>.index, <prefix>.data-00000-of-00001, all or nothing.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SaveShape>,
});

static void RestoreShape(ShapeContext& c) { CheckRequestShapes(c, c.output_count()); }

TENON_OP(kRestoreV2) = DefineOp({
    .name = "RestoreV2",
    .inputs = "prefix: string, tensor_names: string, shape_and_slices: string",
    .outputs = "tensors: dtypes",
    .attrs = "dtypes: list(type) >= 1",
    .constraints = "path(prefix); rank(prefix) == 0; rank(tensor_names) == 1; rank(shape_and_slices) == 1",
    .doc = "Reads tensors from a checkpoint by name, also from one of the first format; every byte's checksum is "
           "verified.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<RestoreShape>,
});

}  // namespace tenon::ops
