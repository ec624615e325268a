"use strict";
(function () {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  if (theme) {
    const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });
  }

  // Paper can't be unfolded.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));

  // Sorting: a button in each header; figures by their data-v, words by their letters.
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : (cell.dataset.v === "" ? null : Number(cell.dataset.v));
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = Array.from(body.rows).map((row) => [key(row, column), row]);
        rows.sort((a, b) => (a[0] === null || b[0] === null) ? compare(a[0], b[0])
          : (down ? -compare(a[0], b[0]) : compare(a[0], b[0])));
        rows.forEach((pair) => body.append(pair[1]));
      });
    });
  });

  // Filtering: each select names a column, the text field looks in all of them.
  document.querySelectorAll("form.filters[data-table]").forEach((form) => {
    const table = document.getElementById(form.dataset.table);
    const count = form.querySelector("output");
    const apply = () => {
      const words = form.elements.words.value.toLowerCase();
      const selects = Array.from(form.querySelectorAll("select[data-column]"));
      let shown = 0;
      Array.from(table.tBodies[0].rows).forEach((row) => {
        const fits = selects.every((select) => !select.value
          || row.cells[Number(select.dataset.column)].textContent === select.value)
          && (!words || row.textContent.toLowerCase().includes(words));
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      });
      count.textContent = shown + " of " + table.tBodies[0].rows.length + " rows";
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  });

  // The data of a session, as CSV and as JSON.
  const quote = (value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  const toCsv = (data) => {
    const rows = data.samples;
    const said = Array.from(new Set(rows.flatMap((row) => row.reported.map((item) => item.name))));
    const kept = Object.keys(rows[0] || {}).filter((name) => name !== "digests" && name !== "reported");
    const lines = [["session", "guest", ...kept, ...said]];
    rows.forEach((row) => {
      const figures = Object.fromEntries(row.reported.map((item) => [item.name, item.value]));
      lines.push([data.session.id, data.session.guest, ...kept.map((name) => row[name]), ...said.map((name) => figures[name])]);
    });
    return lines.map((line) => line.map(quote).join(",")).join("\r\n") + "\r\n";
  };
  document.querySelectorAll("button[data-save]").forEach((button) => {
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset.from).textContent;
      const csv = button.dataset.save === "csv";
      const blob = new Blob([csv ? toCsv(JSON.parse(text)) : text], { type: csv ? "text/csv" : "application/json" });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = button.dataset.name + "." + button.dataset.save;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  });
})();
