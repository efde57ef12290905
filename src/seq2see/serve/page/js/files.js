// Files: dropped or chosen, translated, and there to be fetched.
import { isSaved, translateFile } from "./api.js";
import { fill, h } from "./dom.js";
import { show, told } from "./sentence.js";
import { t } from "./text.js";

// Translates what is chosen or dropped, one after the other; `languages()` says from which to which. The
// card is there once `offer(settings)` has said that the service takes files.
export function fileDrop(home, languages) {
  const list = h("ul", { class: "files" });
  const picker = h("input", { type: "file", multiple: true, class: "visually-hidden", id: "files" });
  const note = h("p", { class: "note" });
  picker.addEventListener("change", () => { take([...picker.files]); picker.value = ""; });
  fill(home, h("div", { class: "row between" }, h("div", {}, h("h2", {}, t("files")), note),
    h("div", {}, picker, h("label", { class: "button", for: "files" }, t("files.choose")))), list);
  home.hidden = true;

  function offer({ filesTranslation, supportedFilesFormat }) {
    home.hidden = isSaved() || !filesTranslation;
    picker.accept = supportedFilesFormat.join(",");
    note.textContent = t("files.note", { formats: supportedFilesFormat.join(" ") });
  }

  async function take(chosen) {
    const { source, target } = languages();
    for (const file of chosen) {
      const state = h("span", { class: "status busy" }, t("busy"));
      list.append(h("li", {}, h("span", { dir: "auto" }, file.name), " ", state));
      try {
        const path = await translateFile(file, source, target);
        state.replaceWith(h("a", { href: path, download: true }, t("download")));
      } catch (error) {
        show(state, "error", told(error));
      }
    }
  }

  for (const kind of ["dragenter", "dragover"]) {
    home.addEventListener(kind, (event) => { event.preventDefault(); home.classList.add("over"); });
  }
  home.addEventListener("dragleave", () => home.classList.remove("over"));
  home.addEventListener("drop", (event) => {
    event.preventDefault();
    home.classList.remove("over");
    take([...event.dataTransfer.files]);
  });
  return offer;
}
