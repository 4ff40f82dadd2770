// SPDX-License-Identifier: Apache-2.0
// StringLower, StringUpper: bytes, or with the encoding 'utf-8' characters, whose capitals Unicode knows.
#include <unicode/ustring.h>

#include <limits>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <bool kUpper>
struct ChangeCase {
  explicit ChangeCase(CreateContext& c) {
    const std::string_view encoding = c.String("encoding");
    if (encoding.empty()) return;
    if (encoding != "utf-8") {
      c.Invalid("only utf-8 or '' (no encoding) is supported, received ", encoding);
      return;
    }
    characters = true;
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    Texts texts(c);
    for (int64_t i = 0, count = Count(input); i < count; ++i) {
      const std::string_view text = StringAt(input, i);
      if (characters) Characters(c, text, &texts);
      else Bytes(text, &texts);
      texts.End();
    }
    texts.Give(0, DimsOf(input));
  }

 private:
  static void Bytes(std::string_view text, Texts* texts) {
    char* to = texts->Extend(text.size());
    constexpr char kFirst = kUpper ? 'a' : 'A', kLast = kUpper ? 'z' : 'Z';
    for (const char byte : text) *to++ = byte >= kFirst && byte <= kLast ? static_cast<char>(byte ^ 0x20) : byte;
  }
  // Through UTF-16, of which ICU knows the letters; what is no character becomes U+FFFD.
  static void Characters(const RunContext& c, std::string_view text, Texts* texts) {
    // Not more than three times as long, says Unicode; ICU counts in int32.
    if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4))
      Fail(TENON_UNIMPLEMENTED, "a text of ", text.size(), " bytes is too long for changing its letters");
    if (text.empty()) return;
    StepMemory memory(c);
    std::pmr::u16string units(text.size(), u'\0', &memory), changed(text.size(), u'\0', &memory);
    // Twice where the room that there is does not do.
    const auto convert = [](std::pmr::u16string* to, const auto& function) {
      int32_t size = 0;
      for (UErrorCode error = U_BUFFER_OVERFLOW_ERROR; error == U_BUFFER_OVERFLOW_ERROR;
           to->resize(static_cast<size_t>(size))) {
        error = U_ZERO_ERROR;
        size = function(to->data(), static_cast<int32_t>(to->size()), &error);
        if (U_FAILURE(error) && error != U_BUFFER_OVERFLOW_ERROR)
          Fail(TENON_INTERNAL, "ICU cannot change the letters of a text: ", u_errorName(error));
      }
    };
    convert(&units, [&](char16_t* to, int32_t room, UErrorCode* error) {
      int32_t size = 0;
      u_strFromUTF8WithSub(to, room, &size, text.data(), static_cast<int32_t>(text.size()), 0xfffd, nullptr, error);
      return size;
    });
    convert(&changed, [&](char16_t* to, int32_t room, UErrorCode* error) {
      return (kUpper ? u_strToUpper : u_strToLower)(to, room, units.data(), static_cast<int32_t>(units.size()), "",
                                                    error);
    });
    UErrorCode error = U_ZERO_ERROR;
    int32_t size = 0;
    u_strToUTF8(nullptr, 0, &size, changed.data(), static_cast<int32_t>(changed.size()), &error);
    error = U_ZERO_ERROR;
    u_strToUTF8(texts->Extend(static_cast<size_t>(size)), size, &size, changed.data(),
                static_cast<int32_t>(changed.size()), &error);
    if (U_FAILURE(error)) Fail(TENON_INTERNAL, "ICU cannot write the letters of a text: ", u_errorName(error));
  }
  bool characters = false;
};

constexpr Traits kGivesLetters = {.dynamic_outputs = 1};

}  // namespace

TENON_KERNEL(kStringLowerKernel) = Registration<ChangeCase<false>>("StringLower", kGivesLetters);
TENON_KERNEL(kStringUpperKernel) = Registration<ChangeCase<true>>("StringUpper", kGivesLetters);

TENON_OP(kStringLower) = DefineOp({
    .name = "StringLower",
    .inputs = "input: string",
    .outputs = "output: string",
    .attrs = "encoding: string = ''",
    .doc = "Each text in small letters: those of ASCII, or with the encoding 'utf-8' all.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kStringUpper) = DefineOp({
    .name = "StringUpper",
    .inputs = "input: string",
    .outputs = "output: string",
    .attrs = "encoding: string = ''",
    .doc = "Each text in capital letters: those of ASCII, or with the encoding 'utf-8' all.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
