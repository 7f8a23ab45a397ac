# SPDX-License-Identifier: Apache-2.0
"""The random draw of docs/rehearsal.md: which families of `transformers` a newcomer's path was tried on.

    python tools/golden/draw.py [seed]    prints the number of candidates and the drawn families

Candidates, by the sources of the installed release alone (written for 5.24.0): every directory models/NAME whose
modeling_NAME.py defines a *ForCausalLM and neither a *ForMaskedLM nor a *ForConditionalGeneration, whose
configuration_NAME.py defines no vision or audio config and is no encoder-decoder's, and which is not in TAKEN. They are
put in the order of sha256("seed/NAME"); the first three are drawn.
"""

import hashlib
import pathlib
import re
import sys

import transformers

# Families that had a spec, or were to get one, when the draw was made (2026-11-30).
TAKEN = """
    deepseek_v3 deepseek_v32 deepseek_v4 ernie4_5 ernie4_5_moe exaone4 gemma2 gemma3 gemma4 glm4_moe glm_moe_dsa gpt_oss granite
    granitemoe hunyuan_v1_dense hunyuan_v1_moe jamba kimi_k2 kimi_k3 kimi_linear lfm2 llama llama4 mamba2 mimo_v2
    mimo_v2_flash minimax minimax_m2 minimax_m3 mistral mixtral nemotron_h olmo2 olmo3 phi3 qwen2 qwen3 qwen3_5
    qwen3_5_moe qwen3_moe qwen3_next rwkv smollm3
""".split()
SEED = "firstlight-rehearsal-1"
DRAWN = 3


def is_candidate(folder):
    name = folder.name
    modeling, config = folder / f"modeling_{name}.py", folder / f"configuration_{name}.py"
    if name in TAKEN or not modeling.exists() or not config.exists():
        return False
    classes = re.findall(r"^class (\w+)", modeling.read_text(), re.MULTILINE)
    if not any(c.endswith("ForCausalLM") for c in classes):
        return False
    if any(c.endswith(("ForMaskedLM", "ForConditionalGeneration")) for c in classes):
        return False
    text = config.read_text()
    return not re.search(r"^class \w*(Vision|Audio)\w*Config|is_encoder_decoder\b.*True", text, re.MULTILINE)


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else SEED
    models = pathlib.Path(transformers.__file__).parent / "models"
    candidates = sorted(folder.name for folder in models.iterdir() if is_candidate(folder))
    order = sorted(candidates, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).hexdigest())
    print(f"transformers {transformers.__version__}, {len(candidates)} candidates, seed {seed!r}")
    print("drawn:", ", ".join(order[:DRAWN]))


if __name__ == "__main__":
    main()
