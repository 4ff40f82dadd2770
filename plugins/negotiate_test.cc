// SPDX-License-Identifier: Apache-2.0
#include "plugins/negotiate.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/fakes/plugins/fixture.h"
#include "tenon/op.h"

namespace tenon::plugins::negotiate_test {
namespace {

const tenon_op_package kPackage = {TENON_HEAD(tenon_op_package), nullptr, 0, 0};
const tenon_capability kCapabilities[] = {TENON_PROVIDES(OPS, &kPackage)};

// What the next query answers. Longer than the host's struct, as a newer plugin's would be.
struct Answer {
  tenon_plugin plugin;
  uint64_t newer[4];
};
Answer answer;

class Negotiation : public testing::Test {
 protected:
  Negotiation() {
    answer = {};
    answer.plugin.struct_size = sizeof(tenon_plugin);
    answer.plugin.abi_major = TENON_ABI_MAJOR;
    answer.plugin.layout_hash = TENON_LAYOUT_HASH;
    answer.plugin.id = TENON_SPAN("a.b");
    answer.plugin.version = TENON_SPAN("1");
    answer.plugin.load = [](const tenon_load_args*, tenon_plugin_self**) -> tenon_status* { return nullptr; };
    answer.plugin.unload = [](tenon_plugin_self*) {};
    answer.plugin.capabilities = kCapabilities;
    answer.plugin.capability_count = 1;
  }
  bool Ask(const tenon_host& host = TestHost()) {
    report_ = LoadReport();
    return Negotiate(
        host, [](tenon_query_args*) -> const tenon_plugin* { return &answer.plugin; }, "/x.so", &plugin_, &report_);
  }

  tenon_plugin plugin_;
  LoadReport report_;
};

TEST_F(Negotiation, TakesAPluginOfTheSameHeaders) {
  ASSERT_TRUE(Ask()) << report_.text;
  EXPECT_EQ(report_.id, "a.b");
  EXPECT_EQ(report_.version, "1");
  EXPECT_EQ(std::memcmp(&plugin_, &answer.plugin, sizeof(plugin_)), 0);
}

TEST_F(Negotiation, TakesALongerDescriptorAndReadsItsOwnPart) {
  answer.plugin.struct_size = sizeof(Answer);
  std::memset(answer.newer, 0xee, sizeof(answer.newer));
  ASSERT_TRUE(Ask()) << report_.text;
  EXPECT_EQ(plugin_.capability_count, 1u);
}

TEST_F(Negotiation, TakesAShorterDescriptorAsOneWithoutWhatItDoesNotHave) {
  answer.plugin.struct_size = offsetof(tenon_plugin, understood);
  std::memset(&answer.plugin.understood, 0xee, sizeof(tenon_plugin) - offsetof(tenon_plugin, understood));
  ASSERT_TRUE(Ask()) << report_.text;
  EXPECT_EQ(plugin_.understood, nullptr);
  EXPECT_EQ(plugin_.understood_count, 0u);
}

TEST_F(Negotiation, RefusesADescriptorThatIsTooShortOrAbsurdlyLong) {
  for (const uint32_t size : {0u, 4u, static_cast<uint32_t>(offsetof(tenon_plugin, understood)) - 1, 0xffffffffu}) {
    answer.plugin.struct_size = size;
    EXPECT_FALSE(Ask()) << size;
    EXPECT_EQ(report_.reason, Reason::kBadDescriptor);
  }
}

TEST_F(Negotiation, ComparesTheLayoutHashOnlyWhileTheMajorVersionIsZero) {
  answer.plugin.layout_hash = 1;
  EXPECT_FALSE(Ask());
  EXPECT_EQ(report_.reason, Reason::kLayout);
  tenon_host host = TestHost();
  host.abi_major = 1;
  EXPECT_FALSE(Ask(host));
  EXPECT_EQ(report_.reason, Reason::kAbiMajor);
  answer.plugin.abi_major = 1;
  EXPECT_TRUE(Ask(host)) << report_.text;
  tenon_capability other[] = {{TENON_SPAN(TENON_CAPABILITY_OPS), &kPackage, 1}};
  answer.plugin.capabilities = other;
  EXPECT_TRUE(Ask(host)) << report_.text;
}

// What one capability is, another's users need not agree on.
TEST_F(Negotiation, ComparesTheHashOfEachCapabilityThatThePluginBrings) {
  tenon_capability capabilities[] = {TENON_PROVIDES(OPS, &kPackage),
                                     {TENON_SPAN("vendor.future/3"), &kPackage, 12345},
                                     TENON_PROVIDES(KERNELS, &kPackage)};
  answer.plugin.capabilities = capabilities;
  answer.plugin.capability_count = 3;
  EXPECT_TRUE(Ask()) << report_.text;
  capabilities[2].layout_hash ^= 1;
  EXPECT_FALSE(Ask());
  EXPECT_EQ(report_.reason, Reason::kLayout);
  EXPECT_EQ(report_.missing, TENON_CAPABILITY_KERNELS);
  EXPECT_NE(report_.text.find("the layout hash of its tenon.kernels/1 is 0x"), std::string::npos) << report_.text;
  answer.plugin.capability_count = 2;
  EXPECT_TRUE(Ask()) << report_.text;

  Manifest manifest;
  manifest.abi_major = TENON_ABI_MAJOR;
  manifest.layout_hash = TENON_LAYOUT_HASH;
  manifest.capabilities = {{TENON_CAPABILITY_OPS, TENON_HASH_OPS}, {"vendor.future/3", 1}};
  EXPECT_TRUE(CheckManifestAbi(TestHost(), manifest, "/x.so", &report_)) << report_.text;
  manifest.capabilities.push_back({TENON_CAPABILITY_DEVICE, TENON_HASH_DEVICE + 1});
  EXPECT_FALSE(CheckManifestAbi(TestHost(), manifest, "/x.so", &report_));
  EXPECT_EQ(report_.missing, TENON_CAPABILITY_DEVICE);
}

TEST_F(Negotiation, RefusesEveryBitThatItMustUnderstandAndDoesNot) {
  for (int bit = 0; bit < 32; ++bit) {
    answer.plugin.must_understand = uint32_t{1} << bit;
    EXPECT_FALSE(Ask()) << bit;
    EXPECT_EQ(report_.reason, Reason::kMustUnderstand);
  }
}

TEST_F(Negotiation, RefusesWhatIsNull) {
  const Answer good = answer;
  answer.plugin.load = nullptr;
  EXPECT_FALSE(Ask());
  answer = good;
  answer.plugin.unload = nullptr;
  EXPECT_FALSE(Ask());
  answer = good;
  answer.plugin.capabilities = nullptr;
  EXPECT_FALSE(Ask());
  EXPECT_EQ(report_.reason, Reason::kBadDescriptor);
  answer = good;
  answer.plugin.option_count = 1;
  EXPECT_FALSE(Ask());
  answer = good;
  answer.plugin.id = {nullptr, 5};
  EXPECT_FALSE(Ask());
  EXPECT_EQ(report_.text, "its id is a span of 5 bytes at NULL");
}

class Options : public Negotiation {
 protected:
  Options() {
    answer.plugin.options = kDeclared;
    answer.plugin.option_count = 4;
  }
  bool Check(OptionList given) {
    report_ = LoadReport();
    options_.clear();
    given_ = std::move(given);  // the options point into it
    return CheckOptions(answer.plugin, given_, &options_, &report_);
  }

  static constexpr tenon_option_declaration kDeclared[] = {
      {TENON_SPAN("name"), TENON_SPAN("x"), TENON_SPAN(""), TENON_OPTION_STRING, 0},
      {TENON_SPAN("count"), TENON_SPAN(""), TENON_SPAN(""), TENON_OPTION_INT, 0},
      {TENON_SPAN("ratio"), TENON_SPAN(""), TENON_SPAN(""), TENON_OPTION_FLOAT, 0},
      {TENON_SPAN("loud"), TENON_SPAN("false"), TENON_SPAN(""), TENON_OPTION_BOOL, 0}};
  OptionList given_;
  std::vector<tenon_option> options_;
};

TEST_F(Options, ThatAreNotGivenHaveTheirDefaults) {
  ASSERT_TRUE(Check({{"count", "-12"}}));
  ASSERT_EQ(options_.size(), 3u);
  EXPECT_EQ(View(options_[0].key), "name");
  EXPECT_EQ(View(options_[0].value), "x");
  EXPECT_EQ(View(options_[1].value), "-12");
  EXPECT_EQ(View(options_[2].key), "loud");
}

TEST_F(Options, ThatAreUnknownAreErrorsThatNameTheKnownOnes) {
  EXPECT_FALSE(Check({{"nmae", "x"}}));
  EXPECT_EQ(report_.reason, Reason::kUnknownOption);
  EXPECT_EQ(report_.missing, "nmae");
  EXPECT_EQ(report_.text, "it has no option 'nmae'");
  EXPECT_EQ(report_.hint, "known options: name, count, ratio, loud; did you mean 'name'?");
  answer.plugin.option_count = 0;
  EXPECT_FALSE(Check({{"name", "x"}}));
  EXPECT_EQ(report_.hint, "it has no options at all");
}

TEST_F(Options, MustFitTheirTypes) {
  for (const auto& [key, value] : OptionList{{"count", "1.5"},
                                             {"count", ""},
                                             {"count", "99999999999999999999"},
                                             {"count", " 1"},
                                             {"ratio", "1e"},
                                             {"ratio", "half"},
                                             {"loud", "yes"},
                                             {"loud", "TRUE"}}) {
    EXPECT_FALSE(Check({{key, value}})) << key << "=" << value;
    EXPECT_EQ(report_.reason, Reason::kBadOption);
    EXPECT_EQ(report_.missing, key);
  }
  for (const auto& [key, value] :
       OptionList{{"count", "0"}, {"ratio", "1e-3"}, {"ratio", "-2"}, {"loud", "true"}, {"name", ""}}) {
    EXPECT_TRUE(Check({{key, value}})) << key << "=" << value;
  }
}

TEST_F(Options, MayBeGivenOnce) {
  EXPECT_FALSE(Check({{"count", "1"}, {"count", "1"}}));
  EXPECT_EQ(report_.text, "option 'count' is given twice");
}

}  // namespace
}  // namespace tenon::plugins::negotiate_test
