/** An edited rule, evaluated over the record. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { count, day, moment, plural } from '../base/format.js';
import { href, route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { Decision, ErrorText, Loading } from '../parts/controls.js';
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
  const start = query.tool ? { key: `tools.${query.tool}.approval`, value: '"ask"' } : undefined;
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
  const { checked, from, unjudged = 0, changes = [] } = data;
  return html`
    <div role="status">
      <p>${plural(checked, 'call')} since ${day(from)}. ${unjudged > 0 && `${count(unjudged)} could not be judged: arguments are not on record (audit.logArgs). `}${unjudged < checked && `${count(changes.reduce((all, change) => all + change.count, 0))} of ${count(checked - unjudged)} would have been decided differently.`}</p>
      ${changes.map(
        ({ before, after, count: number, examples = [] }, index) => html`
          <section key=${index} class="change">
            <p><strong>${plural(number, 'call')}</strong> <${Decision} decision=${before} /> → <${Decision} decision=${after} /></p>
            ${examples.length > 0 && html`<ul class="matches" tabindex="0" aria-label="Examples">${examples.map(({ callId, time, tool, summary }) => html`<li key=${callId}><span class="faint">${moment(time)}</span> <a href=${href('record', ['call', callId])}><${Name} text=${tool} strong /></a> <${Name} text=${summary} max=${160} /></li>`)}</ul>`}
          </section>
        `,
      )}
    </div>
  `;
}
