-- output.lua: what a program printed, as blocks for pandoc: sentences as paragraphs, tables as tables, anything else
-- as it is.
local source = require("source")
local output = {}

local function cells_of(line) -- its characters
  local cells = {}
  for c in line:gmatch(utf8.charpattern) do cells[#cells + 1] = c end
  return cells
end

local function trim(text) return text:match("^%s*(.-)%s*$") end
local function is_number(text) return text:match("^[-+±]?[%d.][%d.,e+%-]*[%a%%µ/ ]*$") or text == "nan" or text == "-" end

-- The columns of the lines, as pairs of the first and last character: all lines have two spaces between them. nil if
-- there are none.
local function columns_of(lines)
  local width, columns, from, empty = 0, {}, nil, 0
  for _, line in ipairs(lines) do width = math.max(width, #line) end
  for i = 1, width + 2 do
    local is_empty = true
    for _, line in ipairs(lines) do is_empty = is_empty and (line[i] or " ") == " " end
    empty = is_empty and empty + 1 or 0
    if empty == 2 and from then columns[#columns + 1], from = {from, i - 2}, nil end
    if not is_empty then from = from or i end
  end
  return #columns > 1 and columns
end

local function plain(text) return {pandoc.Plain({pandoc.Str(text)})} end

-- The table that these lines are; nil if they are none. Lines of the head have no numbers where those below have.
local function table_of(text)
  local lines, rows = {}, {}
  for i, line in ipairs(text) do
    if line:match("##") or line:match("[|~]") or not utf8.len(line) then return nil end -- bars, boxes
    lines[i] = cells_of(line)
  end
  local columns = columns_of(lines)
  if not columns then return nil end
  for i, line in ipairs(lines) do
    rows[i] = {}
    for c, at in ipairs(columns) do
      rows[i][c] = trim(table.concat(line, "", math.min(at[1], #line + 1), math.min(at[2], #line)))
      if rows[i][c]:match("%S%s%s+%S") then return nil end -- two columns that the head runs together
    end
  end
  local numbers, heads = {}, 0
  for c = 1, #columns do
    local n = 0
    for _, row in ipairs(rows) do n = n + (is_number(row[c]) and 1 or 0) end
    numbers[c] = n * 2 >= #rows
  end
  local function has_numbers(row)
    for c = 1, #columns do
      if numbers[c] and is_number(row[c]) then return true end
    end
  end
  while heads < #rows and not has_numbers(rows[heads + 1]) do heads = heads + 1 end
  if heads == #rows or heads > 2 or heads == 0 and #rows < 3 then return nil end
  local header, body, aligns, widths = {}, {}, {}, {}
  for c = 1, #columns do
    local names = {}
    for r = 1, heads do names[r] = rows[r][c] end
    header[c] = plain(trim(table.concat(names, " ")))
    aligns[c], widths[c] = numbers[c] and pandoc.AlignRight or pandoc.AlignLeft, 0
  end
  for r = heads + 1, #rows do
    local row = {}
    for c = 1, #columns do row[c] = plain(rows[r][c]) end
    body[#body + 1] = row
  end
  return pandoc.utils.from_simple_table(pandoc.SimpleTable({}, aligns, widths, header, body))
end

-- Sentences begin with a capital, end with a full stop or the like, and are wrapped at spaces.
local function sentences_of(text)
  local said = trim(table.concat(text, " "):gsub("%s+", " "))
  return not said:find(": error: ", 1, true) and said:match("^[%u%d\"'(].*%l.*[.:!?)\"]$") and said:match(" .* ") and said
end

function output.blocks(text)
  local blocks, group, is_columns = {}, {}, false
  local function flush()
    local said = not is_columns and sentences_of(group)
    local made = is_columns and #group > 1 and table_of(group) or said and pandoc.Para({pandoc.Str(said)})
    local last = blocks[#blocks]
    if made then
      blocks[#blocks + 1] = made
    elseif #group > 0 then
      local goes_on = last and last.t == "CodeBlock"
      local before, class = goes_on and last.text .. "\n" or "", goes_on and last.classes[1] or "as-printed"
      blocks[#blocks + (goes_on and 0 or 1)] = pandoc.CodeBlock(before .. table.concat(group, "\n"),
        {class = is_columns and #group > 1 and "columns" or class})
    end
    group = {}
  end
  for _, line in ipairs(source.lines(text)) do
    local columns = trim(line):match("%S%s%s+%S") ~= nil
    if not line:match("%S") then
      flush()
    else
      local last = group[#group] -- a line that has room for the next word was not wrapped (by say())
      if last and (columns ~= is_columns or not columns and
        (utf8.len(last) or #last) + 1 + #line:match("%S+") <= 80) then flush() end
      is_columns = columns
      group[#group + 1] = line
    end
  end
  flush()
  return blocks
end

return output
