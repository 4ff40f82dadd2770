// SPDX-License-Identifier: Apache-2.0
// TransferPrecision: how much of a float32 value goes from part to part (short_float.h).
#ifndef TENON_CORE_EXEC_EXCHANGE_TRANSFER_PRECISION_H_
#define TENON_CORE_EXEC_EXCHANGE_TRANSFER_PRECISION_H_

#include <cstdint>

namespace tenon::exec {

enum class TransferPrecision : uint32_t { kFull, kTruncated, kNearest };

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_TRANSFER_PRECISION_H_
