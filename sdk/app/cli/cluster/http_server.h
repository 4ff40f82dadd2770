// SPDX-License-Identifier: Apache-2.0
// HttpServer: answers GET of one path with a text that is made for each request.
//
// One thread, bounded in all: so many connections, so many bytes of a request, so long for a request to come and an
// answer to go. One connection more than there may be ends the oldest that has not asked yet, so that those who ask
// half cannot keep a whole one from being heard.
#ifndef TENON_CLI_CLUSTER_HTTP_SERVER_H_
#define TENON_CLI_CLUSTER_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tenon/tenon.h"

namespace tenon::cli {

struct HttpOptions {
  std::string path = "/";
  std::string content_type = "text/plain";
  size_t most_connections = 32;
  uint32_t most_request_bytes = 8192;
  std::chrono::milliseconds patience{2000};  // for a request, and again for its answer
};

class HttpServer {
 public:
  using Maker = std::function<std::string()>;

  // host: a number, IPv6 in brackets; port 0 is chosen by the system.
  static host::Result<std::unique_ptr<HttpServer>> Start(const std::string& host, uint16_t port, HttpOptions options,
                                                         Maker make);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  class Connection;
  struct Server;
  HttpServer();
  std::unique_ptr<Server> server_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_HTTP_SERVER_H_
