// SPDX-License-Identifier: Apache-2.0
// A MUSA driver that is none: the functions of the stub headers on host memory, everything at once, with the probe's
// kernels and one more written by hand. It shows whether cuda/ calls a driver rightly; it says nothing about a real
// one.
#pragma once

namespace firstlight::device {

struct FakeDriver {
  int stated_warp = 128;  // what the attribute says
  int real_warp = 128;    // what the kernels do
  int num_devices = 1;
  int next_result = 0;  // returned by the next launch, once
  long long live_bytes = 0;
  int live_objects = 0;  // modules, streams, events
  int num_compiled = 0;
};
FakeDriver& fake_driver();

}  // namespace firstlight::device
