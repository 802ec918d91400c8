-- questions.lua: numbered questions, and the answers to them in a file of their own.
local source = require("source")
local questions = {}

-- What stands below the heading "## <title>", up to the next one of that kind; nil if it is not there.
function questions.section(text, title)
  local _, to = ("\n" .. text):find("\n## " .. title .. "%f[\n\0]")
  if not to then return nil end
  local below = text:sub(to)
  return below:sub(1, (below:find("\n## ", 1, true) or #below + 1) - 1)
end

function questions.count(text) return select(2, ("\n" .. text):gsub("\n%d+[.)] ", "")) end

-- The answers in the file at path have to be a numbered list, one for each of so many questions.
function questions.check_answers(path, text, expected)
  local seen = 0
  for i, line in ipairs(source.lines(text)) do
    local number = line:match("^(%d+)[.)] ")
    if number then
      seen = seen + 1
      if tonumber(number) ~= seen then
        source.die(path, i, ("answer %s where answer %d belongs"):format(number, seen),
          "number them as the questions are")
      end
    elseif line ~= "" and (seen == 0 or not line:match("^ ")) then
      source.die(path, i, "text that belongs to no answer",
        "answers are a numbered list, further lines of an answer begin with spaces")
    end
  end
  if seen ~= expected then
    source.die(path, #source.lines(text), ("%d answers to %d questions"):format(seen, expected),
      "one for each, in the same order")
  end
end

return questions
