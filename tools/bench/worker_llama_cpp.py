# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through llama-cpp-python's low-level interface (protocol: cells.py)."""

import time

import cells
import llama_cpp as llama

UBATCH = 512  # llama.cpp's own default


class Engine:
    def __init__(self, path, threads, wanted):
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not self.model:
            raise SystemExit("llama.cpp cannot load " + path)
        params = llama.llama_context_default_params()
        params.n_ctx = max(one["batch"] * cells.context_of(one) for one in wanted) + 64
        params.n_seq_max = max(one["batch"] for one in wanted)
        params.n_batch, params.n_ubatch = 2048, UBATCH
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        self.context = llama.llama_init_from_model(self.model, params)
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.batch = llama.llama_batch_init(params.n_batch, 0, 1)
        self.peer = {"name": "llama.cpp", "version": "llama-cpp-python " + llama.__version__,
                     "flags": {"n_batch": params.n_batch, "n_ubatch": UBATCH, "kv": "f16",
                               "system": llama.llama_print_system_info().decode().strip()}}
        self.measure(cells.cell("prompt", prompt=64))  # warms pages and threads

    def decode(self, rows):
        """One call; a row is (id, position, sequence, wants logits)."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = logits
        if llama.llama_decode(self.context, self.batch) != 0:
            raise RuntimeError("llama_decode failed")

    def prefill(self, sequence, count):
        rows = [(token, at, sequence, at + 1 == count) for at, token in enumerate(cells.ids(count, self.vocab))]
        for begin in range(0, count, 2048):
            self.decode(rows[begin:begin + 2048])

    def measure(self, one):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        length = max(one["depth"], one["prompt"])
        start = time.perf_counter()
        for sequence in range(one["batch"]):
            self.prefill(sequence, length)
        llama.llama_synchronize(self.context)
        if one["metric"] == "prompt":
            return length / (time.perf_counter() - start)
        tokens = [cells.ids(one["batch"], self.vocab) for _ in range(one["steps"])]
        start = time.perf_counter()
        for step, row in enumerate(tokens):
            self.decode([(token, length + step, sequence, True) for sequence, token in enumerate(row)])
            llama.llama_synchronize(self.context)
        return one["batch"] * one["steps"] / (time.perf_counter() - start)


if __name__ == "__main__":
    cells.work(Engine)
