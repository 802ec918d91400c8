-- code.lua: C as HTML: coloured by pandoc, and each name of a header linked to its declaration.
local names = require("names")
local index = require("index")
local code = {}

function code.escape(text)
  return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

function code.quote(text) -- as a string in a script
  return '"' .. text:gsub("[\\\"]", "\\%0"):gsub("\n", "\\n"):gsub("</", "<\\/") .. '"'
end

-- Links the names in a line of pandoc's; what it has no colour for are names. A function's name is meant where a call
-- or a declaration follows; the others wherever they stand, but not as members of structs.
local function link_names(line, all, root)
  local out, at, class, before = {}, 1, nil, ""
  while at <= #line do
    local tag = line:match("^<[^>]*>", at)
    local piece = tag or line:match("^[%a_][%w_]*", at) or line:match("^[^<%a_]+", at)
    local entry = not tag and not class and all[piece]
    at = at + #piece
    if tag then
      class = tag:match('class="(%w+)"')
    elseif entry and not before:match("%.$") and not before:match("&gt;$") and
      (entry.kind ~= "function" or line:match('^<span class="op">%(', at)) then
      piece = '<a class="d" href="' .. root .. entry.url .. '">' .. piece .. "</a>"
    end
    if not tag then before = piece end
    out[#out + 1] = piece
  end
  return table.concat(out)
end

-- `all` is an index; `root` leads from the page to the book's first page ("" or "../").
function code.html(text, all, root)
  local html = pandoc.write(pandoc.Pandoc({pandoc.CodeBlock(text, {class = "c"})}), "html"):match("<code[^>]*>(.*)</code>")
  local out = {}
  for line in (html .. "\n"):gmatch("(.-)\n") do
    out[#out + 1] = link_names(line:match("^<span id[^>]*><a [^>]*></a>(.*)</span>$") or line, all, root)
  end
  return (table.concat(out, "\n"):gsub('<span class="op">(.-)</span>', "%1"))
end

-- Where the declarations of a header's code begin, for links to them.
function code.anchors(text, seen)
  local out = {}
  names.declared_in(text, function(name)
    if not seen[name] then out[#out + 1] = '<a id="' .. index.name_id(name) .. '"></a>' end
    seen[name] = true
  end)
  return table.concat(out)
end

return code
