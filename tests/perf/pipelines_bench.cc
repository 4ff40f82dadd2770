// SPDX-License-Identifier: Apache-2.0
// The engine's side of pipelines.py, and the bare one: a line of JSON comes in, one goes out.
//
//   {"open": "NAME", "graph": FILE, "init": [NODES], "begin": [NODES], "target": NODE, "threads": 1}   a session, whose
//   init has run
//   {"time": "NAME", "steps": 100}                 begins a pass and runs so many steps
//   {"close": "NAME"}
//   {"bare": "records", "file": FILE, "passes": 1}  {"bare": "pictures", "file": FILE, "batch": 32, "batches": 4,
//   "threads": 1}
//
// What is timed answers {"wall": S, "cpu": S}, in seconds, the latter of all threads of this process; what fails
// {"error": WHY}.
#include <ctime>

#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bare_pipelines.h"
#include "tenon/tenon.h"

namespace tenon::perf {
namespace {

using nlohmann::json;
using namespace host;  // NOLINT: a benchmark of the face

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}
template <class T>
T Take(Result<T> result) {
  if (!result.ok()) Check(result.status());
  return std::move(*result);
}

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Do>
json Timed(const Do& what) {
  const double wall = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  what();
  return {{"wall", Seconds(CLOCK_MONOTONIC) - wall}, {"cpu", Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu}};
}

std::vector<Name> Names(const json& list) {
  std::vector<Name> names;
  for (const json& name : list) names.emplace_back(name.get<std::string>());
  return names;
}

struct Pipeline {
  Pipeline(const json& from, const std::vector<std::string>& plugins)
      : runtime(Take(Runtime::Create(Options(from, plugins)))), session(Take(Session::Create(runtime))) {
    std::ifstream file(from.at("graph").get<std::string>(), std::ios::binary);
    Check(session.Extend(std::string(std::istreambuf_iterator<char>(file), {})));
    if (!from.at("init").empty()) Check(session.RunTargets(Names(from.at("init"))));
    begin = std::make_unique<Callable>(Take(session.Prepare({}, {}, Names(from.at("begin")))));
    step = std::make_unique<Callable>(Take(session.Prepare({}, {}, {from.at("target").get<std::string>()})));
  }
  static RuntimeOptions Options(const json& from, const std::vector<std::string>& plugins) {
    RuntimeOptions options;
    options.threads = from.at("threads").get<uint32_t>();
    options.plugins = plugins;
    return options;
  }
  json Time(int64_t steps) const {
    return Timed([&] {
      Check(begin->Run().status());
      for (int64_t i = 0; i < steps; ++i) Check(step->Run().status());
    });
  }
  Runtime runtime;
  Session session;
  std::unique_ptr<Callable> begin, step;
};

json Answer(const json& asked, const std::vector<std::string>& plugins,
            std::map<std::string, std::unique_ptr<Pipeline>>* pipelines) {
  if (asked.contains("open")) {
    (*pipelines)[asked["open"].get<std::string>()] = std::make_unique<Pipeline>(asked, plugins);
    return json::object();
  }
  if (asked.contains("close")) {
    pipelines->erase(asked["close"].get<std::string>());
    return json::object();
  }
  if (asked.contains("time"))
    return pipelines->at(asked["time"].get<std::string>())->Time(asked.at("steps").get<int64_t>());
  const auto file = asked.at("file").get<std::string>();
  if (asked.at("bare") == "records") {
    return Timed([&] {
      for (int64_t i = 0; i < asked.at("passes").get<int64_t>(); ++i) (void)BareRecords(file);
    });
  }
  return Timed([&] {
    (void)BarePictures(file, asked.at("batch").get<int64_t>(), asked.at("batches").get<int64_t>(),
                       asked.at("threads").get<int>());
  });
}

}  // namespace
}  // namespace tenon::perf

// usage: pipelines_bench [PLUGIN ...]
int main(int count, char** words) {
  std::map<std::string, std::unique_ptr<tenon::perf::Pipeline>> pipelines;
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      answer = tenon::perf::Answer(nlohmann::json::parse(line), {words + 1, words + count}, &pipelines);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
