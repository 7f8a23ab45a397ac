// SPDX-License-Identifier: Apache-2.0
// A folder for one test, removed with it, and builders of small files to put there. Include <gtest/gtest.h> first.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace firstlight::formats {

class Scratch {
 public:
  Scratch() {
    static std::atomic<int> counter{0};
    folder_ = std::filesystem::temp_directory_path() /
              ("firstlight-formats-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(folder_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name = "") const {
    return name.empty() ? folder_.string() : (folder_ / name).string();
  }
  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return path(name);
  }
  std::string link(const std::string& name, const std::string& target) const {
    std::filesystem::create_symlink(target, folder_ / name);
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string test_data(const std::string& name) {
  return std::string(FL_SOURCE_DIR) + "/src/formats/test/data/" + name;
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// A safetensors file of this header and data.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

// One float32 vector per name, two elements each, element values i and i + 0.5 for tensor i.
inline std::string safetensors_of(std::initializer_list<std::string> names) {
  std::string header = "{";
  std::string data;
  for (const std::string& name : names) {
    const float values[2] = {static_cast<float>(data.size() / 8), static_cast<float>(data.size() / 8) + 0.5f};
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + 8) + "]}";
    data.append(reinterpret_cast<const char*>(values), 8);
  }
  return safetensors_file(header + "}", data);
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// A ggmf file of three small tensors: "a" f32 [2, 3] counting from 0, "b" f16 [1, 2, 2], "c" Q5_0 [2, 32].
inline std::string ggmf_text() {
  std::string out;
  const auto put = [&out](std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) out.append(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  put({0x67676d66, 101, 7, 5, 3, 7});
  put({2, 1, 0, 3, 2});
  out += 'a';
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  put({3, 1, 1, 2, 2, 1});
  out += 'b' + std::string(8, 'x');
  put({2, 1, 7, 32, 2});
  return out + 'c' + std::string(2 * 22, 'y');
}

}  // namespace firstlight::formats
