/** An edited rule, evaluated over the record. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { count, day, moment, plural } from '../base/format.js';
import { href, route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { Decision, ErrorText, Loading } from '../parts/controls.js';
import { CutCalls } from '../parts/cut_list.js';
import { Name } from '../parts/text.js';
import { EditForm } from '../policy/edit_form.js';

export function WhatIf() {
  const { query } = useStore(route);
  const [days, setDays] = useState(7);
  const [result, setResult] = useState({});
  const evaluate = async (edit) => {
    setResult({ isBusy: true });
    try {
      setResult({ data: await post('policy/what-if', { edit, days }) });
    } catch (error) {
      setResult({ error });
    }
  };
  const start = query.tool ? { key: `tools.${query.tool}.approval`, yaml: 'ask' } : undefined;
  return html`
    <section class="narrow-page">
      <h2>What if a rule were different?</h2>
      <p class="faint">Evaluates the recorded calls with an edited setting. Nothing is changed.</p>
      <${EditForm} action="Evaluate" start=${start} onEdit=${evaluate}>
        <label>Period
          <select value=${days} onChange=${(event) => setDays(Number(event.currentTarget.value))}>
            <option value="1">the last day</option><option value="7">the last week</option><option value="30">the last 30 days</option>
          </select>
        </label>
      <//>
      <${WhatIfResult} result=${result} />
    </section>
  `;
}

/** @param {{ result: { isBusy?: boolean, error?: Error, data?: object } }} props */
export function WhatIfResult({ result: { isBusy, error, data } }) {
  if (isBusy) return html`<${Loading} what="the evaluation" />`;
  if (error) return html`<${ErrorText} error=${error} />`;
  if (!data) return null;
  const { checked, from, unjudged = 0, unjudgedBy = [], changes = [], toRecordArguments, recordsArguments } = data;
  const changed = changes.reduce((all, change) => all + change.count, 0);
  return html`
    <div role="status">
      <p>${plural(checked, 'call')} since ${day(from)}. ${unjudged < checked && `${count(changed)} of ${count(checked - unjudged)} would have been decided differently.`}${unjudged > 0 && ` ${plural(unjudged, 'call')} could not be judged.`}</p>
      ${changes.map(
        ({ before, after, count: number, approximate = 0, examples = [] }, index) => html`
          <section key=${index} class="change">
            <p><strong>${plural(number, 'call')}</strong> <${Decision} decision=${before} /> → <${Decision} decision=${after} />${approximate > 0 && html` <span class="faint small">${approximate === number ? '' : `${count(approximate)} `}judged by the tool alone: rules about arguments may still be stricter</span>`}</p>
            <${CutCalls} label="Examples" max=${5} noun="example" calls=${examples} row=${({ callId, time, tool, summary }) => html`<li key=${callId}><span class="faint">${moment(time)}</span> <a href=${href('record', ['call', callId])}><${Name} text=${tool} strong /></a>${summary !== tool && html` <${Name} text=${summary} max=${160} />`}</li>`} />
          </section>
        `,
      )}
      ${unjudgedBy.length > 0 &&
      html`
        <h3>Not judged</h3>
        <${CutCalls} label="Calls that could not be judged" max=${8} calls=${unjudgedBy} row=${({ tool, why, count: number }, index) => html`<li key=${index}><${Name} text=${tool} strong /> <span class="small">${plural(number, 'call')}: ${number === 1 ? why : String(why).replace(/^its arguments are/, 'their arguments are')}</span></li>`} />
      `}
      ${unjudged > 0 && recordsArguments === false && html`<p class="faint small">Calls are judged exactly if their arguments are on record.${toRecordArguments ? html` <a href=${href('policy', ['edit'], toRecordArguments)}>Record arguments from now on…</a> (secrets are masked)` : ' The person who runs the server can set `audit.logArgs: true`.'}</p>`}
    </div>
  `;
}
