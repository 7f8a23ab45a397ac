-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V3.2's prompts. Every user's turn ends in the assistant's token and a thinking tag, open after the last user's message
-- where `thinking` is set; thoughts from before that message are left out.
local chat = require "std.chat"
local dsml = require "std.chat_dsml"

local words = {
  before = prompt.markup [[
## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).

If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:

<｜DSML｜function_calls>
...
</｜DSML｜function_calls>

<function_results>
...
</function_results>

<think>...thinking about results</think>

Here are the functions available in JSONSchema format:
<functions>
]],
  after = "\n</functions>\n",
}

local function last_user(messages)
  for i = #messages - 1, 0, -1 do
    if messages[i].role == "user" or messages[i].role == "developer" then return i end
  end
  return -1
end

local function write_results(write, messages, first, calls)
  if not calls or #calls == 0 then prompt.refuse("messages[" .. first .. "]: a tool's result without a call before it") end
  local results, after, known = chat.results(messages, first, calls)
  if not known then prompt.refuse("messages[" .. first .. "]: a tool_call_id that answers no call of the message before") end
  write "\n\n<function_results>"
  for _, result in ipairs(results) do write("\n<result>", result.message.content, "</result>") end
  write "\n</function_results>"
  return after
end

return function(c, write)
  local messages, thinking = c.messages, chat.thinking(c, false)
  local last, i, calls = last_user(messages), 0, nil
  local newest = #messages > 0 and messages[#messages - 1].role
  local dropping = thinking and (newest == "user" or newest == "developer")
  -- Nothing is opened behind the last message unless an answer is wanted.
  local function ends(after) return after == #messages and not c.add_generation_prompt end
  write(dsml.begin)
  dsml.tools(write, words, chat.functions(c, ""))
  while i < #messages do
    local message, what, after = messages[i], "messages[" .. i .. "]", i + 1
    local open = thinking and i >= last
    if message.role == "system" then
      write(message.content)
      dsml.extras(write, words, message, what)
    elseif message.role == "user" or message.role == "developer" then
      -- The vendor's format drops a developer's message of earlier turns with the thoughts.
      if message.role == "user" or i == last or not dropping then
        write(dsml.user)
        if message.role == "developer" then
          dsml.check_developer(message, what)
          dsml.extras(write, words, message, what)
          write "\n\n# The user's message is: "
        end
        write(message.content)
        if not ends(after) then dsml.turn(write, open) end
      end
    elseif message.role == "tool" then
      after = write_results(write, messages, i, calls)
      if not ends(after) then
        write "\n\n"
        dsml.think(write, open)
      end
    elseif message.role == "assistant" then
      calls = dsml.assistant(write, message, what, "function_calls", thinking and i > last)
    else
      chat.unknown_role(message.role, what)
    end
    i = after
  end
end
