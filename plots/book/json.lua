-- json.lua: Lua values as JSON, indented by one space, as Jupyter writes its files.
--
-- A table with string keys is an object, its keys sorted, so that the same value is always the same
-- text; json.list{...} is an array, json.null is null. Numbers are integers.
local json = {}

json.null = setmetatable({}, {__name = "null"})

local List = {__name = "list"}
function json.list(items) return setmetatable(items, List) end

local ESCAPES = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r"}

-- What is no UTF-8, byte by byte, becomes U+FFFD: JSON has no place for it.
local function valid_utf8(text)
  local good, bad = utf8.len(text)
  if good then return text end
  local out, from = {}, 1
  while bad do
    out[#out + 1] = text:sub(from, bad - 1) .. "\u{FFFD}"
    from = bad + 1
    good, bad = utf8.len(text, from)
  end
  out[#out + 1] = text:sub(from)
  return table.concat(out)
end

local function string(text)
  return '"' .. valid_utf8(text):gsub('[%c"\\]', function(c)
    return ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local add

local function add_each(out, opening, parts, closing, indent, add_part)
  if #parts == 0 then
    out[#out + 1] = opening .. closing
    return
  end
  local inner = indent .. " "
  out[#out + 1] = opening .. "\n"
  for i, part in ipairs(parts) do
    out[#out + 1] = inner
    add_part(part, inner)
    out[#out + 1] = i < #parts and ",\n" or "\n"
  end
  out[#out + 1] = indent .. closing
end

local function add_object(out, object, indent)
  local keys = {}
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys)
  add_each(out, "{", keys, "}", indent, function(key, inner)
    out[#out + 1] = string(key) .. ": "
    add(out, object[key], inner)
  end)
end

function add(out, value, indent)
  if value == json.null then
    out[#out + 1] = "null"
  elseif type(value) == "string" then
    out[#out + 1] = string(value)
  elseif type(value) ~= "table" then
    out[#out + 1] = tostring(value)
  elseif getmetatable(value) == List then
    add_each(out, "[", value, "]", indent, function(item, inner) add(out, item, inner) end)
  else
    add_object(out, value, indent)
  end
end

function json.encode(value)
  local out = {}
  add(out, value, "")
  return table.concat(out)
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- Bytes as base64, in one line.
function json.base64(bytes)
  local digit, out = {}, {}
  for i = 0, 63 do digit[i] = DIGITS:sub(i + 1, i + 1) end
  for i = 1, #bytes, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    local bits = a << 16 | (b or 0) << 8 | (c or 0)
    out[#out + 1] = digit[bits >> 18] .. digit[bits >> 12 & 63] ..
      (b and digit[bits >> 6 & 63] or "=") .. (c and digit[bits & 63] or "=")
  end
  return table.concat(out)
end

return json
