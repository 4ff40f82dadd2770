// SPDX-License-Identifier: Apache-2.0
// UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode, UnicodeTranscode, UnicodeScript: texts of any encoding that
// ICU knows as code points, and code points as UTF-8, UTF-16 and UTF-32.
#include <unicode/ucnv.h>
#include <unicode/uscript.h>

#include <limits>
#include <memory>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr int32_t kLast = 0x10ffff;
bool IsSurrogate(int32_t point) { return point >= 0xd800 && point < 0xe000; }

// What becomes of what is no character.
struct Policy {
  explicit Policy(CreateContext& c) : strict(c.String("errors") == "strict"), left_out(c.String("errors") == "ignore") {
    const int64_t point = c.Int("replacement_char");
    if (point < 0 || point > kLast) c.Invalid("replacement_char out of unicode codepoint range: ", point);
    replacement = static_cast<int32_t>(point);
    if (c.Has("replace_control_characters")) control_too = c.Bool("replace_control_characters");
  }
  bool strict, left_out, control_too = false;
  int32_t replacement = 0;
};

// ---- Out of an encoding ----

struct CloseConverter {
  void operator()(UConverter* converter) const { ucnv_close(converter); }
};

// For one thread at a time.
class Decoder {
 public:
  explicit Decoder(const std::string& encoding) {
    UErrorCode error = U_ZERO_ERROR;
    converter_.reset(ucnv_open(encoding.c_str(), &error));
    if (U_FAILURE(error) || converter_ == nullptr) return;
    ucnv_setToUCallBack(converter_.get(), Malformed, &malformed_, nullptr, nullptr, &error);
    ok_ = U_SUCCESS(error);
  }
  Decoder(const Decoder&) = delete;
  bool ok() const { return ok_; }
  // Calls each(code point, bytes that it has, whether they are none) for one after the other.
  template <class Each>
  void ForEach(std::string_view text, const Each& each) {
    ucnv_reset(converter_.get());
    const char *at = text.data(), *const end = at + text.size();
    while (at < end) {
      const char* const before = at;
      malformed_ = false;
      UErrorCode error = U_ZERO_ERROR;
      const UChar32 point = ucnv_getNextUChar(converter_.get(), &at, end, &error);
      if (error == U_INDEX_OUTOFBOUNDS_ERROR) return;  // nothing more than a mark of the order of bytes
      if (U_FAILURE(error)) at = end;
      each(point, at - before, malformed_);
    }
  }

 private:
  static void Malformed(const void* context, UConverterToUnicodeArgs* arguments, const char* units, int32_t length,
                        UConverterCallbackReason reason, UErrorCode* error) {
    if (reason == UCNV_UNASSIGNED || reason == UCNV_ILLEGAL || reason == UCNV_IRREGULAR)
      *static_cast<bool*>(const_cast<void*>(context)) = true;
    UCNV_TO_U_CALLBACK_SUBSTITUTE(nullptr, arguments, units, length, reason, error);
  }
  std::unique_ptr<UConverter, CloseConverter> converter_;
  bool malformed_ = false, ok_ = false;
};

void CheckEncoding(CreateContext& c, const std::string& encoding) {
  if (c.ok() && !Decoder(encoding).ok()) c.Invalid("Could not create converter for input encoding: ", encoding);
}

// Calls each(code point, bytes) for those that stay, and skip(bytes) for the others. refuses_control: so strict is a
// text that is encoded anew, one that is decoded is not.
template <class Each, class Skip>
void Decode(Decoder& decoder, std::string_view text, const Policy& policy, bool refuses_control, const Each& each,
            const Skip& skip) {
  decoder.ForEach(text, [&](int32_t point, int64_t bytes, bool malformed) {
    const bool control = policy.control_too && point <= 0x1f;
    if (policy.strict && (malformed || (control && refuses_control)))
      Fail(TENON_INVALID_ARGUMENT, "Invalid formatting on input string");
    if (!malformed && !control) each(point, bytes);
    else if (policy.left_out) skip(bytes);
    else each(policy.replacement, bytes);
  });
}

// ---- Into one ----

enum class Form { kUtf8, kUtf16, kUtf32 };
Form FormOf(std::string_view name) {
  return name == "UTF-8" ? Form::kUtf8 : name == "UTF-16-BE" ? Form::kUtf16 : Form::kUtf32;
}

// point: in [0, kLast]; UTF-8 has none for surrogates.
void Append(int32_t point, Form form, Texts* texts) {
  char bytes[4];
  size_t size = 0;
  const auto put = [&](int32_t byte) { bytes[size++] = static_cast<char>(byte & 0xff); };
  const auto put_two = [&](int32_t unit) {
    put(unit >> 8);
    put(unit);
  };
  if (form == Form::kUtf32) {
    put_two(point >> 16);
    put_two(point);
  } else if (form == Form::kUtf16) {
    if (point >= 0x10000) put_two(0xd800 + ((point - 0x10000) >> 10));
    put_two(point >= 0x10000 ? 0xdc00 + ((point - 0x10000) & 0x3ff) : point);
  } else {
    if (IsSurrogate(point)) point = 0xfffd;
    if (point < 0x80) {
      put(point);
    } else {
      const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
      constexpr int32_t kLeads[] = {0xc0, 0xe0, 0xf0};
      put(kLeads[more - 1] | point >> (6 * more));
      for (int i = more - 1; i >= 0; --i) put(0x80 | (point >> (6 * i) & 0x3f));
    }
  }
  texts->Append(std::string_view(bytes, size));
}

// ---- Kernels ----

template <bool kOffsets>
struct UnicodeDecode {
  explicit UnicodeDecode(CreateContext& c)
      : encoding(c.String("input_encoding")), policy(c), wide(c.Type("Tsplits") == TENON_DT_INT64) {
    CheckEncoding(c, encoding);
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    const int64_t rows = Count(input);
    Decoder decoder(encoding);
    StepMemory memory(c), other(c);
    std::pmr::vector<int32_t> points(&memory);
    std::pmr::vector<int64_t> begins(&other);
    const int64_t split_dims[] = {Add(rows, 1)};
    c.AllocOutput(0, split_dims);
    PutSplit(c, 0, 0);
    CancelPoll poll(c);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t at = 0;
      Decode(
          decoder, StringAt(input, row), policy, false,
          [&](int32_t point, int64_t bytes) {
            points.push_back(point);
            if (kOffsets) begins.push_back(at);
            at += bytes;
            poll(20);
          },
          [&](int64_t bytes) { at += bytes; });
      PutSplit(c, row + 1, static_cast<int64_t>(points.size()));
      poll(100);
    }
    const int64_t dims[] = {static_cast<int64_t>(points.size())};
    c.AllocOutput(1, dims);
    std::copy(points.begin(), points.end(), c.output<int32_t>(1));
    if constexpr (kOffsets) {
      c.AllocOutput(2, dims);
      std::copy(begins.begin(), begins.end(), c.output<int64_t>(2));
    }
  }

 private:
  void PutSplit(const RunContext& c, int64_t row, int64_t split) const {
    if (!wide && split > std::numeric_limits<int32_t>::max())
      Fail(TENON_INVALID_ARGUMENT, "there are more characters than int32 splits can count; ask for int64");
    if (wide) c.output<int64_t>(0)[row] = split;
    else c.output<int32_t>(0)[row] = static_cast<int32_t>(split);
  }
  std::string encoding;
  Policy policy;
  bool wide;
};

struct UnicodeTranscode {
  explicit UnicodeTranscode(CreateContext& c)
      : encoding(c.String("input_encoding")), policy(c), form(FormOf(c.String("output_encoding"))) {
    CheckEncoding(c, encoding);
  }
  void Run(RunContext c) const {
    Decoder decoder(encoding);
    Texts texts(c);
    for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
      Decode(
          decoder, StringAt(c.input_view(0), i), policy, true,
          [&](int32_t point, int64_t) { Append(point, form, &texts); }, [](int64_t) {});
      texts.End();
    }
    texts.Give(0, DimsOf(c.input_view(0)));
  }
  std::string encoding;
  Policy policy;
  Form form;
};

struct UnicodeEncode {
  explicit UnicodeEncode(CreateContext& c) : policy(c), form(FormOf(c.String("output_encoding"))) {}
  void Run(RunContext c) const {
    const int64_t splits = Count(c.input_view(1)), count = Count(c.input_view(0));
    if (splits == 0)
      Fail(TENON_INVALID_ARGUMENT, "Input_splits should contain elements, but given input_values has 0 elements");
    if (SplitAt(c, 0) != 0) Fail(TENON_INVALID_ARGUMENT, "First value in input_splits must be zero.");
    if (SplitAt(c, splits - 1) != count)
      Fail(TENON_INVALID_ARGUMENT, "Last value in input_splits must be equal to length of input_tensor: ", count);
    for (int64_t i = 1; i < splits; ++i)
      if (SplitAt(c, i) < SplitAt(c, i - 1))
        Fail(TENON_INVALID_ARGUMENT, "Values in input_splits must be equal or in ascending order.");
    Texts texts(c);
    for (int64_t row = 0; row + 1 < splits; ++row) {
      for (int64_t i = SplitAt(c, row); i < SplitAt(c, row + 1); ++i) {
        int32_t point = c.input<int32_t>(0)[i];
        if (point < 0 || point > kLast || IsSurrogate(point)) {
          if (policy.strict)
            Fail(TENON_INVALID_ARGUMENT, "Code point is out of range for Unicode, or is a surrogate: ", point);
          if (policy.left_out || IsSurrogate(policy.replacement)) continue;
          point = policy.replacement;
        }
        Append(point, form, &texts);
      }
      texts.End();
    }
    const int64_t dims[] = {splits - 1};
    texts.Give(0, dims);
  }

 private:
  static int64_t SplitAt(const RunContext& c, int64_t i) {
    return c.input_view(1).dtype == TENON_DT_INT32 ? c.input<int32_t>(1)[i] : c.input<int64_t>(1)[i];
  }
  Policy policy;
  Form form;
};

struct UnicodeScript {
  void Run(RunContext c) const {
    for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
      UErrorCode error = U_ZERO_ERROR;
      const UScriptCode script = uscript_getScript(c.input<int32_t>(0)[i], &error);
      c.output<int32_t>(0)[i] = U_SUCCESS(error) ? static_cast<int32_t>(script) : USCRIPT_INVALID_CODE;
    }
  }
};

void DecodeShape(ShapeContext& c) {
  const int64_t rows = c.Input(0).elements();
  c.SetOutput(0, {rows < 0 ? kUnknown : c.Add(rows, 1)});
  for (int i = 1; i < c.output_count(); ++i) c.SetOutput(i, {kUnknown});
}
void EncodeShape(ShapeContext& c) {
  c.WithRank(0, 1);
  const Shape splits = c.WithRank(1, 1);
  c.SetOutput(0, {splits[0] < 1 ? kUnknown : splits[0] - 1});
}

constexpr Traits kGivesText = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kUnicodeDecodeKernel) = Registration<UnicodeDecode<false>>("UnicodeDecode", kGivesText);
TENON_KERNEL(kUnicodeDecodeWithOffsetsKernel) = Registration<UnicodeDecode<true>>("UnicodeDecodeWithOffsets",
                                                                                  kGivesText);
TENON_KERNEL(kUnicodeTranscodeKernel) = Registration<UnicodeTranscode>("UnicodeTranscode", kGivesText);
TENON_KERNEL(kUnicodeEncodeKernel) = Registration<UnicodeEncode>("UnicodeEncode", kGivesText);
TENON_KERNEL(kUnicodeScriptKernel) = Registration<UnicodeScript>("UnicodeScript", {});

TENON_OP(kUnicodeDecode) = DefineOp({
    .name = "UnicodeDecode",
    .inputs = "input: string",
    .outputs = "row_splits: Tsplits, char_values: int32",
    .attrs = "input_encoding: string; errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = "
             "65533; replace_control_characters: bool = false; "
             "Tsplits: {int32, int64} = int64",
    .doc = "The code points of each text, as the rows of a ragged tensor.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodeShape>,
});

TENON_OP(kUnicodeDecodeWithOffsets) = DefineOp({
    .name = "UnicodeDecodeWithOffsets",
    .inputs = "input: string",
    .outputs = "row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    .attrs = "input_encoding: string; errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = "
             "65533; replace_control_characters: bool = false; "
             "Tsplits: {int32, int64} = int64",
    .doc = "The code points of each text, as the rows of a ragged tensor, and at which byte each begins.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DecodeShape>,
});

TENON_OP(kUnicodeTranscode) = DefineOp({
    .name = "UnicodeTranscode",
    .inputs = "input: string",
    .outputs = "output: string",
    .attrs = "input_encoding: string; output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}; errors: {'strict', "
             "'replace', 'ignore'} = 'replace'; replacement_char: int = 65533; "
             "replace_control_characters: bool = false",
    .doc = "Each text in another encoding.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kUnicodeEncode) = DefineOp({
    .name = "UnicodeEncode",
    .inputs = "input_values: int32, input_splits: Tsplits",
    .outputs = "output: string",
    .attrs = "errors: {'ignore', 'replace', 'strict'} = 'replace'; output_encoding: {'UTF-8', 'UTF-16-BE', "
             "'UTF-32-BE'}; replacement_char: int = 65533; Tsplits: {int32, int64} = int64",
    .constraints = "rank(input_values) == 1; rank(input_splits) == 1",
    .doc = "A text of each row of code points.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<EncodeShape>,
});

TENON_OP(kUnicodeScript) = DefineOp({
    .name = "UnicodeScript",
    .inputs = "input: int32",
    .outputs = "output: int32",
    .doc = "The number of each code point's script, as ICU counts them; -1 of what is no code point.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
