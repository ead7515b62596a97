import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { en } from './strings/en';
import { Button } from './ui';

export interface Series {
  label: string;
  values: (number | null)[];
  /** A colour token; failures alone are red. */
  color: string;
  bars?: boolean;
}

const charts = uPlot.sync('page');

/** One hue and its tint, zero based, at most four lines in the grid, and a table behind it. */
export default function Chart({ dates, series, finding, format, height = 176 }: { dates: string[]; series: Series[]; finding: string; format: (v: number) => string; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [table, setTable] = useState(false);
  const [look, setLook] = useState(0);
  useEffect(() => {
    const change = () => setLook((n) => n + 1);
    addEventListener('themechange', change);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', change);
    return () => {
      removeEventListener('themechange', change);
      dark.removeEventListener('change', change);
    };
  }, []);
  useEffect(() => {
    const el = box.current;
    if (!el || table) return;
    const probe = document.createElement('i');
    el.append(probe);
    const color = (name: string) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const axis = { stroke: color('--text-3'), font: '11px system-ui', grid: { stroke: color('--chart-grid'), width: 1 }, ticks: { show: false } };
    const bars = uPlot.paths.bars!({ size: [0.7, 46], radius: 0.06 });
    const plot = new uPlot(
      {
        width: el.clientWidth,
        height,
        cursor: { sync: { key: charts.key }, y: false, points: { size: 6 } },
        legend: { show: false },
        scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, (max > 0 ? max : 1) * 1.08] } },
        axes: [
          { ...axis, grid: { show: false }, space: 80, size: 26, values: (_u, at) => at.map((t) => new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' }).format(t * 1000)) },
          { ...axis, size: 56, space: 40, values: (_u, at) => at.map((v, i) => (i > 0 && format(v) === format(at[i - 1]!) ? '' : format(v))) },
        ],
        series: [{}, ...series.map((x) => ({ label: x.label, stroke: color(x.color), fill: x.bars ? color(x.color) : undefined, width: x.bars ? 0 : 1.5, points: { show: !x.bars && x.values.filter((v) => v !== null).length < 4, size: 6, fill: color(x.color) }, paths: x.bars ? bars : undefined }))],
        hooks: {
          setCursor: [
            (u) => {
              const tip = el.querySelector<HTMLElement>('.tip');
              const i = u.cursor.idx;
              if (!tip) return;
              tip.hidden = i === null || i === undefined;
              if (i === null || i === undefined) return;
              tip.textContent = `${dates[i]}  ${series.map((x) => `${x.label} ${x.values[i] === null ? '–' : format(x.values[i] ?? 0)}`).join(' · ')}`;
            },
          ],
        },
      },
      [dates.map((d) => Date.parse(`${d}T00:00:00Z`) / 1000), ...series.map((x) => x.values)] as uPlot.AlignedData,
      el,
    );
    charts.sub(plot);
    const sized = new ResizeObserver(() => plot.setSize({ width: el.clientWidth, height }));
    sized.observe(el);
    return () => {
      sized.disconnect();
      charts.unsub(plot);
      plot.destroy();
      probe.remove();
    };
  }, [dates, series, table, look, format, height]);
  return (
    <figure className="chart">
      {table ? (
        <div style={{ maxHeight: height + 40, overflow: 'auto' }} tabIndex={0}>
          <table className="tbl flush compact">
            <thead>
              <tr>
                <th>{en.overview.day}</th>
                {series.map((x) => (
                  <th key={x.label} className="r">
                    {x.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {dates.map((d, i) => (
                <tr key={d}>
                  <td>{d}</td>
                  {series.map((x) => (
                    <td key={x.label} className="r num">
                      {x.values[i] === null || x.values[i] === undefined ? '' : format(x.values[i]!)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <div ref={box} role="img" aria-label={finding} className="plot" style={{ minHeight: height }}>
          <p className="tip fs12 num" hidden />
        </div>
      )}
      <figcaption className="row fs12 t3">
        <span className="grow">{finding}</span>
        <Button small kind="quiet" label={table ? en.overview.asChart : en.overview.asTable} onClick={() => setTable(!table)} />
      </figcaption>
    </figure>
  );
}
