// Answers to predictions, checked in the page: the same words as `check` in a notebook.
// What is said of an answer is locked with that answer as the key (book_answers.py locks it).
(function () {
  "use strict";

  function hash(text) {                     // FNV-1a
    var h = 0x811c9dc5;
    new TextEncoder().encode(text).forEach(function (byte) {
      h = Math.imul(h ^ byte, 0x01000193);
    });
    return h >>> 0;
  }

  function unlock(key, locked) {            // the bytes of mulberry32, by exclusive or
    var state = hash(key);
    var bytes = Uint8Array.from(atob(locked), function (c) {
      state = (state + 0x6d2b79f5) | 0;
      var t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return c.charCodeAt(0) ^ ((t ^ (t >>> 14)) & 255);
    });
    try { return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)); }
    catch (error) { return null; }
  }

  // ---- what was written, as a value: a number, true or false, a word, or an array of these

  function read(text) {
    text = text.trim().toLowerCase();
    if (!/[a-z]{2}/.test(text)) {
      text = text.replace(/(\d)\s*[x×*]\s*(?=\d)/g, "$1,").replace(/(\d)\s+(?=\d)/g, "$1,");
    }
    var tokens = text.match(/[()[\],]|'[^']*'|"[^"]*"|[^()[\],'"]+/g) || [];
    tokens = tokens.map(function (t) { return t.trim(); }).filter(Boolean);
    var at = 0;

    function one() {
      var token = tokens[at++];
      if (token === "(" || token === "[") {
        var found = many(token === "(" ? ")" : "]");
        at++;
        return found.comma || token === "[" ? found.parts : found.parts[0];
      }
      return single(token);
    }
    function many(end) {
      var parts = [], comma = false;
      while (at < tokens.length && tokens[at] !== end) {
        if (tokens[at] === ",") { comma = true; at++; } else parts.push(one());
      }
      return { parts: parts, comma: comma || parts.length !== 1 };
    }
    var all = many("");
    return all.comma ? all.parts : all.parts[0];
  }

  function single(token) {
    if (token === "true" || token === "false") return token === "true";
    if (token === undefined) return "";
    var value = Number(token);
    return isNaN(value) ? token.replace(/^['"]|['"]$/g, "").trim() : value;
  }

  function key(value, round) {              // one text for one value; round: four digits
    if (Array.isArray(value)) {
      return "(" + value.map(function (v) { return key(v, round); }).join(",") + ")";
    }
    if (typeof value === "number" && round) {
      return Math.abs(value) < 1e-9 ? "0.000e+0" : value.toExponential(3);
    }
    return show(value, true);
  }

  function show(value, plain) {             // as Python prints it
    if (Array.isArray(value)) {
      var parts = value.map(function (v) { return show(v); });
      return "(" + parts.join(", ") + (parts.length === 1 ? ",)" : ")");
    }
    if (typeof value === "boolean") return value ? "True" : "False";
    return typeof value === "string" && !plain ? "'" + value + "'" : String(value);
  }

  function sort(value) {
    if (Array.isArray(value)) return "a tuple";
    return { boolean: "True or False", number: "a number" }[typeof value] || "a word";
  }

  function positions(places) {
    if (places.length === 1) return "position " + places[0] + " is";
    return "positions " + places.slice(0, -1).join(", ") + " and " + places.at(-1) + " are";
  }

  function feedback(id, got, form) {
    if (sort(got) !== form.sort) {
      return "The answer is " + form.sort + ", got " + sort(got) + ": " + show(got, true) + ".";
    }
    if (form.sort === "a number") {
      return show(got) + " is too " + (got < form.value ? "small." : "large.");
    }
    if (form.sort !== "a tuple") return "It is not " + show(got, true) + ".";
    if (got.length !== form.parts.length) {
      var n = form.parts.length + (form.parts.length === 1 ? " part" : " parts");
      return "The answer has " + n + ", " + show(got) + " has " + got.length + ".";
    }
    var right = [], wrong = [];
    got.forEach(function (part, i) {
      var known = [false, true].some(function (round) {
        return form.parts[i].includes(hash(id + "|" + i + "|" + key(part, round)));
      });
      (known ? right : wrong).push(i);
    });
    return "In " + show(got) + ", " + positions(wrong) + " not right" +
      (right.length ? "; " + positions(right) + " right." : ".");
  }

  function judge(form, text) {
    var id = form.dataset.id, got = read(text);
    var locks = form.dataset.locks.split(" ");
    for (var round = 0; round < 2; round++) {
      for (var lock of locks) {
        var found = unlock(id + "|" + key(got, !!round), lock);
        if (found && found.status) return found;
      }
    }
    return { status: "not yet", lines: [feedback(id, got, unlock(id, form.dataset.form))] };
  }

  document.addEventListener("submit", function (event) {
    var form = event.target.closest(".npt-answer");
    if (!form) return;
    event.preventDefault();
    var field = form.querySelector("input"), out = form.querySelector("[role=status]");
    if (!field.value.trim()) { field.focus(); return; }
    var verdict = judge(form, field.value);
    form.dataset.status = verdict.status;
    out.replaceChildren();
    ["Exercise " + form.dataset.id + ": " + verdict.status + "."].concat(verdict.lines)
      .forEach(function (line) {
        out.appendChild(document.createElement("p")).textContent = line;
      });
  });
})();
