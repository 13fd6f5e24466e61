/** The answers "always" of people, which apply to later calls. */
import { html } from '../base/html.js';
import { day, plural } from '../base/format.js';
import { Tag } from '../parts/controls.js';
import { useCut } from '../parts/cut_list.js';
import { Name } from '../parts/text.js';

const SHOWN_MAX = 50;

/** @param {{ title: string, approvals?: object[] }} props */
export function StoredApprovals({ title, approvals = [] }) {
  const { shown, button } = useCut(approvals, SHOWN_MAX, 'approval');
  if (!approvals.length) return null;
  return html`
    <section class="panel" aria-label=${title}>
      <div class="panel-head"><h2>${title}</h2><span class="spacer"></span><span class="faint small">${plural(approvals.length, 'approval')}</span></div>
      <ul class="rule-list">
        ${shown.map(
          ({ id, tool, pattern, scope, callers = [], addedAt, expiresAt, lastUsed, current, command }) => html`
            <li key=${id}>
              <div class="grow">
                <${Name} text=${tool} max=${60} strong /> <span class="faint small">with</span> <${Name} text=${pattern} max=${2000} />
                ${scope && html` <span class="faint small">on</span> <${Name} text=${scope} max=${300} />`}
                ${callers.length > 0 && html` <span class="faint small">called by</span> <${Name} text=${callers.join(' → ')} max=${200} />`}
                ${current === false && html` <${Tag} tone="faint">for another version of the tool<//>`}
                <div class="small faint">
                  ${addedAt && `given ${day(addedAt)}, `}${lastUsed ? `last used ${day(lastUsed)}` : 'never used'}${expiresAt && `, until ${day(expiresAt)}`}${command && html`; to take it back, in a terminal: <${Name} text=${command} max=${120} />`}
                </div>
              </div>
            </li>
          `,
        )}
      </ul>
      ${button}
    </section>
  `;
}
