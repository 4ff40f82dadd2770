/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: TensorFlow's DataType numbers, unchanged. A reference type is its base plus TENON_DT_REF. */
#ifndef TENON_DTYPE_H_
#define TENON_DTYPE_H_

#define TENON_DT_INVALID 0u
#define TENON_DT_FLOAT 1u
#define TENON_DT_DOUBLE 2u
#define TENON_DT_INT32 3u
#define TENON_DT_UINT8 4u
#define TENON_DT_INT16 5u
#define TENON_DT_INT8 6u
#define TENON_DT_STRING 7u    /* cells: tenon_string_cell */
#define TENON_DT_COMPLEX64 8u /* two floats: real, imaginary */
#define TENON_DT_INT64 9u
#define TENON_DT_BOOL 10u /* one byte, 0 or 1 */
#define TENON_DT_QINT8 11u
#define TENON_DT_QUINT8 12u
#define TENON_DT_QINT32 13u
#define TENON_DT_BFLOAT16 14u
#define TENON_DT_QINT16 15u
#define TENON_DT_QUINT16 16u
#define TENON_DT_UINT16 17u
#define TENON_DT_COMPLEX128 18u
#define TENON_DT_HALF 19u
#define TENON_DT_RESOURCE 20u /* cells: tenon_resource* */
#define TENON_DT_VARIANT 21u  /* cells: tenon_variant* */
#define TENON_DT_UINT32 22u
#define TENON_DT_UINT64 23u
#define TENON_DT_FLOAT8_E5M2 24u
#define TENON_DT_FLOAT8_E4M3FN 25u
#define TENON_DT_FLOAT8_E4M3FNUZ 26u
#define TENON_DT_FLOAT8_E4M3B11FNUZ 27u
#define TENON_DT_FLOAT8_E5M2FNUZ 28u
#define TENON_DT_INT4 29u  /* one byte each in memory, as the four below: TensorFlow's own */
#define TENON_DT_UINT4 30u
#define TENON_DT_INT2 31u
#define TENON_DT_UINT2 32u
#define TENON_DT_FLOAT4_E2M1FN 33u

/* Numbers that TensorFlow does not have. Packed: elements of 4 or 2 bits lie one behind the other from the lowest bits
 * of the first byte on, whatever the shape; bits behind the last element are 0, and a tensor of n elements takes (n *
 * bits + 7) / 8 bytes. Cast converts from and to the types of one byte. */
#define TENON_DT_PACKED_INT4 64u
#define TENON_DT_PACKED_UINT4 65u
#define TENON_DT_PACKED_INT2 66u
#define TENON_DT_PACKED_UINT2 67u
#define TENON_DT_PACKED_FLOAT4_E2M1FN 68u
#define TENON_DT_FLOAT8_E8M0FNU 69u /* one byte: 2^(byte - 127), 255 is NaN; scales of blocks */

/* Types of vendors: plain elements of `bytes` bytes (1 to 255), which the engine moves and only the vendor's kernels
 * understand. number: the vendor's, 0 to 65535; two vendors that choose the same must not meet in one graph. There are
 * no references to them. Name: "vendor<bytes>:<number>". */
#define TENON_DT_VENDOR_FLAG 0x40000000u
#define TENON_DT_VENDOR(bytes, number) (TENON_DT_VENDOR_FLAG | ((uint32_t)(bytes) << 16) | (uint32_t)(number))

#define TENON_DT_REF 100u

#endif /* TENON_DTYPE_H_ */
