-- script.lua: a reader for pandoc that makes names.js, the declarations that book.js shows.
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or "plots/book"
package.path = here .. "/?.lua;" .. package.path
local source = require("source")
local index = require("index")
local quote = require("code").quote

-- The names of all headers by their url: two chapters may use the same name.
local function by_url()
  local found = {}
  local function add(folder)
    for _, entry in pairs((index.open(folder))) do found[entry.url] = entry end
  end
  add(nil)
  for path in (os.getenv("BOOK_CHAPTERS") or ""):gmatch("%S+") do add(path:match("^(.*)/main%.c$")) end
  return found
end

function Reader()
  local out = {"const DECLARATIONS = {"}
  local all, sorted = by_url(), {}
  for url in pairs(all) do sorted[#sorted + 1] = url end
  table.sort(sorted)
  for _, url in ipairs(sorted) do
    local entry = all[url]
    local lines = source.lines((entry.text:gsub(" +\\\n", " \\\n")))
    if #lines > 14 then
      lines = {table.unpack(lines, 1, 13)}
      lines[14] = "..."
    end
    out[#out + 1] = ("%s: [%s, %s, %s],"):format(quote(url), quote(entry.header), quote(table.concat(lines, "\n")),
      quote((entry.about:gsub("%s+$", ""))))
  end
  out[#out + 1] = "};"
  return pandoc.Pandoc({pandoc.RawBlock("plain", table.concat(out, "\n"))})
end
