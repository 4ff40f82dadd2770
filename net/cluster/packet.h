// SPDX-License-Identifier: Apache-2.0
// Packets: a head of cluster.proto, and the bytes of tensors behind it.
//
// A packet is the head's size (4 bytes, little-endian), the head, zeros up to a multiple of 64, and then each tensor's
// bytes, each followed by zeros up to a multiple of 64. What is read is not trusted: sizes, dims and the places of
// strings are checked before use.
#ifndef TENON_NET_CLUSTER_PACKET_H_
#define TENON_NET_CLUSTER_PACKET_H_

#include <deque>
#include <string>
#include <vector>

#include "core/exec/exchange/rendezvous_key.h"
#include "core/tensor/tensor.h"
#include "net/cluster/cluster.pb.h"

namespace tenon::cluster {

// To be sent. The pieces point into the object and into the tensors, which stay meanwhile.
class OutPacket {
 public:
  OutPacket() = default;
  OutPacket(const OutPacket&) = delete;
  OutPacket& operator=(const OutPacket&) = delete;
  // Appends the tensor's head to `out`, and its bytes to the packet. Strings are copied, others not. INVALID_ARGUMENT:
  // no plain elements and no strings.
  Status Add(const tenon_tensor_view& tensor, TensorHead* out);
  // Once, at the end.
  void Finish(const google::protobuf::MessageLite& head);
  const std::vector<tenon_span>& pieces() const { return pieces_; }

 private:
  void Append(const void* data, uint64_t bytes);
  std::string head_;
  std::vector<tenon_span> pieces_{{nullptr, 0}};  // the head's first
  std::vector<Tensor> strings_;
};

// One that came. Views point into its bytes, which must be aligned to 64.
class InPacket {
 public:
  InPacket() = default;
  // Fills in the head.
  static Result<InPacket> Parse(tenon_span bytes, google::protobuf::MessageLite* head);
  // The tensors, in the order of their heads.
  Result<tenon_tensor_view> Next(const TensorHead& head);

 private:
  explicit InPacket(tenon_span rest) : rest_(rest) {}
  tenon_span rest_{nullptr, 0};
  std::deque<std::vector<int64_t>> dims_;
};

// Data that one part sends another: where it belongs, and what it is.
struct DataKey {
  uint64_t session = 0, step = 0;
  uint32_t part = 0;  // that receives it
  exec::RendezvousKey key;
};
// At most TENON_TRANSPORT_MAX_KEY bytes. OUT_OF_RANGE: a loop with more than 2^32 turns.
Result<std::string> EncodeKey(const DataKey& key);
Result<DataKey> DecodeKey(tenon_span bytes);

// A dead value has no type; the bytes of one of variants are as variant_bytes.h says. Of a channel that the named part
// sends, and not receives, it is a wish: the receiver asks for the value (asked_values.h), or, where it has a type and
// no bytes, will not.
struct DataHead {
  DType dtype = TENON_DT_INVALID;
  Shape shape;
};
std::string EncodeHead(const DataHead& head);
Result<DataHead> DecodeHead(tenon_span bytes);

// Whether the cells of a string tensor and their bytes lie within `bytes`.
Status CheckStrings(const void* data, int64_t count, uint64_t bytes);

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PACKET_H_
