// SPDX-License-Identifier: Apache-2.0
// RegexFullMatch, StaticRegexFullMatch, RegexReplace, StaticRegexReplace: what patterns match, and what stands there
// instead. Patterns are RE2's, over UTF-8. The pattern of a Static op is an attribute; the others get it as a tensor.
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "tenon/extras/kernel/texts.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

using re2::RE2;
using Pattern = std::shared_ptr<const RE2>;

re2::StringPiece PieceOf(std::string_view text) { return {text.data(), text.size()}; }
std::string_view TextOf(const re2::StringPiece& piece) { return {piece.data(), piece.size()}; }

Pattern Compile(std::string_view text) { return std::make_shared<const RE2>(PieceOf(text), RE2::Quiet); }

// The pattern of a step, which is mostly that of the last one.
class LastPattern {
 public:
  Pattern Get(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    if (pattern_ == nullptr || pattern_->pattern() != text) {
      Pattern made = Compile(text);
      if (!made->ok()) Fail(TENON_INVALID_ARGUMENT, "Invalid pattern: ", text, ", error: ", made->error());
      pattern_ = std::move(made);
    }
    return pattern_;
  }

 private:
  mutable std::mutex mutex_;
  mutable Pattern pattern_;
};

Pattern PatternOf(CreateContext& c) {
  Pattern made = Compile(c.String("pattern"));
  if (!made->ok()) c.Invalid("Invalid pattern: ", c.String("pattern"), ", error: ", made->error());
  return made;
}

// ---- What a match may take ----

// A match is one call of RE2's, which asks nobody whether the step was given up. It may take as many steps as the
// pattern has instructions, for each byte: with groups, where they are looked for (some 4 ns a step), and without where
// an automaton of the pattern would have too many states; mostly it takes 2 ns a byte.
constexpr int64_t kMostSteps = int64_t{1} << 31, kMostStepsWithGroups = int64_t{1} << 25;

bool Pays(const RE2& pattern, size_t bytes, int64_t most) {
  return bytes < static_cast<uint64_t>(most / std::max(pattern.ProgramSize(), 1));
}
void CheckPays(const RE2& pattern, size_t bytes, int64_t most, std::string_view what) {
  if (Pays(pattern, bytes, most)) return;
  Fail(TENON_RESOURCE_EXHAUSTED, "to look for ", what, " in ", bytes, " bytes of one text by a pattern of ",
       pattern.ProgramSize(), " instructions may take as many steps as these multiply to; at most ", most,
       " are taken, because nothing can end them. Take a shorter pattern, ",
       most == kMostStepsWithGroups ? "groups that are not counted, as (?:a|b), " : "", "or parts of the text");
}

// ---- Matches ----

void Match(const RunContext& c, const RE2& pattern) {
  const tenon_tensor_view& input = c.input_view(0);
  CancelPoll poll(c);
  for (int64_t i = 0, count = Count(input); i < count; ++i) {
    const std::string_view text = StringAt(input, i);
    CheckPays(pattern, text.size(), kMostSteps, "a match");
    c.output<bool>(0)[i] = RE2::FullMatch(PieceOf(text), pattern);
    poll(static_cast<int64_t>(text.size()) * 10 + 100);
  }
}

struct StaticMatch {
  explicit StaticMatch(CreateContext& c) : pattern(PatternOf(c)) {}
  void Run(RunContext c) const { Match(c, *pattern); }
  Pattern pattern;
};
struct DynamicMatch {
  explicit DynamicMatch(CreateContext&) {}
  void Run(RunContext c) const { Match(c, *pattern.Get(StringAt(c.input_view(1), 0))); }
  LastPattern pattern;
};

// ---- What stands there instead ----

// A rewrite: texts, and what the groups of the match hold, \0 the whole.
class Rewrite {
 public:
  explicit Rewrite(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        AddByte(text[i]);
      } else if (++i < text.size() && text[i] >= '0' && text[i] <= '9') {
        parts_.push_back({0, 0, text[i] - '0'});
        groups_ = std::max(groups_, text[i] - '0');
      } else if (i < text.size() && text[i] == '\\') {
        AddByte('\\');
      } else {
        ok_ = false;  // and what follows is left out
        return;
      }
    }
  }
  bool ok() const { return ok_; }
  int groups() const { return groups_; }
  void AppendTo(Texts* out, const re2::StringPiece* groups) const {
    for (const Part& part : parts_)
      out->Append(part.group >= 0 ? TextOf(groups[part.group]) : std::string_view(text_).substr(part.at, part.size));
  }

 private:
  struct Part {
    size_t at, size;  // in text_
    int group;        // or -1
  };
  void AddByte(char byte) {
    if (parts_.empty() || parts_.back().group >= 0) parts_.push_back({text_.size(), 0, -1});
    text_ += byte;
    ++parts_.back().size;
  }
  std::string text_;
  std::vector<Part> parts_;
  int groups_ = 0;
  bool ok_ = true;
};

// Bytes of the character that a text begins with; 1 where it is none.
size_t CharacterSize(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  if (byte(0) >= 0xc2 && byte(0) < 0xe0 && follows(1)) return 2;
  if (byte(0) >= 0xe0 && byte(0) < 0xf0 && follows(1) && follows(2) && (byte(0) != 0xe0 || byte(1) >= 0xa0)) return 3;
  const bool in_range = byte(0) == 0xf0   ? text.size() > 1 && byte(1) >= 0x90
                        : byte(0) == 0xf4 ? text.size() > 1 && byte(1) < 0x90
                                          : byte(0) > 0xf0 && byte(0) < 0xf4;
  return in_range && follows(1) && follows(2) && follows(3) ? 4 : 1;
}

// As RE2's Replace and GlobalReplace, but into the session's memory. A rewrite with groups that the pattern lacks
// replaces nothing.
struct Replacement {
  Replacement(const RE2& of, std::string_view with, bool everywhere) : pattern(of), rewrite(with), global(everywhere) {}

  void Run(const RunContext& c) const {
    const tenon_tensor_view& input = c.input_view(0);
    Texts texts(c);
    const bool fits = rewrite.groups() <= pattern.NumberOfCapturingGroups() && (global || rewrite.ok());
    for (int64_t i = 0, count = Count(input); i < count; ++i) {
      const std::string_view text = StringAt(input, i);
      if (!fits) texts.Append(text);
      else if (global) Everywhere(text, &texts);
      else Once(text, &texts);
      texts.End();
    }
    texts.Give(0, DimsOf(input));
  }

 private:
  using Groups = std::array<re2::StringPiece, 10>;
  bool Find(std::string_view text, size_t from, Groups* groups, Texts* texts) const {
    const size_t bytes = text.size() - from;
    texts->Poll(16 * bytes);  // an estimate, and not less where little is found
    const auto match = [&](size_t begin, size_t end, RE2::Anchor anchor, int groups_to_find) {
      return pattern.Match(PieceOf(text), begin, end, anchor, groups->data(), groups_to_find);
    };
    CheckPays(pattern, bytes, kMostSteps, "a match");
    if (rewrite.groups() == 0 || Pays(pattern, bytes, kMostStepsWithGroups))
      return match(from, text.size(), RE2::UNANCHORED, rewrite.groups() + 1);
    // Where a match is, is found at once; its groups are looked for there alone.
    if (!match(from, text.size(), RE2::UNANCHORED, 1)) return false;
    const auto begin = static_cast<size_t>((*groups)[0].data() - text.data());
    const size_t end = begin + (*groups)[0].size();
    CheckPays(pattern, end - begin, kMostStepsWithGroups, "groups");
    texts->Poll(16 * bytes);
    return match(begin, end, RE2::ANCHOR_BOTH, rewrite.groups() + 1);
  }
  void Once(std::string_view text, Texts* texts) const {
    Groups groups;
    if (!Find(text, 0, &groups, texts)) return texts->Append(text);
    const auto begin = static_cast<size_t>(groups[0].data() - text.data());
    texts->Append(text.substr(0, begin));
    rewrite.AppendTo(texts, groups.data());
    texts->Append(text.substr(begin + groups[0].size()));
  }
  void Everywhere(std::string_view text, Texts* texts) const {
    Groups groups;
    size_t at = 0, last_end = std::string_view::npos;
    while (at <= text.size() && Find(text, at, &groups, texts)) {
      const auto begin = static_cast<size_t>(groups[0].data() - text.data());
      texts->Append(text.substr(at, begin - at));
      at = begin;
      if (begin == last_end && groups[0].empty()) {  // an empty match does not follow a match: one character on
        if (at == text.size()) return;
        const size_t size = CharacterSize(text.substr(at));
        texts->Append(text.substr(at, size));
        at += size;
        continue;
      }
      rewrite.AppendTo(texts, groups.data());
      last_end = at = begin + groups[0].size();
    }
    if (at < text.size()) texts->Append(text.substr(at));
  }

  const RE2& pattern;
  Rewrite rewrite;
  bool global;
};

struct StaticReplace {
  explicit StaticReplace(CreateContext& c)
      : pattern(PatternOf(c)), replacement(*pattern, c.String("rewrite"), c.Bool("replace_global")) {}
  void Run(RunContext c) const { replacement.Run(c); }
  Pattern pattern;
  Replacement replacement;
};
struct DynamicReplace {
  explicit DynamicReplace(CreateContext& c) : global(c.Bool("replace_global")) {}
  void Run(RunContext c) const {
    const Pattern of = pattern.Get(StringAt(c.input_view(1), 0));
    Replacement(*of, StringAt(c.input_view(2), 0), global).Run(c);
  }
  bool global;
  LastPattern pattern;
};

constexpr Traits kGivesMatches = {.dynamic_outputs = 1};

}  // namespace

TENON_KERNEL(kStaticRegexFullMatchKernel) = Registration<StaticMatch>("StaticRegexFullMatch", {});
TENON_KERNEL(kRegexFullMatchKernel) = Registration<DynamicMatch>("RegexFullMatch", {});
TENON_KERNEL(kStaticRegexReplaceKernel) = Registration<StaticReplace>("StaticRegexReplace", kGivesMatches);
TENON_KERNEL(kRegexReplaceKernel) = Registration<DynamicReplace>("RegexReplace", kGivesMatches);

TENON_OP(kStaticRegexFullMatch) = DefineOp({
    .name = "StaticRegexFullMatch",
    .inputs = "input: string",
    .outputs = "output: bool",
    .attrs = "pattern: string",
    .doc = "Whether the pattern, a regular expression of RE2, matches the whole string.",
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kRegexFullMatch) = DefineOp({
    .name = "RegexFullMatch",
    .inputs = "input: string, pattern: string",
    .outputs = "output: bool",
    .constraints = "rank(pattern) == 0",
    .doc = "Whether the pattern, a regular expression of RE2, matches the whole string.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kStaticRegexReplace) = DefineOp({
    .name = "StaticRegexReplace",
    .inputs = "input: string",
    .outputs = "output: string",
    .attrs = "pattern: string; rewrite: string; replace_global: bool = true",
    .doc =
        "Each text with the rewrite where the pattern matches: \\1 is what its first group holds, \\0 the whole match.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

TENON_OP(kRegexReplace) = DefineOp({
    .name = "RegexReplace",
    .inputs = "input: string, pattern: string, rewrite: string",
    .outputs = "output: string",
    .attrs = "replace_global: bool = true",
    .constraints = "rank(pattern) == 0; rank(rewrite) == 0",
    .doc =
        "Each text with the rewrite where the pattern matches: \\1 is what its first group holds, \\0 the whole match.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<SameShape>,
});

}  // namespace tenon::ops
