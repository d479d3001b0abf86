// onclick of Play: moves one control on through its stored values, and stops at the last.
var b = this, box = b.closest('.npt-explorer');
var c = box.querySelectorAll('[data-n]')[b.dataset.c], last = c.dataset.n - 1;
var still = matchMedia('(prefers-reduced-motion: reduce)').matches;
var stops = (c.dataset.at || '').split('|');
var at = function () {
  if (c.type == 'checkbox') return +c.checked;
  if (c.selectedIndex >= 0) return c.selectedIndex;
  return c.dataset.at ? stops.filter(function (p) { return +p <= +c.value; }).length - 1 : +c.value;
};
var go = function (v) {
  if (c.type == 'checkbox') c.checked = !!v;
  else if (c.selectedIndex >= 0) c.selectedIndex = v;
  else c.value = c.dataset.at ? stops[v] : v;
  c.dispatchEvent(new Event('input', { bubbles: true }));
};
var say = function () {
  var end = at() >= last;
  b.firstChild.textContent = b.timer ? 'Pause' : end ? 'Play again' : 'Play';
  b.lastChild.textContent = end ? 'From the start' : 'Next step';
  box.querySelector('.npt-frame').setAttribute('aria-live', b.timer ? 'off' : 'polite');
};
var stop = function () { clearInterval(b.timer); b.timer = 0; say(); };
var step = function () {
  var place = box.getBoundingClientRect(), top = place.top, end = place.bottom;
  if (document.hidden || !b.isConnected || end <= 0 || top >= innerHeight) return stop();
  go(at() + 1);
  if (at() >= last) stop();
};
if (b.timer) return stop();
if (at() >= last) go(0);
else if (still) go(at() + 1);
if (!still) b.timer = setInterval(step, b.dataset.ms);
say();
