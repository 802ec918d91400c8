-- prose.lua: Markdown of comments and texts as blocks for pandoc: names link to declarations, words to the glossary,
-- sources have numbers, and pictures are figures.
local source = require("source")
local chapter = require("chapter")
local questions = require("questions")
local index = require("index")
local code = require("code")
local output = require("output")
local diagram = require("diagram")
local prose = {names = {}, root = ""}

local is_html = os.getenv("BOOK_FORMAT") == "html"
local files = {}        -- of the index
local has_links = false -- this form of the book has pages to link to
local ch                -- the chapter, or nil
local used_ids, linked_terms, captioned, figures = {}, {}, {}, 0

-- What follows belongs to this chapter or, nil, to another page. `links`: false for a book without pages, else the
-- folder whose headers come first, or true. `root` leads from the page to the first one.
function prose.begin(of_chapter, links, root)
  ch, has_links, prose.root = of_chapter, links and true or false, root or ""
  prose.names, files = index.open(type(links) == "string" and links or nil)
  linked_terms, captioned, figures = {}, {}, 0
end

local function raw(text) return pandoc.RawBlock("html", text) end

-- ---- links ------------------------------------------------------------------------------------

local function url_of_file(path, from)
  for _, folder in ipairs({"", from:match("^(.*/)"), "chapters/"}) do
    local full = folder .. path
    if files[full] or full:match("^chapters/[^/]+/[%w_/]+%.[ch]$") and not full:match("/exercises/") and chapter.exists(full) then
      return prose.root .. index.page_of(full) .. (full:match("/main%.c$") and "" or "#" .. index.file_id(full))
    end
  end
end

-- "lenet.c:train_batch" has to be there.
local function check_place(text, from)
  local file, name = text:match("^([%w_/]+%.[chu]+):([%a_][%w_]*)$")
  if not file then return nil end
  local candidates = {from:match("^(.*)/") .. "/" .. file, "chapters/" .. file, file}
  for path in pairs(files) do
    if path:sub(-#file - 1) == "/" .. file then candidates[#candidates + 1] = path end
  end
  for _, path in ipairs(candidates) do
    if ("\n" .. (source.read(path) or "")):match("%f[%w_]" .. name .. "%f[^%w_]") then return name end
  end
  source.die(from, source.line_of(from, text), text .. " is not there", "the name of a file, and of something in it")
end

-- Names of files, and of what headers declare, become links. Signs may stand around them.
local BEFORE, BEHIND = "^([(\128-\255]*)", "([%p\128-\255]*)$"
local function link(element, text, from)
  local name = (check_place(text, from) or text):gsub("%(%)$", "")
  local entry = has_links and prose.names[name]
  local url = entry and prose.root .. entry.url or has_links and url_of_file(text, from)
  return url and pandoc.Link({element}, url, "", {class = entry and "d" or ""}) or nil
end

-- An address in this project leads to the page that it has; some files have none.
local function page_link(element, from)
  local target, id = element.target:match("^([^#]*)(#?.*)$")
  if target:match("^%a+:") or has_links and target == "" then return element, false end
  if not chapter.exists((from:match("^(.*/)") or "") .. target) then
    source.die(from, source.line_of(from, target), "a link to " .. target .. ", which is not there", "mend the link")
  end
  local name = target:match("([%w_]+)%.md$")
  local page = name and chapter.exists("chapters/" .. name .. ".md") and name or
    target:match("(%d%d)_[%w_]+/?$") or target:match("(%d%d)_[%w_]+/main%.c$") or target:match("(%d%d)_[%w_]+/README%.md$")
  if not has_links or not page then return element.content, false end
  element.target = prose.root .. page .. ".html" .. id
  return element, false
end

-- ---- the glossary, and sources ----------------------------------------------------------------

-- term -> {id = of its row, about = what it is}. Terms stand in the first column, with the chapter in which they first
-- matter: "kernel (0)".
local terms, ids = {}, {}
for row in (source.read("chapters/glossary.md") or ""):gmatch("\n(|[^\n]+|)") do
  local names, about = row:gsub("[`*$]", ""):match("^| ([^|]-) %([%d, ]+%) |.*| ([^|]+) |$")
  if names then
    ids[#ids + 1] = "term-" .. names:lower():gsub("%W", "-") .. "-" .. #ids
    for name in names:lower():gmatch("[^,]+") do
      name = name:match("^%s*(.-)%s*$")
      if not name:match("[^%w -]") and #name > 1 then
        terms[name] = {id = ids[#ids], about = about:gsub("%[(.-)%]%(.-%)", "%1")}
      end
    end
  end
end

-- The first use of each term in a chapter leads to the glossary.
local function link_terms(inlines)
  local out, i = {}, 1
  while i <= #inlines do
    local found, words, text = nil, 0, ""
    for n = 0, 6, 2 do
      local at = inlines[i + n]
      if not at or at.t ~= "Str" and not (n == 0 and at.t == "Emph") then break end
      text = text .. (n > 0 and " " or "") .. pandoc.utils.stringify(at):lower()
      local term = text:gsub("^%(", ""):gsub("[%p]+$", "")
      term = terms[term] and term or term:match("%w%ws$") and terms[term:sub(1, -2)] and term:sub(1, -2)
      if term and not linked_terms[term] then found, words = term, n + 1 end
      local between = inlines[i + n + 1]
      if not between or between.t ~= "Space" and between.t ~= "SoftBreak" then break end
    end
    if found then
      linked_terms[found] = true
      out[#out + 1] = pandoc.Link({table.unpack(inlines, i, i + words - 1)}, prose.root .. "glossary.html#" ..
        terms[found].id, terms[found].about, {class = "term"})
      i = i + words
    else
      out[#out + 1] = inlines[i]
      i = i + 1
    end
  end
  return out
end

local sections = {} -- for the search, besides those that headings begin

-- The glossary's rows can be linked to, and found.
function prose.with_terms(blocks)
  local n = 0
  return pandoc.walk_block(pandoc.Div(blocks), {Table = function(t)
    for _, row in ipairs(t.bodies[1].body) do
      local said = {}
      for c, cell in ipairs(row.cells) do said[c] = pandoc.utils.stringify(cell.contents) end
      if said[1]:match("%([%d, ]+%)$") then
        n = n + 1
        row.cells[1].contents:insert(1, pandoc.Plain({pandoc.Span({}, {id = ids[n]})}))
        sections[#sections + 1] = {id = ids[n], title = said[1], text = table.concat(said, " · ", 2)}
      end
    end
    return t
  end}).content
end

-- references.md says what was cited as [@he2016]; it has the number of its place there.
local works = {}
for key in (source.read("chapters/references.md") or ""):gmatch("\n([%w-]+)\n:") do
  works[#works + 1] = key
  works[key] = #works
end

local function cite(element, from)
  local numbers = {}
  for _, citation in ipairs(element.citations) do
    local number = works[citation.id] or source.die(from, source.line_of(from, "@" .. citation.id),
      "no source " .. citation.id, "chapters/references.md lists them")
    local text = pandoc.Str("[" .. number .. "]")
    numbers[#numbers + 1] = has_links and pandoc.Link({text}, prose.root .. "references.html#" .. citation.id) or text
  end
  return numbers
end

local function number_works(list)
  local items = {}
  for i, item in ipairs(list.content) do
    items[i] = item[2][1]
    items[i]:insert(1, pandoc.Div({}, {id = pandoc.utils.stringify(item[1])}))
  end
  return pandoc.OrderedList(items)
end

-- ---- figures ----------------------------------------------------------------------------------

local function png_size(path)
  local head = source.read(path):sub(1, 24)
  if #head < 24 then source.die(path, nil, "not a PNG", "run make book again") end
  return string.unpack(">I4I4", head, 17)
end

-- Where the picture that an author names lies, and its address on pages; nil if the run has not written it.
local function find_picture(target, from)
  local name = target:match("^plots/([%w_.-]+)$")
  if name and ch then
    captioned[name] = true
    local path = ch.run and ch.run.folder .. "/plots/" .. name
    return path and chapter.exists(path) and path, "pictures/" .. ch.number .. "/" .. name
  end
  local path = (from:match("^(.*)/") .. "/" .. target):gsub("[%w_]+/%.%./", ""):gsub("[%w_]+/%.%./", "")
  return chapter.exists(path) and path or source.die(from, source.line_of(from, target), "no picture " .. target,
    "plots/NAME.png is one of the chapter's run"), "pictures/" .. path:match("[^/]+$")
end

-- A timeline is there as SVG, too: it can be zoomed, and says what its bars are. Pages load it when it
-- comes into sight (book.js), and show the PNG until then.
local function html_picture(path, url, alt)
  local width, height = png_size(path)
  local image = ('<a href="%s"><img src="%s" width="%d" height="%d" loading="lazy" alt="%s"></a>')
    :format(prose.root .. url, prose.root .. url, width, height, code.escape(alt))
  if not chapter.exists((path:gsub("%.png$", ".svg"))) then return "<figure>" .. image end
  return ('<figure class="timeline" data-timeline="%s"><div class="zoom" style="max-width: %dpx; aspect-ratio: %d / %d">%s</div>')
    :format(url:match("^(.*)%.png$"), width, width, height, image)
end

-- A paragraph that is a picture alone: ![Caption](plots/x.png "what it shows, for those who cannot see it").
local function figure(para, from)
  local image = #para.content == 1 and para.content[1].t == "Image" and para.content[1]
  if not image then return nil end
  local alt = image.title:gsub("^fig:", "")
  local exchange = image.src == "exchange:all" and diagram.exchanges()
  local path, url
  if not exchange then
    path, url = find_picture(image.src, from)
    if not path then return {} end
  end
  if alt == "" then
    source.die(from, source.line_of(from, image.src), "a picture without words for those who cannot see it",
      '![Caption](file "what it shows")')
  end
  figures = figures + 1
  local caption = {pandoc.Strong({pandoc.Str(("Figure %s%d"):format(ch and tonumber(ch.number) .. "." or "", figures))}),
    pandoc.Space(), table.unpack(image.caption)}
  if os.getenv("BOOK_FORMAT") == "notebook" then return pandoc.Para(caption) end
  if not is_html and not exchange then return pandoc.Para({pandoc.Image(caption, path, "fig:" .. alt)}) end
  return {raw(exchange and ('<figure>' .. exchange:gsub("<svg", '<svg aria-label="' .. code.escape(alt) .. '"', 1)) or
    html_picture(path, url, alt)), raw("<figcaption>"), pandoc.Plain(caption), raw("</figcaption></figure>")}
end

-- Each picture of the run has a caption.
function prose.check_pictures()
  for i, line in ipairs(ch.run and source.lines(ch.run.stdout) or {}) do
    for name in line:gmatch("plots/([%w_.-]+%.png)") do
      if not chapter.exists(ch.run.folder .. "/plots/" .. name) then
        source.die(ch.run.folder .. "/stdout", i, "the run names the picture plots/" .. name .. " and did not write it",
          "run make book again")
      elseif not captioned[name] then
        source.die(ch.folder .. "/main.c", nil, "no caption for plots/" .. name,
          "![What to see](plots/" .. name .. ' "what it shows"), a paragraph where it belongs')
      end
    end
  end
end

-- The chapter's picture on the first page: the first that has one.
function prose.cover()
  for _, item in ipairs(ch.items) do
    local target = item.kind == "prose" and item.text:match("%]%(([%w_./]+%.png)")
    local path, url = find_picture(target or "plots/none", item.file or "")
    if path then
      return ('<a class="cover" href="%s.html" tabindex="-1" aria-hidden="true"><img src="%s" width="%d" height="%d" alt=""></a>')
        :format(ch.number, url, png_size(path))
    end
  end
  return ""
end

-- ---- blocks -----------------------------------------------------------------------------------

-- Commands with words beside them. Where a page is too narrow for both, the words go below: nothing is cut off.
local function commands(block)
  local is_shell = block.classes[1] == "sh" or block.classes[1] == "bash"
  local first = block.text:match("^%S+") or ""
  local is_command = first:match("^build/") or (" make mpirun cc sh "):find(" " .. first .. " ", 1, true)
  if not is_shell and (block.classes[1] or not is_command) then return nil end
  local lines = {}
  for line in (block.text .. "\n"):gmatch("(.-)\n") do
    local command, gap, words = line:match(is_shell and "^(.-)(%s+)(#.*)$" or "^(.-)(%s%s%s+)(%S.*)$")
    lines[#lines + 1] = ('<span>%s</span><span class="gap">%s</span><span>%s</span>')
      :format(code.escape(command or line):gsub("[^ ]+", "<span>%0</span>"), gap or "", code.escape(words or ""))
  end
  return raw('<pre class="commands"><code><span>' .. table.concat(lines, "</span>\n<span>") .. "</span></code></pre>")
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

local function unique(id)
  used_ids[id] = (used_ids[id] or 0) + 1
  return used_ids[id] == 1 and id or id .. "-" .. used_ids[id]
end

-- What is no Markdown, and so was left in the text.
local BROKEN = {["`+[^`]*$"] = {"a ` that has no partner", "put the second one, or ``` behind the last line of a block"},
  ["^##+%a.*"] = {"a heading needs a space behind its ##", "## like this"}}

-- Blocks of Markdown text; headings become `shift` levels deeper.
function prose.blocks(text, shift, from)
  from = from or "chapters/index.md"
  local is_notebook = os.getenv("BOOK_FORMAT") == "notebook"
  local function words(element)
    if has_links and ch then element.content = link_terms(element.content) end
    return element
  end
  local div = pandoc.walk_block(pandoc.Div(pandoc.read(source.markdown(source.titles(text)), source.MARKDOWN).blocks), {
    Header = function(h)
      h.level = math.min(h.level + shift, 6)
      h.identifier = unique((h.identifier:gsub("%.", ""))) -- as GitHub makes it
      return h
    end,
    Inlines = curly,
    Cite = function(element) return cite(element, from) end,
    Link = function(element) return page_link(element, from) end,
    DefinitionList = number_works,
    Table = is_html and wide_table or nil,
    CodeBlock = function(block)
      if block.classes[1] == "printed" then return pandoc.Div(prose.printed(block.text), {class = "output"}) end -- (shown.lua)
      if not is_notebook and not block.classes[1] and diagram.is_one(block.text) then
        return raw("<figure>" .. diagram.svg(block.text) .. "</figure>")
      end
      return is_html and commands(block) or nil
    end,
  })
  div = pandoc.walk_block(div, {
    Code = function(element)
      -- What is short stays on one line: a -- would be broken in two.
      if is_html and utf8.len(element.text) <= 32 then element.classes:insert("short") end
      return link(element, element.text, from) or element
    end,
    Str = function(element)
      for pattern, said in pairs(BROKEN) do
        local bad = element.text:match(pattern)
        if bad then source.die(from, source.line_of(from, bad), said[1], said[2]) end
      end
      check_place((element.text:gsub("%p+$", "")), from)
      local before, said, after = element.text:match(BEFORE .. "([%w_/]+%.[ch])" .. BEHIND)
      if not said then before, said, after = element.text:match(BEFORE .. "([%a_][%w_]+%(%))" .. BEHIND) end
      local linked = said and link(pandoc.Str(said), said, from)
      return linked and {pandoc.Str(before), linked, pandoc.Str(after)}
    end,
  })
  return pandoc.walk_block(div, {
    Para = function(para) return figure(para, from) or words(para) end,
    Plain = words,
  }).content
end

-- A log of many epochs: the ones in the middle are folded.
local SHOWN_FIRST, SHOWN_LAST = 2, 1
local function fold_epochs(block)
  local parts, lines, from = {}, source.lines(block.text), 1
  local function show(first, last)
    if first <= last then parts[#parts + 1] = pandoc.CodeBlock(table.concat(lines, "\n", first, last), block.attr) end
  end
  for i = 1, #lines do
    local last = i
    while lines[last + 1] and lines[i]:match("^ *epoch +%d") and lines[last + 1]:match("^ *epoch +%d") do last = last + 1 end
    local first = i + SHOWN_FIRST
    last = last - SHOWN_LAST
    if last - first > 2 and i >= from then
      show(from, first - 1)
      parts[#parts + 1] = raw(("<details><summary>epochs %s to %s</summary>"):format(lines[first]:match("%d+"), lines[last]:match("%d+")))
      show(first, last)
      parts[#parts + 1] = raw("</details>")
      from = last + 1
    end
  end
  show(from, #lines)
  return parts
end

-- Blocks of an item of a chapter, with the answers to the questions in it.
function prose.item(item, shift)
  local blocks, answers = prose.blocks(item.text, item.shift or shift, item.file), item.answers
  if not answers then return blocks end
  return questions.answer(blocks, answers.file, prose.blocks(answers.text, 2, answers.file), os.getenv("BOOK_FORMAT") ~= "book")
end

-- Blocks of what a program printed.
function prose.printed(text)
  local blocks = output.blocks(text)
  return is_html and pandoc.walk_block(pandoc.Div(blocks), {Table = wide_table, CodeBlock = fold_epochs}).content or blocks
end

-- ---- the search -------------------------------------------------------------------------------

-- Adds the sections of a page to the file BOOK_SECTIONS: what the search finds. (script.lua)
function prose.write_sections(blocks, url, meta)
  local path = os.getenv("BOOK_SECTIONS")
  if not path then return end
  local file = assert(io.open(path, "a"))
  local function write(id, title, text, words)
    file:write(("[%s, %s, %s, %s, %s],\n"):format(code.quote(url .. (id and "#" .. id or "")), code.quote(title),
      code.quote(meta.pagetitle), code.quote((text:gsub("%s+", " "))), code.quote(words or "")))
  end
  local title, id, below, words = meta.title, nil, {}, nil
  local function flush()
    local said = pandoc.walk_block(pandoc.Div(below), {Math = function(math) return pandoc.Str(math.text) end})
    write(id, title, pandoc.write(pandoc.Pandoc({said}), "plain"), words)
    below = {}
  end
  for _, block in ipairs(blocks) do
    if block.t == "Header" then
      flush()
      title, id, words = pandoc.utils.stringify(block.content), block.identifier, block.attributes.search
      block.attributes.search = nil
    else
      below[#below + 1] = block
    end
  end
  flush()
  for _, row in ipairs(sections) do write(row.id, row.title, row.text) end
  file:close()
end

return prose
