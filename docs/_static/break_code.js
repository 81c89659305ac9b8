// Code in tables may break after a slash, an underscore or a bracket: paths and names stay readable in narrow columns.
document.addEventListener("DOMContentLoaded", () => {
  for (const piece of document.querySelectorAll("td code span.pre")) {
    const parts = piece.textContent.split(/(?<=[/_(])/);
    piece.replaceChildren(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
  }
});
