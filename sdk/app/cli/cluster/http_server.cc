// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <optional>
#include <thread>
#include <utility>

namespace tenon::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using host::Code;
using host::Result;
using host::Status;

// The system has no descriptor for one more: not again at once.
constexpr std::chrono::milliseconds kBreath{100};

}  // namespace

// From its accepting to its end; what is under way holds it. On the server's thread alone.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server* server, tcp::socket socket) : server_(server), stream_(std::move(socket)) {}

  void Read();
  void End() { stream_.close(); }
  bool has_asked() const { return has_asked_; }

 private:
  void Answer();
  http::response<http::string_body> Make();
  void Leave();

  Server* const server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool has_asked_ = false;
};

struct HttpServer::Server {
  Server(HttpOptions given, Maker maker)
      : options(std::move(given)), make(std::move(maker)), acceptor(context), breath(context) {}
  ~Server() {
    context.stop();
    if (thread.joinable()) thread.join();
    for (const auto& connection : connections) connection->End();
  }

  void Listen(const std::string& host, uint16_t port) {
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    const tcp::endpoint endpoint(asio::ip::make_address(bracketed ? host.substr(1, host.size() - 2) : host), port);
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    Accept();
    thread = std::thread([this] { context.run(); });
  }

  void Accept() {
    acceptor.async_accept([this](beast::error_code failed, tcp::socket socket) {
      if (failed == asio::error::operation_aborted) return;
      if (!failed) {
        MakeRoom();
        connections.push_back(std::make_shared<Connection>(this, std::move(socket)));
        connections.back()->Read();
        return Accept();
      }
      breath.expires_after(kBreath);
      breath.async_wait([this](beast::error_code) { Accept(); });
    });
  }

  void MakeRoom() {
    if (connections.size() < options.most_connections) return;
    const auto asks = [](const auto& connection) { return !connection->has_asked(); };
    const auto oldest = std::find_if(connections.begin(), connections.end(), asks);
    const auto leaves = oldest == connections.end() ? connections.begin() : oldest;
    (*leaves)->End();
    connections.erase(leaves);
  }

  const HttpOptions options;
  const Maker make;
  asio::io_context context{1};
  tcp::acceptor acceptor;
  asio::steady_timer breath;
  std::list<std::shared_ptr<Connection>> connections;  // the oldest first
  std::thread thread;
};

void HttpServer::Connection::Read() {
  stream_.expires_after(server_->options.patience);
  parser_.emplace();
  parser_->header_limit(server_->options.most_request_bytes);
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](beast::error_code failed, size_t) {
    if (failed) return self->Leave();
    self->Answer();
  });
}

http::response<http::string_body> HttpServer::Connection::Make() {
  const auto& request = parser_->get();
  http::response<http::string_body> response(http::status::ok, request.version());
  const auto target = request.target().substr(0, request.target().find('?'));
  if (request.method() != http::verb::get && request.method() != http::verb::head)
    response.result(http::status::method_not_allowed);
  else if (target != server_->options.path) response.result(http::status::not_found);
  else response.body() = server_->make();
  response.set(http::field::content_type, server_->options.content_type);
  response.keep_alive(false);
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

void HttpServer::Connection::Answer() {
  has_asked_ = true;
  try {
    response_.emplace(Make());
  } catch (const std::exception&) {  // memory is short
    return Leave();
  }
  stream_.expires_after(server_->options.patience);
  http::async_write(stream_, *response_, [self = shared_from_this()](beast::error_code, size_t) {
    beast::error_code ignored;
    self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    self->Leave();
  });
}

void HttpServer::Connection::Leave() {
  End();
  server_->connections.remove(shared_from_this());
}

HttpServer::HttpServer() = default;
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return server_->acceptor.local_endpoint().port(); }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, uint16_t port, HttpOptions options,
                                                      Maker make) {
  std::unique_ptr<HttpServer> out(new HttpServer);
  out->server_ = std::make_unique<Server>(std::move(options), std::move(make));
  try {
    out->server_->Listen(host, port);
  } catch (const std::exception& error) {  // how the library says that it cannot
    return Status(Code::kUnavailable, error.what());
  }
  return out;
}

}  // namespace tenon::cli
