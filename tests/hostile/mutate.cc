// SPDX-License-Identifier: Apache-2.0
// mutate [--seed N] [--count N] [--only N] [--jobs N]: damages good graphs and tries them, in processes of their own;
// says which trials killed one, hung, leaked, or were refused without a reason.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/hostile/trial.h"

namespace tenon::hostile {
namespace {

using Clock = std::chrono::steady_clock;

struct Choices {
  uint64_t seed = 1, count = 20000, jobs = 2, faults = 20;
  int64_t only = -1;
  std::string write;
  bool undamaged = false;
};

// What a worker says, in memory that it shares with the program that watches it.
struct Progress {
  std::atomic<uint64_t> at, begun, finished, ran, slowest, slowest_ns, largest, largest_kilobytes, peak_kilobytes;
};

std::vector<std::string> OpsOf(const host::Runtime& runtime) {
  std::vector<std::string> ops = {"NoSuchOp"};
  for (const tenon_op_info& info : runtime.Ops()) ops.emplace_back(host::Text(info.name));
  return ops;
}

// Everything that a trial needs.
struct Bench {
  host::Runtime runtime;
  Subjects subjects;
  Mutator mutator;

  static host::Runtime MakeRuntime() {
    host::RuntimeOptions options;
    options.threads = 1;
    options.log_level = TENON_LOG_ERROR + 1;
    auto made = host::Runtime::Create(options);
    if (!made.ok()) throw std::runtime_error(made.status().message());
    return std::move(*made);
  }
  Bench() : runtime(MakeRuntime()), subjects(runtime), mutator(OpsOf(runtime)) {}
};

// `number` alone decides what it does. tell: hears of the damage before it is tried.
Outcome RunOne(const Bench& bench, const Choices& choices, uint64_t number,
               const std::function<void(const Damage&)>& tell = {}) {
  Dice dice(choices.seed, number);
  const Subject subject = bench.subjects.Draw(dice);
  Damage damage = bench.mutator.Make(subject.bytes, dice);
  damage.edits.insert(damage.edits.begin(), subject.name);
  if (tell) tell(damage);
  return Try(bench.runtime, subject, damage, dice);
}

int ShowOne(const Choices& choices) {
  const Bench bench;
  const Outcome outcome = RunOne(bench, choices, static_cast<uint64_t>(choices.only), [&](const Damage& damage) {
    for (const std::string& text : damage.edits) std::printf("%s\n", text.c_str());
    std::fflush(stdout);
    if (!choices.write.empty()) std::ofstream(choices.write, std::ios::binary) << damage.bytes;
  });
  for (const std::string& text : outcome.log) std::printf("  %s\n", text.c_str());
  if (!outcome.fault.empty()) std::printf("%s\n", outcome.fault.c_str());
  return outcome.fault.empty() ? 0 : 1;
}

// Every subject as it is: those that do not run are listed.
int ShowUndamaged(const Choices& choices) {
  const Bench bench;
  size_t ran = 0;
  for (size_t i = 0; i < bench.subjects.count(); ++i) {
    Dice dice(choices.seed, i);
    const Subject subject = bench.subjects.At(i, dice);
    const Outcome outcome =
        subject.bytes.empty() ? Outcome{} : Try(bench.runtime, subject, {subject.bytes, {}, {}}, dice);
    ran += outcome.ran ? 1 : 0;
    if (outcome.ran) continue;
    std::printf("%s\n", subject.name.c_str());
    for (const std::string& text : outcome.log) std::printf("  %s\n", text.c_str());
  }
  std::printf("%zu of %zu subjects run\n", ran, bench.subjects.count());
  return 0;
}

uint64_t PeakKilobytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

// Trials first, first + step, ...; ends the process. Nothing may write here: the folder is empty and must stay so.
[[noreturn]] void Work(const Choices& choices, uint64_t first, Progress* progress) {
  const std::string folder = std::filesystem::temp_directory_path() / ("hostile_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);
  {
    const Bench bench;
    for (uint64_t number = first; number < choices.count; number += choices.jobs) {
      progress->at = number;
      ++progress->begun;
      const auto begin = Clock::now();
      const uint64_t before = PeakKilobytes();
      const Outcome outcome = RunOne(bench, choices, number);
      const auto took = static_cast<uint64_t>((Clock::now() - begin).count());
      if (took > progress->slowest_ns) {
        progress->slowest_ns = took;
        progress->slowest = number;
      }
      progress->ran += outcome.ran ? 1 : 0;
      const uint64_t peak = PeakKilobytes(), grown = peak - std::min(before, peak);
      if (grown > progress->largest_kilobytes) {
        progress->largest_kilobytes = grown;
        progress->largest = number;
      }
      progress->peak_kilobytes = std::max<uint64_t>(progress->peak_kilobytes, peak);
      ++progress->finished;
      if (!outcome.fault.empty()) {
        std::fprintf(stderr, "%s\n", outcome.fault.c_str());
        std::_Exit(3);
      }
    }
  }
  std::filesystem::current_path("/");
  const bool clean = std::filesystem::is_empty(folder);
  std::filesystem::remove_all(folder);
  if (!clean) std::fprintf(stderr, "a trial wrote files\n");
  std::exit(clean ? 0 : 4);  // with what a sanitizer has to say of leaks
}

// How long a trial may take: many times what one does, with its deadlines, under a sanitizer. By the processor's time,
// for other programs may want it too; and by the clock, for who waits takes none.
constexpr std::chrono::seconds kMostWork{60};
constexpr std::chrono::minutes kMostTime{5};

std::chrono::nanoseconds WorkOf(pid_t process) {
  clockid_t clock;
  timespec time = {};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Starts the workers and sees how they end. It has one thread, so that what forks of it knows all that its parent did.
class Watch {
 public:
  explicit Watch(const Choices& choices)
      : choices_(choices), shared_(MapShared(choices.jobs)), workers_(choices.jobs) {}

  int Run() {
    const auto begin = Clock::now();
    for (uint64_t job = 0; job < choices_.jobs; ++job) Start(job, job);
    while (std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.process != 0; })) {
      for (uint64_t job = 0; job < choices_.jobs; ++job) Look(job);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what waits here is the watch, not a test
    }
    const bool tried = Report(std::chrono::duration<double>(Clock::now() - begin).count());
    return faults_ == 0 && tried ? 0 : 1;
  }

 private:
  struct Worker {
    pid_t process = 0;  // 0: none
    uint64_t seen = 0;
    Clock::time_point since;
    std::chrono::nanoseconds work{0};  // until then
  };
  static Progress* MapShared(uint64_t count) {
    void* memory = mmap(nullptr, count * sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
    return static_cast<Progress*>(memory);
  }

  void Start(uint64_t job, uint64_t first) {
    if (first >= choices_.count || faults_ >= choices_.faults) return;
    shared_[job].at = first;
    const pid_t worker = fork();
    if (worker == 0) Work(choices_, first, &shared_[job]);
    if (worker < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    workers_[job] = {worker, shared_[job].begun, Clock::now(), WorkOf(worker)};
  }
  // A worker that dies is told of, and another goes on behind the trial that killed it.
  void Look(uint64_t job) {
    Worker& worker = workers_[job];
    if (worker.process == 0) return;
    int status = 0;
    if (waitpid(worker.process, &status, WNOHANG) == worker.process) {
      worker.process = 0;
      if (WIFSIGNALED(status)) Fault(job, std::string("killed by ") + strsignal(WTERMSIG(status)));
      else if (WEXITSTATUS(status) != 0)
        Fault(job, "the process ended with code " + std::to_string(WEXITSTATUS(status)));
    } else if (shared_[job].begun != worker.seen) {
      worker.seen = shared_[job].begun;
      worker.since = Clock::now();
      worker.work = WorkOf(worker.process);
    } else if (Clock::now() - worker.since > kMostTime || WorkOf(worker.process) - worker.work > kMostWork) {
      kill(worker.process, SIGKILL);
      waitpid(worker.process, &status, 0);
      worker.process = 0;
      Fault(job, "no answer");
    }
  }
  void Fault(uint64_t job, const std::string& what) {
    ++faults_;
    const uint64_t number = shared_[job].at;
    std::fprintf(stderr, "FAULT at mutation %llu: %s\n  again: mutate --seed %llu --only %llu\n", Number(number),
                 what.c_str(), Number(choices_.seed), Number(number));
    Start(job, number + choices_.jobs);
  }

  // False: it was no trial at all.
  bool Report(double seconds) const {
    uint64_t finished = 0, ran = 0, peak = 0;
    const Progress *slowest = shared_, *largest = shared_;
    for (const Progress* progress = shared_; progress != shared_ + choices_.jobs; ++progress) {
      finished += progress->finished;
      ran += progress->ran;
      peak = std::max<uint64_t>(peak, progress->peak_kilobytes);
      if (progress->slowest_ns > slowest->slowest_ns) slowest = progress;
      if (progress->largest_kilobytes > largest->largest_kilobytes) largest = progress;
    }
    const double share = static_cast<double>(ran) / static_cast<double>(std::max<uint64_t>(finished, 1));
    std::printf(
        "seed %llu: %llu mutations, %llu faults; %.0f%% ran all the same; the longest took %.2f s (number %llu); peak "
        "memory %llu MB (most grew at number %llu); %.0f s\n",
        Number(choices_.seed), Number(finished), Number(faults_), 100 * share,
        static_cast<double>(slowest->slowest_ns) * 1e-9, Number(slowest->slowest), Number(peak / 1024),
        Number(largest->largest), seconds);
    // The damage must neither all be refused nor all be harmless, or it tests little.
    return finished < 1000 || (share > 0.2 && share < 0.9);
  }
  static unsigned long long Number(uint64_t number) { return number; }

  const Choices choices_;
  Progress* const shared_;
  std::vector<Worker> workers_;
  uint64_t faults_ = 0;
};

}  // namespace
}  // namespace tenon::hostile

int main(int argc, char** argv) {
  CLI::App app("Damages good graphs and tries them");
  tenon::hostile::Choices choices;
  app.add_option("--seed", choices.seed, "Of all dice");
  app.add_option("--count", choices.count, "How many mutations");
  app.add_option("--only", choices.only, "This one alone, in this process, telling what happens");
  app.add_flag("--undamaged", choices.undamaged, "Try the subjects as they are, and list those that do not run");
  app.add_option("--write", choices.write, "With --only: the damaged GraphDef goes to this file");
  app.add_option("--jobs", choices.jobs, "Processes")->check(CLI::Range(1, 64));
  app.add_option("--faults", choices.faults, "Stop after so many");
  CLI11_PARSE(app, argc, argv);
  try {
    if (choices.undamaged) return tenon::hostile::ShowUndamaged(choices);
    return choices.only >= 0 ? tenon::hostile::ShowOne(choices) : tenon::hostile::Watch(choices).Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutate: %s\n", error.what());
    return 2;
  }
}
