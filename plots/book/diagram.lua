-- diagram.lua: diagrams made of + - | > as SVG, and exchanges between four devices as small animations.
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

-- Who sends to whom in each step, among devices 0 to 3.
local RING = {{0, 1}, {1, 2}, {2, 3}, {3, 0}}
local ALL = {{0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 3}, {3, 0}, {3, 1}, {3, 2}}
local STEPS = {
  star = {{{1, 0}, {2, 0}, {3, 0}}, {{0, 1}, {0, 2}, {0, 3}}},
  sharded = {ALL, ALL},
  ring = {RING, RING, RING, RING, RING, RING},
  tree = {{{1, 0}, {3, 2}}, {{2, 0}}, {{0, 2}}, {{0, 1}, {2, 3}}},
}
local PLACES = {[0] = {40, 40}, {200, 40}, {200, 140}, {40, 140}}

-- The exchange as SVG, whose dots are what is sent; nil if there is none of that name. Each step takes a second.
function diagram.exchange(name)
  local steps = STEPS[name]
  if not steps then return nil end
  local out, drawn = {}, {}
  for s, step in ipairs(steps) do
    for _, pair in ipairs(step) do
      local a, b = PLACES[pair[1]], PLACES[pair[2]]
      local way = math.min(pair[1], pair[2]) .. "-" .. math.max(pair[1], pair[2])
      if not drawn[way] then table.insert(out, 1, ('<path d="M%d %dL%d %d"/>'):format(a[1], a[2], b[1], b[2])) end
      drawn[way] = true
      local times = ("0;%.3f;%.3f;1"):format((s - 1) / #steps, (s - 0.2) / #steps)
      local function moves(what, values)
        return ('<animate attributeName="%s" values="%s" keyTimes="%s" dur="%ds" repeatCount="indefinite"/>'):format(
          what, values, times, #steps)
      end
      out[#out + 1] = ('<circle class="sent" fill="currentColor" r="6" opacity="0">%s%s<animate attributeName="opacity" values="0;1;0;0" ' ..
        'keyTimes="%s" dur="%ds" calcMode="discrete" repeatCount="indefinite"/></circle>'):format(
        moves("cx", ("%d;%d;%d;%d"):format(a[1], a[1], b[1], b[1])), moves("cy", ("%d;%d;%d;%d"):format(a[2], a[2], b[2], b[2])),
        times, #steps)
    end
  end
  for i = 0, 3 do
    out[#out + 1] = ('<circle class="device" cx="%d" cy="%d" r="18"/><text stroke="none" fill="currentColor" text-anchor="middle" x="%d" y="%d">%d</text>'):format(
      PLACES[i][1], PLACES[i][2], PLACES[i][1], PLACES[i][2] + 5, i)
  end
  return SVG .. 'exchange" viewBox="0 0 240 180">' .. table.concat(out) .. "</svg>"
end

return diagram
