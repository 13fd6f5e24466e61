/** Tools, and what belongs to them: servers, sessions, workers, notes, packages and changes that can be undone. */
import { html } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { go, href, route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { Empty, PlainTable, Tabs } from '../parts/controls.js';
import { ClusterNote } from '../parts/cluster_note.js';
import { LoadState } from '../parts/split.js';
import { ServerList } from './servers.js';
import { SessionList } from './sessions.js';
import { ToolList } from './tool_list.js';
import { UndoList } from './undo.js';
import { WorkerList } from './workers.js';

const TABS = [
  { id: 'list', text: 'Tools' },
  { id: 'servers', text: 'Servers' },
  { id: 'sessions', text: 'Sessions' },
  { id: 'undo', text: 'Undo' },
  { id: 'workers', text: 'Workers' },
  { id: 'memory', text: 'Memory' },
  { id: 'packages', text: 'Packages' },
];
const EMPTY = {
  memory: ['No notes', 'Notes that agents have written for later appear here.'],
  packages: ['No packages', 'Packages that tools have installed from registries appear here.'],
};

export function ToolsScreen() {
  const { parts } = useStore(route);
  const tab = TABS.some(({ id }) => id === parts[0]) ? parts[0] : 'list';
  const id = parts[1] ?? null;
  return html`
    <div class="screen">
      <${Tabs} label="Tools" tabs=${TABS} selected=${tab} onSelect=${(next) => go(href('tools', next === 'list' ? [] : [next]))} />
      ${(tab === 'list' || tab === 'undo') && html`<${ClusterNote} about=${tab === 'undo' ? 'undo' : 'tools'} />`}
      ${tab === 'list' && html`<${ToolList} selected=${id} />`}
      ${tab === 'servers' && html`<${ServerList} />`}
      ${tab === 'sessions' && html`<${SessionList} />`}
      ${tab === 'undo' && html`<${UndoList} selected=${id} />`}
      ${tab === 'workers' && html`<${WorkerList} />`}
      ${tab in EMPTY && html`<${PlainList} key=${tab} name=${tab} />`}
    </div>
  `;
}

function PlainList({ name }) {
  const load = useLoad(name, name);
  const { data } = load;
  const [title, text] = EMPTY[name];
  return html`
    <div class="page-scroll">
      <${LoadState} load=${load} what=${name} />
      ${data && (data.rows?.length ? html`<${PlainTable} label=${name} columns=${data.columns ?? []} rows=${data.rows} />` : html`<${Empty} title=${title}>${text}<//>`)}
    </div>
  `;
}
