// SPDX-License-Identifier: Apache-2.0
// A tensor as people read it, with dots where there are too many elements.
#ifndef TENON_OPS_STRING_SUMMARY_H_
#define TENON_OPS_STRING_SUMMARY_H_

#include "tenon/extras/kernel/texts.h"

namespace tenon::ops::string {

// kNested: in brackets, `most` elements from each end of each dim, texts in quotes. kFlat: the first `most` elements in
// all. most < 0: all.
enum class Style { kNested, kFlat };
void AppendSummary(const tenon_tensor_view& tensor, int64_t most, Style style, sdk::Texts* texts);

}  // namespace tenon::ops::string
#endif  // TENON_OPS_STRING_SUMMARY_H_
