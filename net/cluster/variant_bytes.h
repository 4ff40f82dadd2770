// SPDX-License-Identifier: Apache-2.0
// Variants between tasks: a tensor of lists, of optionals, of whatever else plugins say may leave its process
// (core/tensor/variant_types.h), as bytes.
//
// The bytes are the tensor's cells one after the other. Numbers are little-endian; cells and places begin at multiples
// of 8, with zeros before them.
//   cell:   u32 bytes of the type's name (0: an empty cell), u32 bytes of the metadata; where it is not empty: u64
//   places, u64 places that follow (those
//           behind them are empty), the name, the metadata, the places
//   place:  u32 element type (0: it is empty), u32 rank, u64 bytes of the data (0 of variants), i64 for each dim, the
//   data data:   at a multiple of 16; plain elements, or strings with their cells as they stand in memory (tensor.h);
//   of variants: their cells
// Variants lie in one another kMostDepth deep at most.
//
// What comes is not trusted. Each number is held against the bytes that are there before memory is taken for what it
// counts, and the type's owner looks at metadata, types and shapes before a value is made of them. Elements stay where
// they came: they share the memory of the bytes.
#ifndef TENON_NET_CLUSTER_VARIANT_BYTES_H_
#define TENON_NET_CLUSTER_VARIANT_BYTES_H_

#include "core/tensor/tensor.h"
#include "core/tensor/variant_types.h"

namespace tenon::cluster {

inline constexpr int kMostDepth = 16;

// UNIMPLEMENTED names the type, or the element's, that does not leave its process.
Result<Tensor> WriteVariants(const tenon_tensor_view& cells, variant::Types* types, BufferPool* pool);

// A tensor of this shape. bytes: of uint8; elements keep them. INVALID_ARGUMENT says what is wrong with them.
Result<Tensor> ReadVariants(const Tensor& bytes, const Shape& shape, variant::Types* types, BufferPool* pool);

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_VARIANT_BYTES_H_
