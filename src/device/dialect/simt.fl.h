// SPDX-License-Identifier: Apache-2.0
// The dialect as C++ on the simt device, and the contract between a compiled module and the device. Every thread of a
// block is a fiber on one host thread, so a block's threads never truly run at once. The width of a warp is a value here
// and not a constant: one compiled module serves all widths, and a kernel that needs a constant does not compile.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// Filled by the device (simt/block.h); `thread`, `local` and `local_used` change with every switch of fibers.
struct fl_simt_block {
  int32_t group[3];
  int32_t groups[3];
  int32_t block[3];
  int32_t threads;
  int32_t warp;
  int32_t thread;
  int32_t local[3];
  uint32_t* local_used;
  unsigned char* local_memory;
  uint32_t local_bytes;
  uint32_t dynamic_bytes;  // the first part of local_memory
  void (*barrier)(fl_simt_block*, int line);
  uint32_t (*exchange)(fl_simt_block*, int line, uint32_t value, int lane);
  float (*reduce)(fl_simt_block*, int line, int operation, float value);  // 0: sum, 1: maximum
  void (*fault)(fl_simt_block*, const char* what, int64_t at, int64_t limit);  // does not come back
};

struct fl_simt_argument {
  const void* value;  // of a buffer: the address, itself; else where the scalar lies
  const char* begin;  // of a buffer: the bytes that may be touched
  const char* end;
};

struct fl_simt_kernel {
  const char* name;
  void (*run)(fl_simt_block*, const fl_simt_argument*);  // one thread
};

struct fl_simt_module {
  int32_t version;  // FL_SIMT_VERSION
  int32_t checked;
  int32_t num_kernels;
  const fl_simt_kernel* kernels;
};
#define FL_SIMT_VERSION 1
