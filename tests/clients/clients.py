# SPDX-License-Identifier: Apache-2.0
"""What the tests of real clients share: the environment that has them, a tiny model whose tokens can write JSON, a server."""

import contextlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import serve_test  # noqa: E402

SKIPPED = 77
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 \n.,:;!?'-()[]{}\"<>/_|="
TEMPLATE = ("{{ bos_token }}{% if tools %}<tools>{{ tools | tojson }}</tools> <tool_call>{\"name\": \"arguments\"}</tool_call>{% endif %}"
            "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}"
            "</tool_call>{% endfor %}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}")


def rerun_with(package):
    """Goes on in the Python of FIRSTLIGHT_CLIENTS if this one lacks the package; ends as skipped where nobody has it."""
    if importlib.util.find_spec(package):
        return
    python = pathlib.Path(os.environ.get("FIRSTLIGHT_CLIENTS", "nowhere")) / "bin" / "python"
    if not python.exists() or os.environ.get("FIRSTLIGHT_CLIENTS_TRIED") == package:
        print(f"SKIPPED: no Python package {package}; FIRSTLIGHT_CLIENTS names no environment that has it (make check-clients makes one)")
        sys.exit(SKIPPED)
    os.environ["FIRSTLIGHT_CLIENTS_TRIED"] = package
    os.execv(python, [str(python), "-B", *sys.argv])


def make_model(folder):
    serve_test.CHARACTERS, serve_test.TEMPLATE = CHARACTERS, TEMPLATE
    serve_test.make_model(folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = 1024  # tools take room in a prompt of single characters
    (folder / "config.json").write_text(json.dumps(config))


@contextlib.contextmanager
def served(program, model, *flags):
    """The port of a server of the model, ready."""
    port = serve_test.free_port()
    command = [program, "serve", str(model), "--backend", "cpu", "--port", str(port), *flags]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        serve_test.wait_until_ready(port, process)
        yield port
    finally:
        process.kill()
        process.wait()
