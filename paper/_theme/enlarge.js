// Figures enlarge from the page itself, whichever renderer sets it: a lightbox would open
// files beside it, which do not travel with the page.
(() => {
  "use strict";
  const dialog = document.querySelector("dialog.zoomed");
  const sheet = dialog.querySelector(".sheet");
  const enlarge = (image) => {
    sheet.replaceChildren(image.cloneNode());
    dialog.showModal();
    sheet.scrollTo(0, 0);
  };
  for (const image of document.querySelectorAll("figure img")) {
    const open = document.createElement("button");
    open.type = "button";
    open.className = "enlarge";
    open.title = "Enlarge";
    const pane = document.createElement("div");
    pane.className = "pane";
    image.replaceWith(pane);
    pane.append(open);
    open.append(image);
    open.addEventListener("click", () => enlarge(image));
  }
  dialog.addEventListener("click", (e) => {
    if (!sheet.contains(e.target)) dialog.close();
  });

  // ---- what scrolls sideways fades where it goes on, and a keyboard reaches it ------
  const watch = (box, name) => {
    const look = () => {
      const hidden = box.scrollWidth - box.clientWidth;
      box.classList.toggle("more", hidden - box.scrollLeft > 4);
      const said = { tabindex: "0", role: "region", "aria-label": name };
      for (const key of name ? Object.keys(said) : []) {
        if (hidden > 0) box.setAttribute(key, said[key]);
        else box.removeAttribute(key);
      }
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
  };
  for (const pane of document.querySelectorAll("figure .pane")) {
    const caption = pane.closest("figure").textContent.trim();
    watch(pane, caption.match(/^Figure\s\d+/)?.[0] ?? "Figure");
  }
  for (const table of document.querySelectorAll(".table-wrap")) watch(table);
  for (const block of document.querySelectorAll("pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  }
})();
