-- source.lua: a C file as a page sees it.
--
-- Comments that begin in the first column are prose, in Markdown; all else is code. So each file is
-- a list of blocks, each with the line it begins in:
--
--     {prose = true, text = "...", line = 1}
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

-- A name that includes guard a header with; nil if there is none.
local function guard_of(lines)
  for i = 1, #lines - 1 do
    local name = lines[i]:match("^#ifndef ([%w_]+)$")
    if name and lines[i + 1] == "#define " .. name then return name end
  end
end

-- Headers are shown without their guards.
local function without_guard(lines)
  local name = guard_of(lines)
  if not name then return lines end
  for i, line in ipairs(lines) do
    if line == "#ifndef " .. name or line == "#define " .. name then lines[i] = "" end
  end
  if lines[#lines]:match("^#endif") then lines[#lines] = "" end
  return lines
end

-- The last of the #include lines that this code begins with; nil if it begins with something else.
local function last_include(lines, first, last)
  local found
  for i = first, last do
    if lines[i]:match("^#include") then
      found = i
    elseif lines[i] ~= "" then
      break
    end
  end
  return found
end

local function add_code(blocks, lines, first, last)
  while first <= last and lines[first]:match("^%s*$") do first = first + 1 end
  while last >= first and lines[last]:match("^%s*$") do last = last - 1 end
  if first > last then return end
  local included = last_include(lines, first, last)
  if included and included < last then -- what a file includes is a block of its own
    add_code(blocks, lines, first, included)
    add_code(blocks, lines, included + 1, last)
    return
  end
  blocks[#blocks + 1] = {code = true, text = table.concat(lines, "\n", first, last), line = first,
    last = last}
end

-- The blocks of the file at path. `text` is what is in it, if that is known.
function source.blocks(path, text)
  text = text or source.read(path) or source.die(path, nil, "cannot read it", "is it there?")
  local lines, blocks = without_guard(lines_of(text)), {}
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
      if text:match("%S") then blocks[#blocks + 1] = {prose = true, text = text, line = first} end
    else
      i = i + 1
    end
  end
  add_code(blocks, lines, code_from, #lines)
  return blocks
end

-- ---- prose ------------------------------------------------------------------------------------

-- What pandoc is told that comments are.
source.MARKDOWN = "markdown-raw_html-raw_tex-citations-subscript-superscript-strikeout-smart" ..
  "-tex_math_double_backslash+lists_without_preceding_blankline"

local function is_item(line)
  return line:match("^%s*[-*+] ") or line:match("^%s*%d+[.)] ")
end

-- Takes away the spaces that all lines from `first` on begin with.
local function move_left(lines, first)
  local least = math.huge
  for i = first, #lines do
    if lines[i]:match("%S") then least = math.min(least, #lines[i]:match("^ *")) end
  end
  for i = first, #lines do lines[i] = lines[i]:sub(least + 1) end
end

-- Comments are written for an editor first. Lines that stand further in, and belong to no list, are
-- meant as they are: commands with what they do, small tables. So they become code for Markdown.
function source.markdown(text)
  text = ("\n" .. text):gsub("\n? *<!%-%- figure: .-%-%->", ""):gsub("^\n", "") -- for figures_test.sh
  local out, list, verbatim, fence = {}, false, nil, false -- verbatim: where such lines begin
  local function close()
    if not verbatim then return end
    while out[#out] == "" do out[#out] = nil end
    move_left(out, verbatim)
    out[#out + 1] = "```"
    out[#out + 1] = ""
    verbatim = nil
  end
  for _, line in ipairs(lines_of(text)) do
    if line:match("^%s*```") then
      close()
      fence = not fence
      out[#out + 1] = line
    elseif fence or line:match("^%s*$") then
      out[#out + 1] = line
    elseif is_item(line) and not verbatim then
      list = true
      out[#out + 1] = line
    elseif line:match("^  ") and not list then
      if not verbatim then
        if out[#out] and out[#out] ~= "" then out[#out + 1] = "" end
        out[#out + 1] = "```text"
        verbatim = #out + 1
      end
      out[#out + 1] = line
    else
      close()
      if not line:match("^ ") then list = false end
      out[#out + 1] = line
    end
  end
  close()
  return table.concat(out, "\n")
end

-- "What you will learn" alone before a list is a small heading; so is "// ---- values ----".
function source.titles(text)
  local lines = lines_of(text)
  local function is_set_off(line) return (line or ""):match("^  ") or (line or ""):match("^[-*] ") end
  for i, line in ipairs(lines) do
    local banner = line:match("^%-%-%-%- (.-) %-%-%-+$")
    if banner then
      lines[i] = "### " .. banner:gsub("^%l", string.upper)
    elseif line:match("^%a[%w ]+$") and (i == 1 or lines[i - 1] == "") and
      is_set_off(lines[i + 1] == "" and lines[i + 2] or lines[i + 1]) then
      lines[i] = "**" .. line .. "**\n"
    elseif line ~= "" and (lines[i + 1] or ""):match("^Difficulty: ") then
      lines[i] = line .. "\\"
    end
  end
  return table.concat(lines, "\n")
end

-- What is no good Markdown is said with its line.
function source.check_markdown(path, block)
  local fence_line
  for i, line in ipairs(lines_of(block.text)) do
    local at = block.line + i - 1
    if line:match("^%s*```") then
      fence_line = not fence_line and at or nil
    elseif not fence_line then
      local heading = line:match("^(#+)[^# ]")
      if heading and not line:match("^#include") and not line:match("^#define") then
        source.die(path, at, "a heading needs a space behind its " .. heading, "# like this")
      end
      for target in line:gmatch("%]%(([^)%s]+)%)") do
        if not target:match("^%a+:") and not target:match("^#") then
          local file = target:gsub("#.*", "")
          local here = path:match("^(.*)/") or "."
          if not source.read(here .. "/" .. file) and not source.read(file) then
            source.die(path, at, "a link to " .. target .. ", which is not there", "mend the link")
          end
        end
      end
    end
  end
  if fence_line then
    source.die(path, fence_line, "a block that begins with ``` and does not end",
      "put ``` behind its last line")
  end
  -- Backticks come in pairs within a paragraph.
  local paragraph, first, inside = {}, block.line, false
  local function check_paragraph()
    local _, ticks = table.concat(paragraph, "\n"):gsub("`", "")
    if ticks % 2 == 1 then
      source.die(path, first, "a paragraph with a ` that has no partner", "put the second one")
    end
  end
  for i, line in ipairs(lines_of(block.text .. "\n\n")) do
    if line:match("^%s*```") then inside = not inside end
    if line:match("^%s*$") or inside or line:match("^%s*```") then
      check_paragraph()
      paragraph, first = {}, block.line + i
    else
      paragraph[#paragraph + 1] = line
    end
  end
  check_paragraph()
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

-- Whether there is nothing in it but what it includes.
function source.is_includes(code)
  for line in (code .. "\n"):gmatch("(.-)\n") do
    if line ~= "" and not line:match("^#include") then return false end
  end
  return true
end

return source
