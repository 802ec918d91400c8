-- names.lua: what the headers declare, and where; so that a page can link each name to its
-- declaration and show it.
local source = require("source")
local names = {}

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

-- The names that a declaration declares, each with "function", "type", "constant" or "variable".
local function declared(text)
  local found = {}
  local plain = text:gsub("//[^\n]*", ""):gsub("__attribute__%s*%b()", "")
  local macro = plain:match("^#define ([%w_]+)")
  if macro then return {{macro, plain:match("^#define [%w_]+%(") and "function" or "constant"}} end
  local body = plain:match("enum[%w_%s]*(%b{})")
  for name in (body or ""):gmatch("[{,]%s*([%u][%w_]*)") do found[#found + 1] = {name, "constant"} end
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

-- Calls each(name, kind, text) for what a piece of a header's code declares.
function names.declared_in(code, each)
  for _, text in ipairs(declarations(code)) do
    for _, entry in ipairs(declared(text)) do
      if entry[1] and #entry[1] > 1 then each(entry[1], entry[2], text) end
    end
  end
end

-- Enters what the header at path declares into the index: name -> {kind, header, text, about}.
-- Where two chapters use a name, each has its own: what is found first stays.
function names.add_header(index, path)
  local about = ""
  for _, block in ipairs(source.blocks(path)) do
    if block.code then
      names.declared_in(block.text, function(name, kind, text)
        index[name] = index[name] or {kind = kind, header = path, text = text:gsub("%s+$", ""), about = about}
      end)
    end
    about = block.prose and block.line > 1 and block.text or ""
  end
end

return names
