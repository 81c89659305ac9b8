// Pages with long lists of options get a box: only entries with the letters that are typed stay. filter_pages in
// conf.py says which pages.
document.addEventListener("DOMContentLoaded", () => {
  const article = document.querySelector("article");
  const title = article && article.querySelector("h1");
  if (!title) return;
  const box = document.createElement("input");
  box.type = "search";
  box.className = "filter-box";
  box.placeholder = "Show only entries that contain …";
  box.setAttribute("aria-label", box.placeholder);
  title.after(box);
  const entries = [...article.querySelectorAll("section section > ul > li, section section table tbody tr")];
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    for (const entry of entries) entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
    for (const section of article.querySelectorAll("section section"))
      section.hidden = wanted !== "" && !section.querySelector("li:not([hidden]), tbody tr:not([hidden])");
  });
});
