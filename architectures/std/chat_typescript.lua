-- SPDX-License-Identifier: Apache-2.0
-- Tools as TypeScript: a JSON schema as a type, functions as members of a namespace, comments where the schema explains.
local typescript = {}

local function is_object(value) return prompt.kind(value) == "object" end
local function text(value) return type(value) == "string" and value or nil end
local function list(value) return prompt.kind(value) == "array" and value or nil end
local function is_enum(schema) return list(schema.enum) ~= nil and #schema.enum > 0 end

-- A default that is one of an enum's words stands without quotes where a property has it.
local function default_of(schema, bare_enum)
  local value = schema.default
  if value == nil then return nil end
  if bare_enum and text(value) and is_enum(schema) then return "default: " .. value end
  if text(value) then return 'default: "' .. value .. '"' end
  return "default: " .. prompt.json(value, { compact = true })
end

local type_of

local function nullable(schema, indent)
  local t = type_of(schema, indent)
  if is_object(schema) and schema.nullable == true and not prompt.contains(t, "null") then return t .. " | null" end
  return t
end

-- " // description default": what stands behind a variant.
local function remarks(variant, description, bare_enum)
  local parts = {}
  if description then parts[1] = description end
  parts[#parts + 1] = default_of(variant, bare_enum)
  return #parts > 0 and " // " .. table.concat(parts, " ") or ""
end

local function union(variants, indent)
  local out = {}
  for _, v in pairs(variants) do
    local object = is_object(v)
    out[#out + 1] = "\n" .. indent .. " | " .. nullable(v, indent .. "   ")
      .. (object and remarks(v, text(v.description), false) or "")
  end
  return table.concat(out)
end

-- A property whose type is one of several: each on a line of its own.
local function union_property(out, name, schema, indent)
  local description, variants = text(schema.description), schema.oneOf
  local first = variants[0]
  local above = description and not (is_object(first) and text(first.description) == description)
  if above then out[#out + 1] = indent .. "// " .. description .. "\n" end
  local default = default_of(schema, true)
  if default then out[#out + 1] = indent .. "// " .. default .. "\n" end
  out[#out + 1] = indent .. name .. ":\n"
  for i, v in pairs(variants) do
    local own = is_object(v) and text(v.description)
    if own and (own == description or i == 0 and above) then own = nil end
    out[#out + 1] = indent .. " | " .. nullable(v, indent .. "   ")
      .. (is_object(v) and remarks(v, own or nil, true) or "") .. "\n"
  end
  out[#out + 1] = indent .. ",\n"
end

local function property(out, name, schema, indent)
  if not is_object(schema) then
    out[#out + 1] = indent .. name .. ": any,\n"
    return
  end
  local several = list(schema.oneOf)
  if text(schema.title) then out[#out + 1] = indent .. "// " .. schema.title .. "\n" .. indent .. "//\n" end
  if schema.oneOf == nil and text(schema.description) then out[#out + 1] = indent .. "// " .. schema.description .. "\n" end
  local examples = list(schema.examples)
  if examples and #examples > 0 then
    out[#out + 1] = indent .. "// Examples:\n"
    for _, example in pairs(examples) do
      if text(example) then out[#out + 1] = indent .. '// - "' .. example .. '"\n' end
    end
  end
  if several then return union_property(out, name, schema, indent) end
  local default = schema.oneOf == nil and default_of(schema, true)
  out[#out + 1] = indent .. name .. ": " .. nullable(schema, indent .. "    ") .. ","
    .. (default and " // " .. default or "") .. "\n"
end

local function object_type(schema, indent)
  local out, required = {}, {}
  if text(schema.description) then out[1] = indent .. "// " .. schema.description .. "\n" end
  out[#out + 1] = "{\n"
  for _, name in pairs(list(schema.required) or {}) do
    if text(name) then required[name] = true end
  end
  for name, value in pairs(is_object(schema.properties) and schema.properties or {}) do
    property(out, name .. (required[name] and "" or "?"), value, indent)
  end
  out[#out + 1] = indent .. "}"
  return table.concat(out)
end

local function words_of(schema)
  local words = {}
  for _, word in pairs(list(schema.enum) or {}) do
    if text(word) then words[#words + 1] = '"' .. word .. '"' end
  end
  return #words > 0 and table.concat(words, " | ") or "string"
end

local plain = { number = "number", integer = "number", boolean = "boolean" }

function type_of(schema, indent)
  if not is_object(schema) then return "any" end
  if list(schema.oneOf) then return union(schema.oneOf, indent) end
  local kind = schema.type
  if list(kind) then
    local names = {}
    for _, name in pairs(kind) do
      if text(name) then names[#names + 1] = name == "integer" and "number" or name end
    end
    return #names > 0 and table.concat(names, " | ") or "any"
  end
  if kind == "object" then return object_type(schema, indent) end
  if kind == "string" then return words_of(schema) end
  if kind == "array" then return schema.items ~= nil and type_of(schema.items, indent) .. "[]" or "Array<any>" end
  return text(kind) and plain[kind] or "any"
end

-- A namespace with its functions ({ name, description, parameters }, as std.chat.functions gives them).
function typescript.namespace(name, description, functions)
  local out = { "## " .. name .. "\n" }
  for _, line in ipairs(prompt.lines(description or "")) do out[#out + 1] = (#functions > 0 and "// " or "") .. line end
  if #functions == 0 then return table.concat(out, "\n") end
  out[#out + 1] = "namespace " .. name .. " {\n"
  for _, f in ipairs(functions) do
    for _, line in ipairs(prompt.lines(f.description)) do out[#out + 1] = "// " .. line end
    local argument = f.parameters and "_: " .. type_of(f.parameters, "") or ""
    out[#out + 1] = "type " .. f.name .. " = (" .. argument .. ") => any;\n"
  end
  out[#out + 1] = "} // namespace " .. name
  return table.concat(out, "\n")
end

return typescript
