// SPDX-License-Identifier: Apache-2.0
// Cast from and to elements of at most a byte that are no numbers of C++: integers of 4 and 2 bits, four-bit floats,
// eight-bit floats, scales of eight bits; of one byte each, as TensorFlow has them, or packed (tenon/dtype.h). The
// numbers are ml_dtypes': integers keep their low bits; floats go to the nearest, halves to even; scales to the nearest
// power of two, halves up. What is larger than all eight-bit floats is infinity, or NaN where there is none.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/cast_types.h"

namespace tenon::cpu {
namespace {

enum class Kind { kSigned, kUnsigned, kFloat4, kFloat8, kScale };

struct Form {
  uint32_t dtype;
  Kind kind;
  uint32_t bits;  // that count
  bool packed;
  int mantissa = 0, bias = 0;  // of an eight-bit float
  uint8_t infinity = 0;        // its code; 0: it has none
  uint8_t nan = 0;
};
constexpr Form kForms[] = {
    {TENON_DT_INT4, Kind::kSigned, 4, false},
    {TENON_DT_UINT4, Kind::kUnsigned, 4, false},
    {TENON_DT_INT2, Kind::kSigned, 2, false},
    {TENON_DT_UINT2, Kind::kUnsigned, 2, false},
    {TENON_DT_FLOAT4_E2M1FN, Kind::kFloat4, 4, false},
    {TENON_DT_FLOAT8_E8M0FNU, Kind::kScale, 8, false},
    {TENON_DT_FLOAT8_E5M2, Kind::kFloat8, 8, false, 2, 15, 0x7c, 0x7e},
    {TENON_DT_FLOAT8_E4M3FN, Kind::kFloat8, 8, false, 3, 7, 0, 0x7f},
    {TENON_DT_PACKED_INT4, Kind::kSigned, 4, true},
    {TENON_DT_PACKED_UINT4, Kind::kUnsigned, 4, true},
    {TENON_DT_PACKED_INT2, Kind::kSigned, 2, true},
    {TENON_DT_PACKED_UINT2, Kind::kUnsigned, 2, true},
    {TENON_DT_PACKED_FLOAT4_E2M1FN, Kind::kFloat4, 4, true},
};

const Form* FormOf(uint32_t dtype) {
  for (const Form& form : kForms)
    if (form.dtype == dtype) return &form;
  return nullptr;
}

constexpr float kFloat4Values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float DecodeFloat8(const Form& form, uint8_t code) {
  const int size = code & 127, exponent = size >> form.mantissa, fraction = size & ((1 << form.mantissa) - 1);
  float value = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + (1 << form.mantissa)),
                           std::max(exponent, 1) - form.bias - form.mantissa);
  if (form.infinity != 0 && size >= form.infinity)
    value = size == form.infinity ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  if (form.infinity == 0 && size == form.nan) value = std::numeric_limits<float>::quiet_NaN();
  return code > 127 ? -value : value;
}

float Decode(const Form& form, uint8_t code) {
  const auto low = static_cast<int>(code & ((1u << form.bits) - 1));
  switch (form.kind) {
    case Kind::kSigned: return static_cast<float>(low >= 1 << (form.bits - 1) ? low - (1 << form.bits) : low);
    case Kind::kUnsigned: return static_cast<float>(low);
    case Kind::kFloat4: return low >= 8 ? -kFloat4Values[low - 8] : kFloat4Values[low];
    case Kind::kFloat8: return DecodeFloat8(form, code);
    case Kind::kScale: return code == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, low - 127);
  }
  return 0;
}

// To the nearest, halves to even codes; beyond the largest to it.
uint8_t EncodeFloat4(double x) {
  if (std::isnan(x)) return 8;
  const double size = std::abs(x);
  uint8_t code = 7;
  for (uint8_t i = 0; i < 7; ++i) {
    const double middle = (static_cast<double>(kFloat4Values[i]) + static_cast<double>(kFloat4Values[i + 1])) / 2;
    if (size < middle || (size == middle && i % 2 == 0)) {
      code = i;
      break;
    }
  }
  return std::signbit(x) ? code | 8 : code;
}

// From the bits of the number, so that it is rounded once.
template <class Float>
uint8_t EncodeFloat8(const Form& form, Float x) {
  using Bits = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;
  constexpr int kMantissa = std::numeric_limits<Float>::digits - 1,
                kBias = std::numeric_limits<Float>::max_exponent - 1;
  const Bits all = std::bit_cast<Bits>(x), bits = all << 1 >> 1;
  const auto sign = static_cast<uint8_t>(all >> (8 * sizeof(Float) - 8) & 128);
  const int exponent = static_cast<int>(bits >> kMantissa) - kBias, least = 1 - form.bias;
  if (x != x) return sign | form.nan;
  const int shift = kMantissa - form.mantissa + std::max(least - exponent, 0);
  if (exponent == -kBias || shift > kMantissa + 1) return sign;  // less than half the least
  const Bits number = (bits & ((Bits{1} << kMantissa) - 1)) | Bits{1} << kMantissa,
             rest = number & ((Bits{1} << shift) - 1), half = Bits{1} << (shift - 1);
  const Bits kept = number >> shift;
  const int64_t code = static_cast<int64_t>(kept + (rest > half || (rest == half && kept % 2 != 0) ? 1 : 0)) +
                       (int64_t{std::max(exponent - least, 0)} << form.mantissa);
  const uint8_t beyond = form.infinity != 0 ? form.infinity : form.nan;
  return sign | (code >= beyond ? beyond : static_cast<uint8_t>(code));
}
uint8_t EncodeFloat8(const Form& form, Half x) {
  // A half's upper byte is such a float: of a NaN it stays.
  const auto value = static_cast<float>(x);
  if (value != value && form.infinity != 0) return static_cast<uint8_t>(x.bits >> 8 | 2);
  return EncodeFloat8(form, value);
}
uint8_t EncodeFloat8(const Form& form, Bfloat16 x) { return EncodeFloat8(form, static_cast<float>(x)); }

uint8_t EncodeScale(double x) {
  if (!(x > 0) || std::isinf(x)) return 255;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // x = fraction * 2^exponent, 0.5 <= fraction < 1
  const int code = exponent - 1 + (fraction >= 0.75 ? 1 : 0) + 127;
  return code > 254 ? 255 : static_cast<uint8_t>(code < 0 ? 0 : code);
}

uint8_t Encode(const Form& form, int64_t x) {
  if (form.kind == Kind::kFloat4) return EncodeFloat4(static_cast<double>(x));
  if (form.kind == Kind::kFloat8) return EncodeFloat8(form, static_cast<double>(x));
  if (form.kind == Kind::kScale) return EncodeScale(static_cast<double>(x));
  return static_cast<uint8_t>(static_cast<uint64_t>(x) & ((1u << form.bits) - 1));
}
uint8_t Encode(const Form& form, double x) {
  if (form.kind == Kind::kFloat4) return EncodeFloat4(x);
  if (form.kind == Kind::kFloat8) return EncodeFloat8(form, x);
  if (form.kind == Kind::kScale) return EncodeScale(x);
  constexpr double kExact = 9e18;
  return Encode(form, std::abs(x) < kExact ? static_cast<int64_t>(x) : int64_t{0});  // of NaN too
}

// What stands at element i.
uint8_t CodeAt(const Form& form, const uint8_t* data, int64_t i) {
  if (!form.packed) return data[i];
  const int64_t bit = i * form.bits;
  return static_cast<uint8_t>(data[bit / 8] >> (bit % 8));
}

struct CastSmallKernel {
  struct Plan {
    Plan(const CastSmallKernel&, sdk::PrepareContext& c)
        : count(sdk::Count(c.input(0))), from(FormOf(c.input(0).dtype)), to(FormOf(c.output(0).dtype)) {
      for (size_t code = 0; from != nullptr && code < values.size(); ++code)
        values[code] = Decode(*from, static_cast<uint8_t>(code));
      if (from != nullptr && to != nullptr) function = &Between;
      else if (from != nullptr)
        CastTypes::Dispatch(PlainOf(c.output(0).dtype), [&]<class To>(Tag<To>) { function = &Read<To>; });
      else Numbers::Dispatch(PlainOf(c.input(0).dtype), [&]<class From>(Tag<From>) { function = &Write<From>; });
    }
    int64_t count;
    const Form *from, *to;
    std::array<float, 256> values{};  // of a code of `from`
    void (*function)(const Plan&, sdk::RunContext) = nullptr;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class To>
  static void Read(const Plan& plan, sdk::RunContext c) {
    const auto* x = c.input<uint8_t>(0);
    To* out = c.output<To>(0);
    c.ParallelFor(plan.count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = Convert<To>(plan.values[CodeAt(*plan.from, x, i)]);
    });
  }
  template <class From>
  static void Write(const Plan& plan, sdk::RunContext c) {
    const From* x = c.input<From>(0);
    Fill(plan, c, [x, &plan](int64_t i) {
      if constexpr (kIsReal<From>) {
        if (plan.to->kind == Kind::kFloat8) return EncodeFloat8(*plan.to, x[i]);
      }
      if constexpr (std::is_integral_v<From>) return Encode(*plan.to, static_cast<int64_t>(x[i]));
      else return Encode(*plan.to, Convert<double>(x[i]));
    });
  }
  static void Between(const Plan& plan, sdk::RunContext c) {
    const auto* x = c.input<uint8_t>(0);
    Fill(plan, c, [x, &plan](int64_t i) {
      return Encode(*plan.to, static_cast<double>(plan.values[CodeAt(*plan.from, x, i)]));
    });
  }

  // Shares are of whole bytes: no two threads write one.
  template <class CodeOf>
  static void Fill(const Plan& plan, sdk::RunContext c, const CodeOf& code_of) {
    auto* out = c.output<uint8_t>(0);
    const int64_t in_byte = plan.to->packed ? 8 / static_cast<int64_t>(plan.to->bits) : 1;
    c.ParallelFor((plan.count + in_byte - 1) / in_byte, 3.0 * static_cast<double>(in_byte),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t byte = begin; byte < end; ++byte) {
                      uint32_t bits = 0;
                      for (int64_t k = 0, i = byte * in_byte; k < in_byte && i < plan.count; ++k, ++i)
                        bits |= static_cast<uint32_t>(code_of(i)) << (static_cast<uint32_t>(k) * plan.to->bits);
                      out[byte] = static_cast<uint8_t>(bits);
                    }
                  });
  }
};

#define TENON_CPU_SMALL                                                                                       \
  TENON_DT_INT4, TENON_DT_UINT4, TENON_DT_INT2, TENON_DT_UINT2, TENON_DT_FLOAT4_E2M1FN, TENON_DT_FLOAT8_E5M2, \
      TENON_DT_FLOAT8_E4M3FN, TENON_DT_FLOAT8_E8M0FNU, TENON_DT_PACKED_INT4, TENON_DT_PACKED_UINT4,           \
      TENON_DT_PACKED_INT2, TENON_DT_PACKED_UINT2, TENON_DT_PACKED_FLOAT4_E2M1FN
template <sdk::FixedString kAttr>
using Small = sdk::Allowed<kAttr, TENON_CPU_SMALL>;
template <sdk::FixedString kAttr>
using SmallOrNumber = CastConstraint<kAttr, TENON_CPU_SMALL>;
#undef TENON_CPU_SMALL
template <sdk::FixedString kAttr>
using Number =
    sdk::Allowed<kAttr, TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_HALF,
                 TENON_DT_BFLOAT16, TENON_DT_UINT8, TENON_DT_INT8, TENON_DT_INT16, TENON_DT_UINT16, TENON_DT_UINT32,
                 TENON_DT_UINT64, TENON_DT_QINT8, TENON_DT_QUINT8, TENON_DT_QINT16, TENON_DT_QUINT16, TENON_DT_QINT32>;

}  // namespace

TENON_CPU_KERNEL(CastFromSmall) =
    CpuKernel<CastSmallKernel>("Cast", {.constraints = sdk::Constraints<Small<"SrcT">, SmallOrNumber<"DstT">>::list});
TENON_CPU_KERNEL(CastToSmall) =
    CpuKernel<CastSmallKernel>("Cast", {.constraints = sdk::Constraints<Number<"SrcT">, Small<"DstT">>::list});

}  // namespace tenon::cpu
