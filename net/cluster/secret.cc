// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/secret.h"

#include <map>
#include <mutex>

#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

constexpr char kBetween = '\n';

struct Secrets {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> by_owner;
};

// Of this process.
std::string SecretOf(const std::string& name) {
  static Secrets* const secrets = new Secrets;  // threads may outlive the static objects
  const std::lock_guard lock(secrets->mutex);
  std::string& secret = secrets->by_owner[name];
  while (secret.size() < 4 * sizeof(uint64_t)) {
    const uint64_t more = RandomNumber();
    secret.append(reinterpret_cast<const char*>(&more), sizeof more);
  }
  return secret;
}

}  // namespace

Owner Owner::Of(std::string_view given) {
  if (given.empty()) return {};
  const size_t end = given.find(kBetween);
  const std::string name(given.substr(0, end));
  return {name, end == std::string_view::npos ? SecretOf(name) : std::string(given.substr(end + 1))};
}

bool SameSecret(std::string_view a, std::string_view b) {
  volatile unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const unsigned char other = b.empty() ? 0 : static_cast<unsigned char>(b[i % b.size()]);
    difference = difference | (static_cast<unsigned char>(a[i]) ^ other);
  }
  return difference == 0;
}

}  // namespace tenon::cluster
