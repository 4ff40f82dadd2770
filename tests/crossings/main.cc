// SPDX-License-Identifier: Apache-2.0
// crossings --seeds N --count N: programs that cross features, each in every manner; says where two manners differ.
//
// Programs run in processes of their own, so that one that crashes is a finding and the rest go on.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>

#include "tests/crossings/compare.h"
#include "tests/crossings/generate.h"
#include "tests/crossings/left_out.h"
#include "tests/crossings/shrink.h"
#include "tests/crossings/write.h"

namespace tenon::crossings {
namespace {

using Clock = std::chrono::steady_clock;

struct Choices {
  std::vector<uint32_t> seeds{1};
  uint32_t count = 100;
  uint64_t seconds = 0, deadline = 20000;
  int jobs = 2, shrunk = 3;
  std::vector<std::string> manners, without, features, without_features, plants;
  bool all = false, shrink = false, first = false, refusals = false, show = false, list = false, processes = false;
  std::string write, batch;
};

// What a worker says, in memory that it shares with the program that watches it.
struct Progress {
  std::atomic<uint32_t> next, done, findings, quick;
  std::atomic<bool> stop;
  struct Worker {
    std::atomic<uint32_t> seed;
    char manner[96];
  } workers[64];
};

class Work {
 public:
  explicit Work(const Choices& choices) : choices_(choices) {
    for (const Feature feature : AllFeatures()) {
      const std::string name = NameOf(feature);
      const auto has = [&](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      if (!(choices.features.empty() || has(choices.features)) || has(choices.without_features)) continue;
      if (choices.all || !IsLeftOut(name)) features_.insert(feature);
    }
    for (const Manner& manner : AllManners()) {
      const auto has = [&](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), manner.name) != names.end();
      };
      if (!(choices.manners.empty() || has(choices.manners)) || has(choices.without)) continue;
      if (!choices.processes && choices.manners.empty() &&
          (manner.where == Where::kShm || manner.where == Where::kGrpc))
        continue;
      if (choices.all || !choices.manners.empty() || !IsLeftOut(manner.name)) manners_.push_back(&manner);
    }
  }

  int Run() {
    if (choices_.list) return List();
    if (!choices_.plants.empty()) return Plants();
    SetDeadline(std::chrono::milliseconds(choices_.deadline));
    file_ = std::filesystem::temp_directory_path() / ("crossings_" + std::to_string(getpid()) + ".txt");
    progress_ = static_cast<Progress*>(
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    new (progress_) Progress();
    const auto begin = Clock::now();
    for (const uint32_t seed : choices_.seeds) {
      progress_->next = seed;
      end_ = seed + choices_.count;
      Spread(begin);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const uint32_t findings = Summarise();
    std::printf("%u programs in %zu manners, %.1f programs a second: %u with findings\n", progress_->done.load(),
                manners_.size(), progress_->done.load() / seconds, findings);
    std::filesystem::remove(file_);
    return findings == 0 ? 0 : 1;
  }

 private:
  int List() const {
    for (const Manner* manner : manners_) std::printf("%s: %s\n", manner->name.c_str(), manner->form.name().c_str());
    for (const Feature feature : features_) std::printf("feature %s\n", NameOf(feature));
    return 0;
  }

  // Which program finds each first.
  int Plants() const {
    World world;
    bool all = true;
    for (const Plant& plant : kPlants) {
      const auto is_asked = [&](const std::string& name) { return name == "all" || name == plant.name; };
      if (std::none_of(choices_.plants.begin(), choices_.plants.end(), is_asked)) continue;
      const uint32_t found = FindPlant(world, plant, choices_.seeds[0], choices_.count,
                                       [&](uint32_t seed) { return Generate(seed, features_); });
      std::printf("%s: %u\n", std::string(plant.name).c_str(), found);
      std::fflush(stdout);
      all = all && found != 0;
    }
    return all ? 0 : 1;
  }

  // ---- The watcher ----
  void Spread(Clock::time_point begin) {
    std::vector<std::pair<pid_t, int>> workers;
    std::map<uint32_t, std::set<std::string>> crashed;
    const auto start = [&](int index, uint32_t again) {
      std::fflush(stdout);
      const pid_t process = fork();
      if (process == 0) Worker(index, again, again == 0 ? std::set<std::string>() : crashed[again]);
      workers.emplace_back(process, index);
    };
    for (int i = 0; i < choices_.jobs; ++i) start(i, 0);
    while (!workers.empty()) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (choices_.seconds > 0 && Clock::now() - begin > std::chrono::seconds(choices_.seconds))
          progress_->stop = true;
        continue;
      }
      const auto at =
          std::find_if(workers.begin(), workers.end(), [&](const auto& each) { return each.first == ended; });
      if (at == workers.end()) continue;
      const int index = at->second;
      workers.erase(at);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      Progress::Worker& worker = progress_->workers[index];
      const std::string manner = worker.manner;
      Tell(worker.seed, {"crash", manner,
                         WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                             : "exit " + std::to_string(WEXITSTATUS(status))});
      crashed[worker.seed].insert(manner);
      if (choices_.shrink && WIFSIGNALED(status)) SmallerCrash(worker.seed, manner);
      if (!progress_->stop) start(index, worker.seed);
    }
  }

  // Each candidate in a process of its own.
  void SmallerCrash(uint32_t seed, const std::string& name) {
    const Manner* manner = &ByName(name.substr(0, name.find(", differences")));
    const Program small = Shrink(Generate(seed, features_), [&](const Program& candidate) {
      std::fflush(stdout);
      const pid_t process = fork();
      if (process == 0) {
        World world;
        Explained explained;
        (void)Check(world, candidate, {manner}, true, &explained);
        _exit(0);
      }
      int status = 0;
      waitpid(process, &status, 0);
      return WIFSIGNALED(status);
    }, 300);
    std::printf("seed %u, %s: shrunk to %d steps\n%s\n", seed, name.c_str(), CountSteps(small),
                Describe(small).c_str());
    if (choices_.write.empty()) return;
    const pid_t process = fork();
    if (process == 0) {
      World world;
      const std::string folder = choices_.write + "/" + std::to_string(seed) + "_" + Plain(name);
      WriteProgram(world, small, *manner, folder, "crash");
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
  }

  // ---- A worker ----
  [[noreturn]] void Worker(int index, uint32_t again, const std::set<std::string>& crashed) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // none goes on alone
    {
      World world;
      if (again != 0) One(world, index, again, crashed);
      while (!progress_->stop) {
        const uint32_t seed = progress_->next++;
        if (seed >= end_) break;
        One(world, index, seed, {});
      }
      std::fflush(stdout);
    }
    _exit(0);
  }
  void One(World& world, int index, uint32_t seed, const std::set<std::string>& crashed) {
    Progress::Worker& worker = progress_->workers[index];
    worker.seed = seed;
    const auto tell = [&](const std::string& manner) {
      std::snprintf(worker.manner, sizeof(worker.manner), "%s", manner.c_str());
    };
    const Program program = Generate(seed, features_);
    if (choices_.show) std::printf("seed %u\n%s\n", seed, Describe(program).c_str());
    if (!choices_.batch.empty()) {
      tell("plain");
      for (const Manner* manner : manners_)
        if (manner->how == How::kSteps && Fits(*manner, program))
          WriteProgram(world, program, *manner, choices_.batch + "/" + std::to_string(seed) + "_" + Plain(manner->name),
                       "");
      ++progress_->done;
      return;
    }
    std::vector<const Manner*> manners;
    for (const Manner* manner : manners_)
      if (!crashed.contains(manner->name) && !crashed.contains(manner->name + ", differences"))
        manners.push_back(manner);
    Explained explained;
    std::vector<Finding> findings = Check(world, program, manners, choices_.first, &explained, tell);
    if (choices_.refusals && findings.empty())
      for (const auto& [kind, count] : explained) findings.push_back({"refused", "plain", kind});
    if (!choices_.all) std::erase_if(findings, [](const Finding& finding) { return IsKnown(finding.text); });
    for (const auto& [kind, count] : explained)
      Append("E\t" + std::to_string(count) + "\t" + kind + "\t" + std::to_string(seed));
    for (const Finding& finding : findings) {
      Tell(seed, finding);
      if (choices_.shrink && (finding.kind != "hang" || choices_.deadline <= 2000)) Smaller(world, program, finding);
      else if (!choices_.write.empty()) Write(world, program, finding);
    }
    ++progress_->done;
  }
  void Smaller(World& world, const Program& program, const Finding& finding) {
    const std::string key = finding.kind + finding.manner;
    if (shrunk_[key]++ >= choices_.shrunk) return;
    const std::vector<const Manner*> manners{&ByName(finding.manner)};
    Finding last = finding;
    const Program small = Shrink(program, [&](const Program& candidate) {
      Explained explained;
      std::vector<Finding> found = Check(world, candidate, manners, true, &explained);
      if (finding.kind == "refused" && found.empty() && explained.contains(finding.text)) found.push_back(finding);
      if (found.empty() || found[0].kind != finding.kind) return false;
      last = found[0];
      return true;
    }, finding.kind == "hang" ? 200 : 2000);
    std::printf("seed %u, %s: shrunk to %d steps: %s\n%s\n", program.seed, finding.manner.c_str(), CountSteps(small),
                last.text.c_str(), Describe(small).c_str());
    if (!choices_.write.empty()) Write(world, small, last);
  }
  void Write(World& world, const Program& program, const Finding& finding) {
    const std::string folder = choices_.write + "/" + std::to_string(program.seed) + "_" + Plain(finding.manner);
    WriteProgram(world, program, ByName(finding.manner), folder, finding.kind + ": " + finding.text);
  }
  static std::string Plain(std::string name) {
    std::erase(name, ',');
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
  }

  // ---- What is said ----
  void Append(std::string line) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    FILE* file = std::fopen(file_.c_str(), "a");
    std::fwrite(line.data(), 1, line.size(), file);
    std::fclose(file);
  }
  void Tell(uint32_t seed, const Finding& finding) {
    std::printf("seed %u, %s: %s: %s\n", seed, finding.manner.c_str(), finding.kind.c_str(),
                finding.text.substr(0, 1000).c_str());
    std::fflush(stdout);
    Append("F\t" + std::to_string(seed) + "\t" + finding.kind + "\t" + finding.manner);
  }
  // Tables; gives how many programs have findings.
  uint32_t Summarise() {
    std::map<std::string, std::pair<uint64_t, std::string>> explained;  // how often, and a seed
    std::map<std::string, uint64_t> found;
    std::set<std::string> seeds;
    std::ifstream lines(file_);
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> fields;
      std::istringstream text(line);
      for (std::string field; std::getline(text, field, '\t');) fields.push_back(field);
      if (fields.size() != 4) continue;
      if (fields[0] == "E") {
        explained[fields[2]].first += std::stoull(fields[1]);
        explained[fields[2]].second = fields[3];
        continue;
      }
      ++found[fields[2] + "\t" + fields[3]];
      seeds.insert(fields[1]);
    }
    if (!explained.empty()) std::printf("refused by name:\n");
    for (const auto& [kind, times] : explained)
      std::printf("%8llu  %s (seed %s)\n", static_cast<unsigned long long>(times.first), kind.c_str(),
                  times.second.c_str());
    if (!found.empty()) std::printf("findings:\n");
    for (const auto& [what, count] : found)
      std::printf("%8llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
    return static_cast<uint32_t>(seeds.size());
  }

  const Choices choices_;
  Features features_;
  std::vector<const Manner*> manners_;
  Progress* progress_ = nullptr;
  uint32_t end_ = 0;
  std::string file_;
  std::map<std::string, int> shrunk_;
};

}  // namespace
}  // namespace tenon::crossings

int main(int argc, char** argv) {
  tenon::crossings::Choices choices;
  CLI::App app("Programs that cross features, each in every manner, which must all give the same.");
  app.add_option("--seeds", choices.seeds, "the first seed of each stretch");
  app.add_option("--count", choices.count, "programs of each stretch");
  app.add_option("--seconds", choices.seconds, "begin no program after so long; 0: all are run");
  app.add_option("--deadline", choices.deadline, "of each step, in milliseconds");
  app.add_option("--jobs", choices.jobs, "processes")->check(CLI::Range(1, 64));
  app.add_option("--manners", choices.manners, "these alone, by name");
  app.add_option("--without", choices.without, "not these manners");
  app.add_option("--features", choices.features, "programs of these features alone");
  app.add_option("--without-features", choices.without_features, "programs without these");
  app.add_flag("--all", choices.all, "also what left_out.h leaves out");
  app.add_flag("--processes", choices.processes, "clusters of processes too (shm, grpc)");
  app.add_flag("--first", choices.first, "stop a program at its first finding");
  app.add_flag("--shrink", choices.shrink, "make programs with findings smaller");
  app.add_option("--shrunk", choices.shrunk, "at most so many of each manner and kind, by each process");
  app.add_option("--write", choices.write, "a folder for programs with findings");
  app.add_option("--batch", choices.batch, "a folder for all programs, which other hosts replay; nothing is compared");
  app.add_flag("--refusals", choices.refusals, "what is refused by name is a finding too");
  app.add_flag("--show", choices.show, "print every program");
  app.add_option("--plants", choices.plants,
                 "print which of the programs finds each of these planted faults first (lower.h, or all); none: 0");
  app.add_flag("--list", choices.list, "print manners and features");
  CLI11_PARSE(app, argc, argv);
  return tenon::crossings::Work(choices).Run();
}
