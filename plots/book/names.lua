-- names.lua: what the headers declare, and where; so that a page can link each name to its
-- declaration and show it.
local source = require("source")
local names = {}

local KEYWORDS = {}
for word in ([[auto break case const continue default do else enum extern for goto if inline int
  register restrict return short signed sizeof static struct switch typedef union unsigned void
  volatile while char double float long bool _Noreturn _Alignas _Bool _Generic _Static_assert]])
  :gmatch("%S+") do KEYWORDS[word] = true end
local TYPES = {}
for word in ([[void char short int long float double signed unsigned bool size_t ptrdiff_t int8_t
  uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t FILE NULL true false]])
  :gmatch("%S+") do TYPES[word] = true end
names.KEYWORDS, names.TYPES = KEYWORDS, TYPES

-- ---- tokens -----------------------------------------------------------------------------------

local PATTERNS = { -- the first that fits
  {"comment", "^//[^\n]*"}, {"comment", "^/%*.-%*/"},
  {"string", '^"[^"\\\n]*"'}, {"string", "^'[^'\\\n]*'"},
  {"number", "^%.?%d[%w.]*"}, {"name", "^[%a_][%w_]*"}, {"space", "^%s+"}, {"other", "^."},
}

-- Strings and characters with \ in them.
local function quoted(code, at, quote)
  local i = at + 1
  while i <= #code do
    local c = code:sub(i, i)
    if c == "\\" then
      i = i + 1
    elseif c == quote then
      return code:sub(at, i)
    elseif c == "\n" then
      return nil
    end
    i = i + 1
  end
end

-- Calls each(kind, text, next) for each piece of the code; next is the first character of the code
-- behind it that is not white.
function names.tokens(code, each)
  local at = 1
  while at <= #code do
    local kind, text
    local c = code:sub(at, at)
    if (c == '"' or c == "'") then
      kind, text = "string", quoted(code, at, c)
    elseif c == "#" and (at == 1 or code:sub(at - 1, at - 1) == "\n") then
      kind, text = "directive", code:match("^#%s*%a+", at)
    end
    if not text then
      for _, p in ipairs(PATTERNS) do
        kind, text = p[1], code:match(p[2], at)
        if text then break end
      end
    end
    at = at + #text
    each(kind, text, code:match("^%s*(.)", at))
  end
end

-- ---- declarations -----------------------------------------------------------------------------

-- The pieces of a header's code that end outside of all braces with a ; or }, and its macros.
local function declarations(code)
  local list, depth, piece = {}, 0, {}
  local function finish()
    local text = table.concat(piece):gsub("^%s+", "")
    if text ~= "" then list[#list + 1] = text end
    piece = {}
  end
  for line in (code .. "\n"):gmatch("(.-)\n") do
    local macro = line:match("^#define ") and not line:match("\\$")
    if line:match("^#include") or line:match("^#[ei]") then line = "" end
    piece[#piece + 1] = line .. "\n"
    local plain = line:gsub("//.*", ""):gsub('".-"', "")
    for brace in plain:gmatch("[{}]") do depth = depth + (brace == "{" and 1 or -1) end
    if depth == 0 and (plain:match(";%s*$") or plain:match("^}%s*$") or macro) then finish() end
  end
  finish()
  return list
end

local function add_constants(found, body)
  body = body:gsub("//[^\n]*", "")
  for name in ("," .. body):gmatch(",%s*([%u][%w_]*)") do found[#found + 1] = {name, "constant"} end
end

-- The names that a declaration declares, each with "function", "type", "constant" or "variable".
local function declared(text)
  local found = {}
  local plain = text:gsub("//[^\n]*", ""):gsub("__attribute__%s*%b()", "")
  local macro = plain:match("^#define ([%w_]+)")
  if macro then return {{macro, plain:match("^#define [%w_]+%(") and "function" or "constant"}} end
  local body = plain:match("enum[%w_%s]*(%b{})")
  if body then add_constants(found, body:sub(2, -2)) end
  if plain:match("^enum") then return found end
  local outside = plain:gsub("%b{}", " {} ")
  if outside:match("^typedef") then
    local name = outside:match("([%w_]+)%s*%(") or outside:match("([%w_]+)%s*%[?[^%s]*;%s*$")
    if outside:match("%(%*") then name = outside:match("%(%*([%w_]+)%)") end
    found[#found + 1] = {name, "type"}
  elseif outside:match("^struct ([%w_]+)%s*{}") then
    found[#found + 1] = {outside:match("^struct ([%w_]+)"), "type"}
  elseif outside:match("^extern") then
    found[#found + 1] = {outside:gsub("%b[]", ""):match("([%w_]+)%s*;%s*$"), "variable"}
  else
    found[#found + 1] = {outside:match("([%w_]+)%s*%("), "function"}
  end
  return found
end

-- Enters what the header at path declares into the index: name -> {kind, header, text, about}.
-- Where two chapters use a name, each has its own: what is found first stays.
function names.add_header(index, path)
  local about = ""
  for _, block in ipairs(source.blocks(path)) do
    if block.prose then
      about = block.line == 1 and "" or block.text
    else
      for _, text in ipairs(declarations(block.text)) do
        for _, entry in ipairs(declared(text)) do
          local name, kind = entry[1], entry[2]
          if name and not KEYWORDS[name] and not index[name] and #name > 1 then
            index[name] = {kind = kind, header = path, text = text:gsub("%s+$", ""), about = about}
          end
        end
      end
      about = ""
    end
  end
end

-- The names that a piece of a header's code declares.
function names.declared_in(code)
  local all = {}
  for _, text in ipairs(declarations(code)) do
    for _, entry in ipairs(declared(text)) do
      if entry[1] and not KEYWORDS[entry[1]] then all[#all + 1] = entry[1] end
    end
  end
  return all
end

return names
