// SPDX-License-Identifier: Apache-2.0
// The elements that are cast by their numbers: quantized ones are the integers that stand for them, as in TensorFlow.
#ifndef TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_CAST_TYPES_H_
#define TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_CAST_TYPES_H_

#include <cstdint>

#include "kernels/common/types.h"

namespace tenon::cpu {

using CastTypes = Numbers::And<bool>::AndComplex;

constexpr uint32_t PlainOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_QINT8: return TENON_DT_INT8;
    case TENON_DT_QUINT8: return TENON_DT_UINT8;
    case TENON_DT_QINT16: return TENON_DT_INT16;
    case TENON_DT_QUINT16: return TENON_DT_UINT16;
    case TENON_DT_QINT32: return TENON_DT_INT32;
    default: return dtype;
  }
}

// Attribute kAttr is one of CastTypes, or quantized, or one of kMore.
template <sdk::FixedString kAttr, uint32_t... kMore>
using CastConstraint =
    sdk::Allowed<kAttr, TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_HALF,
                 TENON_DT_BFLOAT16, TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32,
                 TENON_DT_UINT64, TENON_DT_BOOL, TENON_DT_COMPLEX64, TENON_DT_COMPLEX128, TENON_DT_QINT8,
                 TENON_DT_QUINT8, TENON_DT_QINT16, TENON_DT_QUINT16, TENON_DT_QINT32, kMore...>;

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_CAST_TYPES_H_
