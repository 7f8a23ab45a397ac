// SPDX-License-Identifier: Apache-2.0
// Stands for the header of MUSA's run-time compiler, as musa.h beside it does for the driver's.
#pragma once
#include <cstddef>

extern "C" {
typedef struct mtrtcProgram_st* mtrtcProgram;
typedef enum { MTRTC_SUCCESS = 0, MTRTC_ERROR_COMPILATION = 6 } mtrtcResult;

mtrtcResult mtrtcVersion(int* major, int* minor);
mtrtcResult mtrtcCreateProgram(mtrtcProgram* program, const char* source, const char* name, int num_headers,
                               const char* const* headers, const char* const* include_names);
mtrtcResult mtrtcCompileProgram(mtrtcProgram program, int num_options, const char* const* options);
mtrtcResult mtrtcGetProgramLogSize(mtrtcProgram program, size_t* bytes);
mtrtcResult mtrtcGetProgramLog(mtrtcProgram program, char* log);
mtrtcResult mtrtcGetFatBinSize(mtrtcProgram program, size_t* bytes);
mtrtcResult mtrtcGetFatBin(mtrtcProgram program, char* binary);
mtrtcResult mtrtcDestroyProgram(mtrtcProgram* program);
}
