// SPDX-License-Identifier: Apache-2.0
// TextScanner: the words of protobuf's text format, one after the other.
//
// Comments and white space stand between words. The text is not trusted; a word that cannot be is kBad, and stays.
#ifndef TENON_MODEL_TEXT_SCANNER_H_
#define TENON_MODEL_TEXT_SCANNER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/model/base.h"

namespace tenon::model {

class TextScanner {
 public:
  enum class Kind { kEnd, kName, kNumber, kString, kSign, kBad };

  explicit TextScanner(std::string_view text) : text_(text) { Next(); }

  Kind kind() const { return kind_; }
  // As it stands in the text; of a string with its quotes.
  std::string_view word() const { return text_.substr(begin_, end_ - begin_); }
  void Next();
  // Goes on when the word is that sign.
  bool Take(char sign);
  bool Is(char sign) const { return kind_ == Kind::kSign && text_[begin_] == sign; }

  // "line 3, column 7: expected X, found 'y'".
  Status Expected(std::string_view what) const;
  Status Error(std::string_view text) const;

  // The word's value. Numbers: decimal, 0x..., 0...; false when it does not fit.
  bool Integer(uint64_t* out) const;
  template <typename T>
  bool Real(T* out) const;
  // Appends a string's bytes; false when an escape is none.
  bool AppendString(std::string* out) const;

 private:
  void SkipSpace();
  size_t EndOfString() const;

  std::string_view text_;
  size_t begin_ = 0, end_ = 0;
  Kind kind_ = Kind::kEnd;
};

}  // namespace tenon::model

#endif  // TENON_MODEL_TEXT_SCANNER_H_
