// SPDX-License-Identifier: Apache-2.0
// MetricsServer: shows a worker's metrics to whoever asks for http://ADDRESS/metrics, in Prometheus' text format.
//
// It takes what tenon_worker_metrics of app.h gives, anew for each request, on a thread of its own. It is plain HTTP
// and asks nobody who they are: off loopback it must be asked for. Who comes and says nothing keeps nobody else from
// being answered (http_server.h).
#ifndef TENON_CLI_CLUSTER_METRICS_SERVER_H_
#define TENON_CLI_CLUSTER_METRICS_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "tenon/tenon.h"

namespace tenon::cli {

class HttpServer;

class MetricsServer {
 public:
  using Reader = std::function<host::Result<std::string>()>;

  // address: "host:port"; port 0 is chosen by the system. plaintext: it may be another than loopback. INVALID_ARGUMENT
  // or UNAVAILABLE say why there is none.
  static host::Result<std::unique_ptr<MetricsServer>> Start(const std::string& address, bool plaintext, Reader reader);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "http://127.0.0.1:9100/metrics".
  const std::string& url() const { return url_; }

 private:
  MetricsServer();
  std::unique_ptr<HttpServer> server_;
  std::string url_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_CLUSTER_METRICS_SERVER_H_
