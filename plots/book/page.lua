-- page.lua: a reader for pandoc. Of a chapter's main.c it makes the chapter's page, of headers the reference page that
-- has them, of a lab.md the lab's sheet, of another .md file the page of that text. See book.sh.
--
-- BOOK_FORMAT is html, or book: a chapter of an EPUB or PDF, without what is folded and without links.
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or "plots/book"
package.path = here .. "/?.lua;" .. package.path
local source = require("source")
local chapter = require("chapter")
local questions = require("questions")
local lab = require("lab")
local index = require("index")
local code = require("code")
local prose = require("prose")
local shown = require("shown")

local is_html = os.getenv("BOOK_FORMAT") ~= "book"
local build = os.getenv("BOOK_BUILD")
local declared = {}

local function raw(text) return pandoc.RawBlock("html", text) end

local function add(blocks, new)
  for _, block in ipairs(new) do blocks[#blocks + 1] = block end
end

-- ---- the pieces of a chapter ------------------------------------------------------------------

-- The chapter's in_pytorch.py has blocks, with two empty lines between them. One that defines a function of the same name
-- as this C code, or says "# C: name" above its own, is shown in a tab beside it, its docstring above it.
local python = {} -- of the chapter: {{names =, doc =, code =}, ..}
local function python_of(folder) -- {{name =, text =}, ..}: the one, and what did not fit into it
  local files = {}
  for _, name in ipairs(chapter.files_in(folder)) do
    if name:match("in_pytorch%.py$") then files[#files + 1] = {name = name, text = source.read(folder .. "/" .. name)} end
  end
  return files
end
local function read_python(folder)
  python = {}
  local all = ""
  for _, file in ipairs(python_of(folder)) do all = all .. file.text .. "\n\n\n" end
  for block in all:gmatch("(.-)\n\n\n+") do
    local names, doc = {}, nil
    for line in ("\n" .. block):gmatch("\n(# C: [^\n]+)") do for name in line:sub(6):gmatch("[%w_]+") do names[name] = true end end
    for name in ("\n" .. block):gmatch("\n%l+ ([%w_]+)[(:]") do names[name] = true end
    local code = block:gsub("%f[^\n\0]# C: [^\n]+\n", ""):gsub('\n +"""(.-)"""', function(said)
      if doc then return nil end
      doc = said:gsub("\n +", "\n")
      return ""
    end)
    python[#python + 1] = {names = names, doc = doc, code = code}
  end
end

local function in_pytorch(item)
  for _, block in ipairs(item.file:match("/exercises/") and {} or python) do
    for name in pairs(block.names) do
      if source.defines(item.text, name) or source.defines(item.text, name .. "_book") then
        local blocks = prose.blocks(block.doc or "", 0, item.file)
        blocks[#blocks + 1] = is_html and raw('<pre class="python"><code>' .. code.escape(block.code) .. "</code></pre>") or
          pandoc.CodeBlock(block.code, {class = "python"}) -- (the search reads no code in tabs)
        return blocks
      end
    end
  end
end

-- Before the summary: how to start that program, what it printed (plots/recorded, pytorch_test.sh), and all of it.
local function pytorch_section(ch)
  local name = ch.folder:match("[^/]+$")
  local printed = source.read(("plots/recorded/%s_in_pytorch.txt"):format(name:match("^%d+")))
  if not printed then return {} end
  local about, output = printed:match("^# cksum %d+\n# ([^\n]*)\n(.*)$")
  local blocks = {pandoc.Header(2, {pandoc.Str("The same in PyTorch")}, {id = "in-pytorch-py"})}
  local files = python_of(ch.folder)
  local others = files[2] and (" and `%s`"):format(files[2].name) or ""
  add(blocks, prose.blocks(("The Python in the tabs is from `%s/in_pytorch.py`%s. %s"):format(ch.folder, others, about), 0))
  blocks[#blocks + 1] = pandoc.Div({pandoc.CodeBlock(output)}, {class = "output"})
  if not is_html then return blocks end
  for _, file in ipairs(files) do
    add(blocks, {raw(('<details><summary>All of %s</summary><pre class="python"><code>%s</code></pre></details>')
      :format(file.name, code.escape(file.text)))})
  end
  return blocks
end

local tabs = 0
local function code_block(item)
  local python = in_pytorch(item)
  if not is_html then return {pandoc.CodeBlock(item.text, {class = "c"}), python and pandoc.Div({pandoc.Para({
    pandoc.Strong({pandoc.Str("In PyTorch")})}), table.unpack(python)}) or nil} end
  local anchors = item.file:match("%.h$") and code.anchors(item.text, declared) or ""
  local names = item.file:match("/in_one_file%.c$") and {} or prose.names -- it has its own Device, sgd, ..
  local block = ('%s<div class="code"><span class="place">%s:%d</span><pre><code>%s</code></pre></div>')
    :format(anchors, item.file:match("[^/]+$"), item.line, code.html(item.text, names, prose.root))
  if not python then return {raw(block)} end
  tabs = tabs + 1
  local labels = ('<input type="radio" name="tab-#" id="tab-#-1" checked><label for="tab-#-1">C</label>' ..
    '<input type="radio" name="tab-#" id="tab-#-2"><label for="tab-#-2">PyTorch</label>'):gsub("#", tabs)
  return {raw('<div class="tabs">' .. labels .. block), pandoc.Div(python, {class = "pytorch"}), raw("</div>")}
end

local function output_block(item)
  local text = item.output or ""
  return text:match("%S") and {pandoc.Div(prose.printed(text), {class = "output"})} or {}
end

local function is_compiled(name) return chapter.exists(("%s/wasm/%s.wasm"):format(build, name)) end
local function without_wasm(what)
  return pandoc.Div(prose.blocks(what .. " Whoever made these pages had no compiler for WebAssembly. On Debian and Ubuntu " ..
    "`make setup book` installs one, and makes pages whose programs run."), {class = "run"})
end

-- Where run.js runs the chapter's program, if it has a file in_browser: flags to begin with, and a line for the reader.
local function run_block(folder)
  local name, said = folder:match("[^/]+$"), source.read(folder .. "/in_browser")
  if not is_html or not said then return {} end
  if not is_compiled(name) then
    return {without_wasm("The program of this chapter could run here, but it was not compiled for that.")}
  end
  return {pandoc.Div({raw('<noscript><p class="run">Turn on JavaScript to run programs in this page.</p></noscript>')},
    pandoc.Attr("", {}, {{"data-program", name}, {"data-flags", said:match("[^\n]*")}, {"data-note", said:match("\n([^\n]*)") or ""}}))}
end

local answers = {} -- of the run, by question

local folds = 0
local makers = {
  prose = function(item) return prose.item(item) end,
  how = function(item)
    local blocks = prose.blocks(item.text, 0, item.file)
    if not is_html then return {pandoc.Para({pandoc.Strong({pandoc.Str("How to run")})}), table.unpack(blocks)} end
    table.insert(blocks, 1, raw("<details><summary>How to run it, and which files to read</summary>"))
    add(blocks, {raw("</details>")})
    return blocks
  end,
  heading = function(item)
    if item.id == "rest" and not is_html then return {} end
    local inlines = {pandoc.Str(item.text)}
    if item.code then inlines[2] = pandoc.Code(item.code) end
    return {pandoc.Header(item.level, inlines, {id = item.id or index.file_id(item.path)})}
  end,
  code = function(item)
    local blocks = code_block(item)
    add(blocks, output_block(item))
    return blocks
  end,
  printed = function(item) return output_block(item) end,
  run = function() return {} end,
  ["in page"] = function(item) return run_block(item.folder) end,
  rest = function(item) return output_block(item) end,
  anchor = function(item) return {is_html and pandoc.Div({}, {id = index.file_id(item.path)}) or nil} end,
  predict = function(item)
    local came_out = answers[item.text]
    return {pandoc.Div({pandoc.Para({pandoc.Strong({pandoc.Str("Predict first.")}), pandoc.Space(), pandoc.Str(item.text)})},
      pandoc.Attr("", {"predict"}, came_out and {{"data-answer", came_out.answer}, {"data-unit", came_out.unit}} or {}))}
  end,
  exercise = function(item)
    local header = pandoc.Header(3, {pandoc.Str(item.text)}, {id = "exercise-" .. item.id})
    if not is_html then return {header} end
    return {raw("<details><summary>"), header, raw(("<p>%s · <code>make exercise-%s</code></p></summary>")
      :format(item.about or "", item.id))}
  end,
  ["end exercise"] = function() return {is_html and raw("</details>") or nil} end,
  pytorch = function(item) return pytorch_section(item.chapter) end,
  starter = function() return {} end,
  ["end starter"] = function() return {} end,
  fold = function(item)
    return {raw(('<details id="%s"><summary>%s</summary>'):format(index.file_id(item.path), code.escape(item.title)))}
  end,
  ["end fold"] = function() return {raw("</details>")} end,
}

local function chapter_document(path)
  local folder = path:match("^(.*)/main%.c$")
  local ch = chapter.open(folder, build)
  prose.begin(ch, is_html and folder)
  read_python(folder)
  answers = is_html and ch.run and ch.run.answers or {}
  local blocks = {}
  for _, item in ipairs(ch.items) do
    folds = folds + (item.kind == "fold" and 1 or item.kind == "end fold" and -1 or 0)
    if is_html or folds == 0 and item.kind ~= "end fold" then add(blocks, makers[item.kind](item)) end
  end
  local note = prose.blocks(ch.run and "The output on this page is from " .. ch.run.about or "", 0, path)
  if is_html then add(note, {pandoc.Para({pandoc.Link({pandoc.Str("The chapter as a notebook.")}, ch.number .. ".ipynb")})}) end
  add(blocks, {pandoc.Div(note, {class = "run"})})
  prose.check_pictures()
  return ch, blocks
end

-- ---- other pages ------------------------------------------------------------------------------

local function reference_document(inputs)
  prose.begin(nil, true, "../")
  local blocks = {}
  for _, input in ipairs(inputs) do
    for _, item in ipairs(chapter.file(input.name)) do add(blocks, makers[item.kind](item)) end
  end
  return blocks
end

local function text_document(path)
  prose.begin(nil, is_html, "")
  local text = source.read(path)
  local title = text:match("^# ([^\n]+)\n") or source.die(path, 1, "a page begins with its title", "# Title")
  local filled, from = shown.fill(text:gsub("^# [^\n]+\n", ""), build)
  local blocks = prose.blocks(filled, 0, path)
  if from then add(blocks, {pandoc.Div(prose.blocks("The output on this page is from " .. from, 0, path), {class = "run"})}) end
  return title, path:match("/glossary%.md$") and prose.with_terms(blocks) or blocks
end

-- A long command is broken between its words only, never behind the - of a flag.
local function whole_words(element)
  if utf8.len(element.text) <= 32 or not element.text:find(" ", 1, true) then return nil end
  local words = code.escape(element.text):gsub("[^ ]+", "<span>%0</span>")
  return pandoc.RawInline("html", '<code class="command">' .. words .. "</code>")
end

-- Parentheses around no fraction are as high as letters. (Browsers without a font for formulas draw them twice as high.)
local function low_parentheses(math)
  if math.text:find("frac", 1, true) then return nil end
  local html = pandoc.write(pandoc.Pandoc({pandoc.Plain({math})}), "html5", {html_math_method = "mathml"})
  return pandoc.RawInline("html", (html:gsub('stretchy="true"', 'stretchy="false"')))
end

-- A sheet to print, and for the instructor the answers on another.
local function lab_document(path)
  prose.begin(nil, path:match("^(.*)/"))
  local sheet = lab.open(path)
  local blocks = prose.blocks(sheet.text, 0, path)
  if sheet.answers then
    local answers = "## Answers\n\n" .. sheet.answers.list .. "\n\n## For the instructor\n" .. sheet.answers.note
    add(blocks, {pandoc.Div(prose.blocks(answers, 0, sheet.answers_path), {class = "lab-answers"})})
  end
  return sheet, pandoc.walk_block(pandoc.Div(blocks), {Code = whole_words}).content
end

-- ---- the way from page to page ----------------------------------------------------------------

-- The book's pages: {{number =, url =, title =}, ..}, chapters first; of labs if `labs`.
local function all_pages(labs)
  local list = {}
  for path in (os.getenv("BOOK_CHAPTERS") .. " " .. (labs and "" or os.getenv("BOOK_TEXTS"))):gmatch("%S+") do
    local number = path:match("chapters/(%d+)_")
    local head = labs and path:gsub("main%.c$", "lab.md") or path:gsub("main%.c$", "README.md")
    local text = source.read(head)
    if text then
      list[#list + 1] = {number = number, title = text:match("^# %d+%. ([^\n]+)") or text:match("^# ([^\n]+)"),
        url = (number and number .. (labs and "-lab" or "") or path:match("([^/]+)%.md$")) .. ".html"}
    end
  end
  return list
end

-- ---- the first page ---------------------------------------------------------------------------

-- Of a chapter: its title, what one learns there, its first picture.
local function chapter_entry(path)
  local ch = chapter.open(path:match("^(.*)/main%.c$"), build)
  prose.begin(ch, true)
  local list = source.markdown(ch.head):match("\n%*%*What you will learn%*%*\n+(.-)\n\n") or ""
  local out = {('<li><div><h2><span class="number">%s</span> <a href="%s.html">%s</a></h2>')
    :format(ch.number, ch.number, code.escape(ch.title))}
  out[#out + 1] = pandoc.write(pandoc.Pandoc(prose.blocks(list, 0)), "html5")
  out[#out + 1] = ('<p class="forms"><a href="%s.ipynb">As a notebook</a>%s</p></div>'):format(ch.number,
    chapter.exists(ch.folder .. "/lab.md") and (' · <a href="%s-lab.html">Lab sheet</a>'):format(ch.number) or "")
  return table.concat(out, "\n") .. prose.cover() .. "</li>"
end

local function chapter_list()
  local entries = {'<ol class="chapters">'}
  for path in os.getenv("BOOK_CHAPTERS"):gmatch("%S+") do entries[#entries + 1] = chapter_entry(path) end
  entries[#entries + 1] = "</ol>"
  return raw(table.concat(entries, "\n"))
end

-- The folders of headers, each with its headers, as links to the pages that declare their names.
local function reference_list()
  local out, last = {'<dl class="reference">'}, nil
  for path in os.getenv("BOOK_HEADERS"):gmatch("%S+") do
    local folder, name = path:match("^(.*)/([^/]+)$")
    if not folder:match("^chapters/") then
      local link = ('<a href="%s#%s">%s</a>'):format(index.page_of(path), index.file_id(path), name)
      out[#out + 1] = folder == last and ", " .. link or
        ('%s<dt><a href="ref/%s.html">%s</a></dt><dd>%s'):format(last and "</dd>" or "", folder:gsub("/", "-"), folder, link)
      last = folder
    end
  end
  out[#out + 1] = "</dd></dl>"
  return raw(table.concat(out, "\n"))
end

local function any_runs() -- of the chapters that could run in a page; true if there are none
  local could = false
  for path in os.getenv("BOOK_CHAPTERS"):gmatch("%S+") do
    local folder = path:match("^(.*)/")
    if is_compiled(folder:match("[^/]+$")) then return true end
    could = could or chapter.exists(folder .. "/in_browser")
  end
  return not could
end

-- Chapters come behind the text's first paragraph, which says what this is.
local function front_page(text)
  local blocks = {}
  for i, block in ipairs(text) do
    blocks[#blocks + 1] = i == 1 and pandoc.Div({block}, {class = "lead"}) or block
    if i == 1 then
      local doors = ""
      for n, page in ipairs(all_pages(false)) do
        if n == 1 or not page.number then
          doors = doors .. ('<a %shref="%s">%s</a>'):format(n == 1 and 'class="begin" ' or "", page.url, n == 1 and "Begin reading" or page.title)
        end
      end
      blocks[#blocks + 1] = raw('<p class="doors">' .. doors ..
        '<a href="training-on-multiple-gpus.epub">EPUB</a><a href="#reference">What the headers declare</a></p>')
      blocks[#blocks + 1] = chapter_list()
    end
  end
  if not any_runs() then blocks[#blocks + 1] = without_wasm("Programs cannot run in these pages.") end
  blocks[#blocks + 1] = pandoc.Header(2, {pandoc.Str("What the headers declare")}, {id = "reference"})
  blocks[#blocks + 1] = reference_list()
  return blocks
end

-- ---- the reader -------------------------------------------------------------------------------

-- What the template needs: the contents of the book, and the pages before and behind this one.
local function document(blocks, url, meta)
  meta.pages = all_pages(false)
  meta.pagetitle = meta.pagetitle or (meta.number and meta.number .. " " or "") .. meta.title
  local pages = meta.lab and all_pages(true) or meta.pages
  for i, page in ipairs(pages) do
    if page.url == url then
      page.current = true
      if page.number then
        meta.previous, meta.next = pages[i - 1], pages[i + 1] and pages[i + 1].number and pages[i + 1] or nil
      end
    end
  end
  prose.write_sections(blocks, url, meta)
  return pandoc.Pandoc(pandoc.walk_block(pandoc.Div(blocks), {Math = low_parentheses}).content, meta)
end

local function is_chapter(path) return path:match("^chapters/%d+_[%w_]+/main%.c$") end

-- A book of all chapters.
local function whole_book(inputs)
  local blocks = {}
  for _, input in ipairs(inputs) do
    local title, own, id
    if is_chapter(input.name) then
      local ch
      ch, own = chapter_document(input.name)
      title, id = tonumber(ch.number) .. ". " .. ch.title, "chapter-" .. ch.number
    else
      title, own = text_document(input.name)
    end
    blocks[#blocks + 1] = pandoc.Header(1, {pandoc.Str(title)}, {id = id or ""})
    add(blocks, own)
  end
  return pandoc.Pandoc(blocks, {title = "Training on Multiple GPUs, in C"})
end

function Reader(inputs)
  local path = inputs[1].name
  if not is_html then return whole_book(inputs) end
  local number = path:match("^chapters/(%d+)_")
  if is_chapter(path) then
    local ch, blocks = chapter_document(path)
    local sheet = chapter.exists(ch.folder .. "/lab.md") and number .. "-lab.html" or nil
    return document(blocks, number .. ".html", {title = ch.title, number = number, sheet = sheet})
  elseif path:match("/lab%.md$") then
    local sheet, blocks = lab_document(path)
    return document(blocks, number .. "-lab.html",
      {title = sheet.title, number = "Lab " .. number, lab = true, chapter = number .. ".html"})
  elseif path:match("/index%.md$") then
    local title, blocks = text_document(path)
    return document(front_page(blocks), "index.html", {title = title, front = true})
  elseif path:match("%.md$") then
    local title, blocks = text_document(path)
    return document(blocks, path:match("([^/]+)%.md$") .. ".html", {title = title})
  end
  local folder = path:match("^(.*)/")
  return document(reference_document(inputs), "ref/" .. folder:gsub("/", "-") .. ".html", {title = folder})
end
