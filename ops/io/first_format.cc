// SPDX-License-Identifier: Apache-2.0
#include "first_format.h"

#include <algorithm>

#include "tenon/extras/file/glob.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/tensor_proto.h"
#include "tenon/bytes/wire.h"
#include "write_lock.h"

namespace tenon::ops::io {

using sdk::Dims;
using sdk::Fail;
using sdk::WireReader;
using sdk::WireWriter;
namespace proto = sdk::tensor_proto;

namespace {

// Fields of SavedTensorSlices, SavedTensorSliceMeta, SavedSliceMeta, SavedSlice.
constexpr uint32_t kMeta = 1, kData = 2, kMetaTensor = 1, kMetaVersions = 2, kName = 1, kShape = 2, kType = 3,
                   kSlice = 4, kDataSlice = 2, kDataValues = 3;
constexpr uint64_t kFirstProducer = 1;                        // version of the format
constexpr size_t kMostFirstSlices = 16384;                    // of a tensor, which are compared with one another
constexpr uint64_t kMostMessage = (uint64_t{1} << 31) - 1;  // bytes, as of any message
constexpr uint64_t kMostGrowth = 64;  // of a compressed block, so that an element takes a 64th of a byte at least

// ---- Values in a message's lists ----

uint64_t VarintBytes(uint64_t value) {
  uint64_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}
template <class String>
void AppendVarint(String& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// function(each element as the number that a list of varints holds).
template <class Function>
void ForEachVarint(const tenon_tensor_view& tensor, const Function& function) {
  const auto visit = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* values = sdk::Data<const T>(tensor);
    for (int64_t i = 0, count = sdk::Count(tensor); i < count; ++i)
      function(static_cast<uint64_t>(static_cast<int64_t>(values[i])));
  };
  switch (tensor.dtype) {
    case TENON_DT_BOOL:
    case TENON_DT_UINT8:
    case TENON_DT_QUINT8: return visit(sdk::Tag<uint8_t>());
    case TENON_DT_INT8:
    case TENON_DT_QINT8: return visit(sdk::Tag<int8_t>());
    case TENON_DT_INT16:
    case TENON_DT_QINT16: return visit(sdk::Tag<int16_t>());
    case TENON_DT_HALF:
    case TENON_DT_BFLOAT16:
    case TENON_DT_UINT16:
    case TENON_DT_QUINT16: return visit(sdk::Tag<uint16_t>());
    case TENON_DT_INT32:
    case TENON_DT_QINT32: return visit(sdk::Tag<int32_t>());
    case TENON_DT_UINT32: return visit(sdk::Tag<uint32_t>());
    case TENON_DT_INT64: return visit(sdk::Tag<int64_t>());
    default: return visit(sdk::Tag<uint64_t>());
  }
}

bool LiesRaw(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || proto::IsComplex(dtype) ||
         proto::FieldOf(dtype) == proto::kFloat8;
}

// The TensorProto of a slice, which says neither type nor shape.
uint64_t BytesOfValues(const tenon_tensor_view& tensor) {
  uint64_t bytes = 0;
  if (tensor.dtype == TENON_DT_STRING) {
    for (int64_t i = 0, count = sdk::Count(tensor); i < count; ++i)
      bytes += 1 + VarintBytes(sdk::StringAt(tensor, i).size()) + sdk::StringAt(tensor, i).size();
    return bytes;
  }
  if (LiesRaw(tensor.dtype)) return static_cast<uint64_t>(sdk::Count(tensor)) * sdk::ElementSize(tensor.dtype);
  ForEachVarint(tensor, [&](uint64_t value) { bytes += VarintBytes(value); });
  return bytes;
}

std::pmr::string EncodeSlice(const FirstPiece& piece, const Slice& slice, const Budget& budget) {
  const tenon_tensor_view& tensor = *piece.tensor;
  const uint32_t field = proto::FieldOf(tensor.dtype);
  const uint64_t values = BytesOfValues(tensor);
  const bool strings = tensor.dtype == TENON_DT_STRING;
  std::string head;  // of the values' list
  if (!strings && values > 0) {
    sdk::PutVarint(head, field << 3 | 2);
    sdk::PutVarint(head, values);
  }
  const std::string name_and_slice = [&] {
    WireWriter saved;
    saved.Bytes(kName, piece.name);
    saved.Bytes(kDataSlice, slice.Serialize());
    return saved.bytes();
  }();
  std::string tensor_head, saved_head;
  sdk::PutVarint(tensor_head, kDataValues << 3 | 2);
  sdk::PutVarint(tensor_head, head.size() + values);
  sdk::PutVarint(saved_head, kData << 3 | 2);
  sdk::PutVarint(saved_head, name_and_slice.size() + tensor_head.size() + head.size() + values);
  if (values > kMostMessage - 4096 - 2 * piece.name.size())
    Fail(TENON_UNIMPLEMENTED, "tensor '", piece.name, "' takes ", values,
         " bytes in a checkpoint of the first format, which has no messages so large; SaveV2 has no such bound, nor "
         "have slices");
  std::pmr::string out(budget.memory);
  out.reserve(saved_head.size() + name_and_slice.size() + tensor_head.size() + head.size() + values);
  for (const std::string_view part : {std::string_view(saved_head), std::string_view(name_and_slice),
                                      std::string_view(tensor_head), std::string_view(head)})
    out += part;
  if (strings) {
    for (int64_t i = 0, count = sdk::Count(tensor); i < count; ++i) {
      out += proto::MemberHead(field, sdk::StringAt(tensor, i).size());
      out += sdk::StringAt(tensor, i);
    }
  } else if (LiesRaw(tensor.dtype)) {
    out.append(sdk::Data<const char>(tensor), values);
  } else {
    ForEachVarint(tensor, [&](uint64_t value) { AppendVarint(out, value); });
  }
  return out;
}

std::string EncodeShape(Dims dims) {
  WireWriter shape;
  for (const int64_t dim : dims) {
    WireWriter size;
    size.Varint(proto::kSize, static_cast<uint64_t>(dim));
    shape.Bytes(proto::kDim, size.bytes());
  }
  return shape.bytes();
}

// All pieces of one name.
struct Saved {
  std::vector<int64_t> dims;
  uint32_t dtype;
  std::vector<Slice> slices;
};

std::vector<int64_t> WholeDims(const FirstPiece& piece) {
  const Dims dims = sdk::DimsOf(*piece.tensor);
  return piece.spec.whole ? std::vector<int64_t>(dims.begin(), dims.end()) : piece.spec.dims;
}
Slice SliceOf(const FirstPiece& piece) {
  return piece.spec.whole ? Slice::Whole(sdk::DimsOf(*piece.tensor)) : piece.spec.slice;
}

}  // namespace

void WriteFirstFormat(const tenon_files& files, std::string_view path, const std::vector<FirstPiece>& pieces,
                      const Budget& budget) {
  if (path.empty()) Fail(TENON_INVALID_ARGUMENT, "filename is empty");
  std::map<std::string, Saved, std::less<>> tensors;
  std::map<std::string, const FirstPiece*> by_key;
  for (const FirstPiece& piece : pieces) {
    budget.poll();
    if (proto::FieldOf(piece.tensor->dtype) == 0)
      Fail(TENON_UNIMPLEMENTED, "tensor '", piece.name, "' of type ", sdk::TypeName(piece.tensor->dtype),
           " cannot be saved in the first format");
    const Slice slice = SliceOf(piece);
    const auto [at, added] =
        tensors.try_emplace(std::string(piece.name), Saved{WholeDims(piece), piece.tensor->dtype, {}});
    Saved& saved = at->second;
    if (!added && (saved.dims != WholeDims(piece) || saved.dtype != piece.tensor->dtype))
      Fail(TENON_INVALID_ARGUMENT, "tensor '", piece.name, "' is saved twice, with different shapes or types");
    Slice common;
    for (const Slice& other : saved.slices)
      if (other == slice || other.Intersect(slice, &common))
        Fail(TENON_INVALID_ARGUMENT, "tensor '", piece.name, "' is saved twice, with slices that overlap");
    saved.slices.push_back(slice);
    by_key.emplace(slice.Key(piece.name), &piece);
  }
  WireWriter meta, all, versions;
  versions.Varint(1, kFirstProducer);
  for (const auto& [name, saved] : tensors) {
    WireWriter tensor;
    tensor.Bytes(kName, name);
    tensor.Bytes(kShape, EncodeShape(saved.dims));
    tensor.Varint(kType, saved.dtype);
    for (const Slice& slice : saved.slices) tensor.Bytes(kSlice, slice.Serialize());
    meta.Bytes(kMetaTensor, tensor.bytes());
  }
  meta.Bytes(kMetaVersions, versions.bytes());
  all.Bytes(kMeta, meta.bytes());

  sdk::MakeFolders(files, sdk::FolderOf(path));
  WriteLock lock(files, path);
  const std::string temporary = std::string(path) + ".tmp";
  try {
    sdk::File file = sdk::File::ForWriting(files, temporary);
    TableBuilder builder(
        [&](std::string_view bytes) {
          constexpr size_t kPiece = 1 << 20;
          for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
            budget.poll();
            file.Write(bytes.data(), std::min(bytes.size(), kPiece));
          }
        },
        budget.memory);
    builder.Add("", all.bytes());
    for (const auto& [key, piece] : by_key) builder.Add(key, EncodeSlice(*piece, SliceOf(*piece), budget));
    builder.Finish();
    file.SyncAndClose();
    budget.poll();
    sdk::Rename(files, temporary, path);
  } catch (...) {
    sdk::RemoveIfThere(files, temporary);
    throw;
  }
  sdk::SyncFolderOf(files, path);
  lock.Release();
}

// ---- Read ----

FirstReader::FirstReader(const tenon_files& files, std::string_view pattern, const Budget& budget)
    : pattern_(pattern), budget_(budget) {
  std::vector<std::string> paths;
  sdk::AppendMatching(files, pattern, [&](size_t) { budget_.poll(); }, &paths);
  if (paths.empty()) Fail(TENON_NOT_FOUND, "there is no checkpoint ", pattern, ": no file matches it");
  std::ranges::sort(paths);
  for (std::string& path : paths) {
    budget_.poll();
    tables_.emplace_back(sdk::File::ForReading(files, std::move(path)), budget_);
    by_number_.push_back(&tables_.back());
    bytes_ += tables_.back().source.size();
    AddTable(by_number_.size() - 1);
  }
}

void FirstReader::AddTable(size_t table) {
  TableLookup& lookup = by_number_[table]->lookup;
  const auto found = lookup.Find("");
  if (!found.has_value())
    Fail(TENON_DATA_LOSS, "the checkpoint ", lookup.path(),
         " says nothing of what it holds; is it of the first format?");
  WireReader all(*found);
  while (all.Next()) {
    if (all.field() != kMeta) continue;
    WireReader meta(all.delimited());
    while (meta.Next()) {
      budget_.poll();
      if (meta.field() == kMetaTensor) AddTensor(meta.delimited(), table);
    }
    if (!meta.ok()) Fail(TENON_DATA_LOSS, "what the checkpoint ", lookup.path(), " says of its tensors is damaged");
  }
  if (!all.ok()) Fail(TENON_DATA_LOSS, "what the checkpoint ", lookup.path(), " says of its tensors is damaged");
}

void FirstReader::AddTensor(std::string_view meta, size_t table) {
  const std::string& path = by_number_[table]->lookup.path();
  std::string_view name, shape;
  Tensor tensor;
  std::vector<std::string_view> slices;
  WireReader reader(meta);
  while (reader.Next()) {
    if (reader.field() == kName) name = reader.delimited();
    else if (reader.field() == kShape) shape = reader.delimited();
    else if (reader.field() == kType) tensor.dtype = static_cast<uint32_t>(reader.varint());
    else if (reader.field() == kSlice) slices.push_back(reader.delimited());
  }
  if (!reader.ok()) Fail(TENON_DATA_LOSS, "what the checkpoint ", path, " says of a tensor is damaged");
  try {
    proto::ReadShape(shape, &tensor.dims);
  } catch (const sdk::KernelError&) {
    Fail(TENON_DATA_LOSS, "the checkpoint ", path, " has no valid shape for tensor '", name, "'");
  }
  if (proto::FieldOf(tensor.dtype) == 0)
    Fail(TENON_DATA_LOSS, "the checkpoint ", path, " has tensor '", name, "' of type ", tensor.dtype,
         ", which is none that is saved");
  const auto [at, added] = tensors_.try_emplace(std::string(name), tensor);
  if (!added && (at->second.dims != tensor.dims || at->second.dtype != tensor.dtype))
    Fail(TENON_DATA_LOSS, "the files of ", pattern_, " have different tensors of the name '", name, "'");
  if (at->second.slices.size() + slices.size() > kMostFirstSlices)
    Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' is stored in more than ", kMostFirstSlices, " slices in ", pattern_);
  for (const std::string_view slice : slices)
    at->second.slices.push_back({Slice::Parse(slice, tensor.dims, name), table});
}

const FirstReader::Tensor& FirstReader::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    Fail(TENON_NOT_FOUND, "Tensor name \"", name, "\" not found in checkpoint files ", pattern_);
  return found->second;
}

// The TensorProto of a stored slice.
std::string_view FirstReader::ValuesOf(std::string_view name, const Tensor::Stored& stored) {
  TableLookup& lookup = by_number_[stored.table]->lookup;
  const auto found = lookup.Find(stored.slice.Key(std::string(name)));
  std::string_view values;
  bool there = false;
  if (found.has_value()) {
    WireReader all(*found);
    while (all.Next()) {
      if (all.field() != kData) continue;
      WireReader saved(all.delimited());
      while (saved.Next())
        if (saved.field() == kDataValues) values = saved.delimited(), there = true;
      there &= saved.ok();
    }
    there &= all.ok();
  }
  if (!there)
    Fail(TENON_DATA_LOSS, "the checkpoint ", lookup.path(), " lacks values of tensor '", name,
         "' that it is said to hold");
  return values;
}

namespace {

[[noreturn]] void WrongCount(std::string_view name, std::string_view pattern, uint64_t found, uint64_t wanted) {
  Fail(TENON_DATA_LOSS, "a slice of tensor '", name, "' in ", pattern, " has ", found, " values where ", wanted,
       " belong");
}

void ReadValues(std::string_view message, uint32_t dtype, uint64_t count, std::string_view name,
                std::string_view pattern, char* output) {
  const uint64_t size = sdk::ElementSize(dtype), each = proto::IsComplex(dtype) ? 2 : 1;
  proto::Parts parts{output, size / each, count * each, dtype == TENON_DT_BOOL};
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() != proto::FieldOf(dtype)) continue;
    if (reader.is_bytes()) proto::PutPacked(reader.bytes(), dtype, &parts);
    else parts.Put(reader.number());
  }
  if (!reader.ok() || parts.count != count * each) WrongCount(name, pattern, parts.count / each, count);
}

}  // namespace

void FirstReader::Restore(const sdk::RunContext& c, std::string_view name, std::string_view shape_and_slice,
                          uint32_t dtype, int32_t index) {
  const Tensor& tensor = Find(name);
  if (tensor.dtype != dtype)
    Fail(TENON_INVALID_ARGUMENT, "tensor '", name, "' is of type ", sdk::TypeName(tensor.dtype), " in ", pattern_,
         ", but ", sdk::TypeName(dtype), " is asked for");
  const SliceSpec spec = SliceSpec::Parse(shape_and_slice, name);
  if (!spec.whole && spec.dims != tensor.dims)
    Fail(TENON_INVALID_ARGUMENT, "shape_and_slice '", shape_and_slice, "' of tensor '", name,
         "' names another shape than ", Dims(tensor.dims));
  const Slice wanted = spec.whole ? Slice::Whole(tensor.dims) : spec.slice;
  const int64_t count = wanted.elements();
  std::vector<const Tensor::Stored*> parts;
  int64_t found = 0;
  for (const Tensor::Stored& stored : tensor.slices) {
    budget_.poll();
    Slice common, overlap;
    if (!stored.slice.Intersect(wanted, &common)) continue;
    for (const Tensor::Stored* part : parts)
      if (part->slice.Intersect(common, &overlap))
        Fail(TENON_DATA_LOSS, "slices of tensor '", name, "' in ", pattern_, " overlap");
    parts.push_back(&stored);
    found += common.elements();
    // Before memory is asked for.
    if (static_cast<uint64_t>(stored.slice.elements()) / kMostGrowth > bytes_)
      Fail(TENON_DATA_LOSS, "tensor '", name, "' has more elements than the files of ", pattern_, " can hold");
  }
  if (found != count)
    Fail(TENON_DATA_LOSS, "of tensor '", name, "' in ", pattern_, " ", found, " of ", count, " elements are stored");
  if (dtype == TENON_DT_STRING) {
    if (parts.size() > 1 || (count > 0 && !(parts[0]->slice == wanted)))
      Fail(TENON_UNIMPLEMENTED, "tensor '", name, "' of strings cannot be restored in parts");
    std::pmr::vector<std::string_view> texts(budget_.memory);
    if (count > 0) {
      WireReader reader(ValuesOf(name, *parts[0]));
      while (reader.Next())
        if (reader.field() == proto::kStrings) texts.push_back(reader.delimited());
      if (!reader.ok() || static_cast<int64_t>(texts.size()) != count)
        WrongCount(name, pattern_, texts.size(), static_cast<uint64_t>(count));
    }
    return sdk::SetStrings(c, index, Dims(wanted.length), texts);
  }
  c.AllocOutput(index, Dims(wanted.length));
  char* const output = c.output<char>(index);
  std::pmr::vector<char> storage(budget_.memory);
  for (const Tensor::Stored* part : parts) {
    budget_.poll();
    const auto elements = static_cast<uint64_t>(part->slice.elements());
    const std::string_view values = ValuesOf(name, *part);
    if (part->slice == wanted) {
      ReadValues(values, dtype, elements, name, pattern_, output);
      continue;
    }
    storage.resize(elements * sdk::ElementSize(dtype));
    ReadValues(values, dtype, elements, name, pattern_, storage.data());
    CopyCommon(part->slice, storage.data(), wanted, output, sdk::ElementSize(dtype));
  }
}

}  // namespace tenon::ops::io
