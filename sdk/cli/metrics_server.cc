// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/metrics_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;
using nlohmann::json;

Status Bad(const std::string& address, const std::string& what) { return Status(Code::kInvalidArgument, "--metrics " + address + ": " + what); }

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// "127.0.0.1:9100" or "[::1]:9100", without the port: a name is looked up, and stands for one address.
Result<std::string> FindHost(const std::string& address, std::string name, bool plaintext) {
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name.empty()) return Bad(address, "it must be HOST:PORT, such as 127.0.0.1:9100");
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int problem = getaddrinfo(name.c_str(), nullptr, &hints, &found); problem != 0) return Bad(address, gai_strerror(problem));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  if (!plaintext && !IsLoopback(found->ai_addr))
    return Bad(address, "other hosts could read the metrics, unencrypted and unasked; listen on loopback, or ask for that with --metrics-plaintext");
  char text[NI_MAXHOST];
  if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return Bad(address, "it is no address");
  return found->ai_family == AF_INET6 ? "[" + std::string(text) + "]" : std::string(text);
}

prometheus::MetricFamily Family(const json& given) {
  prometheus::MetricFamily family;
  given.at("name").get_to(family.name);
  given.at("help").get_to(family.help);
  family.type = given.at("type") == "counter" ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const json& sample : given.at("samples")) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [name, value] : sample.at("labels").items()) metric.label.push_back({name, value.get<std::string>()});
    (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = sample.at("value").get<double>();
  }
  return family;
}

class Collector : public prometheus::Collectable {
 public:
  explicit Collector(MetricsServer::Reader reader) : reader_(std::move(reader)) {}
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    const Result<std::string> text = reader_();
    if (!text.ok()) return families;
    for (const json& family : json::parse(*text)) families.push_back(Family(family));
    return families;
  }

 private:
  const MetricsServer::Reader reader_;
};

}  // namespace

struct MetricsServer::Server {
  Server(const std::string& address, Reader reader)
      : collector(std::make_shared<Collector>(std::move(reader))),
        // A client that sends nothing holds a thread no longer than that.
        exposer({"listening_ports", address, "num_threads", "4", "request_timeout_ms", "2000", "max_request_size", "8192"}) {
    exposer.RegisterCollectable(collector);
  }
  const std::shared_ptr<Collector> collector;
  prometheus::Exposer exposer;
};

MetricsServer::MetricsServer() = default;
MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address, bool plaintext, Reader reader) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find_first_not_of("0123456789", colon + 1) != std::string::npos || colon + 1 == address.size())
    return Bad(address, "it must be HOST:PORT, such as 127.0.0.1:9100");
  TENON_TRY_ASSIGN(const std::string name, FindHost(address, address.substr(0, colon), plaintext));
  std::unique_ptr<MetricsServer> out(new MetricsServer);
  try {
    out->server_ = std::make_unique<Server>(name + address.substr(colon), std::move(reader));
  } catch (const std::exception& error) {  // how this library says that it cannot listen
    return Status(Code::kUnavailable, "--metrics " + address + ": nothing can listen there (" + error.what() + "); is the port taken?");
  }
  const std::vector<int> ports = out->server_->exposer.GetListeningPorts();
  if (ports.empty()) return Status(Code::kUnavailable, "--metrics " + address + ": nothing listens there");
  out->url_ = "http://" + name + ":" + std::to_string(ports[0]) + "/metrics";
  return out;
}

}  // namespace tenon::cli
