#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tree, and plants violations to prove that each check can fail. Usage: layers_test.py [ROOT]. Covers O1,
O3."""

import sys
import tempfile
import unittest
from pathlib import Path

import class_sizes
import known_ops
import layers
import pages
import ratchet

ROOT = Path(__file__).resolve().parents[2]


class TheTree(unittest.TestCase):
    """The rules hold in the tree."""

    @classmethod
    def setUpClass(cls):
        cls.tree = layers.Tree(ROOT)

    def test_every_check_passes(self):
        for check in (*layers.CHECKS, *pages.CHECKS):
            with self.subTest(check.__name__):
                problems = check(self.tree)
                self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_wide_lines_that_have_become_fewer_are_told(self):
        print("\n".join(pages.fewer(self.tree)), file=sys.stderr)

    def test_names_of_ops_that_have_become_fewer_are_told(self):
        print("\n".join(known_ops.fewer(self.tree.root, layers.known_op_counts(self.tree))), file=sys.stderr)

    def test_classes_that_have_become_smaller_are_told(self):
        print("\n".join(class_sizes.fewer(self.tree.root, layers.class_sizes_of(self.tree))), file=sys.stderr)

    def test_the_walk_finds_the_pages(self):
        found = pages.pages(ROOT)
        self.assertTrue({"README.md", "docs/README.md", *pages.WRITTEN_BY_PROGRAMS} <= set(found))
        self.assertGreater(len(pages.files(ROOT)), len(self.tree.sources))

    def test_the_walk_finds_the_sources(self):
        self.assertTrue(any(s.startswith("core/") for s in self.tree.sources) or
                        not list((ROOT / "core").glob("*/*.h")))

    def test_every_room_under_sdk_has_a_rule_or_is_known_to_have_none(self):
        sources = {source for source in self.tree.sources if source.startswith("sdk/")}
        self.assertEqual(set(), {source for source in sources if layers.unit_of(source) is None})


class Planted(unittest.TestCase):
    """Each rule fails on a tree that breaks it, and passes on one that does not."""

    def problems(self, check, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return check(layers.Tree(folder))

    def includes(self, check, source, target, extra=()):
        files = {path: "" for path in extra}
        files[source] = f"#include {target}\n"
        return self.problems(check, files)

    def assert_refused(self, check, source, target, extra=()):
        problems = self.includes(check, source, target, extra)
        self.assertEqual(1, len(problems), f"{source} -> {target}: {problems}")
        self.assertIn(source, problems[0])

    def assert_allowed(self, check, source, target, extra=()):
        self.assertEqual([], self.includes(check, source, target, extra))

    API = ("plugin_api/include/tenon/op.h", "sdk/author/plugin/include/tenon/plugin/op.h",
           "sdk/app/host/include/tenon/app.h")

    def test_rooms_refuse_what_the_table_does_not_allow(self):
        for source, target in (
            ("plugin_api/include/tenon/a.h", "<vector>"),
            ("plugin_api/include/tenon/a.h", "<unistd.h>"),
            ("plugin_api/include/tenon/a.h", '"core/base/status.h"'),
            ("core/base/a.cc", '"plugins/loader.h"'),
            ("core/base/a.cc", '"sdk/app/host/session.h"'),
            ("core/base/a.cc", "<tenon/plugin/op.h>"),
            ("core/base/a.cc", '"../../plugins/loader.h"'),
            ("core/base/a.cc", "<boost/dll.hpp>"),
            ("core/base/a.cc", "<Eigen/Core>"),
            ("core/exec/a_test.cc", '"plugins/loader.h"'),
            ("core/exec/a.cc", "<strange/thing.h>"),
            ("plugins/a.cc", '"sdk/app/host/session.h"'),
            ("sdk/author/testing/include/tenon/testing/a.h", '"core/base/status.h"'),
            ("sdk/author/testing/include/tenon/testing/a.h", '"tests/fakes/a.h"'),
            ("devices/cpu/kernels/a.cc", '"sdk/author/testing/include/tenon/testing/a.h"'),
            ("sdk/author/plugin/include/tenon/sdk/a.h", '"sdk/author/testing/include/tenon/testing/a.h"'),
            ("plugins/a.cc", '"net/cluster/master.h"'),
            ("net/cluster/a.cc", '"plugins/loader.h"'),
            ("net/cluster/a.cc", '"net/grpc/channel.h"'),
            ("net/grpc/a.cc", '"core/base/status.h"'),
            ("net/grpc/a.cc", '"net/cluster/master.h"'),
            ("net/grpc/a.cc", '"net/loopback/pipe.h"'),
            ("sdk/author/plugin/include/tenon/plugin/a.h", '"core/base/status.h"'),
            ("sdk/author/plugin/include/tenon/plugin/a.h", "<Eigen/Core>"),
            ("sdk/app/host/a.cc", '"sdk/app/cli/table.h"'),
            ("sdk/app/host/a.cc", '"ops/math/matmul.h"'),
            ("ops/math/a.cc", '"core/base/status.h"'),
            ("ops/math/a.cc", '"ops/array/shape.h"'),
            ("ops/math/a.cc", '"../array/shape.h"'),
            ("ops/math/a.cc", "<nlohmann/json.hpp>"),
            ("ops/math/a_test.cc", '"core/base/status.h"'),
            ("devices/cpu/kernels/a.cc", '"devices/null/device.h"'),
            ("devices/cpu/kernels/a.cc", '"core/tensor/shape.h"'),
            ("devices/cpu/kernels/a.cc", '"ops/math/matmul.h"'),
            ("sdk/app/train/a.cc", '"core/graph/graph.h"'),
            ("sdk/app/cli/a.cc", '"plugins/loader.h"'),
            ("sdk/app/cli/a.cc", '"sdk/app/host/internal.h"'),
            ("sdk/app/train/a.cc", "<nlohmann/json.hpp>"),
            ("sdk/app/train/a.cc", '"sdk/app/cli/table.h"'),
            ("sdk/app/train/a.cc", '"sdk/author/plugin/include/tenon/plugin/op.h"'),
            ("sdk/app/data/a.cc", '"sdk/app/train/include/tenon/train/npy.h"'),
            ("sdk/app/model/a.cc", '"sdk/app/train/include/tenon/train/npy.h"'),
            ("bytes/include/tenon/bytes/a.h", "<tenon/app.h>"),
            ("bytes/include/tenon/bytes/a.h", "<tenon/op.h>"),
            ("bytes/include/tenon/bytes/a.h", "<fmt/format.h>"),
            ("ops/math/a.cc", '"sdk/app/data/include/tenon/data/npy.h"'),
            ("sdk/app/cli/a.cc", "<boost/dll.hpp>"),
            ("sdk/app/cli/a.cc", "<tenon/op.h>"),
            ("sdk/app/python/a.cc", '"core/base/status.h"'),
            ("sdk/examples/a.cc", '"core/base/status.h"'),
        ):
            with self.subTest(source=source, target=target):
                extra = (*self.API, "plugins/loader.h", "ops/array/shape.h")
                self.assert_refused(layers.check_rooms, source, target, extra)

    def test_rooms_allow_what_the_table_allows(self):
        for source, target in (
            ("plugin_api/include/tenon/a.h", "<stdint.h>"),
            ("plugin_api/include/tenon/a.h", '"tenon/op.h"'),
            ("core/base/a.cc", "<tenon/op.h>"),
            ("core/base/a.cc", "<vector>"),
            ("core/base/a.cc", "<sys/mman.h>"),
            ("core/graph/graphdef/a.cc", "<google/protobuf/message_lite.h>"),
            ("core/exec/a_test.cc", '"tests/fakes/device.h"'),
            ("core/exec/a_test.cc", "<gtest/gtest.h>"),
            ("plugins/a.cc", "<boost/dll/shared_library.hpp>"),
            ("plugins/a.cc", '"core/base/status.h"'),
            ("net/cluster/a.cc", '"core/exec/plan/plan.h"'),
            ("net/grpc/a.cc", "<grpcpp/grpcpp.h>"),
            ("sdk/app/host/a.cc", '"net/cluster/master.h"'),
            ("ops/math/a.cc", "<tenon/plugin/op.h>"),
            ("ops/math/a.cc", '"ops/math/matmul.h"'),
            ("ops/math/a_test.cc", "<tenon/app.h>"),
            ("devices/cpu/kernels/a.cc", "<Eigen/Core>"),
            ("devices/cpu/kernels/a.cc", '"devices/cpu/device.h"'),
            ("sdk/app/cli/a.cc", "<CLI/CLI.hpp>"),
            ("sdk/app/cli/a.cc", "<nlohmann/json.hpp>"),
            ("sdk/app/cli/a.cc", '"sdk/app/train/include/tenon/train/saver.h"'),
            ("sdk/app/model/a.cc", '"sdk/app/data/include/tenon/data/npy.h"'),
            ("sdk/app/train/a.cc", '"bytes/include/tenon/bytes/wire.h"'),
            ("ops/io/a.cc", '"bytes/include/tenon/bytes/wire.h"'),
            ("ops/parse/a.cc", "<nlohmann/json.hpp>"),
            ("sdk/author/extras/include/tenon/extras/a.h", "<zlib.h>"),
            ("sdk/app/cli/a.cc", "<tenon/app.h>"),
            ("sdk/examples/a.cc", "<tenon/plugin/op.h>"),
            ("tests/golden/a.cc", '"core/base/status.h"'),
        ):
            with self.subTest(source=source, target=target):
                self.assert_allowed(layers.check_rooms, source, target, self.API)

    def test_core_refuses_every_folder_that_is_not_below(self):
        for folder, below in layers.CORE_BELOW.items():
            for other in layers.CORE_BELOW:
                with self.subTest(source=folder, target=other):
                    source, target = f"core/{folder}/a.cc", f'"core/{other}/x.h"'
                    expect = self.assert_allowed if other in (folder, *below) else self.assert_refused
                    expect(layers.check_core_order, source, target)

    def test_core_order_is_the_one_that_the_design_gives(self):
        for lower, higher in (("base", "tensor"), ("tensor", "graph"), ("graph", "grad"), ("graph", "place"),
                              ("graph", "optimize"), ("graph", "partition"), ("grad", "exec"),
                              ("optimize", "exec"), ("place", "exec"), ("partition", "exec"),
                              ("exec", "session"), ("base", "trace"), ("trace", "exec"), ("trace", "session")):
            self.assertIn(lower, layers.CORE_BELOW[higher])
            self.assertNotIn(higher, layers.CORE_BELOW[lower])
        self.assertEqual(("base",), layers.CORE_BELOW["trace"])
        self.assertEqual({"exec", "session"}, {f for f, below in layers.CORE_BELOW.items() if "trace" in below})

    def test_the_rooms_of_exec_refuse_each_other_but_for_those_below(self):
        for room, below in layers.EXEC_BELOW.items():
            for other in layers.EXEC_BELOW:
                with self.subTest(source=room, target=other):
                    source, target = f"core/exec/{room}/a.cc".replace("//", "/"), f'"core/exec/{other}/x.h"'.replace(
                        "//", "/"
                    )
                    expect = self.assert_allowed if other in (room, *below) else self.assert_refused
                    expect(layers.check_exec_order, source, target)
        self.assert_refused(layers.check_exec_order, "core/exec/helpers/a.cc", "<vector>")
        for lower, higher in (
            ("threads", "device"),
            ("threads", "work"),
            ("device", "kernel"),
            ("work", "kernel"),
            ("kernel", "plan"),
            ("plan", "program"),
            ("program", "lower"),
            ("plan", "dataflow"),
            ("lower", ""),
            ("dataflow", ""),
            ("", "parts"),
        ):
            self.assertIn(lower, layers.EXEC_BELOW[higher])
            self.assertNotIn(higher, layers.EXEC_BELOW[lower])

    def test_core_refuses_circles_of_files(self):
        def include(*names):
            return "".join(f'#include "core/base/{name}.h"\n' for name in names)
        self.assertEqual(
            [],
            self.problems(
                layers.check_circles,
                {
                    "core/base/a.h": "",
                    "core/base/a.cc": include("a"),
                    "core/base/b.h": include("a"),
                    "core/base/c.h": include("a", "b"),
                },
            ),
        )
        circle = self.problems(
            layers.check_circles,
            {
                "core/base/a.h": include("b"),
                "core/base/b.h": "",
                "core/base/b.cc": include("b", "c"),
                "core/base/c.h": include("a"),
            },
        )
        self.assertEqual(["include circle: core/base/a, core/base/b, core/base/c"], circle)

    def test_a_known_circle_may_neither_grow_nor_stay_known_when_it_is_gone(self):
        folder, (first, second) = next(
            (folder, names.split()) for folder, names in layers.KNOWN_CIRCLES if len(names.split()) == 2
        )
        known = {f"{folder}/{first}.h": f'#include "{folder}/{second}.h"\n',
                 f"{folder}/{second}.h": f'#include "{folder}/{first}.h"\n'}
        self.assertEqual([], self.problems(layers.check_circles, known))
        grown = known | {f"{folder}/{first}.h": f'#include "{folder}/a.h"\n',
                         f"{folder}/a.h": f'#include "{folder}/{second}.h"\n'}
        self.assertIn(f"include circle: {folder}/a, ", " ".join(self.problems(layers.check_circles, grown)))
        gone = known | {f"{folder}/{second}.h": ""}
        self.assertIn("no include circle any more", " ".join(self.problems(layers.check_circles, gone)))

    def test_rooms_look_one_way(self):
        down = {"core/a.h": '#include "bytes/a.h"\n', "bytes/a.h": "", "sdk/app/host/a.h": '#include "core/a.h"\n'}
        self.assertEqual([], self.problems(layers.check_room_circles, down))
        through = down | {"bytes/a.h": '#include "sdk/author/plugin/a.h"\n',
                          "sdk/author/plugin/a.h": '#include "core/a.h"\n'}
        self.assertEqual(
            ["circle of rooms: bytes, core, sdk/author"], self.problems(layers.check_room_circles, through)
        )

    def test_a_class_has_thirty_methods_at_most(self):
        def of(count, more=""):
            functions = "".join(f"  int F{i}(int a) const {{ return g({{a, {i}}}); }}\n" for i in range(count))
            return {"core/base/a.h": f"class A : public B {{\n public:\n{functions}{more}}};\n"}
        rest = """  using T = void (*)(int);
  enum class E { kA, kB };
  void (*pointer)(int) = nullptr;
  struct Inner { int G() const; int H() { return 1; } };
  std::function<int(int)> call_;
  int value_ = Compute(3), other_{f(1)};
"""
        self.assertEqual([], self.problems(layers.check_class_sizes, of(29, rest)))
        for more in ("A(const A&) = delete;\n", "template <typename T>\nvoid F(T&& t);\n", "bool operator==(A b);\n"):
            self.assertEqual(1, len(self.problems(layers.check_class_sizes, of(30, more))), more)
        allowed = {class_sizes.RATCHET: "   31 core/base/a.h A\n"}
        self.assertEqual([], self.problems(layers.check_class_sizes, {**of(31), **allowed}))
        self.assertEqual(1, len(self.problems(layers.check_class_sizes, {**of(32), **allowed})))

    def test_core_refuses_a_folder_without_a_place_in_the_order(self):
        self.assert_refused(layers.check_core_order, "core/helpers/a.cc", "<vector>")
        self.assert_refused(layers.check_core_order, "core/a.cc", "<vector>")

    def test_core_order_leaves_tests_alone(self):
        self.assert_allowed(layers.check_core_order, "core/base/a_test.cc", '"core/session/session.h"')

    def test_googletest_stays_in_its_adapter(self):
        for name, check in (("device.h", self.assert_refused), ("googletest.h", self.assert_allowed)):
            check(layers.check_googletest, f"sdk/author/testing/include/tenon/testing/{name}", "<gtest/gtest.h>")

    def test_protobuf_is_refused_outside_graphdef(self):
        for target in ("<google/protobuf/message_lite.h>", '"core/graph/graphdef/graph.pb.h"'):
            self.assert_refused(layers.check_protobuf, "core/graph/graph.cc", target)
            self.assert_allowed(layers.check_protobuf, "core/graph/graphdef/import.cc", target)
            self.assert_allowed(layers.check_protobuf, "core/graph/graph_test.cc", target)

    def test_a_buffer_that_is_kept_without_a_record_is_refused(self):
        for text, count in (
            ("h->buffer_retain(view.buffer);\n  kept_.push_back(view);", 1),
            ("Check(s.retain_input(f, 0, &view)); views.push_back(view);", 1),
            ("h->buffer_retain(view.buffer);\n  return KeptTensor(view);", 0),
            ("Check(s.retain_input(f, 0, &view));\n  KeptTensor kept = KeptTensor(view);", 0),
            ("// buffer_retain\n", 0),
        ):
            with self.subTest(text):
                self.assertEqual(count, len(self.problems(layers.check_kept, {"ops/math/a.cc": text})))
                self.assertEqual([], self.problems(layers.check_kept, {"ops/math/a_test.cc": text}))

    def test_ops_that_a_pass_knows_by_name_become_no_more(self):
        op = {"ops/math/neg.cc": 'TENON_OP(kNeg) = DefineOp({.name = "Neg"});'}
        source = "devices/cpu_codegen/region/claiming.cc"
        knows = {**op, source: 'bool Takes(std::string_view op) { return op == "Neg" || op == "Neg"; }'}
        for most, count in (("", 1), ("1 " + source, 1), ("2 " + source, 0), ("3 " + source, 0)):
            with self.subTest(most):
                files = {**knows, known_ops.RATCHET: f"# which may fall\n{most}\n"}
                self.assertEqual(count, len(self.problems(layers.check_known_ops, files)))
        self.assertEqual(1, len(self.problems(layers.check_known_ops, {**op, "core/exec/a.cc": 'auto op = "Neg";'})))
        for silent in ('Output y = g.Op("Neg", {x});', '// "Neg" is one\n', 'auto text = "Negate";',
                       'TENON_CPU_KERNEL(Neg) = CpuKernel<NegKernel>("Neg", {});'):
            with self.subTest(silent):
                self.assertEqual([], self.problems(layers.check_known_ops, {**op, source: silent}))
        self.assertEqual([], self.problems(layers.check_known_ops, {**op, "devices/cpu/kernels/neg.cc": '"Neg"'}))
        with tempfile.TemporaryDirectory() as folder:  # lowering allows nothing new
            Path(folder, "tests/layers").mkdir(parents=True)
            Path(folder, known_ops.RATCHET).write_text("# Head\n    3 a.cc\n    1 b.cc\n")
            ratchet.lower(folder, known_ops.RATCHET, {"a.cc": 2, "b.cc": 4, "c.cc": 5})
            self.assertEqual("# Head\n    2 a.cc\n    1 b.cc\n", Path(folder, known_ops.RATCHET).read_text())

    def test_equal_names_of_one_library_are_refused(self):
        own = "namespace tenon {\nnamespace {\n%s\n}  // namespace\n}\n"
        for one, other, count in (
            ("struct Place {};", "struct Place { int a; };", 1),
            ("int Sum(int a) { return a; }", "int Sum(float a);", 1),
            ("constexpr int kMost = 1, kLeast = 2;", "constexpr int kLeast = 3;", 1),
            ("using T = int;", "using T = float;", 1),
            ("using T = int;", "using T = int;", 0),
            ("struct Place {};", "struct Other { struct Place {}; };", 0),
            ("void Sum();", "struct A { void Sum(); };\nvoid A::Sum() {}", 0),
        ):
            with self.subTest(one + other):
                files = {"core/CMakeLists.txt": "", "core/base/a.cc": own % one, "core/graph/b.cc": own % other}
                self.assertEqual(count, len(self.problems(layers.check_equal_names, files)))
                apart = {**files, "core/graph/CMakeLists.txt": ""}
                self.assertEqual([], self.problems(layers.check_equal_names, apart))
        header = {
            "core/CMakeLists.txt": "",
            "core/a.h": "namespace tenon {\nstruct Place {};\n}\n",
            "core/b.cc": own % "struct Place {};",
        }
        self.assertEqual(1, len(self.problems(layers.check_equal_names, header)))
        static = {
            "core/CMakeLists.txt": "",
            "core/a.cc": "static const int kMost = 1;\n",
            "core/b.cc": "static const int kMost = 2;\n",
        }
        self.assertEqual(1, len(self.problems(layers.check_equal_names, static)))

    def test_a_test_stands_in_a_namespace_of_its_own(self):
        files = {"core/a_test.cc": "namespace tenon::a_test {\n}\n", "core/b_test.cc": "namespace tenon {\n}\n"}
        self.assertEqual(1, len(self.problems(layers.check_test_namespaces, files)))
        self.assertEqual(
            [], self.problems(layers.check_test_namespaces, {"core/b_test.cc": files["core/b_test.cc"]})
        )  # it is alone

    def test_op_names_are_found_however_they_are_written(self):
        for text in ('.name = "FooBar"', '.name = TENON_SPAN("FooBar")', 'TENON_OP("FooBar")', "TENON_OP(FooBar, x)",
                     'REGISTER_OP("FooBar")', 'Op("FooBar: (a: T) -> b: T")', 'TENON_DEFINE_OP(\n    "FooBar")'):
            with self.subTest(text):
                self.assertEqual({"FooBar"}, layers.op_names(text))
        self.assertEqual(set(), layers.op_names('.name = "transpose_a"; .name = "T"; Open("File");'))

    def test_a_package_in_which_no_op_is_found_is_refused(self):
        self.assertEqual(1, len(self.problems(layers.check_op_extraction, {"ops/math/a.cc": "int x;"})))
        self.assertEqual([], self.problems(layers.check_op_extraction, {"ops/math/a.cc": 'TENON_OP("Foo")'}))

    def test_an_op_name_in_core_is_refused(self):
        package = {"ops/math/a.cc": '.name = "FooBar",'}
        for text, count in (('if (op == "FooBar") {}', 1), ('x = R"(FooBar)";', 1), ('f("MatMul");', 1),
                            ('// "FooBar"', 0), ('/* "MatMul" */', 0), ('"FooBars"', 0), ('"http://" "FooBar"', 1),
                            ("'\"' + \"FooBar\"", 1), ('"a \\" // " "FooBar"', 1)):
            with self.subTest(text):
                files = {**package, "core/exec/a.cc": text}
                self.assertEqual(count, len(self.problems(layers.check_names, files)))
                files = {**package, "core/exec/a_test.cc": text}
                self.assertEqual([], self.problems(layers.check_names, files))

    def test_a_device_type_in_core_is_refused(self):
        for device in ("CPU", "GPU", "TPU", "CUDA", "/device:CPU:0", "/job:a/replica:0/task:0/device:gpu:1"):
            with self.subTest(device):
                self.assertEqual(1, len(self.problems(layers.check_names, {"core/place/a.h": f'f("{device}");'})))
        self.assertEqual([], self.problems(layers.check_names, {"core/place/a.h": 'f("CPUs", "/device:");'}))

    def test_a_source_that_no_cmake_file_names_is_refused(self):
        source = {"devices/x/lstm.cc": ""}
        for text, count in (
            ("set(sources conv.cc)", 1),
            ("set(sources conv.cc lstm.cc)", 0),
            ("# lstm.cc", 1),
            ("set(sources blstm.cc)", 1),
            ('file(GLOB s "*.cc")', 0),
            ('file(GLOB s "*_test.cc")', 1),
            ('file(GLOB s "kernels/*.cc")', 1),
        ):
            with self.subTest(text):
                self.assertEqual(
                    count, len(self.problems(layers.check_built, {**source, "devices/x/CMakeLists.txt": text}))
                )
        self.assertEqual(1, len(self.problems(layers.check_built, source)))
        self.assertEqual(
            [], self.problems(layers.check_built, {**source, "devices/CMakeLists.txt": 'file(GLOB_RECURSE s "*.cc")'})
        )

    def test_a_long_readme_is_refused(self):
        words = "word " * pages.README_WORDS
        good = {"core/README.md": words, "core/PAGE.md": words * 3}
        self.assertEqual([], self.problems(pages.check_readme_words, good))
        refused = self.problems(pages.check_readme_words, {"README.md": words + "more\n", "core/README.md": words})
        self.assertEqual(1, len(refused))
        self.assertIn("README.md: 601 words", refused[0])

    def test_a_wide_line_of_a_page_is_refused(self):
        line = "x" * pages.WIDEST
        generated = next(iter(pages.WRITTEN_BY_PROGRAMS))
        good = {"docs/a.md": f"# A\n{line}\n", generated: line + "x\n"}
        self.assertEqual([], self.problems(pages.check_page_widths, good))
        for text in (f"{line}x", f"    {line}", f"| {line} |", "\u00e4" * pages.WIDEST + "x"):
            self.assertEqual(1, len(self.problems(pages.check_page_widths, {"docs/a.md": text})), text)

    def test_a_link_that_leads_nowhere_is_refused(self):
        there = {"docs/b.md": "# One heading, of two\n\n## Again\n\n## Again\n", "docs/tool.py": ""}
        for text, count in (("[b](b.md)", 0), ("[b](c.md)", 1), ("[b](../docs/b.md), [c](../c.md)", 1),
                            ("[b](tool.py)", 0),
                            ("[x](https://example.com/c.md)", 0), ("`[b](c.md)`", 0), ("```\n[b](c.md)\n```", 0),
                            ("[b](b.md#one-heading-of-two)", 0), ("[b](b.md#two)", 1), ("# Here\n\n[h](#here)", 0),
                            ("[h](#there)", 1), ("[b](b.md#again-1)", 0), ("[b](b.md#again-2)", 1),
                            ("[`b`](b.md) [`c`](c.md)", 1), ("a [two\nlines](c.md)", 1), ("a [two\nlines](b.md)", 0),
                            ("`[b]\n(c.md)` `[b](c.md)`", 0), ("`\n\n[b](c.md) `", 1)):
            with self.subTest(text):
                self.assertEqual(count, len(self.problems(pages.check_links, {**there, "docs/a.md": text})))

    def test_a_link_of_the_file_system_that_leads_nowhere_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            room = Path(folder, "room")
            room.mkdir()
            (room / "LICENSE").symlink_to("../LICENSE")
            problems = pages.check_symlinks(layers.Tree(folder))
            self.assertEqual(["room/LICENSE: this link leads to ../LICENSE, where nothing is"], problems)
            Path(folder, "LICENSE").write_text("")
            self.assertEqual([], pages.check_symlinks(layers.Tree(folder)))

    def test_a_page_that_no_other_links_to_is_refused(self):
        self.assertEqual([], self.problems(pages.check_found, {"core/README.md": "[P](PAGE.md)", "core/PAGE.md": ""}))
        for text in ("", "`[P](PAGE.md)`", "[P](OTHER.md)"):
            alone = {"core/README.md": text, "core/PAGE.md": ""}
            self.assertEqual(1, len(self.problems(pages.check_found, alone)), text)
        self.assertEqual(1, len(self.problems(pages.check_found, {"core/PAGE.md": "# A\n[P](PAGE.md#a)"})))

    def test_a_page_that_is_named_and_is_not_there_is_refused(self):
        there = {"docs/b.md": "", "core/docs/c.md": ""}
        for path, text, count in (("core/a.cc", "// docs/b.md says it", 0), ("core/a.cc", "// docs/x.md says it", 1),
                                  ("core/a.h", "/* docs/c.md */", 0), ("docs/a.md", "`core/docs/c.md`", 0),
                                  ("docs/a.md", "`core/README.md`", 1), ("core/a.py", "# as a.md says", 0),
                                  ("core/CMakeLists.txt", "# docs/x.md", 1), ("core/a.json", "docs/x.md", 0)):
            with self.subTest(text):
                self.assertEqual(count, len(self.problems(pages.check_named_pages, {**there, path: text})))

    def test_wide_lines_become_fewer_and_never_more(self):
        wide = "x" * (pages.WIDEST + 1) + "\n"
        files = {"core/base/a.cc": wide * 2, "core/base/b_test.cc": wide, "core/exec/c.cc": wide}
        files["core/base/d.json"] = wide
        ratchet = {pages.RATCHET: "# A comment\n    3 core/base\n    1 core/exec\n"}
        self.assertEqual([], self.problems(pages.check_wide_lines, {**files, **ratchet}))
        self.assertEqual(2, len(self.problems(pages.check_wide_lines, files)))
        for name in ("e.h", "CMakeLists.txt", "e.py", "e.cmake", "e.cu"):
            path = f"core/base/{name}"
            more = self.problems(pages.check_wide_lines, {**files, **ratchet, path: wide})
            self.assertEqual(1, len(more), path)
            self.assertIn("core/base: 4 lines of code are wider", more[0])
        for path in ("sdk/x/include/tenon/a.h", "plugin_api/include/tenon/a.h", "tools/a.py", "a.py"):
            self.assertEqual(1, len(self.problems(pages.check_wide_lines, {**files, **ratchet, path: wide})), path)

    def test_the_ratchet_is_lowered_and_never_raised(self):
        wide = "x" * (pages.WIDEST + 1) + "\n"
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path, text in (("core/base/a.cc", wide), ("core/exec/a.cc", wide * 2), ("core/grad/a.cc", ""),
                               (pages.RATCHET, "# A comment\n    4 core/base\n    1 core/exec\n    2 core/grad\n")):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            self.assertEqual(2, len(pages.fewer(layers.Tree(folder))))
            pages.lower(root)
            self.assertEqual({"core/base": 1, "core/exec": 1}, ratchet.allowed(root, pages.RATCHET))
            self.assertEqual("# A comment", (root / pages.RATCHET).read_text().splitlines()[0])
            self.assertEqual(1, len(pages.check_wide_lines(layers.Tree(folder))))

    def test_an_include_in_a_comment_is_no_include(self):
        self.assertEqual([], self.problems(layers.check_rooms, {"core/base/a.h": "/*\n#include <boost/dll.hpp>\n*/"}))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        ROOT = Path(sys.argv.pop(1)).resolve()
    unittest.main()
