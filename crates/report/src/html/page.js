// Sorts tables, searches, folds and unfolds. Without it the page shows the same.
(() => {
  "use strict";
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Rows of a table with the parts of each after it.
  const groups = (body) => {
    const list = [];
    for (const row of body.rows) {
      const part = row.querySelector("th.sub") !== null;
      if (part && list.length) list.at(-1).push(row); else list.push([row]);
    }
    return list;
  };
  const key = (row, column) => {
    const cell = row.cells[column];
    if (column === 0) return cell.textContent;
    return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  const compare = (a, b, down) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    return down ? -order : order;
  };
  const sort = (table, head, column) => {
    // Figures from the largest, names from the first.
    const was = head.getAttribute("aria-sort");
    const down = was === null ? column !== 0 : was === "ascending";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const list = groups(body);
    const sums = list.filter((group) => group[0].classList.contains("sum"));
    const rest = list.filter((group) => !sums.includes(group));
    rest.sort((a, b) => compare(key(a[0], column), key(b[0], column), down));
    body.append(...rest.flat(), ...sums.flat());
  };
  for (const table of all("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }

  const parts = all("details.part");
  const folds = all("details.part, details.part details");
  const units = "tbody tr, .unit";
  let before = null;
  const shows = (box) => all(units, box).some((unit) => !unit.hidden);
  const search = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter((word) => word);
    if (words.length && before === null) before = folds.map((fold) => fold.open);
    let found = 0;
    for (const unit of all("details.part :is(" + units + ")")) {
      const told = unit.textContent.toLowerCase();
      unit.hidden = !words.every((word) => told.includes(word));
      found += !unit.hidden;
    }
    const boxes = all("details.part, details.part :is(.scroll, .block, details)");
    boxes.forEach((box) => { box.hidden = words.length !== 0 && !shows(box); });
    if (words.length) folds.forEach((fold) => { fold.open = !fold.hidden; });
    else if (before !== null) {
      folds.forEach((fold, i) => { fold.open = before[i]; });
      before = null;
    }
    document.querySelector("#found").textContent = words.length ? found + " found" : "";
  };
  const field = document.querySelector("#search");
  field.addEventListener("input", () => search(field.value));

  const button = document.querySelector("#unfold");
  button.addEventListener("click", () => {
    const open = parts.some((part) => !part.open);
    parts.forEach((part) => { part.open = open; });
    button.textContent = open ? "Close all" : "Open all";
  });
  document.querySelector(".tools").hidden = false;
  const named = () => {
    const part = document.getElementById(location.hash.slice(1));
    if (part instanceof HTMLDetailsElement) part.open = true;
  };
  addEventListener("hashchange", named);
  named();

  // For browsers whose style sheets cannot print what is folded.
  if (!CSS.supports("selector(::details-content)")) {
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = all("details.printed:not([open])");
      folded.forEach((part) => { part.open = true; });
    });
    addEventListener("afterprint", () => folded.forEach((part) => { part.open = false; }));
  }
})();
