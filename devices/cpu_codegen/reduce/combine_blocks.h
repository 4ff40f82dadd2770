// SPDX-License-Identifier: Apache-2.0
// What blocks' values become together, as devices/cpu's kernels do it: sums of blocks of floats are added in double.
#ifndef TENON_DEVICES_CPU_CODEGEN_REDUCE_COMBINE_BLOCKS_H_
#define TENON_DEVICES_CPU_CODEGEN_REDUCE_COMBINE_BLOCKS_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "code/program.h"
#include "tenon/dtype.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::cpu_codegen {

// kFunction: kSum, kProd, kMax or kMin. Of integers sums and products wrap.
template <Function kFunction, class T>
T Combined(T total, T next) {
  const auto wrapped = [](auto value) { return static_cast<std::make_unsigned_t<decltype(value)>>(value); };
  if constexpr (kFunction == Function::kMax) return total != total ? total : total > next ? total : next;  // NaN wins
  else if constexpr (kFunction == Function::kMin) return total != total ? total : total < next ? total : next;
  else if constexpr (kFunction == Function::kProd && std::is_integral_v<T>)
    return static_cast<T>(wrapped(total) * wrapped(next));
  else if constexpr (kFunction == Function::kProd) return total * next;
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(wrapped(total) + wrapped(next));
  else return total + next;
}
// What changes nothing.
template <Function kFunction, class T>
T Neutral() {
  using Limits = std::numeric_limits<T>;
  switch (kFunction) {
    case Function::kProd: return T(1);
    case Function::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Function::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default: return T(0);
  }
}

// What blocks of a type are added in.
template <Function kFunction, class Block>
using TotalOf = std::conditional_t<kFunction == Function::kSum && std::is_same_v<Block, float>, double, Block>;

// divisor: of a mean; else 0.
template <class T, class Total>
T Finished(Total total, int64_t divisor) {
  const Total result = divisor == 0 ? total : static_cast<Total>(total / static_cast<Total>(divisor));
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(result);
  else return T(static_cast<float>(result));
}

// act<kFunction, T, Block>(): of a reduction whose result has the type T, and its blocks the type Block.
template <class T, class Block, class Act>
void ForFunction(Function function, const Act& act) {
  switch (function) {
    case Function::kProd: return act.template operator()<Function::kProd, T, Block>();
    case Function::kMax: return act.template operator()<Function::kMax, T, Block>();
    case Function::kMin: return act.template operator()<Function::kMin, T, Block>();
    default: return act.template operator()<Function::kSum, T, Block>();
  }
}
template <class Act>
void ForReduction(Function function, uint32_t dtype, const Act& act) {
  switch (dtype) {
    case TENON_DT_FLOAT: return ForFunction<float, float>(function, act);
    case TENON_DT_DOUBLE: return ForFunction<double, double>(function, act);
    case TENON_DT_HALF: return ForFunction<sdk::Half, float>(function, act);
    case TENON_DT_BFLOAT16: return ForFunction<sdk::Bfloat16, float>(function, act);
    case TENON_DT_INT32: return ForFunction<int32_t, int32_t>(function, act);
    default: return ForFunction<int64_t, int64_t>(function, act);
  }
}
// The type of blocks.
inline uint32_t BlockType(uint32_t dtype) {
  return dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16 ? static_cast<uint32_t>(TENON_DT_FLOAT) : dtype;
}

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REDUCE_COMBINE_BLOCKS_H_
