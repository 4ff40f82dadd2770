/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as they cross the ABI: a view that begins with DLPack's DLTensor.
 *
 * A view does not own. While a call lasts its pointers are valid; to keep the data longer, retain the buffer
 * (tenon_host.buffer_retain); a NULL buffer is memory of the step's plan and cannot be kept (copy it).
 * Data is row-major and contiguous. The host never gives a kernel strides, so that none has to look, and takes none
 * from a kernel; strides stand here for DLPack's sake. A kernel that can use them will say so with a trait of its own,
 * some day. Alignment is a property of the device; kernels may rely on 64 bytes for host tensors that the host
 * allocated, and must not for others: check TENON_VIEW_ALIGNED64. */
#ifndef TENON_TENSOR_H_
#define TENON_TENSOR_H_

#include "tenon/abi.h"
#include "tenon/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest rank of a tensor. */
#define TENON_MAX_RANK 254

/* Frozen value: DLDataType. */
typedef struct tenon_dl_data_type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} tenon_dl_data_type;

/* Frozen value: DLTensor, byte for byte (DLPack 0.6 to 1.1). */
typedef struct tenon_dl_tensor {
  void* data; /* address on its device, before byte_offset */
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  tenon_dl_data_type dtype;
  int64_t* shape;   /* [ndim] */
  int64_t* strides; /* [ndim] in elements; NULL: row-major contiguous */
  uint64_t byte_offset;
} tenon_dl_tensor;

#define TENON_VIEW_READ_ONLY 1u    /* not to be written */
#define TENON_VIEW_HOST_VISIBLE 2u /* the host may read data */
#define TENON_VIEW_ALIGNED64 4u    /* data + byte_offset is a multiple of 64 */
#define TENON_VIEW_DEAD 8u         /* no value: the branch was not taken */

/* Frozen value (its growth is the dtype's and the flags'). */
typedef struct tenon_tensor_view {
  tenon_dl_tensor dl;
  uint32_t dtype;       /* TENON_DT_*; with TENON_DT_REF the data is one tenon_resource* */
  uint32_t memory_kind; /* index into the device's memory kinds; 0 is the device's default */
  uint64_t byte_size;   /* of the elements; for strings, of the cells */
  uint32_t flags;       /* TENON_VIEW_* */
  uint32_t reserved;
  tenon_buffer* buffer; /* NULL: borrowed for the call or the step */
} tenon_tensor_view;

/* Frozen value: one element of a string tensor. The bytes stand at (address of the tensor's first cell) + offset. */
typedef struct tenon_string_cell {
  uint64_t offset;
  uint64_t size;
} tenon_string_cell;

/* A dim of a shape at or below it is unknown, but has a name: dims of one graph that have the same name are of one size
 * in every step. Names are given only to who says that it knows them (TENON_OPS_NAMED_DIMS), or asks for them. Nothing
 * is computed with them but by the host's own functions. */
#define TENON_DIM_NAMES (-(INT64_C(1) << 40))

/* Frozen value: a shape, perhaps partly unknown. rank -1: unknown rank; a dim of -1: unknown. */
typedef struct tenon_shape {
  const int64_t* dims; /* [rank] */
  int32_t rank;
  uint32_t reserved;
} tenon_shape;

typedef struct tenon_resource tenon_resource; /* opaque handle of the host: container, name, type */

/* Opaque, immutable value of the host: a type's name, bytes that only who knows the type reads, and elements, which are
 * tensors or empty places. One cell of a variant tensor is a tenon_variant*, NULL or one reference that the tensor's
 * buffer holds; such a tensor always lives in a buffer. Values that were made of one another share what did not change,
 * so that to append an element or to fill an empty place of the newest costs the same whatever the number of
 * elements. */
typedef struct tenon_variant tenon_variant;

/* Frozen value: what a variant is, valid as long as the variant. */
typedef struct tenon_variant_info {
  tenon_span type;     /* who understands it: "tenon.TensorList" */
  tenon_span metadata; /* any bytes */
  uint64_t element_count;
} tenon_variant_info;

#ifdef __cplusplus
}
#endif
#endif /* TENON_TENSOR_H_ */
