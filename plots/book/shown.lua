-- shown.lua: puts the lines that shown.sh has kept behind the commands that printed them, in place of the marks.
local source = require("source")
local shown = {}

-- The Markdown text of a page, and where its output is from; nil if it shows none.
function shown.fill(text, build)
  local folder = build .. "/runs/questions/"
  local lines, filled = {}, false
  for command, mark, kept in ((source.read(folder .. "shown") or "") .. "\t"):gmatch("\t([^\t\n]+)\t([^\n]+)\n([^\t]*)%f[\t]") do
    lines[command .. mark] = kept
  end
  text = text:gsub("(```sh\n([^\n]+)\n```\n)<!%-%- ([^\n]*shows: [^\n]+) %-%->", function(block, command, mark)
    local kept = lines[command .. mark]
    filled = filled or kept
    return kept and ("%s\n```printed\n%s```"):format(block, kept) or block
  end)
  return text, filled and source.read(folder .. "about")
end

return shown
