-- index.lua: the names of all headers, and the pages that declare them.
local source = require("source")
local names = require("names")
local index = {}

-- A file without a page of its own stands on that of its folder: common/device/queue.h on
-- ref/common-device.html.
function index.page_of(path)
  local number = path:match("^chapters/(%d+)_")
  if number then return number .. ".html" end
  return "ref/" .. path:match("^(.*)/"):gsub("/", "-") .. ".html"
end

-- The id of a file's heading, and of a name's declaration.
function index.file_id(path) return "file-" .. path:gsub("[^%w]", "-") end
function index.name_id(name) return "n-" .. name end

-- BOOK_HEADERS lists the headers, a line each. Those of the chapter in `folder` come first and those
-- of other chapters last, because two chapters may use the same name.
function index.open(folder)
  local all, files = {}, {}
  local own, common, others = {}, {}, {}
  for path in (os.getenv("BOOK_HEADERS") or ""):gmatch("%S+") do
    local is_own = folder ~= nil and path:sub(1, #folder + 1) == folder .. "/"
    table.insert(is_own and own or path:match("^chapters/") and others or common, path)
    files[path] = true
  end
  for _, headers in ipairs({own, common, others}) do
    for _, path in ipairs(headers) do names.add_header(all, path) end
  end
  for name, entry in pairs(all) do
    entry.url = index.page_of(entry.header) .. "#" .. index.name_id(name)
  end
  return all, files
end

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

-- All declarations as a script, for those who point at a name.
function index.script()
  local out = {"const DECLARATIONS = {"}
  local all, sorted = by_url(), {}
  for url in pairs(all) do sorted[#sorted + 1] = url end
  table.sort(sorted)
  local function quote(text)
    return '"' .. text:gsub("[\\\"]", "\\%0"):gsub("\n", "\\n"):gsub("</", "<\\/") .. '"'
  end
  for _, url in ipairs(sorted) do
    local entry = all[url]
    local lines = source.lines((entry.text:gsub(" +\\\n", " \\\n")))
    if #lines > 14 then
      lines = {table.unpack(lines, 1, 13)}
      lines[14] = "..."
    end
    out[#out + 1] = quote(entry.url) .. ": [" .. quote(entry.header) .. ", " ..
      quote(table.concat(lines, "\n")) .. ", " .. quote(entry.about:gsub("%s+$", "")) .. "],"
  end
  out[#out + 1] = "};"
  return table.concat(out, "\n")
end

return index
