-- page.lua: a reader for pandoc. Of a chapter's main.c it makes the chapter's page, of headers the
-- reference page that has them, of a lab.md the lab's sheet, of another .md file the page of that text.
-- See book.sh.
--
-- BOOK_FORMAT is html or epub. A chapter in an EPUB has no links, and its code no colours.
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or ".book"
package.path = here .. "/?.lua;" .. package.path
local source = require("source")
local chapter = require("chapter")
local lab = require("lab")
local index = require("index")
local code = require("code")

local is_html = os.getenv("BOOK_FORMAT") ~= "epub"
local all, files -- of the index
local root = ""  -- leads from this page to the first one
local shown_files = {}
local declared = {}

local function raw(text) return pandoc.RawBlock("html", text) end

-- ---- prose ------------------------------------------------------------------------------------

local function url_of_file(path, from)
  if not is_html then return nil end
  if shown_files[path] then return "#" .. index.file_id(path) end
  local sibling = from and from:match("^(.*/)") .. path
  if sibling and shown_files[sibling] then return "#" .. index.file_id(sibling) end
  if files[path] then return root .. index.page_of(path) .. "#" .. index.file_id(path) end
  -- A lab's sheet names files of its chapter.
  if from and from:match("/lab[%w_]*%.md$") and path:match("^[%w_]+%.[ch]$") then path = sibling end
  local chapter_number, name = path:match("^chapters/(%d+)_[%w_]+/([%w_.]*)$")
  if chapter_number and chapter.exists(path) then
    return chapter_number .. ".html" .. (name ~= "main.c" and "#" .. index.file_id(path) or "")
  end
end

local function url_of_name(text)
  local entry = is_html and all[text:gsub("%(%)$", "")]
  return entry and root .. entry.url
end

-- Names of files, and of what headers declare, become links. Signs may stand around them.
local BEFORE, BEHIND = "^([(\128-\255]*)", "([%p\128-\255]*)$"
local function link_names(block, from)
  local function link(element, text)
    local url = url_of_name(text) or url_of_file(text, from)
    if not url then return nil end
    local class = all[text:gsub("%(%)$", "")] and "d" or ""
    return pandoc.Link({element}, url, "", {class = class})
  end
  return pandoc.walk_block(block, {
    Link = function(element)
      -- Of an address in this project, the page that it has; some files have none.
      local target = element.target
      if target:match("^%a+:") or is_html and target:match("^#") then return element, false end
      local name = target:match("([%w_]+)%.md$")
      local page = name and chapter.exists("chapters/" .. name .. ".md") and name or
        target:match("(%d%d)_[%w_]+/?$") or target:match("(%d%d)_[%w_]+/main%.c$")
      if not is_html or not page then return element.content, false end
      element.target = root .. page .. ".html"
      return element, false
    end,
    Code = function(element)
      -- What is short stays on one line: a -- would be broken in two.
      if is_html and utf8.len(element.text) <= 32 then element.classes:insert("short") end
      return link(element, element.text) or element
    end,
    Str = function(element)
      local before, text, after = element.text:match(BEFORE .. "([%w_/]+%.[ch])" .. BEHIND)
      if not text then before, text, after = element.text:match(BEFORE .. "([%a_][%w_]+%(%))" .. BEHIND) end
      if not text then return nil end
      local linked = link(pandoc.Str(text), text)
      return linked and {pandoc.Str(before), linked, pandoc.Str(after)}
    end,
  })
end

-- "so" becomes “so”; Markdown's own rule would make a dash of the -- of a flag, too.
local function curly(inlines)
  for i, inline in ipairs(inlines) do
    if inline.t == "Str" then
      local text, before = inline.text, inlines[i - 1]
      if not before or before.t == "Space" or before.t == "SoftBreak" or before.t == "LineBreak" then
        text = text:gsub('^([(%[]*)"', "%1“"):gsub("^'", "‘")
      end
      inlines[i] = pandoc.Str((text:gsub('([(%[])"', "%1“"):gsub('"', "”"):gsub("'", "’")))
    end
  end
  return inlines
end

-- A table wider than a phone scrolls by itself there. One with sentences in it stands as a list
-- instead, in which each cell needs the name of its column.
local function wide_table(t)
  local has_sentences = false
  for _, spec in ipairs(t.colspecs) do has_sentences = has_sentences or spec[2] ~= nil end
  if not has_sentences then return pandoc.Div({t}, {class = "wide"}) end
  local names = {}
  for _, row in ipairs(t.head.rows) do
    for i, cell in ipairs(row.cells) do names[i] = pandoc.utils.stringify(cell.contents) end
  end
  for _, body in ipairs(t.bodies) do
    for _, row in ipairs(body.body) do
      for i, cell in ipairs(row.cells) do cell.attributes["data-column"] = names[i] end
    end
  end
  return pandoc.Div({t}, {class = "wide sentences"})
end

local used_ids = {}
local function unique(id)
  used_ids[id] = (used_ids[id] or 0) + 1
  return used_ids[id] == 1 and id or id .. "-" .. used_ids[id]
end

-- Blocks of Markdown text; headings become `shift` levels deeper.
local function prose(text, shift, from)
  local blocks = pandoc.read(source.markdown(source.titles(text)), source.MARKDOWN).blocks
  local div = pandoc.walk_block(pandoc.Div(blocks), {
    Header = function(h)
      h.level = h.level + shift
      h.identifier = unique(h.identifier)
      return h
    end,
    Inlines = curly,
    Table = function(t) return is_html and wide_table(t) or nil end,
    Link = function(l) return l end,
  })
  return link_names(div, from).content
end

-- ---- the pieces of a chapter ------------------------------------------------------------------

local function png_size(path)
  local head = source.read(path):sub(1, 24)
  if #head < 24 then source.die(path, nil, "not a PNG", "run make book again") end
  return string.unpack(">I4I4", head, 17)
end

-- A timeline is there as SVG, too: it can be zoomed, and says what its bars are. Pages load it when it
-- comes into sight (book.js), and show the PNG until then.
local function picture(item, number)
  local url = "pictures/" .. number .. "/" .. item.name
  if not is_html then
    return pandoc.Para({pandoc.Image({pandoc.Str(item.caption)}, item.path)})
  end
  local caption = code.escape(item.caption ~= "" and item.caption or item.name)
  local width, height = png_size(item.path)
  local image = ('<a href="%s"><img src="%s" width="%d" height="%d" loading="lazy" alt="%s"></a>')
    :format(url, url, width, height, caption)
  if not chapter.exists((item.path:gsub("%.png$", ".svg"))) then
    return raw(("<figure>%s<figcaption>%s</figcaption></figure>"):format(image, caption))
  end
  return raw(('<figure class="timeline" data-timeline="%s">' ..
    '<div class="zoom" style="max-width: %dpx; aspect-ratio: %d / %d">%s</div>' ..
    '<figcaption>%s · <a href="%s">As a picture</a></figcaption></figure>')
    :format(url:match("^(.*)%.png$"), width, width, height, image, caption, url))
end

local function code_block(item)
  if not is_html then return pandoc.CodeBlock(item.text, {class = "c"}) end
  local anchors = item.file:match("%.h$") and code.anchors(item.text, declared) or ""
  local name = item.file:match("[^/]+$")
  local block = ('%s<div class="code"><span class="place">%s:%d</span><pre><code>%s</code></pre></div>')
    :format(anchors, name, item.line, code.html(item.text, all, root))
  if source.is_includes(item.text) then
    return raw('<details class="includes"><summary>what it includes</summary>' .. block ..
      "</details>")
  end
  return raw(block)
end

local function output_block(item)
  if not is_html then return pandoc.CodeBlock(item.text, {class = "output"}) end
  return raw('<pre class="output"><samp>' .. code.escape((item.text:gsub("^%s*\n", ""))) .. "</samp></pre>")
end

local function file_heading(item)
  local text = item.yours and "The file that you change: " or ""
  local id = index.file_id(item.file)
  return pandoc.Header(item.level, {pandoc.Str(text), pandoc.Code(item.file:match("[^/]+$"))},
    {id = id})
end

local function run_note(about, number)
  local notebook = is_html and chapter.exists("plots/book/notebook.lua") and
    pandoc.Link({pandoc.Str("The chapter as a notebook.")}, number .. ".ipynb") or pandoc.Str("")
  return pandoc.Div({pandoc.Para({
    pandoc.Str("The output on this page is that of "), pandoc.Code(about.command or "?"),
    pandoc.Str((" on %s, %s, version %s."):format(about.machine or "?", about.date or "?",
      about.version or "?")), pandoc.Space(), notebook})}, {class = "run"})
end

local function predict_box(item)
  return pandoc.Div({pandoc.Para({pandoc.Strong({pandoc.Str("Predict first.")}), pandoc.Space(),
    pandoc.Str(item.text)})}, {class = "predict"})
end

local function add(blocks, new)
  for _, block in ipairs(new) do blocks[#blocks + 1] = block end
end

-- How much deeper the headings of a file are than in main.c.
local shift

local makers = {
  prose = function(item)
    return prose(item.text:gsub("^# [^\n]+\n*", ""), shift, item.file)
  end,
  heading = function(item)
    shift = 0
    return {pandoc.Header(item.level, {pandoc.Str(item.text)},
      {id = "s-" .. item.text:lower():gsub("%W", "-")})}
  end,
  exercise = function(item)
    return {pandoc.Header(3, {pandoc.Str(item.id .. " " .. item.title:gsub("^%l", string.upper))},
      {id = "exercise-" .. item.id})}
  end,
  file = function(item)
    -- Sections of main.c are those of the chapter.
    shift = item.is_main and 0 or item.level - 1
    return {file_heading(item)}
  end,
  code = function(item) return {code_block(item)} end,
  output = function(item) return {output_block(item)} end,
  predict = function(item) return {predict_box(item)} end,
  answers = function(item)
    return {pandoc.Div(prose("**Answers**\n\n" .. item.text, 2, item.file), {class = "answers"})}
  end,
  fold = function(item)
    if not is_html then return {pandoc.Header(5, {pandoc.Str(item.title)})} end
    shift = 3
    return {raw("<details><summary>" .. code.escape(item.title) .. "</summary>")}
  end,
  ["end fold"] = function() return is_html and {raw("</details>")} or {} end,
}

-- Of a picture nothing was printed but a line that is its caption.
local function is_caption(item, next)
  return item.kind == "output" and next and next.kind == "picture" and next.caption ~= "" and
    item.text:match("^%s*(.-)%s*$"):gsub("%s+", " "):gsub("^%l", string.upper) == next.caption .. ": plots/" .. next.name
end

local function blocks_of_chapter(ch)
  local blocks = {}
  shift = 0
  for i, item in ipairs(ch.items) do
    if item.kind == "picture" then
      add(blocks, {picture(item, ch.number)})
    elseif item.kind == "run" then
      add(blocks, {run_note(item.about, ch.number)})
    elseif not is_caption(item, ch.items[i + 1]) then
      add(blocks, makers[item.kind](item))
    end
  end
  return blocks
end

local function chapter_document(path)
  local folder = path:match("^(.*)/main%.c$")
  all, files = index.open(folder)
  local ch = chapter.open(folder, os.getenv("BOOK_BUILD"))
  if #ch.lost > 0 and is_html then
    io.stderr:write(("book: %s: its last run is of other sources: no place for what %s printed\n")
      :format(path, table.concat(ch.lost, ", ")))
  end
  for _, item in ipairs(ch.items) do
    if item.kind == "file" then shown_files[item.file] = true end
  end
  return ch, blocks_of_chapter(ch)
end

-- ---- other pages ------------------------------------------------------------------------------

local function reference_document(inputs)
  all, files = index.open(nil)
  root = "../"
  local blocks = {}
  for _, input in ipairs(inputs) do
    local path = input.name
    shown_files[path] = true
    blocks[#blocks + 1] = file_heading({file = path, level = 2})
    shift = 2
    for i, block in ipairs(source.blocks(path)) do
      if block.prose then
        source.check_markdown(path, block)
        local text = block.text
        if i == 1 then text = text:gsub("^[%w_.]+%.h: (%l?)", string.upper) end
        add(blocks, prose(text, 2, path))
      else
        add(blocks, {code_block({file = path, line = block.line, text = block.text})})
      end
    end
  end
  return blocks
end

local function text_document(path)
  all, files = index.open(nil)
  local text = source.read(path)
  source.check_markdown(path, {text = text, line = 1})
  local title = text:match("^# ([^\n]+)\n") or
    source.die(path, 1, "a page begins with its title", "# Title")
  return title, prose(text:gsub("^# [^\n]+\n", ""), 0, path)
end

-- A long command is broken between its words only, never behind the - of a flag.
local function whole_words(element)
  if utf8.len(element.text) <= 32 or not element.text:find(" ", 1, true) then return nil end
  local words = code.escape(element.text):gsub("[^ ]+", "<span>%0</span>")
  return pandoc.RawInline("html", '<code class="command">' .. words .. "</code>")
end

-- A sheet to print, and for the instructor the answers on another.
local function lab_document(path)
  all, files = index.open(path:match("^(.*)/"))
  local sheet = lab.open(path)
  local blocks = prose(sheet.text, 0, path)
  if sheet.answers then
    local answers = "## Answers\n\n" .. sheet.answers.list .. "\n\n## For the instructor\n" .. sheet.answers.note
    add(blocks, {pandoc.Div(prose(answers, 0, sheet.answers_path), {class = "lab-answers"})})
  end
  return sheet, pandoc.walk_block(pandoc.Div(blocks), {Code = whole_words}).content
end

-- ---- the first page ---------------------------------------------------------------------------

-- Of a chapter: its title, what one learns there, its first picture.
local function chapter_entry(path)
  local ch = chapter.open(path:match("^(.*)/main%.c$"), os.getenv("BOOK_BUILD"))
  local list = source.markdown(ch.head):match("\nWhat you will learn\n+(.-)\n\n") or ""
  local url = ch.number .. ".html"
  local image
  for _, item in ipairs(ch.items) do
    if item.kind == "picture" and not image then
      local width, height = png_size(item.path)
      image = ('<a class="cover" href="%s" tabindex="-1" aria-hidden="true">' ..
        '<img src="pictures/%s/%s" width="%d" height="%d" alt=""></a>')
        :format(url, ch.number, item.name, width, height)
    end
  end
  local out = {('<li><div><h2><span class="number">%s</span> <a href="%s">%s</a></h2>')
    :format(ch.number, url, code.escape(ch.title))}
  out[#out + 1] = pandoc.write(pandoc.Pandoc(prose(list, 0)), "html5")
  local forms = {}
  if chapter.exists("plots/book/notebook.lua") then
    forms[#forms + 1] = ('<a href="%s.ipynb">As a notebook</a>'):format(ch.number)
  end
  if chapter.exists(ch.folder .. "/lab.md") then
    forms[#forms + 1] = ('<a href="%s-lab.html">Lab sheet</a>'):format(ch.number)
  end
  if #forms > 0 then out[#out + 1] = '<p class="forms">' .. table.concat(forms, " · ") .. "</p>" end
  out[#out + 1] = "</div>" .. (image or "") .. "</li>"
  return table.concat(out, "\n")
end

local function chapter_list()
  local entries = {'<ol class="chapters">'}
  for path in os.getenv("BOOK_CHAPTERS"):gmatch("%S+") do
    entries[#entries + 1] = chapter_entry(path)
  end
  entries[#entries + 1] = "</ol>"
  return raw(table.concat(entries, "\n"))
end

-- The folders of headers, each with its headers, as links to the pages that declare their names.
local function reference_list()
  local folders, headers = {}, {}
  for path in os.getenv("BOOK_HEADERS"):gmatch("%S+") do
    local folder, name = path:match("^(.*)/([^/]+)$")
    if not folder:match("^chapters/") then
      if not headers[folder] then
        folders[#folders + 1] = folder
        headers[folder] = {}
      end
      table.insert(headers[folder], ('<a href="%s#%s">%s</a>'):format(index.page_of(path),
        index.file_id(path), name))
    end
  end
  local out = {'<dl class="reference">'}
  for _, folder in ipairs(folders) do
    out[#out + 1] = ('<dt><a href="ref/%s.html">%s</a></dt><dd>%s</dd>'):format(
      folder:gsub("/", "-"), folder, table.concat(headers[folder], ", "))
  end
  out[#out + 1] = "</dl>"
  return raw(table.concat(out, "\n"))
end

-- Chapters come behind the text's first paragraph, which says what this is.
local function front_page(text)
  local blocks = {}
  for i, block in ipairs(text) do
    blocks[#blocks + 1] = i == 1 and pandoc.Div({block}, {class = "lead"}) or block
    if i == 1 then
      local first = os.getenv("BOOK_CHAPTERS"):match("chapters/(%d+)_")
      local teaches = os.getenv("BOOK_EDITION") == "instructor" and chapter.exists("chapters/for_instructors.md")
      blocks[#blocks + 1] = raw(('<p class="doors"><a class="begin" href="%s.html">Begin reading</a>' ..
        '<a href="training-on-multiple-gpus.epub">The whole book as EPUB</a>' ..
        '<a href="glossary.html">Glossary</a><a href="#reference">Reference</a>%s</p>')
        :format(first, teaches and '<a href="for_instructors.html">For instructors</a>' or ""))
      blocks[#blocks + 1] = chapter_list()
    end
  end
  blocks[#blocks + 1] = pandoc.Header(2, {pandoc.Str("What the headers declare")}, {id = "reference"})
  blocks[#blocks + 1] = reference_list()
  return blocks
end

-- ---- the reader -------------------------------------------------------------------------------

local function is_chapter(path) return path:match("^chapters/%d+_[%w_]+/main%.c$") end
local function is_lab(path) return path:match("^chapters/%d+_[%w_]+/lab%.md$") end

-- A book of all chapters.
local function whole_book(inputs)
  local blocks = {}
  for _, input in ipairs(inputs) do
    if is_chapter(input.name) then
      local ch, own = chapter_document(input.name)
      blocks[#blocks + 1] = pandoc.Header(1, {pandoc.Str(ch.title)}, {id = "chapter-" .. ch.number})
      add(blocks, own)
    else
      local title, own = text_document(input.name)
      blocks[#blocks + 1] = pandoc.Header(1, {pandoc.Str(title)})
      add(blocks, own)
    end
  end
  return pandoc.Pandoc(blocks, {title = "Training on Multiple GPUs, in C"})
end

function Reader(inputs)
  local path = inputs[1].name
  if not is_html then return whole_book(inputs) end
  if is_chapter(path) then
    local ch, blocks = chapter_document(path)
    return pandoc.Pandoc(blocks, {title = ch.title, number = ch.number})
  end
  if is_lab(path) then
    local sheet, blocks = lab_document(path)
    return pandoc.Pandoc(blocks, {title = sheet.title, number = "Lab " .. sheet.number, lab = true})
  end
  if path:match("%.md$") then
    local title, blocks = text_document(path)
    if not path:match("/index%.md$") then return pandoc.Pandoc(blocks, {title = title}) end
    return pandoc.Pandoc(front_page(blocks), {title = title, front = true})
  end
  return pandoc.Pandoc(reference_document(inputs), {title = path:match("^(.*)/")})
end
