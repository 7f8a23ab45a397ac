// SPDX-License-Identifier: Apache-2.0
// Every row of the catalog has a body in this build.
#include <gtest/gtest.h>

#include "kernels/dialect/device_kernel.h"
#include "kernels/kernel.h"

namespace firstlight::kernels {
namespace {

TEST(Registry, EveryRowHasABody) {
  for (const catalog::KernelRow& row : catalog::all_kernels()) {
    if (catalog::is_device(row.backend)) {
      const DeviceBody* body = find_device_kernel(row.symbol);
      ASSERT_NE(body, nullptr) << row.symbol;
      EXPECT_EQ(body->symbol, row.symbol);
      EXPECT_NE(body->prepare, nullptr) << row.symbol;
      continue;
    }
    const KernelBody* body = find_kernel(row.symbol);
    ASSERT_NE(body, nullptr) << row.symbol;
    EXPECT_EQ(body->symbol, row.symbol);
    EXPECT_NE(body->run, nullptr) << row.symbol;
  }
}

TEST(Registry, UnknownSymbolsHaveNone) { EXPECT_EQ(find_kernel("no_such_kernel"), nullptr); }

}  // namespace
}  // namespace firstlight::kernels
