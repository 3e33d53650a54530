"use strict";
// Tables of class "sort" are sorted by the column whose heading is pressed. Cells are compared by data-v, else by text.
for (const table of document.querySelectorAll("table.sort")) {
  const headings = [...table.tHead.rows[0].cells];
  const value = (row, i) => row.cells[i].dataset.v ?? row.cells[i].textContent.trim();
  const compare = (a, b) => {
    const x = parseFloat(a), y = parseFloat(b);
    return isNaN(x) || isNaN(y) ? a.localeCompare(b) : x - y;
  };
  headings.forEach((heading, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((h) => h.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(value(a, i), value(b, i)) * (down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
}
