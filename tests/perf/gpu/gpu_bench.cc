// SPDX-License-Identifier: Apache-2.0
// Tenon's side of bench-gpu: measures one thing on one device and prints it, one JSON object a line. gpu_bench --help.
//
//   gpu_bench train --network resnet50 --batch 64 --device /device:GPU:0 --precision tf32
//   gpu_bench check --device /device:CPU:0        every measurement at tiny sizes; fails where a loss does not fall
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "measure.h"
#include "sdk/app/cli/flags.h"

namespace tenon::perf {
namespace {

using cli::Json;
using host::Code;
using host::Result;
using host::Runtime;
using host::Status;

struct Flags {
  cli::RuntimeFlags runtime;
  cli::SessionFlags session;
  double seconds = 1;
  std::string network;
  bool tiny = false;
  Size size;
  TrainingRun training;
  int64_t side = 4096, count = 8;
  std::vector<int64_t> nodes = {1, 10, 100, 1000};
  std::vector<int64_t> bytes = {1 << 12, 1 << 20, 1 << 26, 1 << 30};
};

void AddFlags(CLI::App& command, Flags& flags) {
  flags.runtime.AddTo(command);
  flags.session.AddTo(command);
  command.add_option("--seconds", flags.seconds, "Of each timing, besides warming up; 0: nothing is timed")
      ->capture_default_str();
}

void AddTraining(CLI::App& command, Flags& flags) {
  command.add_option("--network", flags.network, "Its name; `gpu_bench networks` lists them")->required();
  command.add_option("--batch", flags.size.batch, "Examples of a step (default: as published)");
  command.add_option("--side", flags.size.side, "Of a picture, in pixels");
  command.add_option("--steps", flags.size.steps, "Words of a text");
  command.add_option("--words", flags.size.words, "Words that there are");
  command.add_option("--layers", flags.size.layers, "Of an encoder");
  command.add_option("--shrink", flags.size.shrink, "Divide all widths by this");
  command.add_flag("--tiny", flags.tiny, "What is not given is tiny, not as published");
  command.add_option("--losses", flags.training.losses, "Steps whose losses are printed, before any is timed")
      ->capture_default_str();
  command.add_option("--folder", flags.training.folder, "Write the first weights and the batch there, as .npy");
}

Result<Bench> MakeBench(const Runtime& runtime, const Flags& flags) {
  TENON_TRY_ASSIGN(host::SessionOptions session, flags.session.Options());
  if (session.device.empty())
    return Status(Code::kInvalidArgument,
                  "--device is missing: /device:GPU:0, or /device:CPU:0 to try it without a GPU");
  TENON_TRY(FindDevice(runtime, session.device).status());
  return Bench{runtime, std::move(session), flags.seconds};
}

Status Print(const Result<Json>& measured) {
  TENON_TRY(measured.status());
  std::cout << measured->dump() << std::endl;
  return Status();
}

Result<Json> Train(const Bench& bench, const Flags& flags) {
  TENON_TRY_ASSIGN(const NetworkKind* kind, FindNetwork(flags.network));
  const Size size = flags.tiny ? Chosen(kind->tiny, flags.size) : flags.size;
  return MeasureTraining(bench, *kind, size, flags.training);
}

Status Launches(Bench bench, const Flags& flags) {
  for (const int64_t nodes : flags.nodes) {
    for (const bool capture : {true, false}) {
      bench.session.capture = capture;
      TENON_TRY(Print(MeasureLaunches(bench, nodes)));
    }
  }
  return Status();
}

// Learning by heart one batch is what every network can do.
Status CheckNetwork(const Bench& bench, const NetworkKind& kind) {
  TrainingRun run;
  run.losses = 40;
  Result<Json> trained = MeasureTraining(bench, kind, kind.tiny, run);
  const Status failed = trained.ok() ? Status() : trained.status();
  if (!failed.ok()) return Status(failed.code(), std::string(kind.name) + ": " + std::string(failed.message()));
  TENON_TRY(Print(trained));
  const double first = trained->at("losses").front(), last = trained->at("losses").back();
  if (std::isfinite(last) && last < 0.99 * first) return Status();
  return Status(Code::kInternal, std::string(kind.name) + ": the loss was " + std::to_string(first) +
                                     " and after forty steps on the same batch is " + std::to_string(last) +
                                     "; it must fall");
}

Status CheckRate(const Result<Json>& measured, const char* rate) {
  TENON_TRY(Print(measured));
  const double value = measured->at(rate);
  return std::isfinite(value) && value > 0
             ? Status()
             : Status(Code::kInternal, std::string(rate) + " is " + std::to_string(value));
}

Status Check(Bench bench) {
  bench.seconds = 0.02;
  for (const NetworkKind& kind : Networks()) TENON_TRY(CheckNetwork(bench, kind));
  TENON_TRY(CheckRate(MeasureProducts(bench, 64, 2), "tflops"));
  TENON_TRY(CheckRate(MeasureLaunches(bench, 10), "us_a_node"));
  return CheckRate(MeasureCopies(bench, 1 << 16), "on_device_gbs");
}

Json NetworkJson(const NetworkKind& kind) {
  const auto size = [](const Size& s) {
    return Json{{"batch", s.batch}, {"side", s.side},     {"steps", s.steps},
                {"words", s.words}, {"layers", s.layers}, {"shrink", s.shrink}};
  };
  using Kind = train::OptimizerOptions::Kind;
  const char* optimizer = kind.optimizer == Kind::kAdam       ? "adam"
                          : kind.optimizer == Kind::kMomentum ? "momentum"
                                                              : "sgd";
  return {{"what", "network"},      {"network", kind.name}, {"about", kind.what},
          {"optimizer", optimizer}, {"rate", kind.rate},    {"published", size(kind.published)},
          {"tiny", size(kind.tiny)}};
}

// The command's name, its help, what it measures.
struct Command {
  const char* name;
  const char* about;
  Status (*run)(const Bench&, const Flags&);
};

const Command kCommands[] = {
    {"device", "What the device says of itself",
     [](const Bench& bench, const Flags&) {
       const Result<tenon_device_info> device = FindDevice(bench.runtime, bench.session.device);
       TENON_TRY(device.status());
       return Print(DeviceJson(*device));
     }},
    {"train", "Steps of a network's training",
     [](const Bench& bench, const Flags& flags) { return Print(Train(bench, flags)); }},
    {"products", "Products of large matrices",
     [](const Bench& bench, const Flags& flags) { return Print(MeasureProducts(bench, flags.side, flags.count)); }},
    {"launches", "Steps of chains of tiny kernels, captured and not",
     [](const Bench& bench, const Flags& flags) { return Launches(bench, flags); }},
    {"copies", "Copies to, from and on the device",
     [](const Bench& bench, const Flags& flags) {
       for (const int64_t bytes : flags.bytes) TENON_TRY(Print(MeasureCopies(bench, bytes)));
       return Status();
     }},
    {"check", "Everything at tiny sizes; fails where a loss does not fall",
     [](const Bench& bench, const Flags&) { return Check(bench); }},
};

Status Run(const Command& command, const Flags& flags) {
  const Result<Runtime> runtime = flags.runtime.Create();
  TENON_TRY(runtime.status());
  TENON_TRY_ASSIGN(const Bench bench, MakeBench(*runtime, flags));
  return command.run(bench, flags);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures Tenon on one device, for bench-gpu.");
  app.require_subcommand(1);
  Flags flags;
  Status status;
  app.add_subcommand("networks", "The networks that there are")->callback([] {
    for (const NetworkKind& kind : Networks()) std::cout << NetworkJson(kind).dump() << "\n";
  });
  for (const Command& command : kCommands) {
    CLI::App* const added = app.add_subcommand(command.name, command.about);
    AddFlags(*added, flags);
    const std::string name = command.name;
    if (name == "train") AddTraining(*added, flags);
    if (name == "products") {
      added->add_option("--side", flags.side, "Of a matrix")->capture_default_str()->check(CLI::PositiveNumber);
      added->add_option("--count", flags.count, "Products of a step")
          ->capture_default_str()
          ->check(CLI::PositiveNumber);
    }
    if (name == "launches")
      added->add_option("--nodes", flags.nodes, "Of a chain")->capture_default_str()->check(CLI::PositiveNumber);
    if (name == "copies") {
      added->add_option("--bytes", flags.bytes, "Of a copy, four or more")
          ->capture_default_str()
          ->check(CLI::Range(int64_t{4}, int64_t{1} << 40));
    }
    added->callback([&] { status = Run(command, flags); });
  }
  CLI11_PARSE(app, argc, argv);
  if (status.ok()) return 0;
  std::cerr << "gpu_bench: " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace tenon::perf

int main(int argc, char** argv) { return tenon::perf::Main(argc, argv); }
