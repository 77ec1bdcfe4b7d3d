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
    image.replaceWith(open);
    open.append(image);
    open.addEventListener("click", () => enlarge(image));
  }
  dialog.addEventListener("click", (e) => {
    if (!sheet.contains(e.target)) dialog.close();
  });

  // ---- what scrolls sideways can be reached with the keyboard -----------------------
  for (const block of document.querySelectorAll("pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
  }
})();
