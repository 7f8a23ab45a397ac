// SPDX-License-Identifier: Apache-2.0
#include "adapt/twin.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>

#include "adapt/output_directory.h"
#include "adapt/released_config.h"
#include "adapt/small_tokenizer.h"
#include "base/file_map.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "tensor/codec.h"
#include "text/tokenizer.h"

namespace firstlight::adapt {
namespace {

namespace fs = std::filesystem;
using intake::ConfigNode;
using tensor::DType;

constexpr int64_t kShortPrompt = 36;

// What the graph says of a tensor: how random values of it should lie.
enum class Role : uint8_t { kPlain, kNorm, kTable };

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  Role role = Role::kPlain;

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }
};

// Norms' factors lie around 1; rows that are gathered and cast to whole numbers name experts.
std::map<ir::ValueId, Role> roles_of(const ir::Graph& graph) {
  std::map<ir::ValueId, Role> roles;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ops::OpKind::kRmsNorm || node.op == ops::OpKind::kLayerNorm) {
      if (node.operands.size() > 1) roles[node.operands[1]] = Role::kNorm;
    }
    if (node.op != ops::OpKind::kCast || graph.value(node.results[0]).type.dtype != DType::kI32) continue;
    const ir::NodeId from = graph.value(node.operands[0]).producer;
    if (from < 0 || graph.node(from).op != ops::OpKind::kGatherRows) continue;
    roles[graph.node(from).operands[0]] = Role::kTable;
  }
  return roles;
}

std::vector<TensorSpec> tensors_of(const ir::Graph& graph) {
  const auto roles = roles_of(graph);
  std::vector<TensorSpec> tensors;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const ir::Value& value = graph.values[i];
    if (value.kind != ir::Value::Kind::kWeight) continue;
    TensorSpec spec{.name = graph.weight_sources.at(value.name).tensor};
    for (const tensor::Dim& dim : value.type.shape) spec.shape.push_back(dim.factor);
    const auto role = roles.find(static_cast<ir::ValueId>(i));
    if (role != roles.end()) spec.role = role->second;
    tensors.push_back(std::move(spec));
  }
  return tensors;
}

int64_t num_experts(const ir::Graph& graph) {
  int64_t least = INT64_MAX;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == ops::OpKind::kStack) least = std::min(least, static_cast<int64_t>(node.operands.size()));
  }
  return least == INT64_MAX ? 1 : least;
}

// Random numbers that depend on seed and name alone, with nothing of the platform's mathematics in them.
class Draw {
 public:
  Draw(uint64_t seed, const std::string& name) : random_(mixed(seed, name)) {}

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double normal() {  // a sum of twelve: bounded by 6, variance 1
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  double apart(double least, double most) {  // of either sign, never near 0
    const double size = least + (most - least) * uniform();
    return (random_() & 1) != 0 ? size : -size;
  }

 private:
  static uint64_t mixed(uint64_t seed, const std::string& name) {
    uint64_t hash = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
  }
  std::mt19937_64 random_;
};

std::vector<float> random_values(const TensorSpec& tensor, uint64_t seed, int64_t experts) {
  Draw draw(seed, tensor.name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  const double spread =
      1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, tensor.shape.empty() ? 1 : tensor.shape.back())));
  for (size_t i = 0; i < values.size(); ++i) {
    double value = 0;
    if (tensor.role == Role::kTable) {
      const auto columns = static_cast<size_t>(tensor.shape.back());
      value = static_cast<double>((i / columns * 7 + i % columns) % static_cast<size_t>(experts));
    } else if (tensor.role == Role::kNorm) {
      value = 1 + draw.apart(0.1, 0.5);
    } else if (tensor.shape.size() < 2) {
      value = draw.apart(0.1, 0.5);
    } else {
      value = draw.normal() * spread;
    }
    values[i] = static_cast<float>(value);
  }
  return values;
}

// The first elements along every axis of the original's tensor.
class Slicer {
 public:
  Slicer(const formats::Checkpoint& checkpoint, const intake::Shrunk& shrunk)
      : checkpoint_(checkpoint), shrunk_(shrunk) {}

  Result<std::vector<float>> values(const TensorSpec& tensor) const {
    const std::string name = original_name(tensor.name);
    const formats::TensorRecord* record = find(name);
    if (record == nullptr) return not_found("tensor " + name + " is not in the checkpoint, so nothing can be sliced");
    if (!record->dtype || !tensor::dtype_info(*record->dtype).is_float) {
      return unsupported("tensor " + name + " is stored as " + record->stored_type +
                         "; slices are taken of plain floating point tensors alone");
    }
    bool fits = record->shape.size() == tensor.shape.size();
    for (size_t i = 0; fits && i < tensor.shape.size(); ++i) fits = record->shape[i] >= tensor.shape[i];
    if (!fits) {
      return invalid_data("tensor " + name + ": " + formats::shape_text(record->shape) + " has no slice of " +
                          formats::shape_text(tensor.shape));
    }
    const auto bytes = FL_TRY(checkpoint_.bytes(*record));
    std::vector<float> out(static_cast<size_t>(tensor.elements()));
    const int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    const int64_t size = tensor::dtype_info(*record->dtype).block_bytes;
    for (int64_t row = 0; row * columns < tensor.elements(); ++row) {
      const auto from = static_cast<size_t>(source_offset(*record, tensor.shape, row) * size);
      FL_TRY(tensor::decode_to_f32(
          *record->dtype, bytes.subspan(from),
          std::span(out).subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns))));
    }
    return out;
  }

 private:
  // "model.layers.1.w" is of the layer that stands behind the twin's layer 1.
  std::string original_name(const std::string& name) const {
    const std::string layer = intake::layer_of(name);
    const auto it = shrunk_.layers.find(layer);
    return it == shrunk_.layers.end() ? name : it->second + name.substr(layer.size());
  }

  // Under its name, or the only one that ends in it: files of wrapped models put words in front.
  const formats::TensorRecord* find(const std::string& name) const {
    if (const auto* record = checkpoint_.find(name)) return record;
    const std::string end = "." + (name.starts_with("model.") ? name.substr(6) : name);
    const formats::TensorRecord* found = nullptr;
    for (const auto& [other, record] : checkpoint_.tensors()) {
      if (!other.ends_with(end)) continue;
      if (found != nullptr) return nullptr;
      found = &record;
    }
    return found;
  }

  static int64_t source_offset(const formats::TensorRecord& record, const std::vector<int64_t>& shape, int64_t row) {
    int64_t offset = 0, stride = record.shape.empty() ? 1 : record.shape.back();
    for (size_t axis = shape.size() < 2 ? 0 : shape.size() - 1; axis-- > 0;) {
      offset += row % shape[axis] * stride;
      row /= shape[axis];
      stride *= record.shape[axis];
    }
    return offset;
  }

  const formats::Checkpoint& checkpoint_;
  const intake::Shrunk& shrunk_;
};

// The ids that begin, end and pad a text, in the config or beside it.
void set_token(ConfigNode& node, const std::string& key, int64_t vocabulary, int64_t id) {
  for (auto& [name, value] : node.members) {
    if (value.kind == ConfigNode::Kind::kObject) set_token(value, key, vocabulary, id);
    if (name != key) continue;
    bool outside = value.kind == ConfigNode::Kind::kInt && value.integer >= vocabulary;
    for (const ConfigNode& item : value.items) outside = outside || item.integer >= vocabulary;
    if (outside) value = ConfigNode::of_int(id);
  }
}

class TwinMaker {
 public:
  TwinMaker(const std::string& source, const TwinOptions& options) : source_(source), options_(options) {}

  Result<Twin> run(const std::string& directory) {
    files_ = FL_TRY(formats::HfDirectory::scan(source_));
    if (!files_.config) return not_found("no config.json in " + files_.root);
    const std::string text = FL_TRY(read_text_file(*files_.config, size_t{16} << 20));
    const auto config = FL_TRY(intake::parse_config_tree(text).with_context(*files_.config));
    find_tokenizer();
    twin_.shrunk = FL_TRY(intake::shrink_config(config, {.vocabulary = vocabulary_, .intake = options_.intake}));
    twin_.notes.insert(twin_.notes.begin(), twin_.shrunk.notes.begin(), twin_.shrunk.notes.end());
    auto output = FL_TRY(OutputDirectory::create(directory));
    finish_config();
    const std::string config_text = config_json_text(twin_.shrunk.config);
    intake::IntakeOptions unjudged = options_.intake;  // the load below judges
    unjudged.probe_config = false;
    const auto model = FL_TRY(intake::trace_model({.config = config_text}, nullptr, unjudged));
    describe(model.graph);
    FL_TRY(output.write("config.json", config_text));
    FL_TRY(write_weights(model.graph, output));
    FL_TRY(write_texts(output));
    const auto checkpoint = FL_TRY(formats::Checkpoint::open(directory));
    FL_TRY(intake::load_model(checkpoint, options_.intake));  // what was written loads
    twin_.files = output.keep();
    return std::move(twin_);
  }

 private:
  // The model's own, whose ids must all have a row; else a small one.
  void find_tokenizer() {
    vocabulary_ = kSmallVocabulary;
    if (!files_.has_tokenizer()) {
      twin_.notes.emplace_back("the model has no tokenizer here: one of bytes is written");
      return;
    }
    const auto tokenizer = text::load_tokenizer(files_.root);
    if (tokenizer.ok()) {
      own_tokenizer_ = true;
      vocabulary_ = tokenizer->vocab_size();
    } else {
      twin_.notes.push_back("the model's tokenizer is left out, one of bytes is written: " +
                            tokenizer.status().message());
    }
  }

  void finish_config() {
    ConfigNode& config = twin_.shrunk.config;
    width_ = twin_.shrunk.features.logits_width;
    small_tokenizer_ = !own_tokenizer_ && width_ >= kSmallVocabulary;
    if (!own_tokenizer_ && !small_tokenizer_)
      twin_.notes.emplace_back("no tokenizer: the vocabulary is smaller than 256 bytes");
    std::erase_if(config.members, [&](const auto& member) {
      if (member.first == "auto_map") twin_.notes.emplace_back("auto_map is left out: code is not carried along");
      return member.first == "auto_map";
    });
    bool stated = state_type(config);
    for (auto& [key, value] : config.members) stated = (key == "text_config" && state_type(value)) || stated;
    if (!stated)
      config.members.emplace_back("torch_dtype",
                                  ConfigNode::of_string(options_.dtype == DType::kF32 ? "float32" : "bfloat16"));
    set_tokens(config);
  }

  bool state_type(ConfigNode& config) const {
    bool found = false;
    for (auto& [key, value] : config.members) {
      if (key != "dtype" && key != "torch_dtype") continue;
      value = ConfigNode::of_string(options_.dtype == DType::kF32 ? "float32" : "bfloat16");
      found = true;
    }
    return found;
  }

  void set_tokens(ConfigNode& config) const {
    if (!small_tokenizer_) return;
    set_token(config, "bos_token_id", width_, kSmallBos);
    set_token(config, "eos_token_id", width_, kSmallEos);
    set_token(config, "pad_token_id", width_, kSmallPad);
  }

  void describe(const ir::Graph& graph) {
    std::set<std::string> routers, windows, states;
    int64_t longest = 0;
    const auto window = [&](int64_t size, const std::string& what) {
      if (size <= 0) return;
      windows.insert(std::to_string(size) + " " + what);
      longest = std::max(longest, size);
    };
    for (const ops::StateDecl& state : graph.states) {
      const std::string name = intake::without_numbers(state.name);
      states.insert(std::string(ops::state_kind_name(state.kind)) + " (" + name + ")");
      window(state.window, "tokens of " + name);
      if (state.rate > 1) window(state.rate, "tokens a row of " + name);
    }
    for (const ir::Node& node : graph.nodes) {
      const std::string where = intake::without_numbers(node.scope);
      if (node.op == ops::OpKind::kTopK) {
        const tensor::Type& type = graph.value(node.operands[0]).type;
        routers.insert("top " + std::to_string(node.attributes.get_int("k")) + " of " + type.shape.back().to_string() +
                       " (" + where + ")");
      }
      for (const char* name : {"window", "chunk"}) {
        const ops::Attribute* value = node.attributes.find(name);
        const auto* size = value == nullptr ? nullptr : std::get_if<int64_t>(value);
        if (size != nullptr)
          window(*size, std::string(name) + " of " + std::string(ops::op_name(node.op)) + " (" + where + ")");
      }
    }
    twin_.routers.assign(routers.begin(), routers.end());
    twin_.windows.assign(windows.begin(), windows.end());
    twin_.states.assign(states.begin(), states.end());
    twin_.prompt = std::max(kShortPrompt, 2 * longest + 4);
  }

  Status write_weights(const ir::Graph& graph, OutputDirectory& output) {
    const std::vector<TensorSpec> tensors = tensors_of(graph);
    const int64_t experts = num_experts(graph);
    std::optional<formats::Checkpoint> checkpoint;
    if (options_.from_weights) checkpoint.emplace(FL_TRY(formats::Checkpoint::open(source_)));
    std::vector<formats::TensorPlan> plan;
    for (const TensorSpec& tensor : tensors) plan.push_back({tensor.name, options_.dtype, tensor.shape});
    auto writer = FL_TRY(formats::SafetensorsWriter::create(output.path(), std::move(plan)));
    for (const TensorSpec& tensor : tensors) {
      std::vector<float> values = checkpoint ? FL_TRY(Slicer(*checkpoint, twin_.shrunk).values(tensor))
                                             : random_values(tensor, options_.seed, experts);
      for (float& value : values) value = tensor::bf16_to_f32(tensor::f32_to_bf16(value));
      std::vector<std::byte> bytes(values.size() * (options_.dtype == DType::kF32 ? 4 : 2));
      FL_TRY(tensor::encode_from_f32(options_.dtype, values, bytes));
      FL_TRY(writer.append(tensor.name, bytes));
      twin_.num_weights += tensor.elements();
      ++twin_.num_tensors;
    }
    output.add(writer.files());
    FL_TRY(writer.finish());
    return ok_status();
  }

  Status write_texts(OutputDirectory& output) {
    ConfigNode generation{.kind = ConfigNode::Kind::kObject};
    if (files_.generation_config) {
      generation = FL_TRY(intake::parse_config_tree(FL_TRY(read_text_file(*files_.generation_config))));
    } else {
      for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
        const ConfigNode* value = twin_.shrunk.config.find(key);
        if (value != nullptr) generation.members.emplace_back(key, *value);
      }
    }
    set_tokens(generation);
    FL_TRY(output.write("generation_config.json", config_json_text(generation)));
    if (small_tokenizer_) {
      FL_TRY(output.write("tokenizer.json", small_tokenizer_json()));
      return output.write("tokenizer_config.json", small_tokenizer_config());
    }
    return own_tokenizer_ ? output.copy_texts(files_, false) : ok_status();
  }

  const std::string& source_;
  const TwinOptions& options_;
  formats::HfDirectory files_;
  Twin twin_;
  int64_t vocabulary_ = 0, width_ = 0;
  bool own_tokenizer_ = false, small_tokenizer_ = false;
};

}  // namespace

Result<Twin> make_twin(const std::string& source, const std::string& directory, const TwinOptions& options) {
  if (source.ends_with(".gguf")) {
    return invalid_argument(source + " is a GGUF file; 'convert " + source +
                            " -o DIR' first makes the directory wanted");
  }
  std::error_code ignored;
  if (!fs::is_directory(source, ignored) && fs::exists(source, ignored) && fs::path(source).filename() != "config.json")
    return invalid_argument(source + ": a directory or its config.json wanted");
  return TwinMaker(source, options).run(directory);
}

}  // namespace firstlight::adapt
