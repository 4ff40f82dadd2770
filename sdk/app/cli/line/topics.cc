// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/line/topics.h"

namespace tenon::cli {
namespace {

constexpr Topic kTopics[] = {
    {"commands", "what a command line is made of",
     R"(tenon COMMAND [WORDS] [--flag VALUE | --flag=VALUE]...

`tenon --help` lists the commands, `tenon COMMAND --help` the flags of one. A flag may stand before or after the words.
A word after `--` is no flag. A flag that may be repeated takes one value each time.

  tenon run model --feed x=x.npy --fetch y=y.npy    run a graph on arrays from files
  tenon inspect model                               what stands in a graph or a checkpoint
  tenon place model --explain                       where each node would run, and why
  tenon compare model --feed x=x.npy --against gpu:0   where a device parts from the host
  tenon ops --coverage model                        which ops a model needs, and who has them
  tenon train digits --steps 500                    a training that survives being killed
  tenon train model --data x=x.npy --data y=y.npy   a model that has a training step, on arrays from files
  tenon cluster up --workers 2                      a cluster on this machine
  tenon plugins                                     what is loaded, what is not, and what to do

Sizes: 1000, 64k, 512M, 1.5GiB; k, M, G and T are powers of 1024. Times: 500ms, 1.5s, 3min, 1h; without a unit: seconds.
)"},
    {"environment", "environment variables that are read",
     R"(TENON_PLUGIN_PATH    folders with plugins, or plugins, absolute, separated by ':', before those that are installed
TF_CONFIG            of `tenon worker`: the cluster and which task this is, where no --cluster is given
OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID, RANK
                     of `tenon worker`: which task this is, where its launcher says it by a number
XDG_RUNTIME_DIR      where `tenon cluster up` makes its folder (else in /tmp)
XDG_CACHE_HOME, HOME where devices keep the kernels that they compile
TENON_NAME_CRASHES   0: a crash does not say which plugin and node ran (1 is the default of this program)
COLUMNS              how wide tables are, where the terminal does not say it
NO_COLOR             not empty: no colours
)"},
    {"exit-codes", "what 0, 1 and 2 mean",
     R"(0  the work is done
1  the work failed: a file, the machine, the network or the graph itself is not as it must be
2  the command line is wrong: a command, a flag, a value, or a name that the graph or the plugins do not have

What went wrong stands on stderr, on one line; with --json as {"error": {"command", "code", "message", "exit_code"}}.
`tenon ops --coverage` ends with 1 where an op is missing, and `tenon train` where it was stopped before its last step.
)"},
    {"plugins", "where plugins come from, and how they are set",
     R"(Ops, kernels, devices, transports, file systems and compilers are plugins: libraries tenon_*.so. They are looked for

  1. where --plugin names a library, or a folder of them
  2. in the folders of TENON_PLUGIN_PATH, then in those of --option tenon.plugin_path=FOLDER
  3. in lib/tenon/plugins of the prefix that this program stands in
  4. in the system's folder

and nowhere else; --no-search leaves 2 to 4 out. Each is opened when something of it is first needed. One that others may
write is not opened (--option tenon.untrusted_plugins=load opens it all the same).

  tenon plugins                             what was found, what was not taken, why, and what helps
  tenon devices                             the devices that they bring
  tenon run g --option tenon.cpu.devices=2  PLUGIN.KEY=VALUE; a wrong one is refused, and the known ones are named
  tenon run g --devices tpu_sim:2           the same as --option tenon.tpu_sim.devices=2, and they must be there
)"},
    {"files", "which files are read and written",
     R"(GRAPH is a GraphDef or MetaGraphDef file, binary or text, or a SavedModel's folder. `tenon inspect` shows checkpoints too
(PREFIX or PREFIX.index). What other programs write is recognised by its bytes, and refused with what to do:

  .keras, .h5    Keras: model.export('folder') writes a SavedModel
  .onnx          convert it to a SavedModel
  .tflite        give the model that it was made of

Arrays are .npy and .npz files. NAME in --feed NAME=FILE and --fetch NAME=FILE is an input or output of the signature, or a
tensor of the graph: `node`, `node:1`. Paths with a scheme (memory://...) are of the file systems that plugins bring.

A SavedModel's graph touches no file but the model's own (--allow-files lets it); --option tenon.files=PATH restricts any graph.
)"},
    {"json", "the form of --json",
     R"(With --json a command prints one JSON value on stdout. Shapes are lists in which -1 is a size that is not known, and null where
not even the number of dimensions is; dtypes have NumPy's names (float32, int64, bool; string, bfloat16). Numbers that JSON lacks
are the strings "nan", "inf" and "-inf". Text that is no UTF-8 has its wrong bytes replaced.

An error is one line on stderr: {"error": {"command": "tenon run", "code": "NOT_FOUND", "message": "...", "exit_code": 1}}.
)"},
};

}  // namespace

std::span<const Topic> Topics() { return kTopics; }

const Topic* FindTopic(std::string_view name) {
  for (const Topic& topic : kTopics)
    if (topic.name == name) return &topic;
  return nullptr;
}

}  // namespace tenon::cli
