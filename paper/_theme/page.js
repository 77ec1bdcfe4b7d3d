// What the page can do without asking any other host: switch its colours, show n and
// interval of a number, enlarge a figure, mark the section that is being read.
(() => {
  "use strict";
  const root = document.documentElement;
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
    button.setAttribute("aria-pressed", String(dark()));
    button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  if (kept()) root.dataset.theme = kept();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();

  // ---- numbers: title becomes a note for mouse, finger and keyboard -----------------
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  const tell = (mark) => {
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.left, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left) + window.scrollX}px`;
    tip.style.top = `${box.bottom + window.scrollY + 6}px`;
  };
  for (const mark of document.querySelectorAll(".num[title], .missing[title]")) {
    mark.dataset.tip = mark.title;
    mark.removeAttribute("title");
    mark.tabIndex = 0;
    mark.setAttribute("aria-describedby", "tip");
    for (const on of ["mouseenter", "focus", "click"]) {
      mark.addEventListener(on, () => tell(mark));
    }
    for (const off of ["mouseleave", "blur"]) mark.addEventListener(off, hide);
  }
  document.addEventListener("keydown", (e) => { if (e.key === "Escape") hide(); });

  // ---- figures enlarge ------------------------------------------------------------
  const dialog = document.querySelector("dialog.zoomed");
  const frame = dialog.querySelector("div");
  const enlarge = (image) => {
    frame.replaceChildren(image.cloneNode());
    dialog.showModal();
  };
  for (const image of document.querySelectorAll("figure img")) {
    const open = document.createElement("button");
    open.type = "button";
    open.className = "enlarge";
    open.title = "Enlarge";
    image.replaceWith(open);
    open.append(image);
    open.addEventListener("click", () => enlarge(image));
  }
  dialog.addEventListener("click", () => dialog.close());

  // ---- what scrolls sideways can be reached with the keyboard -----------------------
  for (const block of document.querySelectorAll("pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  }

  // ---- contents: folded on a phone, and a mark where the reader is --------------------
  if (window.matchMedia("(max-width: 62rem)").matches) {
    document.querySelector(".contents details").open = false;
  }
  const links = new Map();
  for (const link of document.querySelectorAll(".contents a[href^='#']")) {
    links.set(decodeURIComponent(link.hash.slice(1)), link);
  }
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const name = entry.target.id || entry.target.closest("section")?.id;
      if (!entry.isIntersecting || !links.has(name)) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(name).classList.add("here");
    }
  }, { rootMargin: "0px 0px -75% 0px" });
  for (const head of document.querySelectorAll("main h2, main h3")) seen.observe(head);
})();
