# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI on a GGUF file (protocol: cells.py). Times are those of its own record of each new token."""

import cells
import numpy as np
import openvino
import openvino_genai as genai


class Engine:
    def __init__(self, path, threads, wanted):
        del wanted
        self.pipe = genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads)
        self.peer = {"name": "openvino-genai", "version": genai.__version__,
                     "flags": {"openvino": openvino.__version__, "INFERENCE_NUM_THREADS": threads}}
        self.measure(cells.cell("prompt", prompt=64))

    def measure(self, one):
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = one["steps"] + 1, True, False
        length = max(one["depth"], one["prompt"])
        ids = np.array([cells.ids(length, 40000) for _ in range(one["batch"])], dtype=np.int64)
        inputs = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        done = self.pipe.generate(inputs, config)
        if one["metric"] == "prompt":
            return 1000 * length / done.perf_metrics.get_ttft().mean
        times = done.perf_metrics.raw_metrics.m_new_token_times
        steps = len(times) - 1
        if steps != one["steps"]:
            raise RuntimeError(f"{steps + 1} tokens of {one['steps'] + 1}")
        return one["batch"] * steps / (1e-3 * (times[-1] - times[0]))  # milliseconds


if __name__ == "__main__":
    cells.work(Engine)
