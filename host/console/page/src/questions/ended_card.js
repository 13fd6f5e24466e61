/** A question that has ended. Its card stays in place of the answers until the person moves on. */
import { html, useEffect } from '../base/html.js';
import { plural } from '../base/format.js';
import { useKeys } from '../base/keys.js';
import { answerName } from '../base/session.js';
import { Name } from '../parts/text.js';
import { unsent } from './no_dialog.js';

/** The answers in words. */
export const ANSWER = {
  once: 'yes, once',
  beforehand: 'yes, given beforehand',
  inAdvance: 'yes, given beforehand',
  session: 'yes, for the session',
  always: 'yes, always',
  edit: 'yes, with edited arguments',
  no: 'no',
};

/** @param {{ question: object | null, end?: { state: string, answer?: string, by?: string }, left: number, onNext: () => void }} props */
export function EndedCard({ question, end, left, onNext }) {
  useKeys({ Enter: onNext, Escape: onNext });
  useEffect(() => () => {
    unsent.text = '';
  }, []);
  const answer = answerName(end?.answer);
  let text = 'This question is not open any more.';
  if (end?.state === 'expired') text = `${end.isEarly ? 'The agent does not wait for an answer any more' : 'This question has expired'}. The call did not run.`;
  if (end?.state === 'answered') text = html`Answered: <strong>${ANSWER[answer] ?? 'answered'}</strong>${end.by ? html`, by <${Name} text=${end.by} />` : ''}.`;
  return html`
    <div class="empty" role="status">
      ${question && html`<h2><${Name} text=${question.card?.tool} strong /></h2>`}
      <p>${text}${answer === 'edit' && ' The edited call is checked again. If it has to be asked about again, its question appears here.'}</p>
      ${unsent.text && html`<p>Your reason was not sent: <${Name} text=${unsent.text} max=${500} /></p>`}
      <button class="primary" onClick=${onNext}>${left ? `Next question (${plural(left, 'open', 'open')})` : 'Back to the list'}</button>
    </div>
  `;
}
