/* SPDX-License-Identifier: Apache-2.0
 * The options of a session (tenon_session_options and tenon_debug_options of app.h), as a list for programs that pass
 * them on: one line an option, from which this library reads them, sends them to workers, and makes the command's
 * flags. The structs in app.h say what each means.
 *
 * X(name, kind, value, reach, flag, help, names)
 *   kind   SIZE (bytes) and NUMBER: uint64_t; CHOICE: uint32_t, one of `names`, which are separated by '|' and count
 *          from 0; SWITCH: a uint32_t that is TENON_DEFAULT, TENON_ON or TENON_OFF; TEXT and FILE (the flag names a
 *          file, the option is what it holds): tenon_span; TIME: nanoseconds in a uint64_t whose name ends in _ns
 *   value  what it is where nobody says anything
 *   reach  EVERYWHERE: where the steps run, workers of a cluster too; HERE: the process that opens the session;
 *          IN_PROCESS and ON_CLUSTER: as HERE, and an error for a session whose steps run on a cluster, or in this
 *          process
 *   flag   of `tenon run` and the like, which asks for the value that is not the default; "" for none
 */
#ifndef TENON_SESSION_OPTIONS_H_
#define TENON_SESSION_OPTIONS_H_

/* Of sessions alone, for which a package with a pass over steps (ext/draft/graph_pass.h) answers: products and
 * convolutions of weights are of 8-bit integers, whose ranges `calibration` says. Every kernel that stays in floats
 * gets TENON_PRECISION_STRICT. */
#define TENON_PRECISION_INT8 4u

/* clang-format off */
#define TENON_SESSION_OPTIONS(X) \
  X(device, TEXT, "", HERE, "--device", "Device of nodes that ask for none, as `tenon devices` names it", "") \
  X(placement, FILE, "", HERE, "--placement", \
    "A placement to follow: lines of a node's name or pattern, and a device", "") \
  X(placement_source, TEXT, "", HERE, "", "", "") \
  X(soft_placement, SWITCH, true, HERE, "--hard-placement", "A device name that cannot hold is an error", "") \
  X(costs, FILE, "", HERE, "--costs", "What nodes took in earlier runs, to place by; `tenon run` adds to it", "") \
  X(costs_source, TEXT, "", HERE, "", "", "") \
  X(record_costs, SWITCH, false, HERE, "", "", "") \
  X(placer, TEXT, "", HERE, "--placer", "The package whose placer chooses devices (default: the engine's own)", "") \
  X(master, TEXT, "", HERE, "--master", \
    "Run the steps on the cluster of this task, such as grpc://host:port or shm://name. With credentials, all its " \
    "tasks, separated by commas: they are shown to no others, but to sockets beside a given one", "") \
  X(credentials, FILE, "", ON_CLUSTER, "--credentials", "JSON of the cluster's transport: certificates, a token", "") \
  X(connect_timeout, TIME, 0, ON_CLUSTER, "", "", "") \
  X(owner, TEXT, "", ON_CLUSTER, "", "", "") \
  X(isolate, SWITCH, false, ON_CLUSTER, "", "", "") \
  X(share_state, SWITCH, false, IN_PROCESS, "", "", "") \
  X(seed, NUMBER, 0, EVERYWHERE, "--seed", "Seed of random ops that have none (default: from the system)", "") \
  X(memory_limit, SIZE, 0, EVERYWHERE, "--memory-limit", "Most memory of the session, such as 512M", "") \
  X(executor, CHOICE, 0, EVERYWHERE, "--executor", "auto (default) or dynamic, for everything", "auto|dynamic") \
  X(precision, CHOICE, 0, EVERYWHERE, "--precision", \
    "strict (default), tf32, bfloat16, float16 or int8, which goes by a calibration", \
    "strict|tf32|bfloat16|float16|int8") \
  X(calibration, FILE, "", HERE, "--calibration", \
    "The ranges of values that `tenon run --calibrate` found, for --precision int8", "") \
  X(optimize, SWITCH, true, EVERYWHERE, "--no-optimize", "No folding, no common subexpressions", "") \
  X(compile, SWITCH, true, EVERYWHERE, "--no-compile", \
    "Devices run nodes one by one, whatever their compilers would take", "") \
  X(capture, SWITCH, true, EVERYWHERE, "--no-capture", \
    "Devices get every kernel in every step, never a captured piece of the step", "") \
  X(check_numerics, SWITCH, false, EVERYWHERE, "--check-numerics", \
    "A step fails at the first node that makes a NaN or an infinity, and says which; slow", "") \
  X(watch, SWITCH, false, IN_PROCESS, "", "", "") \
  X(receive_window, SIZE, 0, ON_CLUSTER, "--receive-window", \
    "Bytes of large values that a task asks others for ahead of need (default: 8M)", "") \
  X(device_filters, TEXT, "", ON_CLUSTER, "--device-filters", \
    "The tasks of the cluster that are used, such as /job:ps,/job:worker/task:0 (default: all)", "") \
  X(silence_timeout, TIME, 0, ON_CLUSTER, "--silence-timeout", \
    "How long a task may say nothing before it is taken for lost (default: 3s)", "") \
  X(no_pass, TEXT, "", EVERYWHERE, "--no-pass", \
    "Graph passes that are left out, by name and with commas, such as known-axes; a wrong name says which there are", \
    "")

#define TENON_DEBUG_OPTIONS(X) \
  X(schedule_seed, NUMBER, 0, EVERYWHERE, "", "", "") \
  X(one_queue, SWITCH, false, EVERYWHERE, "", "", "") \
  X(early_transfers, SWITCH, false, EVERYWHERE, "", "", "") \
  X(partition, SWITCH, false, IN_PROCESS, "", "", "") \
  X(transfer_precision, CHOICE, 0, HERE, "", "", "full|truncated|nearest")
/* clang-format on */

/* The member that is an option, in the C structs: TENON_OPTION_MEMBER(kind, name). */
#define TENON_OPTION_MEMBER(kind, name) TENON_OPTION_MEMBER_##kind(name)
#define TENON_OPTION_MEMBER_SIZE(name) name
#define TENON_OPTION_MEMBER_NUMBER(name) name
#define TENON_OPTION_MEMBER_CHOICE(name) name
#define TENON_OPTION_MEMBER_SWITCH(name) name
#define TENON_OPTION_MEMBER_TEXT(name) name
#define TENON_OPTION_MEMBER_FILE(name) name
#define TENON_OPTION_MEMBER_TIME(name) name##_ns

#endif /* TENON_SESSION_OPTIONS_H_ */
