// SPDX-License-Identifier: Apache-2.0
// Crash: where a plugin ends the process, its name stands on stderr before.
#ifndef TENON_CORE_BASE_CRASH_H_
#define TENON_CORE_BASE_CRASH_H_

namespace tenon {

// From now on a fatal signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) and exit() within a plugin print
// "tenon: plugin 'x' 1.0 crashed (SIGSEGV) in run of node 'n' (Op)". Then the signal does what it did before; an exit
// with success becomes one with 1. An application owns its signals, so it must ask for this; once is enough. The
// calling thread is named when its stack overflows, too.
void NameCrashes();

}  // namespace tenon

#endif  // TENON_CORE_BASE_CRASH_H_
