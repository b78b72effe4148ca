'use strict';
// Draws each figure of the page into its place, again when the width or the theme changes.
(function () {
  var definitions = JSON.parse(document.getElementById('figures').textContent);
  var dark = window.matchMedia('(prefers-color-scheme: dark)');
  var drawn = {};  // by id: {view, width}

  var tooltip = document.createElement('div');
  tooltip.id = 'tooltip';
  tooltip.hidden = true;
  document.body.appendChild(tooltip);

  function showTooltip(handler, event, item, value) {
    tooltip.hidden = value === null || value === undefined || value === '';
    if (tooltip.hidden) return;
    tooltip.textContent = value;  // text, never markup
    var left = Math.min(event.clientX + 14, window.innerWidth - tooltip.offsetWidth - 4);
    var below = event.clientY + 14 + tooltip.offsetHeight < window.innerHeight;
    tooltip.style.left = Math.max(4, left) + 'px';
    tooltip.style.top = (below ? event.clientY + 14 : event.clientY - 14 - tooltip.offsetHeight) + 'px';
  }

  // Colours told apart with any colour vision, dark enough on white and light enough on black.
  function look(width) {
    var theme = dark.matches
      ? {palette: ['#56b4e9', '#ff9248', '#2fc99b', '#e79ac6', '#f0c84b', '#a8b8ff', '#c9a27c'],
         ink: '#e4e8ec', muted: '#a3adb8', grid: '#2e353d', paper: '#14181d', reference: '#8a949f'}
      : {palette: ['#0072b2', '#c44e00', '#007a5a', '#b0558a', '#8f6400', '#4b5fd0', '#6b4226'],
         ink: '#1b1f24', muted: '#57606a', grid: '#e6e9ed', paper: '#ffffff', reference: '#7d8690'};
    theme.width = width;
    theme.narrow = width < 480;
    theme.font = 'system-ui, sans-serif';
    return theme;
  }

  function draw(definition) {
    var place = document.getElementById(definition.id);
    var width = Math.floor(place.clientWidth);
    if (width < 40) return Promise.resolve();
    if (drawn[definition.id]) drawn[definition.id].view.finalize();
    var spec = figures[definition.kind](definition.data, look(width));
    var view = new vega.View(vega.parse(spec), {renderer: 'svg', container: place, hover: true, tooltip: showTooltip});
    drawn[definition.id] = {view: view, width: width};
    return view.runAsync();
  }

  function drawAll(onlyChanged) {
    return Promise.all(definitions.map(function (definition) {
      var before = drawn[definition.id];
      var place = document.getElementById(definition.id);
      if (onlyChanged && before && before.width === Math.floor(place.clientWidth)) return null;
      try {
        return draw(definition);
      } catch (error) {
        place.textContent = 'This figure could not be drawn.';
        console.error(definition.id + ' (' + definition.kind + '): ' + error);
        return null;
      }
    })).then(function () {
      document.documentElement.setAttribute('data-drawn', String(definitions.length));
    }, function (error) {
      console.error('a figure could not be drawn: ' + error);
    });
  }

  var waiting = false;
  new ResizeObserver(function () {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(function () { waiting = false; drawAll(true); });
  }).observe(document.querySelector('main'));
  dark.addEventListener('change', function () { drawAll(false); });
  drawAll(false);
})();
