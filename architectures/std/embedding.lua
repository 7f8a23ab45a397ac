-- SPDX-License-Identifier: Apache-2.0
-- What is done to embeddings before the first layer.
local embedding = {}

-- A factor of embeddings that the reference keeps in the type of the table: bfloat16 rounds it.
function embedding.factor(weight, value) return rounded(value, weight:dtype() == "bf16" and "bf16" or "f32") end

return embedding
