// SPDX-License-Identifier: Apache-2.0
// The plugin tenon.tests.sim: connections over the simulated network of the process, "sim://NAME", and its disk,
// "simdisk://PATH".
#include <dlfcn.h>

#include <thread>

#include "tenon/extras/transport/endpoint.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/network.h"

namespace tenon::simulation {

Fabric* TheFabric() {
  using Function = Fabric*();
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, "tenon_simulation_fabric"));
  return function == nullptr ? nullptr : function();
}

namespace {

class SimPipe final : public sdk::Pipe {
 public:
  SimPipe(std::shared_ptr<WireEnd> end, std::string name) : end_(std::move(end)), name_(std::move(name)) {}
  ~SimPipe() override { Close(); }

  void Start(sdk::FrameSink* sink) override {
    thread_ = std::thread([this, sink] { Read(sink); });
  }
  void Write(std::string_view head, std::span<const tenon_span> body, void (*written)(void* argument, bool ok),
             void* argument) override {
    std::string bytes;
    for (const tenon_span& piece : body) bytes.append(piece.data, piece.size);
    written(argument, end_->Write(head, std::move(bytes)));
  }
  void Close() override {
    end_->Close();
    if (thread_.joinable()) thread_.join();
  }
  std::string_view name() const override { return name_; }

 private:
  void Read(sdk::FrameSink* sink) {
    Frame frame;
    bool broken = false;
    while (end_->Read(&frame, &broken)) {
      void* const memory = sink->Begin(frame.head, frame.body.size());
      if (memory != nullptr && !frame.body.empty()) std::memcpy(memory, frame.body.data(), frame.body.size());
      sink->End(true);
    }
    if (broken) sink->Broken(tenon_plugin_error(TENON_UNAVAILABLE, "the other side has closed it"));
  }
  const std::shared_ptr<WireEnd> end_;
  const std::string name_;
  std::thread thread_;
};

class SimDoor final : public sdk::Door {
 public:
  explicit SimDoor(Fabric* fabric) : fabric_(fabric) {}
  tenon_status* Listen(std::string_view address, Accept accept, std::string* out_address) override {
    if (!fabric_->Listen(std::string(address)))
      return sdk::Failure(TENON_ALREADY_EXISTS, "somebody listens at sim://", address);
    *out_address = address_ = address;
    thread_ = std::thread([this, accept = std::move(accept)] {
      while (std::shared_ptr<WireEnd> end = fabric_->Accept(address_))
        accept(std::make_unique<SimPipe>(std::move(end), "sim://" + address_ + "#"));
    });
    return nullptr;
  }
  void StopListening() override {
    if (!thread_.joinable()) return;
    fabric_->StopListening(address_);
    thread_.join();
  }
  tenon_status* Connect(std::string_view address, uint64_t deadline_ns, std::unique_ptr<sdk::Pipe>* out_pipe) override {
    std::shared_ptr<WireEnd> end;
    switch (fabric_->Connect(std::string(address), deadline_ns, &end)) {
      case ConnectOutcome::kRefused: return sdk::Failure(TENON_UNAVAILABLE, "nobody listens there");
      case ConnectOutcome::kTooLate: return sdk::Failure(TENON_DEADLINE_EXCEEDED, "it did not answer in time");
      case ConnectOutcome::kMade: *out_pipe = std::make_unique<SimPipe>(std::move(end), sdk::Concat("sim://", address));
    }
    return nullptr;
  }

 private:
  Fabric* const fabric_;
  std::string address_;
  std::thread thread_;
};

struct Transport {
  static constexpr tenon_span kScheme = TENON_SPAN("sim");
  static tenon_status* Open(tenon_plugin_self*, const tenon_endpoint_options&, std::unique_ptr<sdk::Door>* out_door) {
    Fabric* const fabric = TheFabric();
    if (fabric == nullptr) return sdk::Failure(TENON_FAILED_PRECONDITION, "no simulation runs in this process");
    fabric->HaveDisk([] { Disk::Of(nullptr).Crash(); });
    *out_door = std::make_unique<SimDoor>(fabric);
    return nullptr;
  }
};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(TRANSPORT, &sdk::kTransportTable<Transport>),
                                          TENON_PROVIDES(FILESYSTEM, &sdk::kFilesystemTable<Disk>)};

}  // namespace
}  // namespace tenon::simulation

TENON_PLUGIN("tenon.tests.sim", "0.1.0", "The network and the disk of a simulated cluster.",
             tenon::simulation::kCapabilities)
