// oninput: shows the stored frame that belongs to the controls, and says which one it is.
var player = this.querySelector('.npt-play'), frame = 0;
if (event.isTrusted && player && player.timer) player.click();
if (this.ask && this.ask()) return;
this.querySelectorAll('[data-n]').forEach(function (c) {
  var v = c.type == 'checkbox' ? +c.checked : c.selectedIndex >= 0 ? c.selectedIndex : +c.value;
  if (c.dataset.at) {
    var off = c.dataset.at.split('|').map(function (p) { return Math.abs(p - v); });
    v = off.indexOf(Math.min.apply(null, off));
  }
  frame = frame * c.dataset.n + v;
  var o = c.parentNode.querySelector('output');
  if (o) c.setAttribute('aria-valuetext', o.value = o.dataset.t.split('|')[v]);
});
this.querySelector('.npt-frame').innerHTML =
  this.querySelectorAll('.npt-stored')[frame].textContent;
