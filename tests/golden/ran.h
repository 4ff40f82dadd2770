// SPDX-License-Identifier: Apache-2.0
// What ran in a case: which kernels of which plugins, how, and of what the graph was made. A manner in which the very
// same would run again tells nothing new.
//
// All of it is asked of the engine (tenon_callable_explain, the session's metrics). What the engine does not tell is
// taken for different by whoever asks.
#ifndef TENON_TESTS_GOLDEN_RAN_H_
#define TENON_TESTS_GOLDEN_RAN_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::golden {

struct Ran {
  std::set<std::string> ops;      // of the graph with its gradients, of its functions, and of what passes made of it
  std::set<std::string> plugins;  // whose kernels were chosen, and those that were asked before them and refused
  size_t told = 0;                // of all that the steps say of themselves: equal where the same ran
  bool compiled = false;          // some of it by a device's compiler
  bool chained = false;  // a node read another, which a compiler may have claimed together and left, so that they are
                         // not the engine's to tile
  bool optimized = false;         // not the graph as it stands, or that is not known
  bool functions = false;         // kernels may call some, of whose insides nothing is told
  bool differentiated = false;    // which may make more functions
  bool several = false;           // programs, for several shapes: the newest of a step is told
  bool refused = false;           // a step, before its kernels were chosen
};

// A session whose steps can be asked afterwards what ran. Without `watched` it is a session as everybody's.
class CaseSession {
 public:
  static host::Result<CaseSession> Create(const host::Runtime& runtime, const host::Graph& graph,
                                          const host::SessionOptions& options, bool watched);

  host::Status Extend(const host::Graph& graph) { return session_.Extend(graph); }
  host::Result<std::vector<host::Tensor>> Run(const std::vector<host::Feed>& feeds,
                                              const std::vector<host::Name>& fetches,
                                              const std::vector<host::Name>& targets = {},
                                              const host::RunOptions& options = {});
  // What has run, of a session that is watched. graph: the session's.
  Ran Tell(const host::Graph& graph) const;

 private:
  CaseSession(host::Session session, bool watched) : session_(std::move(session)), watched_(watched) {}
  host::Result<host::Callable*> Prepared(const std::vector<host::Feed>& feeds, const std::vector<host::Name>& fetches,
                                         const std::vector<host::Name>& targets, const host::RunOptions& options);

  host::Session session_;
  bool watched_;
  std::map<std::string, host::Callable> prepared_;  // by the names of feeds, fetches and targets
  bool refused_ = false;                            // a step could not be prepared
  bool failed_ = false;                             // one that was prepared
};

// Adds the ops of the functions in a serialized GraphDef; false: there are none.
bool AddFunctionOps(const std::string& graph_def, std::set<std::string>* ops);

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_RAN_H_
