// SPDX-License-Identifier: Apache-2.0
// Substr, StringLength: in bytes or in characters of UTF-8.
#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/extras/kernel/step_memory.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"
#include "utf8.h"

namespace tenon::ops {
using namespace sdk;

namespace {

bool CountsCharacters(CreateContext& c) { return c.String("unit") == "UTF8_CHAR"; }

// A negative position counts from the end; fewer than `length` where the text ends. nullopt: the position is outside.
std::optional<std::string_view> BytesAt(std::string_view text, int64_t position, int64_t length) {
  const auto size = static_cast<int64_t>(text.size());
  if (position < -size || position > size) return std::nullopt;
  // A negative length is beyond any text.
  return text.substr(static_cast<size_t>(position < 0 ? position + size : position), static_cast<size_t>(length));
}

std::optional<std::string_view> CharactersAt(std::string_view text, int64_t position, int64_t length) {
  size_t begin = 0;
  if (position >= 0) {
    if (!string::StepForward(text, position, &begin)) return std::nullopt;
    size_t end = begin;
    string::StepForward(text, length, &end);
    return text.substr(begin, end - begin);
  }
  if (position == std::numeric_limits<int64_t>::min() || length < 0) return std::nullopt;
  // From the end, so that nobody counts the characters before.
  const int64_t behind = std::max<int64_t>(-position - length, 0);
  size_t end = text.size();
  if (!string::StepBack(text, behind, &end)) return std::nullopt;
  begin = end;
  if (!string::StepBack(text, -position - behind, &begin)) return std::nullopt;
  return text.substr(begin, end - begin);
}

struct Substr {
  explicit Substr(CreateContext& c) : characters(CountsCharacters(c)) {}
  void Run(RunContext c) const {
    const tenon_tensor_view &input = c.input_view(0), &positions = c.input_view(1);
    const Dims dims = DimsOf(input), other = DimsOf(positions), lengths = DimsOf(c.input_view(2));
    if (!std::equal(other.begin(), other.end(), lengths.begin(), lengths.end()))
      Fail(TENON_INVALID_ARGUMENT, "pos and len should have the same shape, got: ", other, " vs. ", lengths);
    const size_t rank = std::max(dims.size(), other.size());
    std::vector<int64_t> out(rank);
    const auto at = [rank](Dims of, size_t i) { return i < rank - of.size() ? 1 : of[i - (rank - of.size())]; };
    for (size_t i = 0; i < rank; ++i) {
      const int64_t x = at(dims, i), y = at(other, i);
      if (x != y && x != 1 && y != 1)
        Fail(TENON_INVALID_ARGUMENT, "texts of shape ", dims, " and positions of shape ", other,
             " do not broadcast against each other");
      out[i] = x == 1 ? y : x;
    }
    // Of element i of the result: the number of the text, and of the position.
    const auto broadcast = [&](int64_t i) {
      int64_t text = 0, place = 0, text_stride = 1, place_stride = 1;
      for (size_t d = rank; d-- > 0; i /= out[d]) {
        const int64_t index = i % out[d];
        if (at(dims, d) != 1) text += index * text_stride;
        if (at(other, d) != 1) place += index * place_stride;
        text_stride *= at(dims, d);
        place_stride *= at(other, d);
      }
      return std::pair(text, place);
    };
    const int64_t count = Count(out);
    // One position for all texts, or one for each.
    const bool alone = Count(positions) == 1 && Count(input) == count,
               alike = !alone && std::equal(dims.begin(), dims.end(), other.begin(), other.end());
    StepMemory memory(c);
    std::pmr::vector<std::string_view> parts(&memory);
    parts.reserve(static_cast<size_t>(count));
    CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i) {
      int64_t text = i, place = alike ? i : 0;
      if (!alone && !alike) std::tie(text, place) = broadcast(i);
      const std::string_view whole = StringAt(input, text);
      const int64_t position = NumberAt(positions, place), length = NumberAt(c.input_view(2), place);
      const auto part = characters ? CharactersAt(whole, position, length) : BytesAt(whole, position, length);
      if (!part.has_value())
        Fail(TENON_INVALID_ARGUMENT, "pos ", position, " out of range for string of ", whole.size(), " bytes at index ",
             i);
      parts.push_back(*part);
      poll(characters ? static_cast<int64_t>(whole.size()) + 10 : 10);
    }
    SetStrings(c, 0, out, parts);
  }
  static int64_t NumberAt(const tenon_tensor_view& view, int64_t i) {
    return view.dtype == TENON_DT_INT32 ? Data<const int32_t>(view)[i] : Data<const int64_t>(view)[i];
  }
  bool characters;
};

struct StringLength {
  explicit StringLength(CreateContext& c) : characters(CountsCharacters(c)) {}
  void Run(RunContext c) const {
    const tenon_tensor_view& texts = c.input_view(0);
    const int64_t count = Count(texts);
    int32_t* out = c.output<int32_t>(0);
    if (!characters) {
      const auto* cells = Data<const tenon_string_cell>(texts);
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(cells[i].size);
      return;
    }
    CancelPoll poll(c);
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = StringAt(texts, i);
      out[i] = static_cast<int32_t>(
          std::count_if(text.begin(), text.end(), [](char byte) { return !string::FollowsInCharacter(byte); }));
      poll(static_cast<int64_t>(text.size()) + 1);
    }
  }
  bool characters;
};

void SubstrShape(ShapeContext& c) {
  const Shape positions = c.Merge(c.Input(1), c.Input(2), "the shapes of pos and len");
  c.SetOutput(0, c.Broadcast(c.Input(0), positions));
}

}  // namespace

TENON_KERNEL(kSubstrKernel) = Registration<Substr>("Substr", {.dynamic_outputs = 1});
TENON_KERNEL(kStringLengthKernel) = Registration<StringLength>("StringLength", {});

TENON_OP(kSubstr) = DefineOp({
    .name = "Substr",
    .inputs = "input: string, pos: T, len: T",
    .outputs = "output: string",
    .attrs = "T: {int32, int64}; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    .doc = "The part of each text from pos on, at most len long; a negative pos counts from the end.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SubstrShape>,
});

TENON_OP(kStringLength) = DefineOp({
    .name = "StringLength",
    .inputs = "input: string",
    .outputs = "output: int32",
    .attrs = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    .doc = "How long each text is, in bytes or in characters of UTF-8.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
