// SPDX-License-Identifier: Apache-2.0
// The standard streams, as a caller may leave them: closed, full, or with a reader that has gone.
#pragma once

#include "base/status.h"

namespace firstlight::cli {

// Gives the numbers of closed standard streams to files that nothing can be written to: what is opened later must not
// take them, or what is printed would go into a checkpoint.
void reserve_streams();

// Everything printed has arrived. A reader that went away (`| head`) is no error. Errors: kInvalidArgument.
Status flush_output();

}  // namespace firstlight::cli
