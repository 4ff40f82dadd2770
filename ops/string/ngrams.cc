// SPDX-License-Identifier: Apache-2.0
// StringNGrams: neighbouring texts of each row joined, so and so many at a time.
#include <algorithm>
#include <limits>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct NGrams {
  explicit NGrams(CreateContext& c)
      : separator(c.String("separator")),
        left_pad(c.String("left_pad")),
        right_pad(c.String("right_pad")),
        pad_width(c.Int("pad_width")),
        widths(c.Ints("ngram_widths")),
        keep_short(c.Bool("preserve_short_sequences")) {}

  void Run(RunContext c) const {
    const tenon_tensor_view &data = c.input_view(0), &splits = c.input_view(1);
    const int64_t count = Count(data), rows = Count(splits) - 1;
    for (const int64_t width : widths)
      if (width <= 0) Fail(TENON_INVALID_ARGUMENT, "ngram_widths must contain positive values; one is ", width);
    for (int64_t i = 0; i <= rows; ++i) {
      const int64_t split = SplitAt(splits, i), before = i == 0 ? 0 : SplitAt(splits, i - 1);
      if (i == 0 && split != 0) Fail(TENON_INVALID_ARGUMENT, "First split value must be 0, got ", split);
      if (split < before || split > count)
        Fail(TENON_INVALID_ARGUMENT, "Invalid split value ", split, ", must be in [", before, ", ", count, "]");
      if (i == rows && split != count)
        Fail(TENON_INVALID_ARGUMENT, "Last split value must be data size. Expected ", count, ", got ", split);
    }
    c.AllocOutput(1, DimsOf(splits));
    Texts texts(c);
    if (rows >= 0) PutSplit(c, 0, 0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = SplitAt(splits, row), length = SplitAt(splits, row + 1) - first, before = texts.count();
      if (count > 0) {
        for (const int64_t width : widths) Append(data, first, length, width, NumberOf(length, width), &texts);
        if (keep_short && length > 0 && texts.count() == before) AppendWhole(data, first, length, &texts);
      }
      PutSplit(c, row + 1, texts.count());
    }
    const int64_t dims[] = {texts.count()};
    texts.Give(0, dims);
  }

 private:
  static int64_t SplitAt(const tenon_tensor_view& splits, int64_t i) {
    return splits.dtype == TENON_DT_INT32 ? Data<const int32_t>(splits)[i] : Data<const int64_t>(splits)[i];
  }
  static void PutSplit(const RunContext& c, int64_t i, int64_t split) {
    if (c.input_view(1).dtype == TENON_DT_INT64) {
      c.output<int64_t>(1)[i] = split;
      return;
    }
    if (split > std::numeric_limits<int32_t>::max())
      Fail(TENON_INVALID_ARGUMENT, "there are more ngrams than int32 splits can count");
    c.output<int32_t>(1)[i] = static_cast<int32_t>(split);
  }

  // An ngram of padding alone is none.
  int64_t PadOf(int64_t width) const { return pad_width < 0 ? width - 1 : std::min(pad_width, width - 1); }
  int64_t NumberOf(int64_t length, int64_t width) const {
    const int64_t pad = PadOf(width);
    if (pad > std::numeric_limits<int32_t>::max() / 2 - length)
      Fail(TENON_INVALID_ARGUMENT, "Pad width could lead to integer overflow, got pad_width = ", pad);
    return std::max<int64_t>(0, length + 2 * pad - width + 1);
  }
  void Append(const tenon_tensor_view& data, int64_t first, int64_t length, int64_t width, int64_t number,
              Texts* texts) const {
    const int64_t pad = PadOf(width);
    for (int64_t i = 0; i < number; ++i) {
      const int64_t left = std::max<int64_t>(0, pad - i), right = std::max<int64_t>(0, pad - (number - (i + 1)));
      const int64_t begin = left > 0 ? 0 : i - pad, tokens = std::min(width - left - right, length - begin);
      for (int64_t k = 0; k < left; ++k) {
        texts->Append(left_pad);
        texts->Append(separator);
      }
      for (int64_t k = 0; k < tokens; ++k) {
        if (k > 0) texts->Append(separator);
        texts->Append(StringAt(data, first + begin + k));
      }
      for (int64_t k = 0; k < right; ++k) {
        if (k > 0 || tokens > 0) texts->Append(separator);
        texts->Append(right_pad);
      }
      if (tokens <= 0 && right <= 0) texts->Append(right_pad);
      texts->End();
    }
  }
  // A row that is too short for any width, with all of its padding.
  void AppendWhole(const tenon_tensor_view& data, int64_t first, int64_t length, Texts* texts) const {
    if (pad_width < 0)
      Fail(TENON_INVALID_ARGUMENT,
           "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are not provided, got ",
           pad_width);
    if (pad_width > std::numeric_limits<int32_t>::max() / 2 - length)
      Fail(TENON_INVALID_ARGUMENT, "Pad width could lead to integer overflow, got pad_width = ", pad_width);
    Append(data, first, length, length + 2 * pad_width, 1, texts);
  }
  std::string separator, left_pad, right_pad;
  int64_t pad_width;
  std::vector<int64_t> widths;
  bool keep_short;
};

void NGramsShape(ShapeContext& c) {
  c.WithRank(0, 1);
  const Shape splits = c.WithRank(1, 1);
  c.SetOutput(0, {kUnknown});
  c.SetOutput(1, splits);
}

}  // namespace

TENON_KERNEL(kStringNGramsKernel) = Registration<NGrams>("StringNGrams", {.dynamic_outputs = TENON_DYNAMIC_ALL});

TENON_OP(kStringNGrams) = DefineOp({
    .name = "StringNGrams",
    .inputs = "data: string, data_splits: Tsplits",
    .outputs = "ngrams: string, ngrams_splits: Tsplits",
    .attrs = "separator: string; ngram_widths: list(int); left_pad: string; right_pad: string; pad_width: int; "
             "preserve_short_sequences: bool; Tsplits: {int32, int64} = int64",
    .constraints = "rank(data) == 1; rank(data_splits) == 1",
    .doc = "Of each row of texts those of each width that stand beside one another, joined; pad_width pads before the "
           "row and behind it, -1: as many as there can be.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<NGramsShape>,
});

}  // namespace tenon::ops
