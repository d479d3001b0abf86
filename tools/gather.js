// The articles of all pages, one after the other, in the first page: its links lead within it.
async (pages) => {
  const parse = async page => new DOMParser().parseFromString(
    await (await fetch(page)).text(), "text/html");
  const slug = page => page.replace(/\.html$/, "").replaceAll("/", "-");
  const home = new URL(".", location.href.replace(pages[0], ""));
  const place = (page, id) => slug(page) + (id ? "--" + decodeURIComponent(id) : "");

  const link = (a, page) => {
    const to = new URL(a.getAttribute("href"), new URL(page, home));
    const target = to.href.slice(home.href.length).split("#")[0];
    if (to.origin !== home.origin) return;
    if (pages.includes(target)) a.setAttribute("href", "#" + place(target, to.hash.slice(1)));
    else a.removeAttribute("href");
  };
  const article = async page => {
    const part = (await parse(new URL(page, home))).querySelector("article");
    part.querySelectorAll("a.headerlink, script, .npt-launch").forEach(e => e.remove());
    part.querySelectorAll("[src]").forEach(
      e => { e.src = new URL(e.getAttribute("src"), new URL(page, home)); });
    part.querySelectorAll("a[href]").forEach(a => link(a, page));
    part.querySelectorAll("[id]").forEach(
      e => { if (!e.ownerSVGElement) e.id = place(page, e.id); });
    part.querySelectorAll("details:not(.above-input)").forEach(e => { e.open = true; });
    part.querySelector("h1").id = slug(page);
    part.classList.add("npt-page");
    return part;
  };

  const parts = await Promise.all(pages.map(article));
  const list = document.createElement("ol");
  parts.forEach((part, n) => {
    const title = part.querySelector("h1").textContent.trim();
    list.insertAdjacentHTML("beforeend", `<li><a href="#${slug(pages[n])}"><span></span><i></i></a></li>`);
    list.lastChild.querySelector("span").textContent = title;
  });
  const contents = document.createElement("article");
  contents.className = "bd-article npt-page npt-contents";
  contents.innerHTML = "<h1>Contents</h1>";
  contents.append(list);
  const main = document.createElement("main");
  main.append(parts[0], contents, ...parts.slice(1));
  document.body.replaceChildren(main);
  document.documentElement.dataset.theme = "light";
}
