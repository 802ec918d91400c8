-- notebook.lua: a reader for pandoc that makes a chapter's notebook, in nbformat 4.5, of its main.c. See book.sh.
--
-- What one reads are cells of Markdown, as Jupyter, Colab and editors know it. What one does are
-- cells of Python: set the machine up, run the chapter, look at its pictures, write an exercise's
-- file and check it. Those that run the chapter have the outputs of the recorded run.
--
-- BOOK_REPOSITORY is where a copy of the project can be had; else it is git's remote "origin".
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or ".book"
package.path = here .. "/?.lua;" .. package.path
local source = require("source")
local chapter = require("chapter")
local json = require("json")

local JUPYTERS = "gfm-raw_html+tex_math_dollars" -- Markdown
local FOLDED_FROM = 26 -- lines of code

-- ---- where the project is ---------------------------------------------------------------------

-- Git's address as anybody can use it: no name or password in it, no key needed; "" if it is a path.
local function public_address(remote)
  local host, path = remote:match("^[%w_.-]+@([%w.-]+):([^/].*)$")
  if host then return "https://" .. host .. "/" .. path end
  host = remote:match("^ssh://(.+)$")
  if host then return "https://" .. host:gsub("^[^/@]*@", ""):gsub("^([^/]-):%d+/", "%1/") end
  local scheme, rest = remote:match("^(https?://)(.+)$")
  return scheme and scheme .. rest:gsub("^[^/]*@", "") or ""
end

local function repository()
  local given = os.getenv("BOOK_REPOSITORY")
  if given and given ~= "" then return given end
  local git = io.popen("git config --get remote.origin.url 2>/dev/null")
  local remote = git:read("l") or ""
  git:close()
  return public_address(remote)
end

-- ---- cells ------------------------------------------------------------------------------------

local cells, ids, runs

-- The lines of a text, each with its end, as notebooks have them.
local function list_of_lines(text)
  local list = {}
  for line in text:gmatch("[^\n]*\n?") do
    if line ~= "" then list[#list + 1] = line end
  end
  return json.list(list)
end

-- Named after what it is about, so that it keeps its id when another cell comes or goes.
local function id_of(name)
  local id = name:lower():gsub("[^%w]+", "-"):gsub("^%-", ""):sub(1, 56):gsub("%-$", "")
  ids[id] = (ids[id] or 0) + 1
  return ids[id] == 1 and id or id .. "-" .. ids[id]
end

local function add_cell(cell_type, name, text)
  local cell = {cell_type = cell_type, id = id_of(name), metadata = {}, source = list_of_lines(text)}
  cells[#cells + 1] = cell
  return cell
end

-- A cell of Python. `output` is what it put out in the recorded run, if it was in it.
local function add_code(name, text, output)
  local cell = add_cell("code", name, text)
  runs = runs + 1
  cell.outputs = json.list({output})
  cell.execution_count = output and runs or json.null
end

local function stream(text) return {output_type = "stream", name = "stdout", text = list_of_lines(text)} end

local function png(path)
  return {output_type = "display_data", metadata = {}, data = {["image/png"] = json.base64(source.read(path)),
    ["text/plain"] = json.list({"<IPython.core.display.Image object>"})}}
end

-- Markdown collects until a heading, or a cell of Python, begins the next cell.
local parts, title = {}, nil

local function flush()
  if #parts > 0 then add_cell("markdown", title, table.concat(parts, "\n\n")) end
  parts = {}
end

local function say(text) parts[#parts + 1] = text end

local function heading(level, text)
  flush()
  title = text
  say(("#"):rep(math.min(level, 6)) .. " " .. text)
end

-- ---- prose ------------------------------------------------------------------------------------

-- Pages of this book stand beside the notebook; files of the project do not.
local function link(element)
  local target = element.target
  if target:match("^%a+:") then return pandoc.Link(element.content, target) end
  local page, number = target:match("([%w_]+)%.md$"), target:match("(%d%d)_[%w_]+/?$")
  if not page and not number then return element.content end
  return pandoc.Link(element.content, page and page .. ".html" or number .. ".ipynb")
end

-- What pandoc knows and Jupyter does not, said otherwise.
local PLAIN = {
  Link = link,
  Div = function(div) return div.content end,
  Span = function(span) return span.content end,
  Note = function(note)
    local inlines = pandoc.utils.blocks_to_inlines(note.content)
    inlines:insert(1, pandoc.Str(" ("))
    inlines:insert(pandoc.Str(")"))
    return inlines
  end,
}

local function markdown(blocks) return (pandoc.write(pandoc.Pandoc(blocks), JUPYTERS):gsub("%s+$", "")) end

-- Adds Markdown of ours as that of Jupyter; headings become `shift` levels deeper. Inside a fold all is one cell.
local function prose(text, shift, folded)
  local read = pandoc.read(source.markdown(source.titles(text)), source.MARKDOWN)
  local blocks = pandoc.walk_block(pandoc.Div(read.blocks), PLAIN).content
  local together = {}
  local function done()
    if #together > 0 then say(markdown(together)) end
    together = {}
  end
  for _, block in ipairs(blocks) do
    if block.t == "Header" then
      local level, content = math.min(block.level + shift, 6), markdown({pandoc.Plain(block.content)})
      if not folded then
        done()
        heading(level, content)
      else
        together[#together + 1] = pandoc.Header(level, block.content)
      end
    else
      together[#together + 1] = block
    end
  end
  done()
end

-- ---- code and output --------------------------------------------------------------------------

-- A block of text that may have ``` in it.
local function fenced(text, language)
  local fence = "```"
  while text:find(fence, 1, true) do fence = fence .. "`" end
  return fence .. language .. "\n" .. text .. "\n" .. fence
end

local function details(summary, text)
  return "<details>\n<summary>" .. summary .. "</summary>\n\n" .. text .. "\n\n</details>"
end

-- The functions that a piece of code defines: "a(), b()".
local function functions_in(code)
  local list = {}
  for name in ("\n" .. code):gmatch("\n%a[^\n=;]-([%w_]+)(%b())%s*{") do list[#list + 1] = name .. "()" end
  return table.concat(list, ", ")
end

local function code(item, folded)
  local text, name = fenced(item.text, "c"), "<code>" .. item.file:match("[^/]+$") .. "</code>"
  local _, ends = item.text:gsub("\n", "")
  if source.is_includes(item.text) and not folded then
    say(details("what " .. name .. " includes", text))
  elseif ends + 1 < FOLDED_FROM or folded then
    say(text)
  else
    local what = functions_in(item.text)
    say(details(("%s, lines %d to %d%s"):format(name, item.line, item.last, what ~= "" and ": " .. what or ""),
      text))
  end
end

-- ---- what one does ----------------------------------------------------------------------------

-- IPython's ! gives commands a terminal, and sudo would wait there for a password that nobody can type; so setsid.
local SETUP = [[
# Run this cell first. It looks for the project here and in the folders above, else it
# makes a copy of it. Then it installs what is missing, and compiles all chapters.
import os, pathlib, shutil

REPOSITORY = "%s"  # where to copy the project from
COPY = pathlib.Path("training-on-multiple-gpus")

def project():
    for folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents, COPY.absolute()):
        if (folder / "%s").exists():
            return folder

as_root = "" if os.geteuid() == 0 else "sudo -n "
if not shutil.which("git") or not shutil.which("make"):
    !{as_root}apt-get -q update
    !{as_root}apt-get -q install -y git make ca-certificates
if not project() and REPOSITORY:
    !git clone --depth 1 "{REPOSITORY}" {COPY}
if not project():
    raise FileNotFoundError(
        "The project that this notebook belongs to is not here. Put its address, as git "
        "clone wants it, into REPOSITORY above; or open the notebook in a copy of the "
        "project. Then run this cell again.")
%%cd {project()}
!setsid --wait make setup  # without a terminal: sudo must not wait for a password
!make
%%run plots/book/notebook.py]]

local function add_head(ch, about)
  local address = repository()
  heading(1, ch.title)
  if about then
    say(("The outputs in this notebook are those of `%s` on %s, %s, version %s."):format(about.command or "?",
      about.machine or "?", about.date or "?", about.version or "?"))
  end
  say("The chapter is a C program. Here it is read from top to bottom, then run; in cells of Python, because they " ..
    "need nothing but what Jupyter has. *Run all* works on a Debian or Ubuntu machine, with or without a GPU" ..
    (address == "" and ", if the notebook lies in a copy of the project" or "") ..
    ": the next cell installs what is missing, and compiles, which takes some minutes where it was not done before.")
  flush()
  add_code("setup", SETUP:format(address:gsub('[\\"]', "\\%0"), ch.folder .. "/main.c"))
end

-- What lines of the output name, each once, and what its line says of it, if it is of this picture alone.
local function pictures_of(run)
  local list, seen = {}, {}
  for _, line in ipairs(source.lines(run.stdout)) do
    local said, names = line:gsub(":? *plots/[%w_.-]+", "")
    for name in line:gmatch("plots/([%w_.-]+%.png)") do
      if not seen[name] then
        list[#list + 1] = {name = name, path = run.folder .. "/plots/" .. name, caption = names == 1 and said or ""}
      end
      seen[name] = true
    end
  end
  return list
end

local function add_run(ch)
  heading(2, "Running it")
  say("Below is what the recorded run printed; when you run the cell, it is what your machine prints.")
  flush()
  add_code("run-" .. ch.number, "!make run-" .. ch.number, ch.run and stream(ch.run.stdout))
  for _, picture in ipairs(ch.run and pictures_of(ch.run) or {}) do
    if not chapter.exists(picture.path) then
      source.die(picture.path, nil, "the run names this picture and did not write it", "run make book again")
    end
    local comment = picture.caption:match("%S") and "  # " .. picture.caption:match("^%s*(.*)$") or ""
    add_code("picture-" .. picture.name:gsub("%.png$", ""), ('show("plots/%s")%s'):format(picture.name, comment),
      png(picture.path))
  end
end

local function add_starter(item, id)
  local starter = item.text:gsub("%s+$", "") .. "\n"
  say(("Your part is `%s`. The cell below is the whole file: write your code into it, run it, then run the check. " ..
    "As long as the cell is unchanged, it leaves a solution of yours alone that is in the file already. (The check " ..
    "of the starter ends with an error: something is missing, as it should.)"):format(item.file))
  flush()
  local digest = pandoc.utils.sha1((starter:gsub("%s+$", ""):gsub("^%s+", "")))
  add_code("your-part-" .. id, ("%%%%your_part %s %s\n%s"):format(item.file, digest, starter))
  add_code("check-" .. id, ("!make exercise-%s ARGS=--check"):format(id))
end

-- ---- the items of a chapter -------------------------------------------------------------------

-- Where in the chapter we are.
local at

local makers = {
  run = function() end, -- said at the head
  prose = function(item)
    if at.starter then return end -- it is in the cell
    prose(item.text:gsub("^# [^\n]+\n*", ""), at.shift, at.folded)
  end,
  heading = function(item)
    at.shift, at.yours, at.starter = 0, nil, false
    heading(item.level, item.text)
  end,
  exercise = function(item)
    at.id, at.yours, at.starter = item.id, nil, false
    heading(3, item.id .. " " .. item.title)
  end,
  file = function(item)
    at.shift = item.is_main and 0 or item.level - 1
    at.in_main, at.yours = item.is_main, item.yours and item
    if not item.yours then heading(item.level, "`" .. item.file:match("[^/]+$") .. "`") end
  end,
  predict = function(item) say("> **Predict first.** " .. item.text) end,
  code = function(item)
    if not at.yours then
      code(item, at.folded)
    elseif not at.starter then
      add_starter(at.yours, at.id)
      at.starter = true
    end
    at.behind_main = at.in_main and item.text:match("int main%(")
  end,
  output = function(item)
    if at.behind_main then return end -- it is in the output of the run
    say("*printed in the recorded run:*\n\n" .. fenced((item.text:gsub("^\n+", "")), "text"))
  end,
  picture = function()
    if not at.behind_main then say("*(This picture is shown below `make run-" .. at.number .. "`.)*") end
  end,
  answers = function(item)
    say("**Answers**")
    prose(item.text, 2)
  end,
  fold = function(item)
    flush()
    title = item.title
    say("<details>\n<summary><code>" .. item.title .. "</code></summary>")
    at.folded, at.shift, at.yours, at.starter = true, 3, nil, false
  end,
  ["end fold"] = function()
    say("</details>")
    flush()
    at.folded = false
  end,
}

-- main() is the last code of main.c; behind it, and what is said to have been printed there, the chapter is run.
local function add_items(ch)
  at = {number = ch.number}
  local ran = false
  for _, item in ipairs(ch.items) do
    if at.behind_main and item.kind ~= "output" and item.kind ~= "picture" then
      add_run(ch)
      at.behind_main, ran = false, true
    end
    makers[item.kind](item)
  end
  if not ran then add_run(ch) end
  flush()
end

-- ---- the reader -------------------------------------------------------------------------------

function Reader(inputs)
  local folder = inputs[1].name:match("^(.*)/main%.c$")
  local ch = chapter.open(folder, os.getenv("BOOK_BUILD"))
  cells, ids, runs = json.list({}), {}, 0
  add_head(ch, ch.run and ch.run.about)
  add_items(ch)
  local notebook = {nbformat = 4, nbformat_minor = 5, cells = cells, metadata = {
    kernelspec = {display_name = "Python 3", language = "python", name = "python3"},
    language_info = {name = "python"}, title = ch.title}}
  return pandoc.Pandoc({pandoc.RawBlock("plain", json.encode(notebook))})
end
