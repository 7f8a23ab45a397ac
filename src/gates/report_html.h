// SPDX-License-Identifier: Apache-2.0
// The page for people: every gate's verdict, what it found as tables and plots, all of its evidence folded away. One
// file, nothing from outside, no script; for phones and for dark rooms too.
#pragma once

#include <string>

#include "gates/gates.h"

namespace firstlight::gates {

std::string report_html(const std::string& model_path, const AdaptResult& result, const std::string& answer);

}  // namespace firstlight::gates
