/** MCP servers: state, log, start and stop. */
import { html, useEffect, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { oneLine, plural, visible } from '../base/format.js';
import { announce } from '../base/notify.js';
import { adminOnly, isAdmin, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { Empty, ErrorText, RoleNote, Tag } from '../parts/controls.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';

const TONE = { running: 'good', connected: 'good', failed: 'bad', stopped: 'faint', off: 'faint' };

/** Time between two looks at an open log. */
const LOG_MS = 3_000;

export function ServerList() {
  const load = useLoad('servers', 'servers');
  const { data } = load;
  const servers = data?.servers ?? [];
  const person = useStore(session);
  return html`
    <div class="page-scroll">
      ${servers.length > 0 && html`<${RoleNote} text=${adminOnly(person, 'Starting and stopping servers')} />`}
      <${LoadState} load=${load} what="servers" />
      ${data && !servers.length && html`<${Empty} title="No servers">Add one with <code>mimir mcp add NAME -- COMMAND</code>.<//>`}
      ${servers.map((server) => html`<${Server} key=${server.name} server=${server} />`)}
    </div>
  `;
}

function Server({ server: { name, state, transport, tools, error, logs = [], login } }) {
  const person = useStore(session);
  const act = useAction(async (action) => {
    await post(`servers/${segment(name)}/${action}`);
    announce(`${oneLine(name, 40)}: ${action}`);
    emitChange('servers');
  });
  const isRunning = state === 'running' || state === 'connected';
  const isOff = act.isBusy || !isAdmin(person);
  const loginText = typeof login === 'string' ? login : (login?.text ?? login?.state);
  return html`
    <section class="panel" aria-label=${`Server ${oneLine(name, 60)}`}>
      <div class="panel-head">
        <h2><${Name} text=${name} max=${60} strong /></h2>
        <${Tag} tone=${TONE[state] ?? 'warn'}>${oneLine(state, 30)}<//>
        <span class="faint small">${oneLine(transport, 20)}, ${plural(Number(Array.isArray(tools) ? tools.length : (tools ?? 0)), 'tool')}${loginText ? html`; login: <${Name} text=${loginText} />` : ''}</span>
        <span class="spacer"></span>
        ${isRunning
          ? html`<button disabled=${isOff} onClick=${() => act.run('restart')}>Restart</button><button class="danger-quiet" disabled=${isOff} onClick=${() => act.run('stop')}>Stop</button>`
          : html`<button disabled=${isOff} onClick=${() => act.run('start')}>Start</button>`}
      </div>
      ${error && html`<div class="message bad"><${Name} text=${error} max=${600} /></div>`}
      <${ErrorText} error=${act.error} />
      ${logs.length > 0 && html`<${Log} name=${name} logs=${logs} isFirstOpen=${state === 'failed'} />`}
    </section>
  `;
}

/** The end of a log: the newest lines are in sight. While it is open, new lines appear within seconds. */
function Log({ name, logs, isFirstOpen }) {
  const [isOpen, setOpen] = useState(isFirstOpen);
  useEffect(() => {
    const timer = isOpen && setInterval(() => emitChange('servers'), LOG_MS);
    return () => clearInterval(timer);
  }, [isOpen]);
  return html`
    <details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Log, the last ${plural(logs.length, 'line')}</summary>
      <div class="foreign log" tabindex="0" role="group" aria-label=${`Log of ${oneLine(name, 60)}`} translate="no"><div>${visible(logs.map((line) => (typeof line === 'string' ? line : (line.text ?? JSON.stringify(line)))).join('\n'))}</div></div>
    </details>
  `;
}
