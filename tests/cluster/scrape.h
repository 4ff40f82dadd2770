// SPDX-License-Identifier: Apache-2.0
// A task's metrics as a scraper sees them: over HTTP, in Prometheus' text format.
#ifndef TENON_TESTS_CLUSTER_SCRAPE_H_
#define TENON_TESTS_CLUSTER_SCRAPE_H_

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "tests/cluster/processes.h"

namespace tenon::engine {

// A connection to a port of this host; closed when it goes.
class Telephone {
 public:
  explicit Telephone(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    stands_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Telephone() { close(socket_); }
  Telephone(const Telephone&) = delete;
  Telephone& operator=(const Telephone&) = delete;

  bool Say(const std::string& text) const {
    return stands_ && ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // All that comes until the other side hangs up; what came so far when it is silent for ten seconds.
  std::string Hear() const {
    std::string heard;
    char buffer[4096];
    for (pollfd polled = {socket_, POLLIN, 0}; poll(&polled, 1, 10000) > 0;) {
      const ssize_t size = read(socket_, buffer, sizeof(buffer));
      if (size <= 0) break;
      heard.append(buffer, static_cast<size_t>(size));
    }
    return heard;
  }

 private:
  const int socket_;
  bool stands_ = false;
};

// By name and labels, as they are written: `tenon_worker_steps_total{outcome="ok"}`.
using Samples = std::map<std::string, double>;

class Scraper {
 public:
  // The task was started with --metrics=127.0.0.1:0, and says its address after where it listens.
  Scraper(const Processes& tasks, size_t task) {
    const std::string line = tasks.Line(task);
    const size_t at = line.rfind(':');
    if (at != std::string::npos) port_ = std::atoi(line.c_str() + at + 1);
  }
  int port() const { return port_; }

  std::string Get() const {
    const Telephone telephone(port_);
    return telephone.Say("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") ? telephone.Hear()
                                                                                                  : "";
  }
  Samples Scrape() const {
    Samples samples;
    std::istringstream lines(Get());
    for (std::string line; std::getline(lines, line);)
      if (const size_t space = line.rfind(' '); line.starts_with("tenon_") && space != std::string::npos)
        samples[line.substr(0, space)] = std::atof(line.c_str() + space);
    return samples;
  }

 private:
  int port_ = 0;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_CLUSTER_SCRAPE_H_
