// SPDX-License-Identifier: Apache-2.0
// Serialized Summary messages, of one value or a few: what the ops of summaries give, and what those of event files
// write. Failures are thrown, as in kernel.h.
#ifndef TENON_OPS_SUMMARY_ENCODE_H_
#define TENON_OPS_SUMMARY_ENCODE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

// number: a scalar.
std::string EncodeScalar(const sdk::RunContext& c, std::string_view tag, const tenon_tensor_view& number);
// values: finite, in any shape.
std::string EncodeHistogram(const sdk::RunContext& c, std::string_view tag, const tenon_tensor_view& values);
// batch: [batch, height, width, 1, 3 or 4], of which the first `most` are encoded.
std::string EncodeImages(const sdk::RunContext& c, std::string_view tag, const tenon_tensor_view& batch, int64_t most,
                         std::span<const uint8_t> bad_color);
// sounds: floats [batch, frames] or [batch, frames, channels], of which the first `most` are encoded; rate: frames a
// second.
std::string EncodeSounds(const sdk::RunContext& c, std::string_view tag, const tenon_tensor_view& sounds, float rate,
                         int64_t most);
// metadata: a serialized SummaryMetadata.
std::string EncodeTensor(std::string_view tag, const tenon_tensor_view& tensor, std::string_view metadata);
// INVALID_ARGUMENT: the bytes are no message at all.
void CheckMessage(std::string_view bytes, const char* what);

}  // namespace tenon::ops

#endif  // TENON_OPS_SUMMARY_ENCODE_H_
