-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V3.2 and V4: what their formats share. Calls are written in DSML, tags whose names begin with a token of their own;
-- arguments that are strings stand as they are, others as JSON. The words shown to the model are those it was trained with.
local chat = require "std.chat"
local dsml = {}

local mark = prompt.markup
local DSML, USER, ASSISTANT = mark "｜DSML｜", mark "<｜User｜>", mark "<｜Assistant｜>"
local THINK, END_THINK = mark "<think>", mark "</think>"
dsml.user, dsml.begin, dsml.finish = USER, mark "<｜begin▁of▁sentence｜>", mark "<｜end▁of▁sentence｜>"
dsml.end_think = END_THINK

local response_format = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"

-- What the format wants the model to know of tools: text before and after the schemas, one per line.
function dsml.tools(write, words, functions)
  if #functions == 0 then return end
  write("\n\n", words.before)
  for i, f in ipairs(functions) do write(i > 1 and "\n" or "", prompt.json(f.json)) end
  write(words.after)
end

-- Tools and an output format that stand in a message itself.
function dsml.extras(write, words, message, what)
  dsml.tools(write, words, chat.functions(message, what .. "."))
  local format = message.response_format
  if format ~= nil and format ~= null then write(response_format, prompt.json(format)) end
end

-- Where the assistant begins: with its thoughts, or with none.
function dsml.turn(write, thinking)
  write(ASSISTANT)
  dsml.think(write, thinking)
end
function dsml.think(write, thinking) write(thinking and THINK or END_THINK) end

local function parameters(write, call)
  local first = true
  for key, value in pairs(prompt.parse(call.arguments)) do
    local text = type(value) == "string"
    write(first and "" or "\n", "<", DSML, 'parameter name="', key, '" string="', text and "true" or "false", '">')
    write(text and value or prompt.json(value), "</", DSML, "parameter>")
    first = false
  end
end

-- An assistant's message: thoughts where they are kept, text, calls in a block of that name.
function dsml.assistant(write, message, what, block, with_thoughts)
  if with_thoughts then write(chat.thoughts(message, what), END_THINK) end
  write(message.content)
  local calls = chat.calls(message, what)
  for i, call in ipairs(calls) do
    if i == 1 then write("\n\n<", DSML, block, ">\n") else write "\n" end
    write("<", DSML, 'invoke name="', call.name, '">\n')
    parameters(write, call)
    write("\n</", DSML, "invoke>")
  end
  if #calls > 0 then write("\n</", DSML, block, ">") end
  write(dsml.finish)
  return calls
end

-- A developer's message is a user's with tools of its own; an empty one has no meaning.
function dsml.check_developer(message, what)
  if message.content == "" then prompt.refuse(what .. ": a developer's message must not be empty") end
end

return dsml
