// SPDX-License-Identifier: Apache-2.0
// Values that are nearly JSON to JSON: Python literals ({'a': [1, True, None]}), keys without quotes, strings between
// marks of a format's own.
#pragma once

#include <optional>
#include <string_view>

#include "base/json_fwd.h"

namespace firstlight::text {

// The one value `text` is, white space around it apart; nullopt where it is none. `quote`: the mark around strings
// besides '…' and "…"; "" for none.
std::optional<Json> read_loose_value(std::string_view text, std::string_view quote = "");

// What stands between the parentheses of a call, "city='Paris', days=3", as an object; nullopt where it is not that.
std::optional<Json> read_keyword_arguments(std::string_view text);

// The members that are whole of either kind of text (`python`: keyword arguments) that was cut: the beginning of that
// object's JSON text; "" for none.
std::string read_cut_members(std::string_view text, std::string_view quote, bool python);

}  // namespace firstlight::text
