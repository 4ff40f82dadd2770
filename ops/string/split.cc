// SPDX-License-Identifier: Apache-2.0
// StringSplit, StringSplitV2: the parts of each text of a batch, as a sparse matrix.
#include <algorithm>
#include <cstring>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

bool IsSpace(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

// Calls each(part) for the parts between bytes of `delimiters`; without any, for each byte.
template <class Each>
void SplitAtBytes(std::string_view text, std::string_view delimiters, bool skip_empty, const Each& each) {
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) each(text.substr(i, 1));
    return;
  }
  if (text.empty()) return;  // not one empty part
  bool ends[256] = {};
  for (const char byte : delimiters) ends[static_cast<unsigned char>(byte)] = true;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = begin;
    while (end < text.size() && !ends[static_cast<unsigned char>(text[end])]) ++end;
    if (end != begin || !skip_empty) each(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

// As Python's str.split: at whitespace, runs of which are one, where the separator is empty. most: parts before the
// rest; negative: all.
template <class Each>
void SplitAtText(std::string_view text, std::string_view separator, int64_t most, const Each& each) {
  if (most == 0) return each(text);
  int64_t parts = 0;
  if (separator.empty()) {
    for (;;) {
      size_t begin = 0;
      while (begin < text.size() && IsSpace(text[begin])) ++begin;
      text.remove_prefix(begin);
      if (most > 0 && parts == most) return each(text);
      if (text.empty()) return;
      size_t end = 0;
      while (end < text.size() && !IsSpace(text[end])) ++end;
      each(text.substr(0, end));
      text.remove_prefix(end);
      ++parts;
    }
  }
  while ((most < 0 || parts < most) && text.size() >= separator.size()) {
    const auto* found = static_cast<const char*>(memmem(text.data(), text.size(), separator.data(), separator.size()));
    if (found == nullptr) break;
    const auto size = static_cast<size_t>(found - text.data());
    each(text.substr(0, size));
    text.remove_prefix(size + separator.size());
    ++parts;
  }
  each(text);
}

// split(text, each) for each text; the parts, where they stand, and the shape of the whole.
template <class Split>
void Give(const RunContext& c, const Split& split) {
  const tenon_tensor_view& input = c.input_view(0);
  const int64_t batch = Count(input);
  Texts texts(c);
  int64_t widest = 0;
  const auto for_each = [&](const auto& each) {
    for (int64_t row = 0; row < batch; ++row) {
      int64_t column = 0;
      split(StringAt(input, row), [&](std::string_view part) { each(row, column++, part); });
      texts.Poll(StringAt(input, row).size());
    }
  };
  for_each([&](int64_t, int64_t column, std::string_view part) {
    texts.Add(part);
    widest = std::max(widest, column + 1);
  });
  const int64_t index_dims[] = {texts.count(), 2}, value_dims[] = {texts.count()}, shape_dims[] = {2};
  c.AllocOutput(0, index_dims);
  texts.Give(1, value_dims);
  c.AllocOutput(2, shape_dims);
  auto* index = c.output<int64_t>(0);
  for_each([&](int64_t row, int64_t column, std::string_view) {
    *index++ = row;
    *index++ = column;
  });
  c.output<int64_t>(2)[0] = batch;
  c.output<int64_t>(2)[1] = widest;
}

struct StringSplit {
  explicit StringSplit(CreateContext& c) : skip_empty(c.Bool("skip_empty")) {}
  void Run(RunContext c) const {
    const std::string_view delimiters = StringAt(c.input_view(1), 0);
    Give(c, [&](std::string_view text, const auto& each) { SplitAtBytes(text, delimiters, skip_empty, each); });
  }
  bool skip_empty;
};

struct StringSplitV2 {
  explicit StringSplitV2(CreateContext& c) : most(c.Int("maxsplit")) {}
  void Run(RunContext c) const {
    const std::string_view separator = StringAt(c.input_view(1), 0);
    Give(c, [&](std::string_view text, const auto& each) { SplitAtText(text, separator, most, each); });
  }
  int64_t most;
};

void SplitShape(ShapeContext& c) {
  c.WithRank(0, 1);
  c.WithRank(1, 0);
  c.SetOutput(0, {kUnknown, 2});
  c.SetOutput(1, {kUnknown});
  c.SetOutput(2, {2});
}

constexpr Traits kGivesPieces = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kStringSplitKernel) = Registration<StringSplit>("StringSplit", kGivesPieces);
TENON_KERNEL(kStringSplitV2Kernel) = Registration<StringSplitV2>("StringSplitV2", kGivesPieces);

TENON_OP(kStringSplit) = DefineOp({
    .name = "StringSplit",
    .inputs = "input: string, delimiter: string",
    .outputs = "indices: int64, values: string, shape: int64",
    .attrs = "skip_empty: bool = true",
    .constraints = "rank(input) == 1; rank(delimiter) == 0",
    .doc = "Each text's parts between any of the delimiter's bytes, as the rows of a sparse matrix; its bytes where "
           "the delimiter is empty.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SplitShape>,
});

TENON_OP(kStringSplitV2) = DefineOp({
    .name = "StringSplitV2",
    .inputs = "input: string, sep: string",
    .outputs = "indices: int64, values: string, shape: int64",
    .attrs = "maxsplit: int = -1",
    .constraints = "rank(input) == 1; rank(sep) == 0",
    .doc = "Each text's parts between separators, as the rows of a sparse matrix; between spaces where the separator "
           "is empty. maxsplit: so often, and what is left is the last part.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SplitShape>,
});

}  // namespace tenon::ops
