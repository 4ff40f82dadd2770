// SPDX-License-Identifier: Apache-2.0
// SaveV2 and RestoreV2: tensors to and from a checkpoint.
#include <charconv>
#include <set>

#include "bundle.h"
#include "tenon/sdk/op.h"
#include "tenon/sdk/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// "" is the whole tensor; so is "2 3 -:0,3", which names a shape and a slice that leaves nothing out. What names
// less is refused: tensors are saved and restored whole.
void RequireWhole(std::string_view spec, std::string_view tensor, Dims dims) {
  if (spec.empty()) return;
  const auto bad = [&](std::string_view why) {
    Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", spec, "' of tensor '", tensor, "' ", why);
  };
  const auto number = [&](std::string_view text) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) bad("is not of the form '2 3 -:0,3'");
    return value;
  };
  std::vector<int64_t> shape;
  std::string_view rest = spec;
  for (size_t space = rest.find(' '); space != std::string_view::npos; space = rest.find(' ')) {
    shape.push_back(number(rest.substr(0, space)));
    rest.remove_prefix(space + 1);
  }
  if (!std::equal(shape.begin(), shape.end(), dims.begin(), dims.end())) {
    Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", spec, "' of tensor '", tensor, "' names another shape than ",
         dims);
  }
  size_t dim = 0;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (dim >= shape.size()) bad("has more slices than dims");
    if (part != "-") {
      const size_t comma = part.find(',');
      if (comma == std::string_view::npos) bad("is not of the form '2 3 -:0,3'");
      if (number(part.substr(0, comma)) != 0 || number(part.substr(comma + 1)) != shape[dim]) {
        Fail(TENON_UNIMPLEMENTED, "shape_and_slice '", spec, "' of tensor '", tensor,
             "' names a part of the tensor; only whole tensors are saved and restored");
      }
    }
    ++dim;
  }
  if (dim != shape.size()) bad("has fewer slices than dims");
}

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
    for (size_t i = 0; i < count; ++i) {
      RequireWhole(request.specs[i], request.names[i], DimsOf(c.input_view(static_cast<int32_t>(i) + 3)));
    }
    io::BundleWriter writer(io::HostFiles(), request.prefix);
    for (size_t i = 0; i < count; ++i) {
      if (c.cancelled()) Fail(TENON_CANCELLED, "the step was cancelled while it saved ", request.prefix);
      writer.Add(request.names[i], c.input_view(static_cast<int32_t>(i) + 3));
    }
    writer.Finish();
  }
};

struct Restore {
  explicit Restore(CreateContext& c) {
    for (int i = 0; i < c.output_count(); ++i) dtypes.push_back(c.output_type(i));
  }
  void Run(RunContext c) const {
    const Request request = ReadRequest(c, dtypes.size());
    io::BundleReader reader(io::HostFiles(), request.prefix);
    for (size_t i = 0; i < dtypes.size(); ++i) {
      if (c.cancelled()) Fail(TENON_CANCELLED, "the step was cancelled while it restored ", request.prefix);
      RestoreOne(c, reader, request, i);
    }
  }
  void RestoreOne(const RunContext& c, io::BundleReader& reader, const Request& request, size_t i) const {
    const std::string_view name = request.names[i];
    const io::BundleEntry entry = reader.Find(name);
    if (!entry.slices.empty()) {
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' is stored in ", entry.slices.size(), " slices in ",
           reader.index_path(), "; only whole tensors are restored");
    }
    if (entry.dtype != dtypes[i]) {
      Fail(TENON_INVALID_ARGUMENT, "tensor '", name, "' is of type ", TypeName(entry.dtype), " in ",
           reader.index_path(), ", but ", TypeName(dtypes[i]), " is asked for");
    }
    RequireWhole(request.specs[i], name, entry.dims);
    const auto index = static_cast<int32_t>(i);
    if (entry.dtype == TENON_DT_STRING) {
      std::string storage;
      const std::vector<std::string_view> strings = reader.ReadStrings(name, entry, &storage);
      return SetStrings(c, index, entry.dims, strings);
    }
    if (ElementSize(entry.dtype) == 0) {
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' of type ", TypeName(entry.dtype), " cannot be restored");
    }
    reader.CheckedCount(name, entry);
    reader.CheckBounds(name, entry);  // before memory is asked for
    c.AllocOutput(index, entry.dims);
    reader.Read(name, entry, c.output<char>(index));
  }
  std::vector<uint32_t> dtypes;
};

void CheckRequestShapes(ShapeContext& c, int64_t count) {
  c.WithRank(0, 0);
  c.Merge(c.WithRank(1, 1)[0], count, "the number of tensor_names and of tensors");
  c.Merge(c.WithRank(2, 1)[0], count, "the number of shape_and_slices and of tensors");
}

}  // namespace

extern constinit const tenon_kernel_registration kSaveV2Kernel =
    Registration<Save>("SaveV2", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
extern constinit const tenon_kernel_registration kRestoreV2Kernel = Registration<Restore>(
    "RestoreV2", {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE, .dynamic_outputs = TENON_DYNAMIC_ALL});

static void SaveShape(ShapeContext& c) { CheckRequestShapes(c, c.input_count() - 3); }

extern const tenon_op_definition kSaveV2 = DefineOp({
    .name = "SaveV2",
    .inputs = "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes",
    .attrs = "dtypes: list(type) >= 1",
    .constraints = "path(prefix); rank(prefix) == 0; rank(tensor_names) == 1; rank(shape_and_slices) == 1",
    .doc = "Writes tensors into the checkpoint <prefix>.index, <prefix>.data-00000-of-00001, all or nothing.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<SaveShape>,
});

static void RestoreShape(ShapeContext& c) { CheckRequestShapes(c, c.output_count()); }

extern const tenon_op_definition kRestoreV2 = DefineOp({
    .name = "RestoreV2",
    .inputs = "prefix: string, tensor_names: string, shape_and_slices: string",
    .outputs = "tensors: dtypes",
    .attrs = "dtypes: list(type) >= 1",
    .constraints = "path(prefix); rank(prefix) == 0; rank(tensor_names) == 1; rank(shape_and_slices) == 1",
    .doc = "Reads tensors from a checkpoint by name; every byte's checksum is verified.",
    .traits = TENON_OP_STATEFUL | TENON_OP_IO | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<RestoreShape>,
});

}  // namespace tenon::ops
