// SPDX-License-Identifier: Apache-2.0
// Negotiation: asks a library's entry point, and checks that its answer is one that this host can use.
//
// Both sides may refuse. The host's rules, in this order: the major version is the host's; while that is 0 the layout
// hash is the host's too; the descriptor is long enough; no bit of must_understand is unknown; at least one capability
// is known. Unknown capability ids are ignored and listed.
#ifndef TENON_PLUGINS_NEGOTIATE_H_
#define TENON_PLUGINS_NEGOTIATE_H_

#include <string>
#include <utility>
#include <vector>

#include "plugins/manifest.h"
#include "plugins/report.h"
#include "tenon/abi.h"

namespace tenon::plugins {

// Options as a user gives them.
using OptionList = std::vector<std::pair<std::string, std::string>>;

// Checks what the manifest says, before the library is opened.
bool CheckManifestAbi(const tenon_host& host, const Manifest& manifest, const std::string& path,
                      LoadReport* out_report);

// Calls the entry point. True: *out_plugin is a copy of the descriptor, zeroes where the plugin's is shorter, and
// *out_report has its id, version and counts. False: *out_report says why not.
bool Negotiate(const tenon_host& host, tenon_plugin_query_function query, const std::string& path,
               tenon_plugin* out_plugin, LoadReport* out_report);

// What follows the entry point's answer: the same of a descriptor that is at hand.
bool CheckPlugin(const tenon_host& host, const tenon_plugin& answer, const std::string& path, tenon_plugin* out_plugin,
                 LoadReport* out_report);

// Checks the given options against the declared ones. *out_options gets every declared option that was given or has a
// default; its spans point into `given` and the plugin.
bool CheckOptions(const tenon_plugin& plugin, const OptionList& given, std::vector<tenon_option>* out_options,
                  LoadReport* out_report);

}  // namespace tenon::plugins

#endif  // TENON_PLUGINS_NEGOTIATE_H_
