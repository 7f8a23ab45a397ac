return architecture {
matches = { model_type = { "t" } }, parameters = function(c) return { layers = 1, c = c } end,
state = function(p) return { kv = append { k = { 1, 4 }, v = { 1, 4 } } } end,
forward = function(p, w, batch) local c = p.c; local x = gather_rows(w("e", { 8, 4 }), batch.output_rows)
local r = require("std.rope").from_config(c, { dim = 4 })
local y = linear(x, w("e", { 8, 4 })) return { logits = y } end }
