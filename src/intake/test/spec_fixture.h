// SPDX-License-Identifier: Apache-2.0
// What the tests of the spec language share: a spec from text, traced against a small config and a list of tensors.
#pragma once

#include <string>
#include <vector>

#include "intake/intake.h"
#include "intake/trace.h"

namespace firstlight::intake {

// A whole spec around the body of `forward`, which must leave [O, 8] logits in `y`; line 1 is `before`, line 6 the
// body.
inline std::string spec_around(const std::string& body, const std::string& before = "") {
  return before +
         "\nreturn architecture {"
         "\nmatches = { model_type = { \"t\" } }, parameters = function(c) return { layers = 1, c = c } end,"
         "\nstate = function(p) return { kv = append { k = { 1, 4 }, v = { 1, 4 } } } end,"
         "\nforward = function(p, w, batch) local c = p.c; local x = gather_rows(w(\"e\", { 8, 4 }), batch.output_rows)"
         "\n" +
         body + "\nlocal y = linear(x, w(\"e\", { 8, 4 })) return { logits = y } end }\n";
}

struct SpecRun {
  std::string spec;
  std::string config = R"({"model_type": "t"})";
  const TensorTable tensors = TensorTable::open_ended();
  SandboxLimits limits = {.steps = 3'000'000, .memory_bytes = int64_t{16} << 20, .seconds = 20};

  Result<Trace> run() const {
    SpecStore store = FL_TRY(SpecStore::open(""));
    store.use_text("test.lua", spec);
    const ConfigNode tree = FL_TRY(parse_config_tree(config));
    const Quantisation quantisation;
    return run_trace({.specs = &store,
                      .tensors = &tensors,
                      .quantisation = &quantisation,
                      .gguf = false,
                      .read_floats = {},
                      .limits = limits,
                      .probing = false},
                     tree);
  }
  // The message of a run that must fail; "(it worked)" otherwise.
  std::string failure() const {
    const auto result = run();
    return result.ok() ? "(it worked)" : result.status().to_string();
  }
};

inline std::string failure_of(const std::string& body, const std::string& before = "") {
  return SpecRun{.spec = spec_around(body, before)}.failure();
}

}  // namespace firstlight::intake
