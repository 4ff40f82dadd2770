// SPDX-License-Identifier: Apache-2.0
#include "base/archive.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/held_elements.h"
#include "tenon/extras/kernel/held_tensors.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr uint64_t kFirstBlock = 1 << 10, kLargestBlock = 16 << 20;  // bytes
constexpr int kMostWithin = 16;
constexpr int64_t kMostHeld = TENON_MAX_RANK + 1;  // tensors of a ragged one
constexpr int64_t kMostName = 4096;
constexpr int64_t kMostComponents = 1 << 20;

}  // namespace

void Iterator::State(Archive& archive) {
  Fail(TENON_UNIMPLEMENTED, "the state of this pass cannot be kept", archive.reading() ? " and was not" : "");
}

Archive::Archive(const Pass& pass, std::vector<tenon_tensor_view> pieces)
    : pass_(&pass), reading_(true), pieces_(std::move(pieces)) {
  for (const tenon_tensor_view& piece : pieces_) {
    if (piece.dtype != TENON_DT_UINT8 || piece.dl.ndim != 1) Refuse("it is not made of bytes");
    left_ += static_cast<uint64_t>(Count(piece));
  }
}

void Archive::Refuse(std::string_view why) const {
  Fail(TENON_INVALID_ARGUMENT, "this is not the state of such a pass: ", why);
}

// ---- Bytes ----

void Archive::Write(const char* bytes, uint64_t count) {
  while (count > 0) {
    if (room_ == 0) {
      const uint64_t before = blocks_.empty() ? kFirstBlock / 2 : static_cast<uint64_t>(Count(blocks_.back().view()));
      const int64_t dims[] = {static_cast<int64_t>(
          std::max(std::min(before * 2, kLargestBlock), std::min(std::bit_ceil(count), kLargestBlock)))};
      blocks_.push_back(pass_->work().NewTensor(TENON_DT_UINT8, dims));
      room_ = static_cast<uint64_t>(dims[0]);
    }
    const tenon_tensor_view block = blocks_.back().view();
    const uint64_t some = std::min(count, room_);
    std::memcpy(Data<char>(block) + (static_cast<uint64_t>(Count(block)) - room_), bytes, some);
    room_ -= some;
    bytes += some;
    count -= some;
  }
}

void Archive::Read(char* bytes, uint64_t count) {
  if (count > left_) Refuse("it ends too early");
  left_ -= count;
  while (count > 0) {
    const tenon_tensor_view& piece = pieces_[piece_];
    const uint64_t some = std::min(count, static_cast<uint64_t>(Count(piece)) - at_);
    std::memcpy(bytes, Data<const char>(piece) + at_, some);
    at_ += some;
    bytes += some;
    count -= some;
    if (at_ == static_cast<uint64_t>(Count(piece))) {
      ++piece_;
      at_ = 0;
    }
  }
}

std::vector<KeptTensor> Archive::Take() {
  if (room_ > 0) {
    const tenon_tensor_view last = blocks_.back().view();
    const int64_t dims[] = {Count(last) - static_cast<int64_t>(room_)};
    KeptTensor exact = pass_->work().NewTensor(TENON_DT_UINT8, dims);
    std::memcpy(Data<char>(exact.view()), Data<const char>(last), static_cast<size_t>(dims[0]));
    blocks_.back() = std::move(exact);
    room_ = 0;
  }
  return std::move(blocks_);
}

void Archive::CheckEnd() const {
  if (left_ != 0) Refuse(Concat(left_, " bytes are behind its end"));
}

// ---- Fields ----

// Seven bits in a byte, the small numbers first; the sign is the lowest bit.
int64_t Archive::Int(int64_t value, int64_t least, int64_t most) {
  if (!reading_) {
    char bytes[10];
    uint64_t count = 0;
    for (auto bits = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);; bits >>= 7) {
      bytes[count++] = static_cast<char>((bits & 0x7f) | (bits > 0x7f ? 0x80 : 0));
      if (bits <= 0x7f) break;
    }
    Write(bytes, count);
    return value;
  }
  uint64_t bits = 0;
  for (int shift = 0;; shift += 7) {
    char byte = 0;
    Read(&byte, 1);
    const auto low = static_cast<uint64_t>(byte & 0x7f);
    if (shift == 63 && (low > 1 || (byte & 0x80) != 0)) Refuse("a number has too many bytes");
    bits |= low << shift;
    if ((byte & 0x80) == 0) break;
  }
  const auto read = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  if (read < least || read > most) Refuse(Concat("it has ", read, " where ", least, " to ", most, " may be"));
  return read;
}

void Archive::Charge(uint64_t bytes) const {
  const int64_t dims[] = {static_cast<int64_t>(bytes)};
  (void)pass_->work().NewTensor(TENON_DT_UINT8, dims);
}

void Archive::Text(std::string& text, int64_t most) {
  auto size = static_cast<int64_t>(text.size());
  Number(size, 0, reading_ ? std::min(most, Left()) : INT64_MAX);
  if (!reading_) return Write(text.data(), text.size());
  text.resize(static_cast<size_t>(size));
  Read(text.data(), text.size());
}

void Archive::Failure(Outcome& outcome) {
  Number(outcome.code, 0, TENON_UNAUTHENTICATED);
  Text(outcome.message);
}

void Archive::Of(const Dataset& dataset, IteratorPtr& iterator) {
  std::string kind(dataset.kind());
  Text(kind);
  if (kind != dataset.kind()) Refuse(Concat("it is of a ", kind.substr(0, 64), " where ", dataset.who(), " stands"));
  bool there = iterator != nullptr;
  Flag(there);
  if (!there) iterator.reset();
  else if (iterator == nullptr) iterator = dataset.NewIterator(*pass_);
  if (there) iterator->State(*this);
}

// ---- Tensors ----

void Archive::Values(Element& element) {
  auto size = static_cast<int64_t>(element.size());
  Number(size, 0, kMostComponents);
  if (!reading_) {
    for (const KeptTensor& tensor : element) WriteTensor(tensor.view());
    return;
  }
  element.clear();
  for (int64_t i = 0; i < size; ++i) element.push_back(ReadTensor());
}

namespace {

// What tensors of variants hold.
enum : int64_t { kDataset, kTensors };
// Cells of the latter: the kind of variant.
enum : int64_t { kNothing, kSparsePart, kRagged };

}  // namespace

// Of a dataset's variant, or an op's.
std::vector<tenon_tensor_view> Archive::TensorsOf(const tenon_variant* variant, std::string_view type) const {
  const std::span<const tenon_tensor_view> held = TensorsHeld(pass_->work().services(), variant, type);
  std::vector<tenon_tensor_view> tensors(held.begin(), held.end());
  const tenon_frame_services* const frames = pass_->frames();
  if (!tensors.empty() || frames == nullptr || !TENON_CALLABLE(frames, variant_info) ||
      !TENON_CALLABLE(frames, variant_element))
    return tensors;
  tenon_variant_info info{};
  frames->variant_info(variant, &info);
  if (ToText(info.type) != type) return tensors;
  tensors.resize(info.element_count);
  for (uint64_t i = 0; i < info.element_count; ++i) frames->variant_element(variant, i, &tensors[i]);
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const tenon_tensor_view& tensor) { return tensor.dtype == TENON_DT_INVALID; }))
    tensors.clear();
  return tensors;
}

bool Archive::IsOfTensors(const tenon_tensor_view& view) const {
  const tenon_variant* const variant = *Data<tenon_variant* const>(view);
  return variant == nullptr || !TensorsOf(variant, kTensorVariant).empty() ||
         !TensorsOf(variant, kRaggedVariant).empty();
}

void Archive::WriteHeld(const tenon_variant* variant) {
  int64_t kind = kNothing;
  std::vector<tenon_tensor_view> tensors;
  if (variant != nullptr) {
    kind = kSparsePart;
    tensors = TensorsOf(variant, kTensorVariant);
    if (tensors.empty()) {
      kind = kRagged;
      tensors = TensorsOf(variant, kRaggedVariant);
    }
    if (tensors.empty())
      Fail(TENON_UNIMPLEMENTED,
           "the state of this pass cannot be kept: it has an element of variants that are neither sparse nor ragged "
           "tensors");
  }
  Number(kind);
  if (kind == kNothing) return;
  auto count = static_cast<int64_t>(tensors.size());
  Number(count, 1, kind == kSparsePart ? 1 : kMostHeld);
  for (const tenon_tensor_view& tensor : tensors) {
    if (ElementSize(tensor.dtype) == 0 && tensor.dtype != TENON_DT_STRING)
      Fail(TENON_UNIMPLEMENTED, "the state of this pass cannot be kept: it has variants within variants");
    WriteTensor(tensor);
  }
}

// Fills the cell of a tensor whose cells are empty.
void Archive::ReadHeld(tenon_variant** cell) {
  int64_t kind = kNothing;
  Number(kind, kNothing, kRagged);
  if (kind == kNothing) return;
  int64_t count = 0;
  Number(count, 1, kind == kSparsePart ? 1 : kMostHeld);
  std::vector<KeptTensor> tensors;
  for (int64_t i = 0; i < count; ++i) {
    tensors.push_back(ReadTensor());
    if (tensors.back().view().dtype == TENON_DT_VARIANT) Refuse("it has variants within variants");
  }
  *cell =
      HoldTensors(pass_->work().services(), kind == kSparsePart ? kTensorVariant : kRaggedVariant, std::move(tensors));
}

void Archive::WriteTensor(const tenon_tensor_view& view) {
  uint32_t dtype = view.dtype;
  Number(dtype);
  int64_t rank = view.dl.ndim;
  Number(rank);
  for (int64_t dim : DimsOf(view)) Number(dim);
  if (dtype == TENON_DT_STRING) {
    for (const std::string_view text : StringsOf(view)) {
      auto size = static_cast<int64_t>(text.size());
      Number(size);
      Write(text.data(), text.size());
    }
  } else if (dtype == TENON_DT_VARIANT && rank == 0 && !IsOfTensors(view)) {
    int64_t kind = kDataset;
    Number(kind);
    const DatasetPtr dataset = DatasetIn(pass_->work().services(), view, "a component of an element");
    const auto* const held = dynamic_cast<const Held*>(dataset.get());
    if (held == nullptr)
      Fail(TENON_UNIMPLEMENTED, "the state of this pass cannot be kept: it has an element that is a dataset, ",
           dataset->who(), ", whose elements are not in memory");
    if (++within_ > kMostWithin)
      Fail(TENON_UNIMPLEMENTED, "the state of this pass cannot be kept: datasets lie in one another deeper than ",
           kMostWithin);
    std::string who = held->who();
    Text(who);
    int64_t components = static_cast<int64_t>(held->types().size());
    Number(components);
    for (uint32_t type : held->types()) Number(type);
    int64_t size = held->Cardinality();
    Number(size);
    for (const Element& element : held->elements()) {
      Element share = Share(element);
      Values(share);
    }
    --within_;
  } else if (dtype == TENON_DT_VARIANT) {
    int64_t kind = kTensors;
    Number(kind);
    for (int64_t i = 0, count = Count(view); i < count; ++i) WriteHeld(Data<tenon_variant* const>(view)[i]);
  } else if (ElementSize(dtype) != 0) {
    Write(Data<const char>(view), static_cast<uint64_t>(Count(view)) * ElementSize(dtype));
  } else {
    Fail(TENON_UNIMPLEMENTED, "the state of this pass cannot be kept: it has an element of ", TypeName(dtype));
  }
}

KeptTensor Archive::ReadTensor() {
  uint32_t dtype = 0;
  Number(dtype, 0, UINT32_MAX);
  int64_t rank = 0;
  Number(rank, 0, TENON_MAX_RANK);
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  int64_t count = 1;
  for (int64_t& dim : dims) {
    Number(dim);
    if (__builtin_mul_overflow(count, dim, &count)) Refuse("a tensor is too large");
  }
  if (dtype == TENON_DT_VARIANT) {
    int64_t kind = kDataset;
    Number(kind, kDataset, kTensors);
    if (kind == kDataset) {
      if (rank != 0) Refuse("it has a tensor of datasets");
      return ReadDataset();
    }
    if (++within_ > kMostWithin) Refuse("variants lie in one another too deep");
    if (count > Left()) Refuse("a tensor is larger than what is left");
    KeptTensor cells = pass_->work().NewTensor(TENON_DT_VARIANT, dims);
    for (int64_t i = 0; i < count; ++i) ReadHeld(Data<tenon_variant*>(cells.view()) + i);
    --within_;
    return cells;
  }
  const uint64_t size = dtype == TENON_DT_STRING ? 1 : ElementSize(dtype);
  if (size == 0) Refuse("it has a tensor of a type that has no values");
  if (static_cast<uint64_t>(count) > left_ / size)
    Refuse("a tensor is larger than what is left");  // before memory is taken
  if (dtype != TENON_DT_STRING) {
    KeptTensor tensor = pass_->work().NewTensor(dtype, dims);
    Read(Data<char>(tensor.view()), static_cast<uint64_t>(count) * size);
    return tensor;
  }
  Charge(static_cast<uint64_t>(count) * sizeof(std::string));
  std::vector<std::string> texts(static_cast<size_t>(count));
  for (std::string& text : texts) Text(text);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return NewStrings(pass_->work(), dims, views);
}

KeptTensor Archive::ReadDataset() {
  if (++within_ > kMostWithin) Refuse("datasets lie in one another too deep");
  std::string who;
  Text(who, kMostName);
  int64_t components = 0;
  Number(components, 1, std::min<int64_t>(kMostComponents, Left()));
  std::vector<uint32_t> types(static_cast<size_t>(components));
  for (uint32_t& type : types) Number(type, 0, UINT32_MAX);
  std::vector<Element> elements;
  Elements(elements);
  --within_;
  return NewDataset(pass_->work(),
                    std::make_shared<const Held>(Held::Node{std::move(who), std::move(types),
                                                            std::vector<Shape>(static_cast<size_t>(components))},
                                                 std::move(elements)));
}

}  // namespace tenon::ops
