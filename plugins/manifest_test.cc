// SPDX-License-Identifier: Apache-2.0
#include "plugins/manifest.h"

#include <gtest/gtest.h>

#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::manifest_test {
namespace {

constexpr char kLeast[] = R"({"tenon_manifest": 1, "id": "a.b", "version": "1",
                              "abi": {"major": 0, "minor": 1, "layout_hash": "00ff"}})";

TEST(Manifest, OfALibraryIsReadFromItsNoteWithoutOpeningIt) {
  LoadReport report;
  const auto inspection = Inspect(FixturePath("good"), &report);
  ASSERT_TRUE(inspection.has_value()) << report.text;
  ASSERT_TRUE(inspection->manifest.has_value());
  const Manifest& manifest = *inspection->manifest;
  EXPECT_EQ(manifest.id, "test.good");
  EXPECT_EQ(manifest.version, "1.2.3");
  EXPECT_EQ(manifest.doc, "A plugin \"without\" fault.");
  EXPECT_EQ(manifest.abi_major, TENON_ABI_MAJOR);
  EXPECT_STREQ(TENON_ABI_TEXT, (std::to_string(TENON_ABI_MAJOR) + "." + std::to_string(TENON_ABI_MINOR)).c_str());
  EXPECT_EQ(manifest.abi_minor, TENON_ABI_MINOR);
  EXPECT_EQ(manifest.layout_hash, TENON_LAYOUT_HASH);
  EXPECT_TRUE(manifest.cpu_features.empty());
  EXPECT_EQ(manifest.ops, std::vector<std::string>{"Good"});
  ASSERT_EQ(manifest.kernels.size(), 1u);
  EXPECT_EQ(manifest.kernels[0], "Good");
  ASSERT_EQ(manifest.capabilities.size(), 3u);
  EXPECT_EQ(manifest.capabilities[0].id, "tenon.ops/1");
  EXPECT_EQ(manifest.capabilities[0].layout_hash, TENON_HASH_OPS);
  EXPECT_EQ(manifest.capabilities[1].id, "vendor.future/3");
  EXPECT_EQ(manifest.capabilities[2].id, "tenon.kernels/1");
  EXPECT_EQ(manifest.capabilities[2].layout_hash, TENON_HASH_KERNELS);
  ASSERT_EQ(manifest.options.size(), 4u);
  EXPECT_EQ(manifest.options[0].key, "greeting");
  EXPECT_EQ(manifest.options[0].default_value, "hello");
  EXPECT_EQ(manifest.options[2].type, "float");
}

TEST(Manifest, OfAVariantThatCannotRunHereSaysWhatItsSiblingProvides) {
  LoadReport report;
  const auto inspection = Inspect(FixturePath("variant_beyond"), &report);
  ASSERT_TRUE(inspection.has_value() && inspection->manifest.has_value()) << report.text;
  EXPECT_EQ(inspection->manifest->cpu_features, (std::vector<std::string>{"x86-64-v2", "tenon_no_such_feature"}));
  EXPECT_EQ(inspection->manifest->ops, std::vector<std::string>{"Varied"});
}

TEST(Manifest, ALibraryWithoutOneIsNoError) {
  LoadReport report;
  const auto inspection = Inspect(FixturePath("bare"), &report);
  ASSERT_TRUE(inspection.has_value());
  EXPECT_FALSE(inspection->manifest.has_value());
}

TEST(Manifest, AFileBesideTheLibraryWinsOverTheNote) {
  const TemporaryFolder folder;
  const std::string path = folder.Copy("good");
  std::string own = kLeast;
  own.replace(own.find("a.b"), 3, "test.good");
  folder.Write("good.so.json", own);
  LoadReport report;
  const auto inspection = Inspect(path, &report);
  ASSERT_TRUE(inspection.has_value() && inspection->manifest.has_value()) << report.text;
  EXPECT_EQ(inspection->manifest->id, "test.good");
  EXPECT_EQ(inspection->manifest->layout_hash, 0xffu);

  folder.Write("good.so.json", kLeast);
  EXPECT_FALSE(Inspect(path, &report).has_value()) << "it would stand for another package";
  EXPECT_EQ(report.reason, Reason::kManifestMismatch);
  EXPECT_EQ(report.text, "the manifest in " + path + ".json says 'a.b', the library's own says 'test.good'");

  folder.Write("good.so.json", "{");
  EXPECT_FALSE(Inspect(path, &report).has_value());
  EXPECT_EQ(report.reason, Reason::kBadManifest);
  EXPECT_EQ(report.text, "the manifest in " + path + ".json is not valid: it is not JSON");
  EXPECT_EQ(report.hint, "correct or remove that file");
}

TEST(Manifest, AFolderOrAHugeFileBesideTheLibraryIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.Copy("good");
  std::filesystem::create_directory(path + ".json");
  LoadReport report;
  EXPECT_FALSE(Inspect(path, &report).has_value());
  EXPECT_EQ(report.reason, Reason::kBadManifest);
  std::filesystem::remove(path + ".json");
  folder.Write("good.so.json", "");
  std::filesystem::resize_file(path + ".json", kMaxManifestBytes + 1);  // a hole; takes no space
  EXPECT_FALSE(Inspect(path, &report).has_value());
  EXPECT_EQ(report.reason, Reason::kBadManifest);
}

std::string ErrorOf(const std::string& json) {
  const Result<Manifest> result = ParseManifest(json);
  return result.ok() ? "ok" : std::string(result.status().message());
}

std::string Changed(const std::string& from, const std::string& to) {
  std::string text = kLeast;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, SaysWhichGraphsItsPassesAreFor) {
  EXPECT_EQ(ParseManifest(kLeast)->pass_ops, std::nullopt);
  const auto with = [](const std::string& provides) {
    return Changed("\"abi\"", "\"provides\": " + provides + ", \"abi\"");
  };
  EXPECT_EQ(ParseManifest(with(R"({"pass_ops": []})"))->pass_ops, std::vector<std::string>());
  EXPECT_EQ(ParseManifest(with(R"({"pass_ops": ["Sum", "*"]})"))->pass_ops, (std::vector<std::string>{"Sum", "*"}));
  EXPECT_EQ(ErrorOf(with(R"({"pass_ops": 3})")), "'provides.pass_ops' must be a list");
}

TEST(Manifest, NamesTheMemberThatIsWrong) {
  EXPECT_EQ(ErrorOf(kLeast), "ok");
  EXPECT_EQ(ErrorOf(""), "it is not JSON");
  EXPECT_EQ(ErrorOf("[]"), "'' must be an object");
  EXPECT_EQ(ErrorOf("{}"), "'tenon_manifest' must be given");
  EXPECT_EQ(ErrorOf(Changed("\"a.b\"", "3")), "'id' must be a string");
  EXPECT_EQ(ErrorOf(Changed("\"a.b\"", "\"\"")), "'id' is empty");
  EXPECT_EQ(ErrorOf(Changed("\"a.b\"", "\"\xff\"")), "it is not JSON");
  EXPECT_EQ(ErrorOf(Changed("\"major\": 0", "\"major\": -1")),
            "'abi.major' must be a whole number from 0 to 4294967295");
  EXPECT_EQ(ErrorOf(Changed("\"major\": 0", "\"major\": 18446744073709551615")),
            "'abi.major' must be a whole number from 0 to 4294967295");
  EXPECT_EQ(ErrorOf(Changed("00ff", "xyz")), "'abi.layout_hash' must be at most 16 hexadecimal digits");
  EXPECT_EQ(ErrorOf(Changed("00ff", "00112233445566778")), "'abi.layout_hash' must be at most 16 hexadecimal digits");
  EXPECT_EQ(ErrorOf(Changed("{\"tenon", "{\"libraries\": [1], \"tenon")), "'libraries' must be a list of strings");
  EXPECT_EQ(ErrorOf(Changed("{\"tenon", "{\"provides\": [], \"tenon")), "'provides' must be an object");
  EXPECT_EQ(ErrorOf(Changed("{\"tenon", "{\"provides\": {\"kernels\": [{\"op\": \"A\"}]}, \"tenon")),
            "'provides.kernels' must be a list of strings");
  EXPECT_EQ(ErrorOf(Changed("{\"tenon", "{\"options\": [{\"key\": \"k\", \"type\": \"list\"}], \"tenon")),
            "'options.type' must be string, int, float or bool");
}

TEST(Manifest, OfALaterFormatIsRefusedAndUnknownMembersAreIgnored) {
  EXPECT_EQ(ErrorOf(Changed("\"tenon_manifest\": 1", "\"tenon_manifest\": 2")), "its format is 2; this host reads 1");
  EXPECT_EQ(ErrorOf(Changed("{\"tenon", "{\"new\": {\"x\": [1, null]}, \"tenon")), "ok");
}

TEST(Manifest, DeepNestingEndsInAnErrorAndNotInTheStack) {
  std::string deep = "{\"x\": ";
  deep += std::string(2000000, '[') + std::string(2000000, ']') + "}";
  EXPECT_EQ(ErrorOf(deep), "it is nested more than 16 levels deep");
  EXPECT_EQ(ErrorOf(std::string(2000000, '[')), "it is nested more than 16 levels deep");
}

}  // namespace
}  // namespace tenon::plugins::manifest_test
