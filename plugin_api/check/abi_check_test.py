#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the headers, and plants violations to prove that each check can fail."""

import shutil
import tempfile
import unittest
from pathlib import Path

import abi_check

GOOD = """/* A header. */
#include <stdint.h>
#define TENON_THREAD(rule)
#define TENON_OWN(rule)
#define TENON_ABI_MINOR 1u
#define TENON_A 3u
#define TENON_NAME "x.y/1"
#define TENON_TWICE(x) ((x) * 2u)
typedef struct tenon_opaque tenon_opaque;
/* Frozen value: a pair. */
typedef struct tenon_pair {
  uint32_t first;
  uint32_t second;
} tenon_pair;
typedef TENON_THREAD(any) TENON_OWN(take(argument)) void (*tenon_function)(void* argument);
typedef struct tenon_table {
  uint32_t struct_size;
  uint32_t must_understand;
  const tenon_pair* const* pairs; /* [count] */
  uint64_t count;
  TENON_THREAD(any) TENON_OWN(give(out_thing))
  int32_t (*make)(tenon_opaque* self, void (*done)(void* argument), void** out_thing);
} tenon_table;
"""


class TheHeaders(unittest.TestCase):
    """The rules hold in the tree."""

    def test_every_check_passes(self):
        problems = abi_check.check_all()
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_every_header_of_the_abi_is_read(self):
        headers = {header.path: header for header in abi_check.read_headers(abi_check.includes())}
        self.assertIn("tenon/kernel.h", headers)
        names = [struct.name for header in headers.values() for struct in header.structs]
        self.assertEqual(len(names), len(set(names)))
        for path, header in headers.items():
            self.assertEqual(
                header.text.count("typedef struct"),
                len(header.structs) + len(abi_check.re.findall(r"typedef struct \w+ \w+;", header.text)),
                path,
            )

    def test_the_snapshot_is_the_same_twice(self):
        include = abi_check.includes()
        self.assertEqual(abi_check.snapshot(include), abi_check.snapshot(include))


class Planted(unittest.TestCase):
    """Each check fails on a header that breaks its rule, and passes on one that does not."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.room = Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def include(self, text):
        folder = self.room / "include" / "tenon"
        folder.mkdir(parents=True, exist_ok=True)
        (self.room / "check").mkdir(exist_ok=True)
        (folder / "a.h").write_text(text)
        return [self.room / "include"]

    def headers(self, text):
        return abi_check.read_headers(self.include(text))

    def changed(self, old, new):
        self.assertIn(old, GOOD)
        return GOOD.replace(old, new, 1)

    def assert_one(self, problems, *words):
        self.assertEqual(1, len(problems), problems)
        for word in words:
            self.assertIn(word, problems[0])

    def test_a_good_header_passes(self):
        self.assertEqual([], abi_check.check_compiles(self.include(GOOD)))
        self.assertEqual([], abi_check.check_structs(self.headers(GOOD)))
        self.assertEqual([], abi_check.check_tags(self.headers(GOOD)))

    def test_hidden_padding_and_a_missing_include_do_not_compile(self):
        padded = self.changed("  uint32_t second;", "  uint64_t second;")
        problems = abi_check.check_compiles(self.include(padded))
        available = [compiler[0] for compiler in abi_check.COMPILERS if shutil.which(compiler[0])]
        padding = [problem for problem in problems if "padding" in problem]
        self.assertEqual(len([c for c in available if c.startswith("g")]), len(padding))  # clang looks when it lays out
        bare = self.include(GOOD.replace("#include <stdint.h>", ""))
        self.assertEqual(len(available), len(abi_check.check_compiles(bare)))

    def test_a_member_without_a_tag_is_refused(self):
        self.assert_one(
            abi_check.check_tags(
                self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))", "TENON_OWN(give(out_thing))"))
            ),
            "make",
            "TENON_THREAD",
        )
        self.assert_one(abi_check.check_tags(self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))",
                                                                       "TENON_THREAD(any)"))), "make", "TENON_OWN")

    def test_a_function_type_and_a_declaration_without_tags_are_refused(self):
        text = self.changed("typedef TENON_THREAD(any) TENON_OWN(take(argument)) void", "typedef void")
        self.assertEqual(2, len(abi_check.check_tags(self.headers(text))))
        self.assertEqual(
            2, len(abi_check.check_tags(self.headers(GOOD + "const tenon_pair* tenon_open(uint32_t x);\n")))
        )
        tagged = GOOD + "TENON_THREAD(any) TENON_OWN(static) const tenon_pair* tenon_open(uint32_t x);\n"
        self.assertEqual([], abi_check.check_tags(self.headers(tagged)))

    def test_a_tag_with_an_unknown_value_is_refused(self):
        self.assert_one(abi_check.check_tags(self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))",
                        "TENON_THREAD(main) TENON_OWN(give(out_thing))"))), "TENON_THREAD(main)")
        self.assert_one(
            abi_check.check_tags(self.headers(self.changed("OWN(give(out_thing))", "OWN(lend(out_thing))"))), "lend"
        )
        self.assert_one(
            abi_check.check_tags(self.headers(self.changed("OWN(give(out_thing))", "OWN(give(out_other))"))),
            "out_other",
            "no parameter",
        )

    def test_what_may_be_null_is_a_pointer_that_crosses(self):
        function = "TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE({}) const tenon_pair* tenon_open(const tenon_pair* of, uint32_t x);\n"
        for good in ("of", "of, return"):
            self.assertEqual([], abi_check.check_tags(self.headers(GOOD + function.format(good))))
        for bad in ("x", "other"):
            self.assert_one(abi_check.check_tags(self.headers(GOOD + function.format(bad))), "tenon_open", f"'{bad}'")
        self.assertEqual("const tenon_pair* tenon_open(const tenon_pair*, uint32_t) [any borrow null(0,return)]",
                         abi_check.type_of(function.format("of, return")))

    def test_a_callback_is_one_of_the_parameters(self):
        function = "TENON_EXPORT TENON_THREAD(any) TENON_OWN(borrow) TENON_NULLABLE({}) void tenon_go(void* on, void (*told)(void* x), void* with);\n"
        self.assertEqual([], abi_check.check_tags(self.headers(GOOD + function.format("told, with"))))
        self.assert_one(abi_check.check_tags(self.headers(GOOD + function.format("x"))), "tenon_go", "'x'")
        self.assertEqual(
            "void tenon_go(void*, void (*)(void*), void*) [any borrow null(1,2)]",
            abi_check.type_of(function.format("told, with")),
        )

    def test_a_type_without_fixed_width_is_refused(self):
        for kind in ("bool", "size_t", "long", "enum tenon_kind"):
            text = self.changed("  uint64_t count;", f"  {kind} count;")
            self.assert_one(abi_check.check_structs(self.headers(text)), kind.split()[0])

    def test_a_struct_neither_sized_nor_frozen_is_refused(self):
        self.assert_one(abi_check.check_structs(self.headers(self.changed("Frozen value: a", "A"))), "tenon_pair")
        text = self.changed("  uint32_t must_understand;\n", "  uint32_t flags;\n")
        self.assert_one(abi_check.check_structs(self.headers(text)), "tenon_table")

    def test_what_cannot_be_read_is_an_error_and_not_skipped(self):
        for member in ("uint32_t a : 3;", "uint32_t a, b;", "struct { uint32_t x; } a;"):
            with self.assertRaises(abi_check.Problem):
                self.headers(self.changed("  uint64_t count;", f"  {member}"))
        with self.assertRaises(abi_check.Problem):
            self.headers(GOOD + "struct tenon_bare { uint32_t x; };\n")

    def test_a_layout_change_is_found_until_it_is_recorded_with_its_reason(self):
        self.include(GOOD)
        abi_check.update("the first", self.room)
        self.assertEqual([], abi_check.check_layout(self.room))
        self.include(self.changed("TENON_A 3u", "TENON_A 4u"))
        problems = abi_check.check_layout(self.room)
        self.assertIn("- constant TENON_A 3", problems[0])
        self.assertIn("+ constant TENON_A 4", problems[0])
        self.assertIn("changes.txt", problems[1])
        with self.assertRaisesRegex(abi_check.Problem, "say why"):
            abi_check.update(" ", self.room)
        abi_check.update("four is better\nthan three", self.room)
        self.assertEqual([], abi_check.check_layout(self.room))
        notes = (self.room / "check" / "changes.txt").read_text().splitlines()
        self.assertEqual(["the first", "four is better than three"], [line.split(" ", 1)[1] for line in notes])
        (self.room / "include" / abi_check.HASH_HEADER).write_text("#define TENON_LAYOUT_HASH UINT64_C(1)\n")
        self.assert_one(abi_check.check_layout(self.room), "layout_hash.h")

    def test_a_comment_or_the_name_of_a_parameter_changes_nothing(self):
        first = abi_check.snapshot(self.include(GOOD))
        text = (
            GOOD.replace("/* [count] */", "/* count of them */")
            .replace("out_thing", "out_made")
            .replace("void (*done)(void* argument)", "void (*ended)(void* of)")
        )
        text = text.replace(
            "TENON_OWN(take(argument)) void (*tenon_function)(void* argument)",
            "TENON_OWN(take(it)) void (*tenon_function)(void* it)",
        )
        self.assertNotEqual(GOOD, text)
        self.assertEqual(first, abi_check.snapshot(self.include(text)))

    def test_types_of_parameters_are_read_whatever_their_names(self):
        for declaration, expected in (
            ("uint32_t (*f)(void)", "uint32_t (*f)(void)"),
            (
                "void (*f)(char out_token[256], const a_t* const* list, struct b* c)",
                "void (*f)(char[256], const a_t* const*, struct b*)",
            ),
            (
                "void (*f)(const tenon_a*, uint32_t, const tenon_a)",
                "void (*f)(const tenon_a*, uint32_t, const tenon_a)",
            ),
            (
                "void* (*f)(tenon_a a, void (*done)(void* x, tenon_s (*deep)(uint64_t y)), void* b)",
                "void* (*f)(tenon_a, void (*)(void*, tenon_s (*)(uint64_t)), void*)",
            ),
            (
                "TENON_EXPORT uint32_t tenon_f(const tenon_a* a, uint64_t b)",
                "uint32_t tenon_f(const tenon_a*, uint64_t)",
            ),
            ("uint64_t count[4]", "uint64_t count[4]"),
        ):
            self.assertEqual(expected, abi_check.type_of(declaration))

    # ---- Hashes ----

    def hashes(self, **changes):
        """Of four headers: the handshake, ops over it, files, and a draft over files."""
        texts = {
            "abi.h": GOOD,
            "status.h": "#define TENON_OK 0u\n",
            "op.h": self.header("op", "abi.h"),
            "ext/files.h": self.header("files", "abi.h"),
            "ext/draft/filesystem.h": self.header("filesystem", "ext/files.h"),
        } | changes
        for name, text in texts.items():
            path = self.room / "include" / "tenon" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#pragma once\n" + text)
        return abi_check.layout_hashes([self.room / "include"])

    @staticmethod
    def header(name, included, member="x"):
        return f'#include "tenon/{included}"\n/* Frozen value: x. */\ntypedef struct tenon_{name} {{\n  uint64_t {member};\n}} tenon_{name};\n'

    def differing(self, **changes):
        first, second = self.hashes(), self.hashes(**changes)
        self.assertEqual(set(first), set(second))
        return {name for name in first if first[name] != second[name]}

    def test_each_hash_is_of_the_headers_that_speak_of_it(self):
        self.assertEqual(
            {"LAYOUT_HASH", "HASH_OPS", "HASH_GRADIENTS", "HASH_FILESYSTEM", "TEXT_FILES"}, set(self.hashes())
        )
        self.assertEqual(
            {"HASH_FILESYSTEM"},
            self.differing(**{"ext/draft/filesystem.h": self.header("filesystem", "ext/files.h", "y")}),
        )
        self.assertEqual(
            {"HASH_FILESYSTEM", "TEXT_FILES"}, self.differing(**{"ext/files.h": self.header("files", "abi.h", "y")})
        )
        self.assertEqual({"HASH_OPS", "HASH_GRADIENTS"}, self.differing(**{"op.h": self.header("op", "abi.h", "y")}))
        self.assertEqual(set(self.hashes()), self.differing(**{"status.h": "#define TENON_OK 1u\n"}))
        self.assertEqual(
            set(self.hashes()),
            self.differing(**{"abi.h": self.changed("THREAD(any) TENON_OWN(give", "THREAD(step) TENON_OWN(give")}),
        )

    def test_hashes_of_later_drafts_stand_in_a_header_that_nothing_else_includes(self):
        before = abi_check.hash_headers(self.hashes())
        self.assertEqual({abi_check.HASH_HEADER}, set(before))
        after = abi_check.hash_headers(
            self.hashes(
                **{
                    "ext/draft/graph_pass.h": self.header("graph_pass", "ext/draft/layout_hash.h"),
                    "ext/draft/layout_hash.h": "",
                }
            )
        )
        self.assertEqual(before[abi_check.HASH_HEADER], after[abi_check.HASH_HEADER])
        self.assertIn("TENON_HASH_GRAPH_PASS", after[abi_check.DRAFT_HASH_HEADER])

    def test_the_minor_version_and_headers_for_applications_are_in_no_hash(self):
        self.assertEqual(set(), self.differing(**{"abi.h": GOOD.replace("MINOR 1u", "MINOR 2u")}))
        first = self.hashes()
        (self.room / "include" / "tenon" / "app.h").write_text(
            "#include <stdint.h>\n#define TENON_EXPORT\nTENON_EXPORT uint32_t tenon_f(uint32_t a);\n"
        )
        self.assertEqual(first, abi_check.layout_hashes([self.room / "include"]))
        self.assertIn("function tenon_f : uint32_t tenon_f(uint32_t)", abi_check.snapshot([self.room / "include"]))

    def test_what_was_released_may_only_grow(self):
        self.include(GOOD.replace("#define TENON_ABI_MINOR", "#define TENON_ABI_MAJOR 1u\n#define TENON_ABI_MINOR"))
        abi_check.update("the first", self.room)
        released = self.room / "check" / "released"
        released.mkdir()
        (released / "1.0.txt").write_text((self.room / "check" / "layout.txt").read_text())
        (released / "0.9.txt").write_text("struct tenon_older size 8 align 8\n")
        self.assertEqual([], abi_check.check_released(self.room))
        self.include(
            self.changed("uint64_t count", "int64_t count").replace(
                "#define TENON_ABI_MINOR", "#define TENON_ABI_MAJOR 1u\n#define TENON_ABI_MINOR"
            )
        )
        abi_check.update("worse", self.room)
        self.assert_one(abi_check.check_released(self.room), "1.0.txt", "count")

    # ---- Append-only ----

    def verdict(self, new, draft=False):
        name = "tenon/a.h"
        old = abi_check.snapshot(self.include(GOOD))
        now = abi_check.snapshot(self.include(new))
        if draft:
            old, now = (text.replace(name, abi_check.DRAFT + "a.h") for text in (old, now))
        return abi_check.append_only(old, now)

    MORE = ("  TENON_THREAD(any) TENON_OWN(borrow) void (*more)(tenon_opaque* self);\n} tenon_table;", "} tenon_table;")

    def test_nothing_changed_is_append_only(self):
        self.assertEqual([], self.verdict(GOOD))

    def test_an_appended_member_needs_a_new_minor_version(self):
        appended = self.changed(self.MORE[1], self.MORE[0])
        self.assert_one(self.verdict(appended), "TENON_ABI_MINOR")
        self.assertEqual([], self.verdict(appended.replace("TENON_ABI_MINOR 1u", "TENON_ABI_MINOR 2u")))

    def test_new_structs_functions_and_constants_are_append_only(self):
        new = (
            GOOD.replace("MINOR 1u", "MINOR 2u")
            + "#define TENON_B 1u\n/* Frozen value: x. */\ntypedef struct tenon_new {\n  uint64_t x;\n} tenon_new;\n"
        )
        self.assertEqual([], self.verdict(new))
        self.assert_one(self.verdict(new.replace("MINOR 2u", "MINOR 1u")), "raise it")

    def test_changes_in_place_are_refused(self):
        for old, new, word in (
            ("  uint64_t count;\n", "", "count"),  # removed
            ("  uint64_t count;\n", "  uint64_t extra;\n  uint64_t count;\n", "count"),  # inserted
            ("  uint64_t count;", "  int64_t count;", "count"),  # type of equal size
            ("uint64_t count", "uint64_t number", "count"),  # renamed
            ("THREAD(any) TENON_OWN(give", "THREAD(step) TENON_OWN(give", "make"),  # who may call
            ("TENON_OWN(take(argument))", "TENON_OWN(borrow)", "tenon_function"),  # who owns
            (
                "tenon_opaque* self, void (*done)",
                "const tenon_opaque* self, void (*done)",
                "make",
            ),  # reached by a pointer
            (
                "void (*tenon_function)(void* argument)",
                "void (*tenon_function)(const void* argument)",
                "tenon_function",
            ),
            ("#define TENON_A 3u", "#define TENON_A 4u", "TENON_A"),
            ("#define TENON_A 3u\n", "", "TENON_A"),
            ('"x.y/1"', '"x.y/2"', "TENON_NAME"),
            ("((x) * 2u)", "((x) * 3u)", "TENON_TWICE"),
            ("  uint32_t second;\n", "  uint32_t second;\n  uint64_t third;\n", "frozen"),
        ):
            with self.subTest(old=old, new=new):
                text = self.changed(old, new).replace("MINOR 1u", "MINOR 2u")
                problems = self.verdict(text)
                self.assertTrue(problems)
                self.assertTrue(any(word in problem for problem in problems), problems)

    def test_a_smaller_minor_version_is_refused(self):
        self.assert_one(self.verdict(GOOD.replace("MINOR 1u", "MINOR 0u")), "TENON_ABI_MINOR")

    def test_a_struct_that_goes_is_refused_and_a_draft_may_change(self):
        gone = GOOD[:GOOD.index("typedef struct tenon_table")]
        self.assert_one(self.verdict(gone), "tenon_table", "gone")
        self.assertEqual([], self.verdict(gone, draft=True))


if __name__ == "__main__":
    unittest.main()
