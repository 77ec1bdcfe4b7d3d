// Shows the numbers that are chosen: a figure by Vega-Lite, a table, and both by a link.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.querySelector("form");
  const field = (name) => form.elements[name];
  const part = (name) => document.querySelector(name);
  try {
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch { /* a file may not be allowed to read it */ }
  if (!data.studies.length) {
    for (const element of document.querySelectorAll("form, .plate, figure ~ *")) element.hidden = true;
    part("#caption").textContent = "This run holds no numbers.";
    return;
  }

  // ---- what there is to choose from ----------------------------------------------
  const words = (name) => name.replaceAll("_", " ");
  const isNumber = (text) => text !== null && text !== "" && isFinite(text);
  const inOrder = (levels) => {
    const found = [...new Set(levels)].filter((level) => level !== "");
    return found.every(isNumber) ? found.sort((a, b) => a - b) : found;
  };
  const fill = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    if (options.some(([value]) => String(value) === chosen)) select.value = chosen;
    return select.value;
  };
  const study = () => data.studies.find((one) => one.name === field("study").value);
  const quantity = () => study().quantities.find((q) => q.id === field("quantity").value);
  const rowsOf = (one) => {
    const at = one.quantities.indexOf(quantity());
    return one.rows.filter((row) => row.q === at);
  };
  const levelOf = (one, row, factor) => row.at[one.factors.indexOf(factor)] ?? "";
  const levelsOf = (one, rows, factor) =>
    inOrder(rows.map((row) => levelOf(one, row, factor)));
  const having = (one, rows, factor) =>
    (factor ? rows.filter((row) => levelOf(one, row, factor) !== "") : rows);
  // Numbers without a level, such as a machine's, are drawn run by run.
  const axis = () => words(field("x").value || "run");

  // ---- the selection, as the address has it ----------------------------------------
  const wanted = new URLSearchParams(location.hash.slice(1));
  const address = () => {
    const said = new URLSearchParams();
    for (const select of form.querySelectorAll("select")) said.set(select.name, select.value);
    for (const name of ["line", "run"]) {
      for (const box of boxes(name)) if (!box.checked) said.append(`not-${name}`, box.value);
    }
    for (const name of ["logx", "logy"]) said.set(name, Number(field(name).checked));
    return `#${said}`;
  };
  // Two dozen lines are a tangle: at first a few, of which each stands for its kind.
  const few = (name, options) => {
    const some = options.filter(([value]) => data.first.includes(value));
    const tangled = name === "line" && !location.hash && options.length > 8;
    return tangled && some.length > 1 ? some : options;
  };
  const boxes = (name) => [...form.querySelectorAll(`input[name="${name}"]`)];
  const check = (place, name, options) => {
    // One that is alone is not offered, so nobody could choose it again.
    const off = new Set(options.length > 1 ? wanted.getAll(`not-${name}`) : []);
    const on = new Set(few(name, options).map(([value]) => value));
    const labels = options.map(([value, sample]) => {
      const label = document.createElement("label");
      const box = Object.assign(document.createElement("input"), {
        type: "checkbox", name, value, checked: on.has(value) && !off.has(value) });
      label.append(box, value);
      box.insertAdjacentHTML("afterend", sample);
      return label;
    });
    place.replaceChildren(place.querySelector("legend"), ...labels,
      ...place.querySelectorAll("button"));
    place.hidden = options.length < 2;
  };

  // ---- from the study down: each choice narrows those below it ---------------------
  const offer = (changed) => {
    // What could not be chosen otherwise was no choice, and is not kept.
    const kept = (select) => (select?.length > 1 ? select.value : null);
    const keep = (name) => (changed ? kept(field(name)) : wanted.get(name));
    const models = (s) => new Set(s.rows.map((row) => levelOf(s, row, "model"))).size;
    const first = data.studies.reduce((a, b) => (models(b) > models(a) ? b : a));
    const held = data.studies.some((s) => s.name === keep("study"));
    fill(field("study"), data.studies.map((s) => [s.name, s.title]),
      held ? keep("study") : first.name);
    const one = study();
    fill(field("quantity"), one.quantities.map((q) => [q.id, q.label]), keep("quantity"));
    const all = rowsOf(one);
    const varied = one.factors.filter((f) => levelsOf(one, all, f).length > 0)
      .sort((a, b) => levelsOf(one, all, b).length - levelsOf(one, all, a).length);
    const numeric = varied.filter((f) => levelsOf(one, all, f).every(isNumber));
    const bare = all.some((row) => row.at.every((level) => level === null));
    const options = (names) => names.map((f) => [f, words(f)]);
    const xs = options([...numeric, ...varied.filter((f) => !numeric.includes(f))]);
    const x = fill(field("x"), [...xs, ...(bare ? [["", "run"]] : [])], keep("x"));
    const along = having(one, all, x);
    const others = varied.filter((f) => f !== x && having(one, along, f).length)
      .sort((a, b) => (b === "model") - (a === "model"));
    const by = fill(field("by"), [...options(others), ["", "nothing"]], keep("by"));
    const rows = having(one, along, by);
    offerLevels(one, rows, others.filter((f) => f !== by), keep);
    const lines = by ? levelsOf(one, rows, by) : [];
    part(".lines legend").textContent = words(by);
    check(part(".lines"), "line", lines.map((name, i) =>
      [name, `<i style="background: ${colour(by, name, i)}"></i>`]));
    check(part(".runs"), "run", data.runs.map((name, i) => [name, sampleOf(i)]));
    axes(levelsOf(one, rows, x), rows, changed);
  };
  // Of the levels that occur together those most like the kept ones, then the most
  // frequent; a row of the run itself counts for more than all of the others.
  const together = (one, rows, factors, kept) => {
    const found = new Map();
    for (const row of rows) {
      const key = JSON.stringify(factors.map((f) => levelOf(one, row, f)));
      found.set(key, (found.get(key) ?? 0) + (row.run ? 1 : rows.length));
    }
    const alike = (key) => JSON.parse(key).filter((level, i) => level === kept[i]).length;
    const [best] = [...found].sort(([a, n], [b, m]) => alike(b) - alike(a) || m - n);
    return JSON.parse(best[0]);
  };
  const offerLevels = (one, rows, factors, keep) => {
    const best = together(one, rows, factors, factors.map((f) => keep(`at-${f}`)));
    part(".levels").replaceChildren(...factors.map((factor, i) => {
      const label = document.createElement("label");
      const select = document.createElement("select");
      select.name = `at-${factor}`;
      label.append(words(factor), " ", select);
      const levels = levelsOf(one, rows, factor);
      const some = rows.some((row) => levelOf(one, row, factor) === "");
      fill(select, [...levels.map((l) => [l, l]), ...(some ? [["", "not varied"]] : [])],
        best[i]);
      return label;
    }));
  };
  const axes = (levels, rows, changed) => {
    // What reaches zero, such as the end of an interval, has no logarithm.
    const set = (name, numbers, ends) => {
      const can = numbers.length > 0 && Math.min(...ends) > 0;
      const wide = Math.max(...numbers) > 20 * Math.min(...numbers);
      const kept = !changed && wanted.has(name);
      field(name).disabled = !can;
      field(name).checked = can && (kept ? wanted.get(name) === "1" : wide);
    };
    const numbers = levels.every(isNumber) ? levels.map(Number) : [];
    set("logx", numbers, numbers);
    set("logy", rows.map((row) => row.value),
      rows.map((row) => Math.min(row.value, row.lo ?? row.value)));
  };
  const PLAIN = ["#2450D8", "#DB7A10", "#00A077", "#7A1575", "#262626", "#8C6D31", "#9C4A4A"];
  const colour = (by, name, i) =>
    (by === "model" && data.models[name]) || PLAIN[i % PLAIN.length];

  // Of a run, lines are dashed and points are filled like this.
  const DASHES = [[1, 0], [6, 4], [2, 2], [8, 3, 2, 3], [1, 4]];
  const FILLS = [1, 0, 0.4, 0.7, 0.2];
  const ofRun = (list, i) => list[i % list.length];
  const sampleOf = (i) => `<svg width="40" height="12" aria-hidden="true">
    <path d="M0 6H40" stroke-dasharray="${ofRun(DASHES, i)}"/>
    <circle cx="20" cy="6" r="4" fill-opacity="${ofRun(FILLS, i)}"/></svg>`;

  // ---- the rows that are chosen ------------------------------------------------------
  const chosen = () => {
    const one = study(), x = field("x").value, by = field("by").value;
    const on = (name) => new Set(boxes(name).filter((b) => b.checked).map((b) => b.value));
    const lines = on("line"), runs = on("run");
    const fixed = [...form.querySelectorAll(".levels select")];
    return rowsOf(one)
      .filter((row) => fixed.every((s) => levelOf(one, row, s.name.slice(3)) === s.value))
      .map((row) => ({ ...row, x: x ? levelOf(one, row, x) : data.runs[row.run],
        line: levelOf(one, row, by), run: data.runs[row.run] }))
      .filter((row) => row.x !== "" && runs.has(row.run))
      .filter((row) => !by || lines.has(row.line));
  };
  // Seconds and bytes are kept in their base units; people read others.
  const STEPS = { s: [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]],
    bytes: [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["bytes", 1]] };
  const unitOf = (unit, rows) => {
    const largest = Math.max(0, ...rows.map((row) => row.value));
    const steps = STEPS[unit] ?? [[["1", "count"].includes(unit) ? "" : unit, 1]];
    return steps.find(([, size]) => largest >= size) ?? steps.at(-1);
  };

  // The client was the bottleneck: a rate may be higher, a time shorter than the number.
  const said = (row) => [row.bound, row.text ?? row.value].filter((a) => a !== undefined).join(" ");
  const ARROWS = { "at least": "↑", "at most": "↓" };
  const boundsOf = (rows) => [...new Set(rows.map((row) => row.bound))].filter(Boolean);

  const hasBar = (row) => row.lo !== row.hi;  // an exact number, or one trial, has none

  // So many names stand beside each other below the figure.
  const abreast = (names) => {
    const each = 30 + 7 * Math.max(...names.map((name) => name.length));
    return Math.floor((part("#figure").clientWidth - 80) / each);
  };
  const beneath = (names) => Math.max(1, Math.min(5, abreast(names)));

  // ---- figure -------------------------------------------------------------------------
  const spec = (rows, { label, ratio }, [unit, size]) => {
    const numeric = field("x").value !== "" && rows.every((row) => isNumber(row.x));
    const values = rows.map((row) => ({ ...row, x: numeric ? Number(row.x) : row.x,
      key: `${row.line} ${row.run}`, said: said(row), y: row.value / size,
      lo: row.lo === null ? null : row.lo / size, hi: row.hi === null ? null : row.hi / size }));
    const by = field("by").value;
    const lines = by ? boxes("line").map((box) => box.value) : [""];
    const names = lines.filter((name) => rows.some((row) => row.line === name));
    const place = (name) => lines.indexOf(name);
    const log = (on) => (on ? { type: "log" } : { type: "linear", zero: !ratio });
    const y = { type: "quantitative", scale: log(field("logy").checked),
      title: unit ? `${label} (${unit})` : label };
    const levels = inOrder(rows.map((row) => row.x));
    const x = { field: "x", type: numeric ? "quantitative" : "nominal",
      title: axis(), axis: { labelOverlap: true } };
    if (numeric) {
      x.scale = field("logx").checked ? { type: "log" } : { type: "linear", zero: false };
      x.axis.values = levels.map(Number);
    } else if (abreast(levels) >= levels.length) x.axis.labelAngle = 0;
    const color = { field: "line", type: "nominal", title: words(by),
      scale: { domain: names, range: names.map((n) => colour(by, n, place(n))) },
      legend: names.length > 1 ? { orient: "bottom", columns: beneath(names),
        symbolOpacity: 1 } : null };
    const shapes = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"];
    const shape = { field: "line", type: "nominal", title: words(by), legend: color.legend,
      scale: { domain: names, range: names.map((n) => shapes[place(n) % shapes.length]) } };
    const byRun = (list) => ({ field: "run", type: "ordinal", legend: null, scale: {
      type: "ordinal", domain: data.runs, range: data.runs.map((run, i) => ofRun(list, i)) } });
    const strokeDash = byRun(DASHES), fillOpacity = byRun(FILLS);
    // Where the axis holds names, each run has a place of its own beside them.
    const beside = !numeric && field("x").value && data.runs.length > 1;
    const xOffset = { field: "run", type: "nominal", scale: { domain: data.runs } };
    if (beside) x.scale = { paddingInner: 0.6, paddingOuter: 0.3 };
    const bars = { mark: { type: "rule", strokeWidth: 2, opacity: 0.55 },
      encoding: { y: { ...y, field: "lo" }, y2: { field: "hi" } } };
    const layer = [...(rows.some(hasBar) ? [bars] : []),
      { mark: { type: "point", filled: true, size: 45, opacity: 1 },
        encoding: { shape, fillOpacity, y: { ...y, field: "y" } } },
      { mark: { type: "point", size: 45, strokeWidth: 1.5, opacity: 1 },
        encoding: { shape, y: { ...y, field: "y" }, tooltip: [
          { field: "line", title: words(by) || "line" }, { field: "x", title: x.title },
          { field: "said", title: "value" }, { field: "n" }, { field: "run" }] } }];
    for (const bound of boundsOf(rows)) {
      layer.push({ transform: [{ filter: { field: "bound", equal: bound } }],
        mark: { type: "text", text: ARROWS[bound], fontSize: 15,
          dy: bound === "at least" ? -13 : 13 },
        encoding: { y: { ...y, field: "y" } } });
    }
    if (numeric) layer.unshift({ mark: { type: "line", strokeWidth: 1.5 },
      encoding: { y: { ...y, field: "y" }, detail: { field: "key" }, strokeDash } });
    if (ratio) layer.unshift({ data: { values: [{}] },
      mark: { type: "rule", color: "#767676" }, encoding: { y: { datum: 1 } } });
    const shared = layer.map((one) => (one.data ? one
      : { ...one, encoding: { x, ...(beside ? { xOffset } : {}), color, ...one.encoding } }));
    return { width: "container",
      height: 340, autosize: { type: "fit-x", contains: "padding" }, data: { values },
      layer: shared, background: "transparent",
      config: { font: "system-ui, sans-serif", axis: { labelFontSize: 12, titleFontSize: 12,
        gridColor: "#e4e7ec" }, legend: { labelFontSize: 12, titleFontSize: 12,
        labelLimit: 220 }, view: { stroke: null } } };
  };

  // ---- table, CSV ----------------------------------------------------------------------
  const columns = () => {
    const fixed = [...form.querySelectorAll(".levels select")].map((s) => s.name.slice(3));
    return [field("by").value, ...fixed, field("x").value].filter(Boolean);
  };
  const cellsOf = (row) => {
    const one = study();
    return columns().map((factor) => levelOf(one, row, factor));
  };
  const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const lineOf = (tag, cells) => {
    const line = document.createElement("tr");
    line.append(...cells.map((text) => element(tag, text)));
    return line;
  };
  const table = (rows) => {
    const verdicts = rows.some((row) => row.verdict);
    const several = data.runs.length > 1;
    const head = [...columns().map(words), ...(several ? ["run"] : []),
      ...(verdicts ? ["verdict"] : []), "value", "n"];
    part("thead").replaceChildren(lineOf("th", head));
    part("tbody").replaceChildren(...rows.map((row) => lineOf("td", [...cellsOf(row),
      ...(several ? [row.run] : []), ...(verdicts ? [row.verdict ?? ""] : []),
      said(row), row.n])));
  };
  const quoted = (text) => `"${String(text ?? "").replaceAll('"', '""')}"`;
  const csv = (rows, { label, unit }) => {
    const head = ["run", ...columns(), "quantity", "unit", "value", "lo", "hi", "n", "bound", "verdict"];
    const lines = rows.map((row) => [row.run, ...cellsOf(row), label, unit,
      row.value, row.lo, row.hi, row.n, row.bound, row.verdict]);
    return [head, ...lines].map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  };

  // ---- together ------------------------------------------------------------------------
  const blank = (name) => boxes(name).length > 0 && boxes(name).every((box) => !box.checked);
  const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  let current = [], view;
  const show = async (note = "") => {
    const shown = quantity();
    const rows = current = chosen();
    const unit = unitOf(shown.unit, rows);
    table(rows);
    history.replaceState(null, "", address());
    part("a.here").href = address();
    const barred = rows.filter(hasBar);
    const least = Math.min(...barred.map((row) => row.n));
    const bars = `; bars are 95 % intervals, n = ${least} or more`;  // not only trials
    const bounds = boundsOf(rows).map((bound) => `${ARROWS[bound]}: ${bound}`);
    part("#caption").textContent = note + (rows.length
      ? `${counted(rows.length, "value")} of ${shown.label}${barred.length ? bars : ""}`
        + `${bounds.length ? `; ${bounds.join(", ")}, as the client was the bottleneck` : ""}.`
      : ["line", "run"].some(blank) ? "Nothing is chosen." : "Nothing was measured for this choice.");
    part("#figure").setAttribute("aria-label",
      `${shown.label} against ${axis()}; the values stand in the table below`);
    view?.finalize();
    view = undefined;
    // Each is drawn in a place of its own, which is gone if something else is chosen
    // before it is there.
    const place = document.createElement("div");
    part("#figure").replaceChildren(place);
    if (!rows.length) return;
    const drawn = await vegaEmbed(place, spec(rows, shown, unit),
      { actions: false, renderer: "svg" });
    if (rows !== current) {
      drawn.finalize();
      return;
    }
    view = drawn;
    // The table holds the same values; a reader of screens need not walk the picture.
    for (const svg of place.querySelectorAll("svg")) svg.setAttribute("aria-hidden", "true");
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  // Boxes and levels stay as they are while they are used, so that they keep the focus.
  form.addEventListener("change", (event) => {
    const name = event.target.name;
    if (["study", "quantity", "x", "by"].includes(name)) {
      for (const key of [...wanted.keys()]) wanted.delete(key);
      for (const box of [...boxes("line"), ...boxes("run")]) {
        if (!box.checked) wanted.append(`not-${box.name}`, box.value);
      }
      offer(name);
    }
    show();
  });
  for (const name of ["all", "none"]) {
    part(`button[name=${name}]`).addEventListener("click", () => {
      for (const box of boxes("line")) box.checked = name === "all";
      show();
    });
  }
  part("button[name=csv]").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv(current, quantity())], { type: "text/csv" }));
    link.download = `${field("study").value}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  addEventListener("hashchange", () => location.reload());
  offer();
  const lost = [...wanted].some(([name, value]) =>
    /^(study|quantity|x|by|at-.+)$/.test(name) && field(name)?.value !== value);
  show(lost ? "These runs do not hold all that the link asks for. " : "");
})();
