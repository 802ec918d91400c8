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

-- (Paragraphs, also where a short list has none: Markdown of notebooks needs the empty lines around a fold.)
local function with_fold(question, answer)
  local item = {}
  local function add(blocks)
    for _, block in ipairs(blocks) do item[#item + 1] = block.t == "Plain" and pandoc.Para(block.content) or block end
  end
  add(question)
  add({pandoc.RawBlock("html", "<details>\n<summary>Answer</summary>")})
  add(answer)
  add({pandoc.RawBlock("html", "</details>")})
  return item
end

-- Adds the answers, blocks of the file at path, to the blocks that ask: each in a fold below its question or, where there
-- are no folds, all behind the last question.
function questions.answer(blocks, path, answers, has_folds)
  local all, given, out, is_here = {}, 0, {}, false
  for _, block in ipairs(answers) do
    if block.t ~= "OrderedList" then
      source.die(path, source.line_of(path, pandoc.utils.stringify(block):match("%S+") or ""),
        "text that belongs to no answer", "further paragraphs of an answer begin with three spaces")
    end
    for _, item in ipairs(block.content) do all[#all + 1] = item end
  end
  for _, block in ipairs(blocks) do
    if block.t == "Header" and block.level == 2 then is_here = pandoc.utils.stringify(block.content) == "Questions" end
    local is_list, items = is_here and block.t == "OrderedList", {}
    for i, question in ipairs(is_list and block.content or {}) do
      given = given + 1
      items[i] = has_folds and with_fold(question, all[given] or {}) or question
    end
    out[#out + 1] = is_list and pandoc.OrderedList(items, block.listAttributes) or block
    if is_list and not has_folds and given == #all then
      out[#out + 1] = pandoc.Div({pandoc.Para({pandoc.Strong({pandoc.Str("Answers")})}), pandoc.OrderedList(all)}, {class = "answers"})
    end
  end
  if given ~= #all then
    source.die(path, nil, ("%d answers to %d questions"):format(#all, given), "both are numbered lists of Markdown")
  end
  return out
end

return questions
