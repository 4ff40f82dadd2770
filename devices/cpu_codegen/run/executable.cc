// SPDX-License-Identifier: Apache-2.0
#include "run/executable.h"

#include "reduce/reduce_all.h"
#include "reduce/reduce_columns.h"
#include "reduce/reduce_rows.h"
#include "region/region.h"
#include "run/elements.h"

namespace tenon::cpu_codegen {

std::unique_ptr<Executable> Executable::Make(const tenon_compile_args& args, Level level, int64_t least) {
  Region region = ReadRegion(args, level, least);
  if (region.update.has_value()) {
    if (region.leading > 0 || region.reduced > 0) sdk::Fail(TENON_UNIMPLEMENTED, "a region that reduces and updates");
    return ElementExecutable::Make(std::move(region));
  }
  const bool moves = !region.parts.empty() || region.has_targets();
  if (moves && (region.leading > 0 || region.is_whole))
    sdk::Fail(TENON_UNIMPLEMENTED, "parts in a region that reduces columns, or all");
  if (region.leading > 0) return ColumnExecutable::Make(std::move(region));
  if (region.reduced == 0) return ElementExecutable::Make(std::move(region));
  return region.is_whole ? WholeExecutable::Make(std::move(region)) : RowExecutable::Make(std::move(region));
}

}  // namespace tenon::cpu_codegen
