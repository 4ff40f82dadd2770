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
#define TENON_DT_INT4 29u  /* one byte each in memory, as the three below */
#define TENON_DT_UINT4 30u
#define TENON_DT_INT2 31u
#define TENON_DT_UINT2 32u
#define TENON_DT_FLOAT4_E2M1FN 33u

#define TENON_DT_REF 100u

#endif /* TENON_DTYPE_H_ */
