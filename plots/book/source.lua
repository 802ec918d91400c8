-- source.lua: a C file as a page sees it.
--
-- Comments that begin in the first column are prose, in Markdown; all else is code. So each file is
-- a list of blocks, each with the line it begins in:
--
--     {prose = true, text = "...", line = 1, last = 10}
--     {code = true, text = "...", line = 12, last = 40}
local source = {}

-- Ends the program: what is wrong, and where, and what to do about it.
function source.die(path, line, what, hint)
  io.stderr:write(("book: error: %s%s: %s\nhint: %s\n"):format(path, line and ":" .. line or "",
    what, hint))
  os.exit(1)
end

function source.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do lines[#lines + 1] = line end
  while lines[#lines] == "" do lines[#lines] = nil end
  return lines
end
source.lines = lines_of

-- The line of the file at path in which this text first stands.
function source.line_of(path, text)
  for i, line in ipairs(lines_of(source.read(path) or "")) do
    if line:find(text, 1, true) then return i end
  end
end

-- What files include is not shown.
local function without_includes(lines)
  for i, line in ipairs(lines) do
    if line:match("^#include") or line == "#pragma once" then lines[i] = "" end
  end
  return lines
end

local function add_code(blocks, lines, first, last)
  while first <= last and lines[first]:match("^%s*$") do first = first + 1 end
  while last >= first and lines[last]:match("^%s*$") do last = last - 1 end
  if first > last then return end
  blocks[#blocks + 1] = {code = true, text = table.concat(lines, "\n", first, last), line = first, last = last}
end

-- The blocks of the file at path. `text` is what is in it, if that is known.
function source.blocks(path, text)
  text = text or source.read(path) or source.die(path, nil, "cannot read it", "is it there?")
  local lines, blocks = without_includes(lines_of(text)), {}
  local i, code_from = 1, 1
  while i <= #lines do
    if lines[i]:match("^//") then
      add_code(blocks, lines, code_from, i - 1)
      local first, prose = i, {}
      while lines[i] and lines[i]:match("^//") do
        -- (What is said to clang-format is no prose.)
        local line = lines[i]:gsub("^// ?", "")
        prose[#prose + 1] = line:match("^clang%-format o[nf]+$") and "" or line
        i = i + 1
      end
      code_from = i
      local text = table.concat(prose, "\n")
      if text:match("%S") then blocks[#blocks + 1] = {prose = true, text = text, line = first, last = i - 1} end
    else
      i = i + 1
    end
  end
  add_code(blocks, lines, code_from, #lines)
  return blocks
end

-- ---- prose ------------------------------------------------------------------------------------

-- What pandoc is told that comments are.
source.MARKDOWN = "markdown-raw_html-raw_tex-subscript-superscript-strikeout-smart" ..
  "-tex_math_double_backslash+lists_without_preceding_blankline"

-- Without the marks of figures_test.sh; and pandoc wants what a picture shows on the line of its address. A mark below a
-- heading has more words with which the search finds its section (prose.write_sections).
function source.markdown(text)
  text = ("\n" .. text):gsub("\n? *<!%-%- figure: .-%-%->", "")
  text = text:gsub("(\n#+ [^\n]+)\n<!%-%- search: ([^\n]-) %-%->", '%1 {search="%2"}'):gsub("^\n", "")
  return (text:gsub('(%]%([%w_./:-]+)\n%s*"', '%1 "'))
end

-- "// ---- values ----" is a small heading.
function source.titles(text)
  return (("\n" .. text):gsub("\n%-%-%-%- (%l?)([^\n]-) %-%-%-+%f[\n\0]", function(first, rest)
    return "\n### " .. first:upper() .. rest
  end))
end

-- ---- code -------------------------------------------------------------------------------------

-- The questions that a piece of code asks with predict_first() and predict_yes_no().
function source.predictions(code)
  local found = {}
  for name, strings in code:gmatch("predict_([%a_]+)%s*(%b())") do
    if name == "first" or name == "yes_no" then
      local text = {}
      for piece in strings:gmatch('"(.-[^\\])"') do text[#text + 1] = piece end
      if #text > 0 then
        found[#found + 1] = (table.concat(text):gsub('\\"', '"'):gsub("\\n", " "))
      end
    end
  end
  return found
end

-- A block of code as pieces {text, line, last}: functions and what else stands between empty lines outside of braces.
function source.pieces(block)
  local pieces, lines = {}, lines_of(block.text)
  local first = 1
  for i = 1, #lines + 1 do
    local ends = i > #lines or lines[i] == "" and (lines[i + 1] or ""):match("^[%w}]") and lines[i - 1]:match("^[^%s#]")
    if ends and i > first then
      pieces[#pieces + 1] = {text = table.concat(lines, "\n", first, i - 1), line = block.line + first - 1,
        last = block.line + i - 2}
      first = i + 1
    end
  end
  return pieces
end

-- Whether this code defines the function or type.
function source.defines(text, name)
  text = "\n" .. text
  return text:match("\n%a[^\n(]*[%s*]" .. name .. "%b()%s*{") ~= nil or text:find("\n} " .. name .. ";", 1, true) ~= nil or
    text:find("\nstruct " .. name .. " {", 1, true) ~= nil
end

return source
