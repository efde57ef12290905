// Translation of files: choose or drop them, then download the results.
import { translateFile } from "./api.js";
import { h, replaceContent } from "./dom.js";
import { isServed } from "./embedded.js";
import { errorText, showStatus } from "./errors.js";
import { t } from "./i18n.js";

// Fills the card and translates chosen or dropped files one after the other; languages() returns {source, target}.
// Returns a function of the service settings that shows the card if the service translates files.
export function fileUpload(card, languages) {
  const list = h("ul", { class: "files" });
  const input = h("input", { type: "file", multiple: true, class: "visually-hidden", id: "files" });
  const note = h("p", { class: "note" });
  input.addEventListener("change", () => { translateAll([...input.files]); input.value = ""; });
  replaceContent(card, h("div", { class: "row between" }, h("div", {}, h("h2", {}, t("files")), note),
    h("div", {}, input, h("label", { class: "button", for: "files" }, t("files.choose")))), list);
  card.hidden = true;

  function showIfSupported({ filesTranslation, supportedFilesFormat }) {
    card.hidden = !isServed || !filesTranslation;
    input.accept = supportedFilesFormat.join(",");
    note.textContent = t("files.note", { formats: supportedFilesFormat.join(" ") });
  }

  async function translateAll(files) {
    const { source, target } = languages();
    for (const file of files) {
      const status = h("span", { class: "status busy" }, t("busy"));
      list.append(h("li", {}, h("span", { dir: "auto" }, file.name), " ", status));
      try {
        const path = await translateFile(file, source, target);
        status.replaceWith(h("a", { href: path, download: true }, t("download")));
      } catch (error) {
        showStatus(status, "error", errorText(error));
      }
    }
  }

  for (const type of ["dragenter", "dragover"]) {
    card.addEventListener(type, (event) => { event.preventDefault(); card.classList.add("over"); });
  }
  card.addEventListener("dragleave", () => card.classList.remove("over"));
  card.addEventListener("drop", (event) => {
    event.preventDefault();
    card.classList.remove("over");
    translateAll([...event.dataTransfer.files]);
  });
  return showIfSupported;
}
