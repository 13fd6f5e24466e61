/** The answers to a question. */
import { html, useEffect, useRef, useState } from '../base/html.js';
import { useKeys } from '../base/keys.js';
import { isNarrow } from '../parts/narrow.js';
import { useStore } from '../base/store.js';
import { AlwaysDialog } from './always_dialog.js';
import { EditDialog } from './edit_dialog.js';
import { NoDialog } from './no_dialog.js';
import { AfterStrangers } from '../parts/controls.js';
import { Name } from '../parts/text.js';

/** A card or difference that has just appeared takes no answer for this long: the key or tap may have been meant for another one. */
const GUARD_MS = 500;

/**
 * @param {{ question: object, isDisabled: boolean, isChanged: boolean, preview?: string, onAnswer: (given: object) => void }} props `preview` is the digest of the difference that is shown. With `isChanged`, only a no counts.
 */
export function AnswerBar({ question, isDisabled, isChanged, preview, onAnswer }) {
  const { card = {}, answers = ['once', 'no'] } = question;
  const narrow = useStore(isNarrow);
  const [dialog, setDialog] = useState(null);
  const [fault, setFault] = useState(null);
  const [isGuarded, setGuarded] = useState(true);
  const [showsMore, setShowsMore] = useState(false);
  const bar = useRef(null);
  const isSending = useRef(false);
  // The difference that was shown when a dialog was opened over it.
  const seen = useRef(preview);
  useEffect(() => {
    setGuarded(true);
    const timer = setTimeout(() => setGuarded(false), GUARD_MS);
    return () => clearTimeout(timer);
  }, [preview]);
  const open = (answer) => {
    seen.current = preview;
    setFault(null);
    setDialog(answer);
  };
  const isOff = (answer) => isDisabled || isGuarded || (isChanged && answer !== 'no');
  const offers = (answer) => answers.includes(answer) && (answer !== 'edit' || card.editable !== false);
  const act = {
    once: () => onAnswer({ answer: 'once' }),
    session: () => onAnswer({ answer: 'session' }),
    always: () => open('always'),
    edit: () => open('edit'),
    no: () => open('no'),
  };
  const key = (answer) => offers(answer) && !isOff(answer) && act[answer];
  useKeys({ o: key('once'), s: key('session'), a: key('always'), e: key('edit'), n: key('no') });
  const button = (answer, text, letter, tone = '') =>
    offers(answer) &&
    html`<button class=${`answer ${tone}`} disabled=${isOff(answer)} onClick=${act[answer]} aria-keyshortcuts=${letter}>${text}<kbd aria-hidden="true">${letter}</kbd></button>`;
  const send = async (given) => {
    if (isSending.current) return;
    isSending.current = true;
    setFault(null);
    const refusal = await onAnswer({ preview: seen.current, ...given });
    isSending.current = false;
    // What the person has written can be corrected; anything else needs another look at the card.
    if (refusal?.code === 'INVALID_INPUT') setFault(refusal);
    else setDialog(null);
  };
  const close = () => setDialog(null);
  const rest = html`
    ${button('session', 'Yes, this session', 's')}
    ${button('always', 'Yes, always…', 'a')}
    ${button('edit', 'Edit…', 'e')}
  `;
  const hasRest = ['session', 'always', 'edit'].some(offers);
  return html`
    ${card.always && (offers('session') || offers('always')) && (!narrow || showsMore) &&
    html`<p class="coverage small" tabindex="0"><span class="faint">${!offers('session') ? '“Always” covers' : offers('always') ? '“This session” and “always” cover' : '“This session” covers'}</span> <${Name} text=${card.always.text} max=${Infinity} /></p>`}
    ${narrow && html`<${AfterStrangers} labels=${question.labels} />`}
    <div class="answer-bar" role="group" aria-label="Answer" ref=${bar} aria-busy=${isDisabled}>
      ${narrow
        ? html`
            ${showsMore && html`<div class="more">${rest}</div>`}
            ${button('no', 'No…', 'n', 'danger-quiet')}
            ${hasRest && html`<button class="answer" aria-expanded=${showsMore} onClick=${() => setShowsMore(!showsMore)}>${showsMore ? 'Less' : 'More…'}</button>`}
            ${button('once', 'Yes, once', 'o', 'primary')}
          `
        : html`${button('once', 'Yes, once', 'o', 'primary')}${rest}<span class="spacer"></span>${button('no', 'No…', 'n', 'danger-quiet')}`}
    </div>
    ${dialog === 'always' && html`<${AlwaysDialog} question=${question} fault=${fault} onSend=${send} onClose=${close} />`}
    ${dialog === 'edit' && html`<${EditDialog} card=${card} refusal=${fault} onSend=${send} onClose=${close} />`}
    ${dialog === 'no' && html`<${NoDialog} title=${html`No to <${Name} text=${card.tool} strong />`} onSend=${send} onClose=${close} />`}
  `;
}
