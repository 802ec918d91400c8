-- script.lua: a reader for pandoc that makes names.js, the declarations that book.js shows.
local here = PANDOC_SCRIPT_FILE and PANDOC_SCRIPT_FILE:match("^(.*)/") or ".book"
package.path = here .. "/?.lua;" .. package.path
local index = require("index")

function Reader()
  return pandoc.Pandoc({pandoc.RawBlock("plain", index.script())})
end
