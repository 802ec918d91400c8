-- code.lua: C as HTML: coloured, and each name of a header linked to its declaration.
local names = require("names")
local index = require("index")
local code = {}

function code.escape(text)
  return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

local CLASSES = {comment = "co", string = "st", number = "nu", directive = "di"}

local function span(class, text)
  return '<span class="' .. class .. '">' .. code.escape(text) .. "</span>"
end

-- A function's name is meant where a call or a declaration follows; the others wherever they stand,
-- but not as members of structs.
local function is_meant(entry, before, next)
  if before == "." or before == ">" then return false end
  return entry.kind ~= "function" or next == "("
end

-- `all` is an index; `root` leads from the page to the book's first page ("" or "../").
function code.html(text, all, root)
  local out, before = {}, ""
  names.tokens(text, function(kind, piece, next)
    local entry = kind == "name" and all[piece]
    if CLASSES[kind] then
      out[#out + 1] = span(CLASSES[kind], piece)
    elseif kind == "name" and names.KEYWORDS[piece] then
      out[#out + 1] = span("kw", piece)
    elseif kind == "name" and names.TYPES[piece] then
      out[#out + 1] = span("ty", piece)
    elseif entry and is_meant(entry, before, next) then
      out[#out + 1] = '<a class="d" href="' .. root .. entry.url .. '">' .. piece .. "</a>"
    else
      out[#out + 1] = code.escape(piece)
    end
    if kind ~= "space" then before = piece:sub(-1) end
  end)
  return table.concat(out)
end

-- Where the declarations of a header's code begin, for links to them.
function code.anchors(text, seen)
  local out = {}
  for _, name in ipairs(names.declared_in(text)) do
    if not seen[name] then
      seen[name] = true
      out[#out + 1] = '<a id="' .. index.name_id(name) .. '"></a>'
    end
  end
  return table.concat(out)
end

return code
