// SPDX-License-Identifier: Apache-2.0
// The standard streams, as a caller may leave them: closed, full, or with a reader that has gone; and what may go
// there.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace firstlight::cli {

// Gives the numbers of closed standard streams to files that nothing can be written to: what is opened later must not
// take them, or what is printed would go into a checkpoint.
void reserve_streams();

// Everything printed has arrived. A reader that went away (`| head`) is no error. Errors: kInvalidArgument.
Status flush_output();

// `text` with the characters that steer a terminal written as \x1b: names in checkpoints and packs come from strangers.
std::string printable(std::string_view text);

}  // namespace firstlight::cli
