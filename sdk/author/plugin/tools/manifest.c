/* SPDX-License-Identifier: Apache-2.0 */
/* tenon-manifest: says as JSON what a plugin library is, needs and provides, without calling its load().
 *
 *   tenon-manifest LIBRARY [--cpu-feature NAME]... [--provides-from OTHER] [--json FILE] [--note FILE] [--kernels FILE]
 *
 * A child process opens the library, because opening runs its constructors, which may need a CPU feature that this
 * machine lacks. With --provides-from a sibling of the same package answers then in its place. --note writes the ELF
 * note that objcopy puts into the library as .note.tenon; without --json, --note and --kernels the text goes to stdout.
 * Of kernels it has the ops' names, since a host reads every note that it finds when it starts; --kernels writes all
 * that their registrations say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/ext/draft/graph_pass.h"
#include "tenon/plugin.h"

#define NOTE_NAME "Tenon"
#define NOTE_TYPE 1u
#define MAX_FEATURES 64

static const char* const kTypeNames[] = {"invalid",
                                         "float",
                                         "double",
                                         "int32",
                                         "uint8",
                                         "int16",
                                         "int8",
                                         "string",
                                         "complex64",
                                         "int64",
                                         "bool",
                                         "qint8",
                                         "quint8",
                                         "qint32",
                                         "bfloat16",
                                         "qint16",
                                         "quint16",
                                         "uint16",
                                         "complex128",
                                         "half",
                                         "resource",
                                         "variant",
                                         "uint32",
                                         "uint64",
                                         "float8_e5m2",
                                         "float8_e4m3fn",
                                         "float8_e4m3fnuz",
                                         "float8_e4m3b11fnuz",
                                         "float8_e5m2fnuz",
                                         "int4",
                                         "uint4",
                                         "int2",
                                         "uint2",
                                         "float4_e2m1fn"};

static int fail(const char* library, const char* text) {
  fprintf(stderr, "tenon-manifest: %s: %s\n", library, text);
  return 1;
}

/* ---- JSON ---- */

static void write_bytes(FILE* out, const char* data, uint64_t size) {
  fputc('"', out);
  for (uint64_t i = 0; i < size; ++i) {
    const unsigned char c = (unsigned char)data[i];
    if (c == '"' || c == '\\') {
      fprintf(out, "\\%c", c);
    } else if (c < 0x20) {
      fprintf(out, "\\u%04x", c);
    } else {
      fputc(c, out);
    }
  }
  fputc('"', out);
}

static void write_text(FILE* out, const char* text) { write_bytes(out, text, strlen(text)); }

static void write_field(FILE* out, const char* key, tenon_span value) {
  write_text(out, key);
  fputs(": ", out);
  write_bytes(out, value.data, value.size);
}

static void write_dtype(FILE* out, uint32_t dtype) {
  if (dtype < sizeof(kTypeNames) / sizeof(kTypeNames[0])) {
    write_text(out, kTypeNames[dtype]);
  } else {
    fprintf(out, "\"%" PRIu32 "\"", dtype);
  }
}

/* The comma before every element but the first. */
static void separate(FILE* out, uint64_t* written, const char* indent) {
  fprintf(out, "%s\n%s", *written > 0 ? "," : "", indent);
  ++*written;
}

/* The comma before every name but the first: there are thousands, and each start of a host reads them all. */
static void separate_names(FILE* out, uint64_t* written) {
  if ((*written)++ > 0) fputc(',', out);
}

/* ---- What the library says of itself ---- */

static int is_id(tenon_span id, const char* text) {
  return id.size == strlen(text) && memcmp(id.data, text, id.size) == 0;
}

static void write_ops(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputs("    \"ops\": [", out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_OPS)) continue;
    const tenon_op_package* package = plugin->capabilities[c].table;
    for (uint64_t i = 0; i < package->count; ++i) {
      separate_names(out, &written);
      write_bytes(out, package->definitions[i]->name.data, package->definitions[i]->name.size);
    }
  }
  fputs("],\n", out);
}

static void write_gradients(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputs("    \"gradients\": [", out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_GRADIENTS)) continue;
    const tenon_gradient_package* package = plugin->capabilities[c].table;
    for (uint64_t i = 0; i < package->count; ++i) {
      separate_names(out, &written);
      write_bytes(out, package->registrations[i]->op.data, package->registrations[i]->op.size);
    }
  }
  fputs("],\n", out);
}

static void write_kernel(FILE* out, const tenon_kernel_registration* kernel) {
  fputc('{', out);
  write_field(out, "op", kernel->op);
  fputs(", ", out);
  write_field(out, "device_type", kernel->device_type);
  fputs(", ", out);
  write_field(out, "label", kernel->label);
  fprintf(out, ", \"priority\": %" PRId32 ", \"constraints\": {", kernel->priority);
  for (uint64_t i = 0; i < kernel->constraint_count; ++i) {
    const tenon_type_constraint* constraint = &kernel->constraints[i];
    if (i > 0) fputs(", ", out);
    write_bytes(out, constraint->attr.data, constraint->attr.size);
    fputs(": [", out);
    for (uint64_t k = 0; k < constraint->count; ++k) {
      if (k > 0) fputs(", ", out);
      write_dtype(out, constraint->dtypes[k]);
    }
    fputc(']', out);
  }
  fputs("}}", out);
}

/* The kernels as a list, in full. */
static void write_registrations(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputc('[', out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_KERNELS)) continue;
    const tenon_kernel_package* package = plugin->capabilities[c].table;
    for (uint64_t i = 0; i < package->count; ++i) {
      separate(out, &written, "  ");
      write_kernel(out, package->registrations[i]);
    }
  }
  fputs("]\n", out);
}

/* Whether a kernel before this one, in the same package, is of the same op. */
static int is_named(const tenon_kernel_package* package, uint64_t index) {
  const tenon_span op = package->registrations[index]->op;
  for (uint64_t i = 0; i < index; ++i) {
    const tenon_span other = package->registrations[i]->op;
    if (other.size == op.size && memcmp(other.data, op.data, op.size) == 0) return 1;
  }
  return 0;
}

/* The ops that there are kernels of. */
static void write_kernels(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputs("    \"kernels\": [", out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_KERNELS)) continue;
    const tenon_kernel_package* package = plugin->capabilities[c].table;
    for (uint64_t i = 0; i < package->count; ++i) {
      if (is_named(package, i)) continue;
      separate_names(out, &written);
      write_bytes(out, package->registrations[i]->op.data, package->registrations[i]->op.size);
    }
  }
  fputs("],\n", out);
}

static void write_devices(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputs("    \"devices\": [", out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_DEVICE)) continue;
    const tenon_device_driver* driver = plugin->capabilities[c].table;
    separate_names(out, &written);
    write_bytes(out, driver->device_type.data, driver->device_type.size);
  }
  fputs("],\n", out);
}

/* The ops whose graphs want a pass of it, so that it is opened for these alone; "*": all graphs may. Passes of a
 * precision are opened for its sessions. Nothing is written of a package without passes. */
static void write_passes(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0, passes = 0;
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    if (!is_id(plugin->capabilities[c].id, TENON_CAPABILITY_GRAPH_PASS)) continue;
    const tenon_graph_pass* pass = plugin->capabilities[c].table;
    if (passes++ == 0) fputs("    \"pass_ops\": [", out);
    if (pass->precision != 0) continue;
    if (pass->op_count == 0) {
      separate_names(out, &written);
      write_text(out, "*");
    }
    for (uint64_t i = 0; i < pass->op_count; ++i) {
      separate_names(out, &written);
      write_bytes(out, pass->ops[i].data, pass->ops[i].size);
    }
  }
  if (passes > 0) fputs("],\n", out);
}

static void write_capabilities(FILE* out, const tenon_plugin* plugin) {
  uint64_t written = 0;
  fputs("    \"capabilities\": [", out);
  for (uint64_t c = 0; c < plugin->capability_count; ++c) {
    separate(out, &written, "      ");
    fputc('{', out);
    write_field(out, "id", plugin->capabilities[c].id);
    fprintf(out, ", \"layout_hash\": \"%016" PRIx64 "\"}", plugin->capabilities[c].layout_hash);
  }
  fputs("]\n", out);
}

static void write_options(FILE* out, const tenon_plugin* plugin) {
  static const char* const kNames[] = {"", "string", "int", "float", "bool"};
  uint64_t written = 0;
  fputs("  \"options\": [", out);
  for (uint64_t i = 0; i < plugin->option_count; ++i) {
    const tenon_option_declaration* option = &plugin->options[i];
    separate(out, &written, "    ");
    fputc('{', out);
    write_field(out, "key", option->key);
    fprintf(out, ", \"type\": \"%s\", ", kNames[option->type]);
    write_field(out, "default", option->default_value);
    fputs(", ", out);
    write_field(out, "text", option->text);
    fputc('}', out);
  }
  fputs("],\n", out);
}

/* The middle of the manifest: all that the descriptor and its static tables say. */
static void write_descriptor(FILE* out, const tenon_plugin* plugin) {
  fputs("  ", out);
  write_field(out, "id", plugin->id);
  fputs(",\n  ", out);
  write_field(out, "version", plugin->version);
  fputs(",\n  ", out);
  write_field(out, "vendor", plugin->vendor);
  fputs(",\n  ", out);
  write_field(out, "doc", plugin->doc);
  fprintf(out, ",\n  \"abi\": {\"major\": %" PRIu32 ", \"minor\": %" PRIu32 ", \"layout_hash\": \"%016" PRIx64 "\"},\n",
          plugin->abi_major, plugin->abi_minor, plugin->layout_hash);
  write_options(out, plugin);
  fputs("  \"provides\": {\n", out);
  write_ops(out, plugin);
  write_gradients(out, plugin);
  write_kernels(out, plugin);
  write_devices(out, plugin);
  write_passes(out, plugin);
  write_capabilities(out, plugin);
  fputs("  }", out);
}

/* What would be wrong with every machine is said where the library is built. NULL when nothing is. */
static const char* complaint(const tenon_plugin* plugin) {
  if (plugin->struct_size < sizeof(tenon_plugin)) return "its descriptor is shorter than tenon_plugin of these headers";
  if (plugin->abi_major != TENON_ABI_MAJOR) return "it was built with headers of another major version";
  if (plugin->layout_hash != TENON_LAYOUT_HASH) return "it was built with other headers (layout hash)";
  if (plugin->id.size == 0) return "its id is empty; use a reverse domain name such as \"com.example.fft\"";
  if (plugin->version.size == 0) return "its version is empty";
  if (plugin->capability_count == 0) return "it provides no capability at all";
  if (plugin->load == NULL || plugin->unload == NULL) return "load or unload is NULL";
  for (uint64_t i = 0; i < plugin->option_count; ++i) {
    const uint32_t type = plugin->options[i].type;
    if (type < TENON_OPTION_STRING || type > TENON_OPTION_BOOL) return "an option has a type that is no TENON_OPTION_*";
    if (plugin->options[i].key.size == 0) return "an option has an empty key";
  }
  for (uint64_t i = 0; i < plugin->capability_count; ++i) {
    if (plugin->capabilities[i].table == NULL) return "the table of a capability is NULL";
  }
  return NULL;
}

typedef void (*writer)(FILE* out, const tenon_plugin* plugin);

/* Runs in the child: opens the library and writes its answer. */
static int describe(const char* library, writer write, FILE* out) {
  char path[4096];
  if (snprintf(path, sizeof(path), "%s%s", strchr(library, '/') ? "" : "./", library) >= (int)sizeof(path)) {
    return fail(library, "the path is too long");
  }
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return fail(library, dlerror());
  tenon_plugin_query_function query = NULL;
  *(void**)&query = dlsym(handle, TENON_QUERY_SYMBOL);
  if (query == NULL)
    return fail(library, "it does not export " TENON_QUERY_SYMBOL "; use TENON_PLUGIN of tenon/plugin.h");
  tenon_query_args args = {TENON_HEAD(tenon_query_args), TENON_ABI_MAJOR, TENON_ABI_MINOR, TENON_LAYOUT_HASH,
                           TENON_SPAN("tenon-manifest"), 0, 0, {NULL, 0}};
  const tenon_plugin* plugin = query(&args);
  if (plugin == NULL) {
    fprintf(stderr, "tenon-manifest: %s: it refuses, code %" PRIu32 ": %.*s\n", library, args.out_reject_code,
            (int)args.out_reject_text.size, args.out_reject_text.data);
    return 1;
  }
  const char* wrong = complaint(plugin);
  if (wrong != NULL) return fail(library, wrong);
  write(out, plugin);
  return fflush(out) == 0 && !ferror(out) ? 0 : fail(library, strerror(errno));
}

/* Runs describe() in a child. Leaves the text in `out`. Returns 0, or 1 after saying why. */
static int describe_in_child(const char* library, writer write, FILE* out) {
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) return fail(library, strerror(errno));
  if (child == 0) {
    const int result = describe(library, write, out);
    fflush(NULL);
    _exit(result);
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0) {
    if (errno != EINTR) return fail(library, strerror(errno));
  }
  if (WIFSIGNALED(state)) {
    fprintf(stderr, "tenon-manifest: %s: opening it ended in signal %d (%s)\n", library, WTERMSIG(state),
            strsignal(WTERMSIG(state)));
    return 1;
  }
  return WEXITSTATUS(state) == 0 ? 0 : 1;
}

/* ---- What the file needs ---- */

static char* read_file(const char* path, size_t* out_size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  char* data = NULL;
  long size = -1;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    data = malloc((size_t)size + 1);
    if (data != NULL && fread(data, 1, (size_t)size, file) != (size_t)size) {
      free(data);
      data = NULL;
    }
  }
  fclose(file);
  if (data != NULL) data[size] = '\0';
  *out_size = (size_t)size;
  return data;
}

static int inside(size_t size, uint64_t offset, uint64_t count) { return offset <= size && count <= size - offset; }

/* Writes the names of DT_NEEDED. Returns 0 when the file is no shared library of this machine's kind. */
static int write_libraries(FILE* out, const char* data, size_t size) {
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)data;
  if (size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN ||
      header->e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(size, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr))) {
    return 0;
  }
  uint64_t written = 0;
  const Elf64_Shdr* sections = (const Elf64_Shdr*)(data + header->e_shoff);
  for (unsigned s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_DYNAMIC) continue;
    if (sections[s].sh_link >= header->e_shnum) return 0;
    const Elf64_Shdr* strings = &sections[sections[s].sh_link];
    if (!inside(size, sections[s].sh_offset, sections[s].sh_size)) return 0;
    if (!inside(size, strings->sh_offset, strings->sh_size)) return 0;
    const Elf64_Dyn* entries = (const Elf64_Dyn*)(data + sections[s].sh_offset);
    for (uint64_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Dyn); ++i) {
      if (entries[i].d_tag != DT_NEEDED) continue;
      if (entries[i].d_un.d_val >= strings->sh_size) return 0;
      const char* name = data + strings->sh_offset + entries[i].d_un.d_val;
      separate(out, &written, "    ");
      write_bytes(out, name, strnlen(name, strings->sh_size - entries[i].d_un.d_val));
    }
  }
  return 1;
}

/* ---- Output ---- */

static int write_note(const char* path, const char* text, size_t size) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return fail(path, strerror(errno));
  const Elf64_Nhdr header = {sizeof(NOTE_NAME), (Elf64_Word)size, NOTE_TYPE};
  const char padding[4] = {0, 0, 0, 0};
  fwrite(&header, sizeof(header), 1, file);
  fwrite(NOTE_NAME, 1, sizeof(NOTE_NAME), file);
  fwrite(padding, 1, (0u - sizeof(NOTE_NAME)) & 3u, file);
  fwrite(text, 1, size, file);
  fwrite(padding, 1, (0u - size) & 3u, file);
  const int bad = ferror(file);
  return fclose(file) == 0 && !bad ? 0 : fail(path, strerror(errno));
}

static int write_json(const char* path, const char* text, size_t size) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return fail(path, strerror(errno));
  fwrite(text, 1, size, file);
  const int bad = ferror(file);
  return fclose(file) == 0 && !bad ? 0 : fail(path, strerror(errno));
}

typedef struct options {
  const char* library;
  const char* provides_from;
  const char* json;
  const char* note;
  const char* kernels;
  const char* features[MAX_FEATURES];
  int feature_count;
} options;

static int parse(int count, char** arguments, options* out) {
  for (int i = 1; i < count; ++i) {
    const char* argument = arguments[i];
    const char* value = i + 1 < count ? arguments[i + 1] : NULL;
    if (argument[0] != '-') {
      if (out->library != NULL) return fail(argument, "only one library may be named");
      out->library = argument;
      continue;
    }
    if (value == NULL) return fail(argument, "it needs a value");
    ++i;
    if (strcmp(argument, "--provides-from") == 0) {
      out->provides_from = value;
    } else if (strcmp(argument, "--json") == 0) {
      out->json = value;
    } else if (strcmp(argument, "--note") == 0) {
      out->note = value;
    } else if (strcmp(argument, "--kernels") == 0) {
      out->kernels = value;
    } else if (strcmp(argument, "--cpu-feature") == 0) {
      if (out->feature_count == MAX_FEATURES) return fail(value, "too many CPU features");
      out->features[out->feature_count++] = value;
    } else {
      return fail(argument, "unknown; known: --cpu-feature --provides-from --json --note --kernels");
    }
  }
  return out->library != NULL ? 0
                              : fail("usage",
                                     "tenon-manifest LIBRARY [--cpu-feature NAME]... [--provides-from OTHER] "
                                     "[--json FILE] [--note FILE] [--kernels FILE]");
}

/* Appends what the library says, or its sibling. */
static int write_answer(FILE* out, writer write, const options* given) {
  FILE* part = tmpfile();
  if (part == NULL) return fail("a temporary file", strerror(errno));
  int result = describe_in_child(given->library, write, part);
  if (result != 0 && given->provides_from != NULL) {
    fprintf(stderr, "tenon-manifest: %s: taking what it provides from %s\n", given->library, given->provides_from);
    rewind(part);
    if (ftruncate(fileno(part), 0) != 0) return fail("a temporary file", strerror(errno));
    result = describe_in_child(given->provides_from, write, part);
  }
  if (result != 0) {
    if (given->provides_from == NULL && given->feature_count > 0) {
      fprintf(stderr, "tenon-manifest: if this machine cannot run it, name a sibling that it can (PROVIDES_FROM)\n");
    }
    fclose(part);
    return 1;
  }
  rewind(part);
  for (int c; (c = fgetc(part)) != EOF;) fputc(c, out);
  fclose(part);
  return 0;
}

static int write_manifest(FILE* out, const options* given) {
  size_t size = 0;
  char* file = read_file(given->library, &size);
  if (file == NULL) return fail(given->library, strerror(errno));
  uint64_t written = 0;
  fputs("{\n  \"tenon_manifest\": 1,\n  \"cpu_features\": [", out);
  for (int i = 0; i < given->feature_count; ++i) {
    separate(out, &written, "    ");
    write_text(out, given->features[i]);
  }
  fputs("],\n  \"libraries\": [", out);
  const int understood = write_libraries(out, file, size);
  free(file);
  if (!understood) return fail(given->library, "it is not a 64-bit ELF shared library");
  fputs("],\n", out);
  if (write_answer(out, write_descriptor, given) != 0) return 1;
  fputs("\n}\n", out);
  return 0;
}

static int write_kernels_file(const options* given) {
  FILE* file = fopen(given->kernels, "wb");
  if (file == NULL) return fail(given->kernels, strerror(errno));
  const int result = write_answer(file, write_registrations, given);
  const int bad = ferror(file);
  return fclose(file) == 0 && !bad ? result : fail(given->kernels, strerror(errno));
}

int main(int count, char** arguments) {
  options given;
  memset(&given, 0, sizeof(given));
  if (parse(count, arguments, &given) != 0) return 2;
  char* text = NULL;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  if (out == NULL) return fail(given.library, strerror(errno));
  int result = write_manifest(out, &given);
  if (fclose(out) != 0) result = fail(given.library, strerror(errno));
  if (result == 0 && given.json != NULL) result = write_json(given.json, text, size);
  if (result == 0 && given.note != NULL) result = write_note(given.note, text, size);
  if (result == 0 && given.kernels != NULL) result = write_kernels_file(&given);
  if (result == 0 && given.json == NULL && given.note == NULL && given.kernels == NULL) fwrite(text, 1, size, stdout);
  free(text);
  return result;
}
