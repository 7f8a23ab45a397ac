# SPDX-License-Identifier: Apache-2.0
"""Each check of tools/ must pass on a clean tree and fail on one planted breach, naming it.

fixtures/clean is the clean tree. Every other folder is laid over a copy of it; its expect.txt names the check on the first
line and, on the second, what the message must contain.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parent.parent / "tools"
CLEAN = HERE / "fixtures" / "clean"


def run(*arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


def run_on(tool, overlay=None):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(CLEAN, tree)
        if overlay:
            shutil.copytree(overlay, tree, dirs_exist_ok=True)
        return run(TOOLS / f"{tool}.py", "--root", tree)


class Checks(unittest.TestCase):
    def test_clean_tree_passes(self):
        for tool in ("check_layers", "check_sizes", "check_tests"):
            with self.subTest(tool):
                result = run_on(tool)
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_every_planted_breach_fails(self):
        overlays = [p for p in sorted((HERE / "fixtures").iterdir()) if (p / "expect.txt").exists()]
        self.assertGreaterEqual(len(overlays), 15)
        for overlay in overlays:
            with self.subTest(overlay.name):
                tool, message = (overlay / "expect.txt").read_text().splitlines()
                result = run_on(tool, overlay)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(message, result.stderr)

    def test_empty_tree_is_not_a_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("check_layers", "check_sizes", "check_tests"):
                self.assertEqual(run(TOOLS / f"{tool}.py", "--root", folder).returncode, 1)


class Budget(unittest.TestCase):
    @unittest.skipUnless(shutil.which("git"), "needs git")
    def test_the_number_is_raised_by_a_commit_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "tree"
            shutil.copytree(CLEAN, tree)

            def commit():
                subprocess.run(["git", "-C", tree, "add", "."], check=True)
                subprocess.run(["git", "-C", tree, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q",
                                "-m", "x"], check=True)

            subprocess.run(["git", "init", "-q", tree], check=True)
            commit()
            (tree / "tools" / "budget").write_text("200 lines\n")
            commit()
            self.assertEqual(run(TOOLS / "check_sizes.py", "--root", tree).returncode, 0)
            (tree / "tools" / "budget").write_text("300 lines\n")
            (tree / "note.txt").write_text("and something else\n")
            commit()
            result = run(TOOLS / "check_sizes.py", "--root", tree)
            self.assertEqual(result.returncode, 1)
            self.assertIn("together with other files", result.stderr)


class Skips(unittest.TestCase):
    RESULT = """<testsuites><testsuite name="A"><testcase name="b" classname="A" result="skipped">
<skipped message="x_test.cc:1&#x0A;{}"/></testcase><testcase name="c" classname="A" result="completed"/>
</testsuite></testsuites>"""

    def check(self, message, shared_is_there):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results"
            shared = pathlib.Path(folder) / "shared"
            results.mkdir()
            if shared_is_there:
                shared.mkdir()
            (results / "a_x_test.xml").write_text(self.RESULT.format(message))
            checked = run(TOOLS / "check_skips.py", results, "--shared", shared)
            run(TOOLS / "check_skips.py", results, "--shared", shared, "--clean")
            self.assertEqual(list(results.iterdir()), [])
            return checked

    def test_needless_skip_fails(self):
        result = self.check("needs shared data: the goldens", True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("BREACH: a_x_test A.b: needs shared data: the goldens", result.stdout)

    def test_other_skips_pass_and_are_listed(self):
        result = self.check("no AVX-512 here", True)
        self.assertEqual(result.returncode, 0)
        self.assertIn("no AVX-512 here", result.stdout)
        self.assertEqual(self.check("needs shared data: the goldens", False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
