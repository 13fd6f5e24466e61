/** The numbers of the record. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { count, day, clock, duration, short } from '../base/format.js';
import { href } from '../base/router.js';
import { Empty } from '../parts/controls.js';
import { BarChart, LineChart } from '../parts/chart.js';
import { useSome } from '../parts/some.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';

const PERIODS = [[1, 'Day'], [7, 'Week'], [30, 'Month']];

/** The choice of a period. */
export function Period({ days, onChange }) {
  return html`
    <div class="segments" role="group" aria-label="Period">
      ${PERIODS.map(([length, text]) => html`<button key=${length} aria-pressed=${days === length} onClick=${() => onChange(length)}>${text}</button>`)}
    </div>
  `;
}

export function Charts() {
  const [days, setDays] = useState(7);
  const load = useLoad(`record/charts?days=${days}`);
  const { data } = load;
  const buckets = data?.buckets ?? [];
  const when = ({ start }) => (days > 7 ? day(start) : `${day(start).slice(5)} ${clock(start).slice(0, 5)}`);
  const total = (name) => buckets.reduce((sum, bucket) => sum + (bucket[name] || 0), 0);
  return html`
    <div class="page-scroll charts">
      <div class="toolbar plain">
        <h2>Numbers of the record</h2>
        <span class="spacer"></span>
        <${Period} days=${days} onChange=${setDays} />
      </div>
      <${LoadState} load=${load} what="the numbers" />
      ${data && !buckets.length && html`<${Empty} title="Nothing recorded">No calls in this period.<//>`}
      ${buckets.length > 0 &&
      html`
        <dl class="totals">
          ${[['Calls', total('calls')], ['Asked', total('asked')], ['Refused', total('refused')], ['Stopped', total('stopped')], ['Errors', total('errors')], ['Tokens', total('tokens')]].map(
            ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value >= 100_000 ? short(value) : count(value)}</dd></div>`,
          )}
        </dl>
        <p class="links">Show the calls: ${['refused', 'stopped', 'failed', 'limited', 'unavailable'].map((outcome) => html`<a key=${outcome} href=${href('record', [], { outcome, event: 'call', since: buckets[0].start })}>${outcome}</a> `)}</p>
        <div class="chart-grid">
          <${BarChart}
            title="Calls"
            buckets=${buckets}
            when=${when}
            series=${[
              { name: 'without a question', tone: 'accent', value: ({ calls, refused, approved = 0, stopped = 0, errors }) => Math.max(0, calls - refused - approved - stopped - errors) },
              { name: 'asked, then ran', tone: 'warn', value: ({ approved = 0 }) => approved },
              { name: 'refused', tone: 'bad', value: ({ refused }) => refused },
              { name: 'stopped', tone: 'stopped', value: ({ stopped = 0 }) => stopped },
              { name: 'errors', tone: 'faint', value: ({ errors }) => errors },
            ]}
            format=${count}
          />
          <${LineChart}
            title="Duration"
            buckets=${buckets}
            when=${when}
            series=${[
              { name: 'median', tone: 'accent', value: ({ p50Ms }) => p50Ms },
              { name: '95th percentile', tone: 'warn', value: ({ p95Ms }) => p95Ms },
            ]}
            format=${duration}
          />
          <${BarChart} title="Tokens" buckets=${buckets} when=${when} series=${[{ name: 'tokens of results', tone: 'accent', value: ({ tokens }) => tokens }]} format=${short} />
        </div>
        <${ByTool} rows=${data.byTool ?? []} total=${data.totals?.tools} />
        <${BySession} rows=${data.bySession ?? []} total=${data.totals?.sessions} />
      `}
    </div>
  `;
}

function ByTool({ rows, total }) {
  const [shown, more] = useSome(rows, { first: 20, total, what: 'tools' });
  const most = Math.max(1, ...rows.map(({ calls }) => calls));
  return html`
    <section><h3>By tool</h3>
      <div class="table-box" role="region" aria-label="By tool" tabindex="0"><table>
        <thead><tr><th scope="col">Tool</th><th scope="col" class="right">Calls</th><th scope="col" class="bar-cell"><span class="visually-hidden">Share</span></th><th scope="col" class="right">Refused</th><th scope="col" class="right">Median</th><th scope="col" class="right">95 %</th><th scope="col" class="right">Tokens</th></tr></thead>
        <tbody>${shown.map((row) => html`<tr key=${row.tool}>
          <td><a href=${href('record', [], { tool: row.tool })}><${Name} text=${row.tool} max=${60} /></a></td><td class="right">${count(row.calls)}</td>
          <td class="bar-cell"><div class="bar" style=${{ width: `${(100 * row.calls) / most}%` }}></div></td>
          <td class="right">${count(row.refused)}</td><td class="right">${duration(row.p50Ms)}</td><td class="right">${duration(row.p95Ms)}</td><td class="right">${short(row.tokens)}</td>
        </tr>`)}</tbody>
      </table></div>
      ${more}
    </section>
  `;
}

function BySession({ rows, total }) {
  const [shown, more] = useSome(rows, { total, what: 'sessions' });
  const hasCost = rows.some(({ cost }) => cost > 0);
  return html`
    <section><h3>By session</h3>
      <div class="table-box" role="region" aria-label="By session" tabindex="0"><table>
        <thead><tr><th scope="col">Session</th><th scope="col" class="right">Calls</th><th scope="col" class="right">Tokens</th>${hasCost && html`<th scope="col" class="right">Cost</th>`}</tr></thead>
        <tbody>${shown.map((row) => html`<tr key=${row.session}>
          <td>${row.client && html`<${Name} text=${row.client} max=${80} strong /> `}<a href=${href('record', [], { session: row.session })}><${Name} text=${row.session} max=${60} /></a></td><td class="right">${count(row.calls)}</td><td class="right">${short(row.tokens)}</td>
          ${hasCost && html`<td class="right">${Number.isFinite(row.cost) ? `$${row.cost.toFixed(2)}` : '–'}</td>`}
        </tr>`)}</tbody>
      </table></div>
      ${more}
    </section>
  `;
}
