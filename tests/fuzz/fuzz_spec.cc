// SPDX-License-Identifier: Apache-2.0
// A spec's text from outside: whatever its bytes, tracing ends within its budgets with a graph or a message.
#include <cstddef>
#include <cstdint>
#include <string>

#include "intake/trace.h"

using namespace firstlight::intake;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const SpecStore embedded = SpecStore::open("").value();
  static const TensorTable tensors = TensorTable::open_ended();
  static const Quantisation quantisation;
  static const ConfigNode config =
      parse_config_tree(R"({"model_type": "t", "n": 2, "f": 0.5, "s": "silu", "z": null, "l": [1, 2], "o": {"p": true},
                            "rope_theta": 1e4, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
                            "rms_norm_eps": 1e-5, "vocab_size": 16, "intermediate_size": 12, "hidden_act": "silu"})")
          .value();
  SpecStore store = embedded;
  store.use_text("fuzz.lua", std::string(reinterpret_cast<const char*>(data), size));
  const SandboxLimits limits = {.steps = 300'000, .memory_bytes = int64_t{8} << 20, .seconds = 5};
  (void)run_trace({.specs = &store, .tensors = &tensors, .quantisation = &quantisation, .limits = limits}, config);
  return 0;
}
