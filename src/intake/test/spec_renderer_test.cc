// SPDX-License-Identifier: Apache-2.0
#include "intake/spec_renderer.h"
#include <gtest/gtest.h>
namespace firstlight::intake {
TEST(SpecRenderer, None) {}
}
