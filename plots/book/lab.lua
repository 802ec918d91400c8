-- lab.lua: a chapter's lab sheet, chapters/NN_name/lab.md: one page for a class, with steps and questions. The
-- answers, and what the instructor should know, are in lab_answers.md beside it: a numbered list, and below it
-- "## For the instructor".
local source = require("source")
local questions = require("questions")
local lab = {}

-- "**Time.** 80 minutes" has to be the sum of what the steps take, "3. (15 min) ..".
local function check_time(path, text, steps)
  local minutes, sum, n = tonumber(text:match("\n%*%*Time%.%*%* (%d+) minutes")), 0, 0
  if not minutes then
    source.die(path, source.line_of(path, "**Time") or 1, "it does not say how long it takes", "**Time.** 80 minutes")
  end
  for step in steps:gmatch("\n(%d+[.)] [^\n]*)") do
    n = n + 1
    local takes = step:match("^" .. n .. "[.)] %((%d+) min%)")
    if not takes then
      source.die(path, source.line_of(path, step), "a step without its number or its time", ("%d. (10 min) .."):format(n))
    end
    sum = sum + takes
  end
  if sum ~= minutes then
    source.die(path, source.line_of(path, "**Time"), ("%d minutes, and its steps take %d"):format(minutes, sum),
      "one of them is wrong")
  end
end

local function read_answers(path, expected)
  local text = source.read(path)
  if not text then return nil end
  local list = text:match("^(.-)\n## ") or text
  questions.check_answers(path, list, expected)
  local note = questions.section(text, "For the instructor") or
    source.die(path, 1, "nothing for the instructor", "## For the instructor, below the answers")
  return {list = list, note = note}
end

-- The lab of the sheet at path. It has answers if there are any, and this is the instructor's edition.
function lab.open(path)
  local text = source.read(path)
  local number = path:match("chapters/(%d+)")
  local title = text:match("^# Lab " .. number .. ": ([^\n]+)\n")
  if not title then source.die(path, 1, "a lab sheet begins with its title", "# Lab " .. number .. ": Title") end
  local parts = {}
  for _, name in ipairs({"Steps", "Questions", "Hand in"}) do
    parts[name] = questions.section(text, name) or
      source.die(path, 1, "a lab sheet without ## " .. name, "it has Steps, Questions and Hand in")
  end
  check_time(path, text, parts.Steps)
  local answers_path = path:gsub("lab%.md$", "lab_answers.md")
  local answers = read_answers(answers_path, questions.count(parts.Questions))
  if os.getenv("BOOK_EDITION") ~= "instructor" then answers = nil end
  return {number = number, title = title, text = text:gsub("^# [^\n]+\n", ""), answers = answers,
    answers_path = answers_path}
end

return lab
