--- embedded.lua: the part of Quarto that the paper uses, for plain pandoc.
--
-- Cross-references (@fig-x, @tbl-x, @sec-x) are resolved to links, captions and
-- headings get their numbers, and what only the other format shows goes. Runs before
-- common.lua, which sets the rest for Quarto as well, and before citeproc: what is
-- left of the citations after it are real ones. A reference that leads nowhere stays
-- visible as ?@name, which is also what Quarto prints.

local html = FORMAT:match("html") ~= nil
local typst = FORMAT:match("typst") ~= nil

local names = { fig = "Figure", tbl = "Table", sec = "Section" }
local labels = {}
local counts = { fig = 0, tbl = 0 }

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
  return float
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
  { Header = set_header, Figure = label_caption, Table = label_caption },
}
