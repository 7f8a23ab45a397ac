// SPDX-License-Identifier: Apache-2.0
// Thousands of small damages to valid files of each kind, the same ones on every run. A reader may accept a damaged
// file or refuse it; it may not crash, and what it accepts must be consistent: every tensor inside the file, every
// string inside the bytes.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "formats/config.h"
#include "formats/ggmf.h"
#include "formats/gguf.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/test/scratch.h"

namespace firstlight::formats {
namespace {

// Returns whether the reader accepted the file.
using Reader = std::function<bool(const std::string&)>;

void expect_inside(const std::vector<TensorRecord>& tensors, const std::string& file) {
  for (const TensorRecord& record : tensors) {
    ASSERT_LE(record.offset, file.size());
    ASSERT_LE(record.size_bytes, file.size() - record.offset);
    if (record.dtype) {
      const tensor::DTypeInfo& info = tensor::dtype_info(*record.dtype);
      ASSERT_EQ(static_cast<uint64_t>(record.num_elements() / info.block_elements * info.block_bytes),
                record.size_bytes);
    }
  }
}

void expect_inside(const GgufValue& value, const std::string& file) {
  const auto is_inside = [&](const void* at, size_t size) {
    const char* begin = static_cast<const char*>(at);
    return size == 0 || (begin >= file.data() && begin + size <= file.data() + file.size());
  };
  ASSERT_TRUE(is_inside(value.raw.data(), value.raw.size()));
  for (const std::string_view text : value.strings) ASSERT_TRUE(is_inside(text.data(), text.size()));
  for (const GgufValue& child : value.children) expect_inside(child, file);
  for (uint64_t i = 0; i < std::min<uint64_t>(value.count, 3); ++i) {
    (void)value.integer_at(i);
    (void)value.number_at(i);
    (void)value.bool_at(i);
  }
}

bool read_gguf(const std::string& file) {
  const auto parsed = GgufFile::parse(as_bytes(file));
  if (!parsed.ok()) return false;
  expect_inside(parsed->tensors(), file);
  for (const GgufEntry& entry : parsed->entries()) expect_inside(entry.value, file);
  return true;
}

bool read_ggmf(const std::string& file) {
  const auto parsed = parse_ggmf(as_bytes(file));
  if (parsed.ok()) expect_inside(parsed->tensors, file);
  return parsed.ok();
}

bool read_safetensors(const std::string& file) {
  const auto header = parse_safetensors_header(as_bytes(file), file.size());
  if (header.ok()) expect_inside(header->tensors, file);
  return header.ok();
}

bool read_index(const std::string& file) { return parse_safetensors_index(file).ok(); }
bool read_config_text(const std::string& file) { return parse_config(file).ok(); }

bool read_npy_bytes(const std::string& file) {
  const auto array = parse_npy(as_bytes(file));
  if (array.ok()) {
    EXPECT_LE(array->data.size(), file.size());
  }
  return array.ok();
}

// A copy in exactly as many bytes, so that a sanitizer sees a read past the end.
std::string exact(std::string file) {
  file.shrink_to_fit();
  return file;
}

void truncate_everywhere(const std::string& file, const Reader& read, size_t max_lengths) {
  const size_t step = std::max<size_t>(1, file.size() / max_lengths);
  for (size_t length = 0; length < file.size(); length += step) read(exact(file.substr(0, length)));
}

// Overwrites a few bytes, numbers and ranges within the first `reach` bytes, where the structure is.
void damage_often(const std::string& file, size_t reach, const Reader& read, int times) {
  std::mt19937 random(20261130);
  const uint64_t nasty[] = {0,
                            1,
                            0x7f,
                            0xff,
                            0xffff,
                            0x7fffffff,
                            0xffffffff,
                            uint64_t{1} << 32,
                            uint64_t{1} << 62,
                            uint64_t{1} << 63,
                            ~uint64_t{0}};
  reach = std::min(reach, file.size());
  int num_refused = 0;
  for (int i = 0; i < times; ++i) {
    std::string damaged = file;
    const size_t at = random() % reach;
    switch (random() % 5) {
      case 0:
        damaged[at] = static_cast<char>(random());
        break;
      case 1:
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
        break;
      case 2:
        damaged.erase(at, 1 + random() % 8);
        break;
      case 3:
        damaged.insert(at, std::string(1 + random() % 8, static_cast<char>(random())));
        break;
      case 4: {
        const size_t width = std::min<size_t>(std::size_t{1} << random() % 4, damaged.size() - at);
        std::memcpy(damaged.data() + at, &nasty[random() % std::size(nasty)], width);
        break;
      }
    }
    num_refused += read(exact(std::move(damaged))) ? 0 : 1;
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(num_refused, times / 20);  // the damage did reach the structure
}

void attack(const std::string& file, size_t reach, const Reader& read) {
  ASSERT_TRUE(read(file));
  truncate_everywhere(file, read, 1500);
  damage_often(file, reach, read, 3000);
}

TEST(Mutation, Safetensors) { attack(read_all(test_data("all_dtypes.safetensors")), 1600, read_safetensors); }

TEST(Mutation, Gguf) { attack(read_all(test_data("all_types.gguf")), 1600, read_gguf); }

TEST(Mutation, GgufWithNestedArrays) { attack(read_all(test_data("nested_v2.gguf")), 256, read_gguf); }

TEST(Mutation, Ggmf) { attack(ggmf_text(), 200, read_ggmf); }

TEST(Mutation, Npy) { attack(read_all(test_data("f32_2x3.npy")), 152, read_npy_bytes); }

TEST(Mutation, Index) {
  attack(R"({"metadata":{"total_size":12},"weight_map":{"a.weight":"x-1.safetensors","b":"x-2.safetensors"}})", 1000,
         read_index);
}

TEST(Mutation, Config) {
  attack(R"({"model_type":"llama","eps":1e-05,"limit":[0.0,Infinity],"rope":{"type":"yarn","f":-2},"x":null})", 1000,
         read_config_text);
}

TEST(Mutation, FilesOfTheWild) {
  const std::string folder = std::string(FL_SOURCE_DIR) + "/../shared/data";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs shared data: checkpoints, gguf-vocab, quant-layers";
  const std::string ggmf = read_all(folder + "/checkpoints/tiny-rwkv-5v2-730K/tiny-rwkv-5v2-730K-Q5_0.bin");
  ASSERT_TRUE(read_ggmf(ggmf));
  truncate_everywhere(ggmf, read_ggmf, 50);
  damage_often(ggmf, 1024, read_ggmf, 100);
  const std::string gguf = read_all(folder + "/gguf-vocab/ggml-vocab-bert-bge.gguf");
  ASSERT_TRUE(read_gguf(gguf));
  truncate_everywhere(gguf, read_gguf, 50);
  damage_often(gguf, 1024, read_gguf, 100);
  for (const char* name : {"/checkpoints/stories260K/hf/model.safetensors", "/quant-layers/awq/linear.safetensors"}) {
    const std::string file = read_all(folder + name);
    ASSERT_TRUE(read_safetensors(file)) << name;
    truncate_everywhere(file, read_safetensors, 100);
    damage_often(file, 4096, read_safetensors, 200);
  }
}

}  // namespace
}  // namespace firstlight::formats
