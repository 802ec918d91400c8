-- chapter.lua: a chapter as a list of what a reader meets, one after the other, whatever it will be
-- rendered as. First the head (README.md), then the story (main.c), with the teaching files before its summary, then
-- exercises; last, and folded, what the program needs besides.
--
--     {kind = "prose",   file =, text = Markdown, shift = how much deeper its headings become,
--                        answers = {file =, text = Markdown}}   to the questions in it, if they are written
--     {kind = "how",     file =, text = Markdown}               how to run it, and what to read
--     {kind = "heading", level =, text =, code = name of a file, id =}
--     {kind = "code",    file =, line =, last =, text =, output = what it printed}
--     {kind = "printed", file =, text =, output = what it printed}   of code in behind/, which stays there
--     {kind = "predict", text =}                                a question before the code, or where a paragraph places it
--                                                               (ch.run.answers[text] = {answer =, unit =}, if it came out)
--     {kind = "exercise" / "end exercise", id =, text = title, about =}         an exercise's files, shown on demand
--     {kind = "starter" / "end starter", file =, id = of the exercise, text =}  the file that a student changes
--     {kind = "run"}                                            where a notebook runs the chapter
--     {kind = "fold" / "end fold", title =, path =}             a file, or a .c and its .h, shown on demand
--     {kind = "in page", folder =}                              where the program runs in the page
--     {kind = "pytorch", chapter =}                             where its program in PyTorch is shown
--     {kind = "rest",    output =}                              what was printed by functions that are not shown
--     {kind = "anchor",  path =}                                where links to a file lead that is shown already
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
chapter.files_in = files_in

-- ---- what a run has left ----------------------------------------------------------------------

-- The run of a chapter: how it was run, and its output, cut into what each call printed; nil if it never ran.
function chapter.run(folder)
  local stdout = source.read(folder .. "/stdout")
  if not stdout then return nil end
  local run = {folder = folder, stdout = stdout, pieces = {}, answers = {}, about = source.read(folder .. "/about") or ""}
  for from, to, calls in (source.read(folder .. "/functions") or ""):gmatch("(%d+) (%d+) ([^\n]+)\n") do
    run.pieces[#run.pieces + 1] = {text = stdout:sub(tonumber(from) + 1, tonumber(to)), calls = calls}
  end
  for question, answer, unit in (source.read(folder .. "/answers") or ""):gmatch("([^\n\t]+)\t([^\n\t]+)\t([^\n]*)\n") do
    run.answers[question] = {answer = answer, unit = unit}
  end
  return run
end

-- ---- which files there are, and in which order ------------------------------------------------

-- The files of the chapter's folder that the sentence "Read in this order" of its head names, in that
-- order.
local function reading_order(folder, head)
  local sentence = head:match("Read in this order:?(.-)\n\n") or head:match("Read in this order:?(.*)$") or ""
  local order, shown = {}, {["main.c"] = true}
  for name in sentence:gmatch("[%w_/]+%.c%f[^%w_]") do
    if not shown[name] and exists(folder .. "/" .. name) then order[#order + 1] = name end
    shown[name] = true
  end
  return order, shown
end

local function others(folder, shown)
  local list = {}
  for _, under in ipairs({"", "behind/"}) do
    for _, name in ipairs(files_in(folder .. "/" .. under)) do
      if name:match("%.[ch]$") and not shown[name] then list[#list + 1] = under .. name end
    end
  end
  return list
end

-- ---- functions that the story names -----------------------------------------------------------

-- "lenet.c:train_batch", a paragraph of its own, stands for that function.
local PLACED = "^%s*([%w_/]+%.[ch]u?):([%w_]+)%s*$"

-- The items that the line `named` stands for: the function, and before it the comment right above it. They are left
-- out where their file is shown: ch.placed[path:line]. A function that asks the reader something stands for its
-- questions, and is plumbing: ch.asked[path:line]. One in behind/ stands for what it prints.
local function function_items(ch, named, from, line)
  local file, name = named:match(PLACED)
  for _, path in ipairs({ch.folder .. "/" .. file, "chapters/" .. file, file}) do
    local above
    for i, block in ipairs(exists(path) and source.blocks(path) or {}) do
      for n, piece in ipairs(block.code and source.pieces(block) or {}) do
        if source.defines(piece.text, name) then
          local questions_of = source.predictions(piece.text)
          if #questions_of > 0 then
            ch.asked[path .. ":" .. piece.line] = true
            for q, question in ipairs(questions_of) do questions_of[q] = {kind = "predict", text = question} end
            return questions_of
          end
          if file:match("^behind/") then
            return {{kind = "printed", file = path, text = piece.text, in_story = true}}
          end
          local has_own = n == 1 and i > 2 and above and above.last + 1 == block.line and not ("\n" .. above.text):match("\n#")
          ch.placed[path .. ":" .. piece.line] = true
          if has_own then ch.placed[path .. ":" .. above.line] = true end
          local code = {kind = "code", file = path, line = piece.line, last = piece.last, text = piece.text, in_story = true}
          return has_own and {{kind = "prose", file = path, text = above.text, shift = 0}, code} or {code}
        end
      end
      above = block.prose and block
    end
  end
  source.die(from, line, named .. " is not there", "the name of a file, and of a function that it defines")
end

-- "recorded:hang", a paragraph of its own, stands for what one more run printed (run.sh), as a block of code.
local RECORDED = "^%s*recorded:(%w+)%s*$"
local function recorded(ch, path, name)
  local said = ch.run and source.read(ch.run.folder .. "/recorded." .. name)
  return said and {{kind = "prose", file = path, text = "```\n" .. said .. "```", shift = 0}} or {}
end

local function add(items, more)
  for _, item in ipairs(more) do items[#items + 1] = item end
end

-- The paragraphs of main.c as items, with the functions that they name; and whether there are any, and whether they
-- are code of its own.
local function story_items(ch, path, block)
  local items, text = {}, {}
  local function flush()
    if table.concat(text):match("%S") then
      items[#items + 1] = {kind = "prose", file = path, text = table.concat(text, "\n"), shift = 0}
    end
    text = {}
  end
  for i, said in ipairs(source.lines(block.text)) do
    if said:match(PLACED) then
      flush()
      local placed = function_items(ch, said, path, block.line + i - 1)
      add(items, placed)
      items.places = true
      items.names_functions = items.names_functions or placed[#placed].kind == "code" and placed[#placed].file == path
    elseif said:match(RECORDED) then
      flush()
      add(items, recorded(ch, path, said:match(RECORDED)))
    else
      text[#text + 1] = said
    end
  end
  flush()
  return items
end

-- ---- files ------------------------------------------------------------------------------------

-- A block of code, without what stands elsewhere; functions whose questions do are plumbing, if there is any.
local function add_code(ch, items, path, block, in_story, plumbing)
  local pieces = {}
  for _, piece in ipairs(source.pieces(block)) do
    local place = path .. ":" .. piece.line
    if not ch.placed[place] then pieces[#pieces + 1] = piece end
    for _, question in ipairs(ch.placed[place] and {} or ch.asked[place] and {} or source.predictions(piece.text)) do
      items[#items + 1] = {kind = "predict", text = question}
    end
  end
  local code, before
  for _, piece in ipairs(pieces) do
    local into = ch.asked[path .. ":" .. piece.line] and plumbing or items
    if into == before and piece.line <= code.last + 2 then
      code.text, code.last = code.text .. ("\n"):rep(piece.line - code.last) .. piece.text, piece.last
    else
      code = {kind = "code", file = path, line = piece.line, last = piece.last, text = piece.text,
        in_story = in_story and into == items}
      into[#into + 1] = code
    end
    before = into
  end
end

-- The blocks of a file. ("// times.c: how long .." is said under the heading times.c already.)
local function add_file(ch, items, path, shift, text)
  for i, block in ipairs(source.blocks(path, text)) do
    if block.code then
      add_code(ch, items, path, block)
    elseif not ch.placed[path .. ":" .. block.line] then
      local said = i == 1 and block.text:gsub("^[%w_.]+%.[ch]u?: (%l?)", string.upper) or block.text
      items[#items + 1] = {kind = "prose", file = path, text = said, shift = shift}
    end
  end
end

local function heading(level, text, id)
  return {kind = "heading", level = level, text = text, id = id or "s-" .. text:lower():gsub("%W", "-")}
end

local function file_heading(path, level, text)
  return {kind = "heading", level = level, text = text or "", code = path:match("[^/]+$"), path = path}
end

local function add_folded(ch, items, title, paths)
  items[#items + 1] = {kind = "fold", title = title, path = paths[1]}
  for i, path in ipairs(paths) do
    if i > 1 then items[#items + 1] = file_heading(path, 4) end
    add_file(ch, items, path, 3)
  end
  items[#items + 1] = {kind = "end fold"}
end

-- Whether the story shows code of this file, and whether it leaves some.
local function what_is_shown(ch, path)
  local shows, leaves = false, false
  for _, block in ipairs(source.blocks(path)) do
    for _, piece in ipairs(block.code and source.pieces(block) or {}) do
      local is_shown = ch.placed[path .. ":" .. piece.line] or false
      shows, leaves = shows or is_shown, leaves or not is_shown
    end
  end
  return shows, leaves
end

local function add_anchor(items, path)
  for i, item in ipairs(items) do
    if item.file == path then return table.insert(items, i, {kind = "anchor", path = path}) end
  end
end

-- What the page has not shown of the files: a fold for each, or for a .c and its .h.
local function add_others(ch, items, shown)
  local folds = {}
  for _, name in ipairs(others(ch.folder, shown)) do
    local path, stem, last = ch.folder .. "/" .. name, name:match("^(.*)%."), folds[#folds]
    local shows, leaves = what_is_shown(ch, path)
    if shows and not leaves then
      add_anchor(items, path)
    elseif last and last.stem == stem then
      last.title, last.paths[2] = last.title .. " and " .. name:match("[^/]+$"), path
      last.is_rest = last.is_rest or shows
    else
      folds[#folds + 1] = {stem = stem, title = name, paths = {path}, is_rest = shows}
    end
  end
  for _, fold in ipairs(folds) do add_folded(ch, items, (fold.is_rest and "The rest of " or "") .. fold.title, fold.paths) end
end

-- A file alone.
function chapter.file(path)
  local items = {file_heading(path, 2)}
  add_file({placed = {}, asked = {}}, items, path, 2)
  return items
end

-- ---- the story --------------------------------------------------------------------------------

-- main.c in three parts: the story, its end from the summary on, and plumbing: what comes before the first section,
-- main()'s section, and the other functions of a section that names the ones to show.
local function story_of(ch, main)
  local story, ending, plumbing = {}, {}, {}
  local blocks, items = source.blocks(main), {}
  local last_section, main_section
  for i, block in ipairs(blocks) do
    if block.prose and i > 1 then
      items[i] = story_items(ch, main, block)
      block.title = ("\n" .. block.text):match("\n## ([^\n]+)")
      last_section = block.title and i or last_section
    elseif block.code and block.text:match("%f[%w_]int main%(") then
      main_section = last_section or i
    end
  end
  local part, goes_on = plumbing, true
  for i, block in ipairs(blocks) do
    if i == main_section then part, goes_on = plumbing, false end
    if block.title and goes_on then part = (block.title == "Summary" or part == ending) and ending or story end
    if block.title then part.names_functions = false end
    if items[i] then part.names_functions = part.names_functions or items[i].names_functions end
    local below = blocks[i + 1]
    local is_above_code = items[i] and not block.title and not items[i].places and below and below.line == block.last + 1
    local is_other = part.names_functions and (block.code or is_above_code) or
      is_above_code and ch.asked[main .. ":" .. below.line]
    if items[i] and not ch.placed[main .. ":" .. block.line] then
      add(is_other and plumbing or part, items[i])
    elseif block.code then
      add_code(ch, is_other and plumbing or part, main, block, part ~= plumbing and not is_other, plumbing)
    end
  end
  return story, ending, plumbing
end

local function add_answers(items, folder)
  local path = folder .. "/answers.md"
  local text, asked = source.read(path), nil
  for _, item in ipairs(text and items or {}) do
    local section = item.kind == "prose" and questions.section(item.text, "Questions")
    if section then asked, item.answers = section, {file = path, text = text} end
  end
  if asked then
    questions.check_answers(path, text, questions.count(asked))
  elseif text then
    source.die(path, 1, "answers without questions", "## Questions in main.c asks them")
  end
end

-- ---- exercises --------------------------------------------------------------------------------

local function add_exercise(ch, items, name)
  local path = ch.folder .. "/exercises/" .. name .. "/"
  local number = name:match("^(%d+)_")
  local id, yours = ch.number .. "-" .. number, path .. "your_part.c"
  local text = source.read(yours)
  local title, below = text:match("^// # Exercise %d+: ([^\n]+)(.*)$")
  if not title then source.die(yours, 1, "an exercise begins with its title", "// # Exercise 1: what to do") end
  add(items, {{kind = "exercise", id = id, text = "Exercise " .. id .. ": " .. title:gsub("^%l", string.upper),
    about = text:match("\n// Difficulty: ([^\n]+)")}, file_heading(yours, 4, "The file that you change: "),
    {kind = "starter", file = yours, id = id, text = text}})
  add_file(ch, items, yours, 3, "//" .. below)
  items[#items + 1] = {kind = "end starter"}
  for _, file in ipairs(files_in(path)) do
    if file ~= "your_part.c" and file ~= "solution.c" and file:match("%.[ch]$") then add_folded(ch, items, file, {path .. file}) end
  end
  items[#items + 1] = {kind = "end exercise"}
end

-- One that asks for no code: question.md, and the experiment's files.
local function add_question(ch, items, name)
  local path = ch.folder .. "/exercises/" .. name .. "/"
  local id, file = ch.number .. "-" .. name:match("^(%d+)_"), path .. "question.md"
  local title, below = source.read(file):match("^# Exercise [%d-]+: ([^\n]+)\n(.*)$")
  if not title then source.die(file, 1, "a question begins with its title", "# Exercise 01-1: what for?") end
  add(items, {{kind = "exercise", id = id, text = "Exercise " .. id .. ": " .. title:gsub("^%l", string.upper),
    about = "a question and an experiment"}, {kind = "prose", file = file, text = below, shift = 3}})
  for _, other in ipairs(files_in(path)) do
    if other:match("%.[ch]$") then add_folded(ch, items, other, {path .. other}) end
  end
  items[#items + 1] = {kind = "end exercise"}
end

-- Below the section of main.c that speaks of them, if it ends with one.
local function add_exercises(ch, items)
  local has_section = #items > 0 and ("\n" .. (items[#items].text or "")):match("\n## Exercises\n") ~= nil
  local has_any = false
  for _, name in ipairs(files_in(ch.folder .. "/exercises")) do
    local path = ch.folder .. "/exercises/" .. name
    local has_code, asks = exists(path .. "/your_part.c"), exists(path .. "/question.md") and exists(path .. "/experiment.c")
    if has_code or asks then
      if not has_any and not has_section then items[#items + 1] = heading(2, "Exercises") end
      has_any = true
      local add_it = has_code and add_exercise or add_question
      add_it(ch, items, name)
    end
  end
end

-- ---- what was printed -------------------------------------------------------------------------

-- Of the functions that were running, main() first, it is below the first that the story shows; else below the first
-- that a teaching file shows. (Not found by its line: with RUN=0 that may be another now.)
local function place_outputs(ch)
  local shown, folds = {}, 0
  for _, item in ipairs(ch.items) do
    folds = folds + (item.kind == "fold" and 1 or item.kind == "end fold" and -1 or 0)
    if (item.kind == "code" or item.kind == "printed") and folds == 0 then shown[#shown + 1] = item end
  end
  local function showing(calls, in_story)
    for file, name in calls:gmatch("(%S-):%d+:([%w_]+)") do
      for _, item in ipairs(shown) do
        if item.file == file and (item.in_story or not in_story) and name ~= "main" and
          source.defines(item.text, name) then return item end
      end
    end
  end
  for _, piece in ipairs(ch.run.pieces) do
    local item = showing(piece.calls, true) or showing(piece.calls, false) or ch.rest
    item.output = (item.output or "") .. piece.text
  end
end

-- ---- the whole --------------------------------------------------------------------------------

-- The chapter in the folder chapters/NN_name. What it needs of a build is in the folder `build`.
function chapter.open(folder, build)
  local main, readme = folder .. "/main.c", folder .. "/README.md"
  local head = source.read(readme) or source.die(readme, nil, "a chapter without its head", "# 4. Title")
  local title = head:match("^# %d+%. ([^\n]+)") or source.die(readme, 1, "a chapter begins with its title", "# 4. Title")
  local ch = {number = folder:match("chapters/(%d+)"), folder = folder, title = title, head = head, placed = {}, asked = {},
    run = chapter.run(build .. "/runs/" .. folder:match("[^/]+$")), rest = {kind = "rest"}}
  local order, shown = reading_order(folder, head)
  local story, ending, plumbing = story_of(ch, main)
  local text = head:gsub("^# [^\n]+\n", "") .. "\n"
  local what, how = text:match("^(.-\n)%*%*How to run%*%*\n(.*)$")
  local items = {{kind = "prose", file = readme, text = what or text, shift = 0}}
  if how then items[2] = {kind = "how", file = readme, text = how} end
  ch.items = items
  add(items, story)
  for _, name in ipairs(order) do
    items[#items + 1] = file_heading(folder .. "/" .. name, 2)
    add_file(ch, items, folder .. "/" .. name, 1)
  end
  add(items, {{kind = "in page", folder = folder}, {kind = "pytorch", chapter = ch}})
  add(items, ending)
  add_exercises(ch, items)
  add(items, {{kind = "run"}, heading(2, "The rest of the program", "rest"),
    {kind = "fold", title = "The rest of main.c", path = main}, ch.rest})
  for _, item in ipairs(plumbing) do
    item.shift = 3
    if item.text:match("## Questions") then source.die(main, nil, "questions in main()'s section", "// ## The program") end
  end
  add(items, plumbing)
  items[#items + 1] = {kind = "end fold"}
  add_others(ch, items, shown)
  if ch.run then place_outputs(ch) end
  add_answers(items, folder)
  return ch
end

return chapter
