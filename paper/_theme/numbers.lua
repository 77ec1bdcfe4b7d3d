-- numbers.lua: numbers and claims of a run, wherever the text names them.
--
--     []{.number of="STUDY/METRIC" model="epoll" connections="50"}
--         -> 9.2 ms [9.0, 9.4]     with against="…" a ratio; .short without bounds;
--                                  unit="pages/s" in place of requests/s
--     [A thread … more than epoll: []{.number …} times.]{.claim of="STUDY/NAME"}
--         -> the sentence; where this run contradicts it, that it does
--     [… []{.number …} …]{.claim of="STUDY/NAME" when="open"}
--         -> in place of that sentence, where this run cannot tell
--     [… []{.number …} …]{otherwise="What was not measured here."}
--         -> the sentence
--     [225.193129 ms]{.published table="NAME"}
--         -> 225 ms             with all digits in the title, as published tables have it
--     ![…](_generated/STUDY/NAME.svg){#fig-…}
--         -> the figure, and below it on the page its values and its notebook
--
-- What becomes of a sentence whose numbers the run lacks, has without an interval, or
-- whose claim it cannot decide, and what here=, sure= and when= change of that, says
-- paper/README.md, "Writing". Words that this run cannot tell stand before a sentence;
-- after it they would take back what was said. One that lacks a number is left out, as
-- no sentence can be read without; of a study that the run has not, the box at the head
-- of the section says so already. Sentences in a row that have the same remark share it:
-- before the first of them, numbered to show how far it reaches, or after the last.
--
-- What they stand for lies in _generated/facts.json, which `connlab render` makes. Runs
-- before embedded.lua, and before Quarto looks at the document.

local html = FORMAT:match("html") ~= nil

local function facts()
  local file = io.open("_generated/facts.json")
  if not file then
    return { numbers = {}, claims = {}, figures = {}, stale = {}, references = {}, borrowed = {} }
  end
  local text = file:read("a")
  file:close()
  return pandoc.json.decode(text, false)
end

local known = facts()
local stale = {} -- studies, and the paths of their pictures
for _, name in ipairs(known.stale) do
  stale[name] = true
end

local reserved = { of = true, title = true, otherwise = true, brief = true, unit = true }

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

local function set_number(span, numbers)
  local name = address(span)
  local number = numbers[name]
  if not number then
    return missing("this run has no " .. name)
  end
  local text = span.classes:includes("short") and number.short or number.text
  local title = number.title
  if span.attributes.unit then
    text = text:gsub("requests/s", span.attributes.unit)
    title = title:gsub("requests/s", span.attributes.unit)
  end
  local attr = pandoc.Attr("", { "num" }, { { "title", title } })
  return pandoc.Span({ pandoc.Str(text) }, attr)
end

local not_measured = "(Not measured in this run.)"

-- Words before a sentence that the run does not bear out, or before some in a row.
local led = {
  no = { "In this run this does not hold:", "In this run these %s do not hold:" },
  open = {
    "This run cannot tell whether this holds:",
    "This run cannot tell whether these %s hold:",
  },
}

local words = { nil, "two", "three", "four", "five", "six" }

local function lead(state, count)
  local text = count == 1 and led[state][1] or led[state][2]:format(words[count] or count)
  local attr = pandoc.Attr("", { "remark", "before" }, { { "data-state", state } })
  return pandoc.Span({ pandoc.Emph({ pandoc.Str(text) }) }, attr)
end

local function is_sentence(span)
  return span.classes:includes("claim") or span.attributes.otherwise
end

local function numbers_in(span)
  local found = pandoc.List({})
  span:walk({
    Span = function(inner)
      if inner.classes:includes("number") then
        found:insert(inner)
      end
    end,
  })
  return found
end

-- Whether a run has every number, and with an interval where it prints one.
local function has_all(spans, numbers)
  local has, sure = true, true
  for _, span in ipairs(spans) do
    local number = numbers[address(span)]
    has = has and number ~= nil
    local needs_none = span.classes:includes("short")
    sure = sure and number ~= nil and (needs_none or not number.unsure)
  end
  return has, sure
end

local function with_numbers(span, numbers)
  local set = span:walk({
    Span = function(inner)
      if inner.classes:includes("number") then
        return set_number(inner, numbers)
      elseif is_sentence(inner) then
        return inner.content
      end
    end,
  })
  return pandoc.Inlines(set.content)
end

local function remark(content, text, class)
  local attr = pandoc.Attr("", { "remark", class })
  content:insert(pandoc.Space())
  content:insert(pandoc.Span({ pandoc.Emph({ pandoc.Str(text) }) }, attr))
  return content
end

-- The first reference that bears a sentence out; those that contradict are named.
local function elsewhere(span, spans, why)
  local claim = span.classes:includes("claim") and span.attributes.of
  local against = pandoc.List({})
  for _, run in ipairs(known.references) do
    if claim and run.claims[claim] == "no" then
      against:insert(run.name)
    end
  end
  if #against > 0 then
    why = why .. "; otherwise on " .. table.concat(against, " and ")
  end
  for _, run in ipairs(known.references) do
    local _, sure = has_all(spans, run.numbers)
    if sure and (not claim or run.claims[claim] == "yes") then
      local content = with_numbers(span, run.numbers)
      local ends = pandoc.utils.stringify(content):match("[.:]$")
      local text = ends and "(From the " .. run.name .. " run; " .. why .. ".)"
        or "(from the " .. run.name .. " run; " .. why .. ")"
      return remark(content, text, "elsewhere")
    end
  end
end

local function set_otherwise(text)
  if text == "" then
    return {}
  end
  local content = pandoc.utils.blocks_to_inlines(pandoc.read(text, "markdown").blocks)
  return pandoc.Span(content, pandoc.Attr("", { "missing" }))
end

-- The studies of which the run has a number.
local measured = {}
for name in pairs(known.numbers) do
  measured[name:match("^[^/]+")] = true
end

local function set_missing(spans)
  for _, span in ipairs(spans) do
    if measured[address(span):match("^[^/]+")] then
      local content = pandoc.Inlines({})
      return remark(content, not_measured, "missing")
    end
  end
  return {}
end

-- The claims for which these inlines have words where the run cannot tell, and does not.
local function open_claims(inlines)
  local open = {}
  for _, inline in ipairs(inlines) do
    local given = inline.t == "Span" and inline.attributes
    if given and given.when == "open" and known.claims[given.of] == "open" then
      local has, sure = has_all(numbers_in(inline), known.numbers)
      open[given.of] = has and (sure or given.here ~= nil)
    end
  end
  return open
end

-- A sentence is of the studies of its numbers, and of its claim.
local function of_stale(content, span, spans)
  local names = spans:map(address)
  if span.classes:includes("claim") then
    names:insert(span.attributes.of or "")
  end
  for _, name in ipairs(names) do
    if stale[name:match("^[^/]+")] then
      return remark(content, "(Stale.)", "stale")
    end
  end
  return content
end

local function set_sentence(span, open)
  local spans, state = numbers_in(span), "yes"
  local undecided = span.classes:includes("claim") and open[span.attributes.of]
  if span.attributes.when == "open" then
    return undecided and of_stale(with_numbers(span, known.numbers), span, spans) or {}
  elseif undecided then
    return {}
  end
  local has, sure = has_all(spans, known.numbers)
  if span.classes:includes("claim") then
    state = known.claims[span.attributes.of or ""] or "missing"
  end
  -- a claim of many ratios may fail by one beside those of the sentence
  local settled = state == "no" and has or state == "yes" and sure
  if not settled and not span.attributes.here then
    local lacks = not has or state == "missing"
    local why = lacks and "not measured here" or "this run cannot tell"
    why = state == "no" and "otherwise in this run" or why
    local found = elsewhere(span, spans, why)
    if found then
      return found
    end
  end
  local unfit = not has or (span.attributes.sure and not sure)
  if unfit and span.attributes.otherwise then
    return set_otherwise(span.attributes.otherwise)
  elseif not has then
    return set_missing(spans)
  end
  local content = with_numbers(span, known.numbers)
  if led[state] then
    content:insert(1, pandoc.Space())
    content:insert(1, lead(state, 1))
  elseif state == "missing" then
    content = remark(content, not_measured, "missing")
  end
  return of_stale(content, span, spans)
end

-- Like `shortened` of connlab/publish/numbers.py: of more than four digits three are
-- shown, or those before the point where they are more.
local function shortened(number)
  local digits = number:gsub("%.", ""):gsub("^0+", "")
  if #digits <= 4 then
    return number
  end
  local places = math.max(0, 2 - math.floor(math.log(tonumber(number), 10)))
  return ("%." .. places .. "f"):format(tonumber(number))
end

local function set_published(span)
  local full = pandoc.utils.stringify(span)
  local set = span:walk({
    Str = function(inner)
      return pandoc.Str((inner.text:gsub("%d+%.%d+", shortened)))
    end,
  })
  if pandoc.utils.stringify(set) ~= full then
    set.attributes.title = full .. " as published"
    set.classes:insert("num") -- so that finger and keyboard reach it as well
  end
  return set
end

local function set_span(span)
  if span.classes:includes("number") then
    return set_number(span, known.numbers)
  elseif span.classes:includes("published") then
    return set_published(span)
  end
end

-- What a sentence has of a remark, and whether it stands before it.
local function remark_of(content)
  local first, last = content[1], content[#content]
  if first and first.t == "Span" and first.classes:includes("before") then
    return first.attributes["data-state"], true
  elseif last and last.t == "Span" and last.classes:includes("remark") then
    return pandoc.utils.stringify(last), false
  end
end

-- It names sentences, as the last of them may hold just as many numbers.
local function of_several(text, count)
  local first, rest = text:match("^%((%u)(.*%.%))$")
  if text == not_measured or not first then
    return text
  end
  local all = count == 2 and "Both" or words[count] and "These " .. words[count]
  return "(" .. (all or "All these") .. " sentences: " .. first:lower() .. rest
end

local function is_blank(inline)
  return inline.t == "Space" or inline.t == "SoftBreak"
end

-- Sentences, and one remark for those in a row that would have the same.
local function set_inlines(inlines)
  local out, shared, count = pandoc.Inlines({}), nil, 0
  local open = open_claims(inlines)
  local at -- where the remark of the sentence before stands
  for _, inline in ipairs(inlines) do
    if inline.t == "Span" and is_sentence(inline) then
      local content = pandoc.Inlines(set_sentence(inline, open))
      local text, before = remark_of(content)
      local joins = text and text == shared
      if joins then
        count = count + 1
      elseif #content > 0 then
        shared, count = text, 1
      end
      if joins and before then
        out[at] = lead(text, count)
        if count == 2 then
          out:insert(at + 2, pandoc.Space())
          out:insert(at + 2, pandoc.Str("(1)"))
        end
        content[1] = pandoc.Str("(" .. count .. ")") -- before the space
      elseif joins then
        out:remove(at)
        out:remove(at - 1) -- the space before it
        local shown = pandoc.Str(of_several(text, count))
        content[#content].content = { pandoc.Emph({ shown }) }
      end
      local first = #out + 1
      out:extend(content)
      if #content > 0 and not (joins and before) then
        at = before and first or #out
      end
    else
      shared = is_blank(inline) and shared or nil
      out:insert(inline)
    end
  end
  return out
end

-- What stands first in a caption: that a picture was made from other trials than the
-- run now holds, or that a picture or table is a reference's.
local function put_first(content, text)
  content:insert(1, pandoc.Space())
  content:insert(1, pandoc.Strong({ pandoc.Str(text) }))
end

local function of_reference(name)
  return "From the " .. name .. " run; not measured here."
end

local function warning_of(src)
  local reference = known.borrowed[src]
  return reference and of_reference(reference) or stale[src] and "Stale."
end

local function set_image(image)
  local warning = warning_of(image.src)
  if warning then
    put_first(image.caption, warning)
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
  local warning = warning_of(picture_of(figure) or "")
  if warning and first then
    put_first(first.content, warning)
    return figure
  end
end

-- A table of a reference names it in an empty span, and a stale one says so in one.
local function set_table(tbl)
  local warning
  local set = tbl:walk({
    Span = function(span)
      if span.classes:includes("source") then
        local reference = span.attributes.of
        warning = reference and of_reference(reference) or "Stale."
        return {}
      end
    end,
  })
  local first = set.caption.long[1]
  if warning and first then
    put_first(first.content, warning)
    return set
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
  { traverse = "topdown", Inlines = set_inlines, Span = set_span },
  { Image = set_image, Figure = set_figure, Table = set_table },
  { Blocks = set_blocks },
}
