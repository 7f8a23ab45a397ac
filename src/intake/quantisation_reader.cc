// SPDX-License-Identifier: Apache-2.0
#include "intake/quantisation_reader.h"

#include <map>

#include "intake/config_tree.h"

namespace firstlight::intake {
namespace {

using Kind = WeightScheme::Kind;
using Sharing = WeightScheme::Sharing;
using NodeKind = ConfigNode::Kind;

constexpr const char* kKnown = "fp8, fbgemm_fp8, mxfp4, compressed-tensors, modelopt, gptq and awq";
constexpr const char* kNotApplied =
    "how activations were rounded: they stay in float32 here (docs/numerics.md); --vendor-activations rounds them";
constexpr const char* kCache = "the key/value cache keeps its own type here, so scales of a quantised one have no use";
constexpr const char* kMade = "how the file was made; the tensors say the rest";
constexpr int64_t kMaxBlock = 1 << 20;

// An object of the config and its path; every key read is recorded.
class Section {
 public:
  Section(const ConfigNode& node, std::string path, ConfigRecord& record)
      : node_(&node), path_(std::move(path)), record_(&record) {}

  const ConfigNode& node() const { return *node_; }
  std::string at(std::string_view key) const { return path_ + "." + std::string(key); }

  // Null counts as absent.
  const ConfigNode* read(std::string_view key) const {
    const ConfigNode* found = node_->find(key);
    if (found != nullptr && found->is_leaf()) record_->touched.insert(at(key));
    return found == nullptr || found->kind == NodeKind::kNull ? nullptr : found;
  }
  // A key that has no say in what is computed here.
  void waive(std::string_view key, const char* reason) const {
    const ConfigNode* found = node_->find(key);
    if (found == nullptr) return;
    (found->is_leaf() ? record_->waived : record_->waived_objects)[at(key)] = reason;
  }
  void waive_all(std::initializer_list<const char*> keys, const char* reason) const {
    for (const char* key : keys) waive(key, reason);
  }
  Section inner(std::string_view key, const ConfigNode& node) const { return {node, at(key), *record_}; }

  std::string text(std::string_view key) const {
    const ConfigNode* found = read(key);
    return found == nullptr || found->kind != NodeKind::kString ? "" : found->text;
  }
  Result<int64_t> integer(std::string_view key, int64_t fallback) const {
    const ConfigNode* found = read(key);
    if (found == nullptr) return fallback;
    if (found->kind != NodeKind::kInt) return wrong(key, *found, "a whole number");
    return found->integer;
  }
  Result<bool> boolean(std::string_view key, bool fallback) const {
    const ConfigNode* found = read(key);
    if (found == nullptr) return fallback;
    if (found->kind != NodeKind::kBool) return wrong(key, *found, "true or false");
    return found->boolean;
  }
  Status wrong(std::string_view key, const ConfigNode& found, const std::string& wanted) const {
    return invalid_data(at(key) + ": found " + found.to_string() + ", wanted " + wanted);
  }
  Status refuse(std::string_view key, const ConfigNode& found, const std::string& wanted) const {
    return unsupported(at(key) + ": found " + found.to_string() + ", wanted " + wanted);
  }
  // A key that must have one of these values where it is present.
  Status expect(std::string_view key, std::initializer_list<std::string_view> values) const {
    const ConfigNode* found = read(key);
    if (found == nullptr) return ok_status();
    std::string wanted;
    for (const std::string_view value : values) {
      if (found->kind == NodeKind::kString && found->text == value) return ok_status();
      wanted += (wanted.empty() ? "\"" : " or \"") + std::string(value) + "\"";
    }
    return refuse(key, *found, wanted);
  }
  // Adds them to `out`.
  Status names(std::string_view key, bool classes, NameList& out) const {
    const ConfigNode* list = read(key);
    if (list == nullptr) return ok_status();
    if (list->kind != NodeKind::kList) return wrong(key, *list, "names");
    for (const ConfigNode& item : list->items) {
      if (item.kind != NodeKind::kString) return wrong(key, item, "names");
      FL_TRY(out.add(FL_TRY(NamePattern::parse(item.text, classes))).with_context(at(key)));
    }
    return ok_status();
  }

 private:
  const ConfigNode* node_;
  std::string path_;
  ConfigRecord* record_;
};

class Reader {
 public:
  Reader(const Section& root, bool vendor_activations, bool side_file)
      : root_(root), vendor_activations_(vendor_activations), side_file_(side_file) {}

  Result<Quantisation> run() {
    out_.method = root_.text("quant_method");
    if (out_.method.empty() && (side_file_ || root_.node().find("quant_algo") != nullptr)) out_.method = "modelopt";
    if (out_.method == "fp8") {
      FL_TRY(read_fp8());
    } else if (out_.method == "fbgemm_fp8") {
      FL_TRY(read_fbgemm());
    } else if (out_.method == "mxfp4") {
      out_.gpt_oss_blocks = true;
      add_group({}, {.kind = Kind::kMxfp4, .bits = 4});
    } else if (out_.method == "compressed-tensors" || out_.method == "compressed_tensors") {
      FL_TRY(read_compressed());
    } else if (out_.method == "modelopt" || out_.method == "modelopt_fp4" || out_.method == "modelopt_mixed") {
      FL_TRY(read_modelopt());
    } else if (out_.method == "gptq") {
      FL_TRY(read_gptq());
    } else if (out_.method == "awq") {
      FL_TRY(read_awq());
    } else {
      return unsupported(root_.at("quant_method") + ": found " +
                         (out_.method.empty() ? "nothing" : "\"" + out_.method + "\"") + "; known are " + kKnown);
    }
    if (!mixed_ignores_) {
      for (const char* key : {"modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"}) {
        FL_TRY(root_.names(key, true, out_.unconverted));
      }
    }
    return std::move(out_);
  }

 private:
  void add_group(NameList targets, WeightScheme scheme) {
    out_.groups.push_back({std::move(targets), std::move(scheme)});
  }

  // Fine-grained FP8: one method for released DeepSeek, Qwen, MiniMax … checkpoints.
  Status read_fp8() {
    WeightScheme scheme{.kind = Kind::kFp8};
    FL_TRY(root_.expect("fmt", {"e4m3", "float8_e4m3fn"}));
    FL_TRY(root_.expect("activation_scheme", {"dynamic", "static"}));
    FL_TRY(root_.expect("scale_fmt", {"ue8m0", "float"}));
    scheme.activations.format = "e4m3";
    scheme.activations.is_static = root_.text("activation_scheme") == "static";
    if (root_.text("scale_fmt") == "ue8m0") scheme.activations.scale_format = "ue8m0";
    if (!vendor_activations_) {
      root_.waive_all({"activation_scheme"}, kNotApplied);
      root_.waive("scale_fmt",
                  "the scales of the weights are stored; how those of activations are rounded matters with "
                  "--vendor-activations");
    }
    if (const ConfigNode* block = root_.read("weight_block_size")) {
      scheme.block = FL_TRY(two_sizes("weight_block_size", *block));
      scheme.sharing = Sharing::kBlock;
      scheme.activations.block = scheme.block[1];
    }
    const bool mixed = root_.node().find("quantized_layers") != nullptr;
    if (!mixed) {
      add_group({}, std::move(scheme));
      return ok_status();
    }
    // FP8 beside modules in another format, which ModelOpt's keys name; its ignore list speaks of those alone.
    mixed_ignores_ = true;
    FL_TRY(read_quantized_layers());
    add_group({}, std::move(scheme));
    root_.waive_all({"ignore", "exclude_modules", "config_groups", "group_size", "moe_quant_algo", "quant_algo"},
                    "quantized_layers names the modules in another format; all others are FP8");
    root_.waive_all({"producer"}, kMade);
    root_.waive_all({"kv_cache_quant_algo", "kv_cache_scheme"}, kCache);
    return ok_status();
  }

  Status read_fbgemm() {
    WeightScheme scheme{.kind = Kind::kFp8, .sharing = Sharing::kChannel};
    scheme.activations.format = "e4m3";
    scheme.activations.unsupported = "fbgemm_fp8 bounds the scales of activations (activation_scale_ub)";
    root_.waive("activation_scale_ub", kNotApplied);
    add_group({}, std::move(scheme));
    return ok_status();
  }

  Result<std::vector<int64_t>> two_sizes(std::string_view key, const ConfigNode& list) {
    std::vector<int64_t> sizes;
    for (const ConfigNode& size : list.items) {
      if (size.kind == NodeKind::kInt && size.integer > 0 && size.integer < kMaxBlock) sizes.push_back(size.integer);
    }
    if (list.items.size() != 2 || sizes.size() != 2) return root_.wrong(key, list, "two sizes");
    return sizes;
  }

  Status read_compressed() {
    FL_TRY(root_.expect("quantization_status", {"compressed", "frozen"}));
    FL_TRY(
        root_.expect("format", {"pack-quantized", "float-quantized", "int-quantized", "naive-quantized",
                                "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"}));
    for (const char* key : {"sparsity_config", "transform_config"}) {
      const ConfigNode* found = root_.read(key);
      if (found == nullptr || (found->kind == NodeKind::kObject && found->members.empty())) continue;
      const ConfigNode* format = found->find("format");
      if (format != nullptr && format->text == "dense") {
        root_.waive(key, "nothing is left out of the tensors");
      } else {
        return root_.refuse(key, *found, "nothing: sparse or transformed weights are not decoded");
      }
    }
    root_.waive_all({"global_compression_ratio", "version", "quant_method_version"}, kMade);
    root_.waive("format", "each group and the tensors say the same");
    root_.waive("quantization_status", kMade);
    root_.waive_all({"kv_cache_scheme"}, kCache);
    note_cache("kv_cache_scheme");
    return read_groups(false);
  }

  void note_cache(std::string_view key) {
    const ConfigNode* found = root_.node().find(key);
    if (found != nullptr && found->kind != NodeKind::kNull) out_.cache_scales = kCache;
  }

  Status read_groups(bool modelopt) {
    const ConfigNode* groups = root_.node().find("config_groups");
    if (groups == nullptr || groups->kind != NodeKind::kObject || groups->members.empty()) {
      return invalid_data(root_.at("config_groups") + ": wanted one group or more");
    }
    const Section all = root_.inner("config_groups", *groups);
    for (const auto& [name, node] : groups->members) {
      if (node.kind != NodeKind::kObject) return all.wrong(name, node, "an object");
      const Section group = all.inner(name, node);
      const ConfigNode* weights = node.find("weights");
      if (weights == nullptr || weights->kind != NodeKind::kObject) {
        return unsupported(group.at("weights") + ": a group that leaves weights alone is not known");
      }
      WeightScheme scheme = FL_TRY(read_weights(group.inner("weights", *weights), modelopt));
      FL_TRY(read_activations(group, scheme));
      group.waive("output_activations", "results stay in float32");
      if (const ConfigNode* output = node.find("output_activations"); output && output->kind == NodeKind::kObject) {
        return unsupported(group.at("output_activations") + ": quantised results are not known");
      }
      group.waive("format", "the kind of weights says the same");
      NameList targets;
      FL_TRY(group.names("targets", true, targets));
      add_group(std::move(targets), std::move(scheme));
    }
    return ok_status();
  }

  Result<WeightScheme> read_weights(const Section& weights, bool modelopt) {
    WeightScheme scheme;
    scheme.bits = static_cast<int>(FL_TRY(weights.integer("num_bits", 8)));
    const std::string type = weights.text("type");
    const int64_t group = FL_TRY(weights.integer("group_size", 0));
    std::string strategy = weights.text("strategy");
    scheme.symmetric = FL_TRY(weights.boolean("symmetric", true));
    weights.waive_all({"observer", "observer_kwargs", "zp_dtype", "scale_dtype", "is_mx"}, kMade);
    FL_TRY(want_false(weights, "dynamic"));
    if (const ConfigNode* order = weights.read("actorder")) {
      if (order->kind == NodeKind::kString && (order->text == "group" || order->text == "dynamic")) {
        scheme.ordered = true;
      } else if (order->kind == NodeKind::kBool) {
        scheme.ordered = order->boolean;
      } else if (order->text != "weight" && order->text != "static") {
        return weights.refuse("actorder", *order, "\"group\", \"weight\" or null");
      }
    }
    if (group < 0 || group >= kMaxBlock)
      return unsupported(weights.at("group_size") + ": found " + std::to_string(group));
    if (type == "float" && scheme.bits == 8) {
      scheme.kind = Kind::kFp8;
    } else if (type == "float" && scheme.bits == 4) {
      scheme.kind = group == 16 ? Kind::kNvfp4 : Kind::kMxfp4;
      if (group != 16 && group != 32) {
        return unsupported(weights.at("group_size") + ": found " + std::to_string(group) +
                           ", wanted 16 or 32 for E2M1");
      }
    } else if (type == "int" && (scheme.bits == 4 || scheme.bits == 8 || scheme.bits == 2)) {
      scheme.kind = Kind::kInt;
    } else {
      return unsupported(weights.at("num_bits") + ": found " + std::to_string(scheme.bits) + " bits of type \"" + type +
                         "\", wanted 4 or 8 of type float, or 2, 4 or 8 of type int");
    }
    if (scheme.kind != Kind::kInt) weights.waive("symmetric", "floats have no zero to store");
    const ConfigNode* block = strategy == "block" ? weights.read("block_structure") : nullptr;
    if (strategy != "block") weights.waive("block_structure", "scales are not shared by blocks");
    if (strategy == "tensor" || strategy == "channel" || strategy == "block") {
      weights.waive("group_size", "scales are not shared by groups");
    }
    if (strategy.empty() && group > 0) strategy = scheme.kind == Kind::kNvfp4 ? "tensor_group" : "group";
    if (strategy == "tensor") {
      scheme.sharing = Sharing::kTensor;
    } else if (strategy == "channel") {
      scheme.sharing = Sharing::kChannel;
    } else if (strategy == "group" || strategy == "tensor_group") {
      scheme.sharing = group > 0 ? Sharing::kBlock : Sharing::kChannel;
      scheme.block = {1, group};
    } else if (strategy == "block" && block != nullptr) {
      scheme.sharing = Sharing::kBlock;
      scheme.block = FL_TRY(two_sizes("block_structure", *block));
    } else if (!strategy.empty() || !modelopt) {
      return unsupported(weights.at("strategy") + ": found \"" + strategy +
                         "\", wanted tensor, channel, group, tensor_group or block (with block_structure)");
    }
    return scheme;
  }

  Status want_false(const Section& section, std::string_view key) {
    const ConfigNode* found = section.read(key);
    if (found == nullptr || (found->kind == NodeKind::kBool && !found->boolean)) return ok_status();
    return section.refuse(key, *found, "false");
  }

  Status read_activations(const Section& group, WeightScheme& scheme) {
    const ConfigNode* node = group.node().find("input_activations");
    if (node == nullptr || node->kind == NodeKind::kNull) {
      group.waive("input_activations", "activations are not quantised");
      return ok_status();
    }
    if (node->kind != NodeKind::kObject) return group.wrong("input_activations", *node, "an object or null");
    const Section part = group.inner("input_activations", *node);
    ActivationScheme& out = scheme.activations;
    const int64_t bits = FL_TRY(part.integer("num_bits", 8));
    const std::string type = part.text("type");
    const int64_t size = FL_TRY(part.integer("group_size", 0));
    const std::string strategy = part.text("strategy");
    const ConfigNode* dynamic = part.read("dynamic");
    out.is_static =
        dynamic == nullptr || (dynamic->kind == NodeKind::kBool && !dynamic->boolean) || dynamic->text == "local";
    out.format = type == "float" ? (bits == 4 ? "e2m1" : "e4m3") : bits == 4 ? "int4" : "int8";
    if (type == "float" && bits == 4) {
      out.block = size == 0 ? 16 : size;
      out.scale_format = out.block == 16 ? "e4m3" : "ue8m0";
      out.is_static = out.block == 16;
    } else if (!out.is_static && size > 0) {
      out.block = size;
    }
    if (scheme.kind == Kind::kFp8 && scheme.sharing == Sharing::kBlock && scheme.block[1] == 32 &&
        scheme.block[0] == 1) {
      out.scale_format = "ue8m0";
    }
    if ((bits != 4 && bits != 8) || (type != "float" && type != "int")) {
      out.unsupported = "activations in " + std::to_string(bits) + " bits of type \"" + type + "\"";
    }
    const bool known = dynamic == nullptr || dynamic->kind == NodeKind::kBool || dynamic->text == "local";
    const bool whole = dynamic != nullptr && dynamic->kind == NodeKind::kBool && dynamic->boolean;
    if (!known || (whole && out.scale_format == "e4m3")) {
      out.unsupported = "a global scale of activations that is computed as they come";
    }
    if (!FL_TRY(part.boolean("symmetric", true))) out.unsupported = "asymmetric rounding of activations";
    if (!out.is_static && strategy == "tensor") out.unsupported = "one computed scale for a whole batch of activations";
    if (!vendor_activations_) group.waive("input_activations", kNotApplied);
    part.waive_all(
        {"observer", "observer_kwargs", "actorder", "block_structure", "zp_dtype", "scale_dtype", "strategy"}, kMade);
    return ok_status();
  }

  // ModelOpt's name of a format.
  Result<WeightScheme> scheme_of(const std::string& algorithm, int64_t group, const std::string& where) {
    WeightScheme scheme;
    if (algorithm == "FP8") {
      scheme.sharing = Sharing::kTensor;
      scheme.activations = {.format = "e4m3", .is_static = true};
    } else if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") {
      scheme.sharing = Sharing::kChannel;
      scheme.activations = {.format = "e4m3"};
    } else if (algorithm == "FP8_PB_WO" || algorithm == "FP8_BLOCK") {
      scheme.sharing = Sharing::kBlock;
      scheme.block = {128, 128};
    } else if (algorithm == "MXFP8") {
      scheme.sharing = Sharing::kBlock;
      scheme.block = {1, 32};
      scheme.activations = {.format = "e4m3", .block = 32, .scale_format = "ue8m0"};
    } else if (algorithm == "NVFP4" || algorithm == "W4A16_NVFP4") {
      if (group != 16) return unsupported(where + ": NVFP4 with groups of " + std::to_string(group) + ", wanted 16");
      scheme.kind = Kind::kNvfp4;
      scheme.bits = 4;
      if (algorithm == "NVFP4") {
        scheme.activations = {.format = "e2m1", .block = 16, .scale_format = "e4m3", .is_static = true};
      }
    } else if (algorithm == "MXFP4" || algorithm == "W4A16_MXFP4" || algorithm == "W4A8_MXFP4_FP8") {
      scheme.kind = Kind::kMxfp4;
      scheme.bits = 4;
    } else {
      return unsupported(
          where + ": found \"" + algorithm +
          "\"; known of ModelOpt are FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, MXFP8, NVFP4, W4A16_NVFP4, "
          "MXFP4 and MIXED_PRECISION");
    }
    return scheme;
  }

  Status read_modelopt() {
    root_.waive_all({"producer"}, kMade);
    root_.waive_all({"kv_cache_scheme", "kv_cache_quant_algo"}, kCache);
    note_cache("kv_cache_scheme");
    note_cache("kv_cache_quant_algo");
    const std::string algorithm = root_.text("quant_algo");
    const int64_t group = FL_TRY(root_.integer("group_size", 16));
    if (root_.node().find("config_groups") != nullptr) {
      if (algorithm != "MIXED_PRECISION" && !algorithm.empty())
        FL_TRY(scheme_of(algorithm, group, root_.at("quant_algo")));
      root_.waive_all({"quantized_layers", "group_size", "quant_algo"}, "config_groups says the same");
      return read_groups(true);
    }
    if (algorithm == "MIXED_PRECISION") return read_quantized_layers();
    add_group({}, FL_TRY(scheme_of(algorithm, group, root_.at("quant_algo"))));
    return ok_status();
  }

  // { module: { quant_algo, group_size } }
  Status read_quantized_layers() {
    const ConfigNode* layers = root_.node().find("quantized_layers");
    if (layers == nullptr || layers->kind != NodeKind::kObject) {
      return invalid_data(root_.at("quantized_layers") + ": wanted an object of modules");
    }
    const Section all = root_.inner("quantized_layers", *layers);
    std::map<std::string, size_t> groups;
    for (const auto& [name, node] : layers->members) {
      if (node.kind != NodeKind::kObject) return all.wrong(name, node, "an object");
      const Section layer = all.inner(name, node);
      const std::string algorithm = layer.text("quant_algo");
      const int64_t group = FL_TRY(layer.integer("group_size", 16));
      const auto [it, fresh] = groups.try_emplace(algorithm, out_.groups.size());
      if (fresh) add_group({}, FL_TRY(scheme_of(algorithm, group, layer.at("quant_algo"))));
      FL_TRY(out_.groups[it->second].targets.add(FL_TRY(NamePattern::parse(name, false))).with_context(all.at(name)));
    }
    return ok_status();
  }

  Status read_gptq() {
    WeightScheme scheme{.kind = Kind::kGptq};
    FL_TRY(read_bits("bits", scheme));
    FL_TRY(read_group(scheme));
    scheme.symmetric = FL_TRY(root_.boolean("sym", true));
    scheme.ordered = FL_TRY(root_.boolean("desc_act", false));
    const char* key = root_.node().find("checkpoint_format") != nullptr ? "checkpoint_format" : "format";
    FL_TRY(root_.expect(key, {"gptq", "gptq_v2"}));
    scheme.zero_minus_one = root_.text(key) != "gptq_v2";
    if (const ConfigNode* dynamic = root_.read("dynamic"); dynamic != nullptr && !dynamic->members.empty()) {
      return root_.refuse("dynamic", *dynamic, "nothing: rules per module are not known for gptq");
    }
    FL_TRY(want_false(root_, "lm_head"));
    FL_TRY(root_.expect("pack_dtype", {"int32"}));
    root_.waive_all({"damp_percent",
                     "damp_auto_increment",
                     "true_sequential",
                     "static_groups",
                     "model_name_or_path",
                     "model_file_base_name",
                     "is_marlin_format",
                     "meta",
                     "quantizer",
                     "dataset",
                     "batch_size",
                     "cache_block_outputs",
                     "model_seqlen",
                     "tokenizer",
                     "use_cuda_fp16",
                     "use_exllama",
                     "exllama_config",
                     "max_input_length",
                     "module_name_preceding_first_block",
                     "modules_in_block_to_quantize",
                     "backend",
                     "block_name_to_quantize",
                     "pad_token_id",
                     "disable_exllama",
                     "mse",
                     "rotation",
                     "adapter",
                     "group_aware",
                     "offload_to_disk",
                     "fmt"},
                    kMade);
    root_.waive("sym", "the zeros are stored either way");
    add_group({}, std::move(scheme));
    return ok_status();
  }

  Status read_awq() {
    WeightScheme scheme{.kind = Kind::kAwq};
    FL_TRY(read_bits("bits", scheme));
    if (scheme.bits != 4)
      return unsupported(root_.at("bits") + ": found " + std::to_string(scheme.bits) + ", wanted 4");
    FL_TRY(read_group(scheme));
    scheme.symmetric = !FL_TRY(root_.boolean("zero_point", true));
    const std::string version = root_.text("version");
    if (!version.empty() && version != "gemm" && version != "GEMM") {
      return unsupported(root_.at("version") + ": found \"" + version + "\", wanted \"gemm\"");
    }
    root_.waive("version", "the layout of gemm is the one that is read");
    root_.waive("zero_point", "the zeros are stored either way");
    root_.waive_all({"backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse", "group_size_kv"},
                    kMade);
    add_group({}, std::move(scheme));
    return ok_status();
  }

  Status read_bits(std::string_view key, WeightScheme& scheme) {
    const int64_t bits = FL_TRY(root_.integer(key, 4));
    if (bits != 2 && bits != 4 && bits != 8) {
      return unsupported(root_.at(key) + ": found " + std::to_string(bits) + ", wanted 2, 4 or 8");
    }
    scheme.bits = static_cast<int>(bits);
    return ok_status();
  }

  Status read_group(WeightScheme& scheme) {
    const char* key = root_.node().find("q_group_size") != nullptr ? "q_group_size" : "group_size";
    const int64_t group = FL_TRY(root_.integer(key, 128));
    if (group == -1) {
      scheme.sharing = Sharing::kChannel;
      return ok_status();
    }
    if (group < 1 || group >= kMaxBlock) return invalid_data(root_.at(key) + ": found " + std::to_string(group));
    scheme.sharing = Sharing::kBlock;
    scheme.block = {1, group};
    return ok_status();
  }

  const Section& root_;
  bool vendor_activations_;
  bool side_file_;
  bool mixed_ignores_ = false;
  Quantisation out_;
};

}  // namespace

Result<Quantisation> read_quantisation(const ConfigNode& node, const std::string& path, bool vendor_activations,
                                       ConfigRecord& record) {
  const Section root(node, path, record);
  return Reader(root, vendor_activations, path == "hf_quant_config.json").run();
}

}  // namespace firstlight::intake
