-- SPDX-License-Identifier: Apache-2.0
-- The harmony format (gpt-oss): every message names its author and channel; thoughts go to analysis, calls to commentary, answers
-- to final. Variables: model_identity, knowledge_cutoff, current_date ("" leaves it out), reasoning_effort, channels, builtin_tools
-- (browser, python), system_message (false: none), drop_analysis. Messages may state channel, recipient and content_type.
local chat = require "std.chat"
local typescript = require "std.chat_typescript"
local builtin = require "std.chat_harmony_tools"

local mark = prompt.markup
local START, MESSAGE, CHANNEL = mark "<|start|>", mark "<|message|>", mark "<|channel|>"
local OPENING = mark "<|start|>assistant"
local END, CALL, CONSTRAIN = mark "<|end|>", mark "<|call|>", mark "<|constrain|>"

-- The words of a list variable; nil where it is not given.
local function words(c, name)
  local value = chat.variable(c, name)
  if value == nil then return nil end
  if prompt.kind(value) ~= "array" then prompt.refuse("variable '" .. name .. "' must be a list of strings") end
  local found = {}
  for _, word in pairs(value) do
    if type(word) ~= "string" then prompt.refuse("variable '" .. name .. "' must be a list of strings") end
    found[#found + 1] = word
  end
  return found
end

local function system_text(c, has_functions)
  local top = { chat.text(c, "You are ChatGPT, a large language model trained by OpenAI.", "model_identity") }
  top[2] = "Knowledge cutoff: " .. chat.text(c, "2024-06", "knowledge_cutoff")
  local date = chat.text(c, c.date, "current_date")
  if date ~= "" then top[3] = "Current date: " .. date end
  local sections = { table.concat(top, "\n") }
  sections[2] = "Reasoning: " .. chat.word(c, { "low", "medium", "high" }, "medium", "reasoning_effort")
  local tools = builtin.section(words(c, "builtin_tools") or {})
  if tools then sections[3] = tools end
  local channels = words(c, "channels") or { "analysis", "commentary", "final" }
  local last = "# Valid channels: " .. table.concat(channels, ", ") .. ". Channel must be included for every message."
  if has_functions then last = last .. "\nCalls to these tools must go to the commentary channel: 'functions'." end
  sections[#sections + 1] = last
  return table.concat(sections, "\n\n")
end

local function developer_text(instructions, functions)
  local sections = {}
  if instructions ~= "" then sections = { "# Instructions", instructions } end
  if #functions > 0 then
    sections[#sections + 1] = "# Tools"
    sections[#sections + 1] = typescript.namespace("functions", nil, functions)
  end
  return table.concat(sections, "\n\n")
end

-- What an assistant's message of a chat becomes: thoughts, words before calls, calls; or thoughts and the answer.
local function lower_assistant(message, what, names)
  local calls, made = chat.calls(message, what), {}
  local function say(channel, content) if content ~= "" then made[#made + 1] = { channel = channel, content = content } end end
  say("analysis", chat.thoughts(message, what))
  say(#calls > 0 and "commentary" or "final", message.content)
  for _, call in ipairs(calls) do
    names[call.id] = "functions." .. call.name
    made[#made + 1] = { channel = "commentary", recipient = names[call.id], constrain = "json", content = call.arguments }
  end
  return made
end

local function tool_author(message, what, names)
  local name = chat.string(message, "name", what, "")
  if name ~= "" then return prompt.contains(name, ".") and name or "functions." .. name end
  local id = chat.string(message, "tool_call_id", what, "")
  if not names[id] then prompt.refuse(what .. ": tool_call_id '" .. id .. "' answers no call, and there is no name") end
  return names[id]
end

local function lower(message, what, names)
  local role = message.role
  local item = { author = role, content = message.content }
  item.channel, item.recipient = chat.string(message, "channel", what, ""), chat.string(message, "recipient", what, "")
  item.constrain = chat.string(message, "content_type", what, "")
  if role == "assistant" then
    if item.channel ~= "" or item.recipient ~= "" then return { item } end
    return lower_assistant(message, what, names)
  elseif role == "tool" then
    item.author = tool_author(message, what, names)
    item.channel = chat.string(message, "channel", what, "commentary")
    item.recipient = chat.string(message, "recipient", what, "assistant")
  elseif role == "user" then
    local name = chat.string(message, "name", what, "")
    if name ~= "" then item.author = "user:" .. name end
  elseif role == "system" or role == "developer" then
    item.author, item.content = "developer", developer_text(message.content, chat.functions(message, what .. "."))
  else
    chat.unknown_role(role, what)
  end
  return { item }
end

-- Thoughts before the first answer, and of turns that an answer has ended and a user has followed, are not shown again.
local function is_stale(items, at, first_final, followed)
  return items[at].channel == "analysis" and (first_final and at < first_final or followed and at < followed)
end

local function drop_stale(items)
  local first_final, followed, latest
  for i, item in ipairs(items) do
    if item.channel == "final" then
      first_final, latest = first_final or i, i
    elseif item.role == "user" then
      followed = latest
    end
  end
  local kept = {}
  for i, item in ipairs(items) do
    if not is_stale(items, i, first_final, followed) then kept[#kept + 1] = item end
  end
  return kept
end

local function write_item(write, item)
  local recipient = item.recipient or ""
  write(START, item.author or "assistant")
  if recipient ~= "" and recipient ~= "all" then write(" to=", recipient) end
  if (item.channel or "") ~= "" then write(CHANNEL, item.channel) end
  local form = item.constrain or ""
  if form:sub(1, 13) == "<|constrain|>" then form = form:sub(14) end
  if form ~= "" then write(" ", CONSTRAIN, form) end
  local called = recipient ~= "" and (item.role == "assistant" or item.author == nil)
  write(MESSAGE, item.content, called and CALL or END)
end

-- The first message, where it instructs, and the request's tools are one developer's message.
local function developer_of(c, messages)
  local first = #messages > 0 and messages[0] or nil
  local leads = first and (first.role == "system" or first.role == "developer")
  local functions = chat.functions(c, "")
  for _, f in ipairs(leads and chat.functions(first, "messages[0].") or {}) do functions[#functions + 1] = f end
  return developer_text(leads and first.content or "", functions), #functions > 0, leads and 1 or 0
end

return function(c, write)
  local messages, names, items = c.messages, {}, {}
  local developer, has_functions, start = developer_of(c, messages)
  for i = start, #messages - 1 do
    local what = "messages[" .. i .. "]"
    has_functions = has_functions or chat.list(messages[i], "tools", what) ~= nil
    for _, item in ipairs(lower(messages[i], what, names)) do
      item.role = messages[i].role
      items[#items + 1] = item
    end
  end
  if chat.flag(c, true, "system_message") then
    write_item(write, { author = "system", content = system_text(c, has_functions) })
  end
  if developer ~= "" then write_item(write, { author = "developer", content = developer }) end
  if chat.flag(c, true, "drop_analysis") then items = drop_stale(items) end
  for _, item in ipairs(items) do write_item(write, item) end
  if c.add_generation_prompt then write(OPENING) end
end
