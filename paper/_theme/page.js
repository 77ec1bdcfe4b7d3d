// What the page can do without asking any other host: switch its colours, show n and
// interval of a number, mark the section that is being read.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("scripted");
  const keep = (theme) => {
    try { localStorage.setItem("theme", theme); } catch { /* file: may forbid it */ }
  };
  const kept = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };

  // ---- colours ------------------------------------------------------------------
  const button = document.querySelector("button.theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  if (kept()) root.dataset.theme = kept();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();

  // ---- numbers: title becomes a note for mouse, finger and keyboard -----------------
  const tip = document.getElementById("tip");
  // Hidden, too, a note is read of all that it describes: so only of the one it is about.
  let told;
  const hide = () => {
    tip.hidden = true;
    told?.removeAttribute("aria-describedby");
  };
  const tell = (mark) => {
    hide();
    told = mark;
    mark.setAttribute("aria-describedby", "tip");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    tip.style.left = "0"; // where it stood before there may be little room to its right
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.left, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left) + window.scrollX}px`;
    tip.style.top = `${box.bottom + window.scrollY + 6}px`;
  };
  for (const mark of document.querySelectorAll(".num[title], .missing[title]")) {
    mark.dataset.tip = mark.title;
    mark.removeAttribute("title");
    mark.tabIndex = 0;
    for (const on of ["mouseenter", "focus", "click"]) {
      mark.addEventListener(on, () => tell(mark));
    }
    for (const off of ["mouseleave", "blur"]) mark.addEventListener(off, hide);
  }
  // A table is one stop of the tab key; the arrows go from number to number in it.
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  for (const table of document.querySelectorAll("table")) {
    const marks = [...table.querySelectorAll("[data-tip]")];
    for (const mark of marks.slice(1)) mark.tabIndex = -1;
    table.addEventListener("keydown", (e) => {
      const at = marks.indexOf(e.target);
      const next = at < 0 ? undefined : marks[at + (steps[e.key] ?? NaN)];
      if (!next) return;
      e.preventDefault();
      marks[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });

  // ---- contents: their second level folds, the section that is read is marked -------
  const contents = document.querySelector(".contents details");
  const phone = window.matchMedia("(max-width: 62rem)");
  const fit = () => { contents.open = !phone.matches; };
  phone.addEventListener("change", fit);
  fit();
  const links = new Map();
  for (const link of contents.querySelectorAll("a[href^='#']")) {
    links.set(decodeURIComponent(link.hash.slice(1)), link);
    link.addEventListener("click", () => { if (phone.matches) contents.open = false; });
  }
  const unfold = (fold, open) => fold?.setAttribute("aria-expanded", String(open));
  for (const list of contents.querySelectorAll("li > ul")) {
    const fold = document.createElement("button");
    fold.type = "button";
    fold.className = "fold";
    fold.textContent = "\u203a";
    const section = list.parentElement.querySelector("a").textContent;
    fold.setAttribute("aria-label", `Parts of ${section}`);
    unfold(fold, false);
    list.before(fold);
    fold.addEventListener("click", () => {
      unfold(fold, fold.getAttribute("aria-expanded") === "false");
    });
  }
  const heads = [...document.querySelectorAll("main h2[id], main h3[id]")]
    .filter((head) => links.has(head.id));
  const where = contents.querySelector(".where");
  const top = (head) => head.getBoundingClientRect().top;
  // a heading that a link of the contents has just brought up, below 100 px, is read
  // however short its section is
  const atTop = (head) => top(head) >= 0 && top(head) < 100;
  let here;
  const mark = () => {
    const read = heads.find(atTop) ?? heads.findLast((h) => top(h) < innerHeight / 4);
    const link = read && links.get(read.id);
    if (link === here) return;
    const section = (a) => a?.closest(".contents details > ul > li");
    here?.classList.remove("here");
    here?.removeAttribute("aria-current");
    if (section(here) !== section(link)) {
      unfold(section(here)?.querySelector(".fold"), false);
      unfold(section(link)?.querySelector(".fold"), true);
    }
    here = link;
    where.textContent = link ? `\u00b7 ${section(link).querySelector("a").textContent}` : "";
    if (!link) return;
    link.classList.add("here");
    link.setAttribute("aria-current", "location");
    const nav = link.closest("nav"), box = link.getBoundingClientRect();
    if (box.top < 0 || box.bottom > nav.clientHeight) {
      nav.scrollTop += box.top - nav.clientHeight / 2;
    }
  };
  let waiting = false;
  window.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  }, { passive: true });
  mark();
})();
