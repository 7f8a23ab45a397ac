// SPDX-License-Identifier: Apache-2.0
#include "tensor/codec_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tensor/codec.h"

namespace firstlight::tensor {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct GoldenBlock {
  DType dtype;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// Made by tools/golden/formats_codec_blocks.py with the gguf package.
std::vector<GoldenBlock> read_goldens() {
  std::ifstream file(std::string(FL_SOURCE_DIR) + "/src/tensor/test/data/codec_blocks.txt");
  std::vector<GoldenBlock> goldens;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, block, floats;
    fields >> name >> block >> floats;
    const std::vector<std::byte> raw = from_hex(floats);
    GoldenBlock golden{dtype_from_name(name).value(), from_hex(block), std::vector<float>(raw.size() / 4)};
    std::memcpy(golden.values.data(), raw.data(), raw.size());
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

TEST(CodecBlocks, EveryFormatEqualsThePackageThatDefinesIt) {
  std::map<DType, int> seen;
  for (const GoldenBlock& golden : read_goldens()) {
    ++seen[golden.dtype];
    std::vector<float> out(golden.values.size());
    ASSERT_TRUE(decode_to_f32(golden.dtype, golden.bytes, out).ok());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], golden.values[i]) << dtype_name(golden.dtype) << " element " << i;
    }
  }
  for (auto type = DType::kQ8_0; type <= DType::kMXFP4; type = static_cast<DType>(static_cast<int>(type) + 1)) {
    EXPECT_GE(seen[type], 4) << dtype_name(type);
  }
}

TEST(CodecBlocks, ManyBlocksAtAnOddAddressDecodeAsSingleOnes) {
  std::map<DType, std::vector<GoldenBlock>> by_type;
  for (GoldenBlock& golden : read_goldens()) by_type[golden.dtype].push_back(std::move(golden));
  for (const auto& [type, blocks] : by_type) {
    std::vector<std::byte> bytes(1);
    std::vector<float> wanted;
    for (const GoldenBlock& block : blocks) {
      bytes.insert(bytes.end(), block.bytes.begin(), block.bytes.end());
      wanted.insert(wanted.end(), block.values.begin(), block.values.end());
    }
    std::vector<float> out(wanted.size());
    ASSERT_TRUE(decode_to_f32(type, std::span(bytes).subspan(1), out).ok());
    EXPECT_EQ(out, wanted) << dtype_name(type);
  }
}

TEST(CodecBlocks, AnMxfp4ScaleOf255IsNan) {
  std::vector<std::byte> block(17, std::byte{0x11});
  block[0] = std::byte{255};
  std::vector<float> out(32);
  ASSERT_TRUE(decode_to_f32(DType::kMXFP4, block, out).ok());
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace firstlight::tensor
