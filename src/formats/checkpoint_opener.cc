// SPDX-License-Identifier: Apache-2.0
// Checkpoint::open: from a path to files, from files to one table of tensors. Four ways in (one safetensors file, an
// index with shards, GGUF parts, a ggmf file) and one way to add a file, so that every tensor passes the same checks.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include "formats/ggmf.h"
#include "formats/gguf.h"
#include "formats/hf_directory.h"
#include "formats/overlay.h"
#include "formats/safetensors.h"
#include "formats/tensor_file.h"

namespace firstlight::formats {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{256} << 20;

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

// A clone without git-lfs leaves small text files in place of the weights.
Status check_not_lfs_pointer(std::span<const std::byte> bytes) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kPointer.size()));
  if (text != kPointer) return ok_status();
  return invalid_data("a Git LFS pointer of " + std::to_string(bytes.size()) +
                      " bytes, not the file itself: fetch it with git lfs pull");
}

// Split sets are named PREFIX-00001-of-00003.gguf.
struct SplitName {
  std::string prefix;
  uint32_t part = 0;  // from 1
  uint32_t count = 0;
};

std::optional<SplitName> parse_split_name(const std::string& path) {
  constexpr size_t kSuffix = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kSuffix || !path.ends_with(".gguf")) return std::nullopt;
  const std::string_view suffix = std::string_view(path).substr(path.size() - kSuffix);
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-") return std::nullopt;
  const auto number = [](std::string_view text, uint32_t& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size();
  };
  SplitName name{path.substr(0, path.size() - kSuffix)};
  if (!number(suffix.substr(1, 5), name.part) || !number(suffix.substr(10, 5), name.count)) return std::nullopt;
  return name;
}

std::string split_path(const SplitName& name, uint32_t part) {
  char suffix[40];
  std::snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", part, name.count);
  return name.prefix + suffix;
}

}  // namespace

class CheckpointOpener {
 public:
  explicit CheckpointOpener(const CheckpointOptions& options) : options_(options) {}

  Result<Checkpoint> open(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      FL_TRY(open_directory(path));
    } else if (path.ends_with(kIndexEnding)) {
      FL_TRY(open_index(path));
    } else if (path.ends_with(".gguf")) {
      FL_TRY(open_gguf(path));
    } else if (path.ends_with(".safetensors")) {
      FL_TRY(open_single(path));
    } else {
      FL_TRY(open_by_content(path));
    }
    if (checkpoint_.format_ == CheckpointFormat::kSafetensors) name_as_part_of_whole();
    return std::move(checkpoint_);
  }

  // See overlay().
  Result<Checkpoint> add(Checkpoint base, const std::set<std::string, std::less<>>& hidden, const std::string& extra) {
    checkpoint_ = std::move(base);
    if (checkpoint_.format_ != CheckpointFormat::kSafetensors) return invalid_argument("no checkpoint of safetensors");
    for (const std::string& name : hidden) {
      const auto it = checkpoint_.tensors_.find(name);
      if (it == checkpoint_.tensors_.end()) continue;
      checkpoint_.total_bytes_ -= it->second.size_bytes;
      checkpoint_.tensors_.erase(it);
    }
    FL_TRY(open_single(extra));
    return std::move(checkpoint_);
  }

 private:
  Status open_directory(const std::string& path) {
    const HfDirectory directory = FL_TRY(HfDirectory::scan(path));
    const auto& indexes = directory.safetensors_indexes;
    const auto plain = std::find_if(directory.safetensors.begin(), directory.safetensors.end(),
                                    [](const std::string& file) { return file_name(file) == "model.safetensors"; });
    if (plain != directory.safetensors.end()) {
      if (!indexes.empty()) FL_TRY(check_index_agrees(*plain, indexes));
      return open_single(*plain);
    }
    if (!indexes.empty()) return open_index(FL_TRY(choose_index(path, indexes)));
    if (directory.safetensors.size() == 1) return open_single(directory.safetensors[0]);
    if (directory.safetensors.size() > 1) {
      return not_found(path + ": " + std::to_string(directory.safetensors.size()) +
                       " safetensors files (the first is " + file_name(directory.safetensors[0]) +
                       "), but no model.safetensors and no model.safetensors.index.json to say which of them belong");
    }
    if (!directory.gguf.empty()) return open_gguf(FL_TRY(choose_gguf(path, directory.gguf)));
    std::string message = path + ": no weights: no *.safetensors, no *.safetensors.index.json, no *.gguf";
    if (!directory.foreign_weights.empty()) {
      message += " (" + file_name(directory.foreign_weights[0]) + " is of a format that is not read)";
    }
    return not_found(message);
  }

  // model.safetensors beside an index of other files: two checkpoints, and guessing would be silent.
  static Status check_index_agrees(const std::string& plain, const std::vector<std::string>& indexes) {
    for (const std::string& path : indexes) {
      if (file_name(path) != "model.safetensors.index.json") continue;
      const SafetensorsIndex index = FL_TRY(read_index(path));
      for (const auto& [tensor, file] : index.weight_map) {
        if (file == "model.safetensors") continue;
        return invalid_data(plain + " stands beside an index that names other files (" + quote_name(file) +
                            "): give the path of the file or of the index that is meant");
      }
    }
    return ok_status();
  }

  static Result<std::string> choose_index(const std::string& path, const std::vector<std::string>& indexes) {
    for (const std::string& index : indexes) {
      if (file_name(index) == "model.safetensors.index.json" || indexes.size() == 1) return index;
    }
    return invalid_data(path + ": " + std::to_string(indexes.size()) +
                        " indexes, none is model.safetensors.index.json: " + "give the path of the one that is meant");
  }

  static Result<std::string> choose_gguf(const std::string& path, const std::vector<std::string>& files) {
    if (files.size() == 1) return files[0];
    const auto first = parse_split_name(files[0]);
    const bool is_one_set =
        first && first->count >= files.size() && std::all_of(files.begin(), files.end(), [&](const std::string& file) {
          const auto name = parse_split_name(file);
          return name && name->prefix == first->prefix && name->count == first->count;
        });
    if (is_one_set) return split_path(*first, 1);
    return invalid_data(path + ": " + std::to_string(files.size()) + " GGUF files (" + file_name(files[0]) + ", " +
                        file_name(files[1]) + ", …): give the path of the one that is meant");
  }

  static Result<SafetensorsIndex> read_index(const std::string& path) {
    const std::string text = FL_TRY(read_text_file(path, kMaxIndexBytes));
    FL_TRY(check_not_lfs_pointer(std::as_bytes(std::span(text))).with_context(describe_file(path)));
    return parse_safetensors_index(text).with_context(describe_file(path));
  }

  Status open_by_content(const std::string& path) {
    const FileMap map = FL_TRY(FileMap::open(path));
    const auto bytes = map.bytes();
    const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16));
    if (head.starts_with("GGUF")) return open_gguf(path);
    if (head.starts_with("fmgg")) return open_ggmf(path);
    if (head.size() > 8 && head[8] == '{') return open_single(path);
    return invalid_data(describe_file(path) +
                        ": neither a directory, nor safetensors, nor GGUF, nor ggmf: begins with " + quote_name(head));
  }

  Result<FileMap> map_file(const std::string& path) {
    FileMap map = FL_TRY(FileMap::open(path));
    if (map.bytes().empty()) return invalid_data(describe_file(path) + ": the file is empty (0 bytes)");
    FL_TRY(check_not_lfs_pointer(map.bytes()).with_context(describe_file(path)));
    return map;
  }

  std::optional<uint64_t> known_size(const FileMap& map) const {
    return options_.headers_only ? std::nullopt : std::optional<uint64_t>(map.bytes().size());
  }

  Status add_file(const std::string& path, FileMap map, std::vector<TensorRecord> records) {
    for (TensorRecord& record : records) {
      record.file_idx = checkpoint_.files_.size();
      checkpoint_.total_bytes_ += record.size_bytes;
      const auto [at, is_new] = checkpoint_.tensors_.try_emplace(record.name, record);
      if (!is_new) {
        return invalid_data(path + ": tensor " + quote_name(record.name) + " is also in " +
                            checkpoint_.files_[at->second.file_idx]);
      }
    }
    checkpoint_.files_.push_back(path);
    checkpoint_.maps_.push_back(std::move(map));
    return ok_status();
  }

  // A base model saved by itself leaves the "model." out that its tensors have inside a whole one.
  void name_as_part_of_whole() {
    const std::string prefix = "model.";
    const auto first = checkpoint_.tensors_.lower_bound(prefix);
    const bool has_prefix = first != checkpoint_.tensors_.end() && first->first.starts_with(prefix);
    if (has_prefix || !checkpoint_.tensors_.contains("embed_tokens.weight")) return;
    TensorMap renamed;
    for (auto& [name, record] : checkpoint_.tensors_) {
      record.name = prefix + name;
      renamed.emplace(record.name, std::move(record));
    }
    checkpoint_.tensors_ = std::move(renamed);
  }

  Status open_single(const std::string& path) {
    FileMap map = FL_TRY(map_file(path));
    SafetensorsHeader header =
        FL_TRY(parse_safetensors_header(map.bytes(), known_size(map)).with_context(describe_file(path)));
    checkpoint_.metadata_.merge(header.metadata);
    return add_file(path, std::move(map), std::move(header.tensors));
  }

  Status open_ggmf(const std::string& path) {
    checkpoint_.format_ = CheckpointFormat::kGgmf;
    FileMap map = FL_TRY(map_file(path));
    GgmfFile file = FL_TRY(parse_ggmf(map.bytes()).with_context(describe_file(path)));
    checkpoint_.metadata_ = {{"num_vocabulary", std::to_string(file.num_vocabulary)},
                             {"width", std::to_string(file.width)},
                             {"num_layers", std::to_string(file.num_layers)}};
    return add_file(path, std::move(map), std::move(file.tensors));
  }

  Status open_index(const std::string& path) {
    const SafetensorsIndex index = FL_TRY(read_index(path));
    std::map<std::string, std::vector<std::string>> shards;  // file to the tensors promised in it
    for (const auto& [tensor, file] : index.weight_map) shards[file].push_back(tensor);
    const fs::path folder = fs::path(path).parent_path();
    FL_TRY(check_shards_exist(path, folder, shards));
    for (const auto& [file, tensors] : shards) FL_TRY(open_single((folder / file).string()));
    FL_TRY(check_promises(path, index));
    if (index.total_size && *index.total_size != checkpoint_.total_bytes_) {
      checkpoint_.warnings_.push_back(path + ": metadata.total_size is " + std::to_string(*index.total_size) +
                                      ", the tensors have " + std::to_string(checkpoint_.total_bytes_) + " bytes");
    }
    return ok_status();
  }

  // All of them before the first is read: the answer "download more" should not take an hour.
  static Status check_shards_exist(const std::string& path, const fs::path& folder,
                                   const std::map<std::string, std::vector<std::string>>& shards) {
    std::string missing;
    size_t num_missing = 0;
    for (const auto& [file, tensors] : shards) {
      std::error_code error;
      const fs::path shard = folder / file;
      if (fs::exists(shard, error)) continue;
      if (++num_missing == 1) {
        missing = "missing shard " + describe_file(shard.string()) + ", in which the index promises " +
                  std::to_string(tensors.size()) + " tensors (the first is " + quote_name(tensors[0]) + ")";
      }
    }
    if (num_missing == 0) return ok_status();
    if (num_missing > 1) {
      missing += "; " + std::to_string(num_missing) + " of " + std::to_string(shards.size()) + " shards are missing";
    }
    return not_found(path + ": " + missing);
  }

  // What the shards hold against what the index says.
  Status check_promises(const std::string& path, const SafetensorsIndex& index) const {
    for (const auto& [tensor, file] : index.weight_map) {
      const TensorRecord* record = checkpoint_.find(tensor);
      if (record == nullptr) {
        return invalid_data(path + ": missing tensor: shard " + quote_name(file) + " is there, but does not hold " +
                            quote_name(tensor) + ", which the index promises in it");
      }
      const std::string found = file_name(checkpoint_.files_[record->file_idx]);
      if (found != file) {
        return invalid_data(path + ": stale index: tensor " + quote_name(tensor) + " is in shard " + quote_name(found) +
                            ", the index says " + quote_name(file));
      }
    }
    for (const auto& [name, record] : checkpoint_.tensors_) {
      if (index.weight_map.contains(name)) continue;
      return invalid_data(path + ": stale index: shard " + quote_name(file_name(checkpoint_.files_[record.file_idx])) +
                          " holds tensor " + quote_name(name) + ", which the index does not list");
    }
    return ok_status();
  }

  Status open_gguf(const std::string& path) {
    checkpoint_.format_ = CheckpointFormat::kGguf;
    FL_TRY(add_gguf(path));
    const GgufFile& first = *checkpoint_.gguf_;
    if (!first.has("split.count")) return ok_status();
    const int64_t count = FL_TRY(first.get_integer("split.count").with_context(path));
    const int64_t number = FL_TRY(first.get_integer("split.no").with_context(path));
    if (count <= 1) return ok_status();
    const auto name = parse_split_name(path);
    if (!name || name->count != count) {
      return invalid_data(path + ": metadata says part " + std::to_string(number + 1) + " of " + std::to_string(count) +
                          ", so a name ending in " + file_name(split_path({"", 0, static_cast<uint32_t>(count)}, 1)) +
                          " is wanted to find the others");
    }
    if (number != 0 || name->part != 1) {
      return invalid_data(path + ": part " + std::to_string(number + 1) +
                          " of a split set: give the path of the first, " + split_path(*name, 1));
    }
    return open_parts(*name);
  }

  Status open_parts(const SplitName& name) {
    for (uint32_t part = 2; part <= name.count; ++part) {
      const std::string path = split_path(name, part);
      std::error_code error;
      if (!fs::exists(path, error)) {
        return not_found("missing part " + std::to_string(part) + " of " + std::to_string(name.count) + ": " +
                         describe_file(path));
      }
      FL_TRY(add_gguf(path, part - 1));
    }
    const auto total = checkpoint_.gguf_->get_integer("split.tensors.count");
    if (total.ok() && *total != static_cast<int64_t>(checkpoint_.tensors_.size())) {
      return invalid_data(split_path(name, 1) + ": split.tensors.count is " + std::to_string(*total) +
                          ", the parts hold " + std::to_string(checkpoint_.tensors_.size()) + " tensors");
    }
    return ok_status();
  }

  // `number`: the split.no wanted of a further part.
  Status add_gguf(const std::string& path, int64_t number = 0) {
    FileMap map = FL_TRY(map_file(path));
    GgufFile file = FL_TRY(GgufFile::parse(map.bytes(), known_size(map)).with_context(describe_file(path)));
    if (number > 0) {
      const int64_t found = FL_TRY(file.get_integer("split.no").with_context(path));
      if (found != number) {
        return invalid_data(path + ": split.no is " + std::to_string(found) + ", its name wants " +
                            std::to_string(number));
      }
    }
    std::vector<TensorRecord> records = file.tensors();
    if (checkpoint_.gguf_ == nullptr) checkpoint_.gguf_ = std::make_unique<GgufFile>(std::move(file));
    return add_file(path, std::move(map), std::move(records));
  }

  CheckpointOptions options_;
  Checkpoint checkpoint_;
};

Result<Checkpoint> Checkpoint::open(const std::string& path, const CheckpointOptions& options) {
  return CheckpointOpener(options).open(path);
}

Result<Checkpoint> overlay(Checkpoint base, const std::set<std::string, std::less<>>& hidden,
                           const std::string& extra) {
  return CheckpointOpener({}).add(std::move(base), hidden, extra);
}

}  // namespace firstlight::formats
