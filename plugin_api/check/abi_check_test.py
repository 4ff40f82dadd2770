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
        headers = {header.path: header for header in abi_check.read_headers(abi_check.ROOM / "include")}
        self.assertIn("tenon/kernel.h", headers)
        names = [struct.name for header in headers.values() for struct in header.structs]
        self.assertEqual(len(names), len(set(names)))
        for path, header in headers.items():
            self.assertEqual(header.text.count("typedef struct"),
                             len(header.structs) + len(abi_check.re.findall(r"typedef struct \w+ \w+;", header.text)), path)

    def test_the_snapshot_is_the_same_twice(self):
        include = abi_check.ROOM / "include"
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
        return self.room / "include"

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
        self.assert_one(abi_check.check_tags(self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))",
                                                                       "TENON_OWN(give(out_thing))"))), "make", "TENON_THREAD")
        self.assert_one(abi_check.check_tags(self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))",
                                                                       "TENON_THREAD(any)"))), "make", "TENON_OWN")

    def test_a_function_type_and_a_declaration_without_tags_are_refused(self):
        text = self.changed("typedef TENON_THREAD(any) TENON_OWN(take(argument)) void", "typedef void")
        self.assertEqual(2, len(abi_check.check_tags(self.headers(text))))
        self.assertEqual(2, len(abi_check.check_tags(self.headers(GOOD + "const tenon_pair* tenon_open(uint32_t x);\n"))))
        tagged = GOOD + "TENON_THREAD(any) TENON_OWN(static) const tenon_pair* tenon_open(uint32_t x);\n"
        self.assertEqual([], abi_check.check_tags(self.headers(tagged)))

    def test_a_tag_with_an_unknown_value_is_refused(self):
        self.assert_one(abi_check.check_tags(self.headers(self.changed("TENON_THREAD(any) TENON_OWN(give(out_thing))",
                        "TENON_THREAD(main) TENON_OWN(give(out_thing))"))), "TENON_THREAD(main)")
        self.assert_one(abi_check.check_tags(self.headers(self.changed("OWN(give(out_thing))", "OWN(lend(out_thing))"))), "lend")
        self.assert_one(abi_check.check_tags(self.headers(self.changed("OWN(give(out_thing))", "OWN(give(out_other))"))),
                        "out_other", "no parameter")

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

    def test_a_layout_change_is_found_until_it_is_recorded(self):
        self.include(GOOD)
        first = abi_check.update(self.room)
        self.assertEqual([], abi_check.check_layout(self.room))
        self.include(self.changed("TENON_A 3u", "TENON_A 4u"))
        self.assert_one(abi_check.check_layout(self.room), "- constant TENON_A 3", "+ constant TENON_A 4")
        self.assertNotEqual(first, abi_check.update(self.room))
        self.assertEqual([], abi_check.check_layout(self.room))
        (self.room / "include" / abi_check.HASH_HEADER).write_text("#define TENON_LAYOUT_HASH UINT64_C(1)\n")
        self.assert_one(abi_check.check_layout(self.room), "layout_hash.h")

    def test_a_comment_or_a_tag_does_not_change_the_hash(self):
        first = abi_check.snapshot(self.include(GOOD))
        text = GOOD.replace("/* [count] */", "/* count of them */").replace("THREAD(any) TENON_OWN(give", "THREAD(step) TENON_OWN(give")
        self.assertNotEqual(GOOD, text)
        self.assertEqual(first, abi_check.snapshot(self.include(text)))

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
        new = GOOD.replace("MINOR 1u", "MINOR 2u") + "#define TENON_B 1u\n/* Frozen value: x. */\ntypedef struct tenon_new {\n  uint64_t x;\n} tenon_new;\n"
        self.assertEqual([], self.verdict(new))
        self.assert_one(self.verdict(new.replace("MINOR 2u", "MINOR 1u")), "raise it")

    def test_changes_in_place_are_refused(self):
        for old, new, word in (
            ("  uint64_t count;\n", "", "count"),  # removed
            ("  uint64_t count;\n", "  uint64_t extra;\n  uint64_t count;\n", "count"),  # inserted
            ("  uint64_t count;", "  int64_t count;", "count"),  # type of equal size
            ("uint64_t count", "uint64_t number", "count"),  # renamed
            ("tenon_opaque* self, void (*done)", "const tenon_opaque* self, void (*done)", "make"),  # reached by a pointer
            ("void (*tenon_function)(void* argument)", "void (*tenon_function)(const void* argument)", "tenon_function"),
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
