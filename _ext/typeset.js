// MathJax without a browser: typeset(formula, display) returns HTML, styles() what it needs of CSS.
var parts = MathJax._;
var adaptor = parts.adaptors.liteAdaptor.liteAdaptor();
parts.a11y["assistive-mml"].AssistiveMmlHandler(parts.handlers.html_ts.RegisterHTMLHandler(adaptor));
var tex = new parts.input.tex_ts.TeX({
  packages: ["base", "ams", "boldsymbol", "mathtools", "textmacros"],
  formatError: function (jax, error) { throw new Error(error.message); }
});
var svg = new parts.output.svg_ts.SVG({
  font: new parts.output.svg.fonts.tex_ts.TeXFont(), fontCache: "none"
});
var page = parts.mathjax.mathjax.document("", {InputJax: tex, OutputJax: svg});

// quickjs hands over only strings in one piece
function whole(text) { return Array.from(text).join(""); }
function typeset(formula, display) {
  tex.reset();
  return whole(adaptor.outerHTML(page.convert(formula, {display: display})));
}
function styles() { return whole(adaptor.textContent(svg.styleSheet(page))); }
