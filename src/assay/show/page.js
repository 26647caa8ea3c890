// The page says everything without this script. It adds: filter, sort, enlarged figures, and the
// values of the point that is nearest to the pointer.
"use strict";
(() => {
  const make = (tag, attributes, text) => {
    const made = document.createElement(tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    if (text) made.textContent = text;
    return made;
  };

  // Filter: words that all must occur, in the rows of the metrics and in the cases.
  const filter = (section, items, what) => {
    if (items.length < 6) return;
    const label = make("label", { class: "filter" }, `Filter the ${what}: `);
    const field = make("input", { type: "search", placeholder: "node02, FAIL, latency" });
    const count = make("output", {});
    label.append(field, count);
    section.querySelector("h2").after(label);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const item of items) {
        const text = item.textContent.toLowerCase();
        item.hidden = !words.every((word) => text.includes(word));
        if (!item.hidden) shown += 1;
      }
      if (words.length) for (const more of section.querySelectorAll("details.more")) more.open = true;
      count.textContent = words.length ? ` ${shown} of ${items.length}` : "";
    });
  };
  const metrics = document.getElementById("metrics");
  filter(metrics, [...metrics.querySelectorAll("tbody tr")], "metrics");
  const cases = document.getElementById("cases");
  filter(cases, [...cases.querySelectorAll("details.case")], "cases");

  // Sort: a click on the head of a column, up and then down.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
        const compare = (a, b) => {
          const [x, y] = [key(a), key(b)];
          // A cell without a number comes last in both directions.
          if (x === "" || y === "") return (x === "") - (y === "");
          const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
          return down ? -order : order;
        };
        body.append(...[...body.rows].sort(compare));
      });
    });
  }

  // Zoom: a figure moves into a dialog and back.
  const dialog = make("dialog", { "aria-label": "Enlarged figure" });
  const close = make("button", { type: "button" }, "Close");
  document.body.append(dialog);
  let home = null;
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    if (home) home.place.replaceWith(home.svg);
    home = null;
  });
  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg");
    const button = make("button", { type: "button", class: "zoom" }, "Enlarge");
    figure.querySelector("figcaption").before(button);
    button.addEventListener("click", () => {
      home = { svg, place: make("span", {}) };
      svg.replaceWith(home.place);
      dialog.replaceChildren(close, svg);
      dialog.showModal();
    });
  }

  // Hover: the text of the nearest point. Browsers show it too, but only on the point itself.
  const told = make("p", { class: "told", hidden: "" });
  document.body.append(told);
  const REACH = 24;
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest ? event.target.closest("figure svg, dialog svg") : null;
    let best = null;
    for (const title of svg ? svg.querySelectorAll("use > title, path > title") : []) {
      const box = title.parentNode.getBoundingClientRect();
      const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const far = Math.hypot(x, y);
      if (far < REACH && (!best || far < best.far)) best = { far, text: title.textContent };
    }
    told.hidden = !best;
    if (!best) return;
    told.textContent = best.text;
    (dialog.open ? dialog : document.body).append(told);
    told.style.left = `${Math.min(event.clientX + 14, innerWidth - told.offsetWidth - 8)}px`;
    told.style.top = `${Math.max(event.clientY - told.offsetHeight - 10, 4)}px`;
  });

  // A link to a case opens it; some browsers do so themselves.
  const reveal = () => {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) {
      folded.open = true;
      folded.hidden = false;
      folded.scrollIntoView();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
