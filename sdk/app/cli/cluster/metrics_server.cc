// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/metrics_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sdk/app/cli/cluster/http_server.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;
using nlohmann::json;

Status BadAddress(const std::string& address, const std::string& what) {
  return Status(Code::kInvalidArgument, "'" + address + "': " + what);
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// "127.0.0.1:9100" or "[::1]:9100", without the port: a name is looked up, and stands for one address.
Result<std::string> FindHost(const std::string& address, std::string name, bool plaintext) {
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  if (name.empty()) return BadAddress(address, "it must be HOST:PORT, such as 127.0.0.1:9100");
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (const int problem = getaddrinfo(name.c_str(), nullptr, &hints, &found); problem != 0)
    return BadAddress(address, gai_strerror(problem));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  if (!plaintext && !IsLoopback(found->ai_addr))
    return BadAddress(address,
                      "other hosts could read the metrics, unencrypted and unasked; listen on loopback, or ask for "
                      "that with --metrics-plaintext");
  char text[NI_MAXHOST];
  if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    return BadAddress(address, "it is no address");
  return found->ai_family == AF_INET6 ? "[" + std::string(text) + "]" : std::string(text);
}

prometheus::MetricFamily Family(const json& given) {
  prometheus::MetricFamily family;
  given.at("name").get_to(family.name);
  given.at("help").get_to(family.help);
  family.type = given.at("type") == "counter" ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
  for (const json& sample : given.at("samples")) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    for (const auto& [name, value] : sample.at("labels").items())
      metric.label.push_back({name, value.get<std::string>()});
    (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        sample.at("value").get<double>();
  }
  return family;
}

// In Prometheus' text format.
std::string TextOf(const MetricsServer::Reader& read) {
  std::vector<prometheus::MetricFamily> families;
  if (const Result<std::string> text = read(); text.ok())
    for (const json& family : json::parse(*text)) families.push_back(Family(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace

MetricsServer::MetricsServer() = default;
MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address, bool plaintext, Reader reader) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find_first_not_of("0123456789", colon + 1) != std::string::npos ||
      colon + 1 == address.size())
    return BadAddress(address, "it must be HOST:PORT, such as 127.0.0.1:9100");
  const unsigned long port = std::strtoul(address.c_str() + colon + 1, nullptr, 10);
  if (port > 65535) return BadAddress(address, "its port is more than 65535");
  TENON_TRY_ASSIGN(const std::string name, FindHost(address, address.substr(0, colon), plaintext));
  std::unique_ptr<MetricsServer> out(new MetricsServer);
  HttpOptions options;
  options.path = "/metrics";
  options.content_type = "text/plain; version=0.0.4; charset=utf-8";
  Result<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      name, static_cast<uint16_t>(port), options, [reader = std::move(reader)] { return TextOf(reader); });
  if (!server.ok())
    return Status(Code::kUnavailable, "--metrics " + address + ": nothing can listen there (" +
                                          server.status().message() + "); is the port taken?");
  out->server_ = *std::move(server);
  out->url_ = "http://" + name + ":" + std::to_string(out->server_->port()) + "/metrics";
  return out;
}

}  // namespace tenon::cli
