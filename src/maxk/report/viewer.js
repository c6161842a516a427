// The viewer of samples. Where it is, is in the address: #/problem/run/sample, all numbers; without
// a sample it is the first of those that are walked through.

const viewer = { problem: -1, run: 0, sample: 0, pinned: null, payload: null };
const opened = new Map(); // payloads that were decompressed
const place = (...numbers) => `#/${numbers.join("/")}`;
const dialog = byId("viewer");
const FATES = DATA.letters;

async function payloadOf(problem) {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old to open the samples.");
  if (!opened.has(problem)) {
    const bytes = Uint8Array.from(atob(DATA.packed[problem]), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    opened.set(problem, JSON.parse(await new Response(stream).text()));
  }
  return opened.get(problem);
}

const columnsOf = (run) => viewer.payload.runs.find((each) => each.run === run);
const textOf = (columns, sample) => (columns.text[sample] < 0 ? null : viewer.payload.texts[columns.text[sample]]);
const outcomeOf = (columns, sample) => viewer.payload.outcomes[columns.outcome[sample]].replace(/(\d+)(.)/g, (_, n, c) => c.repeat(n));

/** The reward; where it is not written it is the share of the tests passed. */
function rewardOf(columns, i) {
  if (columns.reward) return columns.reward[i];
  const outcomes = outcomeOf(columns, i);
  return outcomes ? Number(((outcomes.split("P").length - 1) / outcomes.length).toPrecision(4)) : 0;
}

const KINDS = [
  ["all", "all", () => true],
  ["passing", "passing", (c, i) => c.status[i] === "P"],
  ["failing", "failing", (c, i) => c.status[i] !== "P"],
  ["kept", "with their program", (c, i) => c.text[i] >= 0],
  ["flagged", "flagged", (c, i) => c.flags[i] !== undefined],
];

/** The numbers of the samples that are walked through. */
function walked(columns) {
  const wanted = KINDS.find(([name]) => name === byId("which").value)[2];
  const all = [...columns.status].map((_, i) => i);
  const found = all.filter((i) => wanted(columns, i));
  return found.length ? found : all;
}

function step(by) {
  const order = walked(columnsOf(viewer.run));
  let at = order.findIndex((i) => i >= viewer.sample);
  if (at < 0) at = order.length - 1;
  else if (order[at] !== viewer.sample && by > 0) at -= 1;
  const next = order[Math.min(Math.max(at + by, 0), order.length - 1)];
  location.replace(place(viewer.problem, viewer.run, next));
}

function stepProblem(by) {
  const order = chosenRows().map((row) => row.number);
  const next = order[order.indexOf(viewer.problem) + by];
  if (next === undefined) return;
  const run = ROWS[next].runs[viewer.run] ? viewer.run : Object.keys(ROWS[next].runs)[0] ?? 0;
  location.replace(place(next, run));
}

/** Show what the address says, or close. */
async function follow() {
  const here = location.hash;
  const numbers = /^#\/\d+\/\d+(\/\d+)?$/.test(here) ? here.slice(2).split("/").map(Number) : [];
  if (!ROWS[numbers[0]]) {
    if (dialog.open) dialog.close();
    return;
  }
  const [problem, run, sample] = numbers;
  let payload;
  try {
    payload = await payloadOf(problem);
  } catch (error) {
    byId("count").value = error.message;
    return;
  }
  if (location.hash !== here) return; // moved on meanwhile
  if (viewer.problem !== problem) viewer.pinned = null;
  const columns = payload.runs.find((each) => each.run === run) ?? payload.runs[0];
  const isNew = viewer.problem !== problem || !dialog.open;
  Object.assign(viewer, { problem, payload, run: columns?.run ?? 0 });
  viewer.sample = columns ? Math.min(sample ?? walked(columns)[0], columns.status.length - 1) : 0;
  if (!dialog.open) dialog.showModal();
  if (isNew) drawProblem();
  if (columns) drawSample(columns);
}

function drawProblem() {
  const { payload } = viewer;
  byId("viewer-title").replaceChildren(write(document.createDocumentFragment(), ROWS[viewer.problem].id));
  byId("statement").replaceChildren(write(document.createDocumentFragment(), payload.statement));
  byId("run").replaceChildren(...payload.runs.map((each) => write(element("option", { value: each.run }), RUNS[each.run].name)));
  const order = chosenRows().map((row) => row.number);
  byId("previous-problem").disabled = order.indexOf(viewer.problem) <= 0;
  byId("next-problem").disabled = order.indexOf(viewer.problem) === order.length - 1;
}

function drawSample(columns) {
  const i = viewer.sample;
  byId("run").value = String(viewer.run);
  drawStrip(columns);
  const passed = outcomeOf(columns, i).split("P").length - 1;
  const facts = [
    `Sample ${i + 1} of ${columns.status.length}`,
    FATES[columns.status[i]],
    `${passed} of ${outcomeOf(columns, i).length} tests`,
    `reward ${rewardOf(columns, i)}`,
  ];
  if (columns.tokens?.[i] != null) facts.push(`${columns.tokens[i]} tokens`);
  if (columns.step) facts.push(`sampled at step ${columns.step[i]}`);
  byId("facts").textContent = facts.join(" · ");
  byId("flags").replaceChildren(...(columns.flags[i] ?? []).map((reason) => write(element("li"), `Look at this pass: it ${reason}`)));
  drawTests(columns, i);
  drawOthers(columns);
  drawProgram(columns, i);
  drawTraining(columns, i);
  const order = walked(columns);
  byId("left").disabled = i <= order[0];
  byId("right").disabled = i >= order[order.length - 1];
}

function drawStrip(columns) {
  const marks = [...columns.status].map((status, i) => {
    const names = [status === "P" ? "passed" : rewardOf(columns, i) > 0 ? "part" : "failed"];
    if (columns.text[i] < 0) names.push("bare");
    if (columns.flags[i]) names.push("flagged");
    if (i === viewer.sample) names.push("here");
    const mark = element("i", { class: names.join(" "), title: `${i + 1}: ${FATES[status]}` });
    mark.addEventListener("click", () => location.replace(place(viewer.problem, viewer.run, i)));
    return mark;
  });
  byId("strip").replaceChildren(...marks);
  byId("strip").querySelector(".here")?.scrollIntoView({ block: "nearest" });
}

function drawTests(columns, i) {
  const { tests, test_count: count } = viewer.payload;
  const outcomes = outcomeOf(columns, i);
  const got = columns.got[`${columns.text[i]}/${columns.outcome[i]}`] ?? [];
  const known = tests.length ? tests : [...outcomes].slice(0, 8).map((_, number) => [number, null, null]);
  const rows = known.map(([number, input, expected], place) => {
    const letter = outcomes[number];
    const value = got[place] ?? "";
    const verdict = element("td", { class: letter === "P" ? "P" : "F" }, letter ? FATES[letter] : "not run");
    const said = letter === "P" ? "the same" : unknown(columns, i, letter);
    const last = value ? write(element("td", { class: "value" }), value) : element("td", { class: "same" }, said);
    const given = input === null ? [] : [input, expected].map((text) => write(element("td", { class: "value" }), text));
    return element("tr", {}, element("td", {}, String(number + 1)), verdict, ...given, last);
  });
  const names = tests.length ? ["", "verdict", "input", "expected", "got"] : ["", "verdict", "got"];
  const head = element("tr", {}, ...names.map((name) => element(name ? "th" : "td", name ? { scope: "col" } : {}, name)));
  byId("tests").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  const notes = [];
  if (!tests.length) notes.push("A training run does not store its tests; add a sampling run on the same problems to see them.");
  if (known.length < count) notes.push(`${known.length} of ${count} tests are shown: those at which most samples fail first.`);
  if (count > known.length) notes.push(`All: ${summary(outcomes)}.`);
  byId("tests-note").textContent = notes.join(" ");
}

/** Why there is no value to show for a test that failed. */
function unknown(columns, i, letter) {
  if (letter !== "W") return "";
  return columns.text[i] < 0 ? "shown with its program only" : "nothing, or not stored";
}

function summary(outcomes) {
  const counts = {};
  for (const letter of outcomes) counts[letter] = (counts[letter] ?? 0) + 1;
  return Object.entries(counts).map(([letter, number]) => `${number} ${FATES[letter]}`).join(", ") || "not run";
}

/** What the sample can be compared with: the first pass of every run, and the pinned sample. */
function drawOthers(columns) {
  const select = byId("other");
  const before = select.value;
  const options = [element("option", { value: "" }, "nothing")];
  for (const each of viewer.payload.runs) {
    const first = [...each.status].findIndex((status, i) => status === "P" && each.text[i] >= 0);
    if (first >= 0) options.push(write(element("option", { value: `${each.run}/${first}` }), `first pass of ${RUNS[each.run].name} (sample ${first + 1})`));
  }
  if (viewer.pinned) {
    const [run, sample] = viewer.pinned.split("/").map(Number);
    options.push(write(element("option", { value: viewer.pinned }), `pinned: sample ${sample + 1} of ${RUNS[run].name}`));
  }
  select.replaceChildren(...options);
  select.value = [...select.options].some((option) => option.value === before) ? before : "";
  byId("pin").disabled = columns.text[viewer.sample] < 0;
}

function drawProgram(columns, i) {
  const program = textOf(columns, i);
  const box = byId("program");
  if (program === null) {
    box.className = "code absent";
    box.replaceChildren("The program of this sample is not in the page; its verdict is. Make the page with --samples all to have it.");
    return;
  }
  const [run, sample] = byId("other").value.split("/").map(Number);
  const other = byId("other").value ? textOf(columnsOf(run), sample) : null;
  if (other === null) {
    box.className = "code";
    const first = viewer.payload.first_line;
    const lines = highlighted(program).map((line, n) => codeLine(line, String(n + first)));
    if (first > 1) lines.unshift(element("span", { class: "small line" }, "Before it stand lines that the data set grants every program."));
    box.replaceChildren(...lines);
    return;
  }
  box.className = "code diff";
  const kinds = { "+": "plus", "-": "minus", " ": "" };
  const lines = difference(other, program).map(([mark, text]) => codeLine(highlighted(text)[0], mark, kinds[mark]));
  if (other === program) lines.unshift(element("span", { class: "small line" }, "The two programs are the same."));
  box.replaceChildren(...lines);
}

function drawTraining(columns, i) {
  const box = byId("weights");
  box.replaceChildren();
  if (!columns.weights) return;
  box.append(element("h3", {}, "In training"));
  if (!columns.weights[i].length) {
    box.append(element("p", { class: "small" }, "Sampled, and not trained on yet."));
    return;
  }
  const number = (x) => (x === null ? "not finite" : String(x));
  const rows = columns.weights[i].map((weight, n) => {
    const log = columns.ratios[i][n];
    return element("tr", {}, element("th", { scope: "row" }, String(n + 1)), element("td", {}, number(weight)),
      element("td", {}, log == null ? "" : Math.exp(log).toPrecision(4)), element("td", {}, log == null ? "" : number(log)));
  });
  const heads = ["update", "weight", "ratio", "log ratio"].map((name) => element("th", { scope: "col" }, name));
  box.append(element("table", { class: "numbers" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)));
}

function startViewer() {
  byId("which").append(...KINDS.map(([name, text]) => element("option", { value: name }, text)));
  if (DATA.partial) byId("which").value = "kept";
  byId("which").addEventListener("input", () => drawSample(columnsOf(viewer.run)));
  byId("run").addEventListener("input", () => location.replace(place(viewer.problem, byId("run").value)));
  byId("other").addEventListener("input", () => drawProgram(columnsOf(viewer.run), viewer.sample));
  byId("pin").addEventListener("click", () => {
    viewer.pinned = `${viewer.run}/${viewer.sample}`;
    drawOthers(columnsOf(viewer.run));
    byId("other").value = viewer.pinned;
    drawProgram(columnsOf(viewer.run), viewer.sample);
  });
  byId("left").addEventListener("click", () => step(-1));
  byId("right").addEventListener("click", () => step(1));
  byId("previous-problem").addEventListener("click", () => stepProblem(-1));
  byId("next-problem").addEventListener("click", () => stepProblem(1));
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    if (location.hash.startsWith("#/")) history.replaceState(null, "", "#problems");
    viewer.problem = -1;
  });
  document.addEventListener("keydown", (event) => {
    if (!dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("select, input")) return;
    const actions = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), j: () => stepProblem(1), k: () => stepProblem(-1), p: () => byId("pin").click() };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", () => document.querySelectorAll("figure details").forEach((each) => { each.open = true; }));
}

startTable();
startViewer();
follow();
