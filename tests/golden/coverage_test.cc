// SPDX-License-Identifier: Apache-2.0
// ops/coverage.md says what there is: counted here from the built packages. TENON_WRITE_COVERAGE=1 writes the table,
// and without it this fails where the page is not true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "tenon/kernel.h"
#include "tests/golden/packages.h"

namespace tenon::golden {
namespace {

const std::string kPage = std::string(TENON_TEST_SOURCE_DIR) + "/ops/coverage.md";
constexpr std::string_view kBegin = "<!-- counted by golden_ops_test -->\n", kEnd = "<!-- end -->\n";

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
std::string_view Text(const tenon_span& span) { return {span.data, span.size}; }

// Of each op the devices that have a kernel for it; "" stands for the host, whatever the device.
using Kernels = std::map<std::string, std::set<std::string>, std::less<>>;

void AddKernels(const tenon_plugin* plugin, Kernels* kernels) {
  const auto* package = static_cast<const tenon_kernel_package*>(Capability(plugin, TENON_CAPABILITY_KERNELS));
  for (uint64_t i = 0; package != nullptr && i < package->count; ++i) {
    const tenon_kernel_registration& kernel = *package->registrations[i];
    (*kernels)[std::string(Text(kernel.op))].insert(std::string(Text(kernel.device_type)));
  }
}

struct Counts {
  int ops = 0, gradients = 0, shapes = 0, host = 0, cpu = 0, gpu = 0, tpu = 0, others = 0, engine = 0;
  void operator+=(const Counts& more) {
    ops += more.ops, gradients += more.gradients, shapes += more.shapes, host += more.host, cpu += more.cpu,
        gpu += more.gpu, tpu += more.tpu;
    others += more.others, engine += more.engine;
  }
  std::string Row(const std::string& name) const {
    std::string row = "| " + name + " |";
    for (int count : {ops, gradients, shapes, host, cpu, gpu, tpu, others, engine})
      row += " " + std::to_string(count) + " |";
    return row + "\n";
  }
};

Counts Count(const tenon_op_package& package, const Kernels& kernels) {
  Counts counts;
  for (uint64_t i = 0; i < package.count; ++i) {
    const tenon_op_definition& op = *package.definitions[i];
    const auto found = kernels.find(Text(op.name));
    const std::set<std::string> devices = found == kernels.end() ? std::set<std::string>() : found->second;
    // What the engine differentiates itself, it knows by these.
    constexpr uint64_t kByTheEngine = TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT |
                                      TENON_OP_NEXT_ITERATION | TENON_OP_CALL | TENON_OP_BRANCH | TENON_OP_WHILE |
                                      TENON_OP_GRADIENT;
    ++counts.ops;
    counts.gradients += op.gradient != nullptr || (op.traits & kByTheEngine) != 0;
    counts.shapes += op.shape != nullptr;
    counts.host += devices.contains("");
    counts.cpu += devices.contains("CPU");
    counts.gpu += devices.contains("GPU");
    counts.tpu += devices.contains("TPU");
    counts.others += devices.empty() && op.decompose != nullptr;
    counts.engine += devices.empty() && op.decompose == nullptr;
  }
  return counts;
}

std::string Table(bool* has_gpus) {
  Kernels kernels;
  std::istringstream devices(TENON_KERNEL_LIBRARIES);
  for (std::string path; std::getline(devices, path, ',');) AddKernels(OpenLibrary(path), &kernels);
  std::vector<std::string> names;
  std::istringstream packages(TENON_OPS_PACKAGES);
  for (std::string name; std::getline(packages, name, ',');) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) AddKernels(Open(name), &kernels);
  *has_gpus = std::any_of(kernels.begin(), kernels.end(), [](const auto& each) { return each.second.contains("GPU"); });
  std::string table =
      "| package | ops | with gradient | shape function | on the host | CPU | GPU | simulator | of other ops | by the "
      "engine |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  Counts all;
  for (const std::string& name : names) {
    const Counts counts =
        Count(*static_cast<const tenon_op_package*>(Capability(Open(name), TENON_CAPABILITY_OPS)), kernels);
    table += counts.Row(name);
    all += counts;
  }
  return table + all.Row("all");
}

// The table's lines without the column of GPUs.
std::string WithoutGpus(const std::string& table) {
  constexpr int kColumn = 7;
  std::string left;
  int bars = 0;
  for (const char c : table) {
    bars = c == '\n' ? 0 : bars + (c == '|');
    if (bars != kColumn) left += c;
  }
  return left;
}

TEST(Coverage, ThePageSaysWhatThePackagesHave) {
  bool has_gpus = false;
  const std::string page = Read(kPage), table = Table(&has_gpus);
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end)
      << kPage << " has not the lines between which the table stands";
  if (std::getenv("TENON_WRITE_COVERAGE") != nullptr) {
    ASSERT_TRUE(has_gpus) << "the page counts kernels of GPUs, and this build has none: it needs the toolkit of CUDA "
                             "or ROCm, or `make build GPU=1`";
    std::ofstream(kPage) << page.substr(0, begin) << kBegin << table << page.substr(end);
    return;
  }
  const std::string there = page.substr(begin + kBegin.size(), end - begin - kBegin.size());
  if (!has_gpus)
    std::fprintf(
        stderr,
        "without the column of GPUs: this build has no plugin of theirs (no toolkit of CUDA or ROCm was found)\n");
  EXPECT_EQ(has_gpus ? there : WithoutGpus(there), has_gpus ? table : WithoutGpus(table))
      << "run TENON_WRITE_COVERAGE=1 build/release/tests/bin/golden_ops_test --gtest_filter='Coverage.*'";
}

// The names in a part of the page: those that stand first in its items, which may go over several lines.
std::set<std::string> Named(const std::string& heading) {
  const std::string page = Read(kPage);
  const size_t begin = page.find("## " + heading + "\n");
  if (begin == std::string::npos) return {};
  const size_t end = page.find("\n## ", begin);
  const std::string part = page.substr(begin, end == std::string::npos ? end : end - begin);
  std::set<std::string> names;
  const std::regex name("`(\\w+)`");
  for (size_t at = part.find("\n- "); at != part.npos; at = part.find("\n- ", at + 1)) {
    const std::string list = part.substr(at, part.find(": ", at) - at);
    for (auto it = std::sregex_iterator(list.begin(), list.end(), name); it != std::sregex_iterator(); ++it)
      names.insert((*it)[1]);
  }
  return names;
}

TEST(Coverage, ThePageNamesWhatIsNotHere) {
  const std::set<std::string> absent = Named("Not here");
  EXPECT_FALSE(absent.empty());
  for (const std::string& name : absent) EXPECT_FALSE(Registry().Find(name).ok()) << name << " is here";
}

// Whose kernels only say why they do not run.
TEST(Coverage, ThePageNamesWhatIsRefused) {
  std::set<std::string> refused;
  for (const char* file : {"datasets.cc", "python.cc"}) {
    const std::string text = Read(std::string(TENON_TEST_SOURCE_DIR) + "/ops/dataset/refused/" + file);
    const std::regex registration("Registration<\\w+>\\(\"(\\w+)\"");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), registration); it != std::sregex_iterator(); ++it)
      refused.insert((*it)[1]);
  }
  EXPECT_FALSE(refused.empty());
  EXPECT_EQ(Named("Refused by name"), refused);
}

}  // namespace
}  // namespace tenon::golden
