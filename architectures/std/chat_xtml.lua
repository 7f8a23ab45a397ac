-- SPDX-License-Identifier: Apache-2.0
-- Kimi-K3's prompts: tags opened and closed by control tokens, thoughts and answers in channels of their own. What the request asks
-- of the answer (tool_choice, response_format) is said in messages of the system. Variables: thinking, thinking_effort,
-- reasoning_effort.
local chat = require "std.chat"

local mark = prompt.markup
local OPEN, CLOSE, SEP, FINISH = mark "<|open|>", mark "<|close|>", mark "<|sep|>", mark "<|end_of_msg|>"
local OPENING = mark '<|open|>message role="assistant"<|sep|>'
local THINK, RESPOND = mark "<|open|>think<|sep|>", mark "<|open|>response<|sep|>"

local efforts = { "low", "high", "max" }
local effort_words = [[
`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), supported values include `low`, `medium`, `high`, and `max`.
Now the system is invoked with `thinking_effort=%s`.]]
local declared = [[
# Tools
Here are the available tools, described in JSONSchema.

```json
]]
local extended = [[
## New Tools Available
The system dynamically extends the toolset via lazy-loading.
You have access to all existing and extended tools.
Here are the specs for the extended tools.

```json
]]
local choices = { required = "MUST call tools", none = "MUST NOT call any tools" }
local raw_json = [[
Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting.]]

local function open_tag(write, name, attributes)
  write(OPEN, name)
  for _, attribute in ipairs(attributes or {}) do
    local value = prompt.replace(prompt.replace(attribute[2], "&", "&amp;"), '"', "&quot;")
    write(" ", attribute[1], '="', value, '"')
  end
  write(SEP)
end

local function close_tag(write, name) write(CLOSE, name, SEP) end

local function write_message(write, attributes, content)
  open_tag(write, "message", attributes)
  write(content)
  close_tag(write, "message")
  write(FINISH)
end

local function instruct(write, kind, content)
  write_message(write, { { "role", "system" }, { "type", kind } }, prompt.trim(content))
end

local function declare(write, tools, words)
  instruct(write, "tool-declare", words .. prompt.json(tools, { sorted = true, compact = true }) .. "\n```")
end

local function value_text(value) return type(value) == "string" and value or prompt.json(value) end

local function write_call(write, call, index)
  open_tag(write, "call", { { "tool", call.name }, { "index", tostring(index) } })
  for key, value in pairs(prompt.parse(call.arguments)) do
    open_tag(write, "argument", { { "key", key }, { "type", prompt.kind(value) } })
    write(value_text(value))
    close_tag(write, "argument")
  end
  close_tag(write, "call")
end

-- In thinking mode every message has its channel of thoughts, if an empty one.
local function write_assistant(write, message, what, thinking)
  open_tag(write, "message", { { "role", "assistant" } })
  if thinking then
    local thoughts = chat.thoughts(message, what)
    open_tag(write, "think")
    write(prompt.trim(thoughts) ~= "" and thoughts or "")
    close_tag(write, "think")
  end
  open_tag(write, "response")
  write(message.content)
  close_tag(write, "response")
  local calls = chat.calls(message, what)
  if #calls > 0 then open_tag(write, "tools") end
  for i, call in ipairs(calls) do write_call(write, call, i) end
  if #calls > 0 then close_tag(write, "tools") end
  close_tag(write, "message")
  write(FINISH)
  return calls
end

-- Results by the order of the calls; one that answers none must name its tool.
local function write_results(write, messages, first, calls)
  local results, after = chat.results(messages, first, calls)
  for i, result in ipairs(results) do
    local at = "messages[" .. result.order .. "]"
    local name = result.call and result.call.name or chat.string(result.message, "name", at, calls[i] and calls[i].name or "")
    if name == "" then prompt.refuse(at .. ": a tool's result that answers no call and names no tool") end
    write_message(write, { { "role", "tool" }, { "tool", name }, { "index", tostring(i) } }, result.message.content)
  end
  return after
end

local function write_format(write, format)
  local kind = type(format) == "string" and format or format.type
  local said = "The system is invoked with `response_format=%s`.\n" .. raw_json
  if kind == "json_object" then
    instruct(write, "response-format", said:format(kind))
  elseif kind == "json_schema" then
    local holder = format.json_schema
    local schema = prompt.kind(holder) == "object" and holder.schema
    schema = prompt.json(schema == nil and holder or schema, { sorted = true, compact = true })
    local words = "\nThe JSON data must match the following schema:\n```json\n"
    instruct(write, "response-format", said:format(kind) .. words .. schema .. "\n```")
  end
end

local function write_messages(c, write, thinking)
  local messages, calls, i = c.messages, {}, 0
  while i < #messages do
    local message, what, role = messages[i], "messages[" .. i .. "]", messages[i].role
    local after, tools = i + 1, chat.list(messages[i], "tools", "messages[" .. i .. "]")
    if role == "tool" then
      after = write_results(write, messages, i, calls)
    elseif role == "assistant" then
      calls = write_assistant(write, message, what, thinking)
    elseif role == "user" or role == "system" or role == "developer" then
      local name = chat.string(message, "name", what, "")
      local attributes = { { "role", role == "developer" and "system" or role } }
      if name ~= "" then attributes[2] = { "name", name } end
      if tools and role ~= "user" then declare(write, tools, extended) end
      if not tools or message.content ~= "" then write_message(write, attributes, message.content) end
    else
      chat.unknown_role(role, what)
    end
    i = after
  end
end

return function(c, write)
  local thinking = chat.thinking(c, true)
  local effort = thinking and chat.variable(c, "thinking_effort", "reasoning_effort") ~= "none"
    and chat.word(c, efforts, "max", "thinking_effort", "reasoning_effort") or "max"
  local tools = chat.list(c, "tools", "")
  if tools then declare(write, tools, declared) end
  if thinking then instruct(write, "thinking-effort", effort_words:format(effort)) end
  write_messages(c, write, thinking)
  local choice = choices[c.tool_choice]
  if choice and (tools or c.tool_choice == "required") then
    instruct(write, "tool-choice", "The system is invoked with `tool_choice=" .. c.tool_choice .. "`.\nYou " .. choice
      .. " in the next message.")
  end
  if c.response_format then write_format(write, c.response_format) end
  if c.add_generation_prompt then write(OPENING, thinking and THINK or RESPOND) end
end
