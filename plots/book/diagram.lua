-- diagram.lua: diagrams made of + - | > as SVG, and an animation of the ways in which four devices sum vectors.
local diagram = {}

local WIDE, HIGH = 7.83, 19 -- of a character
local SVG = '<svg xmlns="http://www.w3.org/2000/svg" role="img" stroke="currentColor" fill="none" class="'

local function escape(text) return (text:gsub("[&<>]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;"})) end

-- Whether these lines are a diagram: + with lines on it, or one | below another.
function diagram.is_one(text)
  if text:match("%+%-%-") then return true end
  local above = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local here = {}
    for at in line:gmatch("()|") do
      if above[at] then return true end
      here[at] = true
    end
    above = here
  end
  return false
end

local function line(x1, y1, x2, y2)
  return ('<path d="M%.1f %.1fL%.1f %.1f"/>'):format(x1 * WIDE, y1 * HIGH, x2 * WIDE, y2 * HIGH)
end

-- The text as SVG. What is not a line stays text, where it stands.
function diagram.svg(text)
  local rows, width = {}, 0
  for row in (text .. "\n"):gmatch("(.-)\n") do
    rows[#rows + 1] = row
    width = math.max(width, utf8.len(row) or #row)
  end
  local lines = {}
  for r, row in ipairs(rows) do
    local rest = row
    local function blank(from, to) rest = rest:sub(1, from - 1) .. (" "):rep(to - from + 1) .. rest:sub(to + 1) end
    for from, dashes, to in row:gmatch("()([<+|]?%-+[->+|]?)()") do -- along the row
      local before, after = row:sub(from - 1, from - 1), row:sub(to, to)
      if #dashes > 1 and not before:match("%w") and not after:match("%w") then
        lines[#lines + 1] = line(from - (before:match("[+|]") and 1.5 or dashes:match("^%-") and 1 or 0.5), r - 0.5, to - (dashes:match("%-$") and 1 or 1.5), r - 0.5)
        if dashes:match(">$") then
          lines[#lines + 1] = ('<path fill="currentColor" stroke="none" d="M%.1f %.1fl-7 -4v8z"/>'):format((to - 1.2) * WIDE, (r - 0.5) * HIGH)
        end
        blank(from, to - 1)
      end
    end
    for at in row:gmatch("()[|+]") do -- and down it
      local c = row:sub(at, at)
      local function joins(other) return other and other:sub(at, at):match("[|+]") end
      local up, down = c == "|" or joins(rows[r - 1]), c == "|" or joins(rows[r + 1])
      if up or down then lines[#lines + 1] = line(at - 0.5, up and r - 1 or r - 0.5, at - 0.5, down and r or r - 0.5) end
      if up or down then blank(at, at) end
    end
    for from, words in (rest:gsub("(%S) (%S)", "%1\1%2"):gsub("(%S) (%S)", "%1\1%2")):gmatch("()(%S+)") do -- and words
      lines[#lines + 1] = ('<text stroke="none" fill="currentColor" font-family="monospace" font-size="13" x="%.1f" y="%.1f">%s</text>'):format((utf8.len(rest:sub(1, from - 1)) or from - 1) * WIDE,
        (r - 0.28) * HIGH, escape((words:gsub("\1", " "))))
    end
  end
  return (SVG .. 'diagram" aria-label="diagram" viewBox="-4 0 %.0f %d" style="max-width: %.0fpx">%s</svg>'):format(width * WIDE + 8,
    #rows * HIGH + 2, (width * WIDE + 8) * 1.05, table.concat(lines))
end

-- ---- exchanges --------------------------------------------------------------------------------

-- Ways to sum a vector over K devices, each a list of transfers {from, to, after}: `from` sends once it has received
-- `after` transfers. Each carries this part of a vector; in the second half of the list it is a part of the sum.
local K, VECTOR_MS = 4, 10
local STAR = {name = "star", part = 1, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {0, 1, 3}, {0, 2, 3}, {0, 3, 3}}
local TREE = {name = "tree", part = 1, {1, 0, 0}, {3, 2, 0}, {2, 0, 1}, {0, 2, 2}, {0, 1, 2}, {2, 3, 2}}
local SHARDED, RING = {name = "sharded", part = 1 / K}, {name = "ring", part = 1 / K}
for step = 0, 2 * (K - 1) - 1 do
  for i = 0, K - 1 do
    table.insert(SHARDED, {i, (i + 1 + step % (K - 1)) % K, step < K - 1 and 0 or K - 1})
    table.insert(RING, {i, (i + 1) % K, step})
  end
end
local WAYS, SLOWEST = {STAR, SHARDED, RING, TREE}, 0

-- When each transfer begins and ends, in ms: a device sends one at a time, and it receives one at a time.
for _, way in ipairs(WAYS) do
  local sent, received = {}, {}
  for i = 0, K - 1 do sent[i], received[i] = 0, {[0] = 0} end
  for _, t in ipairs(way) do
    local from, to, after = table.unpack(t)
    t.begins = math.max(sent[from], received[from][after], received[to][#received[to]])
    t.ends = t.begins + way.part * VECTOR_MS
    sent[from] = t.ends
    table.insert(received[to], t.ends)
    way.ms = math.max(way.ms or 0, t.ends)
  end
  way.received = received
  SLOWEST = math.max(SLOWEST, way.ms)
end

local PLACES = {[0] = {20, 31}, {80, 31}, {80, 80}, {20, 80}} -- of devices
local LEFT, PER_MS, ROW, HEIGHT = 118, 3.9, 16, 97 -- of the strips, of a device's row, of a way
local AXIS, MS_PER_SECOND = SLOWEST + 12, 6 -- after a pause all begin anew
local function x_of(ms) return LEFT + ms * PER_MS end

-- All animations have one clock.
local function animate(element, times, ...)
  for i, ms in ipairs(times) do times[i] = ("%.4f"):format(ms / AXIS) end
  return ('<%s keyTimes="%s" dur="%gs" repeatCount="indefinite"/>'):format(element:format(...), table.concat(times, ";"),
    AXIS / MS_PER_SECOND)
end
local OPACITY = 'animate attributeName="opacity" calcMode="discrete" values="%s"'

local function label(x, y, anchor, size, text)
  return ('<text stroke="none" fill="currentColor" text-anchor="%s" font-size="%d" x="%g" y="%g">%s</text>'):format(anchor,
    size, x, y, text)
end

-- On the left devices, and dots whose areas are what is sent; on the right what each device sends when, and to which.
local function draw(way)
  local lines, dots, devices, strips = {}, {}, {}, {}
  for n, t in ipairs(way) do
    local kind, a, b, y = n > #way / 2 and "sum" or "part", PLACES[t[1]], PLACES[t[2]], 19 + ROW * t[1]
    local path = ("M%d %dL%d %d"):format(a[1], a[2], b[1], b[2])
    lines[n] = ('<path d="%s"/>'):format(path)
    dots[n] = ('<circle class="moving %s" fill="currentColor" r="%g" opacity="0">%s%s</circle>'):format(kind,
      8 * math.sqrt(way.part),
      animate('animateMotion path="%s" calcMode="linear" keyPoints="0;0;1;1"', {0, t.begins, t.ends, AXIS}, path),
      animate(OPACITY, {0, t.begins, t.ends}, "0;1;0"))
    strips[n] = ('<rect class="%s" fill="currentColor" fill-opacity=".3" x="%g" y="%d" width="%g" height="12"/>'):format(kind,
      x_of(t.begins), y, (t.ends - t.begins) * PER_MS) .. label(x_of((t.begins + t.ends) / 2), y + 9.5, "middle", 10, t[2])
  end
  for i = 0, K - 1 do -- what a device receives last completes its sum, and fills its circle
    local x, y, bottom, received = PLACES[i][1], PLACES[i][2], 31 + ROW * i, way.received[i]
    devices[i + 1] = ('<circle class="device" cx="%d" cy="%d" r="11"/>'):format(x, y) ..
      ('<circle class="moving sum" fill="currentColor" fill-opacity=".3" cx="%d" cy="%d" r="11" opacity="0">%s</circle>'):format(x, y,
        animate(OPACITY, {0, received[#received]}, "0;1")) .. label(x, y + 4.5, "middle", 13, i) ..
      ('<path opacity=".3" d="M%d %dH%g"/>'):format(LEFT, bottom, x_of(SLOWEST)) .. label(LEFT - 5, bottom - 2, "end", 10, i)
  end
  return table.concat(lines) .. table.concat(dots) .. table.concat(devices) .. table.concat(strips) ..
    label(9, 13, "start", 13, way.name) .. label(x_of(way.ms) + 4, 13, "start", 13, ("%g ms"):format(way.ms)) ..
    ('<path stroke-width="2" d="M%g 3V%d"/>'):format(x_of(way.ms), HEIGHT - 14)
end

-- All ways as one SVG with one axis of time. The still picture says the same: nothing that it needs is `moving`.
function diagram.exchanges()
  local out, height = {}, #WAYS * HEIGHT
  for ms = 0, SLOWEST, VECTOR_MS do
    out[#out + 1] = ('<path opacity=".15" d="M%g 0V%d"/>'):format(x_of(ms), height) .. label(x_of(ms), height + 12, "middle", 10, ms)
  end
  for w, way in ipairs(WAYS) do out[#out + 1] = ('<g transform="translate(0 %d)">%s</g>'):format((w - 1) * HEIGHT, draw(way)) end
  return SVG .. ('exchange" viewBox="0 0 400 %d">'):format(height + 18) .. table.concat(out) ..
    label(x_of(SLOWEST) + 10, height + 12, "start", 10, "ms") .. '<g class="moving" opacity="0"><set attributeName="opacity" to="1"/>' ..
    animate('animateTransform attributeName="transform" type="translate" values="0 0;%g 0"', {0, AXIS}, AXIS * PER_MS) ..
    ('<path class="to-come" fill="none" stroke="none" d="M%d 0h400v%dh-400z"/><path d="M%d 0v%d"/></g></svg>'):format(LEFT, height,
      LEFT, height)
end

return diagram
