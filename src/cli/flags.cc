// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <charconv>
#include <limits>

#include "cli/environment.h"
#include "compiler/compile.h"

namespace firstlight::cli {
namespace {

Result<catalog::Backend> parse_backend(const std::string& name) {
  if (name == "reference") return catalog::Backend::kReference;
  if (name == "cpu") return catalog::Backend::kCpu;
  if (const auto backend = catalog::backend_from_name(name); backend && catalog::is_device(*backend)) return *backend;
  return invalid_argument("--backend " + name + ": reference, cpu, simt, opencl, cuda or musa wanted");
}

Result<std::optional<catalog::ComputeMode>> parse_compute(const std::string& name) {
  using catalog::ComputeMode;
  if (name == "auto") return std::optional<ComputeMode>();
  if (name == "f32") return std::optional(ComputeMode::kF32);
  if (name == "bf16") return std::optional(ComputeMode::kBf16);
  if (name == "w8a8" || name == "w4a8") return std::optional(ComputeMode::kInt8);
  if (name == "w4a16" || name == "fp8")
    return unsupported("--compute " + name + ": the cpu backend has no such kernels");
  return invalid_argument("--compute " + name + ": auto, f32, bf16, w8a8, w4a8, w4a16 or fp8 wanted");
}

Result<std::optional<tensor::DType>> parse_kv_dtype(const std::string& name) {
  if (name.empty()) return std::optional<tensor::DType>();
  if (name == "f32") return std::optional(tensor::DType::kF32);
  if (name == "f16") return std::optional(tensor::DType::kF16);
  if (name == "bf16") return std::optional(tensor::DType::kBF16);
  if (name == "fp8") return std::optional(tensor::DType::kMXFP8);
  if (name == "int8") return std::optional(tensor::DType::kQ8_0);
  if (name == "int4") return std::optional(tensor::DType::kQ4_1S);
  return invalid_argument("--kv-dtype " + name + ": f32, f16, bf16, fp8, int8 or int4 wanted");
}

// The number behind `name` and a colon; absent where the word begins in another way.
std::optional<int64_t> number_of(std::string_view word, std::string_view name) {
  if (!word.starts_with(name)) return std::nullopt;
  word.remove_prefix(name.size());
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

Result<runtime::GeneratedMode> parse_generated(const CommonFlags& flags) {
  using runtime::GeneratedMode;
  if (flags.no_generated) return GeneratedMode::kOff;
  if (flags.generated.empty() || flags.generated == "cached") return GeneratedMode::kCached;
  if (flags.generated == "background") return GeneratedMode::kBackground;
  if (flags.generated == "wait") return GeneratedMode::kWait;
  return invalid_argument("--generated " + flags.generated + ": cached, background or wait wanted");
}

// Only the cpu backend has several forms of a kernel to choose from.
Status check_forms(const CommonFlags& flags, catalog::Backend backend) {
  if (backend == catalog::Backend::kCpu) return ok_status();
  const bool device = catalog::is_device(backend);
  const std::pair<const char*, bool> wishes[] = {{"--canary", flags.canary != 0},
                                                 {"--generated", !flags.generated.empty()},
                                                 {"--no-tuned", device && flags.no_tuned},
                                                 {"--no-generated", device && flags.no_generated}};
  for (const auto& [name, wished] : wishes) {
    if (wished) return unsupported(std::string(name) + ": backend " + flags.backend + " has one form of each kernel");
  }
  return ok_status();
}

}  // namespace

Result<std::optional<compiler::Eviction>> parse_eviction(const std::string& text) {
  if (text.empty()) return std::optional<compiler::Eviction>();
  const size_t comma = std::min(text.find(','), text.size());
  const std::string_view first = std::string_view(text).substr(0, comma);
  const std::string_view rest = std::string_view(text).substr(std::min(comma + 1, text.size()));
  const auto sinks = number_of(first, "sinks:");
  const auto window = number_of(sinks ? rest : first, "window:");
  constexpr int64_t kMost = int64_t{1} << 30;
  const bool good = window && *window >= 1 && *window <= kMost && sinks.value_or(0) >= 0 &&
                    sinks.value_or(0) <= kMost && (sinks || comma == text.size());
  if (!good) return invalid_argument("--evict " + text + ": sinks:N,window:M or window:M wanted, M at least 1");
  return std::optional(compiler::Eviction{.sinks = sinks.value_or(0), .window = *window});
}

Result<adapt::BringUpOptions> bring_up_options(const CommonFlags& flags) {
  adapt::BringUpOptions options;
  options.backend = FL_TRY(parse_backend(flags.backend));
  options.compute = FL_TRY(parse_compute(flags.compute));
  options.state_dtype = FL_TRY(parse_kv_dtype(flags.kv_dtype));
  options.evict = FL_TRY(parse_eviction(flags.evict));
  const bool reference = options.backend == catalog::Backend::kReference;
  if (reference && options.compute && *options.compute != catalog::ComputeMode::kF32) {
    return invalid_argument("--compute " + flags.compute + ": the reference backend computes in f32 alone");
  }
  if (catalog::is_device(options.backend) && options.compute && *options.compute != catalog::ComputeMode::kF32) {
    return unsupported("--compute " + flags.compute + ": kernels of devices compute in f32");
  }
  if (flags.warp != 0 && !catalog::is_device(options.backend)) {
    return invalid_argument("--warp " + std::to_string(flags.warp) + ": the " + flags.backend +
                            " backend has no warps");
  }
  if (flags.invariant && (flags.canary != 0 || !flags.generated.empty())) {
    return invalid_argument(std::string(flags.canary != 0 ? "--canary" : "--generated") +
                            " changes kernels between batches, which --invariant promises not to");
  }
  options.invariant = flags.invariant;
  options.predict = flags.predict;
  options.warp_width = flags.warp;
  for (const auto& [name, ranks] : {std::pair("--tp", flags.tp), {"--pp", flags.pp}, {"--ep", flags.ep}}) {
    if (ranks < 1) return invalid_argument(std::string(name) + " " + std::to_string(ranks) + ": 1 or more wanted");
    if (ranks > 1)
      return unsupported(std::string(name) + " " + std::to_string(ranks) + ": this build runs on one rank");
  }
  if (flags.threads < 0 || flags.threads > 1024) {
    return invalid_argument("--threads " + std::to_string(flags.threads) + ": 0 (all cores) to 1024 wanted");
  }
  options.num_threads = flags.threads;
  options.plain_kernels = flags.no_tuned;
  options.generated = FL_TRY(parse_generated(flags));
  if (flags.canary < 0) return invalid_argument("--canary " + std::to_string(flags.canary) + ": 0 or more wanted");
  options.canary_every = flags.canary;
  FL_TRY(check_forms(flags, options.backend));
  options.cache_dir = FL_TRY(cache_folder());
  options.host_compiler = host_compiler();
  options.disabled_passes.insert(flags.no_pass.begin(), flags.no_pass.end());
  options.intake.allow_unbound = flags.allow_unbound;
  options.intake.vendor_activations = flags.vendor_activations;
  options.intake.spec_file = flags.spec;
  options.intake.architectures_dir = flags.architectures;
  return options;
}

Result<Speculation> parse_speculate(const std::string& text) {
  if (text.empty() || text == "off") return Speculation{};
  const std::string kind = text.substr(0, text.find(':'));
  if (kind != "ngram" && kind != "mtp") {
    return invalid_argument("--speculate " + text + ": off, ngram, ngram:N, mtp or mtp:N wanted");
  }
  Speculation found{.tokens = kind == "mtp" ? 3 : 8, .predict = kind == "mtp"};
  if (text == kind) return found;
  const auto counts = FL_TRY(parse_integers("--speculate", text.substr(kind.size() + 1)));
  if (counts.size() != 1 || counts[0] < 1 || counts[0] > 64) {
    return invalid_argument("--speculate " + text + ": 1 to 64 tokens wanted");
  }
  found.tokens = counts[0];
  return found;
}

Result<adapt::TextOptions> text_options(const CommonFlags& flags) {
  adapt::TextOptions options;
  options.intake.spec_file = flags.spec;
  options.intake.architectures_dir = flags.architectures;
  if (flags.prompt_from == "auto") return options;
  if (flags.prompt_from != "template" && flags.prompt_from != "spec") {
    return invalid_argument("--prompt-from " + flags.prompt_from + ": auto, template or spec wanted");
  }
  options.chat = flags.prompt_from == "spec" ? adapt::ChatSource::kSpec : adapt::ChatSource::kTemplate;
  return options;
}

Result<std::vector<int64_t>> parse_integers(const std::string& flag, const std::string& text) {
  std::vector<int64_t> numbers;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    std::string word = text.substr(start, end - start);
    word.erase(0, word.find_first_not_of(" \t\n"));
    word.erase(word.find_last_not_of(" \t\n") + 1);
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || stop != word.data() + word.size()) {
      return invalid_argument(flag + ": '" + word + "' is no whole number; comma-separated ones wanted");
    }
    numbers.push_back(number);
    start = end + 1;
  }
  return numbers;
}

Result<std::vector<int32_t>> parse_token_ids(const std::string& flag, const std::string& text) {
  std::vector<int32_t> ids;
  for (const int64_t id : FL_TRY(parse_integers(flag, text))) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return invalid_argument(flag + ": " + std::to_string(id) + " is no token id");
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace firstlight::cli
