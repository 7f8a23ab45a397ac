# SPDX-License-Identifier: Apache-2.0
"""What bench_peers works out from measurements: roofs, goals, tables. No engine runs here."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import bench_peers  # noqa: E402
import cells  # noqa: E402

SIZES = {"body": 2_000_000, "head": 1_000_000, "bytes": 6_000_000,
         "layers": [{"kv_values": 400, "head_values": 1200, "window": 0},
                    {"kv_values": 600, "head_values": 1800, "window": 100}]}
ROOF = {"read_gbps": 1.0, "bf16_tflops": 0.001, "int8_tops": 0.002}


def row(metric, ours, roof, **others):
    found = {"metric": metric, "what": "", "model": "m", "dtype": "q8_0", "ours": ours, "roof": roof, "peers": others}
    bench_peers.judge(found)
    return found


class Roofs(unittest.TestCase):
    def test_a_prompt_is_bound_by_its_products(self):
        one = cells.cell("prompt", prompt=512)
        linear = 2 * (512 * 2e6 + 1e6)  # the head for the last token alone
        attention = 2 * (1200 * 512 * 513 / 2 + 1800 * (100 * 101 / 2 + 412 * 100))
        self.assertAlmostEqual(bench_peers.roof_of(one, SIZES, "bf16", ROOF), 512 / ((linear + attention) / 1e9))
        self.assertAlmostEqual(bench_peers.roof_of(one, SIZES, "q4_0", ROOF), 512 / (linear / 2e9 + attention / 1e9))

    def test_decode_reads_weights_and_what_windows_see(self):
        one = cells.cell("decode", prompt=1, depth=1000, steps=0)
        seconds = (6e6 + 2 * (1000 * 400 + 100 * 600)) / 1e9
        self.assertAlmostEqual(bench_peers.roof_of(one, SIZES, "q8_0", ROOF), 1 / seconds)

    def test_a_large_batch_is_bound_by_its_products(self):
        one = cells.cell("decode", prompt=1, batch=100, steps=0)
        self.assertAlmostEqual(bench_peers.roof_of(one, SIZES, "bf16", ROOF), 1e9 / (2 * 3e6))


class Goals(unittest.TestCase):
    def test_the_lower_of_roof_and_peer_counts(self):
        self.assertEqual(row("decode", 50, 100, a=40, b=30)["goal"], 1.1 * 40)
        self.assertEqual(row("prompt", 50, 100, a=50)["goal"], 0.6 * 100)
        self.assertTrue(row("decode", 45, 100, a=40)["met"])
        self.assertFalse(row("decode", 43, 100, a=40)["met"])

    def test_nowhere_far_behind_the_best_peer(self):
        beaten = row("prompt", 65, 100, a=80)
        self.assertFalse(beaten["met"])
        self.assertAlmostEqual(beaten["goal"], 0.95 * 80)

    def test_without_a_peer_the_roof_counts(self):
        alone = row("decode", 86, 100, a=None)
        self.assertTrue(alone["met"])
        self.assertIsNone(alone["ratio"])


class Tables(unittest.TestCase):
    def test_every_cell_is_shown_and_a_lost_one_marked(self):
        lines = bench_peers.table([row("decode", 10, 100, a=50), row("decode", 90, 100, a=None)], ["a"])
        self.assertEqual(len(lines), 4)
        self.assertIn("**missed**", lines[2])
        self.assertIn("n/a", lines[3])

    def test_cells_of_a_grid_differ(self):
        for grid in (cells.FULL, cells.SHORT, cells.QUICK):
            self.assertEqual(len({cells.key(one) for one in grid}), len(grid))


if __name__ == "__main__":
    unittest.main()
