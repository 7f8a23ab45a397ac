-- SPDX-License-Identifier: Apache-2.0
-- What render functions share. A render function takes (chat, write): chat.messages, chat.tools, chat.variables,
-- chat.add_generation_prompt, chat.date, chat.tool_choice, chat.response_format; docs/chat_prompts.md has the rest.
local chat = {}

local function is_set(value) return value ~= nil and value ~= null end

-- The first of these variables that is given, and its name.
function chat.variable(c, ...)
  for _, name in ipairs { ... } do
    local value = c.variables[name]
    if is_set(value) then return value, name end
  end
end

local function typed(c, wanted, default, ...)
  local value, name = chat.variable(c, ...)
  if value == nil then return default end
  if type(value) ~= wanted then
    prompt.refuse("variable '" .. name .. "': found " .. prompt.json(value) .. ", wanted a " .. wanted)
  end
  return value
end
function chat.flag(c, default, ...) return typed(c, "boolean", default, ...) end
function chat.text(c, default, ...) return typed(c, "string", default, ...) end

-- One of the words, by the name of the variable that says it.
function chat.word(c, words, default, ...)
  local value, name = chat.variable(c, ...)
  if value == nil then return default end
  for _, word in ipairs(words) do
    if value == word then return value end
  end
  prompt.refuse("variable '" .. name .. "': found " .. prompt.json(value) .. ", wanted one of " .. table.concat(words, ", "))
end

-- Whether the model is to think: said outright, or by an effort other than "none".
function chat.thinking(c, default)
  local effort = chat.text(c, nil, "reasoning_effort")
  if effort then default = effort ~= "none" end
  return chat.flag(c, default, "thinking", "enable_thinking")
end

-- A member that must be a string; `what` names its owner.
function chat.string(object, key, what, default)
  local value = object[key]
  if not is_set(value) and default ~= nil then return default end
  if type(value) ~= "string" then prompt.refuse(what .. ": '" .. key .. "' must be a string") end
  return value
end

-- The list under a key that is there and not empty, else nil.
function chat.list(object, key, what)
  local value = object[key]
  if not is_set(value) then return nil end
  if prompt.kind(value) ~= "array" then prompt.refuse(what .. ": '" .. key .. "' must be a list") end
  return #value > 0 and value or nil
end

-- { { name, description, parameters, json }, … } of the tools under chat or a message; json: the function's own handle.
function chat.functions(object, what)
  local functions = {}
  for i, tool in pairs(chat.list(object, "tools", what) or {}) do
    local at = what .. "tools[" .. i .. "]"
    local f = prompt.kind(tool) == "object" and (is_set(tool["function"]) and tool["function"] or tool)
    if not f or prompt.kind(f) ~= "object" then prompt.refuse(at .. ": an object with a function is wanted") end
    functions[#functions + 1] = {
      name = chat.string(f, "name", at), description = chat.string(f, "description", at, ""),
      parameters = is_set(f.parameters) and f.parameters or nil, json = f,
    }
  end
  return functions
end

-- { { id, name, arguments }, … }: arguments as the JSON text that the client sent.
function chat.calls(message, what)
  local calls = {}
  for i, call in pairs(message.tool_calls or {}) do
    local at = what .. ".tool_calls[" .. i .. "]"
    local f = is_set(call["function"]) and call["function"] or call
    if prompt.kind(f) ~= "object" then prompt.refuse(at .. ": an object with a function is wanted") end
    calls[#calls + 1] = { id = chat.string(call, "id", at, ""), name = chat.string(f, "name", at), arguments = f.arguments }
  end
  return calls
end

-- The thoughts of an assistant's message, "" where it has none.
function chat.thoughts(message, what) return chat.string(message, "reasoning_content", what, "") end

function chat.unknown_role(role, what) prompt.refuse(what .. ": role '" .. role .. "' has no place in this model's format") end

-- The results of the tool messages from `first` on, in the order of the calls they answer: { { message, call }, … }, and the index
-- after them. A result that answers no call keeps all as they came: call is nil then.
function chat.results(messages, first, calls)
  local at, found, known, after = {}, {}, true, first
  for i, call in ipairs(calls) do at[call.id] = at[call.id] or i end
  while after < #messages and messages[after].role == "tool" do
    local message = messages[after]
    local index = at[chat.string(message, "tool_call_id", "messages[" .. after .. "]", "")]
    known = known and index ~= nil
    found[#found + 1] = { message = message, call = index and calls[index], index = index, order = after }
    after = after + 1
  end
  if known then
    table.sort(found, function(a, b)
      if a.index ~= b.index then return a.index < b.index end
      return a.order < b.order
    end)
  end
  return found, after, known
end

return chat
