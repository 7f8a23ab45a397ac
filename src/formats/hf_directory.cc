// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_directory.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "formats/tensor_file.h"

namespace firstlight::formats {

namespace fs = std::filesystem;

namespace {

using Slot = std::optional<std::string> HfDirectory::*;
using ListSlot = std::vector<std::string> HfDirectory::*;

struct NamedSlot {
  std::string_view name;
  Slot slot;
};
constexpr std::array kNamed = {
    NamedSlot{"config.json", &HfDirectory::config},
    NamedSlot{"generation_config.json", &HfDirectory::generation_config},
    NamedSlot{"hf_quant_config.json", &HfDirectory::hf_quant_config},
    NamedSlot{"tokenizer.json", &HfDirectory::tokenizer_json},
    NamedSlot{"tokenizer_config.json", &HfDirectory::tokenizer_config},
    NamedSlot{"special_tokens_map.json", &HfDirectory::special_tokens_map},
    NamedSlot{"added_tokens.json", &HfDirectory::added_tokens},
    NamedSlot{"vocab.json", &HfDirectory::vocab_json},
    NamedSlot{"merges.txt", &HfDirectory::merges_txt},
    NamedSlot{"vocab.txt", &HfDirectory::vocab_txt},
    NamedSlot{"chat_template.jinja", &HfDirectory::chat_template_jinja},
    NamedSlot{"chat_template.json", &HfDirectory::chat_template_json},
    NamedSlot{"preprocessor_config.json", &HfDirectory::preprocessor_config},
    NamedSlot{"processor_config.json", &HfDirectory::processor_config},
};

struct EndingSlot {
  std::string_view ending;
  ListSlot slot;
};
// The first ending that fits decides.
constexpr std::array kEndings = {
    EndingSlot{".safetensors.index.json", &HfDirectory::safetensors_indexes},
    EndingSlot{".safetensors", &HfDirectory::safetensors},
    EndingSlot{".gguf", &HfDirectory::gguf},
    EndingSlot{".tiktoken", &HfDirectory::tiktoken_files},
    EndingSlot{"tiktoken.model", &HfDirectory::tiktoken_files},
    EndingSlot{".model", &HfDirectory::sentencepiece_models},
    EndingSlot{".bin", &HfDirectory::foreign_weights},
    EndingSlot{".pt", &HfDirectory::foreign_weights},
    EndingSlot{".pth", &HfDirectory::foreign_weights},
    EndingSlot{".h5", &HfDirectory::foreign_weights},
    EndingSlot{".msgpack", &HfDirectory::foreign_weights},
    EndingSlot{".onnx", &HfDirectory::foreign_weights},
};

void file_under(HfDirectory& directory, const fs::path& path) {
  const std::string name = path.filename().string();
  for (const NamedSlot& named : kNamed) {
    if (name == named.name) {
      directory.*named.slot = path.string();
      return;
    }
  }
  for (const EndingSlot& entry : kEndings) {
    if (name.ends_with(entry.ending)) {
      (directory.*entry.slot).push_back(path.string());
      return;
    }
  }
}

// Names of what is in `folder`, directories left out, links kept whatever they point to.
Result<std::vector<fs::path>> list_files(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) paths.push_back(entry->path());
  }
  if (error) return not_found(describe_file(folder) + ": " + error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

bool HfDirectory::has_tokenizer() const {
  return tokenizer_json || vocab_txt || (vocab_json && merges_txt) || !sentencepiece_models.empty() ||
         !tiktoken_files.empty();
}

Result<HfDirectory> HfDirectory::scan(const std::string& path) {
  std::error_code error;
  std::string root = path;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) return not_found(describe_file(path) + ": no such file or directory");
    root = fs::path(path).parent_path().string();
    if (root.empty()) root = ".";
  }
  HfDirectory directory;
  directory.root = root;
  for (const fs::path& file : FL_TRY(list_files(root))) file_under(directory, file);
  auto& models = directory.sentencepiece_models;
  std::stable_partition(models.begin(), models.end(),
                        [](const std::string& file) { return fs::path(file).filename() == "tokenizer.model"; });
  const std::string templates = (fs::path(root) / "additional_chat_templates").string();
  if (fs::is_directory(templates, error)) {
    for (const fs::path& file : FL_TRY(list_files(templates))) {
      if (file.extension() == ".jinja") directory.additional_templates.push_back(file.string());
    }
  }
  return directory;
}

}  // namespace firstlight::formats
