// SPDX-License-Identifier: Apache-2.0
// The entries of a table in LevelDB's file format, which the index of a checkpoint is. Engines have their own reader,
// behind their ABI.
#ifndef TENON_MODEL_INDEX_TABLE_H_
#define TENON_MODEL_INDEX_TABLE_H_

#include <functional>
#include <string_view>

#include "tenon/model/base.h"

namespace tenon::model {

// The last 8 bytes of such a file.
inline constexpr std::string_view kTableEnd = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
inline constexpr size_t kTableFooter = 48;

// Each entry in the file's order; what `take` says ends it when it is an error. The views live for the call alone.
Status ReadTable(std::string_view file,
                 const std::function<Status(std::string_view key, std::string_view value)>& take);

}  // namespace tenon::model

#endif  // TENON_MODEL_INDEX_TABLE_H_
