// Buttons that show the experiments with one verdict. Without scripts the page is whole as well.
const place = document.getElementById("filter");
const rows = [...document.querySelectorAll("[data-verdict]")];
const names = new Map(rows.map((row) => [row.dataset.verdict, row.querySelector(".badge span")?.textContent]));

function choose(kind, pressed) {
  for (const row of rows) row.hidden = Boolean(kind) && row.dataset.verdict !== kind;
  for (const button of place.children) button.setAttribute("aria-pressed", String(button === pressed));
}

for (const [kind, name] of [["", place.dataset.all], ...names]) {
  const count = kind ? rows.filter((row) => row.dataset.verdict === kind).length : rows.length;
  const button = document.createElement("button");
  button.textContent = `${name} ${count}`;
  button.addEventListener("click", () => choose(kind, button));
  place.append(button);
}
choose("", place.firstChild);
