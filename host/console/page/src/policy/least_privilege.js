/** Grants that were not used, and rules that would replace approvals. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { day, moment, plural } from '../base/format.js';
import { Empty } from '../parts/controls.js';
import { useCut } from '../parts/cut_list.js';
import { Dialog } from '../parts/dialog.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';
import { Proposal } from './edit_policy.js';
import { StoredApprovals } from './stored_approvals.js';

const SHOWN_MAX = 50;

export function LeastPrivilege() {
  const load = useLoad('policy/least-privilege', 'policy');
  const { data } = load;
  const [edit, setEdit] = useState(null);
  const unused = data?.unused ?? [];
  const approvals = data?.unusedApprovals ?? [];
  const rules = data?.rules ?? [];
  const shownUnused = useCut(unused, SHOWN_MAX, 'grant');
  const shownRules = useCut(rules, SHOWN_MAX, 'rule');
  return html`
    <section class="narrow-page wide">
      <${LoadState} load=${load} what="the grants" />
      ${data && !unused.length && !approvals.length && !rules.length && html`<${Empty} title="Nothing to change">All grants and approvals were used${data.recordBegins ? ` since ${moment(data.recordBegins)}` : ''}; no rule would replace approvals.<//>`}
      ${unused.length > 0 &&
      html`
        <h2>Not used in 30 days</h2>
        <ul class="rule-list">
          ${shownUnused.shown.map(({ tool, grant, lastUsed, command, edit: change }, index) => html`<li key=${index}><div class="grow"><${Name} text=${tool} max=${60} strong /> <${Name} text=${grant} max=${200} /><div class="small faint">${lastUsed ? `last used ${day(lastUsed)}` : 'no use on record'}${command && html`; in a terminal: <${Name} text=${command} max=${120} />`}</div></div>${change && html`<button onClick=${() => setEdit(change)}>Show the change…</button>`}</li>`)}
        </ul>
        ${shownUnused.button}
      `}
      <${StoredApprovals} title="Approvals not used in 30 days" approvals=${approvals} />
      ${rules.length > 0 &&
      html`
        <h2>Rules that would replace approvals</h2>
        <ul class="rule-list">
          ${shownRules.shown.map(({ text, replaces, edit: change }, index) => html`<li key=${index}><div class="grow"><${Name} text=${text} max=${300} /><div class="small faint">replaces ${plural(replaces, 'approval')}</div></div>${change && html`<button onClick=${() => setEdit(change)}>Show the change…</button>`}</li>`)}
        </ul>
        ${shownRules.button}
      `}
      ${edit && html`<${Dialog} title="Proposed change" onClose=${() => setEdit(null)} wide><${Proposal} edit=${edit} onDone=${() => setEdit(null)} isDialog /><//>`}
    </section>
  `;
}
