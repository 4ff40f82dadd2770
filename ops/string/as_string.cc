// SPDX-License-Identifier: Apache-2.0
// AsString: numbers as C's printf writes them.
#include <complex>
#include <cstdio>

#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int64_t kMost = 65536;  // of width and precision: nobody reads more, and each element would be as long

bool IsReal(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
}
bool IsComplex(uint32_t dtype) { return dtype == TENON_DT_COMPLEX64 || dtype == TENON_DT_COMPLEX128; }

struct AsString {
  explicit AsString(CreateContext& c) : dtype(c.Type("T")) {
    const bool scientific = c.Bool("scientific"), shortest = c.Bool("shortest"),
               real = IsReal(dtype) || IsComplex(dtype), text = dtype == TENON_DT_STRING;
    width = c.Int("width");
    precision = c.Int("precision");
    const std::string_view fill = c.String("fill");
    if (!real && !text && (scientific || shortest))
      c.Invalid("scientific and shortest format not supported for datatype ", TypeName(dtype));
    if (!real && !text && precision >= 0) c.Invalid("precision not supported for datatype ", TypeName(dtype));
    if (fill.size() > 1) c.Invalid("Fill string must be one or fewer characters");
    if (scientific && shortest) c.Invalid("Cannot select both scientific and shortest notation");
    if (!fill.empty() && std::string_view(" +-0#").find(fill[0]) == std::string_view::npos)
      c.Invalid("Fill argument not supported: \"", fill, "\"");
    if (dtype == TENON_DT_VARIANT)
      c.Fail(TENON_UNIMPLEMENTED, "variants cannot be written as texts; take what they hold out of them first");
    if (width > kMost || precision > kMost)
      c.Fail(TENON_UNIMPLEMENTED, "a width of ", width, " and a precision of ", precision,
             ": numbers are written with ", kMost, " characters at most");
    to_the_left = fill == "-";
    format = '%';
    format += fill;
    if (width >= 0) format += std::to_string(width);
    if (precision >= 0) format += "." + std::to_string(precision);
    const bool is_unsigned =
        dtype == TENON_DT_UINT8 || dtype == TENON_DT_UINT16 || dtype == TENON_DT_UINT32 || dtype == TENON_DT_UINT64;
    format += real ? (shortest ? "g" : scientific ? "e" : "f") : is_unsigned ? "llu" : "lld";
  }

  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    const int64_t count = Count(input);
    Texts texts(c);
    if (dtype == TENON_DT_STRING) {
      for (int64_t i = 0; i < count; ++i) AddPadded(StringAt(input, i), &texts);
    } else if (dtype == TENON_DT_BOOL) {
      for (int64_t i = 0; i < count; ++i) texts.Add(c.input<bool>(0)[i] ? "true" : "false");
    } else {
      std::string memory;
      Numbers::AndComplex::Dispatch(dtype, [&]<class T>(Tag<T>) {
        for (int64_t i = 0; i < count; ++i) Write(c.input<T>(0)[i], &memory, &texts);
      });
    }
    texts.Give(0, DimsOf(input));
  }

 private:
  template <class T>
  void Write(const std::complex<T>& value, std::string* memory, Texts* texts) const {
    texts->Append("(");
    Append(static_cast<double>(value.real()), memory, texts);
    texts->Append(",");
    Append(static_cast<double>(value.imag()), memory, texts);
    texts->Append(")");
    texts->End();
  }
  template <class T>
  void Write(T value, std::string* memory, Texts* texts) const {
    if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>)
      Append(static_cast<unsigned long long>(value), memory, texts);
    else if constexpr (std::is_integral_v<T>) Append(static_cast<long long>(value), memory, texts);
    else Append(static_cast<double>(static_cast<float>(value)), memory, texts);
    texts->End();
  }
  void Write(double value, std::string* memory, Texts* texts) const {
    Append(value, memory, texts);
    texts->End();
  }
  template <class T>
  void Append(T value, std::string* memory, Texts* texts) const {
    char small[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"  // made above, of nothing but what it may have
    const int size = std::snprintf(small, sizeof(small), format.c_str(), value);
    if (size < 0) Fail(TENON_INTERNAL, "a number cannot be written as '", format, "'");
    if (static_cast<size_t>(size) < sizeof(small))
      return texts->Append(std::string_view(small, static_cast<size_t>(size)));
    memory->resize(static_cast<size_t>(size) + 1);
    std::snprintf(memory->data(), memory->size(), format.c_str(), value);
#pragma GCC diagnostic pop
    texts->Append(std::string_view(*memory).substr(0, static_cast<size_t>(size)));
  }
  // Texts are padded with spaces; cut only where they are.
  void AddPadded(std::string_view text, Texts* texts) const {
    if (width > 0 && precision >= 0) text = text.substr(0, static_cast<size_t>(precision));
    const size_t padding = width > static_cast<int64_t>(text.size()) ? static_cast<size_t>(width) - text.size() : 0;
    if (!to_the_left) texts->Append(padding, ' ');
    texts->Append(text);
    if (to_the_left) texts->Append(padding, ' ');
    texts->End();
  }
  uint32_t dtype;
  int64_t width = -1, precision = -1;
  bool to_the_left = false;
  std::string format;
};

}  // namespace

TENON_KERNEL(kAsStringKernel) = Registration<AsString>("AsString", {.dynamic_outputs = 1});

TENON_OP(kAsString) = DefineOp({
    .name = "AsString",
    .inputs = "input: T",
    .outputs = "output: string",
    .attrs = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, complex64, "
             "complex128, bool, variant, string}; precision: int = -1; "
             "scientific: bool = false; shortest: bool = false; width: int = -1; fill: string = ''",
    .doc = "Each element as a text: precision digits behind the point, at least width characters.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
