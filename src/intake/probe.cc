// SPDX-License-Identifier: Apache-2.0
#include "intake/probe.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/start_thread.h"
#include "ir/text.h"

namespace firstlight::intake {
namespace {

// Whether a load with this config is refused or gives another graph.
bool changes_graph(const TraceInput& input, const ConfigNode& config, const std::string& path, uint64_t base) {
  Quantisation quantisation;
  TraceInput changed = input;
  if (path.find("quantization_config") != std::string::npos || path.starts_with("compression_config")) {
    ConfigRecord record;
    auto resolved = resolve_quantisation({.config = config,
                                          .tensors = *input.tensors,
                                          .vendor_activations = input.quantisation->vendor_activations,
                                          .plain_weights = input.quantisation->plain_weights},
                                         record);
    if (!resolved.ok()) return true;
    quantisation = std::move(resolved).value();
    changed.quantisation = &quantisation;
  }
  const auto trace = run_trace(changed, config);
  return !trace.ok() || !trace->missing_tensors.empty() || ir::fingerprint(trace->graph) != base;
}

bool is_bound(const TraceInput& input, const ConfigNode& config, const ConfigLeaf& leaf, uint64_t base) {
  ConfigNode changed = config;
  for (ConfigNode& value : changed_values(config_at(changed, leaf))) {
    config_at(changed, leaf) = std::move(value);
    if (changes_graph(input, changed, leaf.path, base)) return true;
    changed = config;
  }
  return false;
}

}  // namespace

const std::string* waiver_of(const ConfigRecord& record, const std::string& path) {
  const auto exact = record.waived.find(path);
  if (exact != record.waived.end()) return &exact->second;
  for (const auto& [object, reason] : record.waived_objects) {
    if (path.starts_with(object + ".") || path.starts_with(object + "[") || path == object) return &reason;
  }
  return nullptr;
}

Result<std::set<std::string>> find_unbound_keys(const TraceInput& input, const ConfigNode& config, const Trace& base,
                                                int threads) {
  std::vector<ConfigLeaf> leaves;
  for (ConfigLeaf& leaf : config_leaves(config)) {
    if (base.config.touched.contains(leaf.path) && waiver_of(base.config, leaf.path) == nullptr) {
      leaves.push_back(std::move(leaf));
    }
  }
  TraceInput probing = input;
  probing.probing = true;
  const uint64_t fingerprint = ir::fingerprint(FL_TRY(run_trace(probing, config)).graph);
  std::set<std::string> unbound;
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < leaves.size(); i = next++) {
      if (is_bound(probing, config, leaves[i], fingerprint)) continue;
      const std::lock_guard lock(mutex);
      unbound.insert(leaves[i].path);
    }
  };
  std::vector<std::thread> workers;
  const size_t wanted = std::min(static_cast<size_t>(std::max(threads, 1)), leaves.size());
  for (size_t i = 1; i < wanted; ++i) {
    auto started = start_thread("a probing thread", work);
    if (!started.ok()) break;  // slower with fewer, not wrong
    workers.push_back(*std::move(started));
  }
  work();
  for (std::thread& worker : workers) worker.join();
  return unbound;
}

}  // namespace firstlight::intake
