--- embedded.lua: the part of Quarto that the paper uses, for plain pandoc.
--
-- Cross-references (@fig-x, @tbl-x, @sec-x) are resolved to links, captions and
-- headings get their numbers, callouts and conditional blocks are set, and alt text
-- moves to where the writers expect it. Runs before citeproc: what is left of the
-- citations after it are real ones. A reference that leads nowhere stays visible as
-- ?@name, which is also what Quarto prints.

local html = FORMAT:match("html") ~= nil
local typst = FORMAT:match("typst") ~= nil

local names = { fig = "Figure", tbl = "Table", sec = "Section" }
local labels = {}
local counts = { fig = 0, tbl = 0 }

local function quoted(text)
  return '"' .. text:gsub("\\", "\\\\"):gsub('"', '\\"') .. '"'
end

local function kind_of(id)
  return id and id:match("^(%a+)%-")
end

-- ---- before all: what only the other format shows -------------------------------

local function shown(element)
  local format = element.attributes["when-format"]
  local here = format == "html" and html or format == "typst" and typst
  if element.classes:includes("content-visible") then
    return here
  elseif element.classes:includes("content-hidden") then
    return not here
  end
  return nil
end

-- What is not shown gets no number either, so it goes before anything is counted.
local function unwrap(element)
  local visible = shown(element)
  if visible ~= nil then
    return visible and element.content or {}
  end
end

-- ---- first pass: who has which number ----------------------------------------

local section = {}

local function number_header(header)
  if header.classes:includes("unnumbered") then
    return nil
  end
  local level = header.level
  for i = #section + 1, level do
    section[i] = 0
  end
  for i = #section, level + 1, -1 do
    section[i] = nil
  end
  section[level] = section[level] + 1
  return table.concat(section, ".")
end

local function note_header(header)
  local number = number_header(header)
  if number then
    header.attributes["data-number"] = number
    if kind_of(header.identifier) == "sec" then
      labels[header.identifier] = number
    end
  end
  return header
end

local function note_float(float)
  local kind = kind_of(float.identifier)
  if counts[kind] then
    counts[kind] = counts[kind] + 1
    labels[float.identifier] = tostring(counts[kind])
  end
end

-- ---- second pass: references ---------------------------------------------------

local function reference(citation)
  local id = citation.id
  local label = labels[id]
  if not label then
    io.stderr:write("unresolved reference @" .. id .. "\n")
    return pandoc.Strong({ pandoc.Str("?@" .. id) })
  end
  local text = label
  if citation.mode ~= "SuppressAuthor" then
    text = names[kind_of(id)] .. "\u{a0}" .. label
  end
  return pandoc.Link({ pandoc.Str(text) }, "#" .. id, "", { class = "xref" })
end

local function resolve(cite)
  for _, citation in ipairs(cite.citations) do
    if not names[kind_of(citation.id)] then
      return nil
    end
  end
  local out = pandoc.List()
  for i, citation in ipairs(cite.citations) do
    if i > 1 then
      out:insert(pandoc.Str(i == #cite.citations and " and " or ", "))
    end
    out:insert(reference(citation))
  end
  return out
end

-- ---- second pass: blocks -------------------------------------------------------

local function set_header(header)
  local number = header.attributes["data-number"]
  header.attributes["data-number"] = nil
  if html then
    header.level = header.level + 1
    if number then
      local span = pandoc.Span({ pandoc.Str(number) })
      span.classes = { "header-section-number" }
      header.content:insert(1, pandoc.Space())
      header.content:insert(1, span)
    end
  end
  return header
end

local function label_caption(float)
  local kind = kind_of(float.identifier)
  local number = labels[float.identifier]
  if not (html and number and counts[kind]) then
    return
  end
  local text = names[kind] .. "\u{a0}" .. number .. "."
  local span = pandoc.Span({ pandoc.Str(text) })
  span.classes = { "caption-label" }
  local long = float.caption.long
  if #long == 0 then
    long = pandoc.Blocks({ pandoc.Plain({}) })
  end
  long[1].content:insert(1, pandoc.Space())
  long[1].content:insert(1, span)
  float.caption.long = long
end

-- pandoc's writer drops alt text, and Typst wants paths from the project's root.
local function typst_image(image, alt)
  local call = "#image(" .. quoted("/" .. image.src)
  if alt then
    call = call .. ", alt: " .. quoted(alt)
  end
  if image.attributes.width then
    call = call .. ", width: " .. image.attributes.width
  end
  return pandoc.RawInline("typst", call .. ")")
end

local function set_image(image)
  local alt = image.attributes["fig-alt"]
  if alt then
    image.attributes["fig-alt"] = nil
    image.attributes["alt"] = alt
    if html then
      image.caption = { pandoc.Str(alt) }
    end
  end
  if typst then
    return typst_image(image, alt)
  end
  return image
end

local function set_figure(figure)
  label_caption(figure)
  return figure
end

-- A table of so many rows stays on one page; a longer one goes on overleaf, so that no
-- page ends half empty.
local whole_rows = 8

local function rows_of(element)
  local count = 0
  for _, body in ipairs(element.bodies) do
    count = count + #body.body
  end
  return count
end

local function set_table(element)
  label_caption(element)
  if html then
    local number = labels[element.identifier]
    local name = number and (names.tbl .. " " .. number) or "Table"
    -- A list of pairs keeps its order, so that equal input gives equal output.
    local keys = { { "tabindex", "0" }, { "role", "region" }, { "aria-label", name } }
    return pandoc.Div({ element }, pandoc.Attr("", { "table-wrap" }, keys))
  elseif typst and rows_of(element) <= whole_rows then
    local whole = "#block(breakable: false, width: 100%, above: 1.2em, below: 1em)["
    local open, shut = pandoc.RawBlock("typst", whole), pandoc.RawBlock("typst", "]")
    return { open, element, shut }
  end
  return element
end

local function callout_title(div, kind)
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
  local title = callout_title(div, kind)
  if html then
    local head = pandoc.Div({ pandoc.Plain(title) }, { class = "callout-title" })
    local body = pandoc.Div(div.content, { class = "callout-body" })
    local attr = { class = "callout callout-" .. kind, role = "note" }
    return pandoc.Div({ head, body }, attr)
  elseif typst then
    local open = '#callout(kind: "' .. kind .. '", title: ['
    local out = pandoc.Blocks({ pandoc.RawBlock("typst", open) })
    out:insert(pandoc.Plain(title))
    out:insert(pandoc.RawBlock("typst", "])["))
    out:extend(div.content)
    out:insert(pandoc.RawBlock("typst", "]"))
    return out
  end
end

-- Blocks that print sets smaller, by functions of the template.
local small = { ["table-notes"] = "#tablenotes", varied = "#varied" }

local function set_div(div)
  for _, class in ipairs(div.classes) do
    local kind = class:match("^callout%-(%a+)$")
    if kind then
      return set_callout(div, kind)
    end
  end
  for class, call in pairs(small) do
    if typst and div.classes:includes(class) then
      local out = pandoc.Blocks({ pandoc.RawBlock("typst", call .. "[") })
      out:extend(div.content)
      out:insert(pandoc.RawBlock("typst", "]"))
      return out
    end
  end
end

return {
  { Div = unwrap, Span = unwrap },
  {
    traverse = "topdown",
    Header = note_header,
    Figure = note_float,
    Table = note_float,
  },
  { Cite = resolve },
  {
    Header = set_header,
    Image = set_image,
    Figure = set_figure,
    Table = set_table,
    Div = set_div,
  },
}
