-- SPDX-License-Identifier: Apache-2.0
-- Masks for attend as functions of query and key position, to be composed: mask = std.mask.any(std.mask.prefix(16),
-- std.mask.causal). A mask that shows later positions wants causal = false beside it.
local mask = {}

function mask.causal(q, k) return le(k, q) end

function mask.bidirectional(q, k) return ge(k, 0) end

function mask.sliding(window) return function(q, k) return lt(q - k, window) end end

function mask.chunked(size) return function(q, k) return eq(floor(q / size), floor(k / size)) end end

function mask.prefix(length) return function(q, k) return lt(k, length) end end

local function folded(join, masks)
  return function(q, k)
    local shown = masks[1](q, k)
    for i = 2, #masks do shown = join(shown, masks[i](q, k)) end
    return shown
  end
end

-- Positions that every one of the masks shows, and those that any of them does.
function mask.all(...) return folded(min, { ... }) end
function mask.any(...) return folded(max, { ... }) end
function mask.none_of(one) return function(q, k) return 1 - one(q, k) end end

return mask
