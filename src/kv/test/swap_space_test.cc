// SPDX-License-Identifier: Apache-2.0
#include "kv/swap_space.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace firstlight::kv {
namespace {

Result<SwapSlot> put(SwapSpace& space, size_t bytes, int value) {
  return space.put(bytes, [&](std::span<std::byte> content) {
    std::fill(content.begin(), content.end(), static_cast<std::byte>(value));
    return ok_status();
  });
}

bool holds(SwapSpace& space, SwapSlot slot, size_t bytes, int value) {
  bool same = false;
  const Status got = space.get(slot, [&](std::span<const std::byte> content) {
    same = content.size() == bytes &&
           std::all_of(content.begin(), content.end(), [&](std::byte b) { return b == static_cast<std::byte>(value); });
    return ok_status();
  });
  return got.ok() && same;
}

TEST(SwapSpace, FillsMemoryThenTheFile) {
  const auto space = SwapSpace::create({.host_bytes = 100, .disk_bytes = 200}).value();
  const SwapSlot a = put(*space, 64, 1).value();
  const SwapSlot b = put(*space, 64, 2).value();
  const SwapSlot c = put(*space, 128, 3).value();
  EXPECT_EQ(space->host_used_bytes(), 64);
  EXPECT_EQ(space->disk_used_bytes(), 192);
  const auto full = put(*space, 64, 4);
  EXPECT_EQ(full.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(full.status().message(), "swap: 64 bytes needed, 44 of 300 available");
  EXPECT_TRUE(holds(*space, a, 64, 1) && holds(*space, b, 64, 2) && holds(*space, c, 128, 3));
  space->release(b);
  const SwapSlot d = put(*space, 64, 5).value();  // the file's hole
  EXPECT_TRUE(holds(*space, c, 128, 3) && holds(*space, d, 64, 5));
  for (const SwapSlot slot : {a, c, d}) space->release(slot);
  EXPECT_EQ(space->available_bytes(), 300);
}

TEST(SwapSpace, WhatCannotBeFilledTakesNoRoom) {
  const auto space = SwapSpace::create({.host_bytes = 64, .disk_bytes = 64}).value();
  const auto fails = [](std::span<std::byte>) { return unavailable("gone"); };
  EXPECT_EQ(space->put(64, fails).code(), StatusCode::kUnavailable);
  const SwapSlot a = put(*space, 64, 1).value();
  EXPECT_EQ(space->put(64, fails).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(put(*space, 64, 2).ok());
  EXPECT_TRUE(holds(*space, a, 64, 1));
}

TEST(SwapSpace, AFolderThatTakesNoFileIsRefused) {
  EXPECT_EQ(SwapSpace::create({.disk_bytes = 1, .folder = "/no/such/folder"}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(SwapSpace::create({.disk_bytes = 0, .folder = "/no/such/folder"}).ok()) << "it is not asked for";
}

TEST(SwapSpace, AFileThatTheFolderHasNoRoomForIsRefused) {
  const auto space = SwapSpace::create({.disk_bytes = int64_t{1} << 60});
  EXPECT_EQ(space.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(space.status().message().find("bytes free, 1152921504606846976 are asked for"), std::string::npos)
      << space.status().message();
}

}  // namespace
}  // namespace firstlight::kv
