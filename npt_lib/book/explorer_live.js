// With a kernel: sliders reach the values between the stored ones. The kernel draws these when it
// is free; while it is not, the nearest stored frame stands in, and the words say so.
const PATIENCE = 200;                       // milliseconds

function before(el) {
  for (let n = el.parentNode; n; n = n.parentNode ?? n.host) {
    const found = [...(n.querySelectorAll?.(".npt-explorer") ?? [])];
    const first = (e) => e.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (found.some(first)) return found.filter(first).at(-1);
  }
}

function connect(box, model) {
  const controls = [...box.querySelectorAll("[data-n]")], fine = model.get("fine");
  const note = box.querySelector(".npt-note") ?? document.createElement("p");
  note.className = "npt-note";
  note.setAttribute("role", "status");
  box.querySelector(".npt-controls").append(note);
  let asked = false, late = false, timer = 0;

  controls.forEach((c, i) => {
    if (!fine[i] || c.dataset.at) return;
    const at = fine[i].at[+c.value];
    Object.assign(c, { max: fine[i].texts.length - 1, value: at });
    c.dataset.at = fine[i].at.join("|");
  });
  const value = (c) =>
    c.type === "checkbox" ? +c.checked : c.selectedIndex >= 0 ? c.selectedIndex : +c.value;
  const places = () => controls.map(value);
  const stored = () => controls.every((c, i) => !fine[i] || fine[i].at.includes(value(c)));
  const wanted = () =>
    controls.map((c, i) => fine[i] && fine[i].texts[value(c)]).filter(Boolean).join(", ");
  const shown = () => [...box.querySelectorAll("output")].map((o) => o.value).join(", ");

  function nearest(why) {                   // shows what the page itself would show, and says so
    box.ask = null;
    box.dispatchEvent(new Event("input"));
    box.ask = ask;
    note.textContent = `${why} Shown: ${shown()}.`;
  }
  const waiting = () => nearest(`Busy: ${wanted()} follows when the kernel is free.`);

  function ask() {                          // true: leave the picture, the kernel is asked
    note.textContent = "";
    if (stored()) return false;
    if (!asked) {
      asked = true;
      model.send({ at: places() });
    }
    if (late) {
      setTimeout(() => { if (late && !stored()) waiting(); });
      return false;
    }
    timer ||= setTimeout(() => { late = true; if (!stored()) waiting(); }, PATIENCE);
    return true;
  }

  function answer({ at, html, texts }) {
    const was = late, here = String(at) === String(places());
    clearTimeout(timer);
    asked = late = false;
    timer = 0;
    if (stored()) return;
    if (html === null && here) {
      nearest(`There is no picture at ${wanted()}.`);
    } else if (html !== null && (here || !was)) {
      box.querySelector(".npt-frame").innerHTML = html;
      controls.forEach((c, i) => {
        const o = fine[i] && c.parentNode.querySelector("output");
        if (o) c.setAttribute("aria-valuetext", (o.value = texts[i]));
      });
      note.textContent = "";
    }
    if (!here) ask();
  }

  box.ask = ask;
  model.on("msg:custom", answer);
  return () => { model.off("msg:custom", answer); };
}

export default {
  render({ model, el }) {
    let close = () => {};
    const timer = setInterval(() => {
      const box = el.isConnected && before(el);
      if (!box) return;
      clearInterval(timer);
      close = connect(box, model);
    }, 50);
    return () => { clearInterval(timer); close(); };
  },
};
