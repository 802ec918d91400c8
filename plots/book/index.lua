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
  for turn = 1, 3 do
    for path in (os.getenv("BOOK_HEADERS") or ""):gmatch("%S+") do
      local is_own = folder ~= nil and path:sub(1, #folder + 1) == folder .. "/"
      if turn == (is_own and 1 or path:match("^chapters/") and 3 or 2) then names.add_header(all, path) end
      files[path] = true
    end
  end
  for name, entry in pairs(all) do
    entry.url = index.page_of(entry.header) .. "#" .. index.name_id(name)
  end
  return all, files
end

return index
