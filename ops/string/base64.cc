// SPDX-License-Identifier: Apache-2.0
// EncodeBase64, DecodeBase64: bytes as letters that stand in addresses and names of files (RFC 4648, section 5).
#include <array>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// What each letter stands for; 64: it is none.
constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values = {};
  values.fill(64);
  for (uint8_t i = 0; i < 64; ++i) values[static_cast<unsigned char>(kLetters[i])] = i;
  return values;
}();

struct Encode {
  explicit Encode(CreateContext& c) : pad(c.Bool("pad")) {}
  void Run(RunContext c) const {
    Texts texts(c);
    for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
      const std::string_view bytes = StringAt(c.input_view(0), i);
      const size_t rest = bytes.size() % 3;
      char* to = texts.Extend(bytes.size() / 3 * 4 + (rest == 0 ? 0 : pad ? 4 : rest + 1));
      for (size_t at = 0; at < bytes.size(); at += 3) {
        uint32_t bits = 0;
        const size_t taken = std::min<size_t>(bytes.size() - at, 3);
        for (size_t k = 0; k < taken; ++k)
          bits |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + k])) << (16 - 8 * k);
        for (size_t k = 0; k <= taken; ++k) *to++ = kLetters[bits >> (18 - 6 * k) & 63];
        for (size_t k = taken; pad && k < 3; ++k) *to++ = '=';
      }
      texts.End();
    }
    texts.Give(0, DimsOf(c.input_view(0)));
  }
  bool pad;
};

struct Decode {
  void Run(RunContext c) const {
    Texts texts(c);
    for (int64_t i = 0, count = Count(c.input_view(0)); i < count; ++i) {
      std::string_view letters = StringAt(c.input_view(0), i);
      // Only whole groups of four are padded.
      for (int k = 0; k < 2 && letters.size() % 4 == (k == 0 ? 0 : 3) && letters.ends_with('='); ++k)
        letters.remove_suffix(1);
      if (letters.size() % 4 == 1)
        Fail(TENON_INVALID_ARGUMENT, "Base64 string length cannot be 1 modulo 4: text ", i, " has ", letters.size(),
             " letters");
      char* to = texts.Extend(letters.size() / 4 * 3 + (letters.size() % 4 == 0 ? 0 : letters.size() % 4 - 1));
      for (size_t at = 0; at < letters.size(); at += 4) {
        uint32_t bits = 0;
        const size_t taken = std::min<size_t>(letters.size() - at, 4);
        for (size_t k = 0; k < taken; ++k) {
          const uint8_t value = kValues[static_cast<unsigned char>(letters[at + k])];
          if (value == 64)
            Fail(TENON_INVALID_ARGUMENT, "Invalid character found in base64: at ", at + k, " of text ", i);
          bits |= static_cast<uint32_t>(value) << (18 - 6 * k);
        }
        for (size_t k = 0; k + 1 < taken; ++k) *to++ = static_cast<char>(bits >> (16 - 8 * k) & 255);
      }
      texts.End();
    }
    texts.Give(0, DimsOf(c.input_view(0)));
  }
};

constexpr Traits kGivesBase64 = {.dynamic_outputs = 1};

}  // namespace

TENON_KERNEL(kEncodeBase64Kernel) = Registration<Encode>("EncodeBase64", kGivesBase64);
TENON_KERNEL(kDecodeBase64Kernel) = Registration<Decode>("DecodeBase64", kGivesBase64);

TENON_OP(kEncodeBase64) = DefineOp({
    .name = "EncodeBase64",
    .inputs = "input: string",
    .outputs = "output: string",
    .attrs = "pad: bool = false",
    .doc = "Each text's bytes in letters, four for three, which stand in addresses too; pad: filled up to whole groups "
           "with '='.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kDecodeBase64) = DefineOp({
    .name = "DecodeBase64",
    .inputs = "input: string",
    .outputs = "output: string",
    .doc = "The bytes that EncodeBase64 wrote, padded or not.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
