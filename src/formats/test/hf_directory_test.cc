// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_directory.h"

#include <gtest/gtest.h>

#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

TEST(HfDirectory, FilesGoWhereTheyBelong) {
  const Scratch scratch;
  for (const char* name : {"config.json",
                           "generation_config.json",
                           "tokenizer.json",
                           "tokenizer_config.json",
                           "merges.txt",
                           "vocab.json",
                           "sp.model",
                           "tokenizer.model",
                           "qwen.tiktoken",
                           "tiktoken.model",
                           "chat_template.jinja",
                           "model.safetensors",
                           "model.safetensors.index.json",
                           "b.gguf",
                           "a.gguf",
                           "pytorch_model.bin",
                           "README.md",
                           "additional_chat_templates/tool_use.jinja",
                           "additional_chat_templates/notes.txt",
                           "sub/config.json"}) {
    scratch.write(name, "x");
  }
  const auto directory = HfDirectory::scan(scratch.path());
  ASSERT_TRUE(directory.ok()) << directory.status().message();
  EXPECT_EQ(directory->config, scratch.path("config.json"));
  EXPECT_EQ(directory->generation_config, scratch.path("generation_config.json"));
  EXPECT_EQ(directory->special_tokens_map, std::nullopt);
  EXPECT_EQ(directory->sentencepiece_models,
            (std::vector<std::string>{scratch.path("tokenizer.model"), scratch.path("sp.model")}));
  EXPECT_EQ(directory->tiktoken_files.size(), 2u);
  EXPECT_EQ(directory->gguf, (std::vector<std::string>{scratch.path("a.gguf"), scratch.path("b.gguf")}));
  EXPECT_EQ(directory->safetensors, std::vector<std::string>{scratch.path("model.safetensors")});
  EXPECT_EQ(directory->safetensors_indexes, std::vector<std::string>{scratch.path("model.safetensors.index.json")});
  EXPECT_EQ(directory->foreign_weights, std::vector<std::string>{scratch.path("pytorch_model.bin")});
  EXPECT_EQ(directory->additional_templates,
            std::vector<std::string>{scratch.path("additional_chat_templates/tool_use.jinja")});
  EXPECT_TRUE(directory->has_tokenizer());
}

TEST(HfDirectory, AFileStandsForItsFolder) {
  const Scratch scratch;
  scratch.write("config.json", "{}");
  const std::string file = scratch.write("m.gguf", "x");
  EXPECT_EQ(HfDirectory::scan(file)->config, scratch.path("config.json"));
  EXPECT_FALSE(HfDirectory::scan(file)->has_tokenizer());
}

TEST(HfDirectory, DanglingLinksAreListed) {
  const Scratch scratch;
  scratch.link("config.json", "blobs/none");
  EXPECT_EQ(HfDirectory::scan(scratch.path())->config, scratch.path("config.json"));
}

TEST(HfDirectory, WhatIsNotThereIsNotFound) {
  const Scratch scratch;
  EXPECT_EQ(HfDirectory::scan(scratch.path("absent")).code(), StatusCode::kNotFound);
  const auto dangling = HfDirectory::scan(scratch.link("link", "nowhere"));
  EXPECT_EQ(dangling.code(), StatusCode::kNotFound);
  EXPECT_HAS(dangling.status().message(), "nowhere");
}

}  // namespace
}  // namespace firstlight::formats
