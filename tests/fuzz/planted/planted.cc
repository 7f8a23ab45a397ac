// SPDX-License-Identifier: Apache-2.0
// A fuzz target with a fault planted in it: it ends the process on the input "AB". The replay must notice and keep it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 2 && data[0] == 'A' && data[1] == 'B') std::abort();
  return 0;
}
