# SPDX-License-Identifier: Apache-2.0
"""The replay of the planted fault must fail and leave the input that shows it. Arguments: the program, the crash file."""

import pathlib
import subprocess
import sys

program, crash = sys.argv[1], pathlib.Path(sys.argv[2])
crash.unlink(missing_ok=True)
result = subprocess.run([program], capture_output=True, text=True, check=False, env={})
if result.returncode == 0:
    sys.exit("planted_test: the replay did not notice the fault")
if not crash.is_file() or crash.read_bytes() != b"AB":
    sys.exit(f"planted_test: {crash} does not hold the input that failed")
if str(crash) not in result.stderr:
    sys.exit("planted_test: the message does not name the file with the input")
