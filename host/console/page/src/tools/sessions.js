/** The sessions of clients. */
import { html } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { ago, count, moment } from '../base/format.js';
import { href } from '../base/router.js';
import { Empty, Tag } from '../parts/controls.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';

export function SessionList() {
  const load = useLoad('sessions', 'sessions');
  const { data } = load;
  const sessions = data?.sessions ?? [];
  return html`
    <div class="page-scroll">
      <${LoadState} load=${load} what="sessions" />
      ${data && !sessions.length && html`<${Empty} title="No sessions">Clients that have called a tool appear here.<//>`}
      ${sessions.length > 0 &&
      html`
        <div class="table-box" role="region" aria-label="Sessions" tabindex="0"><table>
          <thead><tr><th scope="col">Session</th><th scope="col">Client</th><th scope="col">User</th><th scope="col" class="right">Calls</th><th scope="col">Has read</th><th scope="col">First</th><th scope="col">Last</th></tr></thead>
          <tbody>
            ${sessions.slice(0, 500).map(
              ({ id, client, user, calls, labels, first, last }) => html`
                <tr key=${id}>
                  <td><a href=${href('record', [], { session: id })}><${Name} text=${id} max=${60} /></a></td>
                  <td>${client ? html`<${Name} text=${client} max=${40} />` : '–'}</td>
                  <td>${user ? html`<${Name} text=${user} max=${40} />` : '–'}</td>
                  <td class="right">${count(calls)}</td>
                  <td><${LabelTags} labels=${labels} /></td>
                  <td>${moment(first)}</td>
                  <td>${ago(last)}</td>
                </tr>
              `,
            )}
          </tbody>
        </table></div>
      `}
    </div>
  `;
}

/** The labels of what a session has read: a list of labels, or an object with trust and data class. */
function LabelTags({ labels }) {
  if (!labels) return 'unknown';
  const all = Array.isArray(labels) ? labels : [labels.trust, labels.dataClass];
  const special = all.filter((label) => ['untrusted', 'sensitive', 'secret'].includes(label));
  if (!special.length) return html`<span class="faint">nothing special</span>`;
  return special.map((label) => html`<${Tag} key=${label} tone="warn">${label === 'untrusted' ? 'strangers' : label}<//> `);
}
