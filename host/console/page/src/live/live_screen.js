/** The calls as they run. */
import { html, useMemo, useRef, useState } from '../base/html.js';
import { count, plural } from '../base/format.js';
import { useKeys } from '../base/keys.js';
import { go, href, route } from '../base/router.js';
import { live, liveVersion, mayAnswer, questions, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { ClusterNote } from '../parts/cluster_note.js';
import { Empty } from '../parts/controls.js';
import { Split, useListKeys } from '../parts/split.js';
import { VirtualList } from '../parts/virtual_list.js';
import { isNarrow } from '../parts/narrow.js';
import { stopOf, stoppedAgents } from './agents.js';
import { CallDetail } from './call_detail.js';
import { CallRow } from './call_row.js';
import { ActiveAgents, StopAgentDialog, StoppedAgents } from './stop_agent.js';

const STATES = [
  ['all', 'All', 'all'],
  ['active', 'Active', null],
  ['failed', 'Refused, failed', 'failed'],
];

function countNew(rows, known) {
  const ids = new Set(known.map(({ id }) => id));
  return rows.filter(({ id }) => !ids.has(id)).length;
}

export function LiveScreen() {
  const version = useStore(liveVersion);
  const asked = useStore(questions);
  const { parts } = useStore(route);
  const narrow = useStore(isNarrow);
  const [text, setText] = useState('');
  const [state, setState] = useState('all');
  const [collapsed, setCollapsed] = useState(() => new Set());
  const [isPaused, setPaused] = useState(false);
  const [isPointed, setPointed] = useState(false);
  const [agent, setAgent] = useState(null);
  const stopped = useStore(stoppedAgents);
  const frozen = useRef(null);
  const held = useRef(null);
  const selected = parts[0] ?? null;

  const current = useMemo(() => ({ rows: live.rows({ text, state, collapsed }), counts: live.counts(asked), agents: live.agents() }), [version, asked, text, state, collapsed]);
  if (!isPaused) frozen.current = null;
  else frozen.current ??= current;
  // The rows keep their places while the pointer is on them. Their calls still change.
  const filter = [text, state, collapsed];
  if (!isPointed || frozen.current) held.current = null;
  else if (!held.current?.filter.every((part, index) => part === filter[index])) held.current = { ...current, filter };
  const { counts, agents } = frozen.current ?? current;
  const { rows, counts: shownCounts } = frozen.current ?? held.current ?? current;
  const newer = held.current ? countNew(current.rows, rows) : 0;
  const active = counts.running + counts.waiting;

  const select = (id) => go(href('live', [id]), selected !== null);
  const close = () => go(href('live'));
  const toggle = (id, close) => {
    const next = new Set(collapsed);
    next[close ? 'add' : 'delete'](id);
    setCollapsed(next);
  };
  const listKey = ({ key }) => {
    if (selected && key === 'ArrowLeft') toggle(selected, true);
    if (selected && key === 'ArrowRight') toggle(selected, false);
  };
  useListKeys(rows.map(({ id }) => id), selected, select, close);
  const open = selected && live.calls.get(selected);
  useKeys({ p: () => setPaused(!isPaused), ...(open?.session && mayAnswer(session.get()) && { t: () => stopOf(stoppedAgents.get(), open) || setAgent(open) }) });
  const leaveSearch = (event) => {
    if (event.key !== 'Escape') return;
    event.preventDefault();
    setText('');
    event.currentTarget.blur();
  };
  const list = html`
    <div class="toolbar">
      <h2 class="visually-hidden">Calls</h2>
      <input
        data-search
        type="search"
        class="search"
        placeholder="Filter calls"
        aria-label="Filter calls"
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
        onKeyDown=${leaveSearch}
      />
      <div class="segments" role="group" aria-label="State">
        ${STATES.map(
          ([id, label, key]) => html`
            <button key=${id} aria-pressed=${state === id} onClick=${() => setState(id)}>
              ${label} <span class="faint">${count(key ? counts[key] : active)}</span>
            </button>
          `,
        )}
      </div>
      <button aria-pressed=${isPaused} class=${isPaused ? 'toggled' : ''} title="Pause the view (p)" onClick=${() => setPaused(!isPaused)}>
        ${isPaused ? 'Resume view' : 'Pause view'}
      </button>
    </div>
    ${shownCounts.waiting > 0 && html`<p class="message warn slim"><a href=${href('questions')}>${plural(shownCounts.waiting - shownCounts.behind, 'call waits', 'calls wait')} for an answer</a>${shownCounts.behind > 0 && `, and ${count(shownCounts.behind)} behind another question`}</p>`}
    <${StoppedAgents} />
    ${mayAnswer(session.get()) && html`<${ActiveAgents} agents=${agents.filter((one) => !stopOf(stopped, one))} onStop=${setAgent} />`}
    ${isPaused && html`<p class="message warn slim">The view is paused. Calls go on; ${plural(live.calls.size, 'call')} known now.</p>`}
    <div class="columns call-columns" aria-hidden="true"><span>State</span><span>Tool</span><span>Arguments</span><span>Who</span><span class="right">Effects</span><span class="right">Took</span><span class="right">Started</span></div>
    ${rows.length
      ? html`
          <${VirtualList}
            rows=${rows}
            rowHeight=${narrow ? 66 : 34}
            label="Calls: running ones first, then the newest"
            onPointed=${setPointed}
            role="tree"
            selected=${selected}
            onSelect=${select}
            onKey=${listKey}
            render=${(row) => html`<${CallRow} row=${row} version=${version} onToggle=${toggle} onStopAgent=${setAgent} />`}
            rowProps=${(row) => ({ 'aria-expanded': row.nested ? !row.isCollapsed : undefined, 'data-active': row.call.state !== 'finished' || undefined })}
          />
        `
      : html`<${Empty} title=${text || state !== 'all' ? 'No call matches' : 'No calls yet'}>
          ${text || state !== 'all' ? 'Change the filter to see more.' : 'Calls of this workspace appear here as agents make them.'}
        <//>`}
    <${ClusterNote} about="live" />
    ${newer > 0 && html`<p class="footnote faint">The list holds still while the pointer is on it: ${plural(newer, 'newer call')}.</p>`}
    ${live.dropped > 0 && html`<p class="footnote faint">${plural(live.dropped, 'older call')} not shown; the <a href=${href('record')}>record</a> has all of them.</p>`}
  `;
  const detail = selected && html`<${CallDetail} key=${selected} id=${selected} call=${open} onStopAgent=${setAgent} onClose=${close} />`;
  return html`
    <${Split} label="Calls" list=${list} detail=${detail} />
    ${agent && html`<${StopAgentDialog} agent=${agent} onClose=${() => setAgent(null)} />`}
  `;
}
