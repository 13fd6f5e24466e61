/** The answers "always" of people, which apply to later calls until they are revoked. */
import { html, useState } from '../base/html.js';
import { post, segment } from '../base/api.js';
import { day, oneLine, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { mayAnswer, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { ErrorText, Tag } from '../parts/controls.js';
import { useCut } from '../parts/cut_list.js';
import { Dialog } from '../parts/dialog.js';
import { Name } from '../parts/text.js';

const SHOWN_MAX = 50;

/** @param {{ title: string, approvals?: object[] }} props */
export function StoredApprovals({ title, approvals = [] }) {
  const { shown, button } = useCut(approvals, SHOWN_MAX, 'approval');
  const [revoking, setRevoking] = useState(null);
  const mayRevoke = mayAnswer(useStore(session));
  return html`
    ${approvals.length > 0 &&
    html`
      <section class="panel" aria-label=${title}>
        <div class="panel-head"><h2>${title}</h2><span class="spacer"></span><span class="faint small">${plural(approvals.length, 'approval')}</span></div>
        <ul class="rule-list">
          ${shown.map(
            (approval) => html`
              <li key=${approval.id}>
                <div class="grow">
                  <${Covered} approval=${approval} />
                  ${approval.current === false && html` <${Tag} tone="faint">for another version of the tool<//>`}
                  <${Times} approval=${approval} />
                </div>
                ${mayRevoke && html`<button class="danger-quiet" aria-label=${oneLine(`Revoke ${approval.tool} with ${approval.pattern}`, 120)} onClick=${() => setRevoking(approval)}>Revoke</button>`}
              </li>
            `,
          )}
        </ul>
        ${button}
      </section>
    `}
    ${revoking && html`<${RevokeDialog} approval=${revoking} onClose=${() => setRevoking(null)} />`}
  `;
}

/** The calls that an approval covers. */
function Covered({ approval: { tool, pattern, scope, callers = [] } }) {
  return html`
    <${Name} text=${tool} max=${60} strong /> <span class="faint small">with</span> <${Name} text=${pattern} max=${2000} />
    ${scope && html` <span class="faint small">on</span> <${Name} text=${scope} max=${300} />`}
    ${callers.length > 0 && html` <span class="faint small">called by</span> <${Name} text=${callers.join(' → ')} max=${200} />`}
  `;
}

function Times({ approval: { addedAt, lastUsed, expiresAt } }) {
  return html`<div class="small faint">${addedAt && `given ${day(addedAt)}, `}${lastUsed ? `last used ${day(lastUsed)}` : 'never used'}${expiresAt && `, until ${day(expiresAt)}`}</div>`;
}

function RevokeDialog({ approval, onClose }) {
  const revoke = useAction(async () => {
    try {
      await post(`approvals/${segment(approval.id)}/revoke`);
    } finally {
      // One that is gone leaves the list, too.
      emitChange('policy');
    }
    announce('The approval is revoked.');
    onClose();
  });
  return html`
    <${Dialog} title="Revoke this approval?" onClose=${onClose}>
      <p><${Covered} approval=${approval} /></p>
      <p>The next such call asks again. Calls that run by it now end. Changes already made stay.</p>
      <${ErrorText} error=${revoke.error} />
      <div class="actions">
        <button autofocus onClick=${onClose}>Back</button>
        <button class="danger" disabled=${revoke.isBusy} onClick=${revoke.run}>Revoke</button>
      </div>
    <//>
  `;
}
