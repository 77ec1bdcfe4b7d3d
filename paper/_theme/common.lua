-- common.lua: what the page and print look like, whichever renderer sets them.
--
--     embedded:  embedded.lua -> common.lua -> citeproc -> writer
--     Quarto:    common.lua (at pre-ast) -> Quarto's own filters -> writer
--
-- Callouts, small print and alt text of pictures become calls of typst-template.typ;
-- on the page a wide table scrolls in a box of its own that a keyboard reaches. Quarto
-- runs it before it looks at the document itself: a callout that its own filters see
-- in Typst output makes Typst download a package (fontawesome).
--
-- It runs on the pandoc inside Quarto 1.4 as well as on the newest, so it uses nothing
-- that came after pandoc 3.1.

local html = FORMAT:match("html") ~= nil
local typst = FORMAT:match("typst") ~= nil
-- Quarto gives its filters a module of this name; plain pandoc does not.
local in_quarto = quarto ~= nil

local function quoted(text)
  return '"' .. text:gsub("\\", "\\\\"):gsub('"', '\\"') .. '"'
end

-- Set blocks as the last argument of a function of the Typst template.
local function call(opening, blocks)
  local out = pandoc.Blocks({ pandoc.RawBlock("typst", opening .. "[") })
  out:extend(blocks)
  out:insert(pandoc.RawBlock("typst", "]"))
  return out
end

-- ---- callouts --------------------------------------------------------------------

local kinds = { note = true, tip = true, warning = true, caution = true, important = true }

local function kind_of(div)
  for _, class in ipairs(div.classes) do
    local kind = class:match("^callout%-(%a+)$")
    if kinds[kind] then
      return kind
    end
  end
end

local function title_of(div, kind)
  local first = div.content[1]
  if div.attributes.title then
    local read = pandoc.read(div.attributes.title, "markdown").blocks
    return pandoc.utils.blocks_to_inlines(read)
  elseif first and first.t == "Header" then
    div.content:remove(1)
    return first.content
  end
  return pandoc.Inlines(kind:sub(1, 1):upper() .. kind:sub(2))
end

local function set_callout(div, kind)
  if html and in_quarto then
    return nil -- its own has the same parts; quarto.scss gives them the same look
  end
  local title = title_of(div, kind)
  if html then
    local head = pandoc.Div({ pandoc.Plain(title) }, { class = "callout-title" })
    local body = pandoc.Div(div.content, { class = "callout-body" })
    local attr = { class = "callout callout-" .. kind, role = "note" }
    return pandoc.Div({ head, body }, attr)
  elseif typst then
    local out = pandoc.Blocks({
      pandoc.RawBlock("typst", '#remark(kind: "' .. kind .. '", title: ['),
      pandoc.Plain(title),
    })
    out:extend(call("])", div.content))
    return out
  end
end

-- ---- small print -------------------------------------------------------------------

local small = { ["table-notes"] = "#tablenotes", varied = "#varied" }

-- A table that is wide in its source only, by what its numbers tell on hover.
local function narrow(div)
  return div:walk({
    Table = function(element)
      for i, spec in ipairs(element.colspecs) do
        element.colspecs[i] = { spec[1], nil }
      end
      return element
    end,
  }).content
end

-- A table that is cards on a phone (parts.css): each cell names its column. As blocks they
-- are cells to a screen reader by their roles only.
local function mark(parts, role, change)
  for i, part in ipairs(parts) do
    part.attr.attributes.role = role
    if change then
      change(part, i)
    end
  end
  return parts
end

local function as_cards(element)
  local heads = {}
  element.attributes.role = "table"
  mark({ element.head }, "rowgroup")
  mark(element.head.rows, "row", function(row)
    mark(row.cells, "columnheader", function(cell, i)
      heads[i] = pandoc.utils.stringify(cell.contents)
    end)
  end)
  mark(element.bodies, "rowgroup", function(body)
    mark(body.body, "row", function(row)
      mark(row.cells, "cell", function(cell, i)
        cell.attr.attributes["data-label"] = heads[i]
        if pandoc.utils.stringify(cell.contents) == "—" then
          cell.attr.classes:insert("none")
        end
      end)
    end)
  end)
  return element
end

local function set_div(div)
  if div.classes:includes("cards") then
    return html and div:walk({ Table = as_cards }) or div.content
  end
  if div.classes:includes("narrow") then
    return narrow(div)
  end
  local kind = kind_of(div)
  if kind then
    return set_callout(div, kind)
  end
  for class, name in pairs(small) do
    if typst and div.classes:includes(class) then
      return call(name, div.content)
    end
  end
end

-- ---- units ---------------------------------------------------------------------------

local units = {}
for unit in ("% s ms µs ns bytes KiB MiB GiB thousand million"):gmatch("%S+") do
  units[unit] = true
end

local function is_string(inline, pattern)
  return inline and inline.t == "Str" and inline.text:match(pattern)
end

-- An interval stays on its line, as the template for print has it.
local function keep_intervals(inlines)
  for i, inline in ipairs(inlines) do
    local before, after = inlines[i - 1], inlines[i + 1]
    local blank = inline.t == "Space" or inline.t == "SoftBreak"
    if inline.t == "Str" then
      inline.text = inline.text:gsub("(%[%S+,) (%S+%])", "%1\u{a0}%2")
    elseif blank and is_string(before, "^%[%S+,$") and is_string(after, "^%S+%]") then
      inlines[i] = pandoc.Str("\u{a0}")
    end
  end
  return inlines
end

-- No line ends between a number and its unit. In a table it may: columns stay narrow.
local function leave(element)
  return html and element:walk({ Inlines = keep_intervals }) or element, false
end

local function is_unit(word)
  return units[word:match("^(.-)[%.,;:%)%]]*$")]
end

-- A number of a run is one string, with its spaces.
local function keep_within(inline)
  if inline.t == "Str" and inline.text:find(" ", 1, true) then
    inline.text = inline.text:gsub("(%d) (%S+)", function(digit, word)
      return is_unit(word) and digit .. "\u{a0}" .. word or nil
    end)
  end
end

local function keep_units(inlines)
  for _, inline in ipairs(inlines) do
    keep_within(inline)
  end
  for i = 2, #inlines - 1 do
    local number, space, unit = inlines[i - 1], inlines[i], inlines[i + 1]
    local blank = space.t == "Space" or space.t == "SoftBreak"
    local of_number = blank and number.t == "Str" and number.text:match("%d$")
    if of_number and unit.t == "Str" and is_unit(unit.text) then
      inlines[i] = pandoc.Str("\u{a0}")
    end
  end
  return inlines
end

-- ---- pictures ------------------------------------------------------------------------

-- pandoc's writer drops alt text. The embedded renderer compiles from another folder
-- and wants paths from the project's root; Quarto compiles where the sources are.
local function typst_image(image, alt)
  local path = in_quarto and image.src or "/" .. image.src
  local code = "#image(" .. quoted(path) .. ", alt: " .. quoted(alt)
  local width = image.attributes["print-width"] or image.attributes.width
  if width then
    code = code .. ", width: " .. width
  end
  return pandoc.RawInline("typst", code .. ")")
end

-- How wide a picture must be for its smallest letters to have 10 px; parts.css makes it
-- so, and where a phone is narrower it scrolls.
local function legible(path)
  local file = io.open(path)
  local svg = file and file:read("a") or ""
  if file then
    file:close()
  end
  local width = svg:match('viewBox="%S+ %S+ ([%d.]+)')
  local smallest
  for size in svg:gmatch('font[-size]*[:=][ "]*([%d.]+)') do
    smallest = math.min(smallest or math.huge, tonumber(size))
  end
  return width and smallest and math.ceil(tonumber(width) * 10 / smallest)
end

local function set_image(image)
  local alt = image.attributes["fig-alt"] or image.attributes.alt
  if typst then
    return typst_image(image, alt or pandoc.utils.stringify(image.caption))
  end
  image.attributes["print-width"] = nil
  local width = html and legible(image.src)
  if width then
    image.attributes.style = "--legible: " .. width .. "px"
  end
  if html and alt and not in_quarto then
    image.attributes["fig-alt"] = nil
    image.attributes.alt = alt
    image.caption = { pandoc.Str(alt) }
  end
  return image
end

-- ---- tables --------------------------------------------------------------------------

-- Say which table a box holds: its label where there is one, else how its caption begins.
local function name_of(element)
  local label
  element.caption.long:walk({
    Span = function(span)
      if span.classes:includes("caption-label") then
        label = pandoc.utils.stringify(span):gsub("%.$", "")
      end
    end,
  })
  if label then
    return label
  end
  local text = pandoc.utils.stringify(element.caption.long):gsub("%s*{#.*$", "")
  local first = text:match("^(.-)[.:] ") or text
  return #first > 0 and "Table: " .. first:gsub("%.$", "") or "Table"
end

local function set_table(element)
  if html then
    -- A list of pairs keeps its order, so that equal input gives equal output.
    local keys = {
      { "tabindex", "0" },
      { "role", "region" },
      { "aria-label", name_of(element) },
    }
    return pandoc.Div({ element }, pandoc.Attr("", { "table-wrap" }, keys))
  end
end

-- ---- numbers of sections -------------------------------------------------------------

-- Before 1.7 Quarto prints "Section" also where only the number is asked for, [-@sec-x].
local function set_cite(cite)
  local citation = cite.citations[1]
  local bare = #cite.citations == 1 and citation.mode == "SuppressAuthor"
  if typst and in_quarto and bare and citation.id:match("^sec%-") then
    return pandoc.RawInline("typst", "#ref(<" .. citation.id .. ">, supplement: none)")
  end
end

-- ---- options in prose ------------------------------------------------------------------

-- A line may end at any hyphen, also between "--" and the name of the option.
local function keep_option(code)
  if not code.text:match("^%-%-%a") or #code.text > 24 then
    return nil
  elseif html then
    code.classes:insert("option")
    return code
  elseif typst then
    return { pandoc.RawInline("typst", "#unbroken["), code, pandoc.RawInline("typst", "]") }
  end
end

-- ---- what is for the page only ---------------------------------------------------------

-- No writer of print shows it, but Quarto would make Typst tables of its tables.
local function set_raw(block)
  if typst and block.format:match("html") then
    return {}
  end
end

return {
  {
    Div = set_div,
    Image = set_image,
    Table = set_table,
    RawBlock = set_raw,
    Cite = set_cite,
  },
  { traverse = "topdown", Table = leave, Inlines = keep_units, Code = keep_option },
}
