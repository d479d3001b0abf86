// Search: a chapter is found by its subject first, and what is shown of a page is its prose.
var SUBJECTS = {
  "01": ["softmax", "linear", "linear layer", "broadcasting", "chain rule", "central difference",
         "gradient check", "backward", "backpropagation", "axis", "axes"],
  "02": ["attention", "self attention", "scaled dot product", "scaled dot product attention",
         "dot product attention", "query", "key", "value", "mask", "causal mask", "padding mask", "score"],
  "03": ["multi head", "multi head attention", "multihead", "head", "split head", "cross attention",
         "reshape"],
  "04": ["feed forward", "feed forward network", "ffn", "mlp", "relu", "gelu", "activation",
         "hidden unit"],
  "05": ["position", "positional encoding", "position encoding", "positional embedding", "sinusoid",
         "sinusoidal", "embedding", "token", "tokenizer", "vocabulary"],
  "06": ["layer norm", "layer normalization", "layer normalisation", "layernorm", "normalization",
         "normalisation", "residual", "residual connection", "skip connection", "residual stream",
         "dropout", "encoder block", "post norm", "pre norm"],
  "07": ["encoder", "stack", "encoder stack", "depth"],
  "08": ["decoder", "decoder block", "causality", "memory"],
  "09": ["transformer", "whole model", "kv cache", "cache", "greedy", "greedy decoding",
         "weight tying", "tied embedding", "parameter count"],
  "10": ["training", "train", "loss", "cross entropy", "label smoothing", "adam", "sgd",
         "optimizer", "warm up", "warmup", "learning rate", "clipping", "gradient clipping",
         "beam search", "sampling", "teacher forcing", "checkpoint"]
};

function plain(words) {
  return words.toLowerCase().replace(/[-\s]+/g, " ").trim().replace(/([^s])s\b/g, "$1");
}

var Scorer = {
  score: function (result) {
    var page = result[0], anchor = result[2], score = result[4];
    var query = " " + plain(new URLSearchParams(location.search).get("q") || "") + " ";
    var chapter = /^book\/(\d\d)_/.exec(page);
    var named = ((chapter && SUBJECTS[chapter[1]]) || []).filter(function (subject) {
      return query.includes(" " + plain(subject) + " ");
    });
    if (named.length && !anchor) {
      return score + 100 + Math.max.apply(null, named.map(function (s) { return s.length; }));
    }
    return /^(book\/solutions|_modules)/.test(page) ? score - 20 : score;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};

document.addEventListener("DOMContentLoaded", function () {
  if (typeof Search === "undefined") return;
  Search.makeSearchSummary = function (html, keywords, anchor) {
    var page = new DOMParser().parseFromString(html, "text/html");
    var part = (anchor && page.querySelector("article " + anchor)) || page.querySelector("article");
    if (part && part.matches("dt")) part = part.nextElementSibling;
    if (!part) return null;
    part.querySelectorAll(".headerlink, script, style, svg, .cell").forEach(function (e) {
      e.remove();
    });
    var texts = [].map.call(part.querySelectorAll("p, li, dd"), function (e) {
      return e.textContent.replace(/\s+/g, " ").trim();
    });
    var words = Array.from(keywords, function (keyword) { return keyword.toLowerCase(); });
    var hits = texts.map(function (text) {
      return words.filter(function (word) { return text.toLowerCase().includes(word); }).length;
    });
    var text = texts[Math.max(0, hits.indexOf(Math.max.apply(null, hits)))] || "";
    var at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 120);
    var summary = document.createElement("p");
    summary.className = "context";
    summary.textContent = (at ? "… " : "") + text.slice(at, at + 240).trim()
      + (at + 240 < text.length ? " …" : "");
    return summary;
  };
});
