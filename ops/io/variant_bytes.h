// SPDX-License-Identifier: Apache-2.0
// Variants as bytes: TensorFlow's VariantTensorDataProto, with elements of plain types, strings and variants.
#ifndef TENON_OPS_IO_VARIANT_BYTES_H_
#define TENON_OPS_IO_VARIANT_BYTES_H_

#include <memory_resource>
#include <string>
#include <string_view>

#include "budget.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::io {

// UNIMPLEMENTED, thrown: a variant that holds an object, or an empty cell or place, which are nothing outside of their
// process. name: the tensor's, for messages.
std::pmr::string EncodeVariant(const sdk::RunContext& c, std::string_view name, const tenon_variant* variant,
                               const Budget& budget);

// A variant with one reference. DATA_LOSS, thrown: these are not its bytes.
tenon_variant* DecodeVariant(const sdk::RunContext& c, std::string_view name, std::string_view bytes,
                             const Budget& budget);

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_VARIANT_BYTES_H_
