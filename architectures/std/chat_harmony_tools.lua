-- SPDX-License-Identifier: Apache-2.0
-- The tools that gpt-oss was trained with and that a server runs itself, in the words the model knows.
local typescript = require "std.chat_typescript"
local tools = {}

local search = [[{"type": "object", "properties": {"query": {"type": "string"}, "topn": {"type": "number", "default": 10},
  "source": {"type": "string"}}, "required": ["query"]}]]
local open = [[{"type": "object", "properties": {"id": {"type": ["number", "string"], "default": -1},
  "cursor": {"type": "number", "default": -1}, "loc": {"type": "number", "default": -1},
  "num_lines": {"type": "number", "default": -1}, "view_source": {"type": "boolean", "default": false},
  "source": {"type": "string"}}}]]
local find = [[{"type": "object", "properties": {"pattern": {"type": "string"},
  "cursor": {"type": "number", "default": -1}}, "required": ["pattern"]}]]

local known = {
  browser = {
    description = [[
Tool for browsing.
The `cursor` appears in brackets before each browsing display: `[{cursor}]`.
Cite information from the tool using the following format:
`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.
Do not quote more than 10 words directly from the tool output.
sources=web (default: web)]],
    functions = {
      { name = "search", parameters = search,
        description = "Searches for information related to `query` and displays `topn` results." },
      { name = "open", parameters = open, description = [[
Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, showing `num_lines` lines.
Valid link ids are displayed with the formatting: `【{id}†.*】`.
If `cursor` is not provided, the most recent page is implied.
If `id` is a string, it is treated as a fully qualified URL associated with `source`.
If `loc` is not provided, the viewport will be positioned at the beginning of the document or centered on the most relevant passage, if available.
Use this function without `id` to scroll to a new location of an opened page.]] },
      { name = "find", parameters = find,
        description = "Finds exact matches of `pattern` in the current page, or the page given by `cursor`." },
    },
  },
  python = {
    description = [[
Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. This tool should be used for internal reasoning, but not for code that is intended to be visible to the user (e.g. when creating plots, tables, or files).

When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook environment. python will respond with the output of the execution or time out after 120.0 seconds. The drive at '/mnt/data' can be used to save and persist user files. Internet access for this session is UNKNOWN. Depends on the cluster.]],
    functions = {},
  },
}

-- "# Tools" with the named ones in alphabetical order; nil for none.
function tools.section(names)
  local wanted, parts = {}, { "# Tools" }
  for _, name in ipairs(names) do
    if not known[name] then prompt.refuse("variable 'builtin_tools': found \"" .. name .. "\", wanted browser or python") end
    wanted[name] = known[name]
  end
  for name, tool in pairs(wanted) do
    local functions = {}
    for i, f in ipairs(tool.functions) do
      functions[i] = { name = f.name, description = f.description, parameters = prompt.parse(f.parameters) }
    end
    parts[#parts + 1] = typescript.namespace(name, tool.description, functions)
  end
  return #parts > 1 and table.concat(parts, "\n\n") or nil
end

return tools
