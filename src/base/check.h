// SPDX-License-Identifier: Apache-2.0
// Checks of our own reasoning. A failed one is a bug of ours: it prints where and what, and ends the process. Never use
// them on anything that comes from outside; that is Status (base/status.h).
#pragma once

namespace firstlight {

[[noreturn]] void check_failed(const char* file, int line, const char* what);

}  // namespace firstlight

#define FL_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::firstlight::check_failed(__FILE__, __LINE__, #condition))

// For hot paths: checked in debug builds only.
#ifdef NDEBUG
#define FL_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define FL_DCHECK(condition) FL_CHECK(condition)
#endif
