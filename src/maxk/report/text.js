// Text from models and data sets becomes text nodes and spans, never markup.

const WORDS = "and as assert async await break case class continue def del elif else except finally for from " +
  "global if import in is lambda match nonlocal not or pass raise return try while with yield";
const VALUES = "False None True abs all any bool dict divmod enumerate filter float frozenset input int isinstance " +
  "iter len list map max min next open ord chr pow print range repr reversed round self set sorted str sum super " +
  "tuple type zip";
const KEYWORDS = new Set(WORDS.split(" "));
const BUILTINS = new Set(VALUES.split(" "));

// One alternative per kind, tried from left to right at each place; none can backtrack far.
const TOKEN = new RegExp([
  "(?<c>#[^\\n]*)",
  "(?<s>[rbfuRBFU]{0,2}(?:\"\"\"(?:\\\\[^]|(?!\"\"\")[^])*(?:\"\"\")?|'''(?:\\\\[^]|(?!''')[^])*(?:''')?" +
    "|\"(?:\\\\[^]|[^\"\\\\\\n])*\"?|'(?:\\\\[^]|[^'\\\\\\n])*'?))",
  "(?<n>(?:0[xXoObB][\\da-fA-F_]+|\\d[\\d_]*\\.?[\\d_]*(?:[eE][-+]?\\d+)?)j?)",
  "(?<w>[\\p{L}_][\\p{L}\\p{N}_]*)",
  "(?<o>[^])",
].join("|"), "gu");

// Characters that change how others are shown, or are not shown at all.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

/** Append text, with odd characters spelled out. */
function write(parent, text) {
  let done = 0;
  for (const found of text.matchAll(ODD)) {
    parent.append(text.slice(done, found.index));
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parent.append(element("span", { class: "odd" }, `U+${code}`));
    done = found.index + found[0].length;
  }
  parent.append(text.slice(done));
  return parent;
}

/** Python as a list of lines, each a list of [class, text]. */
function highlighted(program) {
  const lines = [[]];
  let defines = false;
  for (const found of program.matchAll(TOKEN)) {
    const kinds = found.groups;
    let kind = kinds.c !== undefined ? "c" : kinds.s !== undefined ? "s" : kinds.n !== undefined ? "n" : "";
    if (kinds.w !== undefined) {
      kind = defines ? "d" : KEYWORDS.has(kinds.w) ? "k" : BUILTINS.has(kinds.w) ? "b" : "";
      defines = kinds.w === "def" || kinds.w === "class";
    }
    found[0].split("\n").forEach((part, i) => {
      if (i > 0) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  }
  return lines;
}

/** A line of code with its mark: its number, or + and - in a diff. */
function codeLine(tokens, mark, kind = "") {
  const line = element("span", { class: `line ${kind}`.trim(), "data-mark": mark });
  let plain = "";
  for (const [name, text] of tokens) {
    if (!name) { plain += text; continue; }
    write(line, plain);
    plain = "";
    line.append(write(element("span", { class: name }), text));
  }
  write(line, plain);
  return line;
}

const MOST_PAIRS = 4e6; // of lines that are compared; beyond, all of one is replaced by all of the other

/** What turns the lines of one program into those of another: [mark, line], mark " ", "-" or "+". */
function difference(before, after) {
  let [a, b] = [before.split("\n"), after.split("\n")];
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  const out = a.slice(0, same).map((line) => [" ", line]);
  [a, b] = [a.slice(same), b.slice(same)];
  if (a.length * b.length > MOST_PAIRS) return [...out, ...a.map((l) => ["-", l]), ...b.map((l) => ["+", l])];
  // common[i][j]: the most lines that a from i and b from j have in common, in order
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { out.push([" ", a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) out.push(["-", a[i++]]);
    else out.push(["+", b[j++]]);
  }
  return out;
}
