// SPDX-License-Identifier: Apache-2.0
// The entries of a table (tenon/bytes/table.h) that is in memory. Engines have their own reader, behind their ABI, with
// budgets, compression and lookups by key.
#ifndef TENON_MODEL_INDEX_TABLE_H_
#define TENON_MODEL_INDEX_TABLE_H_

#include <functional>
#include <string_view>

#include "tenon/model/base.h"

namespace tenon::model {

// Each entry in the file's order; what `take` says ends it when it is an error. The views live for the call alone.
Status ReadTable(std::string_view file,
                 const std::function<Status(std::string_view key, std::string_view value)>& take);

}  // namespace tenon::model

#endif  // TENON_MODEL_INDEX_TABLE_H_
