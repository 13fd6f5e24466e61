/** What text of strangers led to: the calls that read it, each with the later calls of its session. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { moment, plural } from '../base/format.js';
import { href } from '../base/router.js';
import { Decision, Empty } from '../parts/controls.js';
import { Outcome } from '../parts/outcome.js';
import { useSome } from '../parts/some.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';
import { Period } from './charts.js';

export function Strangers() {
  const [days, setDays] = useState(7);
  const load = useLoad(`record/charts?days=${days}`);
  const { data } = load;
  const rows = data?.strangers ?? [];
  const [shown, more] = useSome(rows, { total: data?.totals?.strangers, what: 'calls that have read such text' });
  return html`
    <div class="page-scroll">
      <div class="toolbar plain">
        <h2>What text of strangers led to</h2>
        <span class="spacer"></span>
        <${Period} days=${days} onChange=${setDays} />
      </div>
      <p class="faint">Each call here has read a text of strangers, such as a web page. Below it are later calls of its session that may follow from it.</p>
      <${LoadState} load=${load} what="the calls" />
      ${data && !rows.length && html`<${Empty} title="No text of strangers">No call has read text of strangers in this period.<//>`}
      <ul class="strangers">${shown.map((row) => html`<${Stranger} key=${row.callId} row=${row} />`)}</ul>
      ${more}
    </div>
  `;
}

function Stranger({ row: { callId, time, tool, client, subject, origin, ledTo = [], ledToTotal, others = 0 } }) {
  const [shown, more] = useSome(ledTo, { total: ledToTotal, what: 'calls' });
  return html`
    <li>
      ${time && html`<span class="faint">${moment(time)}</span> `}<a href=${href('record', ['call', callId])}><${Name} text=${tool} strong /></a> read <${Name} text=${subject ?? origin} max=${120} />${client && html` <span class="faint">for</span> <${Name} text=${client} max=${80} />`}
      <ul>${shown.map((next) => html`<li key=${next.callId}>then <a href=${href('record', ['call', next.callId])}><${Name} text=${next.tool} strong /></a> ${next.subject && html`<${Name} text=${next.subject} max=${120} /> `}<${Decision} decision=${next.decision} /> <${Outcome} outcome=${next.outcome} /></li>`)}</ul>
      ${more}
      ${!ledTo.length && html`<div class="faint">No later call of its session was asked about or refused, or changed anything.</div>`}
      ${others > 0 && html`<div class="faint">${plural(others, 'other later call')} without a question or a known change.</div>`}
    </li>
  `;
}
