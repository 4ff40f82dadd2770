// SPDX-License-Identifier: Apache-2.0
#include "plugins/elf.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "tests/fakes/plugins/fixture.h"

namespace tenon::plugins::elf_test {
namespace {

class Elf : public testing::Test {
 protected:
  // The report of a file that must be refused.
  LoadReport Refused(const std::string& path) {
    LoadReport report;
    EXPECT_FALSE(ReadElf(path, &report).has_value()) << path;
    EXPECT_EQ(report.path, path);
    EXPECT_EQ(report.outcome, Outcome::kRejected);
    EXPECT_FALSE(report.text.empty());
    EXPECT_FALSE(report.hint.empty());
    return report;
  }
  LoadReport RefusedBytes(const std::string& bytes) { return Refused(folder_.Write("x.so", bytes)); }

  // The section that holds our note, in the bytes of a library.
  static Elf64_Shdr* NoteSection(std::string& bytes) {
    auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
    auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type == SHT_NOTE && bytes.compare(sections[i].sh_offset + 12, 5, "Tenon") == 0)
        return &sections[i];
    }
    return nullptr;
  }

  TemporaryFolder folder_;
  const std::string good_ = ReadAll(FixturePath("good"));
};

TEST_F(Elf, FindsTheNoteAndTheNeededLibraries) {
  LoadReport report;
  const auto summary = ReadElf(FixturePath("good"), &report);
  ASSERT_TRUE(summary.has_value()) << report.text;
  ASSERT_TRUE(summary->note.has_value());
  EXPECT_EQ(summary->note->front(), '{');
  EXPECT_NE(summary->note->find("\"test.good\""), std::string::npos);
  const auto needy = ReadElf(FixturePath("missing_library"), &report);
  ASSERT_TRUE(needy.has_value());
  EXPECT_EQ(std::count(needy->needed.begin(), needy->needed.end(), "libtenon_test_absent.so"), 1);
  EXPECT_FALSE(needy->note.has_value());
}

TEST_F(Elf, FindsTheEntryAndWhatIsWantedOfOthers) {
  LoadReport report;
  EXPECT_TRUE(ReadElf(FixturePath("good"), &report)->has_entry);
  // (Sanitizers' builds leave the version of some names open.)
  const auto of_tests = [&](const char* fixture) {
    std::vector<std::string> names = ReadElf(FixturePath(fixture), &report)->wanted;
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("tenon_"); });
    return names;
  };
  EXPECT_EQ(of_tests("good"), std::vector<std::string>{});
  EXPECT_FALSE(ReadElf(FixturePath("no_entry"), &report)->has_entry);
  EXPECT_EQ(of_tests("missing_symbol"), std::vector<std::string>{"tenon_test_defined_nowhere"});
  EXPECT_TRUE(ReadElf(FixturePath("old_hash"), &report)->has_entry) << "System V's table of hashes";
}

TEST_F(Elf, SaysWhatAFileIsThatIsNoLibrary) {
  EXPECT_EQ(Refused(folder_.At("nowhere.so")).reason, Reason::kNotFound);
  EXPECT_EQ(RefusedBytes("").reason, Reason::kNotALibrary);
  EXPECT_EQ(RefusedBytes("\x7f").reason, Reason::kNotALibrary);
  EXPECT_EQ(RefusedBytes("#!/bin/sh\n").text, "it is not an ELF file");
  EXPECT_EQ(Refused(folder_.path()).reason, Reason::kUnreadable);
  const std::string pipe = folder_.At("pipe.so");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Refused(pipe).reason, Reason::kUnreadable);
  EXPECT_EQ(Refused("/dev/zero").reason, Reason::kUnreadable);
}

TEST_F(Elf, RefusesAnotherMachineAndAnotherKindOfFile) {
  std::string bytes = good_;
  reinterpret_cast<Elf64_Ehdr*>(bytes.data())->e_machine = EM_SPARCV9;
  EXPECT_EQ(RefusedBytes(bytes).reason, Reason::kWrongArchitecture);
  bytes = good_;
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(RefusedBytes(bytes).reason, Reason::kWrongArchitecture);
  EXPECT_EQ(RefusedBytes(bytes).text.find("it was built for another machine: 32 bits, little-endian, machine "), 0u);
  bytes = good_;
  bytes[EI_DATA] = ELFDATA2MSB;
  EXPECT_NE(RefusedBytes(bytes).text.find(": 64 bits, big-endian, "), std::string::npos);
  bytes = good_;
  reinterpret_cast<Elf64_Ehdr*>(bytes.data())->e_type = ET_EXEC;
  EXPECT_EQ(RefusedBytes(bytes).reason, Reason::kNotALibrary);
}

TEST_F(Elf, RefusesEveryFileThatIsCutOff) {
  ASSERT_GT(good_.size(), 4096u);
  for (size_t size = 4; size < good_.size(); size += 97) {
    const LoadReport report = RefusedBytes(good_.substr(0, size));
    ASSERT_EQ(report.reason, Reason::kDamaged) << size << " " << report.text;
  }
  EXPECT_EQ(RefusedBytes(good_.substr(0, good_.size() / 2)).hint, "build or copy the library again");
}

TEST_F(Elf, RefusesANoteThatLiesAboutItsSize) {
  for (const uint32_t size : {0xffffffffu, 0x7fffffffu, 0x10000u, 0xfffffffdu}) {
    for (const bool name : {true, false}) {
      std::string bytes = good_;
      Elf64_Shdr* section = NoteSection(bytes);
      ASSERT_NE(section, nullptr);
      std::memcpy(bytes.data() + section->sh_offset + (name ? 0 : 4), &size, sizeof(size));
      const LoadReport report = RefusedBytes(bytes);
      EXPECT_EQ(report.reason, Reason::kDamaged);
      EXPECT_EQ(report.text, "a note is longer than its section");
    }
  }
}

TEST_F(Elf, RefusesASectionThatLiesAboutItsPlace) {
  for (const uint64_t value : {UINT64_MAX, UINT64_MAX - 10, uint64_t{1} << 40, static_cast<uint64_t>(good_.size())}) {
    std::string bytes = good_;
    NoteSection(bytes)->sh_offset = value;
    EXPECT_EQ(RefusedBytes(bytes).reason, Reason::kDamaged) << value;
    bytes = good_;
    NoteSection(bytes)->sh_size = value;
    EXPECT_EQ(RefusedBytes(bytes).reason, Reason::kDamaged) << value;
  }
}

TEST_F(Elf, RefusesTwoManifests) {
  std::string bytes = good_;
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_NOTE) sections[i] = *NoteSection(bytes);
  }
  EXPECT_EQ(RefusedBytes(bytes).text, "it has two manifests");
}

TEST_F(Elf, ALibraryWithoutSectionsHasNoNote) {
  std::string bytes = good_;
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  header->e_shnum = 0;
  header->e_shoff = 0;
  LoadReport report;
  const auto summary = ReadElf(folder_.Write("x.so", bytes), &report);
  ASSERT_TRUE(summary.has_value());
  EXPECT_FALSE(summary->note.has_value());
}

// What a mutation does is not known; that it ends in a summary or a report, and reads nothing outside, is (sanitizers).
TEST_F(Elf, SurvivesAnyDamageToItsHeaders) {
  std::mt19937 random(20);
  size_t refused = 0, read = 0;
  std::string bytes = good_;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(good_.data());
  const size_t table = header->e_shoff;
  for (int i = 0; i < 6000; ++i) {
    std::string damaged = good_;
    for (int k = 0; k < 1 + i % 4; ++k) {
      // The headers, what follows on them (names, symbols, tables of hashes), the sections.
      const size_t at = random() % 3 == 0 ? random() % 1024
                        : random() % 2    ? random() % 4096
                                          : table + random() % (damaged.size() - table);
      damaged[at] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    }
    LoadReport report;
    const auto summary = ReadElf(folder_.Write("x.so", damaged), &report);
    if (summary) {
      ++read;
    } else {
      ++refused;
      ASSERT_NE(report.reason, Reason::kOk);
    }
  }
  EXPECT_GT(read, 100u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace tenon::plugins::elf_test
