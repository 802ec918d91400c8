-- notebook.lua: a reader for pandoc that makes a chapter's notebook of its main.c. See book.sh.
--
-- What one reads are cells of Markdown, as Jupyter, Colab and editors know it. What one does are
-- cells of Python: set the machine up, run the chapter, look at its pictures, write an exercise's
-- file and check it. Those that run the chapter have the outputs of the recorded run.
--
-- BOOK_REPOSITORY is where a copy of the project can be had; else it is git's remote "origin".
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or "plots/book"
package.path = here .. "/?.lua;" .. package.path
local source = require("source")
local chapter = require("chapter")
local prose = require("prose")

local FOLDED_FROM = 26 -- lines of code

-- ---- where the project is ---------------------------------------------------------------------

-- Git's address as anybody can use it: no name or password in it, no key needed; "" if there is none.
local function repository()
  local git = io.popen("git config --get remote.origin.url 2>/dev/null")
  local remote = (git:read("l") or ""):gsub("^ssh://", ""):gsub("^https?://", ""):gsub("^[^/@]*@", "")
  git:close()
  local given, host, path = os.getenv("BOOK_REPOSITORY") or "", remote:match("^([%w-]+%.[%w.-]+)[:/]%d*/?(.+)$")
  return given ~= "" and given or host and "https://" .. host .. "/" .. path or ""
end

-- ---- cells ------------------------------------------------------------------------------------

local cells, ids, runs

-- Named after what it is about, so that it keeps its id when another cell comes or goes.
local function id_of(name)
  local id = name:lower():gsub("[^%w]+", "-"):gsub("^%-", ""):sub(1, 56):gsub("%-$", "")
  ids[id] = (ids[id] or 0) + 1
  return ids[id] == 1 and id or id .. "-" .. ids[id]
end

-- Blocks collect until a heading, or a cell of Python, begins the next cell.
local blocks, title = {}, nil
local function flush()
  if #blocks > 0 then cells[#cells + 1] = pandoc.Div(blocks, {id = id_of(title), class = "cell markdown"}) end
  blocks = {}
end

local function say(more)
  for _, block in ipairs(more) do
    if block.t == "Header" then
      flush()
      title = pandoc.utils.stringify(block.content)
      block.identifier = ""
    end
    blocks[#blocks + 1] = block
  end
end

local function read(text) return pandoc.read(text, source.MARKDOWN).blocks end

-- A cell of Python. `output` is what it put out in the recorded run, if it was in it.
local function add_code(name, text, class, output)
  flush()
  runs = runs + 1
  cells[#cells + 1] = pandoc.Div({pandoc.CodeBlock(text, {class = "python"}),
    output and pandoc.Div({output}, {class = "output " .. class}) or nil},
    {id = id_of(name), class = "cell code", execution_count = output and tostring(runs) or nil})
end

local function details(summary, more)
  say({pandoc.RawBlock("html", "<details>\n<summary>" .. summary .. "</summary>"), table.unpack(more)})
  say({pandoc.RawBlock("html", "</details>")})
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

local function add_head(ch)
  local address = repository()
  say({pandoc.Header(1, {pandoc.Str(ch.title)})})
  say(read((ch.run and "The outputs in this notebook are from " .. ch.run.about .. "\n\n" or "") ..
    "The chapter is a C program. Here it is read from top to bottom, then run; in cells of Python, because they " ..
    "need nothing but what Jupyter has. *Run all* works on a Debian or Ubuntu machine, with or without a GPU" ..
    (address == "" and ", if the notebook lies in a copy of the project" or "") ..
    ": the next cell installs what is missing, and compiles, which takes some minutes where it was not done before."))
  add_code("setup", SETUP:format(address:gsub('[\\"]', "\\%0"), ch.folder .. "/main.c"))
end

local function add_run(ch)
  say({pandoc.Header(2, {pandoc.Str("Running it")})})
  say(read("Below is what the recorded run printed; when you run the cell, it is what your machine prints."))
  add_code("run-" .. ch.number, "!make run-" .. ch.number, "stream stdout", ch.run and pandoc.CodeBlock(ch.run.stdout))
  local seen = {}
  for name in (ch.run and ch.run.stdout or ""):gmatch("plots/([%w_.-]+%.png)") do
    if not seen[name] then
      add_code("picture-" .. name:gsub("%.png$", ""), ('show("plots/%s")'):format(name), "display_data",
        pandoc.Para({pandoc.Image({}, ch.run.folder .. "/plots/" .. name)}))
    end
    seen[name] = true
  end
end

local function add_starter(item)
  local starter = item.text:gsub("%s+$", "") .. "\n"
  say(read(("Your part is `%s`. The cell below is the whole file: write your code into it, run it, then run the check. " ..
    "As long as the cell is unchanged, it leaves a solution of yours alone that is in the file already. (The check " ..
    "of the starter ends with an error: something is missing, as it should.)"):format(item.file)))
  local digest = pandoc.utils.sha1((starter:gsub("%s+$", ""):gsub("^%s+", "")))
  add_code("your-part-" .. item.id, ("%%%%your_part %s %s\n%s"):format(item.file, digest, starter))
  add_code("check-" .. item.id, ("!make exercise-%s ARGS=--check"):format(item.id))
end

-- ---- the items of a chapter -------------------------------------------------------------------

local function add_code_item(item, is_folded)
  local block = pandoc.CodeBlock(item.text, {class = "c"})
  if is_folded or item.last - item.line < FOLDED_FROM then
    say({block})
  else
    details(("<code>%s</code>, lines %d to %d"):format(item.file:match("[^/]+$"), item.line, item.last), {block})
  end
end

local function add_output(output)
  if not output or not output:match("%S") then return end
  say(read("*printed in the recorded run:*"))
  say({pandoc.CodeBlock((output:gsub("^%s*\n", "")))})
end

local function add_items(ch)
  local is_folded, in_starter = false, false
  for _, item in ipairs(ch.items) do
    if item.kind == "starter" then
      add_starter(item)
      in_starter = true
    elseif item.kind == "end starter" then
      in_starter = false
    elseif in_starter then -- it is in the cell
    elseif item.kind == "prose" or item.kind == "how" then
      for _, block in ipairs(prose.item(item, 2)) do -- (a heading would end the cell, and with it the fold)
        say({is_folded and block.t == "Header" and pandoc.Para({pandoc.Strong(block.content)}) or block})
      end
    elseif item.kind == "exercise" then
      say({pandoc.Header(3, {pandoc.Str(item.text)})})
    elseif item.kind == "heading" then
      local words = {pandoc.Str(item.text), item.code and pandoc.Code(item.code) or nil}
      say({is_folded and pandoc.Para({pandoc.Strong(words)}) or pandoc.Header(item.level, words)})
    elseif item.kind == "predict" then
      say({pandoc.BlockQuote({pandoc.Para({pandoc.Strong({pandoc.Str("Predict first.")}), pandoc.Space(), pandoc.Str(item.text)})})})
    elseif item.kind == "code" then
      add_code_item(item, is_folded)
      add_output(item.output)
    elseif item.kind == "printed" then
      add_output(item.output)
    elseif item.kind == "run" then
      add_run(ch)
    elseif item.kind == "fold" then
      flush()
      title, is_folded = item.title, true
      say({pandoc.RawBlock("html", "<details>\n<summary>" .. item.title .. "</summary>")})
    elseif item.kind == "end fold" then
      say({pandoc.RawBlock("html", "</details>")})
      flush()
      is_folded = false
    end
  end
  flush()
end

function Reader(inputs)
  local ch = chapter.open(inputs[1].name:match("^(.*)/main%.c$"), os.getenv("BOOK_BUILD"))
  prose.begin(ch, false)
  cells, ids, runs = {}, {}, 0
  add_head(ch)
  add_items(ch)
  -- What pandoc knows and Jupyter does not, said otherwise.
  local plain = pandoc.walk_block(pandoc.Div(cells), {Span = function(span) return span.content end})
  return pandoc.Pandoc(plain.content, {jupyter = {nbformat = 4, nbformat_minor = 5, kernelspec = {
    display_name = "Python 3", language = "python", name = "python3"}, language_info = {name = "python"}}})
end
