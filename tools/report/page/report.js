"use strict";
const tabs = [...document.querySelectorAll("[role=tab]")];
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const specs = read("specs"), lineage = read("lineage-data");
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Set();

function config() {
  const text = getComputedStyle(document.body).getPropertyValue("--text").trim();
  const line = getComputedStyle(document.body).getPropertyValue("--line").trim();
  return { background: "transparent", view: { stroke: line },
    axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line },
    legend: { labelColor: text, titleColor: text, orient: "bottom", columns: 3, symbolLimit: 13 },
    mark: { color: dark.matches ? "#6cb0ff" : "#0b5cad" } };
}

function draw(panel) {
  for (const place of panel.querySelectorAll(".chart")) {
    if (drawn.has(place.id)) continue;
    drawn.add(place.id);
    vegaEmbed(place, specs[place.id], { actions: false, renderer: "svg", ast: true,
      config: config() }).then(() => { place.dataset.drawn = "true"; }, (problem) => {
      place.textContent = "The chart can't be drawn: " + problem.message;
      console.error(problem);
    });
  }
}

function show(tab, focus) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
  history.replaceState(null, "", "#" + tab.dataset.name);
  draw(document.getElementById(tab.getAttribute("aria-controls")));
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

function cell(row, text) {
  row.insertCell().textContent = text;
}

function choose(button) {
  const name = button.dataset.table, table = lineage.tables[name];
  const near = new Set([...table.reads, ...Object.keys(lineage.tables)
    .filter((other) => lineage.tables[other].reads.includes(name))]);
  for (const one of document.querySelectorAll(".layers button")) {
    one.setAttribute("aria-pressed", String(one === button));
    one.classList.toggle("near", near.has(one.dataset.table));
  }
  document.getElementById("columns-of").textContent = "Columns of " + name;
  const body = document.getElementById("columns").tBodies[0];
  body.replaceChildren();
  for (const [column, inputs, roots, reasons] of table.columns) {
    const row = body.insertRow();
    cell(row, column);
    cell(row, inputs.join(", "));
    cell(row, roots.join(", "));
    cell(row, reasons.map((reason) => lineage.reasons[reason] || reason).join("; "));
  }
  document.getElementById("columns-box").hidden = false;
}
for (const button of document.querySelectorAll(".layers button")) {
  button.addEventListener("click", () => choose(button));
}
const wanted = tabs.find((tab) => tab.dataset.name === location.hash.slice(1));
show(wanted || tabs[0], false);
