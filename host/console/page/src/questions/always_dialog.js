/** The answer always: what it covers, what else it would have covered, and a confirmation. */
import { html, useEffect, useState } from '../base/html.js';
import { post, segment } from '../base/api.js';
import { count, moment, plural } from '../base/format.js';
import { ErrorText, Loading } from '../parts/controls.js';
import { CutCalls } from '../parts/cut_list.js';
import { Dialog } from '../parts/dialog.js';
import { Name, Names } from '../parts/text.js';

const WAIT_MS = 300;

/** @param {{ question: object, fault: Error | null, onSend: (given: object) => void, onClose: () => void }} props `fault` says why the server has refused the patterns. */
export function AlwaysDialog({ question, fault, onSend, onClose }) {
  const { id, card = {}, patterns } = question;
  const [text, setText] = useState((patterns ?? []).join('\n'));
  const lines = text.split('\n').map((line) => line.trim()).filter(Boolean);
  const pattern = patterns && lines.join('\n') !== patterns.join('\n') ? { pattern: lines } : {};
  const [matches, setMatches] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    setMatches(null);
    setError(null);
    const timer = setTimeout(() => {
      post(`questions/${segment(id)}/matches`, pattern).then(
        (found) => isCurrent && setMatches(found),
        (fault) => isCurrent && setError(fault),
      );
    }, pattern.pattern ? WAIT_MS : 0);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [text]);
  const send = (event) => {
    event.preventDefault();
    if (!isRefused) onSend({ answer: 'always', ...pattern });
  };
  const { always } = card;
  // Patterns that the server refuses to test, it would also refuse as an answer.
  const isRefused = (patterns && !lines.length) || error?.code === 'INVALID_INPUT';
  const problem = error ?? fault;
  return html`
    <${Dialog} title="Always allow this?" onClose=${onClose} wide>
      <form onSubmit=${send}>
        <p>From now on, calls like this run without a question, in every session, until the approval expires or you revoke it (<code>mimir approvals</code>; Policy lists it):</p>
        ${pattern.pattern
          ? html`<p>Calls of <${Name} text=${card.tool} strong /> with commands like</p><${Names} texts=${lines} max=${Infinity} />`
          : always ? html`<${Names} texts=${[always.text]} max=${Infinity} />` : html`<p>Nothing: this answer covers this call only.</p>`}
        ${always?.grants?.length > 0 && html`<h3>It grants</h3><${Names} texts=${always.grants} max=${Infinity} />`}
        ${always?.withheld?.length > 0 && html`<h3>It does not grant</h3><${Names} texts=${always.withheld} />`}
        ${patterns &&
        html`
          <label>Patterns of commands <span class="faint">(one a line; they can be made narrower)</span>
            <textarea class="code" aria-invalid=${isRefused} rows=${Math.min(6, patterns.length + 1)} spellcheck=${false} autocapitalize="off" value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>
          </label>
        `}
        <${ErrorText} error=${problem} />
        <h3>Earlier calls that it would have covered</h3>
        ${!matches && !error && html`<${Loading} what="earlier calls" />`}
        ${matches && html`<${Matches} matches=${matches} />`}
        <div class="actions">
          <button type="button" autofocus onClick=${onClose}>Back</button>
          <button type="submit" class="primary" disabled=${isRefused}>Always allow</button>
        </div>
      </form>
    <//>
  `;
}

function Matches({ matches: { checked = 0, matched = [], total = matched.length, unjudged = 0 } }) {
  return html`
    <p>${total ? plural(total, 'call') : 'None'} of the last ${count(checked)}${unjudged ? `; ${count(unjudged)} could not be judged, because their arguments are not on record` : ''}.</p>
    <${CutCalls} label="Calls that it would also have covered" calls=${matched} row=${({ callId, time, tool, summary }) => html`<li key=${callId}><span class="faint">${moment(time)}</span> <${Name} text=${tool} strong /> <${Name} text=${summary} max=${160} /></li>`} />
    ${total > matched.length && html`<p class="faint small">The first ${count(matched.length)} are listed.</p>`}
  `;
}
