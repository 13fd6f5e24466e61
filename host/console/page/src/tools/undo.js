/** Changes of calls that can be taken back. */
import { html, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { ago, clock, moment, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { go, href } from '../base/router.js';
import { adminOnly, isAdmin, live, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { Empty, ErrorText, RoleNote, Tag } from '../parts/controls.js';
import { Diff } from '../parts/diff.js';
import { useCut } from '../parts/cut_list.js';
import { Dialog } from '../parts/dialog.js';
import { DetailPane, LoadState, Split, useListKeys } from '../parts/split.js';
import { Name, Names } from '../parts/text.js';
import { agentName } from '../live/agents.js';

export function UndoList({ selected }) {
  const load = useLoad('undo', 'undo');
  const { data } = load;
  const records = data?.records ?? [];
  const { shown, button } = useCut(records, 200, 'change');
  const select = (id) => go(href('tools', ['undo', id]), selected !== null);
  const close = () => go(href('tools', ['undo']));
  useListKeys(records.map(({ id }) => id), selected, select, close);
  const list = html`
    <${LoadState} load=${load} what="changes" />
    ${data && !records.length && html`<${Empty} title="Nothing to undo">Changes that calls make to files appear here.<//>`}
    <ul class="tool-list">
      ${shown.map(
        ({ id, tool, time, summary, files = [], undone }) => html`
          <li key=${id} class=${id === selected ? 'tool-item selected' : 'tool-item'}>
            <a href=${href('tools', ['undo', id])} aria-current=${id === selected ? 'true' : undefined}>
              <span class="line"><${Name} text=${tool} max=${60} strong /> <span class="faint small">${clock(time)}, ${ago(time)}</span><span class="spacer"></span>${live.calls.has(id) && html`<${Name} text=${agentName(live.calls.get(id))} max=${30} />`}${undone && html`<${Tag} tone="faint">undone<//>`}</span>
              <span class="line small"><span class="grow clip"><${Name} text=${summary || files.join(', ')} max=${120} /></span><span class="faint">${plural(files.length, 'file')}</span></span>
            </a>
          </li>
        `,
      )}
      ${button && html`<li class="footnote">${button}</li>`}
    </ul>
  `;
  const detail = selected && html`<${UndoDetail} key=${selected} id=${selected} onClose=${close} />`;
  return html`<${Split} label="Changes of calls" list=${list} detail=${detail} />`;
}

function UndoDetail({ id, onClose }) {
  const load = useLoad(`undo/${segment(id)}`, 'undo');
  const { data } = load;
  const person = useStore(session);
  const changed = (data?.diff ?? []).filter(({ changedSince }) => changedSince);
  const [isAsking, setAsking] = useState(false);
  const [restored, setRestored] = useState(null);
  const undo = useAction(async () => {
    setAsking(false);
    const answer = await post(`undo/${segment(id)}`);
    setRestored(answer?.restored ?? []);
    announce('The change is undone.');
    emitChange('undo');
  });
  return html`
    <${DetailPane}
      label="Change"
      title=${data ? html`<${Name} text=${data.tool} strong />` : 'Change'}
      tags=${data?.undone && html`<${Tag} tone="faint">undone<//>`}
      actions=${data && !data.undone && !changed.length && html`<button class="primary" disabled=${!isAdmin(person)} onClick=${() => setAsking(true)}>Undo…</button>`}
      onClose=${onClose}
    >
      <${ErrorText} error=${undo.error} />
      <${LoadState} load=${load} what="the change" />
        ${restored && html`<div class="message"><p>Restored:</p><${Names} texts=${restored.map((file) => (typeof file === 'string' ? file : (file.path ?? JSON.stringify(file))))} /></div>`}
        ${data &&
        html`
          ${!data.undone && html`<${RoleNote} text=${adminOnly(person, 'Undoing a change')} />`}
          <p class="faint small detail-time">${moment(data.time)}, <a href=${href('record', ['call', id])}>show the call</a>${data.summary && html`, <${Name} text=${data.summary} max=${200} />`}</p>
          ${!data.undone && changed.length > 0 && html`<div class="message warn"><p>Files have changed since. Undo would lose the later changes, so it is only possible in a terminal: <code>mimir undo ${id} --force</code></p><${Names} texts=${changed.map(({ path }) => path)} /></div>`}
          ${!data.undone && html`<h3>What undo takes back</h3><${Diff} files=${data.diff} />`}
          ${data.unrecorded && html`<p class="message warn">Some changes of this call were not recorded, and cannot be undone: <${Name} text=${data.unrecorded.why ?? ''} max=${300} /></p>`}
        `}
      ${isAsking &&
      html`
        <${Dialog} title="Undo this change?" onClose=${() => setAsking(false)} wide>
          <p>These files get their old content:</p>
          <${Names} texts=${data.files ?? []} />
          <div class="actions">
            <button autofocus onClick=${() => setAsking(false)}>Back</button>
            <button class="primary" onClick=${undo.run}>Undo the change</button>
          </div>
        <//>
      `}
    <//>
  `;
}
