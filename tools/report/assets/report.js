const tabs = [...document.querySelectorAll("[role=tab]")];
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const charts = read("charts"), lineage = read("lineage-data");
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Set();
const panel_of = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

function config() {
  const style = getComputedStyle(document.documentElement);
  const [text, soft, line, accent] = ["--text", "--soft", "--line", "--accent"].map(
    (name) => style.getPropertyValue(name).trim());
  return {
    background: "transparent", font: "system-ui, sans-serif", view: { stroke: line },
    axis: { labelColor: soft, titleColor: soft, titleFontWeight: "normal", gridColor: line,
      domainColor: line, tickColor: line, labelLimit: innerWidth < 640 ? 80 : 140 },
    legend: { labelColor: text, titleColor: soft, orient: "bottom", columns: innerWidth < 640 ? 2 : 3,
      labelLimit: 120, titleFontWeight: "normal", symbolLimit: 30 },
    mark: { color: accent }, line: { strokeWidth: 2 }, point: { size: 24 },
    range: { category: { scheme: dark.matches ? "set2" : "tableau10" } },
  };
}

function draw(panel) {
  for (const place of panel.querySelectorAll(".chart")) {
    if (drawn.has(place.id)) continue;
    drawn.add(place.id);
    const { spec, columns, rows } = charts[place.id];
    const values = rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));
    vegaEmbed(place, { ...spec, data: { values, format: spec.data.format } },
      { actions: false, renderer: "svg", ast: true, config: config() }).then(
      () => { place.dataset.drawn = "true"; },
      (problem) => {
        place.textContent = "The chart can't be drawn: " + problem.message;
        console.error(problem);
      });
  }
}

function show(tab, focus) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    panel_of(other).hidden = !chosen;
  }
  if (focus) tab.focus();
  tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft;
  history.replaceState(null, "", "#" + tab.dataset.name);
  draw(panel_of(tab));
}

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => show(tab, false));
  tab.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(tabs[(steps[event.key] + tabs.length) % tabs.length], true);
  });
});
dark.addEventListener("change", () => {
  drawn.clear();
  draw(document.querySelector("[role=tabpanel]:not([hidden])"));
});

function fill(table, names, rows) {
  const head = table.createTHead().insertRow();
  for (const name of names) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name.replaceAll("_", " ");
    head.append(cell);
  }
  const body = table.createTBody();
  for (const values of rows) {
    const row = body.insertRow();
    for (const value of values) {
      const cell = row.insertCell();
      cell.dir = "auto";
      cell.textContent = value === null ? "" : String(value);
    }
  }
}

for (const box of document.querySelectorAll(".values")) {
  box.addEventListener("toggle", () => {
    if (!box.open || box.querySelector("table")) return;
    const { columns, rows } = charts[box.dataset.chart];
    const around = document.createElement("div"), table = document.createElement("table");
    around.className = "table";
    around.tabIndex = 0;
    around.setAttribute("role", "region");
    around.setAttribute("aria-labelledby", box.dataset.chart + "-title");
    fill(table, columns, rows);
    around.append(table);
    box.append(around);
  });
}

function choose(button) {
  const name = button.dataset.table, table = lineage.tables[name];
  const near = new Set([...table.reads, ...Object.keys(lineage.tables)
    .filter((other) => lineage.tables[other].reads.includes(name))]);
  for (const other of document.querySelectorAll(".layers button")) {
    other.setAttribute("aria-pressed", String(other === button));
    other.classList.toggle("near", near.has(other.dataset.table));
  }
  const title = document.getElementById("columns-of");
  title.textContent = "Columns of " + name;
  const body = document.getElementById("columns").tBodies[0];
  body.replaceChildren();
  for (const [column, inputs, roots, reasons] of table.columns) {
    const row = body.insertRow();
    const texts = [column, inputs.join(", "), roots.join(", "), reasons.join(", ")];
    for (const text of texts) row.insertCell().textContent = text;
  }
  document.getElementById("columns-box").hidden = false;
  title.focus();
  title.scrollIntoView({ block: "nearest" });
}
for (const button of document.querySelectorAll(".layers button")) {
  button.addEventListener("click", () => choose(button));
}
const wanted = tabs.find((tab) => tab.dataset.name === location.hash.slice(1));
show(wanted || tabs[0], false);
