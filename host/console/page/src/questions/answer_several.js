/** One answer for several questions. */
import { html, useState } from '../base/html.js';
import { post, segment } from '../base/api.js';
import { plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { endQuestion } from '../base/session.js';
import { AfterStrangers, Risk } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Diff } from '../parts/diff.js';
import { Framed, Name } from '../parts/text.js';
import { NoDialog } from './no_dialog.js';
import { Commands } from './question_card.js';

/** `faults` are the answers that did not count; `onFaults` replaces them. */
export function AnswerSeveral({ chosen, faults, onFaults, onDone }) {
  const [dialog, setDialog] = useState(null);
  const send = async (questions, given) => {
    setDialog(null);
    const results = await Promise.allSettled(
      questions.map(async ({ id, card, preview }) => {
        // Of the question as the dialog shows it: the answer does not count for another difference.
        await post(`questions/${segment(id)}/answer`, { fingerprint: card.fingerprint, preview: preview?.digest, ...given });
        endQuestion({ id, state: 'answered', answer: given.answer, by: 'you' });
      }),
    );
    const failed = results.flatMap(({ reason }, index) => (reason ? [{ tool: questions[index].card.tool, message: reason.message }] : []));
    announce(`${plural(results.length - failed.length, 'answer')} of ${results.length} count.`);
    onFaults(failed);
    if (!failed.length) onDone();
  };
  const count = plural(chosen.length, 'question');
  const single = chosen.filter(({ answers }) => !answers?.includes('session')).map(({ card }) => card.tool);
  return html`
    <div class="several" role="group" aria-label="Answer the selected questions">
      ${chosen.length > 0 &&
      html`
        <span class="faint">${count} selected</span>
        <button onClick=${() => setDialog({ answer: 'once', questions: chosen })}>Yes, once…</button>
        <button onClick=${() => setDialog({ answer: 'session', questions: chosen })} disabled=${single.length > 0} aria-describedby=${single.length ? 'why-not-session' : undefined}>This session…</button>
        <button class="danger-quiet" onClick=${() => setDialog({ answer: 'no', questions: chosen })}>No…</button>
      `}
      ${single.length > 0 && html`<span id="why-not-session" class="faint small">“This session” is not offered for <${Name} text=${single[0]} max=${60} />${single.length > 1 && ` and ${single.length - 1} more`}.</span>`}
      ${faults.length > 0 && html`<div class="message bad" role="alert">${faults.map(({ tool, message }, index) => html`<p key=${index}><${Name} text=${tool} />: this answer did not count. ${message}</p>`)}</div>`}
    </div>
    ${dialog?.answer === 'no' && html`<${NoDialog} title=${`No to ${plural(dialog.questions.length, 'question')}`} onClose=${() => setDialog(null)} onSend=${(given) => send(dialog.questions, given)} />`}
    ${dialog && dialog.answer !== 'no' && html`<${Confirm} ...${dialog} onClose=${() => setDialog(null)} onSend=${() => send(dialog.questions, { answer: dialog.answer })} />`}
  `;
}

/** Shows what is about to be allowed. The questions are those that were selected when the dialog opened. */
function Confirm({ answer, questions, onClose, onSend }) {
  return html`
    <${Dialog} title=${`Yes to ${plural(questions.length, 'question')}, ${answer === 'once' ? 'once' : 'for this session'}?`} onClose=${onClose} wide>
      <ul class="matches tall" tabindex="0" aria-label="Selected questions">
        ${questions.map(
          (question) => html`
            <li key=${question.id}>
              <${Risk} risk=${question.card.risk} /> <${Name} text=${question.card.tool} strong /> <${Name} text=${question.card.summary} max=${200} /> <${AfterStrangers} labels=${question.labels} />
              ${answer === 'session' && question.card.always && html`<div class="small faint">covers <${Name} text=${question.card.always.text} max=${Infinity} /></div>`}
              <${Allowed} question=${question} />
            </li>
          `,
        )}
      </ul>
      <div class="actions">
        <button onClick=${onClose} autofocus>Back</button>
        <button class="primary" onClick=${onSend}>Allow ${plural(questions.length, 'call')}</button>
      </div>
    <//>
  `;
}

/** What the call of a question does: its changes and commands, or else its arguments. */
function Allowed({ question: { card, preview, commands = [] } }) {
  const files = preview?.diff ?? [];
  return html`
    ${files.length > 0 && html`<${Diff} files=${files} folded />`}
    ${commands.length > 0 && html`<${Commands} commands=${commands} />`}
    ${!files.length && preview?.note && html`<p class="small faint">${preview.note}</p>`}
    ${!files.length && !commands.length && html`<${Framed} text=${card.arguments} label="Exact arguments" />`}
  `;
}
