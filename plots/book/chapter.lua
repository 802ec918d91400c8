-- chapter.lua: a chapter as a list of what a reader meets, one after the other, whatever it will be
-- rendered as.
--
--     {kind = "prose",   file =, line =, text = Markdown, level = of a heading # in it}
--     {kind = "file",    file =, level =}                       here a file begins
--     {kind = "code",    file =, line =, last =, text =}
--     {kind = "predict", text =}                                a question before the code
--     {kind = "output",  text =, first = line of the whole output that it begins in}
--     {kind = "picture", path = file, name = "x.png", caption =}
--     {kind = "fold" / "end fold", title =}                     what is shown on demand
--     {kind = "run",     about = {command =, machine =, date =, version =}}
--     {kind = "answers", text = Markdown}
local source = require("source")
local questions = require("questions")
local chapter = {}

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end
chapter.exists = exists

-- The names of the files in a folder, sorted; none if it is not there.
local function files_in(folder)
  local list, names = {}, io.popen("LC_ALL=C ls '" .. folder .. "' 2>/dev/null")
  for name in names:lines() do list[#list + 1] = name end
  names:close()
  return list
end

-- ---- what a run has left ----------------------------------------------------------------------

local function read_about(path)
  local about = {}
  for line in (source.read(path) or ""):gmatch("[^\n]+") do
    local key, value = line:match("^(%w+)=(.*)$")
    if key then about[key] = value end
  end
  return about
end

-- The run of a chapter: its output, cut into what each function printed; nil if it never ran.
function chapter.run(folder)
  local stdout = source.read(folder .. "/stdout")
  if not stdout then return nil end
  local run = {folder = folder, stdout = stdout, pieces = {}, about = read_about(folder .. "/about")}
  for from, to, place, name in
    (source.read(folder .. "/functions") or ""):gmatch("(%d+) (%d+) (%S+) (%S+)\n") do
    local text = stdout:sub(tonumber(from) + 1, tonumber(to))
    local last = run.pieces[#run.pieces]
    if last and last.place == place then
      last.text = last.text .. text
    else
      local _, before = stdout:sub(1, tonumber(from)):gsub("\n", "")
      local file, line = place:match("^(.-):(%d+)$")
      run.pieces[#run.pieces + 1] = {text = text, place = place, name = name:gsub("%..*", ""), file = file,
        line = tonumber(line), first = before + 1}
    end
  end
  return run
end

-- ---- the order of files -----------------------------------------------------------------------

-- The files of the chapter's folder that the sentence "Read in this order" of main.c names, in that
-- order; "this file" is main.c, which is the first if it is not named. A .c file comes behind the
-- header of the same name. Also says which files these are: shown[name].
local function reading_order(folder, head)
  local sentence = head:match("Read in this order:?(.-)\n\n") or
    head:match("Read in this order:?(.*)$") or ""
  sentence = sentence:gsub("this%s+file", "main.c")
  local order, shown = {}, {}
  local function add(name)
    if shown[name] or not exists(folder .. "/" .. name) then return end
    shown[name] = true
    order[#order + 1] = name
  end
  if not sentence:match("main%.c") then add("main.c") end
  for name in sentence:gmatch("[%w_/]+%.[ch]%f[^%w_]") do
    if name:match("%.c$") then add((name:gsub("%.c$", ".h"))) end
    add(name)
  end
  return order, shown
end

local function others(folder, shown)
  local list = {}
  for _, name in ipairs(files_in(folder)) do
    if name:match("%.[ch]$") and not shown[name] then list[#list + 1] = name end
  end
  return list
end

-- ---- blocks -----------------------------------------------------------------------------------

-- "// times.c: how long ..." is said under the heading times.c already.
local function first_paragraph(name, text)
  if text:sub(1, #name + 2) ~= name .. ": " then return text end
  return (text:sub(#name + 3):gsub("^%l", string.upper))
end

-- "filters: plots/a.png, predictions: plots/b.png": a picture's caption stands before its name, if
-- need be at the end of the line above, or else behind it.
local function caption_of(line, name, above)
  local from, to = line:find("plots/" .. name, 1, true)
  local before = line:sub(1, from - 1):gsub("^.*plots/[%w_.-]+", ""):gsub("^[%s,;:]+", "")
  before = before:gsub("[%s:(]+$", "")
  if before == "" then before = (above or ""):match("^%s*(.*):$") or "" end
  local caption = before ~= "" and before or line:sub(to + 1):gsub("^[%s,;:]+", "")
  return (caption:gsub("^%l", string.upper))
end

local function add_pictures_of(items, run, piece)
  local text, first, lines = {}, piece.first, 0
  local function flush()
    local joined = table.concat(text, "\n")
    if joined:match("%S") then
      items[#items + 1] = {kind = "output", text = joined, first = first}
    end
    first, text = piece.first + lines, {}
  end
  for _, line in ipairs(source.lines(piece.text)) do
    lines = lines + 1
    text[#text + 1] = line
    for name in line:gmatch("plots/([%w_.-]+%.png)") do
      local path = run.folder .. "/plots/" .. name
      if not exists(path) then
        source.die(run.folder .. "/stdout", first + lines - 1,
          "the run names the picture plots/" .. name .. " and did not write it", "run make book again")
      end
      if not run.shown then run.shown = {} end
      if not run.shown[name] then
        run.shown[name] = true
        local above = text[#text - 1]
        flush()
        items[#items + 1] = {kind = "picture", path = path, name = name,
          caption = caption_of(line, name, above)}
      end
    end
  end
  flush()
end

-- Whether this piece of code defines the function. (Not by its line: with RUN=0 that may be another now.)
local function defines(text, name)
  for line in text:gmatch("[^\n]+") do
    if line:match("^%a.*[%s*]" .. name .. "%(") and not line:match(";%s*$") then return true end
  end
  return false
end

-- What functions of this piece of code printed. What was printed by functions of files that are
-- folded away stands behind main().
local function add_outputs(items, run, path, block, is_shown)
  if not run then return end
  local has_main = path:match("/main%.c$") and block.text:match("int main%(")
  for _, piece in ipairs(run.pieces) do
    local here = piece.file == path and defines(block.text, piece.name)
    if here or (has_main and not is_shown(piece.file)) then
      piece.is_placed = true
      add_pictures_of(items, run, piece)
    end
  end
end

local function add_file(items, run, path, name, is_shown, text)
  for i, block in ipairs(source.blocks(path, text)) do
    if i == 1 and name == "main.c" then -- its head begins the page
    elseif block.prose then
      source.check_markdown(path, block)
      local said = i == 1 and first_paragraph(name, block.text) or block.text
      items[#items + 1] = {kind = "prose", file = path, line = block.line, text = said}
    else
      for _, question in ipairs(source.predictions(block.text)) do
        items[#items + 1] = {kind = "predict", text = question}
      end
      items[#items + 1] = {kind = "code", file = path, line = block.line, last = block.last,
        text = block.text}
      add_outputs(items, run, path, block, is_shown)
    end
  end
end

local function is_questions(item)
  return item.kind == "prose" and questions.section(item.text, "Questions") ~= nil
end

-- Behind the questions, in the instructor's edition.
local function add_answers(items, folder)
  local path = folder .. "/answers.md"
  if not exists(path) then return end
  local at
  for i, item in ipairs(items) do
    if is_questions(item) then at = i end
  end
  if not at then
    source.die(path, 1, "answers without questions", "## Questions in main.c asks them")
  end
  local text = source.read(path)
  source.check_markdown(path, {text = text, line = 1})
  questions.check_answers(path, text, questions.count(questions.section(items[at].text, "Questions")))
  if os.getenv("BOOK_EDITION") ~= "instructor" then return end
  table.insert(items, at + 1, {kind = "answers", file = path, text = text})
end

local function fold(items, title) items[#items + 1] = {kind = "fold", title = title} end
local function end_fold(items) items[#items + 1] = {kind = "end fold"} end

-- ---- exercises --------------------------------------------------------------------------------

local function add_exercise(items, folder, name, handouts)
  local path = folder .. "/" .. name .. "/"
  local number, title = name:match("^(%d+)_(.*)$")
  local id = folder:match("chapters/(%d+)") .. "-" .. number
  items[#items + 1] = {kind = "exercise", id = id, title = title:gsub("_", " ")}
  local handout = handouts .. "/" .. name .. "/your_part.c"
  local nothing = function() return true end
  if not exists(handout) then
    source.die(path .. "your_part.c", nil, "it has no starter without the solution", "make exercises")
  end
  items[#items + 1] = {kind = "file", file = path .. "your_part.c", level = 4,
    text = source.read(handout), yours = true}
  add_file(items, nil, path .. "your_part.c", "your_part.c", nothing, source.read(handout))
  for _, file in ipairs(files_in(folder .. "/" .. name)) do
    if file ~= "your_part.c" and file:match("%.[ch]$") then
      fold(items, file)
      add_file(items, nil, path .. file, file, nothing)
      end_fold(items)
    end
  end
end

local function add_exercises(items, folder, build)
  local exercises = folder .. "/exercises"
  local found = {}
  for _, name in ipairs(files_in(exercises)) do
    if exists(exercises .. "/" .. name .. "/your_part.c") then found[#found + 1] = name end
  end
  if #found == 0 then return end
  items[#items + 1] = {kind = "heading", level = 2, text = "Exercises"}
  for _, name in ipairs(found) do
    add_exercise(items, exercises, name, build .. "/exercises/" .. folder:match("[^/]+$"))
  end
end

-- ---- the whole --------------------------------------------------------------------------------

-- The chapter in the folder chapters/NN_name. What it needs of a build is in the folder `build`.
function chapter.open(folder, build)
  local main = folder .. "/main.c"
  local first = source.blocks(main)[1]
  local title = first and first.prose and first.text:match("^# ([^\n]+)")
  if not title then
    source.die(main, 1, "a chapter begins with its title", "// # Title")
  end
  local order, shown = reading_order(folder, first.text)
  local function is_shown(path) return shown[path:match("[^/]+$")] and path:match("^chapters/") end
  local run = chapter.run(build .. "/runs/" .. folder:match("[^/]+$"))
  local items = {}
  if run then items[1] = {kind = "run", about = run.about} end
  source.check_markdown(main, first)
  items[#items + 1] = {kind = "prose", file = main, line = 1, text = first.text}
  for _, name in ipairs(order) do
    items[#items + 1] = {kind = "file", file = folder .. "/" .. name, level = 2,
      is_main = name == "main.c"}
    add_file(items, run, folder .. "/" .. name, name, is_shown)
  end
  add_exercises(items, folder, build)
  local rest = others(folder, shown)
  if #rest > 0 then
    items[#items + 1] = {kind = "heading", level = 2, text = "Other files of this chapter"}
    for _, name in ipairs(rest) do
      fold(items, name)
      add_file(items, run, folder .. "/" .. name, name, is_shown)
      end_fold(items)
    end
  end
  local lost = {} -- functions whose output has no place: the run is of older sources
  for _, piece in ipairs(run and run.pieces or {}) do
    if not piece.is_placed and piece.text:match("%S") then lost[#lost + 1] = piece.name .. "()" end
  end
  add_answers(items, folder)
  return {number = folder:match("chapters/(%d+)"), folder = folder, title = title, items = items,
    run = run, head = first.text, lost = lost}
end

return chapter
