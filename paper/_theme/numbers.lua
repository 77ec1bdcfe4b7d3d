-- numbers.lua: numbers and claims of a run, wherever the text names them.
--
--     []{.number of="STUDY/METRIC" model="epoll" connections="50"}
--         -> 9.2 ms [9.0, 9.4]     with against="…" a ratio; .short without bounds
--     [A thread … more than epoll.]{.claim of="STUDY/NAME"}
--         -> the sentence, and where this run contradicts it or cannot tell, that
--     [… []{.number …} …]{otherwise="What was not measured here."}
--         -> the sentence, or that text where the run lacks one of its numbers; nothing
--            where the text is empty
--     ![…](_generated/STUDY/NAME.svg){#fig-…}
--         -> the figure, and below it on the page its values and its notebook
--
-- What they stand for lies in _generated/facts.json, which `connlab render` makes. Runs
-- before embedded.lua, and before Quarto looks at the document.

local html = FORMAT:match("html") ~= nil

local function facts()
  local file = io.open("_generated/facts.json")
  if not file then
    return { numbers = {}, claims = {}, figures = {}, stale = {} }
  end
  local text = file:read("a")
  file:close()
  return pandoc.json.decode(text, false)
end

local known = facts()
local stale = {}
for _, path in ipairs(known.stale) do
  stale[path] = true
end

local reserved = { of = true, title = true, otherwise = true }

local function address(span)
  local levels = {}
  for key, value in pairs(span.attributes) do
    if not reserved[key] then
      table.insert(levels, key .. "=" .. value)
    end
  end
  table.sort(levels)
  table.insert(levels, 1, span.attributes.of or "")
  return table.concat(levels, " ")
end

local function missing(why)
  local attr = pandoc.Attr("", { "missing" }, { { "title", why } })
  return pandoc.Span({ pandoc.Str("not measured here") }, attr)
end

local function set_number(span)
  local name = address(span)
  local number = known.numbers[name]
  if not number then
    return missing("this run has no " .. name)
  end
  local text = span.classes:includes("short") and number.short or number.text
  local attr = pandoc.Attr("", { "num" }, { { "title", number.title } })
  return pandoc.Span({ pandoc.Str(text) }, attr)
end

local said = {
  no = "(This run shows otherwise.)",
  open = "(This run cannot tell.)",
  missing = "(Not measured in this run.)",
}

-- Numbers were set before the sentences around them.
local function lacks_a_number(span)
  local lacks = false
  span:walk({
    Span = function(inner)
      lacks = lacks or inner.classes:includes("missing")
    end,
  })
  return lacks
end

local function set_otherwise(span)
  local text = span.attributes.otherwise
  if text == "" then
    return {}
  end
  local content = pandoc.utils.blocks_to_inlines(pandoc.read(text, "markdown").blocks)
  return pandoc.Span(content, pandoc.Attr("", { "missing" }))
end

local function set_claim(span)
  local state = known.claims[span.attributes.of or ""] or "missing"
  local out = pandoc.Inlines(span.content)
  if said[state] and not lacks_a_number(span) then
    local attr = pandoc.Attr("", { "claim-" .. state })
    out:insert(pandoc.Space())
    out:insert(pandoc.Span({ pandoc.Emph({ pandoc.Str(said[state]) }) }, attr))
  end
  return out
end

local function set_span(span)
  if span.classes:includes("number") then
    return set_number(span)
  elseif span.attributes.otherwise and lacks_a_number(span) then
    return set_otherwise(span)
  elseif span.classes:includes("claim") then
    return set_claim(span)
  elseif span.attributes.otherwise then
    return span.content
  end
end

-- A picture that was made from other trials than the run now holds says so.
local function set_image(image)
  if stale[image.src] then
    image.caption:insert(1, pandoc.Space())
    image.caption:insert(1, pandoc.Strong({ pandoc.Str("Stale.") }))
    return image
  end
end

local function picture_of(block)
  local src
  block:walk({
    Image = function(image)
      src = src or image.src
    end,
  })
  return src
end

local function set_figure(figure)
  local first = figure.caption.long[1]
  if stale[picture_of(figure) or ""] and first then
    first.content:insert(1, pandoc.Space())
    first.content:insert(1, pandoc.Strong({ pandoc.Str("Stale.") }))
    return figure
  end
end

-- ---- what is offered below a figure -----------------------------------------------

local function set_blocks(blocks)
  local out = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    out:insert(block)
    local shown = block.t == "Figure" or block.t == "Para"
    local links = html and shown and known.figures[picture_of(block) or ""]
    if links then
      local content = pandoc.read(links, "markdown").blocks
      out:insert(pandoc.Div(content, pandoc.Attr("", { "figure-links" })))
    end
  end
  return out
end

return {
  { Span = set_span, Image = set_image, Figure = set_figure },
  { Blocks = set_blocks },
}
