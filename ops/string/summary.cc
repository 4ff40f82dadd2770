// SPDX-License-Identifier: Apache-2.0
#include "summary.h"

#include <cstdio>
#include <cstdlib>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/number.h"

namespace tenon::ops::string {
using namespace sdk;

namespace {

// As few digits as tell the number from all others: a few, or else as many as always do.
template <class T>
void AppendReal(T value, int few, int enough, Texts* texts) {
  char digits[64];
  int size = std::snprintf(digits, sizeof(digits), "%.*g", few, static_cast<double>(value));
  const T again = std::is_same_v<T, float> ? static_cast<T>(std::strtof(digits, nullptr))
                                           : static_cast<T>(std::strtod(digits, nullptr));
  if (again != value && value == value)
    size = std::snprintf(digits, sizeof(digits), "%.*g", enough, static_cast<double>(value));
  if (value != value) return texts->Append("nan");
  texts->Append(std::string_view(digits, static_cast<size_t>(size)));
}

template <class T>
void AppendNumber(T value, Texts* texts) {
  if constexpr (std::is_same_v<T, double>) AppendReal(value, 15, 17, texts);
  else if constexpr (std::is_same_v<T, bool>) texts->Append(value ? "1" : "0");
  else if constexpr (std::is_integral_v<T>) texts->Append(std::to_string(value));
  else AppendReal(static_cast<float>(value), 6, 9, texts);
}

// As C writes a text; bytes of UTF-8 stay.
void AppendEscaped(std::string_view text, Texts* texts) {
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    switch (byte) {
      case '\n': texts->Append("\\n"); break;
      case '\r': texts->Append("\\r"); break;
      case '\t': texts->Append("\\t"); break;
      case '"': texts->Append("\\\""); break;
      case '\'': texts->Append("\\'"); break;
      case '\\': texts->Append("\\\\"); break;
      default:
        if (code >= 0x20 && code != 0x7f) {
          texts->Append(1, byte);
        } else {
          const char octal[] = {'\\', static_cast<char>('0' + (code >> 6)), static_cast<char>('0' + (code >> 3 & 7)),
                                static_cast<char>('0' + (code & 7))};
          texts->Append(std::string_view(octal, sizeof(octal)));
        }
    }
  }
}

struct Summary {
  void Element(int64_t i) const {
    if (tensor.dtype == TENON_DT_STRING) {
      if (style == Style::kNested) texts->Append("\"");
      AppendEscaped(StringAt(tensor, i), texts);
      if (style == Style::kNested) texts->Append("\"");
      return;
    }
    Numbers::And<bool>::Dispatch(tensor.dtype, [&]<class T>(Tag<T>) { AppendNumber(Data<const T>(tensor)[i], texts); });
  }
  void Space(size_t dim) const {
    const Dims dims = DimsOf(tensor);
    if (dim + 1 == dims.size()) return texts->Append(" ");
    texts->Append(dims.size() - dim - 1, '\n');
    texts->Append(dim + 1, ' ');
  }
  void Nested(size_t dim, int64_t first) const {
    const Dims dims = DimsOf(tensor);
    if (dim == dims.size()) return Element(first);
    const int64_t count = dims[dim], step = Count(dims.subspan(dim + 1)), head = std::min(most, count);
    texts->Append("[");
    for (int64_t i = 0; i < head; ++i) {
      if (i > 0) Space(dim);
      Nested(dim + 1, first + i * step);
    }
    if (count / 2 > most || (count / 2 == most && count % 2 == 1)) {
      Space(dim);
      texts->Append("...");
    }
    for (int64_t i = std::max(most, count - most); i < count; ++i) {
      Space(dim);
      Nested(dim + 1, first + i * step);
    }
    texts->Append("]");
  }
  // The brackets of dims but the outermost.
  void Flat(size_t dim, int64_t* next) const {
    const Dims dims = DimsOf(tensor);
    if (*next >= most) return;
    for (int64_t i = 0; i < dims[dim]; ++i) {
      if (dim + 1 < dims.size()) {
        if (*next >= most) return;
        texts->Append("[");
        Flat(dim + 1, next);
        texts->Append("]");
        continue;
      }
      if (*next >= most) {
        if (dim != 0) texts->Append("...");
        return;
      }
      if (i > 0) texts->Append(" ");
      Element((*next)++);
    }
  }
  const tenon_tensor_view& tensor;
  int64_t most;
  Style style;
  Texts* texts;
};

// Numbers but complex ones, truths, texts.
bool HasElements(uint32_t dtype) {
  return dtype == TENON_DT_STRING || dtype == TENON_DT_BOOL || DlType(dtype).code <= 2 || dtype == TENON_DT_BFLOAT16;
}

}  // namespace

void AppendSummary(const tenon_tensor_view& tensor, int64_t most, Style style, Texts* texts) {
  const int64_t count = Count(tensor), limit = most < 0 ? count : std::min(most, count);
  if (!HasElements(tensor.dtype)) {  // numbers of which nobody says how they are written
    const bool brackets = style == Style::kNested && tensor.dl.ndim > 0;
    if (brackets) texts->Append("[");
    for (int64_t i = 0; i < limit; ++i) texts->Append(i > 0 ? " ?" : "?");
    if (limit < count) texts->Append("...");
    if (brackets) texts->Append("]");
    return;
  }
  if (tensor.dtype == TENON_DT_BOOL && limit == 0) return;  // not even brackets, as TensorFlow has it
  const Summary summary{tensor, limit, style, texts};
  if (tensor.dl.ndim == 0) {
    if (limit > 0) summary.Element(0);
    else texts->Append("...");
    return;
  }
  if (style == Style::kNested) return summary.Nested(0, 0);
  int64_t next = 0;
  summary.Flat(0, &next);
  if (count > limit) texts->Append("...");
}

}  // namespace tenon::ops::string
