/** The open questions: a list, and the card of the one that is selected. */
import { html, useEffect, useRef, useState } from '../base/html.js';
import { ago, plural } from '../base/format.js';
import { repeats, useKeys } from '../base/keys.js';
import { askPermission, permission } from '../base/notify.js';
import { go, href, route } from '../base/router.js';
import { endedQuestions, live, liveVersion, mayAnswer, questions, session } from '../base/session.js';
import { useSeconds } from '../base/seconds.js';
import { useStore } from '../base/store.js';
import { AfterStrangers, Empty, Icon, Risk } from '../parts/controls.js';
import { useCut } from '../parts/cut_list.js';
import { isNarrow } from '../parts/narrow.js';
import { Name } from '../parts/text.js';
import { stopOf, stoppedAgents } from '../live/agents.js';
import { StopAgentDialog } from '../live/stop_agent.js';
import { AnswerSeveral } from './answer_several.js';
import { Asker, QuestionCard } from './question_card.js';
import { EndedCard } from './ended_card.js';

/** Questions that the list shows at a time. */
const SHOWN_MAX = 200;

export function QuestionsScreen() {
  const open = useStore(questions);
  const ended = useStore(endedQuestions);
  const state = useStore(session);
  const narrow = useStore(isNarrow);
  const { parts } = useStore(route);
  const { shown, button } = useCut(open, SHOWN_MAX, 'question');
  const [marked, setMarked] = useState(() => new Set());
  const [faults, setFaults] = useState([]);
  const [stopping, setStopping] = useState(null);
  /** The call that the person has edited last. */
  const [editedCall, setEdited] = useState(null);
  const lastMarked = useRef(null);
  // A card that has ended stays until the person moves on: no other card may slip under their finger.
  const last = useRef(null);
  const wanted = parts[0] ?? last.current?.id ?? open[0]?.id ?? null;
  const question = open.find(({ id }) => id === wanted);
  if (question) last.current = question;
  const index = open.findIndex(({ id }) => id === wanted);

  useEffect(() => {
    const stillOpen = new Set([...marked].filter((id) => open.some((one) => one.id === id)));
    if (stillOpen.size !== marked.size) setMarked(stillOpen);
  }, [open]);

  const select = (id) => go(href('questions', [id]), true);
  const next = (answer) => {
    // An edited call may be asked about again.
    if (answer === 'edit' && question?.callId) return setEdited(question.callId);
    last.current = null;
    // The list of now: this may run after an answer, when the list of this render is old.
    const others = questions.get().filter(({ id }) => id !== wanted);
    const following = others[Math.max(0, index)] ?? others.at(-1);
    go(href('questions', following ? [following.id] : []), true);
  };
  const step = (by) => repeats(() => open.length && select(open[Math.min(open.length - 1, Math.max(0, index + by))].id));
  const again = !question && editedCall && open.find(({ callId }) => callId === editedCall);
  useEffect(() => again && select(again.id), [again]);
  /** Selects a question or not; with `isRange`, all from the last one that was, as they are shown. */
  const mark = (id, isRange) => {
    const changed = new Set(marked);
    const places = [lastMarked.current, id].map((one) => shown.findIndex((other) => other.id === one)).sort((a, b) => a - b);
    lastMarked.current = id;
    if (isRange && places[0] >= 0) for (const one of shown.slice(places[0], places[1] + 1)) changed.add(one.id);
    else if (!changed.delete(id)) changed.add(id);
    setMarked(changed);
    setFaults([]);
  };
  const now = useSeconds();
  const canAnswer = mayAnswer(state);
  const call = useStore(liveVersion, () => live.calls.get(question?.callId) ?? null);
  const agent = call?.session && call.process?.pid ? call : null;
  useKeys({ j: step(1), k: step(-1), ...(question && canAnswer && { x: () => mark(question.id) }), ...(agent && canAnswer && { t: () => stopOf(stoppedAgents.get(), agent) || setStopping(agent) }) });

  const chosen = open.filter(({ id }) => marked.has(id));
  const sameAgent = chosen.length ? open.filter((one) => !marked.has(one.id) && sameAgentAs(one, chosen.at(-1))) : [];
  let body;
  if (question) body = html`<${QuestionCard} key=${question.id} question=${question} isEdited=${question.callId && (call?.edited || question.callId === editedCall)} onDone=${next} canAnswer=${canAnswer} agent=${agent} onStopAgent=${() => setStopping(agent)} position=${open.length > 1 ? [index, open.length] : null} onStep=${(by) => step(by)()} />`;
  else if (wanted && (ended.has(wanted) || last.current?.id === wanted || parts[0])) {
    body = html`<${EndedCard} question=${last.current?.id === wanted ? last.current : null} end=${ended.get(wanted)} left=${open.length} onNext=${() => next()} />`;
  } else body = html`<${NoQuestions} />`;

  return html`
    <div class="screen split questions">
      ${open.length > 0 && !(narrow && open.length === 1) &&
      html`
        <section class="list-pane question-list" aria-label="Open questions">
          <div class="toolbar"><h2>${plural(open.length, 'open question')}</h2><span class="spacer"></span><${NotifyButton} /></div>
          <ul>
            ${shown.map(
              (one) => html`<${QuestionItem} key=${one.id} question=${one} isSelected=${one.id === wanted} isMarked=${marked.has(one.id)} canMark=${canAnswer && open.length > 1} onMark=${(event) => mark(one.id, event.shiftKey)} now=${now} />`,
            )}
            ${button && html`<li class="footnote">${button}</li>`}
          </ul>
          ${sameAgent.length > 0 && html`<p class="footnote"><button class="link small" onClick=${() => setMarked(new Set([...marked, ...sameAgent.map(({ id }) => id)]))}>Select ${sameAgent.length} more of <${Asker} question=${sameAgent[0]} short /></button></p>`}
          ${(chosen.length > 1 || faults.length > 0) && html`<${AnswerSeveral} chosen=${chosen} faults=${faults} onFaults=${setFaults} onDone=${() => setMarked(new Set())} />`}
        </section>
      `}
      <section class="card-pane" aria-label="Question">${body}</section>
      ${stopping && html`<${StopAgentDialog} agent=${stopping} onClose=${() => setStopping(null)} />`}
    </div>
  `;
}

const sameAgentAs = (one, other) => one.session === other.session && one.process === other.process;

function QuestionItem({ question, isSelected, isMarked, canMark, onMark, now }) {
  const { id, card = {}, askedAt, labels } = question;
  return html`
    <li class=${isSelected ? 'question-item selected' : 'question-item'}>
      ${canMark && html`<input type="checkbox" checked=${isMarked} onClick=${onMark} aria-label=${`Select the question about ${String(card.tool).slice(0, 80)}`} />`}
      <a href=${href('questions', [id])} aria-current=${isSelected ? 'true' : undefined}>
        <span class="line"><${Name} text=${card.tool} max=${60} strong /><span class="spacer"></span><span class="faint small">${ago(askedAt, now)}</span><${Risk} risk=${card.risk} /></span>
        <span class="inline-foreign" translate="no"><${Name} text=${card.summary} max=${140} /></span>
        <span class="line small"><span class="grow clip"><${Asker} question=${question} short /></span><${AfterStrangers} labels=${labels} /></span>
      </a>
    </li>
  `;
}

function NotifyButton() {
  const state = useStore(permission);
  if (state !== 'default') return null;
  return html`<button class="quiet" onClick=${askPermission}><${Icon} name="bell" />Notify me</button>`;
}

function NoQuestions() {
  return html`
    <${Empty} title="No open questions">
      When a call needs a person, its question appears here, with the facts. It can also be answered in the agent or with <code>mimir approvals</code>.<br /><${NotifyButton} />
    <//>
  `;
}
