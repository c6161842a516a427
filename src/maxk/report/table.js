// The table of problems: sorted, filtered and searched in memory, a few hundred rows at a time.

const DATA = JSON.parse(document.getElementById("data").textContent);
const RUNS = DATA.runs;
const ROWS = DATA.problems;
const FIRST_ROWS = 200;
const byId = (id) => document.getElementById(id);

/** Share of samples that pass; null where the run has none of the problem. */
function success(row, run) {
  const found = row.runs[run];
  return found ? found[0] / found[1] : null;
}

const SAMPLED = RUNS.map((run, i) => i).filter((i) => RUNS[i].kind === "sample");
const [BEFORE, AFTER] = [SAMPLED[0], SAMPLED[1]];
const change = (row) => {
  const [a, b] = [success(row, BEFORE), success(row, AFTER)];
  return a === null || b === null ? null : b - a;
};

const COLUMNS = [{ name: "Problem", value: (row) => row.id, ascending: true }];
if (ROWS.some((row) => row.difficulty)) COLUMNS.push({ name: "Difficulty", value: (row) => row.difficulty, ascending: true, aside: true });
RUNS.forEach((run, i) => COLUMNS.push({ name: run.name, run: i, value: (row) => success(row, i) }));
if (AFTER !== undefined) COLUMNS.push({ name: SAMPLED.length > 2 ? `Change, ${RUNS[AFTER].name}` : "Change", value: change, signed: true });
if (ROWS.some((row) => row.flagged)) COLUMNS.push({ name: "Flagged", value: (row) => row.flagged, flags: true });

const FILTERS = [["all", "all problems", () => true]];
if (AFTER !== undefined) {
  FILTERS.push(
    ["lost", `lost: solved by ${RUNS[BEFORE].name}, never by ${RUNS[AFTER].name}`, (r) => success(r, BEFORE) > 0 && success(r, AFTER) === 0],
    ["gained", `gained: solved by ${RUNS[AFTER].name} alone`, (r) => success(r, BEFORE) === 0 && success(r, AFTER) > 0],
    ["worse", "solved less often", (r) => change(r) < 0],
    ["better", "solved more often", (r) => change(r) > 0],
  );
}
FILTERS.push(
  ["never", "never solved", (r) => Object.values(r.runs).every(([passed]) => passed === 0)],
  ["flagged", "with flagged passes", (r) => r.flagged > 0],
);

const table = { sort: COLUMNS.length > 1 && AFTER !== undefined ? COLUMNS.findIndex((c) => c.signed) : 0, ascending: true, all: false };

/** The rows that are asked for, in order. */
function chosenRows() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = FILTERS.find(([name]) => name === byId("filter").value)[2];
  const level = byId("difficulty").value;
  const rows = ROWS.filter((row) => wanted(row) && (!level || row.difficulty === level) &&
    words.every((word) => row.id.toLowerCase().includes(word) || row.text.toLowerCase().includes(word)));
  const { value } = COLUMNS[table.sort];
  const turn = table.ascending ? 1 : -1;
  const collator = new Intl.Collator("en", { numeric: true });
  return rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last
    return turn * (typeof x === "string" ? collator.compare(x, y) : x - y) || collator.compare(a.id, b.id);
  });
}

function cell(column, row) {
  const value = column.value(row);
  if (value === null) return element("td", {}, "");
  if (column.run !== undefined) {
    const [passed, samples, best] = row.runs[column.run];
    const bar = element("i");
    bar.style.width = `${(100 * passed) / samples}%`;
    const link = element("a", { href: place(row.number, column.run) },
      `${passed} of ${samples}`, element("span", { class: `meter r${column.run % 6}`, "aria-hidden": "true" }, bar));
    link.title = `best reward ${best}`;
    return element("td", {}, link);
  }
  if (column.signed) {
    const text = `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(100 * value).toFixed(1)} %`;
    return element("td", { class: value > 0 ? "up" : value < 0 ? "down" : "" }, text);
  }
  if (column.flags) return element("td", {}, value ? element("span", { class: "flag" }, String(value)) : "");
  return write(element("td", column.aside ? { class: "aside" } : {}), value);
}

function drawTable() {
  const rows = chosenRows();
  const shown = table.all ? rows : rows.slice(0, FIRST_ROWS);
  const body = document.querySelector("#table tbody");
  body.replaceChildren(...shown.map((row) => {
    const first = Object.keys(row.runs)[0] ?? 0;
    const link = write(element("a", { href: place(row.number, first) }), row.id);
    const head = element("th", { scope: "row" }, link, write(element("span", { class: "small" }), row.text));
    return element("tr", {}, head, ...COLUMNS.slice(1).map((column) => cell(column, row)));
  }));
  byId("count").value = `${rows.length} of ${ROWS.length} problems`;
  byId("more").hidden = shown.length === rows.length;
  byId("more").textContent = `Show all ${rows.length}`;
  document.querySelectorAll("#table thead th").forEach((head, i) => {
    if (i === table.sort) head.setAttribute("aria-sort", table.ascending ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function startTable() {
  ROWS.forEach((row, number) => { row.number = number; });
  const heads = COLUMNS.map((column, i) => {
    const button = write(element("button", { type: "button" }), column.name);
    button.addEventListener("click", () => {
      table.ascending = table.sort === i ? !table.ascending : Boolean(column.ascending);
      table.sort = i;
      drawTable();
    });
    return element("th", column.aside ? { scope: "col", class: "aside" } : { scope: "col" }, button);
  });
  document.querySelector("#table thead").append(element("tr", {}, ...heads));
  byId("filter").append(...FILTERS.map(([name, text]) => element("option", { value: name }, text)));
  const levels = [...new Set(ROWS.map((row) => row.difficulty).filter(Boolean))];
  byId("difficulty").append(element("option", { value: "" }, "any"), ...levels.map((l) => element("option", { value: l }, l)));
  byId("difficulty-label").hidden = levels.length < 2;
  for (const id of ["search", "filter", "difficulty"]) {
    byId(id).addEventListener("input", () => { table.all = false; drawTable(); });
  }
  byId("more").addEventListener("click", () => { table.all = true; drawTable(); });
  drawTable();
}
