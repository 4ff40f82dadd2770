// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/packet.h"

#include <cstring>

namespace tenon::cluster {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr char kZeros[kAlignment] = {};
constexpr int kMaxRank = 254;

uint64_t Padding(uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Reads fixed-size numbers; what is not there is zero, and noted.
class Reader {
 public:
  explicit Reader(tenon_span bytes) : rest_(View(bytes)) {}
  template <typename T>
  T Get() {
    T value{};
    if (rest_.size() < sizeof value) {
      short_ = true;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  bool done() const { return !short_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool short_ = false;
};

// The bytes of a tensor that another process describes. variants: whether it may be of such.
Result<int64_t> BytesOfTensor(uint32_t dtype, const Shape& shape, bool variants) {
  if (!IsPlain(dtype) && dtype != TENON_DT_STRING && !(variants && dtype == TENON_DT_VARIANT))
    return InvalidArgument(StrCat("a tensor of type ", dtype, " cannot cross"));
  TENON_RETURN_IF_ERROR(shape.Validate());
  if (!shape.fully_known()) return InvalidArgument("a tensor's shape is unknown");
  return ByteSize(dtype, shape);
}

}  // namespace

void OutPacket::Append(const void* data, uint64_t bytes) {
  if (bytes == 0) return;
  pieces_.push_back({static_cast<const char*>(data), bytes});
  if (const uint64_t padding = Padding(bytes); padding > 0) pieces_.push_back({kZeros, padding});
}

Status OutPacket::Add(const tenon_tensor_view& tensor, TensorHead* out) {
  if (!IsPlain(tensor.dtype) && tensor.dtype != TENON_DT_STRING)
    return InvalidArgument(StrCat("a tensor of ", TypeName(tensor.dtype), " cannot leave its process"));
  out->set_dtype(tensor.dtype);
  for (int32_t i = 0; i < tensor.dl.ndim; ++i) out->add_dims(tensor.dl.shape[i]);
  if (tensor.dtype == TENON_DT_STRING) {
    TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(GlobalPool(), tensor));
    out->set_bytes(tensor.byte_size + StringBytes(tensor));
    Append(copy.data(), out->bytes());
    strings_.push_back(std::move(copy));
    return Status::Ok();
  }
  out->set_bytes(tensor.byte_size);
  Append(DataOf(tensor), tensor.byte_size);
  return Status::Ok();
}

void OutPacket::Finish(const google::protobuf::MessageLite& head) {
  Put(&head_, static_cast<uint32_t>(head.ByteSizeLong()));
  head.AppendToString(&head_);
  head_.append(Padding(head_.size()), '\0');
  pieces_[0] = Span(head_);
}

Result<InPacket> InPacket::Parse(tenon_span bytes, google::protobuf::MessageLite* head) {
  const uint64_t size = bytes.size < 4 ? 0 : Reader({bytes.data, 4}).Get<uint32_t>();
  if (bytes.size < 4 || size > bytes.size - 4)
    return InvalidArgument(StrCat("a message of ", bytes.size, " bytes ends within its head"));
  if (!head->ParseFromArray(bytes.data + 4, static_cast<int>(size)))
    return InvalidArgument("a message's head cannot be read");
  const uint64_t begin = std::min(bytes.size, 4 + size + Padding(4 + size));
  return InPacket({bytes.data + begin, bytes.size - begin});
}

Result<tenon_tensor_view> InPacket::Next(const TensorHead& head) {
  if (head.dims_size() > kMaxRank) return InvalidArgument(StrCat("a tensor of rank ", head.dims_size()));
  const std::vector<int64_t>& dims = dims_.emplace_back(head.dims().begin(), head.dims().end());
  const Shape shape(tenon_shape{dims.data(), static_cast<int32_t>(dims.size()), 0});
  TENON_ASSIGN_OR_RETURN(const int64_t elements, BytesOfTensor(head.dtype(), shape, false));
  const auto cells = static_cast<uint64_t>(elements);
  const bool strings = head.dtype() == TENON_DT_STRING;
  if (head.bytes() > rest_.size || head.bytes() < cells || (!strings && head.bytes() != cells))
    return InvalidArgument(
        StrCat("a tensor of ", cells, " bytes is said to have ", head.bytes(), ", ", rest_.size, " came"));
  if (strings)
    TENON_RETURN_IF_ERROR(
        CheckStrings(rest_.data, static_cast<int64_t>(cells / sizeof(tenon_string_cell)), head.bytes()));
  tenon_tensor_view view = MakeView(head.dtype(), {dims.data(), static_cast<int32_t>(dims.size()), 0},
                                    const_cast<char*>(rest_.data), cells, nullptr);
  const uint64_t used = std::min(rest_.size, head.bytes() + Padding(head.bytes()));
  rest_ = {rest_.data + used, rest_.size - used};
  return view;
}

Result<std::string> EncodeKey(const DataKey& key) {
  std::string out;
  Put(&out, key.session);
  Put(&out, key.step);
  Put(&out, key.part);
  Put(&out, key.key.channel);
  for (int32_t i = 0; i < key.key.depth; ++i) {
    const int64_t turn = key.key.turns[i];
    if (turn < 0 || turn > UINT32_MAX)
      return OutOfRange(StrCat("a value of turn ", turn, " of a loop cannot be sent to another task"));
    Put(&out, static_cast<uint32_t>(turn));
  }
  return out;
}

Result<DataKey> DecodeKey(tenon_span bytes) {
  DataKey key;
  Reader reader(bytes);
  key.session = reader.Get<uint64_t>();
  key.step = reader.Get<uint64_t>();
  key.part = reader.Get<uint32_t>();
  key.key.channel = reader.Get<int32_t>();
  constexpr uint64_t kFixed = 24;
  const uint64_t depth = bytes.size < kFixed ? 0 : (bytes.size - kFixed) / 4;
  if (depth > exec::RendezvousKey::kMaxDepth) return InvalidArgument("a key names too many loops");
  for (uint64_t i = 0; i < depth; ++i) key.key = key.key.Within(reader.Get<uint32_t>());
  if (!reader.done()) return InvalidArgument(StrCat("a key of ", bytes.size, " bytes"));
  return key;
}

std::string EncodeHead(const DataHead& head) {
  std::string out;
  Put(&out, head.dtype);
  if (head.dtype != TENON_DT_INVALID)
    for (int64_t dim : head.shape.dims()) Put(&out, dim);
  return out;
}

Result<DataHead> DecodeHead(tenon_span bytes) {
  DataHead head;
  Reader reader(bytes);
  head.dtype = reader.Get<uint32_t>();
  std::vector<int64_t> dims;
  if (bytes.size > sizeof(uint32_t) + kMaxRank * sizeof(int64_t)) return InvalidArgument("a value of too many dims");
  for (uint64_t i = sizeof(uint32_t); i < bytes.size; i += sizeof(int64_t)) dims.push_back(reader.Get<int64_t>());
  if (!reader.done()) return InvalidArgument(StrCat("a value's head of ", bytes.size, " bytes"));
  if (head.dtype == TENON_DT_INVALID) return head;
  head.shape = Shape(std::move(dims));
  TENON_RETURN_IF_ERROR(BytesOfTensor(head.dtype, head.shape, true).status());
  return head;
}

Status CheckStrings(const void* data, int64_t count, uint64_t bytes) {
  const uint64_t begin = static_cast<uint64_t>(count) * sizeof(tenon_string_cell);
  for (int64_t i = 0; i < count; ++i) {
    tenon_string_cell cell;
    std::memcpy(&cell, static_cast<const char*>(data) + static_cast<uint64_t>(i) * sizeof cell, sizeof cell);
    if (cell.offset > bytes || cell.size > bytes - cell.offset || (cell.size > 0 && cell.offset < begin))
      return InvalidArgument(StrCat("string ", i, " lies outside of its tensor"));
  }
  return Status::Ok();
}

}  // namespace tenon::cluster
