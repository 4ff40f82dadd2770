// SPDX-License-Identifier: Apache-2.0
// Long texts, which golden cases do not have: where groups are looked for, and what is refused because nothing could
// end it.
#include <gtest/gtest.h>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kStaticRegexReplaceKernel, kStaticRegexFullMatchKernel;
}  // namespace tenon::ops

namespace tenon::ops::regex_test {
namespace {

using testing::KernelRunner;
using testing::Node;
using testing::Outcome;
using testing::Strings;
using testing::Tensor;

std::string Repeated(std::string_view piece, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

struct Replaced {
  Outcome outcome;
  std::string text;
};
Replaced Replace(const std::string& pattern, const std::string& rewrite, const std::string& text) {
  KernelRunner step;
  const Tensor input = Strings({1}, {text});
  Replaced replaced;
  replaced.outcome = step.Run(kStaticRegexReplaceKernel,
                              {"StaticRegexReplace",
                               {{"pattern", pattern}, {"rewrite", rewrite}, {"replace_global", true}},
                               {TENON_DT_STRING},
                               {TENON_DT_STRING}},
                              {&input});
  if (replaced.outcome.ok()) replaced.text = testing::Texts(step.outputs[0])[0];
  return replaced;
}

TEST(RegexReplace, LooksForGroupsInTheMatchesOfALongTextAlone) {
  const std::string between = Repeated("-. ", 3'000'000), pattern = R"((\b[a-m]+)([n-z]*)\b)";
  const Replaced replaced = Replace(pattern, R"([\2|\1])", between + "admit cat" + between + "zz bad");
  ASSERT_TRUE(replaced.outcome.ok()) << replaced.outcome.text();
  // As of a short one.
  EXPECT_EQ(Replace(pattern, R"([\2|\1])", "-. admit cat-. zz bad").text, "-. [t|admi] [t|ca]-. zz [|bad]");
  EXPECT_EQ(replaced.text, between + "[t|admi] [t|ca]" + between + "zz [|bad]");
}

TEST(RegexReplace, RefusesGroupsThatWouldTakeTooLong) {
  const Replaced replaced = Replace("((a?){100}(b?){100})*(a|b)$", R"(\1)", Repeated("ab", 1'000'000));
  EXPECT_EQ(replaced.outcome.code, static_cast<uint32_t>(TENON_RESOURCE_EXHAUSTED)) << replaced.outcome.text();
  EXPECT_NE(replaced.outcome.text().find("to look for groups in 1000000 bytes of one text by a pattern of "),
            std::string::npos)
      << replaced.outcome.text();
  // The same without groups is found at once.
  EXPECT_EQ(Replace("((a?){100}(b?){100})*(a|b)$", "c", Repeated("ab", 1'000'000)).text, "c");
}

TEST(RegexFullMatch, RefusesPatternsThatAreTooLongForTheText) {
  const auto match = [](const std::string& pattern, const std::string& text) {
    KernelRunner step;
    const Tensor input = Strings({1}, {text});
    return step.Run(kStaticRegexFullMatchKernel,
                    {"StaticRegexFullMatch", {{"pattern", pattern}}, {TENON_DT_STRING}, {TENON_DT_BOOL}}, {&input});
  };
  const std::string long_pattern = "(?:a?){1000}(?:b?){1000}.*";
  EXPECT_TRUE(match(long_pattern, Repeated("ab", 100'000)).ok());
  const Outcome refused = match(long_pattern, Repeated("ab", 4'000'000));
  EXPECT_EQ(refused.code, static_cast<uint32_t>(TENON_RESOURCE_EXHAUSTED)) << refused.text();
  EXPECT_NE(refused.text().find("to look for a match in 4000000 bytes"), std::string::npos) << refused.text();
}

}  // namespace
}  // namespace tenon::ops::regex_test
