// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two tensors.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/math.h"

namespace tenon::cpu {
namespace {

// Integer arithmetic wraps, as TensorFlow's does; signed overflow is undefined in C++, so it is done unsigned. Types
// narrower than int are promoted and need nothing.
template <class T, class Function>
inline T Wrapping(T x, T y, Function function) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    using Wider = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned>;
    return static_cast<T>(function(static_cast<Wider>(x), static_cast<Wider>(y)));
  } else {
    return function(x, y);
  }
}

struct AddOp {
  template <class T>
  T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a + b; });
  }
};
struct SubOp {
  template <class T>
  T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a - b; });
  }
};
struct MulOp {
  template <class T>
  T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return a * b; });
  }
};
struct SquaredDifferenceOp {
  template <class T>
  T operator()(T x, T y) const {
    return Wrapping(x, y, [](auto a, auto b) { return (a - b) * (a - b); });
  }
};
// A NaN on either side comes out.
struct MaximumOp {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T larger = x > y ? x : y;  // y when x is NaN
      return x != x ? x : larger;
    } else {
      return x > y ? x : y;
    }
  }
};
struct MinimumOp {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T smaller = x < y ? x : y;
      return x != x ? x : smaller;
    } else {
      return x < y ? x : y;
    }
  }
};

struct ByZero {
  static constexpr std::string_view kInvalidText = "Integer division by zero";
  template <class T>
  static bool Invalid(T y) {
    return y == 0;
  }
};
// Truncates; INT_MIN / -1 wraps.
template <class T>
inline T Truncated(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  }
  return static_cast<T>(x / y);
}
struct DivOp : ByZero {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return Truncated(x, y);
    } else {
      return x / y;
    }
  }
};
struct FloorDivOp : ByZero {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      const T quotient = Truncated(x, y);
      if constexpr (std::is_signed_v<T>) {
        return y != -1 && x % y != 0 && ((x < 0) != (y < 0)) ? static_cast<T>(quotient - 1) : quotient;
      } else {
        return quotient;
      }
    } else {
      return std::floor(x / y);
    }
  }
};
struct FloorModOp : ByZero {
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>) {
        if (y == -1) return 0;
        const T rest = static_cast<T>(x % y);
        return rest != 0 && ((rest < 0) != (y < 0)) ? static_cast<T>(rest + y) : rest;
      } else {
        return static_cast<T>(x % y);
      }
    } else {
      const T rest = std::fmod(x, y);
      return rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest;
    }
  }
};
struct DivNoNanOp {
  template <class T>
  T operator()(T x, T y) const {
    return y == 0 ? T(0) : x / y;
  }
};

struct PowOp {
  static constexpr bool kBlocked = true;
  static constexpr double kCost = 4;
  template <class T>
  T operator()(T x, T y) const {
    return math::Pow(x, y);
  }
};
struct IntegerPowOp {
  static constexpr double kCost = 4;
  static constexpr std::string_view kInvalidText = "Integers to negative integer powers are not allowed";
  template <class T>
  static bool Invalid(T y) {
    return y < 0;
  }
  template <class T>
  T operator()(T x, T y) const {
    using Wider = std::make_unsigned_t<std::conditional_t<(sizeof(T) < 4), int32_t, T>>;
    Wider base = static_cast<Wider>(x);
    Wider result = 1;
    for (Wider n = static_cast<Wider>(y); n != 0; n >>= 1) {
      if ((n & 1) != 0) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  }
};
// One op name, two op objects by kind of number.
struct AnyPowOp {
  static constexpr double kCost = 4;
  static constexpr std::string_view kInvalidText = IntegerPowOp::kInvalidText;
  template <class T>
  static bool Invalid(T y) {
    return y < 0;
  }
  template <class T>
  T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      return IntegerPowOp()(x, y);
    } else {
      return PowOp()(x, y);
    }
  }
};

using PowNumbers = Types<float, double, int32_t, int64_t, Half, Bfloat16>;

}  // namespace

TENON_CPU_KERNEL(Add) = CpuBinary<AddOp, Numbers>("Add");
TENON_CPU_KERNEL(AddV2) = CpuBinary<AddOp, Numbers>("AddV2");
TENON_CPU_KERNEL(Sub) = CpuBinary<SubOp, Numbers>("Sub");
TENON_CPU_KERNEL(Mul) = CpuBinary<MulOp, Numbers>("Mul");
TENON_CPU_KERNEL(Maximum) = CpuBinary<MaximumOp, Numbers>("Maximum");
TENON_CPU_KERNEL(Minimum) = CpuBinary<MinimumOp, Numbers>("Minimum");
TENON_CPU_KERNEL(SquaredDifference) = CpuBinary<SquaredDifferenceOp, PowNumbers>("SquaredDifference");
TENON_CPU_KERNEL(RealDiv) = CpuBinary<DivOp, PowNumbers>("RealDiv");
TENON_CPU_KERNEL(Div) = CpuBinary<DivOp, Numbers>("Div");
TENON_CPU_KERNEL(FloorDiv) = CpuBinary<FloorDivOp, Numbers>("FloorDiv");
TENON_CPU_KERNEL(FloorMod) = CpuBinary<FloorModOp, Numbers>("FloorMod");
TENON_CPU_KERNEL(DivNoNan) = CpuBinary<DivNoNanOp, Reals>("DivNoNan");
TENON_CPU_KERNEL(Pow) = CpuBinary<AnyPowOp, PowNumbers>("Pow");

}  // namespace tenon::cpu
