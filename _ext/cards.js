// A link to a term, an equation, a figure or a paper shows it in a card: on hover and on focus.
(function () {
  var KIND = /#(term-|eq-|fig-)|references\.html#./;
  var base = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
  var card = null, shown = null, timer = null, asked = {};

  // What a page has for cards comes from one file, asked for when it is first needed.
  function cards(page) {
    asked[page] = asked[page] || new Promise(function (done) {
      var script = document.createElement("script");
      script.src = base + "_static/cards/" + page.replace(/\.html$/, "").replace(/\//g, "-") + ".js";
      script.onload = script.onerror = function () { done((window.nptCards || {})[page] || {}); };
      document.head.append(script);
    });
    return asked[page];
  }

  function figure(caption) {
    var drawings = [].slice.call(document.querySelectorAll("article svg.npt-fig"));
    var before = drawings.filter(function (e) {
      return e.compareDocumentPosition(caption) & Node.DOCUMENT_POSITION_FOLLOWING;
    });
    return before.length ? before[before.length - 1].outerHTML : "";
  }

  function content(link) {
    var here = link.pathname === location.pathname && document.getElementById(link.hash.slice(1));
    if (here && here.matches("div.math")) return Promise.resolve(here.outerHTML);
    if (here && here.matches("p.npt-caption")) return Promise.resolve(figure(here) + here.outerHTML);
    var page = link.href.slice(base.length).split("#")[0];
    return cards(page).then(function (all) { return all[link.hash.slice(1)] || ""; });
  }

  function place(link) {
    var at = link.getClientRects()[0], wide = document.documentElement.clientWidth;
    var zero = card.offsetParent.getBoundingClientRect(), high = card.offsetHeight;
    var below = at.bottom + high + 8 < innerHeight || at.top < innerHeight - at.bottom;
    var left = Math.max(8, Math.min(at.left, wide - card.offsetWidth - 8));
    card.style.left = left - zero.left + "px";
    card.style.top = (below ? at.bottom + 6 : at.top - high - 6) - zero.top + "px";
  }

  function show(link) {
    shown = link;
    content(link).then(function (html) {
      if (!html || shown !== link) return;
      hide();
      card = document.createElement("div");
      card.id = "npt-card";
      card.className = "npt-card";
      card.innerHTML = html;
      card.querySelectorAll("[id], [role]").forEach(function (e) {
        if (!e.closest("svg")) { e.removeAttribute("id"); e.removeAttribute("role"); }
      });
      card.querySelectorAll("a").forEach(function (e) {
        e.removeAttribute("href"); e.removeAttribute("tabindex");
      });
      card.addEventListener("mouseenter", function () { clearTimeout(timer); });
      card.addEventListener("mouseleave", later);
      document.querySelector("article").append(card);
      shown = link;
      link.setAttribute("aria-describedby", "npt-card");
      place(link);
    });
  }

  function hide() {
    clearTimeout(timer);
    if (shown) shown.removeAttribute("aria-describedby");
    if (card) card.remove();
    card = shown = null;
  }
  function later() { clearTimeout(timer); timer = setTimeout(hide, 200); }
  function linkOf(event) {
    var link = event.target.closest && event.target.closest("article a[href]:not(.headerlink)");
    return link && KIND.test(link.href) && !link.ownerSVGElement ? link : null;
  }

  document.addEventListener("pointerover", function (event) {
    var link = linkOf(event);
    if (!link || event.pointerType === "touch") return;
    clearTimeout(timer);
    if (link !== shown) timer = setTimeout(function () { show(link); }, 250);
  });
  document.addEventListener("pointerout", function (event) { if (linkOf(event)) later(); });
  document.addEventListener("focusin", function (event) {
    var link = linkOf(event);
    if (link && link.matches(":focus-visible")) show(link); else hide();
  });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") hide(); });
  document.addEventListener("click", hide);
})();
