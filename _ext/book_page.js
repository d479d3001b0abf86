// Small repairs to the theme, so that the page is the same for eyes, keyboard and screen reader.
window.addEventListener("load", function () {
  var each = function (selector, change) { document.querySelectorAll(selector).forEach(change); };
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
});
