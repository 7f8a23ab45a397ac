// SPDX-License-Identifier: Apache-2.0
// A thread, or why the system gives none: limits of address space and of processes are the user's, not faults of ours.
#pragma once

#include <string>
#include <system_error>
#include <thread>

#include "base/status.h"

namespace firstlight {

// Runs `body` on a thread of its own. Errors: kUnavailable with `what` and the system's word.
template <typename Body>
Result<std::thread> start_thread(const std::string& what, Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return unavailable(what + " could not be started: " + error.code().message() +
                       " (a limit of this process: its address space, its threads)");
  }
}

}  // namespace firstlight
