// SPDX-License-Identifier: Apache-2.0
#include "plugins/loader.h"
// Covers A11.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::loader_test {
namespace {

LoaderOptions Only(std::vector<std::string> paths) {
  LoaderOptions options;
  options.search.paths = std::move(paths);
  options.search.explicit_only = true;
  return options;
}

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() { HostLog().clear(); }

  // The report of a library that must not load when its path is named.
  LoadReport Refused(const std::string& path, const OptionList& options = {}) {
    Loader loader(&TestHost(), Only({}));
    const OpenResult result = loader.OpenFile(path, options);
    EXPECT_EQ(result.plugin, nullptr) << path;
    EXPECT_FALSE(result.report.text.empty());
    EXPECT_FALSE(result.report.hint.empty());
    EXPECT_TRUE(loader.loaded().empty());
    return result.report;
  }
  void ExpectRefused(const std::string& fixture, Reason reason, const std::string& text, const std::string& hint) {
    const LoadReport report = Refused(FixturePath(fixture));
    EXPECT_EQ(report.path, FixturePath(fixture));
    EXPECT_EQ(report.outcome, Outcome::kRejected) << fixture;
    EXPECT_EQ(ReasonName(report.reason), ReasonName(reason)) << fixture;
    EXPECT_EQ(report.text, text);
    EXPECT_EQ(report.hint, hint);
  }

  static LoadReport ReportOf(const Loader& loader, const std::string& path) {
    for (const LoadReport& report : loader.reports()) {
      if (report.path == path) return report;
    }
    ADD_FAILURE() << "no report of " << path;
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(LoaderTest, OpensAPluginWhenItIsNeededAndUnloadsIt) {
  Loader loader(&TestHost(), Only({FixturePath("good")}));
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_EQ(loader.packages()[0]->manifest->ops, std::vector<std::string>{"Good"});
  EXPECT_TRUE(loader.loaded().empty());
  EXPECT_TRUE(HostLog().empty());

  const OpenResult opened = loader.Open("test.good", {{"greeting", "hi"}});
  ASSERT_NE(opened.plugin, nullptr) << opened.report.text;
  EXPECT_EQ(opened.report.outcome, Outcome::kLoaded);
  EXPECT_EQ(opened.report.reason, Reason::kOk);
  EXPECT_EQ(opened.report.version, "1.2.3");
  EXPECT_EQ(opened.report.op_count, 1u);
  EXPECT_EQ(opened.report.kernel_count, 1u);
  EXPECT_EQ(opened.report.device_count, 0u);
  EXPECT_EQ(opened.report.ignored_capabilities, std::vector<std::string>{"vendor.future/3"});
  EXPECT_EQ(HostLog(), (std::vector<std::string>{"greeting", "hi", "ratio", "0.5", "loud", "false"}));
  EXPECT_NE(opened.plugin->Capability(TENON_CAPABILITY_OPS), nullptr);
  EXPECT_EQ(opened.plugin->Capability(TENON_CAPABILITY_DEVICE), nullptr);
  EXPECT_NE(opened.plugin->self(), nullptr);

  const OpenResult again = loader.Open("test.good");
  EXPECT_EQ(again.plugin, opened.plugin);
  EXPECT_EQ(again.report.outcome, Outcome::kAlreadyLoaded);

  HostLog().clear();
  EXPECT_TRUE(loader.Unload("test.good", nullptr).ok());
  EXPECT_EQ(HostLog(), std::vector<std::string>{"unloaded"});
  EXPECT_TRUE(loader.loaded().empty());
  EXPECT_EQ(ReportOf(loader, FixturePath("good")).outcome, Outcome::kUnloaded);
  EXPECT_NE(loader.Open("test.good").plugin, nullptr);
}

TEST_F(LoaderTest, RefusesToUnloadWhileObjectsLive) {
  Loader loader(&TestHost(), Only({}));
  ASSERT_NE(loader.OpenFile(FixturePath("good")).plugin, nullptr);
  HostLog().clear();
  const Status status =
      loader.Unload("test.good", [] { return std::vector<std::string>{"session 1", "kernel of node 'a'"}; });
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "plugin 'test.good' (" + FixturePath("good") +
                "): it cannot be unloaded while 2 of its objects live: session 1, kernel of node 'a'; "
                "release them first");
  EXPECT_TRUE(HostLog().empty());
  EXPECT_EQ(loader.loaded().size(), 1u);
  EXPECT_TRUE(loader.Unload("test.good", [] { return std::vector<std::string>(); }).ok());
  EXPECT_EQ(loader.Unload("test.good", nullptr).message(), "plugin 'test.good': it is not loaded");
}

TEST_F(LoaderTest, NamesNoMoreThanAFewOfManyLiveObjects) {
  Loader loader(&TestHost(), Only({}));
  ASSERT_NE(loader.OpenFile(FixturePath("good")).plugin, nullptr);
  const Status status = loader.Unload("test.good", [] { return std::vector<std::string>(100, "x"); });
  EXPECT_NE(status.message().find("100 of its objects live: x, x, x, x, x, x, x, x and 92 more"), std::string::npos)
      << status.message();
}

TEST_F(LoaderTest, ItsEndUnloadsWhatIsStillLoaded) {
  {
    Loader loader(&TestHost(), Only({}));
    ASSERT_NE(loader.OpenFile(FixturePath("good")).plugin, nullptr);
    HostLog().clear();
  }
  EXPECT_EQ(HostLog(), std::vector<std::string>{"unloaded"});
}

TEST_F(LoaderTest, TwoLoadersLoadTheSameLibraryIndependently) {
  Loader first(&TestHost(), Only({})), second(&TestHost(), Only({}));
  const OpenResult a = first.OpenFile(FixturePath("good"));
  const OpenResult b = second.OpenFile(FixturePath("good"));
  EXPECT_EQ(a.report.outcome, Outcome::kLoaded);
  EXPECT_EQ(b.report.outcome, Outcome::kLoaded);
  EXPECT_TRUE(first.Unload("test.good", nullptr).ok());
  EXPECT_EQ(second.loaded().size(), 1u);
}

// ---- Each fault, its code, its words ----

TEST_F(LoaderTest, SaysThatOtherHeadersWereUsed) {
  const LoadReport report = Refused(FixturePath("layout"));
  EXPECT_EQ(report.reason, Reason::kLayout);
  EXPECT_EQ(report.text.substr(0, 33), "its layout hash is 0x1234, this h");
  EXPECT_EQ(
      report.hint,
      "until ABI 1.0 both must be built from headers that agree on what the plugin brings; build the plugin again");
}

TEST_F(LoaderTest, SaysThatTheMajorVersionDiffers) {
  ExpectRefused("major", Reason::kAbiMajor, "it was built for ABI 7.3, this host has 0.1",
                "build it with the headers of ABI 0");
  ExpectRefused("raw_major", Reason::kAbiMajor, "it was built for ABI 9.1, this host has 0.1",
                "build it with the headers of ABI 0");
}

TEST_F(LoaderTest, SaysWhatIsWrongWithADescriptor) {
  ExpectRefused("must_understand", Reason::kMustUnderstand,
                "it asks the host to understand bits 0x12, which are unknown here",
                "use a newer host, or an older version of the plugin");
  ExpectRefused("short", Reason::kBadDescriptor,
                StrCat("its descriptor claims 64 bytes; the least is ", offsetof(tenon_plugin, understood)),
                "use TENON_PLUGIN");
  ExpectRefused("no_load", Reason::kBadDescriptor, "its load or unload is NULL", "use TENON_PLUGIN");
  ExpectRefused("null_table", Reason::kBadDescriptor, "the table of capability tenon.ops/1 is NULL", "give the table");
  ExpectRefused("refuses", Reason::kQueryRejected, "not on a Friday", "the text is the plugin's own; ask its vendor");
  ExpectRefused("throws", Reason::kQueryRejected, "tenon_plugin_query threw an exception",
                "nothing may be thrown across the C ABI; correct the plugin");
}

TEST_F(LoaderTest, SaysThatALibraryProvidesNothing) {
  const std::string hint = "known ids are tenon.ops/1 and its like in tenon/abi.h";
  ExpectRefused("nothing", Reason::kNoCapability, "it provides nothing", hint);
  ExpectRefused("unknown_capability", Reason::kNoCapability,
                "it provides nothing that this host knows, only vendor.future/3, tenon.ops/2", hint);
}

TEST_F(LoaderTest, SaysWhatTheSystemCouldNotFind) {
  ExpectRefused(
      "missing_symbol", Reason::kMissingSymbol,
      FixturePath("missing_symbol") + ": undefined symbol: tenon_test_defined_nowhere",
      "link the library that defines tenon_test_defined_nowhere, or build with -Wl,--no-undefined to find out why");
  ExpectRefused("missing_library", Reason::kMissingLibrary,
                "libtenon_test_absent.so: cannot open shared object file: No such file or directory",
                "install libtenon_test_absent.so, or put it where the system looks for libraries");
  ExpectRefused("no_entry", Reason::kNoEntryPoint, "it does not export tenon_plugin_query",
                "use TENON_PLUGIN of tenon/plugin.h once, and build with tenon_add_plugin");
}

TEST_F(LoaderTest, RefusesFilesThatAreNoLibraries) {
  const LoadReport text = Refused(folder_.Write("text.so", "hello"));
  EXPECT_EQ(text.reason, Reason::kNotALibrary);
  EXPECT_EQ(text.hint, "name a shared library that tenon_add_plugin built");
  const std::string bytes = ReadAll(FixturePath("good"));
  const LoadReport cut = Refused(folder_.Write("cut.so", bytes.substr(0, bytes.size() / 2)));
  EXPECT_EQ(cut.reason, Reason::kDamaged);
  EXPECT_EQ(cut.hint, "build or copy the library again");
  EXPECT_EQ(Refused("bare.so").reason, Reason::kBarePath);
  EXPECT_EQ(Refused(folder_.At("none.so")).reason, Reason::kNotFound);
}

// Both end the process when they are opened.
TEST_F(LoaderTest, OpensNothingThatIsNoPluginOrIsOfAnotherFramework) {
  ExpectRefused("no_entry_traps", Reason::kNoEntryPoint, "it does not export tenon_plugin_query",
                "use TENON_PLUGIN of tenon/plugin.h once, and build with tenon_add_plugin");
  const LoadReport report = Refused(FixturePath("framework"));
  EXPECT_EQ(report.reason, Reason::kForbiddenLibrary);
  EXPECT_EQ(report.missing, "libtensorflow_of_a_test.so");
  EXPECT_EQ(report.text, "it needs libtensorflow_of_a_test.so, so it is a part of that framework");
}

TEST_F(LoaderTest, RefusesWhatThisProcessAloneHappensToDefine) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED LOUDLY: the sanitizer's library needs libm, and so everything does";
#endif
  const LoadReport report = Refused(FixturePath("of_the_process"));
  EXPECT_EQ(report.reason, Reason::kMissingSymbol) << report.text;
  EXPECT_EQ(report.missing, "cos");
}

TEST_F(LoaderTest, RefusesTheFullProtobufUnlessAllowed) {
  const LoadReport report = Refused(FixturePath("protobuf"));
  EXPECT_EQ(report.reason, Reason::kForbiddenLibrary);
  EXPECT_TRUE(report.missing.starts_with("libprotobuf.so")) << report.missing;
  EXPECT_EQ(report.hint, "link libprotobuf-lite or a static, hidden protobuf; or allow protobuf in the load options");
  LoaderOptions options = Only({});
  options.allow_protobuf = true;
  Loader loader(&TestHost(), options);
  EXPECT_EQ(loader.OpenFile(FixturePath("protobuf")).report.outcome, Outcome::kLoaded);
}

TEST_F(LoaderTest, RefusesCpuFeaturesBeforeAConstructorCanTrap) {
  const LoadReport report = Refused(FixturePath("variant_beyond"));  // opening it would end this test
  EXPECT_EQ(report.reason, Reason::kCpuFeature);
  EXPECT_EQ(report.missing, "tenon_no_such_feature");
  EXPECT_EQ(report.id, "test.variant");
  EXPECT_EQ(report.text, "it needs the CPU feature tenon_no_such_feature, which this machine lacks");
  EXPECT_EQ(report.hint, "use a variant of the package for this machine");
}

TEST_F(LoaderTest, RefusesAManifestThatWasWrittenForAnotherHostBeforeOpening) {
  const std::string path = folder_.Copy("missing_symbol");  // opening it would give another reason
  const auto manifest = [](int major, const char* hash, const char* id) {
    return StrCat("{\"tenon_manifest\": 1, \"id\": \"", id, "\", \"version\": \"1\", \"abi\": {\"major\": ", major,
                  ", \"minor\": 0, \"layout_hash\": \"", hash, "\"}}");
  };
  folder_.Write("missing_symbol.so.json", manifest(4, "0", "a.b"));
  EXPECT_EQ(Refused(path).reason, Reason::kAbiMajor);
  folder_.Write("missing_symbol.so.json", manifest(0, "7", "a.b"));
  EXPECT_EQ(Refused(path).reason, Reason::kLayout);
  EXPECT_EQ(Refused(path).id, "a.b");
}

TEST_F(LoaderTest, RefusesALibraryThatIsNotWhatItsManifestSays) {
  const std::string path = folder_.Copy("good");
  std::ostringstream hash;
  hash << std::hex << TENON_LAYOUT_HASH;
  folder_.Write("good.so.json", StrCat("{\"tenon_manifest\": 1, \"id\": \"test.other\", \"version\": \"1\", \"abi\": "
                                       "{\"major\": 0, \"minor\": 0, \"layout_hash\": \"", hash.str(), "\"}}"));
  const LoadReport report = Refused(path);
  EXPECT_EQ(report.reason, Reason::kManifestMismatch);
  EXPECT_EQ(report.text, "the manifest in " + path + ".json says 'test.other', the library's own says 'test.good'");
  EXPECT_TRUE(HostLog().empty());
}

// ---- Options and load() ----

TEST_F(LoaderTest, AnUnknownOptionIsAnErrorThatNamesTheKnownOnes) {
  const LoadReport report = Refused(FixturePath("good"), {{"greting", "x"}});
  EXPECT_EQ(report.reason, Reason::kUnknownOption);
  EXPECT_EQ(report.hint, "known options: greeting, count, ratio, loud; did you mean 'greeting'?");
  EXPECT_EQ(Refused(FixturePath("good"), {{"count", "many"}}).reason, Reason::kBadOption);
}

TEST_F(LoaderTest, AFailureOfLoadIsReportedAndCanBeTriedAgain) {
  Loader loader(&TestHost(), Only({}));
  const OpenResult failed = loader.OpenFile(FixturePath("good"), {{"greeting", "fail"}});
  EXPECT_EQ(failed.plugin, nullptr);
  EXPECT_EQ(failed.report.outcome, Outcome::kRejected);
  EXPECT_EQ(failed.report.reason, Reason::kLoadFailed);
  EXPECT_EQ(failed.report.text, "its load() failed: told to fail");
  EXPECT_EQ(loader.OpenFile(FixturePath("good")).report.outcome, Outcome::kLoaded);
}

// ---- Scan: variants, duplicates, bad neighbours ----

TEST_F(LoaderTest, TakesTheBestVariantThatThisMachineRuns) {
  for (const char* name : {"variant_v1", "variant_v2", "variant_old", "variant_beyond"}) folder_.Link(name);
  Loader loader(&TestHost(), Only({folder_.path()}));
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_EQ(loader.packages()[0]->path, folder_.At("variant_v2.so"));
  const LoadReport lesser = ReportOf(loader, folder_.At("variant_v1.so"));
  EXPECT_EQ(lesser.outcome, Outcome::kNotChosen);
  EXPECT_EQ(lesser.reason, Reason::kBetterVariant);
  EXPECT_EQ(lesser.text, "this machine runs a better variant: " + folder_.At("variant_v2.so"));
  const LoadReport older = ReportOf(loader, folder_.At("variant_old.so"));
  EXPECT_EQ(older.outcome, Outcome::kNotChosen);
  EXPECT_EQ(older.reason, Reason::kShadowed);
  EXPECT_EQ(older.version, "1.10.0");
  const LoadReport beyond = ReportOf(loader, folder_.At("variant_beyond.so"));
  EXPECT_EQ(beyond.outcome, Outcome::kNotChosen);
  EXPECT_EQ(beyond.reason, Reason::kCpuFeature);
  EXPECT_EQ(beyond.missing, "tenon_no_such_feature");
  EXPECT_EQ(loader.Open("test.variant").report.outcome, Outcome::kLoaded);

  // Another variant of a loaded package, named.
  const OpenResult other = loader.OpenFile(folder_.At("variant_v1.so"));
  EXPECT_EQ(other.plugin, nullptr);
  EXPECT_EQ(other.report.outcome, Outcome::kNotChosen);
  EXPECT_EQ(other.report.reason, Reason::kDuplicateId);
}

TEST_F(LoaderTest, AVariantWithoutASiblingForThisMachineIsRejected) {
  folder_.Link("variant_beyond");
  Loader loader(&TestHost(), Only({folder_.path()}));
  loader.Scan();
  EXPECT_TRUE(loader.packages().empty());
  EXPECT_EQ(ReportOf(loader, folder_.At("variant_beyond.so")).outcome, Outcome::kRejected);
  const OpenResult result = loader.Open("test.variant");
  EXPECT_EQ(result.plugin, nullptr);
  EXPECT_EQ(result.report.reason, Reason::kCpuFeature);
  EXPECT_EQ(loader.ExplainMissingOp("Varied"),
            "package 'test.variant' (" + folder_.At("variant_beyond.so") +
                ") has it, but was rejected: it needs the CPU feature tenon_no_such_feature, which this machine lacks");
}

TEST_F(LoaderTest, AnEarlierFolderShadowsALaterOne) {
  const TemporaryFolder later;
  folder_.Link("variant_v1");
  later.Link("variant_v2");
  Loader loader(&TestHost(), Only({folder_.path(), later.path()}));
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_EQ(loader.packages()[0]->path, folder_.At("variant_v1.so"));
  EXPECT_EQ(ReportOf(loader, later.At("variant_v2.so")).reason, Reason::kShadowed);
}

TEST_F(LoaderTest, ABadLibraryNeverStopsTheOthers) {
  folder_.Write("a_text.so", "not a library");
  folder_.Link("missing_symbol", "b.so");
  folder_.Copy("good", "c.so");
  folder_.Write("c.so.json", "{");
  std::filesystem::create_directory(folder_.At("d.so"));
  folder_.Link("good", "z_good.so");
  Loader loader(&TestHost(), Only({folder_.path()}));
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_EQ(loader.packages()[0]->path, folder_.At("z_good.so"));
  EXPECT_EQ(ReportOf(loader, folder_.At("a_text.so")).reason, Reason::kNotALibrary);
  EXPECT_EQ(ReportOf(loader, folder_.At("b.so")).reason, Reason::kNoManifest);
  EXPECT_EQ(ReportOf(loader, folder_.At("b.so")).hint, "name the file to open it, or build it with tenon_add_plugin");
  EXPECT_EQ(ReportOf(loader, folder_.At("c.so")).reason, Reason::kBadManifest);
  EXPECT_EQ(ReportOf(loader, folder_.At("d.so")).reason, Reason::kUnreadable);
  EXPECT_EQ(loader.Open("test.good").report.outcome, Outcome::kLoaded);
}

TEST_F(LoaderTest, ScanningAgainForgetsWhatWasPutRight) {
  const std::string path = folder_.Write("good.so", "not yet");
  Loader loader(&TestHost(), Only({folder_.path()}));
  loader.Scan();
  EXPECT_EQ(ReportOf(loader, path).reason, Reason::kNotALibrary);
  std::filesystem::remove(path);
  folder_.Copy("good");
  loader.Scan();
  EXPECT_TRUE(loader.reports().empty());
  EXPECT_EQ(loader.packages().size(), 1u);
}

TEST_F(LoaderTest, ALibraryWithoutAManifestLoadsByItsPath) {
  Loader loader(&TestHost(), Only({FixturePath("bare")}));
  loader.Scan();
  ASSERT_EQ(loader.packages().size(), 1u);
  EXPECT_TRUE(loader.packages()[0]->named);
  EXPECT_FALSE(loader.packages()[0]->manifest.has_value());
  const OpenResult result = loader.OpenFile(loader.packages()[0]->path);
  EXPECT_EQ(result.report.outcome, Outcome::kLoaded) << result.report.text;
  EXPECT_EQ(result.report.id, "test.good");
}

TEST_F(LoaderTest, ADisabledPackageIsNotOpened) {
  LoaderOptions options = Only({FixturePath("good")});
  options.disabled = {"test.good"};
  Loader loader(&TestHost(), options);
  loader.Scan();
  EXPECT_TRUE(loader.packages().empty());
  EXPECT_EQ(ReportOf(loader, FixturePath("good")).reason, Reason::kDisabled);
  EXPECT_EQ(loader.OpenFile(FixturePath("bare")).report.reason, Reason::kDisabled);  // learnt when it was opened
  EXPECT_TRUE(HostLog().empty());
}

TEST_F(LoaderTest, AnUnknownPackageIsAnErrorThatNamesTheKnownOnes) {
  Loader loader(&TestHost(), Only({FixturePath("good"), FixturePath("variant_v1")}));
  loader.Scan();
  const OpenResult result = loader.Open("test.god");
  EXPECT_EQ(result.report.reason, Reason::kNotFound);
  EXPECT_EQ(ToStatus(result.report).ToString(),
            "NOT_FOUND: plugin 'test.god' rejected: no package of that id was found; known packages: test.good, "
            "test.variant");
}

TEST_F(LoaderTest, KnowsWhichPackageHasAnOp) {
  Loader loader(&TestHost(), Only({FixturePath("good")}));
  loader.Scan();
  EXPECT_EQ(loader.ExplainMissingOp("Good"), "package 'test.good' has it (" + FixturePath("good") + ")");
  EXPECT_EQ(loader.ExplainMissingOp("Bad"), "");
  EXPECT_EQ(loader.Open("test.good", {{"greeting", "fail"}}).plugin, nullptr);
  EXPECT_EQ(loader.ExplainMissingOp("Good"), "package 'test.good' has it (" + FixturePath("good") +
                                                 "), but was rejected: its load() failed: told to fail");
}

// ---- Many times, many threads ----

struct Resources {
  size_t resident_pages = 0;
  size_t threads = 0;
  size_t descriptors = 0;
  size_t mappings = 0;  // of the fixture
};

Resources Measure() {
  Resources now;
  size_t all = 0;
  std::ifstream("/proc/self/statm") >> all >> now.resident_pages;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++now.threads;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++now.descriptors;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) now.mappings += line.ends_with("tenon_fixture_good.so");
  return now;
}

// A leak of 100 bytes a cycle would be seen.
void ExpectFlatMemory(const Resources& tenth, const Resources& last) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  (void)tenth, (void)last;  // freed memory is kept aside on purpose; the sanitizer looks for leaks itself
#else
  EXPECT_LE(last.resident_pages, tenth.resident_pages + 24);
#endif
}

TEST_F(LoaderTest, AThousandLoadsAndUnloadsLeaveNothingBehind) {
  Loader loader(&TestHost(), Only({FixturePath("good")}));
  loader.Scan();
  Resources tenth;
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_EQ(loader.Open("test.good").report.outcome, Outcome::kLoaded);
    ASSERT_TRUE(loader.Unload("test.good", nullptr).ok());
    HostLog().clear();
    if (i == 10) tenth = Measure();
  }
  const Resources last = Measure();
  EXPECT_EQ(last.threads, tenth.threads);
  EXPECT_EQ(last.descriptors, tenth.descriptors);
  EXPECT_GT(tenth.mappings, 0u);
  EXPECT_EQ(last.mappings, tenth.mappings);
  ExpectFlatMemory(tenth, last);
}

TEST_F(LoaderTest, AThousandRejectionsLeaveNothingBehind) {
  Loader loader(&TestHost(), Only({folder_.path()}));
  folder_.Link("variant_beyond", "a.so");
  folder_.Write("b.so", "text");
  Resources tenth;
  for (int i = 1; i <= 1000; ++i) {
    loader.Scan();
    ASSERT_EQ(loader.OpenFile(FixturePath("missing_symbol")).report.reason, Reason::kMissingSymbol);
    if (i == 10) tenth = Measure();
  }
  const Resources last = Measure();
  EXPECT_LE(loader.reports().size(), 3u);
  EXPECT_EQ(last.descriptors, tenth.descriptors);
  ExpectFlatMemory(tenth, last);
}

TEST_F(LoaderTest, ManyThreadsMayOpenAndUnload) {
  Loader shared(&TestHost(), Only({FixturePath("variant_v1")}));
  shared.Scan();
  std::vector<std::thread> threads;
  std::atomic<int> loaded{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Loader own(&TestHost(), Only({}));
      for (int i = 0; i < 50; ++i) {
        if (shared.Open("test.variant").report.outcome == Outcome::kLoaded) ++loaded;
        if (own.OpenFile(FixturePath("variant_v2")).plugin == nullptr) ADD_FAILURE();
        (void)shared.Unload("test.variant", nullptr);
        if (!own.Unload("test.variant", nullptr).ok()) ADD_FAILURE();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(loaded.load(), 0);
}

}  // namespace
}  // namespace tenon::plugins::loader_test
