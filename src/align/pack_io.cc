// SPDX-License-Identifier: Apache-2.0
// Packs on disk. Everything of a prompt that varies in size lies in one flat tensor per kind, in the order of the taps;
// the manifest says how to cut it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "align/pack.h"
#include "align/sketch.h"
#include "base/file_map.h"
#include "base/json.h"
#include "formats/safetensors.h"

namespace firstlight::align {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "firstlight.golden_pack";
constexpr int kVersion = 1;
constexpr int kRankVersion = 2;  // what one rank has: no reader of wholes may take it for one

constexpr std::array<const char*, 4> kSplits = {"whole", "features", "sum", "rows"};

Json tap_json(const TapInfo& tap, bool of_rank) {
  Json json = {{"name", tap.name}, {"layer", tap.layer}, {"op", tap.op}, {"width", tap.width}};
  if (tap.rate != 1) json["rate"] = tap.rate;
  if (tap.is_integer) json["integer"] = true;
  if (tap.is_layer_output) json["layer_output"] = true;
  if (tap.is_module_output) json["module_output"] = true;
  if (tap.noise > 0) json["noise"] = tap.noise;
  if (!of_rank) return json;
  const TapPart& part = tap.part;
  json["part"] = {{"split", kSplits[static_cast<size_t>(part.split)]},
                  {"part", part.part},
                  {"parts", part.parts},
                  {"place", part.place}};
  if (part.split == Split::kFeatures) {
    json["part"]["first"] = part.first_feature;
    json["part"]["whole"] = part.whole_width;
  }
  return json;
}

Json manifest_json(const Pack& pack) {
  Json prompts = Json::array(), taps = Json::array();
  for (const PromptRecord& prompt : pack.prompts) {
    prompts.push_back({{"tokens", prompt.tokens}, {"hash", tokens_hash(prompt.tokens)}, {"greedy", prompt.greedy}});
  }
  for (const TapInfo& tap : pack.taps) taps.push_back(tap_json(tap, pack.ranks > 1));
  Json json = {{"format", kFormat},
               {"version", pack.ranks > 1 ? kRankVersion : kVersion},
               {"origin", pack.origin},
               {"model", pack.model},
               {"architecture", pack.architecture},
               {"parameters", pack.parameters},
               {"weights_hash", pack.weights_hash},
               {"spec", pack.spec},
               {"spec_hash", pack.spec_hash},
               {"layout",
                {{"seed", pack.layout.seed},
                 {"projections", pack.layout.projections},
                 {"sampled_rows", pack.layout.sampled_rows}}},
               {"prompts", std::move(prompts)},
               {"taps", std::move(taps)}};
  if (pack.ranks > 1) json["rank"] = {{"index", pack.rank}, {"count", pack.ranks}};
  return json;
}

// One prompt as the tensors it is stored in.
struct Flat {
  std::vector<float> statistics, norms, sketch, rows, top_logits, log_sum_exp;
  std::vector<int32_t> histogram, num_kept, row_ids, top_ids, num_part_rows, part_rows;

  // Calls visit(name, vector) for each.
  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("statistics", self.statistics);
    visit("histogram", self.histogram);
    visit("norms", self.norms);
    visit("sketch", self.sketch);
    visit("num_kept", self.num_kept);
    visit("row_ids", self.row_ids);
    visit("rows", self.rows);
    visit("top_ids", self.top_ids);
    visit("top_logits", self.top_logits);
    visit("log_sum_exp", self.log_sum_exp);
    visit("num_part_rows", self.num_part_rows);
    visit("part_rows", self.part_rows);
  }
};

void append(auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }

Flat flatten(const Pack& pack, const PromptRecord& prompt) {
  Flat flat;
  for (size_t t = 0; t < pack.taps.size(); ++t) {
    const TapRecord& tap = prompt.taps[t];
    if (pack.taps[t].part.split == Split::kRows) {
      flat.num_part_rows.push_back(static_cast<int32_t>(tap.part_rows.size()));
      append(flat.part_rows, tap.part_rows);
    }
    const Statistics& s = tap.statistics;
    append(flat.statistics, std::array{s.min, s.max, s.mean, s.rms, s.absmax, s.count, s.not_finite, s.zeros});
    append(flat.histogram, tap.histogram);
    append(flat.norms, tap.norms);
    append(flat.sketch, tap.sketch);
    flat.num_kept.push_back(static_cast<int32_t>(tap.row_ids.size()));
    append(flat.row_ids, tap.row_ids);
    append(flat.rows, tap.rows);
  }
  flat.top_ids = prompt.top_ids;
  flat.top_logits = prompt.top_logits;
  flat.log_sum_exp = prompt.log_sum_exp;
  return flat;
}

template <typename T>
tensor::DType dtype_of(const std::vector<T>&) {
  return std::is_same_v<T, float> ? tensor::DType::kF32 : tensor::DType::kI32;
}

std::string tensor_name(size_t prompt, const char* part) { return "p" + std::to_string(prompt) + "." + part; }

// The next `count` elements of a flat tensor.
template <typename T>
class Cursor {
 public:
  explicit Cursor(const std::vector<T>& from) : from_(from) {}
  Status take(size_t count, std::vector<T>& to) {
    if (count > from_.size() - at_) return invalid_data("fewer numbers than the manifest asks for");
    to.assign(from_.begin() + static_cast<std::ptrdiff_t>(at_),
              from_.begin() + static_cast<std::ptrdiff_t>(at_ + count));
    at_ += count;
    return ok_status();
  }
  bool at_end() const { return at_ == from_.size(); }

 private:
  const std::vector<T>& from_;
  size_t at_ = 0;
};

// Numbers that a recording can not have.
Status check_tap(const TapRecord& tap, int64_t whole) {
  const Statistics& s = tap.statistics;
  for (const float count : {s.count, s.not_finite, s.zeros}) {
    if (!std::isfinite(count) || count < 0) return invalid_data("statistics that are no counts");
  }
  if (std::any_of(tap.histogram.begin(), tap.histogram.end(), [](int32_t n) { return n < 0; }))
    return invalid_data("a histogram of negative counts");
  if (!std::all_of(tap.norms.begin(), tap.norms.end(), [](float norm) { return std::isfinite(norm) && norm >= 0; }))
    return invalid_data("a norm that is none");
  if (!std::all_of(tap.sketch.begin(), tap.sketch.end(), [](float one) { return std::isfinite(one); }))
    return invalid_data("a sketch that is not finite");
  for (size_t i = 0; i < tap.row_ids.size(); ++i) {
    if (tap.row_ids[i] < (i == 0 ? 0 : tap.row_ids[i - 1] + 1) || tap.row_ids[i] >= whole)
      return invalid_data("row " + std::to_string(tap.row_ids[i]) + " kept, ascending ones below " +
                          std::to_string(whole) + " wanted");
  }
  if (s.not_finite == 0 && !std::all_of(tap.rows.begin(), tap.rows.end(), is_plain))
    return invalid_data("a row that is not finite, where the statistics know of none");
  return ok_status();
}

Status check_top(const PromptRecord& prompt) {
  const size_t top = prompt.log_sum_exp.size() * static_cast<size_t>(kTopLogits);
  if (prompt.top_ids.size() != top || prompt.top_logits.size() != top)
    return invalid_data("top logits that do not belong together");
  if (std::any_of(prompt.top_ids.begin(), prompt.top_ids.end(), [](int32_t id) { return id < -1; }))
    return invalid_data("top logits of ids below -1");
  return ok_status();
}

// Which rows of the whole a part has: ascending, each within it.
Status read_part_rows(const TapInfo& info, Cursor<int32_t>& counts, Cursor<int32_t>& rows, TapRecord& tap) {
  std::vector<int32_t> count;
  FL_TRY(counts.take(1, count));
  if (count[0] < 0 || count[0] > tap.num_rows)
    return invalid_data(info.name + ": a part with more rows than the whole");
  FL_TRY(rows.take(static_cast<size_t>(count[0]), tap.part_rows));
  int64_t before = -1;
  for (const int32_t row : tap.part_rows) {
    if (row <= before || row >= tap.num_rows) return invalid_data(info.name + ": part_rows that are no rows in order");
    before = row;
  }
  tap.num_rows = count[0];
  return ok_status();
}

Status unflatten(const Flat& flat, const Pack& pack, PromptRecord& prompt) {
  Cursor<float> statistics(flat.statistics), norms(flat.norms), sketch(flat.sketch), rows(flat.rows);
  Cursor<int32_t> histogram(flat.histogram), num_kept(flat.num_kept), row_ids(flat.row_ids);
  Cursor<int32_t> num_part_rows(flat.num_part_rows), part_rows(flat.part_rows);
  for (const TapInfo& info : pack.taps) {
    TapRecord& tap = prompt.taps.emplace_back();
    tap.num_rows = whole_rows(info, prompt);
    if (info.part.split == Split::kRows) FL_TRY(read_part_rows(info, num_part_rows, part_rows, tap));
    std::vector<float> s;
    std::vector<int32_t> h, kept;
    FL_TRY(statistics.take(kNumStatistics, s));
    FL_TRY(histogram.take(kHistogramBins, h));
    FL_TRY(num_kept.take(1, kept));
    tap.statistics = {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]};
    std::copy(h.begin(), h.end(), tap.histogram.begin());
    const size_t sampled = sampled_rows(pack.layout, info, prompt, tap).size();
    FL_TRY(norms.take(sampled, tap.norms));
    FL_TRY(sketch.take(sampled * static_cast<size_t>(pack.layout.projections), tap.sketch));
    if (kept[0] < 0 || kept[0] > tap.num_rows) return invalid_data(info.name + ": more rows kept than there are");
    FL_TRY(row_ids.take(static_cast<size_t>(kept[0]), tap.row_ids));
    FL_TRY(rows.take(tap.row_ids.size() * static_cast<size_t>(info.width), tap.rows));
    FL_TRY(check_tap(tap, whole_rows(info, prompt)).with_context(info.name));
  }
  if (!rows.at_end() || !sketch.at_end() || !statistics.at_end())
    return invalid_data("more numbers than the manifest asks for");
  prompt.top_ids = flat.top_ids;
  prompt.top_logits = flat.top_logits;
  prompt.log_sum_exp = flat.log_sum_exp;
  return check_top(prompt);
}

template <typename T>
Status read_flat(const formats::Checkpoint& file, const std::string& name, std::vector<T>& to) {
  const formats::TensorRecord* record = file.find(name);
  if (record == nullptr) return ok_status();  // empty ones are not written
  if (record->dtype != dtype_of(to)) return invalid_data("tensor " + name + " is " + record->stored_type);
  const auto bytes = FL_TRY(file.bytes(*record));
  to.resize(bytes.size() / sizeof(T));
  std::memcpy(to.data(), bytes.data(), bytes.size());
  return ok_status();
}

// Names are printed.
bool steers_terminal(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; });
}

// What a field holds, of the type that the default has. Errors: kInvalidData where it is another.
template <typename T>
Result<T> field(const Json& object, const char* key, const T& otherwise) {
  if (!object.is_object()) return invalid_data("an object wanted around '" + std::string(key) + "'");
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  bool fits = false;
  if constexpr (std::is_same_v<T, bool>) {
    fits = found->is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    fits = found->is_number_integer();
  } else if constexpr (std::is_floating_point_v<T>) {
    fits = found->is_number();
  } else {
    fits = found->is_string() && !steers_terminal(found->template get_ref<const std::string&>());
  }
  if (!fits) return invalid_data("'" + std::string(key) + "' holds " + dump_json(*found));
  return found->template get<T>();
}

Result<std::vector<int32_t>> read_ids(const Json& object, const char* key) {
  std::vector<int32_t> ids;
  if (!object.is_object() || !object.contains(key)) return ids;
  if (!object[key].is_array()) return invalid_data("'" + std::string(key) + "': a list of ids wanted");
  for (const Json& id : object[key]) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > std::numeric_limits<int32_t>::max())
      return invalid_data("'" + std::string(key) + "' holds " + dump_json(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

constexpr int64_t kMostWidth = int64_t{1} << 32, kMostTaps = 1 << 20, kMostRanks = 1 << 16;

Status read_part(const Json& json, TapInfo& tap) {
  const auto found = json.find("part");
  if (found == json.end()) return invalid_data("'part' is missing");
  const std::string split = FL_TRY(field(*found, "split", std::string()));
  const auto place = std::find(kSplits.begin(), kSplits.end(), split);
  if (place == kSplits.end()) return invalid_data("'split' holds " + split);
  TapPart& part = tap.part;
  part.split = static_cast<Split>(place - kSplits.begin());
  part.part = FL_TRY(field(*found, "part", int64_t{0}));
  part.parts = FL_TRY(field(*found, "parts", int64_t{0}));
  part.place = FL_TRY(field(*found, "place", int64_t{0}));
  part.first_feature = FL_TRY(field(*found, "first", int64_t{0}));
  part.whole_width = FL_TRY(field(*found, "whole", int64_t{0}));
  const bool fits =
      part.split != Split::kFeatures || (part.first_feature >= 0 && part.whole_width <= kMostWidth &&
                                         tap.width <= kMostWidth && part.first_feature <= part.whole_width - tap.width);
  if (part.parts < 1 || part.parts > kMostRanks || part.part < 0 || part.part >= part.parts || !fits)
    return invalid_data("'part' holds " + dump_json(*found));
  return ok_status();
}

Status read_taps(const Json& list, bool of_rank, Pack& pack) {
  if (!list.is_array() || static_cast<int64_t>(list.size()) > kMostTaps) return invalid_data("a list 'taps' wanted");
  for (const Json& json : list) {
    TapInfo tap;
    tap.name = FL_TRY(field(json, "name", std::string()));
    tap.layer = FL_TRY(field(json, "layer", std::string()));
    tap.op = FL_TRY(field(json, "op", std::string()));
    tap.width = FL_TRY(field(json, "width", int64_t{0}));
    tap.rate = FL_TRY(field(json, "rate", int64_t{1}));
    tap.noise = FL_TRY(field(json, "noise", 0.0));
    tap.is_integer = FL_TRY(field(json, "integer", false));
    tap.is_layer_output = FL_TRY(field(json, "layer_output", false));
    tap.is_module_output = FL_TRY(field(json, "module_output", false));
    if (of_rank) FL_TRY(read_part(json, tap).with_context(tap.name));
    if (tap.name.empty() || tap.width < 1 || tap.width > kMostWidth || tap.rate < 1)
      return invalid_data("tap " + dump_json(json));
    pack.taps.push_back(std::move(tap));
  }
  return ok_status();
}

Status read_layout(const Json& json, PackLayout& layout) {
  layout.seed = static_cast<uint64_t>(FL_TRY(field(json, "seed", int64_t{0})));
  layout.projections = FL_TRY(field(json, "projections", int64_t{0}));
  layout.sampled_rows = FL_TRY(field(json, "sampled_rows", int64_t{0}));
  if (layout.projections < 1 || layout.projections > 256 || layout.sampled_rows < 1)
    return invalid_data("'layout' holds " + dump_json(json));
  return ok_status();
}

Status read_manifest(const Json& json, Pack& pack) {
  if (FL_TRY(field(json, "format", std::string())) != kFormat) return invalid_data("not a golden pack");
  const int64_t version = FL_TRY(field(json, "version", int64_t{0}));
  const bool of_rank = version == kRankVersion;
  if (version != kVersion && !of_rank) {
    return invalid_data("version " + std::to_string(version) + ", " + std::to_string(kVersion) + " wanted");
  }
  for (const char* key : {"origin", "layout", "prompts", "taps"}) {
    if (!json.contains(key)) return invalid_data("'" + std::string(key) + "' is missing");
  }
  for (const auto& [key, value] : json["origin"].items()) {
    pack.origin[key] = value.is_string() ? value.get<std::string>() : dump_json(value);
  }
  pack.model = FL_TRY(field(json, "model", std::string()));
  pack.architecture = FL_TRY(field(json, "architecture", std::string()));
  pack.parameters = FL_TRY(field(json, "parameters", int64_t{0}));
  pack.weights_hash = FL_TRY(field(json, "weights_hash", std::string()));
  pack.spec = FL_TRY(field(json, "spec", std::string()));
  pack.spec_hash = FL_TRY(field(json, "spec_hash", std::string()));
  FL_TRY(read_layout(json["layout"], pack.layout));
  if (of_rank) {
    if (!json.contains("rank")) return invalid_data("'rank' is missing");
    pack.rank = FL_TRY(field(json["rank"], "index", int64_t{-1}));
    pack.ranks = FL_TRY(field(json["rank"], "count", int64_t{0}));
    if (pack.ranks < 2 || pack.ranks > kMostRanks || pack.rank < 0 || pack.rank >= pack.ranks)
      return invalid_data("'rank' holds " + dump_json(json["rank"]));
  }
  FL_TRY(read_taps(json["taps"], of_rank, pack));
  if (!json["prompts"].is_array()) return invalid_data("a list 'prompts' wanted");
  for (const Json& prompt : json["prompts"]) {
    PromptRecord& record = pack.prompts.emplace_back();
    record.tokens = FL_TRY(read_ids(prompt, "tokens"));
    record.greedy = FL_TRY(read_ids(prompt, "greedy"));
    if (FL_TRY(field(prompt, "hash", std::string())) != tokens_hash(record.tokens))
      return invalid_data("a prompt's hash is not that of its tokens");
  }
  return ok_status();
}

}  // namespace

Status write_pack(const Pack& pack, const std::string& directory, int64_t limit) {
  std::vector<Flat> flats;
  std::vector<formats::TensorPlan> plans;
  const std::string manifest = dump_json(manifest_json(pack), 1) + "\n";
  auto total = static_cast<int64_t>(manifest.size());
  for (size_t p = 0; p < pack.prompts.size(); ++p) {
    flats.push_back(flatten(pack, pack.prompts[p]));
    Flat::visit(flats.back(), [&](const char* part, const auto& values) {
      if (values.empty()) return;
      plans.push_back({tensor_name(p, part), dtype_of(values), {static_cast<int64_t>(values.size())}});
      total += static_cast<int64_t>(4 * values.size());
    });
  }
  if (limit > 0 && total > limit) {
    return invalid_argument("the pack has " + std::to_string(total) + " bytes, at most " + std::to_string(limit) +
                            " wanted");
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return invalid_argument(directory + ": " + error.message());
  auto writer = FL_TRY(formats::SafetensorsWriter::create(directory, std::move(plans),
                                                          {.stem = "tensors", .metadata = {{"format", kFormat}}}));
  for (size_t p = 0; p < flats.size(); ++p) {
    Status status;
    Flat::visit(flats[p], [&](const char* part, const auto& values) {
      if (status.ok() && !values.empty())
        status = writer.append(tensor_name(p, part), std::as_bytes(std::span(values)));
    });
    FL_TRY(std::move(status));
  }
  FL_TRY(writer.finish());
  return write_file(directory + "/manifest.json", manifest);
}

Result<Pack> parse_manifest(std::string_view text) {
  Pack pack;
  FL_TRY(read_manifest(FL_TRY(parse_json(text)), pack));
  return pack;
}

Result<Pack> read_pack(const std::string& directory) {
  const std::string path = directory + "/manifest.json";
  std::error_code ignored;
  if (fs::is_directory(directory, ignored) && !fs::exists(path, ignored))
    return not_found(directory + " is no golden pack: it has no manifest.json");
  Pack pack = FL_TRY(parse_manifest(FL_TRY(read_text_file(path))).with_context(path));
  const auto file = FL_TRY(formats::Checkpoint::open(directory + "/tensors.safetensors"));
  for (size_t p = 0; p < pack.prompts.size(); ++p) {
    Flat flat;
    Status status;
    Flat::visit(flat, [&](const char* part, auto& values) {
      if (status.ok()) status = read_flat(file, tensor_name(p, part), values);
    });
    FL_TRY(std::move(status).with_context(directory));
    FL_TRY(unflatten(flat, pack, pack.prompts[p]).with_context(directory + ": prompt " + std::to_string(p)));
  }
  return pack;
}

}  // namespace firstlight::align
