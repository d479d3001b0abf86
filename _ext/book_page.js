// Small repairs to the theme, so that the page is the same for eyes, keyboard and screen reader.
(function () {
  var each = function (selector, change) { document.querySelectorAll(selector).forEach(change); };

  window.addEventListener("load", function () {
    // controls named by the words they show
    each(".search-button-field, details.hide > summary", function (e) {
      e.removeAttribute("aria-label"); e.removeAttribute("title");
    });
    // the sidebar is a landmark
    each(".bd-sidebar-primary", function (e) {
      e.setAttribute("role", "navigation"); e.setAttribute("aria-label", "Book");
    });
    // lists are lists
    each(".citation-list[role], .citation[role]", function (e) { e.removeAttribute("role"); });
    // what scrolls sideways can be scrolled by keyboard
    each("pre, div.math, .pst-scrollable-table-container, .cell_output .text_html", function (e) {
      if (e.scrollWidth > e.clientWidth && !e.hasAttribute("tabindex")) e.setAttribute("tabindex", "0");
    });
    // copying is for the pointer: by keyboard it would be fifty stops a chapter
    each(".copybtn", function (e) { e.tabIndex = -1; });
    each("svg.npt-fig", oneStop);
    // long names in a table may go on in the next line, but only at a joint
    each("article table code .pre", function (e) {
      if (e.textContent.length < 12 || e.children.length) return;
      e.textContent.split(/(?<=[_.(])/).forEach(function (part, n) {
        if (!n) e.textContent = "";
        e.append(part, document.createElement("wbr"));
      });
    });
    bets();
  });

  // A bet is one stop: Look also opens the outputs that wait between the question and itself.
  function bets() {
    var waiting = [];
    each("article blockquote, article details", function (e) {
      var summary = e.querySelector("summary");
      if (e.tagName === "BLOCKQUOTE") {
        if (/^Predict/.test(e.textContent.trim())) waiting = [];
      } else if (e.classList.contains("below-input")) {
        waiting.push(e);
      } else if (summary && summary.textContent.trim() === "Look") {
        var outputs = waiting;
        waiting = [];
        outputs.forEach(function (output) { output.querySelector("summary").tabIndex = -1; });
        e.addEventListener("toggle", function () {
          if (e.open) outputs.forEach(function (output) { output.open = true; });
        });
      }
    });
  }

  // The links of a drawing are one stop; the arrow keys go from link to link.
  function oneStop(drawing) {
    var links = [].slice.call(drawing.querySelectorAll("a"));
    links.forEach(function (link, n) { link.setAttribute("tabindex", n ? "-1" : "0"); });
    drawing.addEventListener("keydown", function (event) {
      var step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      var at = links.indexOf(document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      var to = links[(at + step + links.length) % links.length];
      links[at].setAttribute("tabindex", "-1");
      to.setAttribute("tabindex", "0");
      to.focus();
    });
  }

  // On paper: light, and what is folded in the text is open. Code that draws stays folded.
  var before = null;
  function toPaper() {
    if (before) return;
    var root = document.documentElement, folds = [];
    each("article details:not(.above-input):not([open])", function (e) { folds.push(e); e.open = true; });
    before = {theme: root.dataset.theme, folds: folds};
    root.dataset.theme = "light";
  }
  function toScreen() {
    if (!before) return;
    document.documentElement.dataset.theme = before.theme;
    before.folds.forEach(function (e) { e.open = false; });
    before = null;
  }
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", toScreen);
  window.matchMedia("print").addEventListener("change", function (media) {
    if (media.matches) toPaper(); else toScreen();
  });
})();
