'use strict';
// What each kind of figure looks like: figures.KIND(data, look) gives a Vega specification. `look`
// holds the width in pixels and the colours of the theme; see page.js.
var figures = {};

(function () {
  var MANY = 12;  // settings from which a plot with their names beside the marks cannot be read
  var SHAPES = ['circle', 'square', 'triangle-up', 'diamond', 'cross', 'triangle-down'];

  function extent(values) {
    return values.reduce(function (range, value) {
      return [Math.min(range[0], value), Math.max(range[1], value)];
    }, [Infinity, -Infinity]);
  }

  function distinct(values) {
    return values.filter(function (value, i) { return values.indexOf(value) === i; });
  }

  function short(value) {
    if (value === null || value === undefined) return 'none';
    return value >= 1000 ? Math.round(value).toLocaleString('en-US') : String(+value.toPrecision(3));
  }

  function interval(row) {
    return row.low === null || row.high === null
      ? '' : '\n95 % interval ' + short(row.low) + ' to ' + short(row.high);
  }

  // The reference is grey, the others have the palette's colours in the order of the file.
  function settingColours(settings, look) {
    return settings.map(function (name, i) {
      return i === 0 ? look.reference : look.palette[(i - 1) % look.palette.length];
    });
  }

  function settingScales(settings, look) {
    return [
      {name: 'colour', type: 'ordinal', domain: settings, range: settingColours(settings, look)},
      {name: 'shape', type: 'ordinal', domain: settings,
       range: settings.map(function (name, i) { return SHAPES[i % SHAPES.length]; })},
      {name: 'dash', type: 'ordinal', domain: settings,
       range: settings.map(function (name, i) { return i <= look.palette.length ? [] : [5, 3]; })}
    ];
  }

  function base(look, height) {
    return {
      width: look.width, height: height, padding: 2, autosize: {type: 'fit-x', contains: 'padding'},
      background: null,
      config: {
        axis: {
          labelColor: look.muted, titleColor: look.ink, gridColor: look.grid, domain: false,
          ticks: false, labelPadding: 6, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400,
          titlePadding: 8, labelFont: look.font, titleFont: look.font
        },
        legend: {
          labelColor: look.ink, titleColor: look.ink, labelFontSize: 12, titleFontSize: 12,
          titleFontWeight: 400, labelFont: look.font, titleFont: look.font, labelLimit: look.width - 60
        },
        text: {fill: look.ink, font: look.font, fontSize: 12}
      },
      data: [], scales: [], axes: [], marks: []
    };
  }

  function xAxis(title, more) {
    return Object.assign({orient: 'bottom', scale: 'x', title: title, grid: false, ticks: true,
                          tickSize: 4, labelOverlap: 'greedy', labelFlush: true, tickCount: 6}, more);
  }

  function yAxis(title, more) {
    return Object.assign({orient: 'left', scale: 'y', title: title, grid: true, tickCount: 5,
                          labelOverlap: 'greedy'}, more);
  }

  // A legend below the plot, of which `share` of the width lies right of the axis.
  function legend(look, longest, more, share) {
    var each = 36 + 7 * longest;
    return Object.assign({orient: 'bottom', direction: 'horizontal', offset: 8,
                          columns: Math.max(1, Math.floor(look.width * (share || 0.85) / each))}, more);
  }

  function plainLabels() { return {labels: {update: {text: {signal: "format(datum.value, ',')"}}}}; }

  function longestOf(names) {
    return names.reduce(function (most, name) { return Math.max(most, name.length); }, 0);
  }

  // Ends of a logarithmic axis around the positive ones of `values`; what is not positive is drawn
  // at the lower end.
  function logDomain(values) {
    var range = extent(values.filter(function (value) { return value > 0; }));
    return range[0] > range[1] ? [1e-6, 1] : [range[0] / 1.6, range[1] * 1.6];
  }

  // 1, 2 and 5 of each power of ten inside the domain, or the powers alone where those are enough.
  function logTicks(domain, most) {
    var ticks = [];
    for (var power = Math.floor(Math.log10(domain[0])); power <= Math.log10(domain[1]); ++power) {
      [1, 2, 5].forEach(function (factor) {
        var tick = Number(factor + 'e' + power);
        if (tick >= domain[0] && tick <= domain[1]) ticks.push(tick);
      });
    }
    var powers = ticks.filter(function (tick) { return /^1(e|0*$)|^0?\.?0*1$/.test(String(tick)); });
    return ticks.length > most && powers.length > 1 ? powers : ticks;
  }

  // A rule across the plot with its label: inside above it at the left, or at the right of the plot.
  function levelRule(look, value, label, outside) {
    return [
      {type: 'rule', encode: {enter: {
        x: {value: 0}, x2: {signal: 'width'}, y: {scale: 'y', value: value},
        stroke: {value: look.muted}, strokeDash: {value: [4, 3]}
      }}},
      {type: 'text', encode: {enter: {
        x: {signal: outside ? 'width + 5' : '4'}, y: {scale: 'y', value: value, offset: outside ? 0 : -4},
        baseline: {value: outside ? 'middle' : 'alphabetic'}, text: {value: label}, fill: {value: look.muted}
      }}}
    ];
  }

  // Many settings, as --methods makes them: marks would hide one another, so each has a line of its
  // own, the nearest to the full cache above, its size at the right.
  function memoryList(data, look) {
    var points = data.points.slice().sort(function (a, b) {
      return data.kl ? a.quality - b.quality : b.quality - a.quality;
    });
    var spec = base(look, 22 * points.length);
    var values = points.reduce(function (all, point) {
      return all.concat([point.quality, point.low, point.high]);
    }, []).filter(function (value) { return value > 0; });
    // A floor far below would push all marks together at the right.
    var hasFloor = data.kl && data.reference > 0 && data.reference > extent(values)[0] / 10;
    var domain = data.kl ? logDomain(hasFloor ? values.concat([data.reference]) : values) : [0, 1];
    var kinds = [['evicts, f16 rows', 0], ['a window, compressed rows', 1], ['evicts, compressed rows', 2]];
    var kindOf = function (point) {
      return point.format === 'f16' ? kinds[0][0] : kinds[point.policy === 'window' ? 1 : 2][0];
    };
    var least = data.kl ? domain[0] : 0;
    spec.data = [{name: 'points', values: points.map(function (point) {
      return Object.assign({}, point, {
        kind: kindOf(point), x: Math.max(point.quality, least),
        from: Math.max(point.low === null ? point.quality : point.low, least),
        to: Math.max(point.high === null ? point.quality : point.high, least),
        size: short(point.mib) + ' MiB',
        tip: point.setting + '\n' + short(point.mib) + ' MiB\n' + (data.kl ? 'KL ' : 'score ') +
          short(point.quality) + interval(point)
      });
    })}];
    spec.scales = [
      {name: 'x', type: data.kl ? 'log' : 'linear', range: 'width', domain: domain},
      {name: 'y', type: 'band', range: 'height', domain: points.map(function (point) { return point.setting; })},
      {name: 'colour', type: 'ordinal', domain: kinds.map(function (kind) { return kind[0]; }), range: look.palette},
      {name: 'shape', type: 'ordinal', domain: kinds.map(function (kind) { return kind[0]; }), range: SHAPES}
    ];
    spec.axes = [
      {orient: 'left', scale: 'y', labelColor: look.ink, labelLimit: look.width * 0.4, grid: true},
      xAxis(data.kl ? 'KL to the full cache, nats (log scale)' : 'Score',
            Object.assign({grid: true}, data.kl ? {values: logTicks(domain, 8), encode: plainLabels()} : {}))
    ];
    spec.legends = [legend(look, longestOf(kinds.map(function (kind) { return kind[0]; })),
                           {fill: 'colour', shape: 'shape'}, 0.6)];
    spec.marks = [
      {type: 'rule', from: {data: 'points'}, encode: {enter: {
        y: {scale: 'y', field: 'setting', band: 0.5}, x: {scale: 'x', field: 'from'}, x2: {scale: 'x', field: 'to'},
        stroke: {scale: 'colour', field: 'kind'}, strokeWidth: {value: 2}
      }}},
      {type: 'symbol', from: {data: 'points'}, encode: {enter: {
        y: {scale: 'y', field: 'setting', band: 0.5}, x: {scale: 'x', field: 'x'}, size: {value: 64},
        fill: {scale: 'colour', field: 'kind'}, shape: {scale: 'shape', field: 'kind'}, tooltip: {field: 'tip'}
      }}},
      {type: 'text', from: {data: 'points'}, encode: {enter: {
        y: {scale: 'y', field: 'setting', band: 0.5}, x: {signal: 'width + 6'}, baseline: {value: 'middle'},
        text: {field: 'size'}, fill: {value: look.muted}
      }}}
    ];
    if (!data.kl || hasFloor) {
      spec.marks.push({type: 'rule', encode: {enter: {
        x: {scale: 'x', value: data.reference}, y: {value: 0}, y2: {signal: 'height'},
        stroke: {value: look.muted}, strokeDash: {value: [4, 3]}
      }}});
    }
    return spec;
  }

  figures.memory = function (data, look) {
    if (data.points.length > MANY) return memoryList(data, look);
    var spec = base(look, look.narrow ? 280 : 360);
    var points = data.points.map(function (point) {
      return Object.assign({}, point, {
        x: Math.max(point.mib, 1e-3),
        tip: point.setting + '\n' + short(point.mib) + ' MiB\n' +
          (data.kl ? 'KL ' : 'score ') + short(point.quality) + interval(point)
      });
    });
    var xs = points.map(function (point) { return point.x; }).concat([Math.max(data.full_mib, 1e-3)]);
    var range = extent(xs);
    var isLog = range[1] / range[0] > 8;
    var xDomain = isLog ? [range[0] / 1.4, range[1] * 1.25] : [0, range[1] * 1.1];
    var qualities = points.map(function (point) { return point.quality; }).concat([data.reference]);
    var yDomain = data.kl ? logDomain(qualities) : [0, 1];
    var policies = distinct(points.map(function (point) { return point.policy; }));
    points.forEach(function (point) {
      var least = data.kl ? yDomain[0] : 0;
      point.y = Math.max(point.quality, least);
      if (point.low !== null) point.low = Math.max(point.low, least);
    });
    spec.data = [{name: 'points', values: points, transform: [{type: 'collect', sort: {field: 'x'}}]}];
    spec.scales = [
      {name: 'x', type: isLog ? 'log' : 'linear', range: 'width',
       domain: xDomain, nice: false},
      {name: 'y', type: data.kl ? 'log' : 'linear', range: 'height', domain: yDomain},
      {name: 'colour', type: 'ordinal', domain: policies, range: look.palette},
      {name: 'shape', type: 'ordinal', domain: policies, range: SHAPES}
    ];
    spec.axes = [
      yAxis(data.kl ? 'KL to the full cache, nats (log scale)' : 'Score', data.kl ? {values: logTicks(yDomain, 8), encode: plainLabels()} : {}),
      xAxis('Size of the cache, MiB' + (isLog ? ' (log scale)' : ''),
            Object.assign({encode: plainLabels(), tickCount: look.narrow ? 4 : 8}, isLog ? {values: logTicks(xDomain, 9)} : {}))
    ];
    spec.legends = [legend(look, longestOf(policies), {fill: 'colour', shape: 'shape', title: 'Policy'})];
    var isKnown = !data.kl || data.reference > 0;
    spec.marks = (isKnown ? levelRule(look, data.reference,
      data.kl ? 'floor ' + short(data.reference) : data.full_name + ' ' + short(data.reference)) : [])
      .concat([
        {type: 'rule', encode: {enter: {
          x: {scale: 'x', value: Math.max(data.full_mib, 1e-3)}, y: {value: 0}, y2: {signal: 'height'},
          stroke: {value: look.muted}, strokeDash: {value: [4, 3]}
        }}},
        {type: 'text', encode: {enter: {
          x: {scale: 'x', value: Math.max(data.full_mib, 1e-3), offset: -8}, y: {signal: 'height / 2'},
          angle: {value: -90}, align: {value: 'center'}, text: {value: 'full cache, ' + short(data.full_mib) + ' MiB'},
          fill: {value: look.muted}
        }}},
        {type: 'group', from: {facet: {name: 'policy', data: 'points', groupby: 'policy'}}, marks: [
          {type: 'line', from: {data: 'policy'}, encode: {enter: {
            x: {scale: 'x', field: 'x'}, y: {scale: 'y', field: 'y'},
            stroke: {scale: 'colour', field: 'policy'}, strokeWidth: {value: 1.5}
          }}}
        ]},
        {type: 'rule', from: {data: 'points'}, encode: {enter: {
          x: {scale: 'x', field: 'x'},
          y: {signal: "datum.low === null ? scale('y', datum.y) : scale('y', datum.low)"},
          y2: {signal: "datum.high === null ? scale('y', datum.y) : scale('y', datum.high)"},
          stroke: {scale: 'colour', field: 'policy'}, strokeWidth: {value: 1.5}
        }}},
        {name: 'dots', type: 'symbol', from: {data: 'points'}, encode: {enter: {
          x: {scale: 'x', field: 'x'}, y: {scale: 'y', field: 'y'}, size: {value: 80},
          fill: {scale: 'colour', field: 'policy'}, shape: {scale: 'shape', field: 'policy'},
          tooltip: {field: 'tip'}
        }}},
        {type: 'text', from: {data: 'dots'}, encode: {enter: {
          text: {field: 'datum.setting'}, fill: {value: look.ink}
        }}, transform: [{type: 'label', size: {signal: '[width, height]'}, offset: [4],
                         anchor: (data.kl ? ['top-right', 'bottom-left'] : ['bottom-right', 'top-left'])
                           .concat(['right', 'bottom', 'top', 'left'])}]}
      ]);
    return spec;
  };

  figures.position = function (data, look) {
    var spec = base(look, look.narrow ? 260 : 320);
    var kls = data.points.map(function (point) { return point.kl; }).concat([data.floor]);
    var domain = logDomain(kls);
    var used = data.settings.filter(function (name) {
      return data.points.some(function (point) { return point.setting === name; });
    });
    spec.data = [{name: 'points', values: data.points.map(function (point) {
      return Object.assign({}, point, {
        y: Math.max(point.kl, domain[0]),
        tip: point.setting + '\nfrom position ' + short(point.position) + ', ' + point.tokens +
          ' tokens\nKL ' + short(point.kl)
      });
    })}];
    spec.scales = [
      {name: 'x', range: 'width', domain: {data: 'points', field: 'position'}, zero: false},
      {name: 'y', type: 'log', range: 'height', domain: domain}
    ].concat(settingScales(data.settings, look));
    spec.axes = [yAxis('KL to the full cache, nats (log scale)', {values: logTicks(domain, 8), encode: plainLabels()}),
                 xAxis('Position, tokens', {format: ',d', tickCount: look.narrow ? 4 : 8})];
    spec.legends = [legend(look, longestOf(used), {fill: 'colour', shape: 'shape', values: used})];
    spec.marks = (data.floor > 0 ? levelRule(look, data.floor, 'floor ' + short(data.floor), true) : [])
      .concat([
        {type: 'group', from: {facet: {name: 'line', data: 'points', groupby: 'setting'}}, marks: [
          {type: 'line', from: {data: 'line'}, encode: {enter: {
            x: {scale: 'x', field: 'position'}, y: {scale: 'y', field: 'y'},
            stroke: {scale: 'colour', field: 'setting'}, strokeWidth: {value: 1.5},
            strokeDash: {scale: 'dash', field: 'setting'}
          }}},
          {type: 'symbol', from: {data: 'line'}, encode: {enter: {
            x: {scale: 'x', field: 'position'}, y: {scale: 'y', field: 'y'}, size: {value: 34},
            fill: {scale: 'colour', field: 'setting'}, shape: {scale: 'shape', field: 'setting'},
            tooltip: {field: 'tip'}
          }}}
        ]}
      ]);
    return spec;
  };

  figures.sawtooth = function (data, look) {
    var upper = 190, gap = 22, lower = 80;
    var spec = base(look, data.has_c ? upper + gap + lower : upper);
    var at = data.settings.indexOf(data.name);
    var colour = settingColours(data.settings, look)[Math.max(at, 0)];
    var most = extent(data.steps.map(function (step) { return step[1]; }).concat(
      data.budgets.map(function (budget) { return budget.value; })))[1];
    spec.data = [{name: 'steps', values: data.steps.map(function (step) {
      return {position: step[0], live: step[1], c: step[2]};
    })}];
    spec.scales = [{name: 'x', range: 'width', zero: false, domain: {data: 'steps', field: 'position'}}];
    var bottom = xAxis('Position, tokens', {format: ',d', tickCount: look.width < 400 ? 4 : 6});
    var live = {
      type: 'group', encode: {enter: {width: {signal: 'width'}, height: {value: upper}}},
      signals: [{name: 'height', value: upper}],
      scales: [{name: 'y', range: [upper, 0], domain: [0, most * 1.12]}],
      axes: [yAxis('Live tokens a layer', {format: ',d'})].concat(data.has_c ? [] : [bottom])
    };
    live.marks = [{type: 'line', from: {data: 'steps'}, encode: {enter: {
      x: {scale: 'x', field: 'position'}, y: {scale: 'y', field: 'live'},
      interpolate: {value: 'step-after'}, stroke: {value: colour}, strokeWidth: {value: 1.2}
    }}}];
    data.budgets.forEach(function (budget) {
      live.marks = live.marks.concat(levelRule(look, budget.value, budget.label + ' ' + short(budget.value), true));
    });
    spec.marks = [live];
    if (data.has_c) {
      spec.marks.push({
        type: 'group',
        encode: {enter: {y: {value: upper + gap}, width: {signal: 'width'}, height: {value: lower}}},
        signals: [{name: 'height', value: lower}],
        scales: [{name: 'y', range: [lower, 0], domain: [0, 1]}],
        axes: [yAxis('Confidence c', {tickCount: 2}), bottom],
        marks: [{type: 'symbol', from: {data: 'steps'}, encode: {enter: {
          x: {scale: 'x', field: 'position'}, y: {scale: 'y', field: 'c'}, size: {value: 5},
          fill: {value: colour}, fillOpacity: {value: 0.55}, defined: {signal: 'datum.c !== null'},
          opacity: {signal: 'datum.c === null ? 0 : 1'}
        }}}].concat(data.tau === null ? [] : levelRule(look, data.tau, 'tau ' + short(data.tau), true))
      });
    }
    return spec;
  };

  figures.confidence = function (data, look) {
    var spec = base(look, 150);
    spec.padding = {left: 2, top: 20, bottom: 2, right: 8};
    var width = 1 / data.bins.length;
    spec.data = [{name: 'bins', values: data.bins.map(function (count, i) {
      return {from: i * width, to: (i + 1) * width, share: count / data.total,
              sure: data.tau !== null && (i + 0.5) * width >= data.tau,
              tip: 'c from ' + short(i * width) + ' to ' + short((i + 1) * width) + '\n' + short(count) + ' steps'};
    })}];
    spec.scales = [{name: 'x', range: 'width', domain: [0, 1]},
                   {name: 'y', range: 'height', domain: {data: 'bins', field: 'share'}, zero: true, nice: true}];
    spec.axes = [yAxis('Share of steps', {format: '%', tickCount: 4}), xAxis('Confidence c')];
    spec.marks = [{type: 'rect', from: {data: 'bins'}, encode: {enter: {
      x: {scale: 'x', field: 'from', offset: 0.5}, x2: {scale: 'x', field: 'to', offset: -0.5},
      y: {scale: 'y', field: 'share'}, y2: {scale: 'y', value: 0},
      fill: {signal: "datum.sure ? '" + look.palette[0] + "' : '" + look.reference + "'"}, tooltip: {field: 'tip'}
    }}}];
    if (data.tau !== null) {
      spec.marks.push(
        {type: 'rule', encode: {enter: {
          x: {scale: 'x', value: data.tau}, y: {value: -4}, y2: {signal: 'height'},
          stroke: {value: look.ink}, strokeDash: {value: [4, 3]}
        }}},
        {type: 'text', encode: {enter: {
          x: {scale: 'x', value: data.tau}, y: {value: -6}, align: {value: 'center'}, text: {value: 'tau ' + short(data.tau)}
        }}});
    }
    return spec;
  };

  figures.step_time = function (data, look) {
    var settings = data.totals.map(function (total) { return total.setting; });
    var parts = distinct(data.parts.map(function (part) { return part.part; }));
    var spec = base(look, 34 * settings.length);
    var most = extent(data.totals.map(function (total) { return Math.max(total.mean, total.p95); }))[1];
    spec.data = [
      {name: 'parts', values: data.parts.map(function (part) {
        return Object.assign({tip: part.setting + ', ' + part.part + '\nmean ' + short(part.ms) + ' ms, 95th percentile ' +
          short(part.p95) + ' ms'}, part);
      }), transform: [{type: 'stack', groupby: ['setting'], field: 'ms'}]},
      {name: 'totals', values: data.totals}
    ];
    spec.scales = [
      {name: 'x', range: 'width', domain: [0, most * 1.05]},
      {name: 'y', type: 'band', range: 'height', domain: settings, padding: 0.3},
      {name: 'colour', type: 'ordinal', domain: parts, range: look.palette.slice(0, 5).concat([look.reference])}
    ];
    spec.axes = [{orient: 'left', scale: 'y', labelColor: look.ink, labelLimit: look.width * 0.3},
                 xAxis('Time of a step, ms', {grid: true})];
    spec.legends = [legend(look, longestOf(parts), {fill: 'colour', symbolType: 'square'}, 0.6)];
    spec.marks = [
      {type: 'rect', from: {data: 'parts'}, encode: {enter: {
        y: {scale: 'y', field: 'setting'}, height: {scale: 'y', band: 1},
        x: {scale: 'x', field: 'y0'}, x2: {scale: 'x', field: 'y1'},
        fill: {scale: 'colour', field: 'part'}, stroke: {value: look.paper}, strokeWidth: {value: 0.75},
        tooltip: {field: 'tip'}
      }}},
      {type: 'rule', from: {data: 'totals'}, encode: {enter: {
        x: {scale: 'x', field: 'p95'}, y: {scale: 'y', field: 'setting'},
        y2: {scale: 'y', field: 'setting', band: 1}, stroke: {value: look.ink}, strokeWidth: {value: 2},
        tooltip: {signal: "datum.setting + '\\n95th percentile ' + format(datum.p95, '.3~g') + ' ms'"}
      }}}
    ];
    return spec;
  };

  figures.scores = function (data, look) {
    var tasks = distinct(data.rows.map(function (row) { return row.task; }));
    var settings = data.settings.filter(function (name) {
      return data.rows.some(function (row) { return row.setting === name; });
    });
    var each = 13;
    var spec = base(look, tasks.length * (settings.length * each + 16));
    spec.data = [
      {name: 'rows', values: data.rows.map(function (row) {
        return Object.assign({}, row, {
          low: row.low === null ? row.mean : row.low, high: row.high === null ? row.mean : row.high,
          tip: row.task + ', ' + row.setting + '\nscore ' + row.mean.toFixed(2) + ', n ' + row.n + interval(row)
        });
      })}
    ];
    spec.scales = [
      {name: 'x', range: 'width', domain: [0, 1]},
      {name: 'y', type: 'band', range: 'height', domain: tasks},
      {name: 'inner', type: 'point', range: [16, settings.length * each], domain: settings}
    ].concat(settingScales(data.settings, look));
    if (settings.length === 1) spec.scales[2].range = [14, 14.01];
    spec.axes = [{orient: 'left', scale: 'y', labelColor: look.ink, labelLimit: look.width * 0.35},
                 xAxis('Score', {grid: true})];
    spec.legends = [legend(look, longestOf(settings), {fill: 'colour', shape: 'shape', values: settings}, 0.6)];
    var y = {scale: 'y', field: 'task', offset: {scale: 'inner', field: 'setting'}};
    spec.marks = [
      {type: 'rule', from: {data: tasks.length > 1 ? 'tasks' : 'none'}, encode: {enter: {
        x: {value: 0}, x2: {signal: 'width'}, y: {scale: 'y', field: 'task'}, stroke: {value: look.grid}
      }}},
      {type: 'rule', from: {data: 'rows'}, encode: {enter: {
        x: {scale: 'x', field: 'low'}, x2: {scale: 'x', field: 'high'}, y: y,
        stroke: {scale: 'colour', field: 'setting'}, strokeWidth: {value: 1.5}
      }}},
      {type: 'symbol', from: {data: 'rows'}, encode: {enter: {
        x: {scale: 'x', field: 'mean'}, y: y, size: {value: 60}, fill: {scale: 'colour', field: 'setting'},
        shape: {scale: 'shape', field: 'setting'}, tooltip: {field: 'tip'}
      }}}
    ];
    spec.data.push({name: 'tasks', values: tasks.map(function (task) { return {task: task}; })}, {name: 'none', values: []});
    return spec;
  };

  figures.needle = function (data, look) {
    var lengths = distinct(data.cells.map(function (cell) { return cell.length; })).sort(function (a, b) { return a - b; });
    var depths = distinct(data.cells.map(function (cell) { return cell.depth; })).sort(function (a, b) { return a - b; });
    var spec = base(look, Math.max(90, depths.length * (depths.length > 8 ? 22 : 34)));
    var wide = (look.width - 70) / lengths.length;
    spec.data = [{name: 'cells', values: data.cells.map(function (cell) {
      return Object.assign({}, cell, {
        text: cell.score.toFixed(2),
        tip: 'length ' + short(cell.length) + ', depth ' + short(cell.depth) + ' %\nscore ' + cell.score.toFixed(2) +
          ', n ' + cell.n + interval(cell)
      });
    })}];
    spec.scales = [
      {name: 'x', type: 'band', range: 'width', domain: lengths, padding: 0.03},
      {name: 'y', type: 'band', range: 'height', domain: depths, padding: 0.03},
      {name: 'heat', type: 'linear', range: {scheme: 'cividis'}, domain: [0, 1], zero: true}
    ];
    spec.axes = [
      {orient: 'left', scale: 'y', title: 'Depth, %', encode: plainLabels(), labelOverlap: 'greedy'},
      {orient: 'bottom', scale: 'x', title: 'Length of the context, tokens', labelOverlap: 'greedy',
       encode: plainLabels()}
    ];
    spec.marks = [
      {type: 'rect', from: {data: 'cells'}, encode: {enter: {
        x: {scale: 'x', field: 'length'}, width: {scale: 'x', band: 1},
        y: {scale: 'y', field: 'depth'}, height: {scale: 'y', band: 1},
        fill: {scale: 'heat', field: 'score'}, tooltip: {field: 'tip'}
      }}}
    ];
    if (wide >= 28) {
      spec.marks.push({type: 'text', from: {data: 'cells'}, interactive: false, encode: {enter: {
        x: {scale: 'x', field: 'length', band: 0.5}, y: {scale: 'y', field: 'depth', band: 0.5},
        align: {value: 'center'}, baseline: {value: 'middle'}, fontSize: {value: 11}, text: {field: 'text'},
        fill: {signal: "datum.score > 0.5 ? '#000000' : '#ffffff'"}
      }}});
    }
    return spec;
  };

  figures.length = function (data, look) {
    var spec = base(look, 220);
    var lengths = distinct(data.points.map(function (point) { return point.length; })).sort(function (a, b) { return a - b; });
    var used = data.settings.filter(function (name) {
      return data.points.some(function (point) { return point.setting === name; });
    });
    spec.data = [{name: 'points', values: data.points.map(function (point) {
      return Object.assign({}, point, {
        low: point.low === null ? point.score : point.low, high: point.high === null ? point.score : point.high,
        tip: point.setting + '\nlength ' + short(point.length) + '\nscore ' + point.score.toFixed(2) + ', n ' + point.n +
          interval(point)
      });
    }), transform: [{type: 'collect', sort: {field: 'length'}}]}];
    spec.scales = [
      {name: 'x', type: 'point', range: 'width', domain: lengths, padding: 0.5},
      {name: 'y', range: 'height', domain: [0, 1]},
      {name: 'aside', type: 'point', range: [-3 * (used.length - 1), 3 * (used.length - 1)], domain: used}
    ].concat(settingScales(data.settings, look));
    if (used.length === 1) spec.scales[2].range = [0, 0.01];
    var x = {scale: 'x', field: 'length', offset: {scale: 'aside', field: 'setting'}};
    spec.axes = [yAxis('Score'), {orient: 'bottom', scale: 'x', title: 'Length of the context, tokens',
      labelOverlap: 'greedy', encode: plainLabels()}];
    spec.legends = [legend(look, longestOf(used), {fill: 'colour', shape: 'shape', values: used})];
    spec.marks = [
      {type: 'group', from: {facet: {name: 'line', data: 'points', groupby: 'setting'}}, marks: [
        {type: 'line', from: {data: 'line'}, encode: {enter: {
          x: x, y: {scale: 'y', field: 'score'}, stroke: {scale: 'colour', field: 'setting'}, strokeWidth: {value: 1.5},
          strokeDash: {scale: 'dash', field: 'setting'}
        }}},
        {type: 'rule', from: {data: 'line'}, encode: {enter: {
          x: x, y: {scale: 'y', field: 'low'}, y2: {scale: 'y', field: 'high'},
          stroke: {scale: 'colour', field: 'setting'}
        }}},
        {type: 'symbol', from: {data: 'line'}, encode: {enter: {
          x: x, y: {scale: 'y', field: 'score'}, size: {value: 50}, fill: {scale: 'colour', field: 'setting'},
          shape: {scale: 'shape', field: 'setting'}, tooltip: {field: 'tip'}
        }}}
      ]}
    ];
    return spec;
  };

  // Named series of points, as results by layer have them. A dashed one is a control.
  figures.lines = function (data, look) {
    var spec = base(look, look.narrow ? 260 : 300);
    var names = data.series.map(function (one) { return one.name; });
    var xs = extent(data.points.map(function (point) { return point.x; }));
    var ys = data.points.map(function (point) { return point.y; });
    var ticks = distinct(data.points.map(function (point) { return point.x; }));
    spec.data = [{name: 'points', values: data.points.map(function (point) {
      return Object.assign({tip: point.series + '\n' + data.x_title.replace(/ \(.*/, '') + ' ' + short(point.x) + '\n' +
        (data.share ? (100 * point.y).toFixed(1) + ' %' : short(point.y))}, point);
    })}];
    spec.scales = [
      {name: 'x', type: data.log_x ? 'log' : 'linear', base: 2, range: 'width', domain: xs, zero: false, padding: 8},
      {name: 'y', range: 'height', domain: [0, data.share ? 1 : extent(ys.concat([1]))[1] * 1.05]},
      {name: 'colour', type: 'ordinal', domain: names, range: look.palette},
      {name: 'shape', type: 'ordinal', domain: names, range: SHAPES},
      {name: 'dash', type: 'ordinal', domain: names,
       range: data.series.map(function (one) { return one.dashed ? [5, 3] : []; })}
    ];
    spec.axes = [
      yAxis(data.y_title, data.share ? {format: '%'} : {}),
      xAxis(data.x_title, data.log_x || ticks.length <= MANY
        ? {values: ticks, encode: plainLabels()} : {format: 'd', tickMinStep: 1, tickCount: look.narrow ? 4 : 8})
    ];
    spec.legends = [legend(look, longestOf(names), {fill: 'colour', shape: 'shape'})];
    spec.marks = [
      {type: 'group', from: {facet: {name: 'line', data: 'points', groupby: 'series'}}, marks: [
        {type: 'line', from: {data: 'line'}, encode: {enter: {
          x: {scale: 'x', field: 'x'}, y: {scale: 'y', field: 'y'}, stroke: {scale: 'colour', field: 'series'},
          strokeWidth: {value: 1.5}, strokeDash: {scale: 'dash', field: 'series'}
        }}},
        {type: 'symbol', from: {data: 'line'}, encode: {enter: {
          x: {scale: 'x', field: 'x'}, y: {scale: 'y', field: 'y'}, size: {value: 34},
          fill: {scale: 'colour', field: 'series'}, shape: {scale: 'shape', field: 'series'}, tooltip: {field: 'tip'}
        }}}
      ]}
    ];
    if (!data.share) spec.marks = levelRule(look, 1, '1: as long as the token').concat(spec.marks);
    return spec;
  };

  // Medians of KL in tenths of c, where there are enough points for one.
  function tenths(points) {
    var bins = [];
    for (var i = 0; i < 10; ++i) {
      var kls = points.filter(function (point) { return Math.min(9, Math.floor(point.c * 10)) === i; })
        .map(function (point) { return point.y; }).sort(function (a, b) { return a - b; });
      if (kls.length >= 10) bins.push({from: i / 10, to: (i + 1) / 10, median: kls[kls.length >> 1], n: kls.length});
    }
    return bins;
  }

  figures.premise = function (data, look) {
    var spec = base(look, look.narrow ? 280 : 380);
    // A few values next to zero would squeeze all others: they are drawn at the lower end.
    var sorted = data.points.map(function (point) { return point[1]; })
      .filter(function (kl) { return kl > 0; }).sort(function (a, b) { return a - b; });
    var domain = logDomain(sorted.slice(Math.floor(sorted.length / 100)));
    var points = data.points.map(function (point) {
      return {c: point[0], y: Math.max(point[1], domain[0]),
              tip: 'position ' + short(point[2]) + '\nc ' + short(point[0]) + '\nKL ' + short(point[1])};
    });
    spec.data = [{name: 'points', values: points}, {name: 'tenths', values: tenths(points)}];
    spec.scales = [{name: 'x', range: 'width', domain: [0, 1]},
                   {name: 'y', type: 'log', range: 'height', domain: domain}];
    spec.axes = [yAxis('KL of hiding tokens, nats (log scale)', {values: logTicks(domain, 8), encode: plainLabels()}), xAxis('Confidence c')];
    spec.marks = [
      {type: 'symbol', from: {data: 'points'}, clip: true, encode: {enter: {
        x: {scale: 'x', field: 'c'}, y: {scale: 'y', field: 'y'}, size: {value: points.length > 200 ? 16 : 45},
        fill: {value: look.palette[0]}, fillOpacity: {value: points.length > 500 ? 0.3 : 0.55}, tooltip: {field: 'tip'}
      }}},
      {type: 'rule', from: {data: 'tenths'}, encode: {enter: {
        x: {scale: 'x', field: 'from'}, x2: {scale: 'x', field: 'to'}, y: {scale: 'y', field: 'median'},
        stroke: {value: look.palette[1]}, strokeWidth: {value: 2.5},
        tooltip: {signal: "'median KL ' + format(datum.median, '.3~g') + ', n ' + datum.n"}
      }}}
    ];
    return spec;
  };
})();
