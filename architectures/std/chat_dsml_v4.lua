-- SPDX-License-Identifier: Apache-2.0
-- DeepSeek V4's prompts. Messages of users and tools that follow each other are one turn; results stand in the order of their calls.
-- Thoughts of earlier turns are left out (drop_thinking) unless there are tools. Variables: thinking, reasoning_effort,
-- drop_thinking; revision "0731" for the weights of that date, whose words for effort are others.
local chat = require "std.chat"
local dsml = require "std.chat_dsml"

local words = {
  before = prompt.markup [[
## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜tool_calls>" block like the following:

<｜DSML｜tool_calls>
<｜DSML｜invoke name="$TOOL_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$TOOL_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜tool_calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

]],
  after = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n",
}

local absolute = [[
Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.

]]
local beyond = [[
Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that no assumption remains unchecked and no error remains undiscovered.

]]
local efforts = { first = { max = absolute }, ["0731"] = { high = absolute, xhigh = absolute, max = beyond } }
local levels = { "none", "minimal", "low", "medium", "high", "xhigh", "max" }

-- Turns: a run of users' and tools' messages is one of role "user". Developers before the last of them go with the thoughts.
local function read_turns(messages, dropping)
  local turns, last, i = {}, 0, 0
  local function of_user(at) return at < #messages and (messages[at].role == "user" or messages[at].role == "tool") end
  while i < #messages do
    local turn = { first = i, after = i + 1, role = messages[i].role, message = messages[i] }
    if of_user(i) then
      turn.role = "user"
      while of_user(turn.after) do turn.after = turn.after + 1 end
    end
    turns[#turns + 1], i = turn, turn.after
    if turn.role == "user" or turn.role == "developer" then last = #turns end
  end
  if not dropping then return turns, last end
  local kept, kept_last = {}, 0
  for k, turn in ipairs(turns) do
    if k >= last or turn.role ~= "developer" then kept[#kept + 1] = turn end
    if k == last then kept_last = #kept end
  end
  return kept, kept_last
end

local function write_user(write, messages, turn, calls)
  local order, results = {}, {}
  for i, call in ipairs(calls) do order[call.id] = order[call.id] or i end
  for i = turn.first, turn.after - 1 do
    if messages[i].role == "tool" then
      local id = chat.string(messages[i], "tool_call_id", "messages[" .. i .. "]", "")
      results[#results + 1] = { message = messages[i], at = order[id] or 0, came = i }
    end
  end
  table.sort(results, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.came < b.came
  end)
  local next_result = 1
  for i = turn.first, turn.after - 1 do
    if i > turn.first then write "\n\n" end
    if messages[i].role == "tool" then
      write("<tool_result>", results[next_result].message.content, "</tool_result>")
      next_result = next_result + 1
    else
      write(messages[i].content)
    end
  end
end

local function has_tools(c)
  for i, message in pairs(c.messages) do
    if chat.list(message, "tools", "messages[" .. i .. "]") then return true end
  end
  return chat.list(c, "tools", "") ~= nil
end

return function(c, write)
  local thinking, effort = chat.thinking(c, true), chat.word(c, levels, "low", "reasoning_effort")
  local revision = chat.word(c, { "first", "0731" }, "first", "revision")
  local drop = chat.flag(c, true, "drop_thinking") and not has_tools(c)
  local turns, last = read_turns(c.messages, thinking and drop)
  local calls = {}
  write(dsml.begin, thinking and efforts[revision][effort] or "")
  dsml.tools(write, words, chat.functions(c, ""))
  for k, turn in ipairs(turns) do
    local role, message, what, follower = turn.role, turn.message, "messages[" .. turn.first .. "]", turns[k + 1]
    if role == "assistant" then
      local made = dsml.assistant(write, message, what, "tool_calls", thinking and (not drop or k > last))
      if #made > 0 then calls = made end
    elseif role == "user" then
      write(dsml.user)
      write_user(write, c.messages, turn, calls)
    elseif role == "developer" then
      dsml.check_developer(message, what)
      write(dsml.user, message.content)
      dsml.extras(write, words, message, what)
    elseif role == "system" then
      write(message.content)
      dsml.extras(write, words, message, what)
    else
      chat.unknown_role(role, what)
    end
    local answers = follower and follower.role == "assistant" or not follower and c.add_generation_prompt
    if answers and role ~= "assistant" then
      dsml.turn(write, thinking and (not drop or k >= last))
    end
  end
end
