/** Charts as drawings. Each says its numbers in a table, too. */
import { html, useLayoutEffect, useRef, useState } from '../base/html.js';

const HEIGHT = 150;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;

/** Fewer points are drawn as dots, too. */
const DOTS_MAX = 15;

function useWidth() {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(Math.floor(contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

/** Rounds up to a number that is easy to read. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((round) => round >= value);
}

function Frame({ title, buckets, series, when, format, max, children }) {
  const [box, width] = useWidth();
  const inner = Math.max(10, width - LEFT - 4);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / max);
  const ticks = [0, max / 2, max];
  const labels = buckets.length > 1 ? [0, Math.floor((buckets.length - 1) / 2), buckets.length - 1] : [0];
  return html`
    <figure class="chart" ref=${box}>
      <figcaption>
        <strong>${title}</strong>
        <span class="legend">${series.map(({ name, tone }) => html`<span key=${name}><i class=${`swatch ${tone}`}></i>${name}</span>`)}</span>
      </figcaption>
      ${width > 0 &&
      html`
        <svg width=${width} height=${HEIGHT} role="img" aria-label=${`${title}: ${series.map(({ name }) => name).join(', ')}; the numbers are in the table below`}>
          ${ticks.map((tick) => html`<g key=${tick}><line class="grid" x1=${LEFT} x2=${width - 4} y1=${y(tick)} y2=${y(tick)} /><text class="tick" x=${LEFT - 8} y=${y(tick) + 4} text-anchor="end">${format(tick)}</text></g>`)}
          ${children({ inner, y, x: (index) => LEFT + (inner * index) / buckets.length })}
          ${labels.map((index, place) => html`<text key=${index} class="tick" x=${place === 0 ? LEFT : place === labels.length - 1 ? width - 4 : LEFT + (inner * (index + 0.5)) / buckets.length} y=${HEIGHT - 4} text-anchor=${place === 0 ? 'start' : place === labels.length - 1 ? 'end' : 'middle'}>${when(buckets[index])}</text>`)}
        </svg>
      `}
      <details>
        <summary>Numbers</summary>
        <div class="table-box chart-table" role="region" aria-label=${`${title} as a table`} tabindex="0"><table>
          <thead><tr><th scope="col">From</th>${series.map(({ name }) => html`<th key=${name} scope="col" class="right">${name}</th>`)}</tr></thead>
          <tbody>${buckets.map((bucket, index) => html`<tr key=${index}><td>${when(bucket)}</td>${series.map(({ name, value }) => html`<td key=${name} class="right">${format(value(bucket))}</td>`)}</tr>`)}</tbody>
        </table></div>
      </details>
    </figure>
  `;
}

const sum = (series, bucket) => series.reduce((all, { value }) => all + (value(bucket) || 0), 0);

/** Stacked bars. */
export function BarChart({ title, buckets, series, when, format }) {
  const max = ceiling(Math.max(...buckets.map((bucket) => sum(series, bucket))));
  return html`
    <${Frame} title=${title} buckets=${buckets} series=${series} when=${when} format=${format} max=${max}>
      ${({ inner, x, y }) => {
        const width = Math.max(1, inner / buckets.length - (inner / buckets.length > 4 ? 2 : 0.5));
        return buckets.map((bucket, index) => {
          let below = 0;
          return html`<g key=${index}>${series.map(({ name, tone, value }) => {
            const from = below;
            below += value(bucket) || 0;
            return html`<rect key=${name} class=${`fill ${tone}`} x=${x(index)} width=${width} y=${y(below)} height=${Math.max(0, y(from) - y(below))} />`;
          })}<title>${when(bucket)}: ${series.map(({ name, value }) => `${name} ${format(value(bucket))}`).join(', ')}</title></g>`;
        });
      }}
    <//>
  `;
}

/** Lines. */
export function LineChart({ title, buckets, series, when, format }) {
  const max = ceiling(Math.max(...buckets.flatMap((bucket) => series.map(({ value }) => value(bucket) || 0))));
  return html`
    <${Frame} title=${title} buckets=${buckets} series=${series} when=${when} format=${format} max=${max}>
      ${({ inner, x, y }) =>
        series.map(({ name, tone, value }) => {
          // A bucket without calls has no duration.
          const points = buckets.flatMap((bucket, index) => (Number.isFinite(value(bucket)) ? [[x(index) + inner / buckets.length / 2, y(value(bucket))]] : []));
          return html`<g key=${name}>
            <polyline class=${`stroke ${tone}`} points=${points.map(([left, top]) => `${left.toFixed(1)},${top.toFixed(1)}`).join(' ')} />
            ${points.length < DOTS_MAX && points.map(([left, top], index) => html`<circle key=${index} class=${`fill ${tone}`} cx=${left} cy=${top} r="2.5" />`)}
          </g>`;
        })}
    <//>
  `;
}
