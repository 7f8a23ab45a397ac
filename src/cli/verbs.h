// SPDX-License-Identifier: Apache-2.0
// The verbs, one file each (verb_<name>.cc). A verb returns its exit status: 0, or 1 where the work was done and the
// answer is no. A Status becomes a message on stderr and exit status 1 (it does not fit), 2 (bad usage or input) or 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags.h"

namespace firstlight::cli {

struct SamplingFlags {
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::string> logit_bias;  // "ID=VALUE"
  std::optional<uint64_t> seed;
  int logprobs = -1;
};

struct AdaptFlags {
  std::string baseline;
  std::string targets;
  double budget = 60;
  std::string report;
  std::string prompt;
  bool serve = false;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key;
};
struct ValidateFlags {
  std::string level = "all";
  std::string baseline;
  std::string targets;
  double budget = 60;
  std::string report;
};
struct SensitivityFlags {
  bool wanted = false;
  std::string text;    // file
  std::string tokens;  // ids
  int64_t calibration = 256;
  std::string formats = "int4:128,int4:64,int4:32,mxfp4,fp8,int8:128";
  std::string by;  // module, block or layer; "": as many runs as there may be
  int64_t max_runs = 240;
  bool activations = false;
  std::optional<double> max_kl;
  std::optional<double> max_perplexity_increase;  // %
  std::optional<int64_t> target_bytes;
  std::string measured;  // file: what an earlier run printed with --json
  std::string output;
};
struct GraphFlags {
  std::string stage = "spec";
  std::string format = "text";
};
struct PlanFlags {
  int64_t context = 0;  // 0: the model's, or what fits
  int64_t batch = 1;
  uint64_t memory = 0;  // bytes; 0: what the device has
  std::string tensors;  // file
  bool headers_only = false;
  std::string cluster;  // file
  bool measure = false;
};
struct EmbedFlags {
  std::vector<std::string> texts;
  std::string tokens;
  bool lines = false;
  std::string pooling;
  bool no_normalise = false;
  int64_t dimensions = 0;  // 0: all
};
struct RunFlags {
  std::string prompt;
  std::string system;
  std::string tokens;
  std::string image;
  bool raw = false;
  std::string chat_format;
  int64_t max_tokens = 128;
  int64_t context = 0;  // 0: the model's, or as much as fits
  std::vector<std::string> stop;
  std::string stop_ids;
  bool ignore_eos = false;
  std::string speculate;
  std::string json_schema;  // file
  std::string regex;
  std::string grammar;  // file
  SamplingFlags sampling;
};
struct LogitsFlags {
  std::string tokens;
  bool last = false;
  bool stepwise = false;
  int64_t chunk = 0;
  std::string output;
};
struct TokenizeFlags {
  std::optional<std::string> text;
  std::optional<std::string> decode;
  bool lines = false;
  bool no_special = false;
};
struct RenderFlags {
  std::string messages;
  std::string tools;
  std::string template_file;
  std::string context;
  bool no_generation_prompt = false;
  bool continue_final_message = false;
};
struct PerplexityFlags {
  std::string file;
  int64_t window = 512;
  int64_t stride = 512;
  std::string beside_kv;  // a --kv-dtype to take divergences from
};
struct BaselineFlags {
  std::string prompts;  // file
  std::string tokens;
  std::string output;
  bool operators = false;
  std::vector<std::string> full;
  int64_t memory_limit = 0;
  int64_t chunk = 0;
  bool batched = false;
  int64_t greedy = 1;
  bool rounded = false;
  // compare
  std::string first, second;  // packs; `first` is a model with --baseline
  std::string baseline, rounded_pack, html;
  bool two_way = false;
  bool experts = false;            // record: values inside experts
  bool exact = false;              // locate
  std::vector<std::string> packs;  // vote, join
  bool all = false;
};
struct ConvertFlags {
  std::string to = "bf16";
  std::string output;
  int64_t shard_mib = 0;
  std::vector<std::string> keep;
  std::optional<int64_t> group;
  std::string policy;  // file
};
struct TwinFlags {
  std::string output;
  uint64_t seed = 0;
  std::string dtype = "bf16";
  bool from_weights = false;
};
struct DevicesFlags {
  bool measure = false;
};
struct BenchFlags {
  std::string prompt = "512";
  std::string depth = "0";
  std::string batch = "1";
  int64_t decode = 128;
  std::string speculate;
};
struct ServeFlags {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key;
  int64_t context = 0;
  std::string chat_format;
  int64_t max_sequences = 8;
  int64_t max_waiting = 256;
  int64_t step_tokens = 0;
  uint64_t state_bytes = 0;
  bool reserve = false;
  uint64_t swap_memory = 0, swap_disk = 0;
  std::string swap_folder;
  bool no_prefix_reuse = false;
  bool embeddings = false;
  std::string pooling;
  bool no_normalise = false;
  bool shorten_embeddings = false;
  std::string speculate;
  std::string baseline;
  double request_timeout = 600, drain_timeout = 30;
  uint64_t max_body = uint64_t{16} << 20;
  int64_t max_connections = 1024;
  std::string log_format = "text";
  bool trace_requests = false;
};

Result<int> verb_adapt(const CommonFlags& common, const AdaptFlags& flags);
Result<int> verb_validate(const CommonFlags& common, const ValidateFlags& flags);
Result<int> verb_sensitivity(const CommonFlags& common, const SensitivityFlags& flags);  // validate --sensitivity
Result<int> verb_inspect(const CommonFlags& common);
Result<int> verb_graph(const CommonFlags& common, const GraphFlags& flags);
Result<int> verb_plan(const CommonFlags& common, const PlanFlags& flags);
Result<int> verb_embed(const CommonFlags& common, const EmbedFlags& flags);
Result<int> verb_run(const CommonFlags& common, const RunFlags& flags);
Result<int> verb_logits(const CommonFlags& common, const LogitsFlags& flags);
Result<int> verb_tokenize(const CommonFlags& common, const TokenizeFlags& flags);
Result<int> verb_render(const CommonFlags& common, const RenderFlags& flags);
Result<int> verb_perplexity(const CommonFlags& common, const PerplexityFlags& flags);
Result<int> verb_baseline_record(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_compare(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_vote(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_join(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_locate(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_reproduce(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_baseline_values(const CommonFlags& common, const BaselineFlags& flags);
Result<int> verb_convert(const CommonFlags& common, const ConvertFlags& flags);
Result<int> verb_twin(const CommonFlags& common, const TwinFlags& flags);
Result<int> verb_ops(const CommonFlags& common);
Result<int> verb_devices(const CommonFlags& common, const DevicesFlags& flags);
Result<int> verb_bench(const CommonFlags& common, const BenchFlags& flags);
Result<int> verb_serve(const CommonFlags& common, const ServeFlags& flags);

}  // namespace firstlight::cli
