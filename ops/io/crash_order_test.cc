// SPDX-License-Identifier: Apache-2.0
// The power goes at every moment of saving, of merging two shards, of recovering, and of what is done when one of these
// fails, and the disk comes back with any of the changes that no sync had put in order (the model stands in
// tests/fakes/crash_disk.h): restoring then gives the checkpoint that was there or the one that was written, whole, and
// the next save works. Covers J6.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <tuple>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"
#include "tests/fakes/crash_disk.h"

namespace tenon::ops {
extern const tenon_kernel_registration kSaveV2Kernel, kRestoreV2Kernel, kMergeV2CheckpointsKernel;
}  // namespace tenon::ops

namespace tenon::ops::crash_order_test {
namespace {

using fakes::CrashDisk;
using testing::KernelRunner;
using testing::Make;
using testing::Outcome;
using testing::Tensor;
using testing::Values;
using Contents = CrashDisk::Contents;

// What restoring gives: a checkpoint holds one number under two names, which must be equal; kNone: there is no
// checkpoint.
constexpr int kNone = -1;

Tensor Text(const std::vector<std::string>& values) {
  return testing::Strings({static_cast<int64_t>(values.size())}, values);
}
Tensor Number(int value) { return Make<int32_t>({2}, {value, value}); }

Outcome Save(const std::string& prefix, const std::vector<std::string>& names, int value) {
  const Tensor p = testing::Strings({}, {prefix}), n = Text(names), s = Text(std::vector<std::string>(names.size())),
               tensor = Number(value);
  std::vector<const Tensor*> inputs = {&p, &n, &s};
  for (size_t i = 0; i < names.size(); ++i) inputs.push_back(&tensor);
  return KernelRunner().Run(kSaveV2Kernel, {}, inputs);
}

// Two parts in a folder of their own become one checkpoint of two shards.
Outcome SaveInTwo(const std::string& prefix, int value) {
  const std::vector<std::string> parts = {prefix + "_temp/a", prefix + "_temp/b"};
  if (Outcome outcome = Save(parts[0], {"a"}, value); !outcome.ok()) return outcome;
  if (Outcome outcome = Save(parts[1], {"b"}, value); !outcome.ok()) return outcome;
  const Tensor from = Text(parts), to = testing::Strings({}, {prefix});
  return KernelRunner().Run(kMergeV2CheckpointsKernel,
                            {"", {{"delete_old_dirs", true}, {"allow_missing_files", false}}}, {&from, &to});
}

using Writer = std::function<Outcome(int value)>;
Outcome InOne(int value) { return Save("d/m", {"a", "b"}, value); }
Outcome InTwo(int value) { return SaveInTwo("d/m", value); }

struct Restored {
  int value = kNone;
  std::string problem;
};
Restored Restore() {
  const Tensor p = testing::Strings({}, {"d/m"}), n = Text({"a", "b"}), s = Text({"", ""});
  KernelRunner step;
  const Outcome outcome = step.Run(kRestoreV2Kernel, {"", {}, {}, {TENON_DT_INT32, TENON_DT_INT32}}, {&p, &n, &s});
  const bool none = outcome.code == TENON_NOT_FOUND && outcome.message.starts_with("there is no checkpoint");
  if (!outcome.ok()) return {kNone, none ? "" : outcome.message};
  const std::vector<int32_t> a = Values<int32_t>(step.outputs[0]), b = Values<int32_t>(step.outputs[1]);
  return {a[0], a == b && a[0] == a[1] ? "" : "half of one and half of another"};
}

std::string Listing(const Contents& contents) {
  std::string text;
  for (const auto& [path, entry] : contents) text += " " + path + "(" + std::to_string(entry.bytes.size()) + ")";
  return text;
}

class CrashOrder : public ::testing::Test {
 protected:
  CrashOrder() { testing::Offer(TENON_EXTENSION_FILES, CrashDisk::Files()); }
  ~CrashOrder() override {
    testing::Offer(TENON_EXTENSION_FILES, nullptr);
    CrashDisk::Current() = nullptr;
  }

  // A disk after `write` has saved this value into an empty folder, and all is durable.
  static Contents With(const Writer& write, int value) {
    CrashDisk disk(Contents{{"d", {true, ""}}});
    CrashDisk::Current() = &disk;
    if (value != kNone) {
      EXPECT_TRUE(write(value).ok());
    }
    return disk.Now();
  }

  // All that a crash could leave while `write` saves this value over `before`, whose change number fail_at fails.
  // out_finished: there were fewer.
  static std::set<Contents> Crashed(const Contents& before, const Writer& write, int value, int fail_at = 0,
                                    bool* out_finished = nullptr) {
    CrashDisk disk(before);
    CrashDisk::Current() = &disk;
    disk.fail_at = fail_at;
    const Outcome outcome = write(value);
    const bool failed = fail_at != 0 && disk.changes >= fail_at;
    if (fail_at == 0) {
      EXPECT_TRUE(outcome.ok()) << outcome.message;
    }
    if (out_finished != nullptr) *out_finished = !failed;
    return std::move(disk.possible);
  }

  // What stands there is one of these two, whole, and can be written over by `write`.
  void Expect(const Contents& contents, int one, int other, const Writer& write) {
    ++states_;
    CrashDisk disk(contents);
    CrashDisk::Current() = &disk;
    const Restored found = Restore();
    EXPECT_EQ(found.problem, "") << "of" << Listing(contents);
    EXPECT_TRUE(found.value == one || found.value == other) << found.value << " of" << Listing(contents);
    seen_.insert(found.value);
    const Outcome again = write(99);
    EXPECT_TRUE(again.ok()) << again.message << " of" << Listing(contents);
    EXPECT_EQ(Restore().value, 99) << "of" << Listing(contents);
  }
  void ExpectAll(const std::set<Contents>& all, int one, int other, const Writer& write) {
    for (Contents contents : all) {
      std::erase_if(contents, [](const auto& file) {
        return file.first.ends_with(".lock");
      });  // which nobody holds after a crash
      if (HasFailure()) return;
      if (known_.emplace(contents, one, other).second) Expect(contents, one, other, write);
    }
  }

  int states_ = 0;
  std::set<int> seen_;
  std::set<std::tuple<Contents, int, int>> known_;
};

struct Case {
  const char* name;
  Writer before, write;
  int value;  // before
};
const Case kCases[] = {{"a save", InOne, InOne, kNone},          {"a save over another", InOne, InOne, 1},
                       {"two shards", InTwo, InTwo, kNone},      {"two shards over two", InTwo, InTwo, 1},
                       {"two shards over one", InOne, InTwo, 1}, {"a save over two shards", InTwo, InOne, 1}};

TEST_F(CrashOrder, OfSavingLeavesTheOldOrTheNew) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    seen_.clear();
    known_.clear();
    const Contents before = With(one.before, one.value);
    ExpectAll(Crashed(before, one.write, 2), one.value, 2, one.write);
    EXPECT_EQ(seen_, (std::set<int>{one.value, 2}));
  }
  std::printf("%d states of the disk\n", states_);
}

// Each state that a crash leaves is where another writer begins, which crashes too.
TEST_F(CrashOrder, OfRecoveringLeavesWhatWasThereOrTheNew) {
  std::set<Contents> starts;
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    for (Contents start : Crashed(With(one.before, one.value), one.write, 2)) {
      std::erase_if(start, [](const auto& file) { return file.first.ends_with(".lock"); });
      if (!starts.insert(start).second) continue;
      CrashDisk disk(start);
      CrashDisk::Current() = &disk;
      const Restored there = Restore();
      ExpectAll(Crashed(start, InOne, 3), there.value, 3, InOne);
      if (HasFailure()) return;
    }
  }
  std::printf("%d states of the disk\n", states_);
}

TEST_F(CrashOrder, AfterAFailureLeavesTheOldOrTheNew) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const Contents before = With(one.before, one.value);
    bool finished = false;
    for (int fail = 1; !finished && !HasFailure(); ++fail) {
      SCOPED_TRACE("change " + std::to_string(fail) + " fails");
      ExpectAll(Crashed(before, one.write, 2, fail, &finished), one.value, 2, one.write);
    }
  }
  std::printf("%d states of the disk\n", states_);
}

}  // namespace
}  // namespace tenon::ops::crash_order_test
