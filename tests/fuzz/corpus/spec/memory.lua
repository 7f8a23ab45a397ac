return architecture {
matches = { model_type = { "t" } }, parameters = function(c) return { layers = 1, c = c } end,
state = function(p) return { kv = append { k = { 1, 4 }, v = { 1, 4 } } } end,
forward = function(p, w, batch) local c = p.c; local x = gather_rows(w("e", { 8, 4 }), batch.output_rows)
local s = "x" while true do s = s .. s end
local y = linear(x, w("e", { 8, 4 })) return { logits = y } end }
